//! Which process has which cores, where several share a host.
//!
//! A simulated machine is its process's own. Processes that are to share one name a *host*, an existing directory
//! ([`Builder::simulated_host`](crate::Builder::simulated_host), `NRTA_SIM_HOST`): then the cores of the machine are claimed
//! before anything is opened, all that are asked for or none, and a core that somebody has is refused ([`Busy`]). A claim ends
//! with the runtime, or with the process, however it dies: the kernel holds it.
//!
//! ```text
//!  host directory
//!   ├─ cores      one byte for each physical core, locked by who has it   ◀─ the claim: fcntl record locks
//!   ├─ core-0     who that is: process id, command, tag, since when        ◀─ for people; believed only if the
//!   └─ core-1     ...                                                         process id is that of the lock
//! ```
//!
//! How many cores the machine has, every process says for itself, and all should say the same
//! ([`Builder::simulated_tpbs`](crate::Builder::simulated_tpbs), `NRTA_SIM_CORES`). When nobody says it there are two logical
//! cores, or as many as the runtime needs if that is more. Two runtimes that share a host, here of one process:
//!
//! ```
//! use nrta::{Error, Runtime};
//!
//! # let directory = std::env::temp_dir().join(format!("nrta-claims-{}", std::process::id()));
//! # std::fs::create_dir_all(&directory)?;
//! let builder = Runtime::builder().cores(1).simulated_host(&directory);
//! let first = builder.clone().open()?;
//! let second = builder.clone().open()?;
//! assert_eq!(first.settings().first_core.value, 0);
//! assert_eq!(second.settings().first_core.value, 1);
//!
//! let Err(Error::Busy(busy)) = builder.clone().open() else { panic!("both cores are taken") };
//! assert_eq!((busy.core, busy.machine_cores), (0, 2));
//! first.close();
//! assert!(builder.open().is_ok());
//! # drop(second);
//! # std::fs::remove_dir_all(&directory)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Record locks are of a process: a forked child has none of them and can release none. Two things about them need care. They do
//! not conflict within a process, so all claims of this process are in one registry. And closing any descriptor of the file
//! would end them all, so a file that was opened stays open for as long as the process lives; that is one descriptor for each
//! host. Whoever removes the file while it is in use breaks the host. Spec: `env.md` section 3, failure kind P4.

mod locks;
mod record;

use crate::error::Error;
use core::fmt;
use core::ops::Range;
use core::time::Duration;
use locks::HostFile;
use parking_lot::Mutex;
use record::Record;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use xu_worker::fork::Owner;

/// How often to look again when what was free is taken by the time it is to be locked.
const ATTEMPTS: usize = 64;
/// How long to wait for another thread that claims. Only in a child that was forked meanwhile it never ends.
const PATIENCE: Duration = Duration::from_secs(5);

/// The claims of this process.
static HOSTS: Mutex<Hosts> = Mutex::new(Hosts {
    owner: None,
    hosts: Vec::new(),
});

/// Cores were asked for that somebody else has. Nothing is claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Busy {
    /// First of the machine's logical cores that was asked for.
    pub first: u32,
    /// Last of them.
    pub last: u32,
    /// How many of them are free; when it was not said which, the most that are free side by side.
    pub available: u32,
    /// The lowest logical core that somebody has.
    pub core: u32,
    /// How many logical cores the machine has, by the settings of who asked.
    pub machine_cores: u32,
    /// Who that is; `None` when it changed while we looked, or the driver does not say.
    pub holder: Option<Holder>,
    /// Of a core of the real driver that several may have: the processes that have its device open.
    pub candidates: Vec<u32>,
}

/// Who has a core.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The process, by the kernel's word. `None` when it is of another namespace.
    pub pid: Option<u32>,
    /// What it says of itself; `None` when it has not said so yet, or the file is damaged.
    pub about: Option<About>,
}

/// What a process says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct About {
    /// Its command line.
    pub command: String,
    /// Its tag ([`Builder::process_tag`](crate::Builder::process_tag)).
    pub tag: String,
    /// When it claimed the core.
    pub since: SystemTime,
}

