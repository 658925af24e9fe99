//! The eventfds of the lane, one type per role.
//!
//! Used by units and workers. Every one is close-on-exec; calls that a signal interrupts are repeated here
//! and nowhere else. Spec `xu.md` section 4, table of eventfds.

use core::time::Duration;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// One count per scheduled request: written by submitters, read once per completed request.
///
/// The count *is* the number of accepted and uncompleted requests, so the descriptor stays readable while
/// any request is in flight.
#[derive(Debug)]
pub struct WorkCount(EventFd);

impl WorkCount {
    /// A count of zero.
    ///
    /// # Errors
    /// What the operating system says, usually that descriptors ran out.
    pub fn new() -> io::Result<Self> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_SEMAPHORE | EfdFlags::EFD_CLOEXEC;
        Ok(Self(EventFd::from_value_and_flags(0, flags)?))
    }

    /// Adds one.
    ///
    /// # Errors
    /// `EAGAIN` when the count is at its maximum of 2^64 - 2.
    pub fn add(&self) -> io::Result<()> {
        repeat_interrupted(|| self.0.write(1)).map(|_| ())
    }

    /// Takes exactly one.
    ///
    /// # Errors
    /// `EAGAIN` when the count is zero: the pairing of counts and requests is broken.
    pub fn take(&self) -> io::Result<()> {
        repeat_interrupted(|| self.0.read()).map(|_| ())
    }
}

impl AsFd for WorkCount {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A latch: set once, never read, readable for ever after.
#[derive(Debug)]
pub struct StopLatch(EventFd, core::sync::atomic::AtomicBool);

impl StopLatch {
    /// An unset latch.
    ///
    /// # Errors
    /// What the operating system says, usually that descriptors ran out.
    pub fn new() -> io::Result<Self> {
        Ok(Self(
            EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC)?,
            core::sync::atomic::AtomicBool::new(false),
        ))
    }

    /// Sets the latch.
    ///
    /// # Errors
    /// What the operating system says; a fresh latch cannot fail.
    pub fn set(&self) -> io::Result<()> {
        // PAIRS: with the acquire load in `is_set`.
        self.1.store(true, core::sync::atomic::Ordering::Release);
        repeat_interrupted(|| self.0.write(1)).map(|_| ())
    }

    /// Whether the latch is set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        // PAIRS: with the release store in `set`.
        self.1.load(core::sync::atomic::Ordering::Acquire)
    }

    /// Whether the latch is set, after waiting for up to `timeout` (at most a minute). A latch that cannot be asked counts as set.
    #[must_use]
    pub fn is_set_within(&self, timeout: Duration) -> bool {
        // CAST: clamped to a minute.
        let millis = timeout.as_millis().min(60_000) as u16;
        let mut fds = [PollFd::new(self.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, millis) {
            Ok(0) | Err(Errno::EINTR) => false,
            Ok(_) | Err(_) => true,
        }
    }
}

impl AsFd for StopLatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn repeat_interrupted<T>(mut call: impl FnMut() -> nix::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(Errno::EINTR) => {}
            other => return other.map_err(io::Error::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_taken_one_by_one() {
        let count = WorkCount::new().unwrap();
        count.add().unwrap();
        count.add().unwrap();
        count.take().unwrap();
        count.take().unwrap();
        let empty = count.take().unwrap_err();
        assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn descriptors_are_close_on_exec() {
        use nix::fcntl::{FcntlArg, FdFlag, fcntl};
        let (count, latch) = (WorkCount::new().unwrap(), StopLatch::new().unwrap());
        for fd in [count.as_fd(), latch.as_fd()] {
            let flags = FdFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFD).unwrap());
            assert!(flags.contains(FdFlag::FD_CLOEXEC));
        }
    }
}
