//! Claims of cores against other processes: range marks of the driver.
//!
//! Made before anything of a core is touched. The driver does not enforce them: processes that ask respect each other.
//!
//! ```text
//!  Claims ── one O_WRONLY descriptor of the process; the kernel releases its marks when the process ends
//!    '─ claim(cores) ─> Claim ── released when dropped
//! ```
//!
//! * Closing *any* descriptor that was opened for writing only releases *all* marks of the process, and marks made
//!   through another kind of descriptor are never released. So there is one of them, and it makes every mark.
//!   (`driver.md` section 11, trap 13.)
//! * A claim is all or nothing. When it is refused, the cores are asked for one by one: the first that is refused is the
//!   one in the message, and what was got meanwhile is given back.
//!
//! **Ruling.** The driver does not say whose a mark is. The message names this process when it has made the mark itself,
//! else the others that have the core's device open, when that device is open here.

use super::answers::Meaning;
use super::calls::{refuse, within};
use super::discovery;
use super::error::DriverError;
use super::kernel::{Access, Kernel};
use super::negotiation::{Asked, Identity};
use super::node::{Channel, Node};
use super::processes::Told;
use super::registry::driver_of;
use core::ops::Range;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use xu_abi::driver::claim::MAX_MARKED_CORES;
use xu_abi::driver::{CrwlNcMap, CrwlNcMapExt, Features, HostDeviceIdToRidMap, MAX_DEVICES, ioctl};

const MARK: &xu_abi::driver::Ioctl = &ioctl::CRWL_NC_RANGE_MARK_EXT0;

/// The descriptor through which this process claims cores.
#[derive(Debug)]
pub struct Claims {
    channel: Channel,
    /// The device whose descriptor it is: the driver counts cores from it.
    first: u32,
    identity: Identity,
    /// What this process has claimed through it, counted over all devices.
    held: Mutex<BTreeSet<u32>>,
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Mark,
    Unmark,
}

/// Cores that are claimed.
#[derive(Debug)]
pub struct Claim {
    claims: Arc<Claims>,
    cores: Range<u32>,
}

impl Claims {
    /// Opens the descriptor on the first device of a directory. Cores of devices before it cannot be claimed through it.
    ///
    /// # Errors
    /// As [`Node::open`]; [`DriverError::AlreadyOpen`] when this process has one of this driver, by whatever path.
    pub fn open(
        kernel: Arc<dyn Kernel>,
        root: &Path,
        first: u32,
    ) -> Result<Arc<Self>, DriverError> {
        within(
            MARK,
            "index of a device",
            first,
            0..=u64::from(MAX_DEVICES) - 1,
        )?;
        let path = discovery::node(root, first);
        let driver = driver_of(&path, root);
        let channel = Channel::open(kernel, &path, &driver, Access::Misc)?;
        let identity = Identity::ask(&channel)?;
        Ok(Arc::new(Self {
            channel,
            first,
            identity,
            held: Mutex::default(),
        }))
    }

    /// Whether this process has opened it: a child of a fork has not.
    #[must_use]
    pub fn is_here(&self) -> bool {
        self.channel.owner().is_here()
    }

