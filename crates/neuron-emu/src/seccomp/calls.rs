//! What each system call that stops gets as its answer.
//!
//! Called by [`Supervisor`](super::supervisor) for each of them; the numbers are those of [`filter`](super::filter).

use super::filter::RESERVED;
use super::listener::{Notification, Place, Reply};
use super::processes::InService;
use super::supervisor::Supervisor;
use super::target::Target;
use crate::call::Caller;
use crate::complaint::complain;
use crate::driver::{AccessMode, FileId, MapRequest, Opened};
use crate::listing::Listing;
use crate::nodes;
use nix::libc;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use xu_abi::driver::errno::Answer;

/// Whether a call may be waited for on this thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    None,
    Any,
}

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Served {
    /// It has its answer, or has gone.
    Done,
    /// Nothing was done: it may wait, and so wants a thread of its own.
    MayWait,
}

/// A call on its way.
struct Call<'s> {
    supervisor: &'s Supervisor,
    notification: &'s Notification,
    target: Target<'s>,
    patience: Patience,
}

/// What a handler decides.
enum Outcome {
    Reply(Reply),
    /// The answer has been given, together with a descriptor.
    Given,
    MayWait,
}

use Outcome::{Given, MayWait};

const GOES_ON: Outcome = Outcome::Reply(Reply::Continue);

fn errno(number: i32) -> Outcome {
    Outcome::Reply(Reply::Errno(number))
}

/// Serves a call, unless it may wait and there is no patience.
pub(super) fn serve(
    supervisor: &Supervisor,
    service: &InService,
    notification: &Notification,
    patience: Patience,
) -> Served {
    let target = Target {
        pid: service.pid,
        tid: notification.tid,
        id: notification.id,
        listener: &supervisor.listener,
    };
    let call = Call {
        supervisor,
        notification,
        target,
        patience,
    };
    match or_eio(|| call.outcome()) {
        MayWait => return Served::MayWait,
        Given => {}
        Outcome::Reply(reply) => {
            // Gone: killed. Its end is reported by itself.
            let _gone = supervisor.listener.reply(notification.id, reply);
        }
    }
    Served::Done
}

/// A call whose handler panics must be answered all the same: its program would hang.
fn or_eio(outcome: impl FnOnce() -> Outcome) -> Outcome {
    // Locks are released by a panic, and do not remember it.
    catch_unwind(AssertUnwindSafe(outcome)).unwrap_or_else(|_| {
        complain("a bug of the emulator: a call was not served, and is answered with EIO");
        Outcome::Reply(Reply::Errno(libc::EIO))
    })
}

