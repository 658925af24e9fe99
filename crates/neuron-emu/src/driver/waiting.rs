//! Calls that wait: for what they want, at most so long, and not past a signal.
//!
//! The driver spins and yields; this looks again every millisecond. No lock is held between two looks.

use super::call::Failure;
use super::device::Device;
use crate::call::Caller;
use crate::config::DriverFault;
use std::time::{Duration, Instant};
use xu_abi::driver::errno::EINTR;

const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// How a wait ended.
#[derive(Debug)]
pub(super) enum Waited<T> {
    /// With what was wanted.
    Came(T),
    /// With a signal.
    Interrupted,
    /// The time is over.
    TimedOut,
    /// The device is gone: the error number.
    Gone(i32),
}

/// Looks until there is something. `limit` none: for ever.
pub(super) fn until<T>(
    caller: &dyn Caller,
    device: &Device,
    limit: Option<Duration>,
    mut look: impl FnMut() -> Option<T>,
) -> Waited<T> {
    // A limit beyond the end of time is none.
    let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
    if device
        .faults
        .happens(DriverFault::Interrupted, caller.pid())
    {
        return Waited::Interrupted;
    }
    loop {
        if let Some(found) = look() {
            return Waited::Came(found);
        }
        if let Some(errno) = device.gone() {
            return Waited::Gone(errno);
        }
        if caller.is_interrupted() {
            return Waited::Interrupted;
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Waited::TimedOut;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

impl<T> Waited<T> {
    /// What was wanted, or how a call that has no other answer fails.
    pub(super) fn or_fail(self, timed_out: i32) -> Result<T, Failure> {
        match self {
            Self::Came(found) => Ok(found),
            Self::Interrupted => Err(Failure::Errno(EINTR)),
            Self::TimedOut => Err(Failure::Errno(timed_out)),
            Self::Gone(errno) => Err(Failure::Errno(errno)),
        }
    }
}
