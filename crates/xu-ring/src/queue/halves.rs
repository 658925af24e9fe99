//! The two halves of the algorithm: who moves which cursor and stage, and which slots that gives away.
//!
//! [`SubmitHalf`] is inside [`super::Submitter`], [`WorkHalf`] inside [`super::Worker`]; [`split`] makes one of each,
//! and nothing else does. Together with [`super::memory`], whose ownership rule it keeps, this is all the `unsafe` code
//! that touches a payload. Rules: spec `xu.md` section 3.

use alloc::boxed::Box;
use core::cell::Cell;
use core::marker::PhantomData;
use core::ptr;

use xu_abi::{Cursor, SeqId, XuId};

use super::error::{PeekError, RingError};
use super::home::Home;
use super::memory::{CHECKED, Memory, Slot};
use super::worker::Popped;
use crate::mutant::Mutant;
use crate::sync::{AtomicI32, Ordering};

/// The two halves, and a handle for observers.
type Parts<T> = (SubmitHalf<T>, WorkHalf<T>, Memory<T>);

/// Makes the memory of a ring, with its header in `home` if there is one, and its only two halves.
pub(super) fn split<T>(
    xu: XuId,
    capacity: u64,
    start: Cursor,
    home: Option<Home>,
) -> Result<Parts<T>, RingError> {
    // Number 0 is never issued.
    let start = start.max(Cursor::FIRST).get();
    let memory = Memory::new(xu, capacity, start, home)?;
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
    #[inline]
    fn next(self, slot_count: usize) -> Self {
        let index = self.index + 1;
        Self {
            cursor: self.cursor + 1,
            index: if index < slot_count { index } else { 0 },
        }
    }

    /// The index `distance` slots before this one, at most one lap.
    #[inline]
    fn index_before(self, distance: usize, slot_count: usize) -> usize {
        match self.index.checked_sub(distance) {
            Some(index) => index,
            None => self.index + (slot_count - distance),
        }
    }
}

/// Fills slots and gives them to the work half.
pub(super) struct SubmitHalf<T> {
    memory: Memory<T>,
    /// Equal to `submitted` in memory, and ahead of it while a batch is under way.
    next_submit: Place,
    /// Equal to `triggered` in memory, and at most `submitted` there.
    next_trigger: Place,
    /// Slots below this cursor are free or ours, by what was last seen of `completed`.
    room_until: u64,
    /// A shared half would let two threads read one payload, which needs `T: Sync`.
    not_sync: PhantomData<Cell<()>>,
}

impl<T> SubmitHalf<T> {
    pub(super) fn memory(&self) -> &Memory<T> {
        &self.memory
    }

    /// The number that the next request gets.
    #[inline]
    pub(super) fn submitted(&self) -> u64 {
        self.next_submit.cursor
    }

    /// Whether all numbers are issued.
    #[inline]
    pub(super) fn is_exhausted(&self) -> bool {
        self.next_submit.cursor > Cursor::LAST.get()
    }

    /// Puts a request into the next slot and publishes it; gives it back when there is no room or no number left.
    #[inline]
    pub(super) fn submit(
        &mut self,
        item: Box<T>,
        status: *const AtomicI32,
    ) -> Result<SeqId, Box<T>> {
        let Some(mut free) = self.free_slot() else {
            return Err(item);
        };
        if Mutant::PublishBeforeBody.is_seeded() {
            free.publish_too_early();
        }
        let seq = free.fill(item, status);
        self.publish_submitted();
        Ok(seq)
    }

    /// Submits what `items` yields, as long as there is room and a number for one more, and publishes it all at once.
    ///
    /// Returns how many that were; `None` when there was nothing for the first.
    pub(super) fn submit_batch(&mut self, mut items: impl Iterator<Item = Box<T>>) -> Option<u64> {
        let first = self.next_submit.cursor;
        self.free_slot()?;
        // Publishes what is written when this function returns or unwinds: `next` is foreign code.
        let batch = Unpublished(self);
        while let Some(mut free) = batch.0.free_slot() {
            let Some(item) = items.next() else {
                break;
            };
            if Mutant::BatchBeforeBody.is_seeded() {
                free.publish_too_early();
            }
            free.fill(item, ptr::null());
        }
        Some(batch.0.next_submit.cursor - first)
    }

