//! The working end: look at the oldest triggered request, take its payload, complete it.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use core::fmt;

use xu_abi::{SeqId, XuId};

use super::error::PeekError;
use super::halves::WorkHalf;
use super::waiter::Waiter;
use crate::sync::AtomicI32;

/// The end that completes requests, in the order of their submission.
///
/// There is one per ring, and it is `Send`, not `Clone` and not `Sync`. A request goes through three calls: as many
/// [`Worker::peek`] as its progress takes, one [`Worker::take`], one [`Worker::pop`]. Who has many that are ready at once
/// completes them with [`Worker::pop_batch`].
///
/// ```compile_fail,E0499
/// let ring = xu_ring::queue::ring::<u32>(xu_abi::XuId::from_raw(1), 8).unwrap();
/// let (submitter, mut worker, observer) = ring;
/// let first = worker.peek();
/// let second = worker.peek(); // Two mutable views of one slot.
/// drop((first, second));
/// ```
///
/// ```compile_fail,E0505
/// let ring = xu_ring::queue::ring::<u32>(xu_abi::XuId::from_raw(1), 8).unwrap();
/// let (submitter, mut worker, observer) = ring;
/// let current = worker.peek();
/// drop(worker); // A view does not outlive the end that it came from.
/// drop(current);
/// ```
///
/// ```compile_fail,E0277
/// // With a payload that is bound to its thread, this end does not leave the thread either.
/// fn is_send<T: Send>() {}
/// is_send::<xu_ring::queue::Worker<std::rc::Rc<u32>>>();
/// ```
pub struct Worker<T> {
    half: WorkHalf<T>,
}

impl<T> Worker<T> {
    pub(super) const fn new(half: WorkHalf<T>) -> Self {
        Self { half }
    }

    /// Looks at the current request: the oldest that is triggered and not completed.
    ///
    /// # Errors
    /// [`PeekError::Empty`] when every triggered request is complete; [`PeekError::Corrupt`] in checked builds.
    #[inline]
    pub fn peek(&mut self) -> Result<Current<'_, T>, PeekError> {
        let (seq, status, item) = self.half.current()?;
        Ok(Current { seq, status, item })
    }

    /// Writes over the number in the current slot with the one that belongs there, and returns it: for who has got
    /// [`PeekError::Corrupt`], will not trust this ring again, and wants the payloads that are in flight nevertheless.
    ///
    /// # Errors
    /// [`PeekError::Empty`] when no request is in flight.
    pub fn repair(&mut self) -> Result<SeqId, PeekError> {
        self.half.repair()
    }

    /// Asks the processor for the payload of the request behind the current one, if there is one, and does not wait for it.
    ///
    /// For who is about to complete the current request: meanwhile the next one's payload comes from the submitter's cache.
    #[inline]
    pub fn prefetch_next(&self) {
        self.half.prefetch_next();
    }

    /// Takes the payload of the current request, which stays current; `None` when it was taken before.
    ///
    /// The worker frees what the submitter allocated: take and drop the payload *before* [`Worker::pop`], so that
    /// whoever sees the completion also sees everything released.
    ///
    /// # Errors
    /// As [`Worker::peek`].
    #[inline]
    pub fn take(&mut self) -> Result<Option<Box<T>>, PeekError> {
        let (_, _, item) = self.half.current()?;
        Ok(item.take())
    }

    /// Completes the current request, and returns what its slot held, which is read before the completion is visible.
    ///
    /// Everything that this thread did before, the writing of the status above all, is visible to whoever sees the
    /// completion. The submitter may use the slot again before this call returns.
    ///
    /// Where waiters are used, call this while holding the unit's `mark_comp_lock`, as
    /// [`Observer::install_waiter`](super::Observer::install_waiter) must be; signal [`Popped::waiter`] afterwards. Without
    /// the lock nothing is unsound, but a waiter may be installed too late for this call and never be signalled.
    ///
    /// # Errors
    /// As [`Worker::peek`]; nothing is completed.
    #[inline]
    pub fn pop(&mut self) -> Result<Popped<T>, PeekError> {
        self.half.pop()
    }

    /// Completes up to `max` triggered requests at once, extends `into` with what their slots held, oldest first, and
    /// returns how many (0 is no error: `max` was 0, or no request was triggered, or `into` took none).
    ///
    /// Nobody sees any of the completions before all the slots are read, and no slot becomes free before that: one
    /// store for all is cheaper for everybody, and the first request waits for the last. Only
    /// [`Submitter::is_completed`](super::Submitter::is_completed) may know earlier.
    ///
    /// As for [`Worker::pop`], hold the unit's `mark_comp_lock` during the call, and signal the waiters afterwards, not in
    /// `into`: it is given them before the completions are visible. Then `into` is extended under the lock: a vector is fine, an unknown collection may be slow or ask for the lock itself. If
    /// it panics, what it was given is complete, and the rest is still in the ring.
    ///
    /// # Errors
    /// [`PeekError::Corrupt`] in checked builds, when not even the first request could be completed; a corrupt slot further
    /// back ends the batch, and is the error of the next call.
    pub fn pop_batch(
        &mut self,
        max: usize,
        into: &mut impl Extend<Popped<T>>,
    ) -> Result<usize, PeekError> {
        let mut batch = self.half.batch(max);
        // By reference: a collection that keeps its iterator, or forgets it, must not keep the batch open.
        into.extend(batch.by_ref());
        batch.finish()
    }

    /// Completes requests one by one as the iterator is advanced, until none is triggered: each as by [`Worker::pop`].
    ///
    /// It also ends at a corrupt slot in checked builds, where [`Worker::peek`] then says so. Requests that the iterator has
    /// not yielded stay in the ring when it is dropped. Where waiters are used, hold the unit's `mark_comp_lock` while it is
    /// advanced.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let xu = xu_abi::XuId::from_raw(1);
    /// let (mut submitter, mut worker, _observer) = xu_ring::queue::ring(xu, 3)?;
    /// submitter.submit_batch([1, 2].map(Box::new))?;
    /// submitter.trigger_all()?;
    /// let items: Vec<u32> = worker.drain().filter_map(|popped| popped.item).map(|item| *item).collect();
    /// assert_eq!(items, [1, 2]);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub const fn drain(&mut self) -> Drain<'_, T> {
        Drain { worker: self }
    }

    /// The sequence of the latest completed request; number 0 on a fresh ring.
    #[must_use]
    pub fn last_completed(&self) -> SeqId {
        self.half.memory().seq(self.half.completed() - 1)
    }

    /// The number of slots.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.half.memory().capacity()
    }

    /// The queue.
    #[must_use]
    pub fn xu(&self) -> XuId {
        self.half.memory().xu()
    }
}

