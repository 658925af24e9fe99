//! A directory of small files that goes with its owner.

use crate::driver::totals::Counter;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, io};

/// Mode of a file that root can clear.
pub(super) const COUNTER: u32 = 0o644;

/// What the names of these directories begin with; the process id follows, and a number.
const NAME: &str = "neuron-emu-sysfs-";

/// The files, and what each has.
#[derive(Debug)]
pub(in crate::driver) struct Tree {
    root: PathBuf,
    contents: BTreeMap<String, String>,
    /// That are there.
    directories: BTreeSet<PathBuf>,
}

impl Tree {
    /// A new directory: in memory where there is such a place, as it is thousands of files, else among the temporary ones.
    pub(super) fn create() -> io::Result<Self> {
        let memory = PathBuf::from("/dev/shm");
        if memory.is_dir()
            && let Ok(tree) = Self::create_in(&memory)
        {
            return Ok(tree);
        }
        Self::create_in(&std::env::temp_dir())
    }

    fn create_in(directory: &Path) -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("{NAME}{}-{number}", std::process::id());
            let root = directory.join(name);
            match fs::create_dir(&root) {
                Ok(()) => {
                    return Ok(Self {
                        root,
                        contents: BTreeMap::new(),
                        directories: BTreeSet::new(),
                    });
                }
                // A process with this id has left one.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether a path is that of such a directory, and it or the process that made it is gone.
    pub(in crate::driver) fn is_abandoned(root: &Path) -> bool {
        let name = root.file_name().and_then(|name| name.to_str());
        let owner = name
            .and_then(|name| name.strip_prefix(NAME)?.split_once('-'))
            .and_then(|(pid, _)| pid.parse::<u32>().ok());
        owner.is_some_and(|pid| !root.exists() || !Path::new(&format!("/proc/{pid}")).exists())
    }

    pub(in crate::driver) fn root(&self) -> &Path {
        &self.root
    }

    /// A file with this text, unless it has it already.
    pub(super) fn write(&mut self, path: &str, text: &str, mode: u32) -> io::Result<()> {
        let file = self.root.join(path);
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

impl Drop for Tree {
    fn drop(&mut self) {
        // Nobody is left to be told; a temporary directory is swept some day.
        let _ = fs::remove_dir_all(&self.root);
    }
}
