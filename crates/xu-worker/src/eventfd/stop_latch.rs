//! The latch that ends a worker.
//!
//! Whoever stops a worker sets it; the worker has it in its wait set. Spec `xu.md` sections 2.5 (`stop_thread_efd`) and 4.

use super::counter::Counter;
use super::{Kind, SignalError};
use crate::sync::{AtomicBool, Ordering};
use core::time::Duration;
use std::io;
#[cfg(not(any(loom, miri)))]
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

/// A latch: set once, never read, readable for ever after.
#[derive(Debug)]
pub struct StopLatch {
    flag: AtomicBool,
    counter: Counter,
}

impl StopLatch {
    /// An unset latch.
    ///
    /// # Errors
    /// What the operating system says, usually that descriptors ran out.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            flag: AtomicBool::new(false),
            counter: Counter::new(0, Kind::Blocking)?,
        })
    }

    /// Sets the latch: the flag first, then the descriptor. Setting it again does no harm.
    ///
    /// # Errors
    /// What the operating system says; a fresh latch cannot fail. [`StopLatch::is_set`] is true all the same.
    pub fn set(&self) -> Result<(), SignalError> {
        // PAIRS: with the acquire load in `is_set`.
        self.flag.store(true, Ordering::Release);
        Ok(self.counter.write(1)?)
    }

    /// Whether [`StopLatch::set`] was called. No system call.
    #[must_use]
    pub fn is_set(&self) -> bool {
        // PAIRS: with the release store in `set`.
        self.flag.load(Ordering::Acquire)
    }

    /// Whether the latch is set, after waiting for up to `timeout`. A latch that cannot be asked counts as set.
    #[must_use]
    pub fn is_set_within(&self, timeout: Duration) -> bool {
        let deadline = Instant::now().checked_add(timeout);
        self.is_set() || self.counter.wait_readable(deadline).unwrap_or(true)
    }

    /// The descriptor's number, for `stop_thread_efd` of the ABI.
    #[must_use]
    pub fn number(&self) -> i32 {
        self.counter.number()
    }
}

#[cfg(not(any(loom, miri)))]
impl AsFd for StopLatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.counter.as_fd()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn w3_a_latch_stays_set() {
        let latch = StopLatch::new().unwrap();
        assert!(!latch.is_set());
        assert!(!latch.is_set_within(Duration::ZERO));
        latch.set().unwrap();
        latch.set().unwrap();
        for _ in 0..3 {
            assert!(latch.is_set());
            assert!(latch.counter.wait_readable(None).unwrap());
        }
    }
}
