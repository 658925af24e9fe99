//! The answers of a ring that did not do what it was asked; none of them has changed anything.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use core::fmt;

use xu_abi::{Cursor, SeqId, XuId};

/// No ring was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RingError {
    /// A ring needs at least one slot.
    #[error("queue {xu} needs a capacity of at least 1")]
    ZeroCapacity {
        /// The queue.
        xu: XuId,
    },
    /// There is no memory for that many slots; some capacities never have it.
    #[error("no memory for queue {xu} with {capacity} slots")]
    NoMemory {
        /// The queue.
        xu: XuId,
        /// The number of slots asked for.
        capacity: u64,
    },
    /// The header belongs to another ring, one of whose ends is left.
    #[error("no place for queue {xu}: there is a ring in its header")]
    HeaderInUse {
        /// The queue that was to be made.
        xu: XuId,
    },
}

/// The ring did not take the request, and is unchanged; the request comes back.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError<T> {
    /// As many requests are outstanding as there are slots: submit again after a completion.
    #[error("queue {xu} is full: {capacity} requests outstanding")]
    Full {
        /// The request.
        item: Box<T>,
        /// The queue.
        xu: XuId,
        /// Its number of slots.
        capacity: u64,
    },
    /// Every sequence number has been issued: this ring takes no more requests.
    #[error("queue {xu} has issued its last sequence number, {}", Cursor::LAST.get())]
    Exhausted {
        /// The request.
        item: Box<T>,
        /// The queue.
        xu: XuId,
    },
}

impl<T> SubmitError<T> {
    /// The request that was not taken.
    #[must_use]
    pub fn into_item(self) -> Box<T> {
        match self {
            Self::Full { item, .. } | Self::Exhausted { item, .. } => item,
        }
    }
}

/// Leaves the request out, so that it need not be `Debug`.
impl<T> fmt::Debug for SubmitError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { xu, capacity, .. } => f
                .debug_struct("Full")
                .field("xu", xu)
                .field("capacity", capacity)
                .finish_non_exhaustive(),
            Self::Exhausted { xu, .. } => f
                .debug_struct("Exhausted")
                .field("xu", xu)
                .finish_non_exhaustive(),
        }
    }
}

/// The ring takes no request at all, and is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// As many requests are outstanding as there are slots: submit again after a completion.
    #[error("queue {xu} is full: {capacity} requests outstanding")]
    Full {
        /// The queue.
        xu: XuId,
        /// Its number of slots.
        capacity: u64,
    },
    /// Every sequence number has been issued: this ring takes no more requests.
    #[error("queue {xu} has issued its last sequence number, {}", Cursor::LAST.get())]
    Exhausted {
        /// The queue.
        xu: XuId,
    },
}

impl BatchError {
    /// The same answer about one request, which it gives back.
    pub(super) fn about<T>(self, item: Box<T>) -> SubmitError<T> {
        match self {
            Self::Full { xu, capacity } => SubmitError::Full { item, xu, capacity },
            Self::Exhausted { xu } => SubmitError::Exhausted { item, xu },
        }
    }
}

/// There is no request to look at or to move past.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PeekError {
    /// No request stands at this cursor.
    #[error("no request at this cursor")]
    Empty,
    /// The slot is not that of the request at the cursor: something wrote over the ring's memory.
    #[error("the ring is corrupt: the slot of {expected} holds {found}")]
    Corrupt {
        /// The request at the cursor.
        expected: SeqId,
        /// What the slot says.
        found: SeqId,
    },
}

/// This queue never issued that sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{seq} was never issued by {xu}")]
pub struct NeverIssued {
    /// The sequence asked about: number 0, a number yet to come, or one of another queue.
    pub seq: SeqId,
    /// The queue that was asked.
    pub xu: XuId,
}

/// The waiter was not installed, or not taken back: the ring is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InstallError {
    /// The request is complete already: there is nothing to wait for, and a waiter that was there is being signalled.
    #[error("{seq} is complete")]
    Completed {
        /// The request.
        seq: SeqId,
    },
    /// The queue never issued that sequence.
    #[error(transparent)]
    NeverIssued(#[from] NeverIssued),
    /// The slot holds another request: the lock was not held, or the ring's memory was written over.
    #[error("the ring is corrupt: the slot of {expected} holds {found}")]
    Corrupt {
        /// The request waited for.
        expected: SeqId,
        /// What the slot says.
        found: SeqId,
    },
}

#[cfg(test)]
mod tests {
    use alloc::{boxed::Box, format};

    use super::*;

    struct Opaque;

    #[test]
    fn errors_need_nothing_of_the_request() {
        fn is_error<E: core::error::Error>(_: &E) {}
        let xu = XuId::from_raw(0x0301);
        let full = SubmitError::Full {
            item: Box::new(Opaque),
            xu,
            capacity: 8,
        };
        is_error(&full);
        assert_eq!(
            format!("{full}"),
            "queue core 3 compute is full: 8 requests outstanding"
        );
        assert_eq!(
            format!("{full:?}"),
            "Full { xu: XuId(0x0301), capacity: 8, .. }"
        );
        let Opaque = *full.into_item();
        let exhausted = SubmitError::Exhausted {
            item: Box::new(Opaque),
            xu,
        };
        assert_eq!(
            format!("{exhausted}"),
            "queue core 3 compute has issued its last sequence number, 281474976710654"
        );
        for reason in [
            BatchError::Full { xu, capacity: 8 },
            BatchError::Exhausted { xu },
        ] {
            let about = reason.about(Box::new(Opaque));
            assert_eq!(format!("{reason}"), format!("{about}"));
        }
    }
}
