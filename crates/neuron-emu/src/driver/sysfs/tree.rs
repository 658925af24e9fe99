//! A directory of small files that goes with its owner.

use crate::directory::{self, OwnDirectory};
use crate::driver::totals::Counter;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Mode of a file that root can clear.
pub(super) const COUNTER: u32 = 0o644;

/// What the names of these directories begin with; the process id follows, and a number.
const NAME: &str = "neuron-emu-sysfs-";

/// Files in memory.
const MEMORY: &str = "/dev/shm";

/// The files, and what each has.
#[derive(Debug)]
pub(in crate::driver) struct Tree {
    root: OwnDirectory,
    contents: BTreeMap<String, String>,
    /// That are there.
    directories: BTreeSet<PathBuf>,
}

impl Tree {
    /// A new directory: in memory where there is such a place, as it is thousands of files, else among the temporary ones.
    pub(super) fn create() -> io::Result<Self> {
        let memory = Path::new(MEMORY);
        let in_memory = memory
            .is_dir()
            .then(|| OwnDirectory::create(memory, NAME).ok());
        let root = match in_memory.flatten() {
            Some(root) => root,
            None => OwnDirectory::create(&std::env::temp_dir(), NAME)?,
        };
        Ok(Self {
            root,
            contents: BTreeMap::new(),
            directories: BTreeSet::new(),
        })
    }

    /// Removes those of processes that are gone.
    pub(in crate::driver) fn sweep() {
        directory::sweep(Path::new(MEMORY), NAME);
        directory::sweep(&std::env::temp_dir(), NAME);
    }

    /// Whether a path is that of such a directory, and it or the process that made it is gone.
    pub(in crate::driver) fn is_abandoned(root: &Path) -> bool {
        directory::is_abandoned(root, NAME)
    }

    pub(in crate::driver) fn root(&self) -> &Path {
        self.root.place()
    }

    /// A file with this text, unless it has it already.
    pub(super) fn write(&mut self, path: &str, text: &str, mode: u32) -> io::Result<()> {
        let file = self.root.place().join(path);
        match self.contents.get_mut(path) {
            Some(there) if there == text => {}
            Some(there) => {
                replace(&file, text, mode)?;
                text.clone_into(there);
            }
            None => {
                self.ensure_directory(&file)?;
                create(&file, text, mode)?;
                self.contents.insert(path.to_owned(), text.to_owned());
            }
        }
        Ok(())
    }

    fn ensure_directory(&mut self, file: &Path) -> io::Result<()> {
        match file.parent() {
            Some(directory) if !self.directories.contains(directory) => {
                fs::create_dir_all(directory)?;
                self.directories.insert(directory.to_owned());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A directory that is a counter.
    pub(super) fn write_counter(&mut self, path: &str, counter: Counter) -> io::Result<()> {
        let Counter { total, present } = counter;
        self.write(&format!("{path}/total"), &format!("{total}\n"), COUNTER)?;
        self.write(&format!("{path}/present"), &format!("{present}\n"), COUNTER)
    }
}

/// Puts a whole file in place at once: who reads sees the old text or the new one.
fn replace(file: &Path, text: &str, mode: u32) -> io::Result<()> {
    let new = file.with_extension("new");
    create(&new, text, mode)?;
    fs::rename(&new, file)
}

fn create(file: &Path, text: &str, mode: u32) -> io::Result<()> {
    fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(file)?
        .write_all(text.as_bytes())
}