/// Begins with the form that is documented for the original.
impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last, available) = (self.first, self.last, self.available);
        write!(
            f,
            "NeuronCore(s) not available - Requested:nc{first}-nc{last} Available:{available}: core {} is held by ",
            self.core
        )?;
        match &self.holder {
            Some(holder) => holder.fmt(f)?,
            None if !self.candidates.is_empty() => {
                let pids: Vec<_> = self.candidates.iter().map(u32::to_string).collect();
                write!(f, "one of the processes {}", pids.join(", "))?;
            }
            None => f.write_str("processes that come and go")?,
        }
        f.write_str("; to do: free the cores (")?;
        match self.holder.as_ref().and_then(|holder| holder.pid) {
            Some(pid) if pid == std::process::id() => {
                f.write_str("close the runtime of this process that has them")?;
            }
            Some(pid) => write!(f, "end process {pid}")?,
            None => f.write_str("end who has them")?,
        }
        let (cores, plural) = (
            self.machine_cores,
            if self.machine_cores == 1 { "" } else { "s" },
        );
        write!(
            f,
            "), or choose others; the machine has {cores} core{plural}"
        )
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "process {pid}")?,
            None => f.write_str("a process of another namespace")?,
        }
        match &self.about {
            Some(About {
                command,
                tag,
                since,
            }) => {
                let since = record::utc(*since);
                write!(f, " ({command:?}, tag {tag:?}, since {since})")
            }
            None => Ok(()),
        }
    }
}

impl std::error::Error for Busy {}

/// What is to be claimed, in logical cores of the machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// `None`: the lowest that are free.
    pub(crate) first: Option<u32>,
    pub(crate) cores: u32,
    /// How many the machine has.
    pub(crate) total: u32,
    pub(crate) tpbs_per_core: u32,
}

impl Wanted {
    /// The physical cores of `cores` logical ones.
    fn tpbs(&self, first: u32, cores: u32) -> Range<u32> {
        let end = first.saturating_add(cores);
        first.saturating_mul(self.tpbs_per_core)..end.saturating_mul(self.tpbs_per_core)
    }

    fn core_of(&self, tpb: u32) -> u32 {
        tpb / self.tpbs_per_core.max(1)
    }

    fn busy(&self, first: u32, available: u32, core: u32, holder: Option<Holder>) -> Error {
        Error::Busy(Box::new(Busy {
            first,
            last: first.saturating_add(self.cores).saturating_sub(1),
            available,
            core,
            machine_cores: self.total,
            holder,
            candidates: Vec::new(),
        }))
    }
}

/// Cores that this process has, until it is dropped. In a forked child nothing happens then.
#[derive(Debug)]
pub(crate) struct Claim {
    owner: Owner,
    file: (u64, u64),
    directory: PathBuf,
    first_core: u32,
    tpbs: Range<u32>,
}

impl Claim {
    /// # Errors
    /// [`Error::Busy`], [`Error::Host`]. Nothing is claimed then.
    pub(crate) fn take(directory: &Path, wanted: &Wanted, tag: &str) -> Result<Self, Error> {
        let directory = directory
            .canonicalize()
            .map_err(|error| host_error(directory, "find the directory", error))?;
        let claim = Self::lock(&directory, wanted)?;
        // With no lock of ours held, since the log is foreign code. The claim stands whatever becomes of this: whoever is
        // refused learns the process id alone.
        let record = Record::of_this_process(tag);
        for tpb in claim.tpbs.clone() {
            if let Err(error) = record.write(&directory, tpb) {
                tracing::warn!(
                    name: "nrta.holder_unknown", target: "nrta::runtime",
                    tpb, %error, "cannot say who has this core"
                );
            }
        }
        Ok(claim)
    }

    fn lock(directory: &Path, wanted: &Wanted) -> Result<Self, Error> {
        let Some(mut hosts) = HOSTS.try_lock_for(PATIENCE) else {
            let error = std::io::ErrorKind::WouldBlock.into();
            return Err(host_error(directory, "wait for another thread", error));
        };
        let host = hosts.here().open(directory)?;
        let first_core = match wanted.first {
            Some(first) => host.take_these(wanted, first)?,
            None => host.take_lowest(wanted)?,
        };
        let tpbs = wanted.tpbs(first_core, wanted.cores);
        host.held.extend(tpbs.clone());
        Ok(Self {
            owner: Owner::here(),
            file: host.file.id(),
            directory: directory.to_owned(),
            first_core,
            tpbs,
        })
    }

    /// The first of the machine's logical cores that was claimed.
    pub(crate) fn first_core(&self) -> u32 {
        self.first_core
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.owner.is_here() {
            return;
        }
        let mut hosts = HOSTS.lock();
        let Some(host) = hosts.find(self.file) else {
            return;
        };
        for tpb in self.tpbs.clone() {
            Record::remove(&self.directory, tpb);
            host.held.remove(&tpb);
        }
        // Refused, the claim lasts until the process ends.
        let _ = host.file.unlock(&self.tpbs);
    }
}

/// Every host that this process has used.
struct Hosts {
    /// The process that made the claims: a child that is forked has none of them.
    owner: Option<Owner>,
    hosts: Vec<Host>,
}

