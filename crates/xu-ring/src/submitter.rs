//! The submitting end: put requests in, hold them back, trigger them.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use core::{fmt, ptr};

use xu_abi::{SeqId, XuId};

use crate::error::{PeekError, SubmitError};
use crate::halves::SubmitHalf;
use crate::sync::AtomicI32;

/// The end that submits and triggers.
///
/// There is one per ring. Several threads may share it one at a time, behind the unit's `submit_work_lock`: it is `Send`
/// and neither `Clone` nor `Sync`.
///
/// ```compile_fail,E0599
/// let ring = xu_ring::ring::<u32>(xu_abi::XuId::from_raw(1), 8).unwrap();
/// let (mut submitter, worker, observer) = ring;
/// let second = submitter.clone(); // There is one submitter.
/// ```
///
/// ```compile_fail,E0277
/// let ring = xu_ring::ring::<u32>(xu_abi::XuId::from_raw(1), 8).unwrap();
/// let (mut submitter, worker, observer) = ring;
/// fn is_sync<T: Sync>(_: &T) {}
/// is_sync(&submitter); // Two threads could read one payload.
/// ```
///
/// ```compile_fail,E0277
/// // The payload cannot leave its thread, so there is no ring for it.
/// let ring = xu_ring::ring::<std::rc::Rc<u32>>(xu_abi::XuId::from_raw(1), 8);
/// ```
pub struct Submitter<T> {
    half: SubmitHalf<T>,
}

impl<T> Submitter<T> {
    pub(crate) const fn new(half: SubmitHalf<T>) -> Self {
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
            .map_err(|item| self.refuse(item))
    }

    #[cold]
    fn refuse(&self, item: Box<T>) -> SubmitError<T> {
        let xu = self.xu();
        if self.half.is_exhausted() {
            SubmitError::Exhausted { item, xu }
        } else {
            SubmitError::Full {
                item,
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

    /// Lets the worker see all requests that are held back, with one store, and returns how many (0 is no error).
    ///
    /// # Errors
    /// [`PeekError::Corrupt`] in checked builds. The worker then sees nothing new.
    pub fn trigger_all(&mut self) -> Result<u64, PeekError> {
        self.half.trigger_all()
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
