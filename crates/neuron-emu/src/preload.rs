//! The front end of a preloaded library: calls of one process, answered in that process.
//!
//! Used by the library `neuron-emu-preload`, which defines the functions of libc, and by the command, which starts programs
//! with it. For debuggers, and where seccomp notification is not permitted. Spec `driver_emulation.md` section 7.
//!
//! What it does not do, beyond what [`seccomp`](crate::seccomp) does not either:
//! * It sees calls through the dynamic libc only: not raw system calls, static programs, or calls inside libc.
//! * Each process has devices of its own. A forked child cannot use descriptors that it inherited, nor open nodes: the
//!   emulator's threads are not there. A program that it executes starts anew.
//! * Signals do not interrupt calls that wait.
//! * What a killed process leaves behind is not to be seen: it is gone with it.
//!
//! Nothing here is locked while the emulator is called, and a forked child calls nothing but [`Front::is_ours`], which
//! takes no lock: what a thread that was not forked holds is never waited for.

use crate::call::{Caller, NotCopied};
use crate::complaint::complain;
use crate::driver::{AccessMode, Bug, Emulator, FileId, MapRequest};
use crate::listing::Listing;
use crate::memory;
use crate::nodes::Nodes;
use crate::settings::Settings;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use xu_abi::driver::errno::{self, Answer};
use xu_abi::driver::ioctl::{MEM_ALLOC_V2, MEM_ALLOC_V2MT, MEM_ALLOC_V2MT64};

/// The variable that the settings come in. No product crate knows it.
pub const SETTINGS: &str = "NEURON_EMU_CONFIG";
/// A file that crashes of the kernel are written to: the one who waits for the program reads it.
pub const BUGS: &str = "NEURON_EMU_BUGS";
/// The name of the library.
const LIBRARY: &str = "libneuron_emu_preload.so";

/// Descriptors above are not given out: the kernel's default for the hard limit is below.
const MAX_DESCRIPTORS: usize = 1 << 16;

/// Whether this process is a child of fork, which has memory of its own.
static IN_CHILD: AtomicBool = AtomicBool::new(false);

/// To be called in every child of fork.
pub fn in_child() {
    IN_CHILD.store(true, Ordering::Relaxed);
}

/// The devices of this process.
#[derive(Debug)]
pub struct Front {
    /// Started by the first open of a node; `None` when that failed.
    emulator: OnceLock<Option<Arc<Emulator>>>,
    settings: Settings,
    nodes: Nodes,
    listing: OnceLock<Option<Listing>>,
    /// The process that this was made in.
    process: u32,
    /// By descriptor: the file and 1, or 0.
    files: Box<[AtomicU64]>,
    bugs_seen: AtomicU64,
}

/// The calling thread.
struct Own {
    pid: u32,
}

impl Caller for Own {
    fn pid(&self) -> u32 {
        self.pid
    }

    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), NotCopied> {
        memory::read(self.pid, address, into)
    }

    fn write(&self, address: u64, bytes: &[u8]) -> Result<(), NotCopied> {
        memory::write(self.pid, address, bytes)
    }
}

impl Front {
    /// With the settings of the environment. `None` when there are none, or when they cannot be, which is said.
    #[must_use]
    pub fn from_environment() -> Option<Self> {
        let text = std::env::var(SETTINGS).ok()?;
        let settings = Settings::from_text(&text)
            .inspect_err(|error| complain(&format!("{SETTINGS}: {error}")))
            .ok()?;
        Some(Self {
            emulator: OnceLock::new(),
            nodes: Nodes::new(settings.directory()),
            settings,
            listing: OnceLock::new(),
            process: std::process::id(),
            files: std::iter::repeat_with(AtomicU64::default)
                .take(MAX_DESCRIPTORS)
                .collect(),
            bugs_seen: AtomicU64::new(0),
        })
    }

    /// The device that the path at this address names, with `base` as the directory of a relative path: a descriptor, or
    /// AT_FDCWD.
    #[must_use]
    pub fn node(&self, path: usize, base: i32) -> Option<u32> {
        let path = self.path(path)?;
        self.nodes.find(&path, || {
            let base = match base {
                nix::libc::AT_FDCWD => std::env::current_dir().ok()?,
                descriptor => std::fs::read_link(format!("/proc/self/fd/{descriptor}")).ok()?,
            };
            let listed = self.listing.get().and_then(Option::as_ref);
            let is_listing = listed.is_some_and(|listing| listing.is(&base));
            Some(if is_listing {
                self.nodes.directory().to_owned()
            } else {
                base
            })
        })
    }

