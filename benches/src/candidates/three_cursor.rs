//! Our ring with three cursors, `xu_ring::queue::ring`, with a payload of no size: its box allocates nothing.

use xu_abi::{SeqId, XuId, XuType};
use xu_ring::queue::{Observer, Submitter, Worker};

/// The submitting end, and the latest request that it triggered.
pub(crate) struct Submit(Submitter<()>, SeqId);

/// The working end; it also keeps the observing one alive.
pub(crate) struct Work(
    Worker<()>,
    #[expect(dead_code, reason = "kept")] Observer<()>,
);

pub(crate) fn with_capacity(capacity: usize) -> (Submit, Work) {
    let queue = XuId::new(XuType::Compute, 0, 0).expect("there is a first queue");
    // CAST: a capacity fits.
    let ends = xu_ring::queue::ring::<()>(queue, capacity as u64);
    let (submitter, worker, observer) = ends.expect("there is memory");
    let none = submitter.last_submitted();
    (Submit(submitter, none), Work(worker, observer))
}

impl Submit {
    /// False when the ring is full.
    #[inline(always)]
    pub(crate) fn submit(&mut self) -> bool {
        self.0.submit(Box::new(())).is_ok()
    }

    #[inline(always)]
    pub(crate) fn trigger_next(&mut self) {
        // An error says that nothing is held back, which `Check` on the other side would notice.
        if let Ok(seq) = self.0.trigger_next() {
            self.1 = seq;
        }
    }

    /// Whether the latest request that was triggered is complete.
    #[inline(always)]
    pub(crate) fn is_completed(&self) -> bool {
        self.0.is_completed(self.1) == Ok(true)
    }
}

impl Work {
    /// The number, from 0, of the request that is complete now.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<u64> {
        let popped = self.0.pop().ok()?;
        Some(popped.seq.cursor().get() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_stages_in_order() {
        let (mut submit, mut work) = with_capacity(3);
        for number in 0..10 {
            assert!(submit.submit());
            assert_eq!(work.pop(), None, "it is held back");
            submit.trigger_next();
            assert!(!submit.is_completed());
            assert_eq!(work.pop(), Some(number));
            assert!(submit.is_completed());
        }
        assert!((0..3).all(|_| submit.submit()) && !submit.submit());
    }
}
