//! The working end: look at the oldest triggered request, take its payload, complete it.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use core::fmt;

use xu_abi::{SeqId, XuId};

use crate::error::PeekError;
use crate::halves::WorkHalf;
use crate::sync::AtomicI32;
use crate::waiter::Waiter;

/// The end that completes requests, in the order of their submission.
///
/// There is one per ring, and it is `Send`, not `Clone` and not `Sync`. A request goes through three calls: as many
/// [`Worker::peek`] as its progress takes, one [`Worker::take`], one [`Worker::pop`].
///
/// ```compile_fail,E0499
/// let ring = xu_ring::ring::<u32>(xu_abi::XuId::from_raw(1), 8).unwrap();
/// let (submitter, mut worker, observer) = ring;
/// let first = worker.peek();
/// let second = worker.peek(); // Two mutable views of one slot.
/// drop((first, second));
/// ```
///
/// ```compile_fail,E0505
/// let ring = xu_ring::ring::<u32>(xu_abi::XuId::from_raw(1), 8).unwrap();
/// let (submitter, mut worker, observer) = ring;
/// let current = worker.peek();
/// drop(worker); // A view does not outlive the end that it came from.
/// drop(current);
/// ```
///
/// ```compile_fail,E0277
/// // With a payload that is bound to its thread, this end does not leave the thread either.
/// fn is_send<T: Send>() {}
/// is_send::<xu_ring::Worker<std::rc::Rc<u32>>>();
/// ```
pub struct Worker<T> {
    half: WorkHalf<T>,
}

impl<T> Worker<T> {
    pub(crate) const fn new(half: WorkHalf<T>) -> Self {
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
    /// [`Observer::install_waiter`](crate::Observer::install_waiter) must be; signal [`Popped::waiter`] afterwards. Without
    /// the lock nothing is unsound, but a waiter may be installed too late for this call and never be signalled.
    ///
    /// # Errors
    /// As [`Worker::peek`]; nothing is completed.
    #[inline]
    pub fn pop(&mut self) -> Result<Popped<T>, PeekError> {
        let captured = self.half.pop()?;
        Ok(Popped {
            seq: captured.seq,
            status: captured.status,
            waiter: captured.waiter,
            item: captured.item,
        })
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
