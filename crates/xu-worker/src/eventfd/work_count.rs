//! The count of accepted requests that are not complete.
//!
//! Submitters add, the worker takes. Spec `xu.md` sections 2.3 (`has_work_efd`) and 4.

use super::counter::Counter;
use super::{Kind, SignalError};
use std::io;
#[cfg(not(any(loom, miri)))]
use std::os::fd::{AsFd, BorrowedFd};

/// One count per scheduled request: written by submitters, read once per completed request.
///
/// With counted wakes the count *is* the number of accepted and uncompleted requests, so the descriptor stays readable
/// while any request is in flight. Elsewhere it is a bell, and counts how often it was rung and not answered.
#[derive(Debug)]
pub struct WorkCount(Counter);

impl WorkCount {
    /// A count of zero.
    ///
    /// # Errors
    /// What the operating system says, usually that descriptors ran out.
    pub fn new() -> io::Result<Self> {
        Ok(Self(Counter::new(0, Kind::Semaphore)?))
    }

    /// A count that stands at `count`.
    ///
    /// # Errors
    /// As [`WorkCount::new`].
    #[cfg(feature = "test-hooks")]
    pub fn starting_at(count: u32) -> io::Result<Self> {
        Ok(Self(Counter::new(count, Kind::Semaphore)?))
    }

    /// Adds one.
    ///
    /// # Errors
    /// [`SignalError::Saturated`] when the count is at its maximum of 2^64 - 2; else what the operating system says.
    pub fn add(&self) -> Result<(), SignalError> {
        Ok(self.0.write(1)?)
    }

    /// Adds many, so that a test need not count to 2^64.
    ///
    /// # Errors
    /// As [`WorkCount::add`]; nothing is added then.
    #[cfg(feature = "test-hooks")]
    pub fn preload(&self, count: u64) -> Result<(), SignalError> {
        Ok(self.0.write(count)?)
    }

    /// Takes exactly one.
    ///
    /// # Errors
    /// `WouldBlock` when the count is zero: the pairing of counts and requests is broken.
    pub fn take(&self) -> io::Result<()> {
        self.0.read().map(drop)
    }

    /// Takes one by one until the count is zero, and says how many that were. For a unit that is given up: one system
    /// call per count.
    ///
    /// # Errors
    /// What the operating system says, but for `WouldBlock`, which is the end.
    pub fn take_all(&self) -> io::Result<u64> {
        let mut taken = 0;
        loop {
            match self.0.read() {
                Ok(count) => taken += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(taken),
                Err(error) => return Err(error),
            }
        }
    }

    /// Another handle of the same count, for a model of the worker's sleep.
    #[cfg(any(loom, miri))]
    #[must_use]
    pub fn watch(&self) -> Self {
        Self(self.0.watch())
    }

    /// Whether a read would succeed, for a model of the worker's sleep.
    #[cfg(any(loom, miri))]
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.0.is_readable()
    }

    /// The descriptor's number, for `has_work_efd` of the ABI.
    #[must_use]
    pub fn number(&self) -> i32 {
        self.0.number()
    }
}

#[cfg(not(any(loom, miri)))]
impl AsFd for WorkCount {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn w1_counts_are_taken_one_by_one() {
        let count = WorkCount::new().unwrap();
        count.add().unwrap();
        count.add().unwrap();
        count.take().unwrap();
        count.take().unwrap();
        let empty = count.take().unwrap_err();
        assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);
        for _ in 0..5 {
            count.add().unwrap();
        }
        assert_eq!(count.take_all().unwrap(), 5);
        assert_eq!(count.take_all().unwrap(), 0);
    }
}