impl Call<'_> {
    fn outcome(&self) -> Outcome {
        match self.notification.number {
            libc::SYS_ioctl => self.ioctl(),
            libc::SYS_mmap => self.map(),
            libc::SYS_close => self.close(self.int(0)..=self.int(0)),
            libc::SYS_close_range => self.close_range(),
            libc::SYS_dup => self.duplicate(*RESERVED.start(), false),
            libc::SYS_fcntl => {
                let close_on_exec = self.int(1) == libc::F_DUPFD_CLOEXEC;
                self.duplicate(self.int(2), close_on_exec)
            }
            libc::SYS_dup3 => self.duplicate_onto(),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_dup2 => self.duplicate_onto(),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open => self.open(libc::AT_FDCWD, 0, self.argument(1)),
            libc::SYS_openat => self.open(self.int(0), 1, self.argument(2)),
            libc::SYS_openat2 => {
                // The flags are the first word of the third argument.
                let mut flags = [0; 8];
                match self.target.read(self.argument(2), &mut flags) {
                    Ok(()) => self.open(self.int(0), 1, u64::from_ne_bytes(flags)),
                    Err(_) => GOES_ON,
                }
            }
            _ => GOES_ON,
        }
    }

    fn argument(&self, index: usize) -> u64 {
        // PANIC: the callers name arguments 0 to 5.
        self.notification.arguments[index]
    }

    fn int(&self, index: usize) -> i32 {
        // CAST: an `int` is the low half.
        self.argument(index) as i32
    }

    fn file(&self, descriptor: i32) -> Option<FileId> {
        let processes = &self.supervisor.processes;
        processes.file(self.target.pid, descriptor)
    }

    fn open(&self, base: i32, path: usize, flags: u64) -> Outcome {
        let Some(path) = self.target.path(self.argument(path)) else {
            return GOES_ON;
        };
        // CAST: flags have 32 bits; openat2 has the kernel refuse others.
        let flags = flags as i32;
        let nodes = &self.supervisor.nodes;
        let from = || {
            let base = self.target.base(base)?;
            let listing = self.supervisor.listing.lock();
            let is_listing = listing.as_ref().is_some_and(|listing| listing.is(&base));
            Some(if is_listing {
                nodes.directory().to_owned()
            } else {
                base
            })
        };
        if flags & libc::O_PATH != 0 {
            return GOES_ON;
        }
        if flags & libc::O_DIRECTORY != 0 {
            let absolute = nodes::absolute(&path, from);
            return match absolute {
                Some(absolute) if nodes.is_directory(&absolute) => self.list(flags),
                _ => GOES_ON,
            };
        }
        let Some(node) = nodes.find(&path, from) else {
            return GOES_ON;
        };
        if self.patience == Patience::None {
            return MayWait;
        }
        let mode = match flags & libc::O_ACCMODE {
            libc::O_RDONLY => AccessMode::ReadOnly,
            libc::O_WRONLY => AccessMode::WriteOnly,
            libc::O_RDWR => AccessMode::ReadWrite,
            _ => return errno(libc::EINVAL),
        };
        match self.supervisor.emulator.open(&self.target, node, mode) {
            Ok(opened) => self.give(opened, flags & libc::O_CLOEXEC != 0),
            Err(number) => errno(number),
        }
    }

    /// The descriptor of a file that was opened. When it cannot be given, the file is closed again.
    fn give(&self, opened: Opened, close_on_exec: bool) -> Outcome {
        let Opened { file, descriptor } = opened;
        let pid = self.target.pid;
        let given = self.supervisor.processes.install(
            &self.supervisor.listener,
            (pid, self.notification),
            (file, Some(descriptor)),
            *RESERVED.start(),
            close_on_exec,
        );
        match given {
            Ok(_) => Given,
            Err(error) => {
                self.supervisor.emulator.close(pid, file);
                // CAST: error numbers are small positive ones.
                errno(error as i32)
            }
        }
    }

    /// The directory of the nodes, with the nodes in it.
    fn list(&self, flags: i32) -> Outcome {
        let mut listing = self.supervisor.listing.lock();
        if listing.is_none() {
            let devices = self.supervisor.emulator.config().devices;
            *listing = Listing::create(self.supervisor.nodes.directory(), devices)
                .inspect_err(|error| complain(&format!("the nodes cannot be listed: {error}")))
                .ok();
        }
        let Some(Ok(opened)) = listing.as_ref().map(Listing::open) else {
            return GOES_ON;
        };
        let close_on_exec = flags & libc::O_CLOEXEC != 0;
        let given = self.supervisor.listener.reply_with_descriptor(
            self.notification.id,
            opened.as_fd(),
            Place::Lowest,
            close_on_exec,
        );
        match given {
            Ok(_) => Given,
            // CAST: error numbers are small positive ones.
            Err(error) => errno(error as i32),
        }
    }

    fn ioctl(&self) -> Outcome {
        let Some(file) = self.file(self.int(0)) else {
            return GOES_ON;
        };
        // CAST: the kernel takes 32 bits of a request.
        let request = self.argument(1) as u32;
        let emulator = &self.supervisor.emulator;
        if self.patience == Patience::None && emulator.may_wait(request) {
            return MayWait;
        }
        Outcome::Reply(
            match emulator.ioctl(&self.target, file, request, self.argument(2)) {
                Answer::Done => Reply::Value(0),
                Answer::Positive(value) => Reply::Value(value),
                Answer::Errno(number) => Reply::Errno(number),
            },
        )
    }

    fn map(&self) -> Outcome {
        let Some(file) = self.file(self.int(4)) else {
            return GOES_ON;
        };
        let (protection, flags) = (self.int(2), self.int(3));
        let kind = flags & libc::MAP_TYPE;
        let request = MapRequest {
            offset: self.argument(5),
            bytes: self.argument(1),
            writable: protection & libc::PROT_WRITE != 0,
            shared: kind == libc::MAP_SHARED || kind == libc::MAP_SHARED_VALIDATE,
        };
        match self.supervisor.emulator.map(self.target.pid, file, request) {
            Ok(true) => GOES_ON,
            Ok(false) if !request.writable => GOES_ON,
            Ok(false) => {
                complain(
                    "a writable mapping of another process's chunk is refused (EACCES): the driver would silently map it \
                     read-only, which this front end cannot",
                );
                errno(libc::EACCES)
            }
            Err(number) => errno(number),
        }
    }

    fn close(&self, numbers: core::ops::RangeInclusive<i32>) -> Outcome {
        if self.patience == Patience::None
            && numbers.clone().any(|number| self.file(number).is_some())
        {
            return MayWait;
        }
        let processes = &self.supervisor.processes;
        let pid = self.target.pid;
        for (_, file) in processes.closing(pid, numbers) {
            self.supervisor.emulator.close(pid, file);
        }
        processes.closed();
        GOES_ON
    }

    fn close_range(&self) -> Outcome {
        // CAST: the kernel takes 32 bits of each.
        let (first, last) = (self.argument(0) as u32, self.argument(1) as u32);
        let flags = self.int(2);
        let wrong = first > last || flags & !ALL_CLOSE_RANGE_FLAGS != 0;
        if wrong || flags & CLOSE_RANGE_CLOEXEC != 0 {
            return GOES_ON;
        }
        // CAST: the bounds are reserved numbers, which are positive.
        let (least, most) = (*RESERVED.start() as u32, *RESERVED.end() as u32);
        self.close(first.clamp(least, most) as i32..=last.clamp(least, most) as i32)
    }

    /// A duplicate stays among the reserved numbers, or its calls would not stop.
    fn duplicate(&self, least: i32, close_on_exec: bool) -> Outcome {
        let Some(file) = self.file(self.int(0)) else {
            return GOES_ON;
        };
        if least > *RESERVED.end() {
            complain(&format!(
                "a duplicate at {least} or above is refused (EMFILE): descriptors of a device are {} to {}",
                RESERVED.start(),
                RESERVED.end()
            ));
            return errno(libc::EMFILE);
        }
        let pid = self.target.pid;
        let given = self.supervisor.processes.install(
            &self.supervisor.listener,
            (pid, self.notification),
            (file, None),
            least,
            close_on_exec,
        );
        match given {
            Ok(_) => Given,
            // CAST: error numbers are small positive ones.
            Err(error) => errno(error as i32),
        }
    }

    /// dup2 and dup3, to or from a reserved number.
    fn duplicate_onto(&self) -> Outcome {
        let (from, onto) = (self.int(0), self.int(1));
        let concerns_us = self.file(from).is_some() || RESERVED.contains(&onto);
        if from == onto || !concerns_us {
            return GOES_ON;
        }
        complain(&format!(
            "duplicating descriptor {from} onto {onto} is refused (EBADF): calls on a copy of a device's descriptor, or at \
             {} to {}, would not be what they seem",
            RESERVED.start(),
            RESERVED.end()
        ));
        errno(libc::EBADF)
    }
}

// CAST: two flags of the lowest bits.
const CLOSE_RANGE_CLOEXEC: i32 = libc::CLOSE_RANGE_CLOEXEC as i32;
const ALL_CLOSE_RANGE_FLAGS: i32 = CLOSE_RANGE_CLOEXEC | libc::CLOSE_RANGE_UNSHARE as i32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::panic, reason = "what a bug does")]
    fn a_handler_that_panics_has_an_answer() {
        let outcome = or_eio(|| panic!("a bug"));
        assert!(matches!(outcome, Outcome::Reply(Reply::Errno(libc::EIO))));
    }
}
