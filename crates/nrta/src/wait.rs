//! Wait for a sequence, and so for everything before it: one wait for a whole batch.
//!
//! [`WaitFor`] is made by `wait_for` of every queue, for tasks; `wait` is for threads. Any number may wait for one
//! sequence. They say that it is complete, not how it went: that is what its [`Pending`](crate::Pending) says.
//! Spec: `c-api.md` sections 5.3 and 6.4.

use crate::lane::Lane;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use xu_abi::{SeqId, Status};
use xu_worker::{AskError, Follower, Waited};

/// A wait for a sequence ended without its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The queue has never issued the sequence, the calling thread is a worker, or this process was forked from the
    /// runtime's.
    #[error(transparent)]
    Queue(#[from] AskError),
    /// Time is up; the request is still in flight.
    #[error("{seq} is not complete yet")]
    TimedOut {
        /// What was waited for.
        seq: SeqId,
    },
    /// The queue has broken, and will not complete it.
    #[error("{seq} will never complete: its queue is broken")]
    Abandoned {
        /// What was waited for.
        seq: SeqId,
    },
}

impl WaitError {
    /// The status that the C ABI reports for this error.
    #[must_use]
    pub fn status(&self) -> Status {
        match self {
            Self::Queue(AskError::Closed { .. }) => Status::CLOSED,
            Self::Queue(AskError::Forked { .. }) => Status::FAILURE,
            Self::Queue(_) => Status::INVALID,
            Self::TimedOut { .. } => Status::TIMEOUT,
            Self::Abandoned { .. } => Status::EXEC_UNIT_UNRECOVERABLE,
        }
    }

    pub(crate) fn from_waited(seq: SeqId, waited: Waited) -> Result<(), Self> {
        match waited {
            Waited::Completed => Ok(()),
            Waited::TimedOut => Err(Self::TimedOut { seq }),
            Waited::Abandoned => Err(Self::Abandoned { seq }),
        }
    }
}

/// A future that resolves when a sequence, and with it all before it on its queue, is complete, whatever its status.
/// [`Pending::try_take`](crate::Pending::try_take) has the outcomes of all of them then.
///
/// Stores one waker however often it is polled, and belongs to nobody: it may move to another task.
#[must_use = "a future waits when it is polled"]
pub struct WaitFor {
    lane: Lane,
    seq: SeqId,
    follower: Follower,
}

impl WaitFor {
    pub(crate) fn new(lane: Lane, seq: SeqId) -> Self {
        Self {
            lane,
            seq,
            follower: Follower::new(),
        }
    }

    /// What it waits for.
    #[must_use]
    pub fn seq(&self) -> SeqId {
        self.seq
    }
}

impl Future for WaitFor {
    type Output = Result<(), WaitError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self {
            lane,
            seq,
            follower,
        } = &mut *self;
        let waited = lane.any_unit().poll_completed(*seq, follower, cx);
        waited.map(|waited| WaitError::from_waited(*seq, waited?))
    }
}

impl Drop for WaitFor {
    fn drop(&mut self) {
        self.lane.any_unit().unfollow(&mut self.follower);
    }
}

impl fmt::Debug for WaitFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitFor")
            .field("seq", &self.seq)
            .finish_non_exhaustive()
    }
}
