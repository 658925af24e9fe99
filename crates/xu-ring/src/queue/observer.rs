//! The watching end: what is submitted, what is complete, and who waits.
//!
//! The other ends go on meanwhile: an answer was true at some moment of the call, and may not be any more. A [`Snapshot`] has
//! three moments.
#![forbid(unsafe_code)]

use core::fmt;

use xu_abi::{Cursor, SeqId, XuId};

use super::error::{InstallError, NeverIssued, PeekError};
use super::memory::{Memory, Slot, as_cursor};
use super::waiter::Waiter;
use crate::mutant::Mutant;

/// How often [`Observer::depth`] tries to look without a completion in between.
const LOOKS: usize = if cfg!(loom) { 1 } else { 4 };

/// An end that moves no cursor: any number of threads may hold and share it.
///
/// It keeps the ring's memory alive, and may be the end that drops the last payloads.
///
/// ```compile_fail,E0277
/// fn is_send<T: Send>() {}
/// is_send::<xu_ring::queue::Observer<std::rc::Rc<u32>>>(); // It may have to drop the payload on another thread.
/// ```
pub struct Observer<T> {
    memory: Memory<T>,
}

impl<T> Observer<T> {
    pub(super) const fn new(memory: Memory<T>) -> Self {
        Self { memory }
    }

    /// The sequence of the latest completed request; number 0 before the first.
    ///
    /// What the worker did for that request and those before it is visible to the caller.
    #[must_use]
    pub fn last_completed(&self) -> SeqId {
        self.memory.seq(self.memory.completed_for_observer() - 1)
    }

    /// The sequence of the latest submitted request; number 0 before the first.
    #[must_use]
    pub fn last_submitted(&self) -> SeqId {
        self.memory.seq(self.memory.submitted_for_observer() - 1)
    }

    /// How many requests are submitted and not completed.
    ///
    /// Exact at some moment of the call, unless completions are so frequent that none of a few looks is undisturbed: then it
    /// is at least so many.
    #[must_use]
    pub fn depth(&self) -> u64 {
        let mut completed = self.memory.completed_for_observer();
        for _ in 0..LOOKS {
            let submitted = self.memory.submitted_for_observer();
            let now = self.memory.completed_for_observer();
            if now == completed {
                return submitted - completed;
            }
            completed = now;
        }
        // The newer cursor comes second, so the difference is no more than was ever outstanding.
        let submitted = self.memory.submitted_for_observer();
        submitted.saturating_sub(self.memory.completed_for_observer())
    }

    /// Whether a request is complete; then what the worker did for it is visible to the caller.
    ///
    /// # Errors
    /// [`NeverIssued`] for number 0, for a number that is not submitted yet, and for a sequence of another queue.
    pub fn is_completed(&self, seq: SeqId) -> Result<bool, NeverIssued> {
        let xu = self.xu();
        let never_issued = NeverIssued { seq, xu };
        if seq.xu() != xu || seq.cursor() == Cursor::NONE {
            return Err(never_issued);
        }
        if seq.cursor().get() < self.memory.completed_for_observer() {
            return Ok(true);
        }
        if seq.cursor().get() < self.memory.submitted_for_observer() {
            return Ok(false);
        }
        Err(never_issued)
    }

