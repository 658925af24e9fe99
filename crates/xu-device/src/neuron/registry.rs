//! What this process has open: each device once, and one descriptor for claims.
//!
//! The driver counts opens and closes of a process, and frees its memory when a close brings the count to 0, whichever
//! descriptor was closed. Spec `driver.md` section 11, traps 11 and 13.

use super::error::DriverError;
use super::owner::Owner;
use core::time::Duration;
use nix::sys::stat::major;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// What all nodes of one driver have in common, by whatever path they are found: closing a write-only descriptor of any of them
/// drops the claims of the process on all. The number of the driver, or the directory of nodes that are no devices.
pub(super) fn driver_of(node: &Path, directory: &Path) -> PathBuf {
    let is_device = |node: &Metadata| node.file_type().is_char_device();
    match std::fs::metadata(node).ok().filter(is_device) {
        Some(node) => Path::new("/sys/dev/char").join(major(node.rdev()).to_string()),
        None => std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned()),
    }
}

/// What is open, by the process that opened it: a child of a fork has opened nothing.
static OPEN: Mutex<BTreeSet<(Owner, PathBuf)>> = Mutex::new(BTreeSet::new());

/// The lock is held for moments only. In a child of a fork it may be held for ever, by a thread that is not there.
const PATIENCE: Duration = Duration::from_secs(1);

/// The right to have one path open. Dropped after the descriptor is closed.
#[derive(Debug)]
pub(super) struct Turn {
    key: (Owner, PathBuf),
}

impl Turn {
    /// Takes the turn for a path.
    ///
    /// # Errors
    /// [`DriverError::AlreadyOpen`]; [`DriverError::Forked`] when a thread of the parent was here when it forked.
    pub(super) fn take(path: &Path) -> Result<Self, DriverError> {
        let key = (Owner::here(), path.to_owned());
        let Some(mut open) = OPEN.try_lock_for(PATIENCE) else {
            return Err(DriverError::Forked);
        };
        if open.insert(key.clone()) {
            Ok(Self { key })
        } else {
            Err(DriverError::AlreadyOpen {
                path: path.to_owned(),
            })
        }
    }

    /// The turn of another process, for tests: as after a fork.
    #[cfg(test)]
    pub(super) fn elsewhere(path: &Path) -> Self {
        Self {
            key: (Owner::elsewhere(), path.to_owned()),
        }
    }

    pub(super) fn owner(&self) -> Owner {
        self.key.0
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // A child leaves the lock alone: another thread of its parent may have held it.
        if self.key.0.is_here() {
            OPEN.lock().remove(&self.key);
        }
    }
}
