//! Events: an eventfd of the application's that a queue writes to when requests complete.
//!
//! For applications with an event loop of their own; tasks of an executor rather await a [`Pending`](crate::Pending), a
//! sequence or [`Completions`](crate::Completions). Registered with `notify`, `notify_each`, `subscribe` and
//! `subscribe_each` of every queue. Spec: `c-api.md` section 6.5.
//!
//! ```
//! use nrta::{CompletionEvent, Runtime};
//!
//! let runtime = Runtime::builder().open()?;
//! let core = runtime.core(0)?;
//! let (moves, tensor) = (core.tensor_op(0)?, core.allocate(4)?);
//!
//! let event = CompletionEvent::new()?; // or any eventfd
//! let subscription = moves.subscribe_each(&event)?;
//! let first = moves.write(&tensor, 0, vec![1; 4])?;
//! let last = moves.write(&tensor, 0, vec![2; 4])?;
//! let mut completions = 0;
//! while completions < 2 {
//!     completions += event.drain()?; // an application polls the descriptor first
//! }
//! assert!(first.is_done() && moves.is_completed(last.seq())?);
//! drop(subscription); // from here on nothing is written
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Rules
//!
//! * One event per sequence and one per queue; registering again replaces, and the one that was there is not written any
//!   more. One eventfd may be registered in many places: its counts add up.
//! * An event of a sequence gets one count; of a queue, one for each request that completes after the registration.
//! * When the count is there, the request is complete and its status can be read. Of one request the event of the sequence
//!   comes before that of the queue.
//! * The sequence is complete already: the calling thread writes, before the call returns.
//! * When a deregistration returns, nothing is written any more.
//! * The queue writes to a duplicate: the application keeps its descriptor and may close it at any time.
//! * A queue never waits for an event. What would not fit is lost, and counted by `lost_notifications`.
//! * A degraded queue completes what it has, and notifies. A closed runtime has completed everything, and forgets all
//!   registrations.

use crate::lane::Lane;
use core::fmt;
use std::os::fd::AsFd;
use xu_abi::{SeqId, Status};
use xu_worker::{AppEvent, AskError, EventId, NotAnEventFd, Registered};

/// An event was not registered, or not deregistered. Whatever was registered before stays so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EventError {
    /// The queue has never issued the sequence, is closed, or belongs to the process that this one was forked from.
    #[error(transparent)]
    Queue(#[from] AskError),
    /// The descriptor is no eventfd, or cannot be duplicated.
    #[error(transparent)]
    NotAnEventFd(#[from] NotAnEventFd),
}

impl EventError {
    /// The status that the C ABI reports for this error.
    #[must_use]
    pub fn status(&self) -> Status {
        match self {
            Self::Queue(AskError::Closed { .. }) => Status::CLOSED,
            Self::Queue(AskError::Forked { .. }) => Status::FAILURE,
            Self::Queue(_) | Self::NotAnEventFd(_) => Status::INVALID,
        }
    }
}

/// A registration that ends when this is dropped: from then on nothing is written to the event.
///
/// Dropping it never ends the registration that has replaced it.
#[must_use = "dropping a subscription deregisters its event"]
pub struct Subscription {
    lane: Lane,
    /// `None` for every completion of the queue.
    seq: Option<SeqId>,
    event: EventId,
}

impl Subscription {
    pub(crate) fn to_sequence(lane: Lane, seq: SeqId, fd: impl AsFd) -> Result<Self, EventError> {
        let event = AppEvent::new(fd)?;
        let id = event.id();
        let _: Registered = lane.any_unit().register_event(seq, event)?;
        Ok(Self {
            lane,
            seq: Some(seq),
            event: id,
        })
    }

    pub(crate) fn to_queue(lane: Lane, fd: impl AsFd) -> Result<Self, EventError> {
        let event = AppEvent::new(fd)?;
        let id = event.id();
        lane.any_unit().register_unit_event(event)?;
        Ok(Self {
            lane,
            seq: None,
            event: id,
        })
    }

    /// Ends the registration. `true` when it was there: `false` says that its one count was written, or another
    /// registration has replaced it, or the runtime is closed.
    pub fn end(self) -> bool {
        self.deregister()
    }

    fn deregister(&self) -> bool {
        let unit = self.lane.any_unit();
        let removed = match self.seq {
            Some(seq) => unit.deregister_this_event(seq, self.event),
            None => unit.deregister_this_unit_event(self.event),
        };
        // In a forked child there is nothing to end.
        removed.unwrap_or(false)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.deregister();
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("xu", &self.lane.any_unit().xu())
            .field("seq", &self.seq)
            .finish_non_exhaustive()
    }
}
