//! The one place that makes system calls on eventfds.
//!
//! Each role of the module above holds one [`Counter`]. A call that a signal interrupts is repeated here and nowhere else.

use super::{Call, Kind, announce};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll, ppoll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::time::TimeSpec;
use nix::unistd;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Instant;

/// An owned eventfd.
#[derive(Debug)]
pub(super) struct Counter(OwnedFd);

impl Counter {
    pub(super) fn new(initial: u32, kind: Kind) -> io::Result<Self> {
        let flags = EfdFlags::EFD_CLOEXEC
            | match kind {
                Kind::Semaphore => EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_SEMAPHORE,
                Kind::Plain => EfdFlags::EFD_NONBLOCK,
                Kind::Blocking => EfdFlags::empty(),
            };
        let fd = repeat_interrupted(Call::Create, || {
            Ok(EventFd::from_value_and_flags(initial, flags)?)
        })?;
        Ok(Self(fd.into()))
    }

    /// Another descriptor, close-on-exec, for the same open file.
    pub(super) fn duplicate(fd: BorrowedFd<'_>) -> io::Result<Self> {
        let duplicate = repeat_interrupted(Call::Create, || fd.try_clone_to_owned())?;
        Ok(Self(duplicate))
    }

    /// `WouldBlock` when the counter is full and does not block.
    pub(super) fn write(&self, count: u64) -> io::Result<()> {
        repeat_interrupted(Call::Write, || {
            unistd::write(&self.0, &count.to_ne_bytes())?;
            Ok(())
        })
    }

    /// `WouldBlock` when the counter is zero and does not block.
    pub(super) fn read(&self) -> io::Result<u64> {
        repeat_interrupted(Call::Read, || {
            let mut count = [0; size_of::<u64>()];
            unistd::read(&self.0, &mut count)?;
            Ok(u64::from_ne_bytes(count))
        })
    }

    /// Waits until the counter is not zero; `false` when `deadline` passes first. `None` waits for ever.
    pub(super) fn wait_readable(&self, deadline: Option<Instant>) -> io::Result<bool> {
        repeat_interrupted(Call::Poll, || {
            // Computed anew after each interruption.
            let remaining =
                deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let mut fds = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
            let ready = ppoll(&mut fds, remaining.map(TimeSpec::from_duration), None)?;
            if ready == 0 || has(&fds, PollFlags::POLLIN) {
                return Ok(ready > 0);
            }
            // Somebody has closed it by its number: to call this "not yet" would make the caller spin.
            Err(Errno::EBADF.into())
        })
    }

    /// Whether a write of one would go through now. Does not wait.
    pub(super) fn is_writable(&self) -> io::Result<bool> {
        repeat_interrupted(Call::Poll, || {
            let mut fds = [PollFd::new(self.0.as_fd(), PollFlags::POLLOUT)];
            poll(&mut fds, PollTimeout::ZERO)?;
            Ok(has(&fds, PollFlags::POLLOUT))
        })
    }

    /// Whether a write or a read of it can wait.
    pub(super) fn blocks(&self) -> io::Result<bool> {
        let flags = fcntl(self.0.as_fd(), FcntlArg::F_GETFL)?;
        Ok(!OFlag::from_bits_retain(flags).contains(OFlag::O_NONBLOCK))
    }

    pub(super) fn number(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

impl AsFd for Counter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn has(fds: &[PollFd<'_>], flag: PollFlags) -> bool {
    fds.iter()
        .filter_map(PollFd::revents)
        .any(|found| found.contains(flag))
}

fn repeat_interrupted<T>(kind: Call, mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match announce(kind).and_then(|()| call()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}
