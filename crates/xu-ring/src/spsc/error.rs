//! The answers of a queue that did not do what it was asked.
#![forbid(unsafe_code)]

use core::fmt;

/// No queue was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CapacityError {
    /// A queue needs at least one slot.
    #[error("a queue needs a capacity of at least 1")]
    Zero,
    /// There is no memory for that many slots; some capacities never have it.
    #[error("no memory for a queue with {capacity} slots of {slot_size} bytes")]
    NoMemory {
        /// The number of slots asked for.
        capacity: usize,
        /// What each of them takes, in bytes.
        slot_size: usize,
    },
}

/// The queue is full; the value comes back.
#[derive(Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("the queue is full")]
pub struct Full<T>(pub T);

impl<T> Full<T> {
    /// The value that was not taken.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.0
    }
}

/// Leaves the value out, so that it need not be `Debug`.
impl<T> fmt::Debug for Full<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Full").finish_non_exhaustive()
    }
}
