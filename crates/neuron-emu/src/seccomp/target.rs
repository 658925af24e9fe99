//! A thread whose system call is being served: its process, its memory, its paths, its signals.

use super::listener::Listener;
use super::sys;
use crate::call::{Caller, NotCopied};
use crate::memory;
use nix::errno::Errno;
use nix::libc;
use std::path::PathBuf;

/// A thread in a call.
#[derive(Debug)]
pub(super) struct Target<'l> {
    pub(super) pid: u32,
    pub(super) tid: u32,
    /// The call.
    pub(super) id: u64,
    pub(super) listener: &'l Listener,
}

impl Caller for Target<'_> {
    fn pid(&self) -> u32 {
        self.pid
    }

    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), NotCopied> {
        memory::read(self.tid, address, into)?;
        // Only now is it known whose memory it was: the number of a thread that has ended can be another's.
        self.still(into.len())
    }

    fn write(&self, address: u64, bytes: &[u8]) -> Result<(), NotCopied> {
        self.still(bytes.len())?;
        memory::write(self.tid, address, bytes)
    }

    fn is_interrupted(&self) -> bool {
        !self.listener.is_waiting(self.id) || has_signal(self.tid)
    }
}

impl Target<'_> {
    /// That the call still waits, so that the thread is the one that made it.
    fn still(&self, bytes: usize) -> Result<(), NotCopied> {
        if self.listener.is_waiting(self.id) {
            return Ok(());
        }
        Err(NotCopied(bytes))
    }

    /// A path in its memory. `None` when the pointer is bad or the text too long: the kernel says which.
    pub(super) fn path(&self, address: u64) -> Option<PathBuf> {
        memory::path(self.tid, address).filter(|_| self.listener.is_waiting(self.id))
    }

    /// What a relative path starts from: the directory `descriptor`, or the current one.
    pub(super) fn base(&self, descriptor: i32) -> Option<PathBuf> {
        let link = if descriptor == libc::AT_FDCWD {
            format!("/proc/{}/cwd", self.tid)
        } else {
            format!("/proc/{}/fd/{descriptor}", self.tid)
        };
        std::fs::read_link(link).ok()
    }
}

/// The process of a thread; `None` when the thread is gone.
///
/// # Errors
/// It cannot be asked: this process has no descriptor left, most likely.
pub(super) fn process_of(tid: u32) -> Result<Option<u32>, Errno> {
    let own = std::process::id();
    if is_still(own, tid) {
        // Known without a descriptor: where the program is this process, they run out for both.
        return Ok(Some(own));
    }
    let Some(status) = status(tid)? else {
        return Ok(None);
    };
    Ok(field(&status, "Tgid:").and_then(|pid| pid.parse().ok()))
}

/// Whether a process has a filter at all: the others cannot have descriptors of ours at reserved numbers.
pub(super) fn is_filtered(pid: u32) -> bool {
    let status = status(pid).ok().flatten();
    status.is_some_and(|status| field(&status, "Seccomp:") == Some("2"))
}

/// Processes that these threads' process has made and not yet lost.
pub(super) fn children_of(pid: u32) -> Vec<u32> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    threads
        .flatten()
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok())
        .flat_map(|list| {
            let pids: Vec<u32> = list
                .split_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect();
            pids
        })
        .collect()
}

/// Every process.
pub(super) fn everybody() -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// Descriptor numbers that are in use; none when the process is gone.
///
/// # Errors
/// As [`process_of`].
pub(super) fn descriptors_of(pid: u32) -> Result<Vec<i32>, Errno> {
    let entries = match std::fs::read_dir(format!("/proc/{pid}/fd")).map_err(number) {
        Ok(entries) => entries,
        Err(Errno::ENOENT | Errno::ESRCH) => return Ok(Vec::new()),
        Err(errno) => return Err(errno),
    };
    let numbers = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Ok(numbers.collect())
}

/// Whether a signal waits to be delivered to a thread.
fn has_signal(tid: u32) -> bool {
    let status = match status(tid) {
        Ok(Some(status)) => status,
        Ok(None) => return true,
        // Nobody knows: it is asked again.
        Err(_) => return false,
    };
    let mask = |name| {
        field(&status, name)
            .and_then(|mask| u64::from_str_radix(mask, 16).ok())
            .unwrap_or(0)
    };
    (mask("SigPnd:") | mask("ShdPnd:")) & !mask("SigBlk:") != 0
}

fn status(tid: u32) -> Result<Option<String>, Errno> {
    match std::fs::read_to_string(format!("/proc/{tid}/status")).map_err(number) {
        Ok(status) => Ok(Some(status)),
        Err(Errno::ENOENT | Errno::ESRCH) => Ok(None),
        Err(errno) => Err(errno),
    }
}

fn number(error: std::io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or_default())
}

fn field<'s>(status: &'s str, name: &str) -> Option<&'s str> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim())
}

/// Whether a thread still belongs to the process it was last seen in.
pub(super) fn is_still(pid: u32, tid: u32) -> bool {
    sys::is_thread_of(pid, tid)
}