    /// How many devices the host has.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn host_devices(&self) -> Result<u32, DriverError> {
        let mut map = HostDeviceIdToRidMap::ZEROED;
        self.channel
            .ask(&ioctl::HOST_DEVICE_ID_TO_RID_MAP, &mut map)?;
        Ok(map.count)
    }

    /// What the device is that the descriptor belongs to.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Claims cores, counted over all devices: core *c* of device *d* is *d* times the cores of a device plus *c*.
    /// `nodes` are the devices that are open, for the message of a refusal.
    ///
    /// # Errors
    /// [`DriverError::BadArgument`] for no core, for more than 512 (64 with an older driver), and for cores of devices that cannot be;
    /// [`DriverError::CoreTaken`] with the first core that another process has. Nothing is claimed then.
    pub fn claim(
        self: &Arc<Self>,
        cores: Range<u32>,
        nodes: &[Arc<Node>],
    ) -> Result<Claim, DriverError> {
        let relative = self.relative(&cores)?;
        let count = relative.end - relative.start;
        match self.mark(relative.clone()) {
            Ok(()) => {}
            Err(error) if error.meaning() == Some(Meaning::CoreTaken) => {
                if count > 1 {
                    self.mark_each(relative, nodes)?;
                } else {
                    return Err(self.taken(cores.start, 0, nodes));
                }
            }
            Err(error) => return Err(error),
        }
        self.held.lock().extend(cores.clone());
        Ok(Claim {
            claims: Arc::clone(self),
            cores,
        })
    }

    /// Marks the cores one by one: all of them, when nobody has any by now. Else none, and the error says how many are free.
    fn mark_each(&self, cores: Range<u32>, nodes: &[Arc<Node>]) -> Result<(), DriverError> {
        let mut taken = None;
        let mut marked = Vec::new();
        for core in cores {
            match self.mark(core..core + 1) {
                Ok(()) => marked.push(core),
                Err(error) if error.meaning() == Some(Meaning::CoreTaken) => {
                    taken.get_or_insert(core);
                }
                Err(error) => {
                    self.unmark_each(&marked);
                    return Err(error);
                }
            }
        }
        let Some(core) = taken else { return Ok(()) };
        self.unmark_each(&marked);
        // CAST: at most 512.
        Err(self.taken(self.base() + core, marked.len() as u32, nodes))
    }

    fn unmark_each(&self, cores: &[u32]) {
        for core in cores {
            self.unmark(*core..core + 1);
        }
    }

    /// Marks exactly these cores, counted from the descriptor's device.
    fn mark(&self, cores: Range<u32>) -> Result<(), DriverError> {
        let expected = bitmap(&cores);
        let marked = self.ask(Change::Mark, &cores, [0; 8])?;
        if marked == expected {
            return Ok(());
        }
        // Whatever it was, it is ours, and not what was asked for.
        let _ = self.ask(Change::Unmark, &cores, marked);
        Err(DriverError::Nonsense {
            call: MARK.name,
            what: "the first word of the bitmap",
            value: marked[0],
        })
    }

    fn unmark(&self, cores: Range<u32>) {
        if !cores.is_empty() {
            // Refused in a child of a fork, and on a device that is lost. Else the driver has nothing to refuse.
            let _ = self.ask(Change::Unmark, &cores, bitmap(&cores));
        }
    }

    /// Makes the call, the older one with a driver that has no other, and returns the bitmap.
    fn ask(
        &self,
        change: Change,
        cores: &Range<u32>,
        bitmap: [u64; 8],
    ) -> Result<[u64; 8], DriverError> {
        let nc_count = cores.end - cores.start;
        let (start_nc_index, end_nc_index) = (cores.start, cores.end - 1);
        if self.most() == MAX_MARKED_CORES {
            let ioctl = match change {
                Change::Mark => MARK,
                Change::Unmark => &ioctl::CRWL_NC_RANGE_UNMARK_EXT0,
            };
            let mut argument = CrwlNcMapExt {
                nc_count,
                start_nc_index,
                end_nc_index,
                bitmap,
                ..CrwlNcMapExt::ZEROED
            };
            self.channel.ask(ioctl, &mut argument)?;
            return Ok(argument.bitmap);
        }
        let ioctl = match change {
            Change::Mark => &ioctl::CRWL_NC_RANGE_MARK,
            Change::Unmark => &ioctl::CRWL_NC_RANGE_UNMARK,
        };
        let mut argument = CrwlNcMap {
            nc_count,
            start_nc_index,
            end_nc_index,
            bitmap: bitmap[0],
            ..CrwlNcMap::ZEROED
        };
        self.channel.ask(ioctl, &mut argument)?;
        Ok([argument.bitmap, 0, 0, 0, 0, 0, 0, 0])
    }

    /// Cores that the driver can mark, counted from the descriptor's device.
    fn most(&self) -> u32 {
        match self.identity.features.has(Features::BIG_CORE_MAPS) {
            true => MAX_MARKED_CORES,
            false => u64::BITS,
        }
    }

    /// The number of the first core of the descriptor's device.
    fn base(&self) -> u32 {
        self.first * u32::from(self.identity.cores())
    }

    /// Cores as the driver counts them here.
    fn relative(&self, cores: &Range<u32>) -> Result<Range<u32>, DriverError> {
        let (first, all) = (self.base(), MAX_DEVICES * u32::from(self.identity.cores()));
        let last = u64::from(all.min(first + self.most())) - 1;
        within(MARK, "first core", cores.start, first.into()..=last)?;
        let most = last + 1 - u64::from(cores.start);
        let count = u64::from(cores.end).saturating_sub(cores.start.into());
        if count == 0 || count > most {
            return Err(refuse(
                MARK,
                "number of cores",
                count,
                format!("1 to {most} from core {}", cores.start),
            ));
        }
        Ok(cores.start - first..cores.end - first)
    }

    fn taken(&self, core: u32, free: u32, nodes: &[Arc<Node>]) -> DriverError {
        if self.held.lock().contains(&core) {
            let attached = vec![self.channel.owner().pid()];
            return DriverError::CoreTaken {
                core,
                free,
                attached,
            };
        }
        let device = core / u32::from(self.identity.cores());
        let attached = nodes
            .iter()
            .find(|node| node.index() == device)
            // Only for the message: that it cannot be had changes nothing.
            .and_then(|node| attached(node).ok())
            .unwrap_or_default();
        DriverError::CoreTaken {
            core,
            free,
            attached,
        }
    }
}

impl Claim {
    /// The cores, counted over all devices.
    #[must_use]
    pub fn cores(&self) -> Range<u32> {
        self.cores.clone()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.claims.is_here() {
            return;
        }
        let base = self.claims.base();
        let Range { start, end } = self.cores;
        let mut held = self.claims.held.lock();
        held.retain(|core| !self.cores.contains(core));
        self.claims.unmark(start - base..end - base);
    }
}

/// Other processes that are attached to a device.
pub(super) fn attached(node: &Node) -> Result<Vec<u32>, DriverError> {
    let own = node.owner().pid();
    let all = node.attached(Told::Locks)?;
    let others = all.iter().map(|process| process.pid);
    Ok(others.filter(|pid| *pid != own).collect())
}

/// A bit for each core.
fn bitmap(cores: &Range<u32>) -> [u64; 8] {
    let mut words = [0; 8];
    for core in cores.clone() {
        // PANIC: there are 512 bits, and no range ends beyond.
        words[core as usize / 64] |= 1 << (core % 64);
    }
    words
}