    /// The directory to list instead of the one that the path at this address names.
    #[must_use]
    pub fn listing(&self, path: usize) -> Option<&Path> {
        let path = self.path(path)?;
        if !path.is_absolute() || !self.nodes.is_directory(&path) || self.is_forked() {
            return None;
        }
        let devices = self.settings.config().devices;
        let listing = self.listing.get_or_init(|| {
            Listing::create(self.nodes.directory(), devices)
                .inspect_err(|error| complain(&format!("the nodes cannot be listed: {error}")))
                .ok()
        });
        listing.as_ref().map(Listing::place)
    }

    /// The process exits: what it has made in the file system is removed. One that is killed leaves it.
    pub fn at_exit(&self) {
        if !self.is_forked()
            && let Some(Some(listing)) = self.listing.get()
        {
            listing.remove();
        }
    }

    fn path(&self, address: usize) -> Option<PathBuf> {
        // CAST: the same width on all platforms here.
        memory::path(std::process::id(), address as u64)
    }

    /// Opens a device: the file, and the descriptor to give to [`Front::given`].
    ///
    /// # Errors
    /// The error number.
    pub fn open(&self, node: u32, mode: AccessMode) -> Result<(FileId, OwnedFd), i32> {
        if self.is_forked() {
            complain("a forked child has no devices under the preloaded library (ENODEV)");
            return Err(errno::ENODEV);
        }
        let opened = self.emulator()?.open(&self.own(), node, mode)?;
        Ok((opened.file, opened.descriptor))
    }

    /// Whether this is a child of vfork, which has its parent's memory: what it does with descriptors of its own is not to be
    /// written there.
    fn is_borrowed(&self) -> bool {
        // Relaxed: the calling thread has stored it, or none of its process.
        self.is_forked() && !IN_CHILD.load(Ordering::Relaxed)
    }

    /// The program has the file at this number now.
    ///
    /// # Errors
    /// The error number: the file is closed again, and the descriptor is the caller's to close.
    pub fn given(&self, number: i32, file: FileId) -> Result<(), i32> {
        if self.is_borrowed() {
            return Ok(());
        }
        match self.place(number) {
            Some(place) => {
                // PAIRS: with the load in `file`.
                place.store(file.0 + 1, Ordering::Release);
                Ok(())
            }
            None => {
                self.started()?.close(self.process, file);
                Err(nix::libc::EMFILE)
            }
        }
    }

    /// Whether a descriptor is one of a device.
    #[must_use]
    pub fn is_ours(&self, number: i32) -> bool {
        self.file(number).is_some()
    }

    /// The file of a descriptor.
    fn file(&self, number: i32) -> Option<FileId> {
        // PAIRS: with the store in `given`.
        let file = self.place(number)?.load(Ordering::Acquire);
        file.checked_sub(1).map(FileId)
    }

    /// A descriptor of ours was duplicated.
    ///
    /// # Errors
    /// As [`Front::given`].
    pub fn duplicated(&self, from: i32, number: i32) -> Result<(), i32> {
        let Some(file) = self.file(from) else {
            return Ok(());
        };
        if let (false, Ok(emulator)) = (self.is_forked(), self.started()) {
            emulator.duplicated(self.process, file);
        }
        self.given(number, file)
    }

    /// A descriptor is about to be closed, or was replaced.
    pub fn closing(&self, number: i32) {
        if self.is_borrowed() {
            return;
        }
        let Some(place) = self.place(number) else {
            return;
        };
        // AcqRel: whoever finds it closes it, once. PAIRS: with `given`.
        let file = place.swap(0, Ordering::AcqRel);
        if let (Some(file), false, Ok(emulator)) =
            (file.checked_sub(1), self.is_forked(), self.started())
        {
            emulator.close(self.process, FileId(file));
        }
    }

    /// All descriptors of a range are about to be closed.
    pub fn closing_range(&self, first: u32, last: u32) {
        // CAST: below 2^16.
        let end = (MAX_DESCRIPTORS - 1) as u32;
        for number in first..=last.min(end) {
            // CAST: below 2^16.
            self.closing(number as i32);
        }
    }

