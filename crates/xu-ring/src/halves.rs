//! The two halves of the algorithm: who moves which cursor, and which slots that gives away.
//!
//! [`SubmitHalf`] is inside [`crate::Submitter`], [`WorkHalf`] inside [`crate::Worker`]; [`split`] makes one of each,
//! and nothing else does. Together with [`crate::memory`], whose ownership rule it keeps, this is all the `unsafe` code
//! of the crate. Rules: spec `xu.md` section 3.

use alloc::boxed::Box;
use core::cell::Cell;
use core::marker::PhantomData;

use xu_abi::{Cursor, SeqId, XuId};

use crate::error::{PeekError, RingError};
use crate::memory::{CHECKED, Memory, Slot};
use crate::mutant::Mutant;
use crate::sync::{AtomicI32, Ordering};
use crate::waiter::Waiter;

/// The two halves, and a handle for observers.
type Parts<T> = (SubmitHalf<T>, WorkHalf<T>, Memory<T>);

/// Makes the memory of a ring and its only two halves.
pub(crate) fn split<T>(xu: XuId, capacity: u64, start: Cursor) -> Result<Parts<T>, RingError> {
    // Number 0 is never issued.
    let start = start.max(Cursor::FIRST).get();
    let memory = Memory::new(xu, capacity, start)?;
    let place = Place {
        cursor: start,
        index: memory.index_of(start),
    };
    let submit = SubmitHalf {
        memory: memory.clone(),
        next_submit: place,
        next_trigger: place,
        room_until: start,
        not_sync: PhantomData,
    };
    let work = WorkHalf {
        memory: memory.clone(),
        next_pop: place,
        visible_until: start,
        not_sync: PhantomData,
    };
    Ok((submit, work, memory))
}

/// A cursor and the index of its slot, which advance together so that nobody divides.
#[derive(Clone, Copy)]
struct Place {
    cursor: u64,
    index: usize,
}

impl Place {
    fn next(self, slot_count: usize) -> Self {
        let index = self.index + 1;
        Self {
            cursor: self.cursor + 1,
            index: if index < slot_count { index } else { 0 },
        }
    }
}

/// Fills slots and gives them to the work half.
pub(crate) struct SubmitHalf<T> {
    memory: Memory<T>,
    /// Equal to `submitted` in memory.
    next_submit: Place,
    /// Equal to `triggered` in memory, and at most `next_submit`.
    next_trigger: Place,
    /// Slots below this cursor are free or ours, by what was last seen of `completed`.
    room_until: u64,
    /// A shared half would let two threads read one payload, which needs `T: Sync`.
    not_sync: PhantomData<Cell<()>>,
}

impl<T> SubmitHalf<T> {
    pub(crate) fn memory(&self) -> &Memory<T> {
        &self.memory
    }

    /// The number that the next request gets.
    #[inline]
    pub(crate) fn submitted(&self) -> u64 {
        self.next_submit.cursor
    }

    /// Whether all numbers are issued.
    #[inline]
    pub(crate) fn is_exhausted(&self) -> bool {
        self.next_submit.cursor > Cursor::LAST.get()
    }

    /// Puts a request into the next slot and publishes it; gives it back when there is no room or no number left.
    #[inline]
    pub(crate) fn submit(
        &mut self,
        item: Box<T>,
        status: *const AtomicI32,
    ) -> Result<SeqId, Box<T>> {
        if self.next_submit.cursor >= self.room_until && !self.look_for_room() {
            return Err(item);
        }
        let seq = self.memory.seq(self.next_submit.cursor);
        // PANIC: an index is less than the number of slots, see `Place::next`.
        let slot = &self.memory.slots()[self.next_submit.index];
        let next = self.next_submit.next(self.memory.slots().len());
        if Mutant::PublishBeforeBody.is_seeded() {
            // SAFETY: a fault on purpose, in models only.
            unsafe { self.memory.publish_submitted(next.cursor) };
        }
        // Relaxed, both: whoever looks at the slot learnt of it through a cursor that is published below.
        slot.seq.store(seq.raw(), Ordering::Relaxed);
        if !Mutant::WaiterNotReset.is_seeded() {
            slot.waiter.store(Waiter::NO_WAITER, Ordering::Relaxed);
        }
        // SAFETY: `submitted <= cursor < completed + capacity`: free, so ours by the ownership rule.
        slot.status.with_mut(|cell| unsafe { cell.write(status) });
        // SAFETY: as above; a free slot's `item` is `None`, so nothing is overwritten that would need dropping.
        slot.item.with_mut(|cell| unsafe { cell.write(Some(item)) });
        // SAFETY: we are the submit half, this is the next cursor, and its slot is written.
        unsafe { self.memory.publish_submitted(next.cursor) };
        self.next_submit = next;
        Ok(seq)
    }