    /// Whether the next slot is free and has a number.
    #[inline]
    pub(super) fn has_room(&mut self) -> bool {
        self.next_submit.cursor < self.room_until || self.look_for_room()
    }

    /// The next slot, if it is free and has a number.
    #[inline]
    fn free_slot(&mut self) -> Option<Free<'_, T>> {
        if self.has_room() {
            Some(Free(self))
        } else {
            None
        }
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

    #[inline]
    fn publish_submitted(&mut self) {
        // SAFETY: we are the submit half, whose cursor only grows, and `Free::fill` moved it past slots that it wrote.
        unsafe { self.memory.publish_submitted(self.next_submit.cursor) };
    }

    /// Whether the worker is done with the request of `cursor`, which must be an issued one.
    #[inline]
    pub(super) fn is_completed(&self, cursor: u64) -> bool {
        let slots = self.memory.slots();
        let distance = self.next_submit.cursor - cursor;
        let mut lap = self.memory.capacity();
        if Mutant::LapOffByOne.is_seeded() {
            lap -= 1;
        }
        if distance > lap {
            // Its slot has been filled again, for which we acquired a `completed` that is past it.
            return true;
        }
        // CAST: at most the number of slots.
        let index = self
            .next_submit
            .index_before(distance as usize, slots.len());
        // PANIC: an index is less than the number of slots, since the distance is at most that and not 0.
        slots[index].is_done()
    }

    /// The oldest request that is held back: its sequence, status address and payload.
    pub(super) fn next_trigger(&self) -> Result<(SeqId, *const AtomicI32, &T), PeekError> {
        if self.next_trigger.cursor == self.next_submit.cursor {
            return Err(PeekError::Empty);
        }
        let expected = self.memory.seq(self.next_trigger.cursor);
        // PANIC: an index is less than the number of slots, see `Place::next`.
        let slot = &self.memory.slots()[self.next_trigger.index];
        slot.verify(expected)?;
        // SAFETY: `next_trigger <= cursor < next_submit`: held back, so ours by the ownership rule.
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
    pub(super) fn trigger_next(&mut self) -> Result<SeqId, PeekError> {
        if self.next_trigger.cursor == self.next_submit.cursor {
            return Err(PeekError::Empty);
        }
        let seq = self.memory.seq(self.next_trigger.cursor);
        // PANIC: an index is less than the number of slots, see `Place::next`.
        self.memory.slots()[self.next_trigger.index].verify(seq)?;
        self.trigger_until(self.next_trigger.cursor + 1);
        Ok(seq)
    }

    /// Gives every request that is held back to the work half, and says how many.
    pub(super) fn trigger_all(&mut self) -> Result<u64, PeekError> {
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
            self.trigger_until(self.next_submit.cursor);
        }
        Ok(held_back)
    }

    /// Moves the triggered cursor to `end`, which must be between `next_trigger` and `next_submit`, and then gives away
    /// the slots that it passed, oldest first.
    #[inline]
    fn trigger_until(&mut self, end: u64) {
        debug_assert!(end <= self.next_submit.cursor);
        if !Mutant::StageBeforeTriggered.is_seeded() {
            // SAFETY: we are the submit half, and `end` is one of the two callers' cursors, neither of which is after
            //   `submitted`.
            unsafe { self.memory.publish_triggered(end) };
        }
        let slots = self.memory.slots();
        while self.next_trigger.cursor < end {
            // PANIC: an index is less than the number of slots, see `Place::next`.
            let slot = &slots[self.next_trigger.index];
            // SAFETY: `next_trigger <= cursor < next_submit`: held back and written, `triggered` was moved above, and from
            //   here on `next_trigger` keeps us away from it.
            unsafe { slot.trigger() };
            self.next_trigger = self.next_trigger.next(slots.len());
        }
        if Mutant::StageBeforeTriggered.is_seeded() {
            // SAFETY: a fault on purpose, in models only.
            unsafe { self.memory.publish_triggered(end) };
        }
    }
}

