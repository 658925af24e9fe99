//! The file of a host, and the kernel's locks on its bytes.
//!
//! Called by the registry of claims, which keeps it open. The file has no contents: locks reach past its end.

use core::ops::Range;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// The open file, and which one it is.
#[derive(Debug)]
pub(super) struct HostFile {
    file: File,
    id: (u64, u64),
}

/// A process; `None` when the kernel has no number for it that we could use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pid(pub(super) Option<u32>);

impl HostFile {
    /// Which file has this name now: device and inode.
    pub(super) fn id_of(path: &Path) -> io::Result<(u64, u64)> {
        let metadata = std::fs::metadata(path)?;
        Ok((metadata.dev(), metadata.ino()))
    }

    /// Makes it when it is not there. The directory has to be.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        // Closed on exec, as all files of the standard library. A link in its place would be somebody's trap.
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)?;
        let metadata = file.metadata()?;
        Ok(Self {
            file,
            id: (metadata.dev(), metadata.ino()),
        })
    }

    pub(super) fn id(&self) -> (u64, u64) {
        self.id
    }

    /// Locks all of these bytes, or none when another process has one.
    pub(super) fn lock(&self, bytes: &Range<u32>) -> io::Result<bool> {
        let lock = record(libc::F_WRLCK, bytes);
        match fcntl(&self.file, FcntlArg::F_SETLK(&lock)) {
            Ok(_) => Ok(true),
            Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn unlock(&self, bytes: &Range<u32>) -> io::Result<()> {
        let lock = record(libc::F_UNLCK, bytes);
        fcntl(&self.file, FcntlArg::F_SETLK(&lock))?;
        Ok(())
    }

    /// The other process that has this byte.
    pub(super) fn holder(&self, byte: u32) -> io::Result<Option<Pid>> {
        let mut lock = record(libc::F_WRLCK, &(byte..byte.saturating_add(1)));
        fcntl(&self.file, FcntlArg::F_GETLK(&mut lock))?;
        if i32::from(lock.l_type) == libc::F_UNLCK {
            return Ok(None);
        }
        let pid = u32::try_from(lock.l_pid).ok().filter(|pid| *pid > 0);
        Ok(Some(Pid(pid)))
    }
}

fn record(kind: i32, bytes: &Range<u32>) -> libc::flock {
    libc::flock {
        // CAST: constants of a few bits.
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: bytes.start.into(),
        l_len: bytes.len() as libc::off_t,
        l_pid: 0,
    }
}