    /// Reads the completed cursor again, and says whether there is room for one request now.
    #[cold]
    fn look_for_room(&mut self) -> bool {
        let mut capacity = self.memory.capacity();
        if Mutant::FullOffByOne.is_seeded() {
            capacity += 1;
        }
        // Does not overflow: a cursor has 48 bits, and 2^59 slots would not fit the address space.
        let room_until = self.memory.completed_for_submitter() + capacity;
        self.room_until = room_until.min(Cursor::LAST.get() + 1);
        self.next_submit.cursor < self.room_until
    }

    /// The oldest request that is held back: its sequence, status address and payload.
    pub(crate) fn next_trigger(&self) -> Result<(SeqId, *const AtomicI32, &T), PeekError> {
        if self.next_trigger.cursor == self.next_submit.cursor {
            return Err(PeekError::Empty);
        }
        let expected = self.memory.seq(self.next_trigger.cursor);
        // PANIC: an index is less than the number of slots, see `Place::next`.
        let slot = &self.memory.slots()[self.next_trigger.index];
        slot.verify(expected)?;
        // SAFETY: `triggered <= cursor < submitted`: held back, so ours by the ownership rule.
        let status = slot.status.with(|cell| unsafe { *cell });
        // SAFETY: as above. It stays ours, and unwritten, while `self` is borrowed: giving it away needs `&mut self`.
        let item = slot.item.with(|cell| unsafe { (*cell).as_deref() });
        match item {
            Some(item) => Ok((expected, status, item)),
            // A slot that is held back has its payload, unless something wrote over it.
            None => Err(PeekError::Corrupt {
                expected,
                found: slot.seq(),
            }),
        }
    }

    /// Gives the oldest request that is held back to the work half.
    #[inline]
    pub(crate) fn trigger_next(&mut self) -> Result<SeqId, PeekError> {
        if self.next_trigger.cursor == self.next_submit.cursor {
            return Err(PeekError::Empty);
        }
        let seq = self.memory.seq(self.next_trigger.cursor);
        // PANIC: an index is less than the number of slots, see `Place::next`.
        self.memory.slots()[self.next_trigger.index].verify(seq)?;
        self.move_trigger(self.next_trigger.next(self.memory.slots().len()));
        Ok(seq)
    }

    /// Gives every request that is held back to the work half at once, and says how many.
    pub(crate) fn trigger_all(&mut self) -> Result<u64, PeekError> {
        let held_back = self.next_submit.cursor - self.next_trigger.cursor;
        if CHECKED {
            let slots = self.memory.slots();
            let mut place = self.next_trigger;
            while place.cursor < self.next_submit.cursor {
                // PANIC: an index is less than the number of slots, see `Place::next`.
                slots[place.index].verify(self.memory.seq(place.cursor))?;
                place = place.next(slots.len());
            }
        }
        if held_back > 0 {
            self.move_trigger(self.next_submit);
        }
        Ok(held_back)
    }

    /// `to` must be between `next_trigger` and `next_submit`.
    #[inline]
    fn move_trigger(&mut self, to: Place) {
        debug_assert!(to.cursor <= self.next_submit.cursor);
        // SAFETY: we are the submit half, and `to` is one of the two callers' cursors, neither of which is after
        //   `submitted`; what lies before it is written, and not touched by us again until it is completed.
        unsafe { self.memory.publish_triggered(to.cursor) };
        self.next_trigger = to;
    }
}

/// What a slot held when its request was popped.
pub(crate) struct Captured<T> {
    pub(crate) seq: SeqId,
    pub(crate) status: *const AtomicI32,
    pub(crate) waiter: Option<Waiter>,
    pub(crate) item: Option<Box<T>>,
}

/// Empties slots and gives them back to the submit half.
pub(crate) struct WorkHalf<T> {
    memory: Memory<T>,
    /// Equal to `completed` in memory.
    next_pop: Place,
    /// Slots below this cursor are ours, by what was last seen of `triggered`.
    visible_until: u64,
    /// As in the other half: neither needs `T: Sync`.
    not_sync: PhantomData<Cell<()>>,
}

impl<T> WorkHalf<T> {
    pub(crate) fn memory(&self) -> &Memory<T> {
        &self.memory
    }

    /// The first request that is not complete.
    #[inline]
    pub(crate) fn completed(&self) -> u64 {
        self.next_pop.cursor
    }