struct Host {
    file: HostFile,
    directory: PathBuf,
    /// Physical cores that this process has.
    held: BTreeSet<u32>,
}

impl Hosts {
    /// As this process has it.
    fn here(&mut self) -> &mut Self {
        if !self.owner.is_some_and(Owner::is_here) {
            self.owner = Some(Owner::here());
            for host in &mut self.hosts {
                host.held.clear();
            }
        }
        self
    }

    fn find(&mut self, file: (u64, u64)) -> Option<&mut Host> {
        self.hosts.iter_mut().find(|host| host.file.id() == file)
    }

    /// The host of a directory. Its file is opened once.
    fn open(&mut self, directory: &Path) -> Result<&mut Host, Error> {
        let path = directory.join("cores");
        let failed = |error| host_error(directory, "open the file of cores", error);
        let place = |hosts: &[Host], id| hosts.iter().position(|host| host.file.id() == id);
        let known = HostFile::id_of(&path).ok();
        let place = match known.and_then(|id| place(&self.hosts, id)) {
            Some(known) => known,
            None => {
                let file = HostFile::open(&path).map_err(failed)?;
                match place(&self.hosts, file.id()) {
                    Some(known) => {
                        // It has come by another name just now. Closing it would end the claims.
                        core::mem::forget(file);
                        known
                    }
                    None => {
                        self.hosts.push(Host {
                            file,
                            directory: directory.to_owned(),
                            held: BTreeSet::new(),
                        });
                        self.hosts.len() - 1
                    }
                }
            }
        };
        // PANIC: found, or pushed above.
        Ok(&mut self.hosts[place])
    }
}

impl Host {
    /// These cores and no others.
    fn take_these(&self, wanted: &Wanted, first: u32) -> Result<u32, Error> {
        let tpbs = wanted.tpbs(first, wanted.cores);
        for _ in 0..ATTEMPTS {
            if let Some((tpb, holder)) = self.holder(&tpbs)? {
                let cores = first..first.saturating_add(wanted.cores);
                let available = self.count_free(wanted, cores)?;
                return Err(wanted.busy(first, available, wanted.core_of(tpb), Some(holder)));
            }
            if self.lock(&tpbs)? {
                return Ok(first);
            }
        }
        Err(wanted.busy(first, 0, first, None))
    }

    /// The lowest cores side by side that nobody has.
    fn take_lowest(&self, wanted: &Wanted) -> Result<u32, Error> {
        for _ in 0..ATTEMPTS {
            let (mut free, mut longest, mut held) = (0, 0, None);
            let mut found = None;
            for core in 0..wanted.total {
                match self.holder(&wanted.tpbs(core, 1))? {
                    None => free += 1,
                    Some((_, holder)) => {
                        free = 0;
                        held.get_or_insert((core, holder));
                    }
                }
                longest = longest.max(free);
                if free == wanted.cores {
                    found = Some(core + 1 - free);
                    break;
                }
            }
            let Some(first) = found else {
                let (core, holder) = held.map_or((0, None), |(core, who)| (core, Some(who)));
                return Err(wanted.busy(0, longest, core, holder));
            };
            if self.lock(&wanted.tpbs(first, wanted.cores))? {
                return Ok(first);
            }
        }
        Err(wanted.busy(0, 0, 0, None))
    }

    fn count_free(&self, wanted: &Wanted, cores: Range<u32>) -> Result<u32, Error> {
        let mut free = 0;
        for core in cores {
            free += u32::from(self.holder(&wanted.tpbs(core, 1))?.is_none());
        }
        Ok(free)
    }

    fn lock(&self, tpbs: &Range<u32>) -> Result<bool, Error> {
        self.file
            .lock(tpbs)
            .map_err(|error| host_error(&self.directory, "lock cores", error))
    }

    /// The lowest of these physical cores that somebody has, this process included.
    fn holder(&self, tpbs: &Range<u32>) -> Result<Option<(u32, Holder)>, Error> {
        let failed = |error| host_error(&self.directory, "ask who has a core", error);
        for tpb in tpbs.clone() {
            let pid = if self.held.contains(&tpb) {
                Some(std::process::id())
            } else {
                match self.file.holder(tpb).map_err(failed)? {
                    None => continue,
                    Some(locks::Pid(pid)) => pid,
                }
            };
            let about = pid.and_then(|pid| Record::read(&self.directory, tpb)?.about(pid));
            return Ok(Some((tpb, Holder { pid, about })));
        }
        Ok(None)
    }
}

fn host_error(directory: &Path, action: &'static str, source: std::io::Error) -> Error {
    Error::Host {
        directory: directory.to_owned(),
        action,
        source,
    }
}
