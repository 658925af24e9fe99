//! Learn of completions by sequence number: wait for one, or have an eventfd of the application's signalled.
//!
//! The facade's threads call this; the worker answers under the unit's mark_comp lock. Spec `xu.md` section 4 (eventfds,
//! application eventfds).

use super::Unit;
use crate::completion_pool::Lease;
use crate::engine::Stage;
use crate::eventfd::{AppEvent, EventId};
use crate::events::Registered;
use crate::on_worker::is_worker;
use crate::shared::Shared;
use crate::waits::{self, Target, Waited, Waits};
use crate::work_item::WorkItem;
use std::time::Instant;
use xu_abi::{SeqId, XuId};
use xu_ring::queue::{NeverIssued, Observer, Waiter};

/// A question about a sequence has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The unit has never issued it.
    #[error(transparent)]
    NeverIssued(#[from] NeverIssued),
    /// The calling thread is a worker, which would wait for itself.
    #[error("a worker's thread cannot wait for a request of {xu}")]
    OnWorkerThread {
        /// The queue.
        xu: XuId,
    },
    /// The unit's worker has ended: nothing will complete any more.
    #[error("{xu} is closed")]
    Closed {
        /// The queue.
        xu: XuId,
    },
    /// This process is a child of the one that made the unit.
    #[error("{xu} belongs to the process that this one was forked from")]
    Forked {
        /// The queue.
        xu: XuId,
    },
}

impl<S: Stage> Unit<S> {
    /// Waits until the request of a sequence is complete, whatever its status, on a descriptor of the pool.
    ///
    /// A deadline that has passed asks once; `None` waits for ever. Any number of threads may wait for one sequence.
    ///
    /// # Errors
    /// [`AskError`].
    pub fn wait(&self, seq: SeqId, deadline: Option<Instant>) -> Result<Waited, AskError> {
        self.check_process()?;
        let xu = self.xu();
        if !self.is_completed(seq)? && is_worker() {
            return Err(AskError::OnWorkerThread { xu });
        }
        let shared = &self.parts.shared;
        let observer = &self.parts.observer;
        let target = Sequence {
            seq,
            shared,
            observer,
        };
        Ok(waits::wait(&target, seq, &shared.pool, deadline))
    }

    /// Signals `event` once when the request of a sequence is complete; at once, by this thread, when it is already.
    /// Replaces the earlier event of the sequence, which is not written after the return.
    ///
    /// # Errors
    /// [`AskError`].
    pub fn register_event(&self, seq: SeqId, event: AppEvent) -> Result<Registered, AskError> {
        self.check_process()?;
        let observer = &self.parts.observer;
        observer.is_completed(seq)?;
        let shared = &self.parts.shared;
        // It was issued, so it stays so.
        let is_completed = || shared.under_mark_comp(|_| observer.is_completed(seq) == Ok(true));
        let registered = shared.events.register(seq, event, is_completed);
        if registered == Registered::Armed && shared.has_ended() {
            // It is not complete and never will be.
            shared.events.deregister(seq);
            return Err(AskError::Closed { xu: self.xu() });
        }
        Ok(registered)
    }

    /// Signals `event` once for each request that completes from now on, stops not counted. Replaces the earlier event of
    /// the unit, which is not written after the return: each completion is signalled to one of the two.
    ///
    /// # Errors
    /// [`AskError::Forked`], [`AskError::Closed`].
    pub fn register_unit_event(&self, event: AppEvent) -> Result<(), AskError> {
        self.check_process()?;
        let shared = &self.parts.shared;
        let observer = &self.parts.observer;
        let last_completed = || shared.under_mark_comp(|_| observer.last_completed());
        shared.events.register_unit(event, last_completed);
        if shared.has_ended() {
            // Asked afterwards, since the end takes out what was registered before.
            shared.events.deregister_unit();
            return Err(AskError::Closed { xu: self.xu() });
        }
        Ok(())
    }

    /// Takes the event of a sequence out. When this returns, no write to it is under way or will follow. `false` when there
    /// is none: none was registered, or it was signalled.
    ///
    /// # Errors
    /// [`AskError`].
    pub fn deregister_event(&self, seq: SeqId) -> Result<bool, AskError> {
        self.check_process()?;
        self.is_completed(seq)?;
        Ok(self.parts.shared.events.deregister(seq))
    }

    /// As [`Unit::deregister_event`], when it is this event that is registered: what has replaced it stays.
    ///
    /// # Errors
    /// [`AskError`].
    pub fn deregister_this_event(&self, seq: SeqId, event: EventId) -> Result<bool, AskError> {
        self.check_process()?;
        self.is_completed(seq)?;
        Ok(self.parts.shared.events.deregister_this(seq, event))
    }

    /// As [`Unit::deregister_unit_event`], when it is this event that is registered: what has replaced it stays.
    ///
    /// # Errors
    /// [`AskError::Forked`].
    pub fn deregister_this_unit_event(&self, event: EventId) -> Result<bool, AskError> {
        self.check_process()?;
        Ok(self.parts.shared.events.deregister_this_unit(event))
    }

    /// Takes the event of the unit out. When this returns, no write to it is under way or will follow. `false` when there is
    /// none.
    ///
    /// # Errors
    /// [`AskError::Forked`].
    pub fn deregister_unit_event(&self) -> Result<bool, AskError> {
        self.check_process()?;
        Ok(self.parts.shared.events.deregister_unit())
    }

    /// Whether the unit's worker has ended, so that nothing will complete any more.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.parts.shared.has_ended()
    }

    /// Notifications that no application got, because its eventfd was full or broken.
    #[must_use]
    pub fn lost_notifications(&self) -> u64 {
        self.parts.shared.events.lost()
    }

    pub(super) fn check_process(&self) -> Result<(), AskError> {
        if self.parts.is_here() {
            Ok(())
        } else {
            Err(AskError::Forked { xu: self.xu() })
        }
    }
}

/// One sequence of a unit, for which somebody waits.
struct Sequence<'a, I, O> {
    seq: SeqId,
    shared: &'a Shared<I, O>,
    observer: &'a Observer<WorkItem<I, O>>,
}

impl<I, O> Sequence<'_, I, O> {
    fn waiter(lease: &Lease) -> Option<Waiter> {
        if lease.is_pooled() {
            Waiter::pooled(lease.number())
        } else {
            Waiter::one_shot(lease.number())
        }
    }
}

impl<I, O> Target for Sequence<'_, I, O> {
    fn locked<R>(&self, look: impl FnOnce(&mut Waits) -> R) -> R {
        self.shared.under_mark_comp(look)
    }

    fn is_completed(&self) -> bool {
        self.observer.is_completed(self.seq) == Ok(true)
    }

    fn install(&self, lease: &Lease) {
        if let Some(waiter) = Self::waiter(lease) {
            // Not complete, and the lock is held: it fits. The worker finds whom to signal in `Waits`; the slot names it for
            // those who read the original's memory.
            let _ = self.observer.install_waiter(self.seq, waiter);
        }
    }

    fn remove(&self, lease: &Lease) {
        if let Some(waiter) = Self::waiter(lease) {
            let _ = self.observer.remove_waiter(self.seq, waiter);
        }
    }
}
