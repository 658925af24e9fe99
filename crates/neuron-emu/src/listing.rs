//! What a program sees when it lists the directory of the nodes: what is there, and the nodes.
//!
//! Used by both front ends. A directory of its own, of links: names of the original lead to the original, nodes are empty files. A program that
//! opens a node by its path gets the device; one that opens it relative to this listing does so, too, since
//! [`Nodes`](crate::nodes::Nodes) is asked about the original's path ([`Listing::is`]).

use crate::directory::{self, OwnDirectory};
use std::fs::File;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

/// A directory that is removed in the end.
#[derive(Debug)]
pub(crate) struct Listing(OwnDirectory);

/// What their names begin with; the process id follows, and a number.
const NAME: &str = "neuron-emu-";

impl Listing {
    /// Makes the listing of `original` with the nodes of so many devices.
    pub(crate) fn create(original: &Path, devices: u32) -> io::Result<Self> {
        let listing = Self(OwnDirectory::create(&std::env::temp_dir(), NAME)?);
        for device in 0..devices {
            File::create(listing.place().join(format!("neuron{device}")))?;
        }
        for entry in std::fs::read_dir(original).into_iter().flatten().flatten() {
            // A node that is really there is hidden by ours.
            let _exists = symlink(entry.path(), listing.place().join(entry.file_name()));
        }
        Ok(listing)
    }

    /// Where it is.
    pub(crate) fn place(&self) -> &Path {
        self.0.place()
    }

    /// Removes those of processes that are gone.
    pub(crate) fn sweep() {
        directory::sweep(&std::env::temp_dir(), NAME);
    }

    pub(crate) fn open(&self) -> io::Result<File> {
        File::open(self.place())
    }

    /// Whether a path leads here.
    pub(crate) fn is(&self, path: &Path) -> bool {
        path == self.place()
    }

    /// Removes it before its time: the process exits without dropping it.
    pub(crate) fn remove(&self) {
        self.0.remove();
    }
}