    /// All three cursors, in an order of loads that cannot show one before its successor.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        if Mutant::SnapshotBackwards.is_seeded() {
            let submitted = self.memory.submitted_for_observer();
            let triggered = self.memory.triggered_for_observer();
            return Snapshot::new(self.memory.completed_for_observer(), triggered, submitted);
        }
        // Each load acquires what its writer had seen, so the next one finds at least as much. The other way round, the
        // ring could run on between two loads, and a request be complete that the snapshot says was never submitted.
        let completed = self.memory.completed_for_observer();
        let triggered = self.memory.triggered_for_observer();
        Snapshot::new(completed, triggered, self.memory.submitted_for_observer())
    }

    /// Leaves a waiter with an outstanding request; returns the waiter that was there, which will get no signal.
    ///
    /// Call this while holding the unit's `mark_comp_lock`, under which the worker pops. Then a request that is not
    /// complete now will find the waiter when it is.
    ///
    /// Without the lock nothing is unsound, but waits go wrong. The request may complete during the call, and the waiter
    /// go unsignalled, or to a later request in the same slot. Two callers at once may leave the descriptor of one with the
    /// flag of the other ([`Waiter::is_pooled`]), so that a descriptor is closed which belongs to a pool, or the other way
    /// round. A pop that runs into one single call finds both words of its waiter, or no waiter.
    ///
    /// # Errors
    /// [`InstallError::Completed`] when there is nothing to wait for, [`InstallError::NeverIssued`] as in
    /// [`Observer::is_completed`], [`InstallError::Corrupt`] in checked builds. The waiter is not installed.
    pub fn install_waiter(
        &self,
        seq: SeqId,
        waiter: Waiter,
    ) -> Result<Option<Waiter>, InstallError> {
        // The caller's lock orders it before the pop, and the submitted cursor orders it after the slot's reset.
        Ok(self.outstanding(seq)?.install(waiter))
    }

    /// Takes back a waiter that [`Observer::install_waiter`] left with an outstanding request, if it is still there. `false`:
    /// another waiter is there, or none.
    ///
    /// Call this while holding the unit's `mark_comp_lock`. Then `true` says that the waiter gets no signal, and
    /// [`InstallError::Completed`] that a waiter which was there has been taken by the pop and gets its signal: a
    /// descriptor of a pool has to be drained before it is used again.
    ///
    /// Without the lock nothing is unsound, but the request may complete during the call, and a waiter that was removed be
    /// signalled.
    ///
    /// # Errors
    /// As [`Observer::install_waiter`]. Nothing is taken back.
    pub fn remove_waiter(&self, seq: SeqId, waiter: Waiter) -> Result<bool, InstallError> {
        Ok(self.outstanding(seq)?.remove(waiter))
    }

    /// The slot of a request that is submitted and not complete.
    fn outstanding(&self, seq: SeqId) -> Result<&Slot<T>, InstallError> {
        if self.is_completed(seq)? {
            return Err(InstallError::Completed { seq });
        }
        // PANIC: an index is less than the number of slots.
        let slot = &self.memory.slots()[self.memory.index_of(seq.cursor().get())];
        match slot.verify(seq) {
            Err(PeekError::Corrupt { expected, found }) => {
                Err(InstallError::Corrupt { expected, found })
            }
            _ => Ok(slot),
        }
    }

    /// The number of slots.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.memory.capacity()
    }

    /// The queue.
    #[must_use]
    pub fn xu(&self) -> XuId {
        self.memory.xu()
    }
}

/// Another observer of the same ring.
impl<T> Clone for Observer<T> {
    fn clone(&self) -> Self {
        Self {
            memory: self.memory.clone(),
        }
    }
}

impl<T> fmt::Debug for Observer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer")
            .field("xu", &self.xu())
            .field("capacity", &self.capacity())
            .field("snapshot", &self.snapshot())
            .finish()
    }
}

/// The three cursors: `completed <= triggered <= submitted`, each the first number that is *not* yet what its name says.
///
/// They are loaded one after the other while the ring runs, so a later one may be newer than an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// `exec_head`: the first request that is not completed.
    pub completed: Cursor,
    /// `scheduled_head`: the first request that is not triggered.
    pub triggered: Cursor,
    /// `scheduled_tail`: the number of the next request.
    pub submitted: Cursor,
}

impl Snapshot {
    pub(super) fn new(completed: u64, triggered: u64, submitted: u64) -> Self {
        Self {
            completed: as_cursor(completed),
            triggered: as_cursor(triggered),
            submitted: as_cursor(submitted),
        }
    }

    /// Requests submitted and not completed. More than the capacity, when the ring ran on between the loads.
    #[must_use]
    pub const fn depth(self) -> u64 {
        self.submitted.get() - self.completed.get()
    }

    /// Requests triggered and not completed.
    #[must_use]
    pub const fn in_flight(self) -> u64 {
        self.triggered.get() - self.completed.get()
    }

    /// Requests submitted and not triggered.
    #[must_use]
    pub const fn held_back(self) -> u64 {
        self.submitted.get() - self.triggered.get()
    }
}
