//! Why a unit did not take a request, and the request.
//!
//! What [`Unit::submit`](crate::Unit::submit) and its kin return as errors. Spec `xu.md` section 4, submit funnel (gates,
//! and the ruling on failures that degrade).

use crate::health::Cause;
use core::fmt;
use xu_abi::{SeqId, Status, XuId};

/// The unit did not take a request.
#[derive(Debug)]
pub struct Refused<I> {
    /// Why.
    pub reason: Refusal,
    /// The request, unless the device may have seen part of it.
    pub item: Option<I>,
}

/// The unit took some requests of a batch, or none.
#[derive(Debug)]
pub struct RefusedBatch<I: Iterator> {
    /// The last request that was accepted; those before it in the batch were, too.
    pub last_accepted: Option<SeqId>,
    /// Why the next one was not.
    pub reason: Refusal,
    /// That one, unless the device may have seen part of it.
    pub item: Option<I::Item>,
    /// Those behind it, which nobody has looked at.
    pub rest: I,
}

impl<I: Iterator> RefusedBatch<I> {
    pub(crate) fn new(last_accepted: Option<SeqId>, refused: Refused<I::Item>, rest: I) -> Self {
        Self {
            last_accepted,
            reason: refused.reason,
            item: refused.item,
            rest,
        }
    }
}

/// Why a unit did not take a request. Unless it says otherwise, nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Wait for a completion, then submit again.
    #[error("{xu} is full: outstanding requests and reserved places take all {limit} of it")]
    QueueFull {
        /// The queue.
        xu: XuId,
        /// Most requests that may be outstanding and places that may be reserved, together.
        limit: u64,
    },
    /// The runtime is closing, or has closed by now.
    #[error("{xu} is closing and takes no more requests")]
    Closing {
        /// The queue.
        xu: XuId,
    },
    /// The runtime is closed. Said by whoever knows that closing has come to its end.
    #[error("{xu} is closed and takes no more requests")]
    Closed {
        /// The queue.
        xu: XuId,
    },
    /// A fatal error occurred earlier.
    #[error("{xu} is degraded: {cause}")]
    Degraded {
        /// The queue.
        xu: XuId,
        /// The first fatal error.
        cause: Cause,
    },
    /// The request could not be prepared; the unit is unharmed.
    #[error("{xu} cannot prepare the request: {text}")]
    Prepare {
        /// The queue.
        xu: XuId,
        /// The status of the failure.
        status: Status,
        /// What happened.
        text: String,
    },
    /// Staging failed half-way: the unit is degraded now and keeps the request.
    #[error("{xu} failed while the device was being told: {text}")]
    Commit {
        /// The queue.
        xu: XuId,
        /// The status of the failure.
        status: Status,
        /// What happened.
        text: String,
    },
    /// This process is a child of the one that made the unit.
    #[error("{xu} belongs to the process that this one was forked from")]
    Forked {
        /// The queue.
        xu: XuId,
    },
    /// Every sequence number has been issued.
    #[error("{xu} has issued its last sequence number")]
    Exhausted {
        /// The queue.
        xu: XuId,
    },
}

impl Refusal {
    /// The queue that refused.
    #[must_use]
    pub fn xu(&self) -> XuId {
        match self {
            Self::QueueFull { xu, .. }
            | Self::Closing { xu }
            | Self::Closed { xu }
            | Self::Degraded { xu, .. }
            | Self::Prepare { xu, .. }
            | Self::Commit { xu, .. }
            | Self::Forked { xu }
            | Self::Exhausted { xu } => *xu,
        }
    }

    /// The status that the C ABI reports for this refusal.
    #[must_use]
    pub fn status(&self) -> Status {
        match self {
            Self::QueueFull { .. } => Status::QUEUE_FULL,
            Self::Closing { .. } | Self::Closed { .. } => Status::CLOSED,
            Self::Degraded { .. } => Status::EXEC_UNIT_UNRECOVERABLE,
            Self::Prepare { status, .. } | Self::Commit { status, .. } => *status,
            Self::Forked { .. } | Self::Exhausted { .. } => Status::FAILURE,
        }
    }
}

impl<I> Refused<I> {
    /// Whether the unit was full: wait for room and submit again.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        matches!(self.reason, Refusal::QueueFull { .. })
    }
}

impl<I> fmt::Display for Refused<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl<I: fmt::Debug> std::error::Error for Refused<I> {}

impl<I: Iterator> fmt::Display for RefusedBatch<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.last_accepted {
            Some(last) => write!(f, "{}, after {last} was accepted", self.reason),
            None => self.reason.fmt(f),
        }
    }
}

impl<I: Iterator + fmt::Debug> std::error::Error for RefusedBatch<I> where I::Item: fmt::Debug {}