    /// An ioctl on a descriptor of ours; `None` when it is not.
    #[must_use]
    pub fn ioctl(&self, number: i32, request: u32, argument: u64) -> Option<Answer> {
        let file = self.file(number)?;
        if self.is_forked() {
            return Some(Answer::Errno(forked_ioctl(request)));
        }
        let emulator = self.started().ok()?;
        let answer = emulator.ioctl(&self.own(), file, request, argument);
        self.report(emulator);
        Some(answer)
    }

    /// Whether a mapping of a descriptor may be made; `None` when it is not ours. `Some(Ok(false))`: without the write
    /// flag, as the driver drops it.
    #[must_use]
    pub fn map(&self, number: i32, request: MapRequest) -> Option<Result<bool, i32>> {
        let file = self.file(number)?;
        if self.is_forked() {
            return Some(Err(errno::EPERM));
        }
        Some(self.started().ok()?.map(self.process, file, request))
    }

    fn own(&self) -> Own {
        Own { pid: self.process }
    }

    fn place(&self, number: i32) -> Option<&AtomicU64> {
        self.files.get(usize::try_from(number).ok()?)
    }

    fn is_forked(&self) -> bool {
        std::process::id() != self.process
    }

    /// The emulator, started if it is not.
    fn emulator(&self) -> Result<&Arc<Emulator>, i32> {
        let emulator = self.emulator.get_or_init(|| {
            Emulator::start(self.settings.config().clone())
                .inspect_err(|error| complain(&error.to_string()))
                .ok()
        });
        emulator.as_ref().ok_or(errno::ENODEV)
    }

    fn started(&self) -> Result<&Arc<Emulator>, i32> {
        self.emulator
            .get()
            .and_then(Option::as_ref)
            .ok_or(errno::ENODEV)
    }

    /// Writes crashes of the kernel where somebody looks for them.
    fn report(&self, emulator: &Emulator) {
        let bugs = emulator.bugs();
        // Relaxed, CAST: widening, then below the length of a vector. Each one is written by whoever counts it first.
        let seen = self
            .bugs_seen
            .fetch_max(bugs.len() as u64, Ordering::Relaxed) as usize;
        let lines: String = bugs
            .iter()
            .skip(seen)
            .map(|bug| format!("{bug}\n"))
            .collect();
        if !lines.is_empty() {
            tell(&lines);
        }
    }
}

/// What a forked child is answered: as a process that is not attached. Where that crashes the kernel it is told, though the
/// devices of the parent, which have their memory elsewhere, live on.
fn forked_ioctl(request: u32) -> i32 {
    let allocations = [MEM_ALLOC_V2, MEM_ALLOC_V2MT, MEM_ALLOC_V2MT64];
    let Some(made) = allocations.iter().find(|row| row.request() == request) else {
        return errno::EACCES;
    };
    let bug = Bug {
        trap: 12,
        what: format!("{} by a forked child", made.name),
    };
    complain(&bug.to_string());
    tell(&format!("{bug}\n"));
    errno::EIO
}

/// Writes to where somebody looks for crashes.
fn tell(lines: &str) {
    if let Some(file) = std::env::var_os(BUGS) {
        // Appended: other processes of the program write here, too.
        let opened = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(file);
        let _nobody_looks = opened.and_then(|mut file| file.write_all(lines.as_bytes()));
    }
}

/// The library beside this executable, or in one of the directories above, as Cargo has them for tests.
///
/// # Errors
/// A sentence that says where it was looked for.
pub fn library() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let places: Vec<&Path> = own.ancestors().skip(1).take(2).collect();
    let found = places.iter().map(|place| place.join(LIBRARY));
    found.into_iter().find(|file| file.exists()).ok_or_else(|| {
        let places: Vec<_> = places.iter().map(|p| p.display().to_string()).collect();
        format!(
            "{LIBRARY} is not in {}: `cargo build -p neuron-emu-preload` makes it, with the profile of this command",
            places.join(" nor in ")
        )
    })
}

/// Has a command run under the library.
///
/// # Errors
/// As [`library`].
pub fn prepare(settings: &Settings, command: &mut Command) -> Result<(), String> {
    let mut list: OsString = library()?.into();
    if let Some(others) = std::env::var_os(LIST).filter(|others| !others.is_empty()) {
        list.push(OsStr::new(":"));
        list.push(others);
    }
    command.env(LIST, list).env(SETTINGS, settings.to_text());
    Ok(())
}

/// What the dynamic loader reads.
const LIST: &str = "LD_PRELOAD";
