//! The memory of a program, its own process included: copied by the kernel, which checks every address.
//!
//! Used by both front ends.

use crate::call::NotCopied;
use nix::libc;
use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::io::{IoSlice, IoSliceMut};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// The smallest page: what is read up to its end can be read as a whole or not at all.
const PAGE: u64 = 4096;

/// A path. `None` when the pointer is bad or the text too long.
pub(crate) fn path(tid: u32, address: u64) -> Option<PathBuf> {
    let mut text = Vec::new();
    // CAST: 4096.
    while text.len() < libc::PATH_MAX as usize {
        let at = address.checked_add(text.len() as u64)?;
        // CAST: at most a page.
        let mut part = vec![0; (PAGE - at % PAGE) as usize];
        read(tid, at, &mut part).ok()?;
        if let Some(end) = part.iter().position(|byte| *byte == 0) {
            part.truncate(end);
            text.extend(part);
            return Some(OsString::from_vec(text).into());
        }
        text.extend(part);
    }
    None
}

/// Copies from the memory of a thread's process.
pub(crate) fn read(tid: u32, address: u64, into: &mut [u8]) -> Result<(), NotCopied> {
    let bytes = into.len();
    if bytes == 0 {
        return Ok(());
    }
    let remote = part(address, bytes).ok_or(NotCopied(bytes))?;
    let copied = process_vm_readv(pid(tid), &mut [IoSliceMut::new(into)], &[remote]);
    whole(copied, bytes)
}

/// Copies to the memory of a thread's process.
pub(crate) fn write(tid: u32, address: u64, bytes: &[u8]) -> Result<(), NotCopied> {
    let length = bytes.len();
    if length == 0 {
        return Ok(());
    }
    let remote = part(address, length).ok_or(NotCopied(length))?;
    let copied = process_vm_writev(pid(tid), &[IoSlice::new(bytes)], &[remote]);
    whole(copied, length)
}

fn part(address: u64, len: usize) -> Option<RemoteIoVec> {
    let base = usize::try_from(address).ok()?;
    Some(RemoteIoVec { base, len })
}

fn whole(copied: nix::Result<usize>, bytes: usize) -> Result<(), NotCopied> {
    match bytes.saturating_sub(copied.unwrap_or(0)) {
        0 => Ok(()),
        missing => Err(NotCopied(missing)),
    }
}

fn pid(tid: u32) -> Pid {
    // CAST: the kernel's numbers are below 2^22.
    Pid::from_raw(tid as i32)
}