    /// Finds out whether a request is in flight, and which.
    #[inline]
    fn find_current(&mut self) -> Result<SeqId, PeekError> {
        if self.next_pop.cursor == self.visible_until {
            self.visible_until = self.memory.triggered_for_worker();
            if self.next_pop.cursor == self.visible_until {
                return Err(PeekError::Empty);
            }
        }
        let seq = self.memory.seq(self.next_pop.cursor);
        self.current_slot().verify(seq)?;
        Ok(seq)
    }

    #[inline]
    fn current_slot(&self) -> &Slot<T> {
        // PANIC: an index is less than the number of slots, see `Place::next`.
        &self.memory.slots()[self.next_pop.index]
    }

    /// The current request: its sequence, status address and payload, which is `None` once it was taken.
    #[inline]
    pub(crate) fn current(
        &mut self,
    ) -> Result<(SeqId, *const AtomicI32, &mut Option<Box<T>>), PeekError> {
        let seq = self.find_current()?;
        let slot = self.current_slot();
        // SAFETY: `completed <= cursor < triggered`: in flight, so ours by the ownership rule.
        let status = slot.status.with(|cell| unsafe { *cell });
        // SAFETY: as above; the borrow of `self` keeps it ours, and keeps out another borrow of it.
        let item = slot.item.with_mut(|cell| unsafe { &mut *cell });
        Ok((seq, status, item))
    }

    /// Takes everything out of the current slot, then publishes that its request is complete.
    #[inline]
    pub(crate) fn pop(&mut self) -> Result<Captured<T>, PeekError> {
        let seq = self.find_current()?;
        let slot = self.current_slot();
        let next = self.next_pop.next(self.memory.slots().len());
        // SAFETY: `completed <= cursor < triggered`: in flight, so ours by the ownership rule.
        let status = slot.status.with(|cell| unsafe { *cell });
        // SAFETY: as above.
        let item = slot.item.with_mut(|cell| unsafe { (*cell).take() });
        if Mutant::CaptureAfterPop.is_seeded() {
            // SAFETY: a fault on purpose, in models only.
            unsafe { self.memory.publish_completed(next.cursor) };
        }
        // Relaxed: the caller's lock orders it after the waiter's installation, and `triggered` after its reset.
        let waiter = Waiter::from_word(slot.waiter.load(Ordering::Relaxed));
        // SAFETY: we are the work half, this is the next cursor, and its slot was in flight and is now empty.
        unsafe { self.memory.publish_completed(next.cursor) };
        self.next_pop = next;
        Ok(Captured {
            seq,
            status,
            waiter,
            item,
        })
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    const XU: XuId = XuId::from_raw(0x0301);

    // A release build does not look, unless it is asked to.
    #[cfg(any(debug_assertions, feature = "checked"))]
    #[test]
    fn corrupt_slots_are_refused_and_nothing_moves() {
        let (mut submit, mut work, _) = split(XU, 2, Cursor::FIRST).unwrap();
        for number in 1..=2 {
            submit.submit(Box::new(number), core::ptr::null()).unwrap();
        }
        let foreign = SeqId::new(XuId::from_raw(0x0401), Cursor::FIRST);
        let slot = |memory: &Memory<u32>, seq: SeqId| {
            memory.slots()[1].seq.store(seq.raw(), Ordering::Relaxed);
        };
        let expected = SeqId::new(XU, Cursor::FIRST);
        let corrupt = PeekError::Corrupt {
            expected,
            found: foreign,
        };

        slot(submit.memory(), foreign);
        assert_eq!(submit.next_trigger().unwrap_err(), corrupt);
        assert_eq!(submit.trigger_next(), Err(corrupt));
        assert_eq!(submit.trigger_all(), Err(corrupt));
        assert_eq!(submit.memory().triggered_for_observer(), 1);

        slot(submit.memory(), expected);
        assert_eq!(submit.trigger_all(), Ok(2));
        slot(submit.memory(), foreign);
        assert_eq!(work.current().unwrap_err(), corrupt);
        assert_eq!(work.pop().err(), Some(corrupt));
        assert_eq!(work.memory().completed_for_observer(), 1);

        slot(submit.memory(), expected);
        assert_eq!(work.pop().map(|captured| captured.seq), Ok(expected));
    }

    #[test]
    fn index_follows_the_cursor_without_dividing() {
        for slot_count in [1_usize, 2, 3, 7] {
            let (submit, _, memory) = split::<u32>(XU, slot_count as u64, Cursor::FIRST).unwrap();
            let mut place = submit.next_submit;
            for _ in 0..20 {
                assert_eq!(place.index, memory.index_of(place.cursor));
                place = place.next(slot_count);
            }
        }
    }
}
