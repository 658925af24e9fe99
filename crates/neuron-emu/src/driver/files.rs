//! Open files, and the descriptors of each process that refer to them.
//!
//! A file is released with the last descriptor; a node has its last reference with the last file.

use super::{AccessMode, FileId};
use std::collections::BTreeMap;

/// All open files.
#[derive(Debug, Default)]
pub(super) struct Files {
    next: u64,
    open: BTreeMap<FileId, File>,
}

/// One open file.
#[derive(Debug)]
struct File {
    node: u32,
    mode: AccessMode,
    /// Descriptors by process.
    descriptors: BTreeMap<u32, u32>,
}

impl Files {
    /// A new file with one descriptor.
    pub(super) fn open(&mut self, pid: u32, node: u32, mode: AccessMode) -> FileId {
        self.next += 1;
        let file = FileId(self.next);
        let descriptors = BTreeMap::from([(pid, 1)]);
        let entry = File {
            node,
            mode,
            descriptors,
        };
        self.open.insert(file, entry);
        file
    }

    /// Device and access mode.
    pub(super) fn get(&self, file: FileId) -> Option<(u32, AccessMode)> {
        let file = self.open.get(&file)?;
        Some((file.node, file.mode))
    }

    /// One more descriptor.
    pub(super) fn duplicate(&mut self, pid: u32, file: FileId) {
        if let Some(file) = self.open.get_mut(&file) {
            *file.descriptors.entry(pid).or_default() += 1;
        }
    }

    /// One descriptor less: device and access mode, if the process had one.
    pub(super) fn close(&mut self, pid: u32, file: FileId) -> Option<(u32, AccessMode)> {
        let entry = self.open.get_mut(&file)?;
        let count = entry.descriptors.get_mut(&pid)?;
        *count -= 1;
        if *count == 0 {
            entry.descriptors.remove(&pid);
        }
        let closed = (entry.node, entry.mode);
        if entry.descriptors.is_empty() {
            self.open.remove(&file);
        }
        Some(closed)
    }

    /// The files of a process, each as often as it has descriptors.
    pub(super) fn of(&self, pid: u32) -> Vec<FileId> {
        self.open
            .iter()
            .flat_map(|(id, file)| {
                let count = file.descriptors.get(&pid).copied().unwrap_or(0);
                std::iter::repeat_n(*id, count as usize)
            })
            .collect()
    }

    /// Whether any file of a device is open.
    pub(super) fn is_open(&self, node: u32) -> bool {
        self.open.values().any(|file| file.node == node)
    }

    /// Processes with descriptors of a device, with their number.
    pub(super) fn holders(&self, node: u32) -> BTreeMap<u32, u32> {
        let mut holders = BTreeMap::new();
        for file in self.open.values().filter(|file| file.node == node) {
            for (pid, count) in &file.descriptors {
                *holders.entry(*pid).or_default() += count;
            }
        }
        holders
    }
}