impl<T> fmt::Debug for Worker<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("capacity", &self.capacity())
            .field("last_completed", &self.last_completed())
            .finish_non_exhaustive()
    }
}

/// Completes a request at each step. Made by [`Worker::drain`].
#[must_use = "it completes nothing until it is advanced"]
pub struct Drain<'a, T> {
    worker: &'a mut Worker<T>,
}

impl<T> Iterator for Drain<'_, T> {
    type Item = Popped<T>;

    #[inline]
    fn next(&mut self) -> Option<Popped<T>> {
        self.worker.pop().ok()
    }
}

impl<T> fmt::Debug for Drain<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drain")
            .field("worker", &self.worker)
            .finish()
    }
}

/// The current request, seen by the worker.
#[must_use]
pub struct Current<'a, T> {
    seq: SeqId,
    status: *const AtomicI32,
    item: &'a mut Option<Box<T>>,
}

impl<T> Current<'_, T> {
    /// Its sequence.
    #[must_use]
    pub const fn seq(&self) -> SeqId {
        self.seq
    }

    /// The address of its status cell, or null.
    #[must_use]
    pub const fn status(&self) -> *const AtomicI32 {
        self.status
    }

    /// Its payload; `None` once it was taken.
    #[must_use]
    pub fn item(&mut self) -> Option<&mut T> {
        self.item.as_deref_mut()
    }
}

impl<T> fmt::Debug for Current<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Current")
            .field("seq", &self.seq)
            .field("status", &self.status)
            .field("is_taken", &self.item.is_none())
            .finish_non_exhaustive()
    }
}

/// What the slot of a completed request held.
#[must_use = "a waiter in it waits for its signal"]
#[non_exhaustive]
pub struct Popped<T> {
    /// The request that is complete now.
    pub seq: SeqId,
    /// The address of its status cell, or null.
    pub status: *const AtomicI32,
    /// Who waits for this request and must be signalled.
    pub waiter: Option<Waiter>,
    /// Its payload, unless it was taken before.
    pub item: Option<Box<T>>,
}

impl<T> fmt::Debug for Popped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Popped")
            .field("seq", &self.seq)
            .field("status", &self.status)
            .field("waiter", &self.waiter)
            .field("is_taken", &self.item.is_none())
            .finish_non_exhaustive()
    }
}
