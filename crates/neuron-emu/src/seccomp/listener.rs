//! The descriptor that system calls of a program come from, and their answers go to.

use super::sys;
use super::unavailable::Unavailable;
use nix::errno::Errno;
use nix::libc::{self, c_ulong, seccomp_notif_addfd, seccomp_notif_resp, sock_filter};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Receives calls.
#[derive(Debug)]
pub(super) struct Listener(OwnedFd);

/// A system call that waits for its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Notification {
    /// Names it.
    pub(super) id: u64,
    /// The thread.
    pub(super) tid: u32,
    /// Number of the system call.
    pub(super) number: libc::c_long,
    /// Its arguments.
    pub(super) arguments: [u64; 6],
}

/// What the program sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// The kernel does what was asked for.
    Continue,
    /// A result of 0 or more.
    Value(i32),
    /// An error number.
    Errno(i32),
}

/// Where a descriptor goes in the program.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// At this number.
    At(i32),
    /// At the lowest that is free.
    Lowest,
}

/// The call is no longer waiting: the program was killed, or a signal came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gone;

/// Puts the filter on the calling thread. Between fork and exec this is allowed: system calls only.
pub(super) fn install(filter: &[sock_filter]) -> Result<OwnedFd, Errno> {
    // Once a call has been received only a fatal signal cancels it, so that no call is made twice; waiting ones look
    // for signals themselves.
    let exactly_once: c_ulong = libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    nix::sys::prctl::set_no_new_privs()?;
    match sys::install(filter, exactly_once) {
        // Before Linux 5.19.
        Err(Errno::EINVAL) => sys::install(filter, 0),
        installed => installed,
    }
}

impl Listener {
    pub(super) fn new(descriptor: OwnedFd) -> Result<Self, Unavailable> {
        match sys::structures_fit() {
            Ok(true) => Ok(Self(descriptor)),
            Ok(false) => Err(Unavailable::Newer),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The next call, after the descriptor was found readable. `None` when it is gone already.
    pub(super) fn receive(&self) -> Option<Notification> {
        loop {
            match sys::receive(self.as_fd()) {
                Ok(received) => {
                    return Some(Notification {
                        id: received.id,
                        tid: received.pid,
                        number: received.data.nr.into(),
                        arguments: received.data.args,
                    });
                }
                Err(Errno::EINTR) => {}
                Err(_) => return None,
            }
        }
    }

    /// Whether the call still waits. To be asked after memory of the program was read: only then it was its memory.
    pub(super) fn is_waiting(&self, id: u64) -> bool {
        sys::is_valid(self.as_fd(), id)
    }

    pub(super) fn reply(&self, id: u64, reply: Reply) -> Result<(), Gone> {
        let (val, error, flags) = match reply {
            // CAST: a flag of the lowest bit.
            Reply::Continue => (0, 0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
            Reply::Value(value) => (value.into(), 0, 0),
            Reply::Errno(number) => (0, -number, 0),
        };
        let answer = seccomp_notif_resp {
            id,
            val,
            error,
            flags,
        };
        sys::send(self.as_fd(), answer).map_err(|_| Gone)
    }

    /// Gives the program a descriptor, and its number as the answer.
    pub(super) fn reply_with_descriptor(
        &self,
        id: u64,
        descriptor: BorrowedFd<'_>,
        place: Place,
        close_on_exec: bool,
    ) -> Result<i32, Errno> {
        let (newfd, set) = match place {
            Place::At(number) => (number, libc::SECCOMP_ADDFD_FLAG_SETFD),
            Place::Lowest => (0, 0),
        };
        let addition = seccomp_notif_addfd {
            id,
            // CAST: flags of the lowest bits, and descriptors, which are not negative.
            flags: (set | libc::SECCOMP_ADDFD_FLAG_SEND) as u32,
            srcfd: descriptor.as_raw_fd() as u32,
            newfd: newfd as u32,
            newfd_flags: if close_on_exec {
                libc::O_CLOEXEC as u32
            } else {
                0
            },
        };
        sys::add_descriptor(self.as_fd(), addition)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