/// The slot at `next_submit` of a submit half, which is free and has a number.
struct Free<'a, T>(&'a mut SubmitHalf<T>);

impl<T> Free<'_, T> {
    /// Writes a request into the slot. It is held back then, and not published yet.
    #[inline]
    fn fill(self, item: Box<T>, status: *const AtomicI32) -> SeqId {
        let half = self.0;
        let place = half.next_submit;
        let seq = half.memory.seq(place.cursor);
        let slots = half.memory.slots();
        // PANIC: an index is less than the number of slots, see `Place::next`.
        let slot = &slots[place.index];
        // SAFETY: `submitted <= cursor < completed + capacity`: free, so ours by the ownership rule.
        unsafe { slot.hold(seq) };
        // SAFETY: as above.
        slot.status.with_mut(|cell| unsafe { cell.write(status) });
        // SAFETY: as above; a free slot's `item` is `None`, so nothing is overwritten that would need dropping.
        slot.item.with_mut(|cell| unsafe { cell.write(Some(item)) });
        half.next_submit = place.next(slots.len());
        seq
    }

    fn publish_too_early(&mut self) {
        let half = &self.0;
        // SAFETY: a fault on purpose, in models only.
        unsafe { half.memory.publish_submitted(half.next_submit.cursor + 1) };
    }
}

/// A batch under way. It publishes what is written however it ends.
struct Unpublished<'a, T>(&'a mut SubmitHalf<T>);

impl<T> Drop for Unpublished<'_, T> {
    fn drop(&mut self) {
        self.0.publish_submitted();
    }
}

/// Empties slots and gives them back to the submit half.
pub(super) struct WorkHalf<T> {
    memory: Memory<T>,
    /// Equal to `completed` in memory, and ahead of it while a batch is under way.
    next_pop: Place,
    /// As in the other half: neither needs `T: Sync`.
    not_sync: PhantomData<Cell<()>>,
}

impl<T> WorkHalf<T> {
    pub(super) fn memory(&self) -> &Memory<T> {
        &self.memory
    }

    /// The first request that is not complete.
    #[inline]
    pub(super) fn completed(&self) -> u64 {
        self.next_pop.cursor
    }

    /// Finds out whether a request is in flight, and which.
    #[inline]
    fn find_current(&self) -> Result<(SeqId, &Slot<T>), PeekError> {
        let (seq, slot) = self.find_unverified()?;
        slot.verify(seq)?;
        Ok((seq, slot))
    }

    /// As [`WorkHalf::find_current`], whatever number is in the slot: the stage alone says whose it is.
    #[inline]
    fn find_unverified(&self) -> Result<(SeqId, &Slot<T>), PeekError> {
        // PANIC: an index is less than the number of slots, see `Place::next`.
        let slot = &self.memory.slots()[self.next_pop.index];
        if !slot.is_triggered() {
            return Err(PeekError::Empty);
        }
        Ok((self.memory.seq(self.next_pop.cursor), slot))
    }

    /// Makes the current slot that of its cursor, whatever it says.
    pub(super) fn repair(&self) -> Result<SeqId, PeekError> {
        let (seq, slot) = self.find_unverified()?;
        // Relaxed: in flight, so nobody but this half and those who watch looks at it.
        slot.seq.store(seq.raw(), Ordering::Relaxed);
        Ok(seq)
    }

    /// The current request: its sequence, status address and payload, which is `None` once it was taken.
    #[inline]
    pub(super) fn current(
        &mut self,
    ) -> Result<(SeqId, *const AtomicI32, &mut Option<Box<T>>), PeekError> {
        let (seq, slot) = self.find_current()?;
        // SAFETY: acquired as triggered, at our cursor: in flight, so ours by the ownership rule.
        let status = slot.status.with(|cell| unsafe { *cell });
        // SAFETY: as above; the borrow of `self` keeps it ours, and keeps out another borrow of it.
        let item = slot.item.with_mut(|cell| unsafe { &mut *cell });
        Ok((seq, status, item))
    }

