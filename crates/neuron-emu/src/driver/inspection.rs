//! What tests and front ends ask of the emulator that no program can: traces, bugs, faults, what is left, sysfs.

use super::bug::Bug;
use super::remains::Remains;
use super::sysfs::{Sysfs, Tree};
use super::trace::{Event, Traced};
use super::{Emulator, reset};
use crate::config::DriverRule;
use crate::listing::Listing;
use std::io;
use std::path::{Path, PathBuf};
use xu_abi::driver::errno;

impl Emulator {
    /// One more thing that goes wrong, from now on.
    pub fn inject(&self, rule: DriverRule) {
        for device in &self.devices {
            device.faults.add(rule);
        }
    }

    /// Where the real driver would have crashed, in the order in which it happened. A test that leaves any has failed.
    #[must_use]
    pub fn bugs(&self) -> Vec<Bug> {
        self.system.bugs.lock().clone()
    }

    /// The last things that happened, the oldest first.
    #[must_use]
    pub fn trace(&self) -> Vec<Traced> {
        self.system.trace().entries()
    }

    /// Forgets what has happened.
    pub fn clear_trace(&self) {
        self.system.trace().clear();
    }

    /// A directory that stands for `/sys`; it goes with the emulator.
    ///
    /// # Errors
    /// It could not be written.
    pub fn sysfs_root(&self) -> io::Result<PathBuf> {
        let mut sysfs = self.sysfs.lock();
        if sysfs.is_none() {
            *sysfs = Some(Sysfs::create(&self.devices)?);
        }
        let root = sysfs.as_ref().map(|sysfs| sysfs.tree.root().to_owned());
        Ok(root.unwrap_or_default())
    }

    /// Removes that directory before the emulator goes, which somebody may have for longer. Who asks for it later gets another one.
    pub fn remove_sysfs(&self) {
        drop(self.sysfs.lock().take());
    }

    /// Whether a path is that of such a directory of an emulator that is gone: a link to it can be replaced.
    #[must_use]
    pub fn is_abandoned_sysfs(root: &Path) -> bool {
        Tree::is_abandoned(root)
    }

    /// Removes the directories that emulators of processes that are gone have left: those that stand for `/sys`, and listings
    /// of nodes.
    pub fn sweep() {
        Tree::sweep();
        Listing::sweep();
    }

    /// Has the files of sysfs show what there is now. They do when a process is done, without this.
    ///
    /// # Errors
    /// They could not be written.
    pub fn refresh_sysfs(&self) -> io::Result<()> {
        match &mut *self.sysfs.lock() {
            Some(sysfs) => sysfs.refresh(&self.devices),
            None => Ok(()),
        }
    }

    /// A program is about to open a file, with this path. The kernel makes the text of a file of sysfs when it is opened:
    /// front ends call this so that those of the emulator are new, too.
    pub fn opening(&self, path: &Path) {
        let is_sysfs = |sysfs: &Sysfs| path.starts_with(sysfs.tree.root());
        let is_read = self.sysfs.lock().as_ref().is_some_and(is_sysfs);
        if is_read {
            self.counters_moved();
        }
    }

    /// A process is done, or somebody looks: counters may have moved.
    pub(super) fn counters_moved(&self) {
        if let Err(error) = self.refresh_sysfs() {
            let what = format!("sysfs cannot be written: {error}");
            self.system.record(0, None, Event::Warning(what));
        }
    }

    /// What root does by writing to the file `reset` of a device.
    ///
    /// # Errors
    /// ENOENT: no such device; EBUSY: somebody has it open.
    pub fn reset_node(&self, node: u32) -> Result<(), i32> {
        // CAST: widening.
        let device = self.devices.get(node as usize).ok_or(errno::ENOENT)?;
        let files = self.files.lock();
        if files.is_open(node) {
            return Err(errno::EBUSY);
        }
        reset::whole(device);
        drop(files);
        self.counters_moved();
        Ok(())
    }

    /// What processes have left, or have still.
    #[must_use]
    pub fn remains(&self) -> Remains {
        let files = self.files.lock();
        Remains::of(&self.devices, &files)
    }
}
