//! A directory that goes with its process: made, held, removed. Those of processes that were killed are swept by the next.
//!
//! Used by the tree that stands for sysfs and by the listings of nodes, which know what is in them.
//!
//! ```text
//!   <parent>/<prefix><process id>-<number>     locked (flock) for as long as somebody has it: the kernel lets go when the
//!                                              process ends, however that is
//! ```
//!
//! A directory is abandoned when no process of this number is there *and* nobody holds its lock: numbers are of a namespace,
//! and a lock is not; a number can be another's by now, and then the directory waits for it to end.

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag, open};
use nix::sys::stat::Mode;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory that is removed in the end, by the process that made it.
#[derive(Debug)]
pub(crate) struct OwnDirectory {
    place: PathBuf,
    owner: u32,
    /// There until this is dropped.
    lock: Option<Flock<OwnedFd>>,
}

static NEXT: AtomicU32 = AtomicU32::new(0);

impl OwnDirectory {
    /// Makes one in `parent`, and removes what is abandoned there.
    pub(crate) fn create(parent: &Path, prefix: &str) -> io::Result<Self> {
        sweep(parent, prefix);
        let owner = std::process::id();
        loop {
            // Relaxed: only the numbers must differ.
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let place = parent.join(format!("{prefix}{owner}-{number}"));
            match std::fs::create_dir(&place) {
                Ok(()) => {}
                // A process with this id has left one.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            }
            match lock(&place) {
                Ok(lock) if place.exists() => {
                    return Ok(Self {
                        place,
                        owner,
                        lock: Some(lock),
                    });
                }
                // Swept by somebody of another namespace, before it was locked.
                Ok(_) | Err(Errno::EWOULDBLOCK | Errno::ENOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    pub(crate) fn place(&self) -> &Path {
        &self.place
    }

    /// Removes it before its time: the process exits without dropping it.
    pub(crate) fn remove(&self) {
        // A child of a fork has it from its parent, which goes on with it.
        if self.owner == std::process::id() {
            // Nobody is left to be told, and somebody sweeps.
            let _stays = std::fs::remove_dir_all(&self.place);
        }
    }
}

impl Drop for OwnDirectory {
    fn drop(&mut self) {
        self.remove();
        let lock = self.lock.take();
        if self.owner != std::process::id() {
            // A child of a fork has the lock together with its parent, and who lets go of it does so for both.
            core::mem::forget(lock);
        }
    }
}

/// Removes the directories of processes that are gone.
pub(crate) fn sweep(parent: &Path, prefix: &str) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let place = entry.path();
        // Held until it is removed: who makes one of this name meanwhile does not get it.
        if let Some(_held) = take(&place, prefix) {
            // Somebody else sweeps, or may and we may not.
            let _stays = std::fs::remove_dir_all(place);
        }
    }
}

/// Locks a directory whose process is gone, unless somebody has it all the same.
fn take(place: &Path, prefix: &str) -> Option<Flock<OwnedFd>> {
    let owner = owner(place, prefix)?;
    if Path::new(&format!("/proc/{owner}")).exists() {
        return None;
    }
    lock(place).ok()
}

/// Whether a path is that of such a directory, and it or who had it is gone.
pub(crate) fn is_abandoned(place: &Path, prefix: &str) -> bool {
    let is_gone = owner(place, prefix).is_some() && !place.exists();
    is_gone || take(place, prefix).is_some()
}

/// The process id in a name.
fn owner(place: &Path, prefix: &str) -> Option<u32> {
    let name = place.file_name()?.to_str()?;
    let (owner, number) = name.strip_prefix(prefix)?.split_once('-')?;
    let _number: u32 = number.parse().ok()?;
    owner.parse().ok()
}

/// Locks a directory, unless somebody has it. No link is followed.
fn lock(place: &Path) -> Result<Flock<OwnedFd>, Errno> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let directory = open(place, flags, Mode::empty())?;
    Flock::lock(directory, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| errno)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFIX: &str = "of-tests-";

    /// Where a test makes its own.
    fn parent(test: &str) -> OwnDirectory {
        OwnDirectory::create(&std::env::temp_dir(), &format!("neuron-emu-{test}-")).unwrap()
    }

    /// The number of a process that is gone.
    fn gone() -> u32 {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        child.id()
    }

    #[test]
    fn what_a_process_that_is_gone_has_left_is_swept_and_nothing_else() {
        let parent = parent("sweeps");
        let at = |name: String| parent.place().join(name);
        let stays = [
            at(format!("{PREFIX}{}-7", std::process::id())),
            at(format!("{PREFIX}{}", gone())),
            at(format!("{PREFIX}{}-7.old", gone())),
            at(format!("of-others-{}-7", gone())),
        ];
        let goes = [
            at(format!("{PREFIX}{}-7", gone())),
            at(format!("{PREFIX}{}-8", gone())),
        ];
        for place in stays.iter().chain(&goes) {
            std::fs::create_dir(place).unwrap();
            std::fs::write(place.join("file"), "text").unwrap();
        }
        // Somebody of another namespace has it, whose numbers are not ours.
        let held = at(format!("{PREFIX}{}-9", gone()));
        std::fs::create_dir(&held).unwrap();
        let lock = lock(&held).unwrap();
        let own = OwnDirectory::create(parent.place(), PREFIX).unwrap();
        let all_there = |places: &[PathBuf]| places.iter().all(|place| place.exists());
        assert!(all_there(&stays) && held.exists() && own.place().exists());
        assert!(!goes.iter().any(|place| place.exists()));
        drop(lock);
        sweep(parent.place(), PREFIX);
        assert!(!held.exists() && all_there(&stays));
        let place = own.place().to_owned();
        assert!(!is_abandoned(&place, PREFIX));
        drop(own);
        assert!(!place.exists() && is_abandoned(&place, PREFIX));
    }

    #[test]
    fn nobody_else_gets_one_that_is_about_to_be_removed() {
        let parent = parent("takes");
        let place = parent.place().join(format!("{PREFIX}{}-1", gone()));
        std::fs::create_dir(&place).unwrap();
        let taken = take(&place, PREFIX).unwrap();
        assert_eq!(lock(&place).err(), Some(Errno::EWOULDBLOCK));
        assert!(take(&place, PREFIX).is_none() && !is_abandoned(&place, PREFIX));
        drop(taken);
        assert!(is_abandoned(&place, PREFIX));
    }

    #[test]
    fn no_link_is_followed_into_another_directory() {
        let parent = parent("links");
        let target = parent.place().join("target");
        std::fs::create_dir(&target).unwrap();
        std::fs::write(target.join("file"), "text").unwrap();
        let link = parent.place().join(format!("{PREFIX}{}-1", gone()));
        std::os::unix::fs::symlink(&target, &link).unwrap();
        sweep(parent.place(), PREFIX);
        assert!(link.exists() && target.join("file").exists());
    }
}