    /// Fetches the payload of the request behind the current one, if it is in flight, without waiting for it.
    #[inline]
    pub(super) fn prefetch_next(&self) {
        let slots = self.memory.slots();
        let next = self.next_pop.next(slots.len());
        // PANIC: an index is less than the number of slots, see `Place::next`.
        let slot = &slots[next.index];
        if slots.len() > 1 && slot.is_triggered() {
            // SAFETY: acquired as triggered. With more than one slot this is not the current one, so the stage is that of
            //   the request behind it: in flight, so ours by the ownership rule.
            let item = slot
                .item
                .with(|cell| unsafe { (*cell).as_deref().map(ptr::from_ref) });
            if let Some(item) = item {
                crate::prefetch::for_reading(item);
            }
        }
    }

    /// Takes everything out of the current slot, then publishes that its request is complete.
    #[inline]
    pub(super) fn pop(&mut self) -> Result<Popped<T>, PeekError> {
        let place = self.next_pop;
        let popped = self.capture()?;
        self.publish_completed();
        if Mutant::DoneAfterCompleted.is_seeded() {
            // SAFETY: a fault on purpose, in models only.
            unsafe { self.memory.slots()[place.index].finish() };
        }
        Ok(popped)
    }

    /// Pops up to `max` requests, one at each call of `next`, and publishes them all at once when it is dropped.
    #[inline]
    pub(super) fn batch(&mut self, max: usize) -> Batch<'_, T> {
        Batch {
            half: self,
            left: max,
            captured: 0,
            error: None,
        }
    }

    /// Takes everything out of the current slot and passes it, without publishing that.
    #[inline]
    fn capture(&mut self) -> Result<Popped<T>, PeekError> {
        let (seq, slot) = self.find_current()?;
        let next = self.next_pop.next(self.memory.slots().len());
        // SAFETY: acquired as triggered, at our cursor: in flight, so ours by the ownership rule.
        let status = slot.status.with(|cell| unsafe { *cell });
        // SAFETY: as above.
        let item = slot.item.with_mut(|cell| unsafe { (*cell).take() });
        if Mutant::CaptureAfterPop.is_seeded() {
            // SAFETY: a fault on purpose, in models only.
            unsafe { self.memory.publish_completed(next.cursor) };
        }
        let waiter = slot.waiter();
        if !Mutant::DoneAfterCompleted.is_seeded() && !Mutant::NeverDone.is_seeded() {
            // SAFETY: we are the work half, and the slot was in flight and is empty now.
            unsafe { slot.finish() };
        }
        self.next_pop = next;
        Ok(Popped {
            seq,
            status,
            waiter,
            item,
        })
    }

    #[inline]
    fn publish_completed(&mut self) {
        // SAFETY: we are the work half, whose cursor only grows, and `capture` moved it past slots that are done.
        unsafe { self.memory.publish_completed(self.next_pop.cursor) };
    }
}

/// Pops in one go. What was captured is published however this ends: the caller's code runs between two captures.
pub(super) struct Batch<'a, T> {
    half: &'a mut WorkHalf<T>,
    left: usize,
    captured: usize,
    error: Option<PeekError>,
}

impl<T> Batch<'_, T> {
    /// Publishes, and says how many requests that completed; an error, if it is what prevented the first.
    pub(super) fn finish(mut self) -> Result<usize, PeekError> {
        match self.error.take() {
            Some(error) if self.captured == 0 => Err(error),
            _ => Ok(self.captured),
        }
    }
}

impl<T> Iterator for Batch<'_, T> {
    type Item = Popped<T>;

    #[inline]
    fn next(&mut self) -> Option<Popped<T>> {
        if self.left == 0 {
            return None;
        }
        if Mutant::BatchBeforeCapture.is_seeded() && self.half.find_current().is_ok() {
            // SAFETY: a fault on purpose, in models only.
            unsafe {
                self.half
                    .memory
                    .publish_completed(self.half.next_pop.cursor + 1)
            };
        }
        match self.half.capture() {
            Ok(popped) => {
                self.left -= 1;
                self.captured += 1;
                Some(popped)
            }
            Err(PeekError::Empty) => None,
            Err(error) => {
                self.error = Some(error);
                None
            }
        }
    }
}

