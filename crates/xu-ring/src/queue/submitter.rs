//! The submitting end: put requests in, hold them back, trigger them.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use core::{fmt, ptr};

use xu_abi::{Cursor, SeqId, XuId};

use super::error::{BatchError, NeverIssued, PeekError, SubmitError};
use super::halves::SubmitHalf;
use super::memory::as_cursor;
use crate::sync::AtomicI32;

/// The end that submits and triggers.
///
/// There is one per ring. Several threads may share it one at a time, behind the unit's `submit_work_lock`: it is `Send`
/// and neither `Clone` nor `Sync`.
///
/// ```compile_fail,E0599
/// let ring = xu_ring::queue::ring::<u32>(xu_abi::XuId::from_raw(1), 8).unwrap();
/// let (mut submitter, worker, observer) = ring;
/// let second = submitter.clone(); // There is one submitter.
/// ```
///
/// ```compile_fail,E0277
/// let ring = xu_ring::queue::ring::<u32>(xu_abi::XuId::from_raw(1), 8).unwrap();
/// let (mut submitter, worker, observer) = ring;
/// fn is_sync<T: Sync>(_: &T) {}
/// is_sync(&submitter); // Two threads could read one payload.
/// ```
///
/// ```compile_fail,E0277
/// // The payload cannot leave its thread, so there is no ring for it.
/// let ring = xu_ring::queue::ring::<std::rc::Rc<u32>>(xu_abi::XuId::from_raw(1), 8);
/// ```
pub struct Submitter<T> {
    half: SubmitHalf<T>,
}

impl<T> Submitter<T> {
    pub(super) const fn new(half: SubmitHalf<T>) -> Self {
        Self { half }
    }

    /// Submits a request without a status cell, and returns its sequence.
    ///
    /// Observers see the request at once; the worker does not until it is triggered.
    ///
    /// # Errors
    /// [`SubmitError::Full`] when `capacity` requests are submitted and not completed, triggered or not;
    /// [`SubmitError::Exhausted`] after the last sequence number. The request comes back and nothing has changed.
    #[inline]
    pub fn submit(&mut self, item: Box<T>) -> Result<SeqId, SubmitError<T>> {
        self.submit_with_status(item, ptr::null())
    }

    /// Submits a request with the address of a cell for its status.
    ///
    /// The ring carries the address to the worker and never uses it. Whoever writes through it answers for its validity.
    ///
    /// # Errors
    /// As [`Submitter::submit`].
    #[inline]
    pub fn submit_with_status(
        &mut self,
        item: Box<T>,
        status: *const AtomicI32,
    ) -> Result<SeqId, SubmitError<T>> {
        self.half
            .submit(item, status)
            .map_err(|item| self.why_not().about(item))
    }

    /// Submits requests without status cells, as many as there is room for, and publishes them all at once.
    ///
    /// Room is looked for before each item is asked for, so an item that comes out of `items` is submitted. What there
    /// is no room for stays inside: pass `iterator.by_ref()` to keep it.
    ///
    /// Nobody sees any of the requests before all of them are in the ring, which costs the first of them the time that
    /// `items` takes for the others. If `items` panics, what it had yielded is submitted.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let xu = xu_abi::XuId::from_raw(1);
    /// let (mut submitter, mut worker, _observer) = xu_ring::queue::ring(xu, 3)?;
    /// let mut items = (0..5).map(Box::new);
    ///
    /// let batch = submitter.submit_batch(items.by_ref())?;
    /// assert_eq!(batch.len(), 3);
    /// assert!(submitter.submit_batch(items.by_ref()).is_err(), "it is full");
    /// submitter.trigger_all()?;
    ///
    /// let mut popped = Vec::new();
    /// assert_eq!(worker.pop_batch(8, &mut popped)?, 3);
    /// assert!(popped.iter().map(|popped| popped.seq).eq(batch.iter()));
    /// assert!(items.eq([Box::new(3), Box::new(4)]), "they are still to submit");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`BatchError::Full`] and [`BatchError::Exhausted`] as in [`Submitter::submit`], when there is nothing for a first
    /// request; `items` has not been asked for one then. So an empty [`Batch`] says that `items` had none.
    pub fn submit_batch(
        &mut self,
        items: impl IntoIterator<Item = Box<T>>,
    ) -> Result<Batch, BatchError> {
        let first = self.half.submitted();
        match self.half.submit_batch(items.into_iter()) {
            Some(len) => Ok(Batch {
                first: self.half.memory().seq(first),
                len,
            }),
            None => Err(self.why_not()),
        }
    }

