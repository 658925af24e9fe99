//! The control: a three-cursor ring as one might write it without thinking of caches.
//!
//! Every cursor moves by `fetch_add` with `SeqCst`, all three lie on one line, nobody keeps a copy of a cursor, and a
//! slot is found by division. It is our own, and safe: slots are atomics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Default)]
struct Slot {
    number: AtomicU64,
    payload: [AtomicU64; 3],
}

struct Ring {
    submitted: AtomicU64,
    triggered: AtomicU64,
    completed: AtomicU64,
    slots: Box<[Slot]>,
}

/// Either end.
#[derive(Clone)]
pub(crate) struct Naive(Arc<Ring>);

impl Naive {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self(Arc::new(Ring {
            submitted: AtomicU64::new(0),
            triggered: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            slots: (0..capacity).map(|_| Slot::default()).collect(),
        }))
    }

    /// The slot of a cursor.
    #[inline(always)]
    fn slot(&self, cursor: u64) -> &Slot {
        let slots = &self.0.slots;
        // CAST: what is left is less than the number of slots.
        &slots[(cursor % slots.len() as u64) as usize]
    }

    /// False when the ring is full.
    #[inline(always)]
    pub(crate) fn submit(&self, payload: [u64; 3]) -> bool {
        // PAIRS: every access to a cursor is `SeqCst`: that is the point of this control.
        let next = self.0.submitted.load(Ordering::SeqCst);
        // PAIRS: as above.
        if next - self.0.completed.load(Ordering::SeqCst) >= self.0.slots.len() as u64 {
            return false;
        }
        let slot = self.slot(next);
        for (word, value) in slot.payload.iter().zip(payload) {
            word.store(value, Ordering::Relaxed);
        }
        slot.number.store(next, Ordering::Relaxed);
        // PAIRS: as above.
        self.0.submitted.fetch_add(1, Ordering::SeqCst);
        true
    }

    #[inline(always)]
    pub(crate) fn trigger_next(&self) {
        // PAIRS: with the load in `pop`.
        self.0.triggered.fetch_add(1, Ordering::SeqCst);
    }

    /// The number and the payload of the oldest triggered request, which is complete now.
    #[inline(always)]
    pub(crate) fn pop(&self) -> Option<(u64, [u64; 3])> {
        // PAIRS: as in `submit`.
        let next = self.0.completed.load(Ordering::SeqCst);
        // PAIRS: with `trigger_next`.
        if next == self.0.triggered.load(Ordering::SeqCst) {
            return None;
        }
        let slot = self.slot(next);
        let payload = slot
            .payload
            .each_ref()
            .map(|word| word.load(Ordering::Relaxed));
        let number = slot.number.load(Ordering::Relaxed);
        // PAIRS: with the load in `submit`.
        self.0.completed.fetch_add(1, Ordering::SeqCst);
        Some((number, payload))
    }

    /// Whether everything that was submitted is complete.
    #[inline(always)]
    pub(crate) fn is_completed(&self) -> bool {
        // PAIRS: as in `submit`.
        let completed = self.0.completed.load(Ordering::SeqCst);
        // PAIRS: as in `submit`.
        completed == self.0.submitted.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_stages_in_order() {
        let ring = Naive::with_capacity(3);
        for number in 0..10 {
            assert!(ring.submit([number, 1, 2]));
            assert_eq!(ring.pop(), None, "it is held back");
            ring.trigger_next();
            assert!(!ring.is_completed());
            assert_eq!(ring.pop(), Some((number, [number, 1, 2])));
            assert!(ring.is_completed());
        }
        assert!((0..3).all(|_| ring.submit([0; 3])) && !ring.submit([0; 3]));
    }
}