impl<T> Drop for Batch<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.captured > 0 {
            self.half.publish_completed();
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const XU: XuId = XuId::from_raw(0x0301);

    // A release build does not look, unless it is asked to.
    #[cfg(any(debug_assertions, feature = "checked"))]
    #[test]
    fn corrupt_slots_are_refused_and_nothing_moves() {
        let (mut submit, mut work, _) = split(XU, 2, Cursor::FIRST, None).unwrap();
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
        let mut batch = work.batch(2);
        assert!(batch.next().is_none());
        assert_eq!(batch.finish(), Err(corrupt));
        assert_eq!(work.memory().completed_for_observer(), 1);

        slot(submit.memory(), expected);
        assert_eq!(work.pop().map(|popped| popped.seq), Ok(expected));
    }

    // As above.
    #[cfg(any(debug_assertions, feature = "checked"))]
    #[test]
    fn corrupt_slot_ends_a_batch_and_is_the_error_of_the_next() {
        let (mut submit, mut work, memory) = split(XU, 3, Cursor::FIRST, None).unwrap();
        assert_eq!(submit.submit_batch((1..=3).map(Box::new)), Some(3));
        assert_eq!(submit.trigger_all(), Ok(3));
        memory.slots()[0].seq.store(0, Ordering::Relaxed);
        let mut batch = work.batch(5);
        assert_eq!(batch.by_ref().count(), 2);
        assert_eq!(batch.finish(), Ok(2));
        assert_eq!(memory.completed_for_observer(), 3);
        let batch = work.batch(5).finish();
        assert_eq!(batch, Ok(0), "nobody looked");
        let mut batch = work.batch(5);
        assert_eq!(batch.by_ref().count(), 0);
        let expected = memory.seq(3);
        let found = SeqId::from_raw(0);
        assert_eq!(batch.finish(), Err(PeekError::Corrupt { expected, found }));

        assert_eq!(work.repair(), Ok(expected));
        assert_eq!(work.pop().map(|popped| popped.item), Ok(Some(Box::new(3))));
    }

    #[test]
    fn batch_is_published_at_its_end() {
        let (mut submit, mut work, memory) = split(XU, 3, Cursor::FIRST, None).unwrap();
        let cursors = || {
            (
                memory.completed_for_observer(),
                memory.submitted_for_observer(),
            )
        };
        let items = (1..=5).map(|number| {
            assert_eq!(cursors(), (1, 1));
            Box::new(number)
        });
        assert_eq!(submit.submit_batch(items), Some(3));
        assert_eq!(cursors(), (1, 4));
        submit.trigger_all().unwrap();
        let mut batch = work.batch(5);
        let numbers: Vec<_> = batch
            .by_ref()
            .map(|popped| popped.seq.cursor().get())
            .collect();
        assert_eq!(numbers, [1, 2, 3]);
        // The submit half knows, and has no room yet.
        assert!((1..=3).all(|cursor| submit.is_completed(cursor)));
        assert_eq!(submit.submit_batch([4].map(Box::new).into_iter()), None);
        assert_eq!(cursors(), (1, 4));
        assert_eq!(batch.finish(), Ok(3));
        assert_eq!(cursors(), (4, 4));
    }

    #[test]
    fn index_follows_the_cursor_without_dividing() {
        for slot_count in [1_usize, 2, 3, 7] {
            let (submit, _, memory) =
                split::<u32>(XU, slot_count as u64, Cursor::FIRST, None).unwrap();
            let mut place = submit.next_submit;
            for _ in 0..20 {
                assert_eq!(place.index, memory.index_of(place.cursor));
                for distance in 1..=slot_count.min(place.cursor as usize) {
                    let before = place.cursor - distance as u64;
                    let index = place.index_before(distance, slot_count);
                    assert_eq!(index, memory.index_of(before));
                }
                place = place.next(slot_count);
            }
        }
    }
}