    #[cold]
    fn why_not(&self) -> BatchError {
        let xu = self.xu();
        if self.half.is_exhausted() {
            BatchError::Exhausted { xu }
        } else {
            BatchError::Full {
                xu,
                capacity: self.capacity(),
            }
        }
    }

    /// Looks at the oldest request that is held back.
    ///
    /// # Errors
    /// [`PeekError::Empty`] when every submitted request is triggered; [`PeekError::Corrupt`] in checked builds.
    pub fn peek_next_trigger(&self) -> Result<Pending<'_, T>, PeekError> {
        let (seq, status, item) = self.half.next_trigger()?;
        Ok(Pending { seq, status, item })
    }

    /// Lets the worker see the oldest request that is held back, and returns its sequence.
    ///
    /// The worker may have completed the request before this call returns.
    ///
    /// # Errors
    /// [`PeekError::Empty`] when every submitted request is triggered; [`PeekError::Corrupt`] in checked builds. The
    /// worker then sees nothing new.
    #[inline]
    pub fn trigger_next(&mut self) -> Result<SeqId, PeekError> {
        self.half.trigger_next()
    }

    /// Lets the worker see all requests that are held back, and returns how many (0 is no error).
    ///
    /// The worker sees them one by one, oldest first, and may have completed some before this call returns. Observers see
    /// all of them triggered from the start.
    ///
    /// # Errors
    /// [`PeekError::Corrupt`] in checked builds. The worker then sees nothing new.
    pub fn trigger_all(&mut self) -> Result<u64, PeekError> {
        self.half.trigger_all()
    }

    /// Whether a request is complete; then what the worker did for it is visible to the caller.
    ///
    /// This is the quickest way for this end to wait for one request: it looks at the slot that the worker has just
    /// written, and at nothing else. So it may say `true` a moment before an observer does, and before
    /// [`Submitter::depth`] and [`Submitter::submit`] know of the room; during [`Worker::pop_batch`](super::Worker::pop_batch)
    /// that moment lasts until the end of the batch.
    ///
    /// # Errors
    /// [`NeverIssued`] for number 0, for a number that is not submitted yet, and for a sequence of another queue.
    #[inline]
    pub fn is_completed(&self, seq: SeqId) -> Result<bool, NeverIssued> {
        let xu = self.xu();
        let cursor = seq.cursor();
        if seq.xu() != xu || cursor == Cursor::NONE || cursor.get() >= self.half.submitted() {
            return Err(NeverIssued { seq, xu });
        }
        Ok(self.half.is_completed(cursor.get()))
    }

    /// Whether the next [`Submitter::submit`] finds a free slot. Only this end can take it away again.
    ///
    /// Unlike [`Submitter::depth`] it looks at the worker's cursor only when what it saw last is used up.
    #[inline]
    #[must_use]
    pub fn has_room(&mut self) -> bool {
        self.half.has_room()
    }

    /// The sequence of the latest request; number 0 on a fresh ring.
    #[must_use]
    pub fn last_submitted(&self) -> SeqId {
        self.half.memory().seq(self.half.submitted() - 1)
    }

    /// How many requests are submitted and not completed. The worker may lower it at any time.
    #[must_use]
    pub fn depth(&self) -> u64 {
        self.half.submitted() - self.half.memory().completed_for_submitter()
    }

    /// Whether every submitted request is complete. Only this end can change that again.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.depth() == 0
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

impl<T> fmt::Debug for Submitter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Submitter")
            .field("capacity", &self.capacity())
            .field("last_submitted", &self.last_submitted())
            .finish_non_exhaustive()
    }
}

/// Requests that were submitted together: their sequences follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Of the next request, if there is none.
    first: SeqId,
    len: u64,
}

impl Batch {
    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The sequence of the oldest.
    #[must_use]
    pub fn first(&self) -> Option<SeqId> {
        self.iter().next()
    }

    /// The sequence of the latest.
    #[must_use]
    pub fn last(&self) -> Option<SeqId> {
        self.iter().next_back()
    }

    /// Their sequences, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = SeqId> + use<> {
        let (xu, first) = (self.first.xu(), self.first.cursor().get());
        (first..first + self.len).map(move |number| SeqId::new(xu, as_cursor(number)))
    }
}

/// The oldest request that is held back, seen by the submitter.
#[must_use]
pub struct Pending<'a, T> {
    seq: SeqId,
    status: *const AtomicI32,
    item: &'a T,
}

impl<'a, T> Pending<'a, T> {
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

    /// Its payload.
    #[must_use]
    pub const fn item(&self) -> &'a T {
        self.item
    }
}

impl<T> fmt::Debug for Pending<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending")
            .field("seq", &self.seq)
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}
