//! A chip as a [`Device`]: what stager, harvester and transfer queues do, as calls of the driver.
//!
//! Opened by whoever opens the lane on hardware. One chip for each [`NeuronDevice`], of which it uses the cores that it has
//! claimed; a process may have several, also on one chip.
//!
//! ```text
//!  open    claims descriptor (O_WRONLY) ── version ── range mark of the cores, all or none
//!            '─ attach (O_RDWR) ── version, architecture, features ── datastore
//!                 '─ for the cores: NC_RESET, NC_RESET_READY, CINIT STARTED, COMPLETED ── clock
//!  close   notification queues disabled ── (memory that was never given back: NC_RESET)
//!            '─ queues parked ── chunks freed ── datastore released ── O_RDWR closed ── unmark ── O_WRONLY closed
//! ```
//!
//! | module | what | calls while it runs |
//! |---|---|---|
//! | `memory`, `words` | chunks by address | none for host memory and small device chunks |
//! | `queues` | DMA queues | COPY_START for a transfer, GET_STATE when asked how it is |
//! | `notifications`, `ended` | rings and their registers | BAR_WRITE for each acknowledgement, of all rings of a core together |
//! | `clock` | ticks and nanoseconds | BAR_READ for each reading |
//! | `rest` | whether a core is at rest | SEMAPHORE_READ, GET_STATE |
//! | `counters` | memory errors, datastore | files of sysfs; none |
//! | `shared` | what several devices of a process share | |
//!
//! A submit is stores to mapped memory and one SEMAPHORE_INCREMENT for each core. It is not made again when a signal has
//! interrupted it, for a second doorbell would be a second execution: that is an error, and the unit's end.
//!
//! A device that is lost answers [`DeviceError::Lost`] to everything, and so does one in a child of a fork, or an error of
//! its own.

mod clock;
mod counters;
mod ended;
mod memory;
mod notifications;
mod queues;
mod rest;
mod shared;
mod words;

use super::claim::attached;
use super::error::DriverError;
use super::kernel::Kernel;
use super::negotiation::Identity;
use super::node::Node;
use super::{Claim, calls};
use crate::device::{
    Clock, Device, DeviceError, DmaQueue, Head, MemoryErrors, MemoryUse, Place, Shape,
};
use crate::host_time::host_ns;
use crate::map::{self, AddressMap};
use crate::metrics::Metrics;
use clock::DeviceClock;
use core::ops::Range;
use core::time::Duration;
use counters::Published;
use memory::Memory;
use notifications::Notifications;
use parking_lot::{MappedRwLockReadGuard, Mutex, RwLock, RwLockReadGuard};
use queues::Queues;
use shared::{Attachment, Shared};
use std::path::PathBuf;
use std::sync::Arc;
use xu_abi::driver::{CoreInit, MAX_DEVICES, ioctl};
use xu_abi::{DeviceAddr, SemIndex, TpbIndex};

/// Which chip, which cores of it, and where its files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The directory of the nodes; `/dev` unless something else is said.
    pub directory: PathBuf,
    /// The root of sysfs; `/sys` unless something else is said.
    pub sysfs: PathBuf,
    /// The index of the chip.
    pub device: u32,
    /// The cores that are claimed, numbered on the chip; `None` for all.
    pub cores: Option<Range<u8>>,
    /// Device memory that each core may have, bytes; `None` for all of the HBM beside it, which v3 has for two cores together.
    /// Nothing is reserved.
    pub hbm_bytes: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            directory: super::discovery::ROOT.into(),
            sysfs: "/sys".into(),
            device: 0,
            cores: None,
            hbm_bytes: None,
        }
    }
}

/// What there is, as far as a process can see that uses none of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// What the first chip is. All of a host are alike.
    pub identity: Identity,
    /// The indices of the chips, in order.
    pub devices: Vec<u32>,
}

/// Cores of a chip that this process drives.
pub struct NeuronDevice {
    shape: Shape,
    device: u32,
    cores: Range<u8>,
    /// `None` once it is closed.
    live: RwLock<Option<Live>>,
}

/// Everything that is open. The fields drop in this order.
#[derive(Debug)]
struct Live {
    cores: Range<u8>,
    sysfs: PathBuf,
    notifications: Notifications,
    queues: Queues,
    memory: Memory,
    clock: DeviceClock,
    /// What was counted, for the driver.
    published: Mutex<Published>,
    attachment: Arc<Attachment>,
    /// Last: its descriptor is the last that is closed.
    _claim: Claim,
}

/// Asks the first chip of a directory what it is, and which others there are. Nothing is attached or claimed.
///
/// Where the directory does not list the nodes, the driver is asked how many there are.
///
/// # Errors
/// [`DriverError::Open`] when there is none; as [`NeuronDevice::open`].
pub fn survey(
    kernel: &Arc<dyn Kernel>,
    directory: &std::path::Path,
) -> Result<Survey, DriverError> {
    let mut shared = Shared::lock()?;
    let listed = match super::discovery::devices(directory) {
        // Nor can a node be opened.
        Err(error @ DriverError::Open { .. }) => return Err(error),
        // A directory that cannot be listed may still have nodes that can be opened.
        listed => listed.unwrap_or_default(),
    };
    let first = listed.first().copied().unwrap_or(0);
    let claims = shared.claims(kernel, directory, first)?;
    let devices = match listed.is_empty() {
        false => listed,
        true => (0..claims.host_devices().unwrap_or(1).clamp(1, MAX_DEVICES)).collect(),
    };
    Ok(Survey {
        identity: *claims.identity(),
        devices,
    })
}

impl NeuronDevice {
    /// Claims cores of a chip, attaches to it and resets them. On failure nothing remains.
    ///
    /// Waits for the reset, which can take minutes.
    ///
    /// # Errors
    /// [`DriverError::CoreTaken`] with the first core that somebody has, counted over all chips, and the processes that have
    /// the chip open; [`DriverError::BadArgument`] for cores that the chip does not have; [`DriverError::Open`],
    /// [`DriverError::Version`], [`DriverError::Architecture`], [`DriverError::ResetFailed`], and what the driver answers.
    pub fn open(kernel: &Arc<dyn Kernel>, options: &Options) -> Result<Arc<Self>, DriverError> {
        let mark = &ioctl::CRWL_NC_RANGE_MARK_EXT0;
        let last = u64::from(MAX_DEVICES) - 1;
        calls::within(mark, "index of a device", options.device, 0..=last)?;
        let mut shared = Shared::lock()?;
        let claims = shared.claims(kernel, &options.directory, options.device)?;
        let cores = check_cores(claims.identity(), options.cores.clone())?;
        let base = options.device * u32::from(claims.identity().cores());
        let global = base + u32::from(cores.start)..base + u32::from(cores.end);
        let claim = claims.claim(global, &[]).map_err(|error| match error {
            DriverError::CoreTaken {
                core,
                free,
                attached: none,
            } if none.is_empty() => {
                // Attached for a moment, for the message alone.
                let attachment = shared.attach(kernel, &options.directory, options.device);
                let attached = attachment.and_then(|there| attached(there.node()));
                let attached = attached.unwrap_or_default();
                DriverError::CoreTaken {
                    core,
                    free,
                    attached,
                }
            }
            other => other,
        })?;
        let attachment = shared.attach(kernel, &options.directory, options.device)?;
        let node = Arc::clone(attachment.node());
        check_cores(node.identity(), Some(cores.clone()))?;
        start_cores(&node, &cores)?;
        let table = node.identity().table();
        let hbm_bytes = options.hbm_bytes.unwrap_or(table.hbm_bytes);
        let live = Live {
            cores: cores.clone(),
            sysfs: counters::directory(&options.sysfs, options.device),
            notifications: Notifications::new(&node),
            queues: Queues::new(&node),
            memory: Memory::new(&node, hbm_bytes),
            clock: DeviceClock::start(&node, cores.start)?,
            published: Mutex::default(),
            attachment,
            _claim: claim,
        };
        let arch = node.identity().arch;
        Ok(Arc::new(Self {
            shape: Shape {
                // CAST: 2 or 3.
                arch: arch.raw() as u8,
                // Those below the first of ours are refused.
                tpbs: cores.end.into(),
                hbm_bytes,
                addresses: AddressMap::Chip(arch),
            },
            device: options.device,
            cores,
            live: RwLock::new(Some(live)),
        }))
    }

    /// The index of the chip.
    #[must_use]
    pub fn device(&self) -> u32 {
        self.device
    }

    /// The cores that are claimed, numbered on the chip. Calls for others are refused.
    #[must_use]
    pub fn cores(&self) -> Range<u8> {
        self.cores.clone()
    }

    /// Closes it before its last owner goes: whatever is called afterwards gets [`DeviceError::Lost`], and memory that somebody
    /// still has is freed. Cores that were told of such memory are reset before that.
    ///
    /// Nothing is done in a child of a fork.
    pub fn close(&self) {
        let live = self.live.read();
        if !live.as_ref().is_some_and(Live::is_here) {
            return;
        }
        drop(live);
        // Held while it goes, so that nobody opens the chip meanwhile; see there.
        let shared = Shared::lock();
        let live = self.live.write().take();
        drop(live);
        drop(shared);
    }

    fn live(&self) -> Result<MappedRwLockReadGuard<'_, Live>, DeviceError> {
        RwLockReadGuard::try_map(self.live.read(), Option::as_ref).map_err(|_| DeviceError::Lost)
    }
}

impl core::fmt::Debug for NeuronDevice {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("NeuronDevice")
            .field("device", &self.device)
            .field("cores", &self.cores)
            .field("shape", &self.shape)
            .finish_non_exhaustive()
    }
}

impl Drop for NeuronDevice {
    fn drop(&mut self) {
        self.close();
    }
}

impl Live {
    fn is_here(&self) -> bool {
        self.node().owner().is_here()
    }

    fn node(&self) -> &Arc<Node> {
        self.attachment.node()
    }

    /// A core that is ours.
    fn own_core(&self, tpb: TpbIndex) -> Result<u8, DeviceError> {
        let core = core_of(self.node(), tpb)?;
        if self.cores.contains(&core) {
            return Ok(core);
        }
        Err(DeviceError::BadArgument {
            what: "core",
            value: tpb.get().into(),
            allowed: "those that were claimed",
        })
    }

    fn own_queue(&self, queue: DmaQueue) -> Result<DmaQueue, DeviceError> {
        self.own_core(queue.tpb).map(|_| queue)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // Unmapped before the reset, which frees them.
        self.notifications.close(&self.memory);
        if self.memory.is_in_use() {
            // The cores may still be at it. Refused on a device that is lost, and in a child of a fork; or the reset fails.
            if self.node().reset_cores(bits(&self.cores)).is_err() {
                self.memory.leak();
            }
        }
    }
}

impl Device for NeuronDevice {
    fn shape(&self) -> Shape {
        self.shape
    }

    /// Contents are not cleared, neither in the host nor on the device. A chunk for each: sizes count in pages.
    fn allocate(&self, place: Place, bytes: u64, align: u64) -> Result<DeviceAddr, DeviceError> {
        self.live()?.memory.allocate(place, bytes, align)
    }

    fn release(&self, addr: DeviceAddr) -> Result<(), DeviceError> {
        self.live()?.memory.release(addr)
    }

    /// Of device memory what this process has, against what the chip has for each core; of host memory nothing is known.
    fn memory_use(&self, place: Place) -> Option<MemoryUse> {
        self.live().ok()?.memory.use_of(place)
    }

    fn write(&self, to: DeviceAddr, bytes: &[u8]) -> Result<(), DeviceError> {
        self.live()?.memory.write(to, bytes)
    }

    fn read(&self, from: DeviceAddr, into: &mut [u8]) -> Result<(), DeviceError> {
        self.live()?.memory.read(from, into)
    }

    fn load_acquire(&self, from: DeviceAddr) -> Result<u32, DeviceError> {
        self.live()?.memory.load_acquire(from)
    }

    /// The rings are the beginnings of two allocations. Memory that they are in stays until the queue is opened anew.
    fn open_dma_queue(
        &self,
        queue: DmaQueue,
        tx_ring: DeviceAddr,
        rx_ring: DeviceAddr,
        descriptors: u32,
    ) -> Result<(), DeviceError> {
        let live = self.live()?;
        let rings = [tx_ring, rx_ring];
        live.queues
            .open(&live.memory, live.own_queue(queue)?, rings, descriptors)
    }

    fn start_dma(&self, queue: DmaQueue, descriptors: u32) -> Result<(), DeviceError> {
        let live = self.live()?;
        live.queues.start(live.own_queue(queue)?, descriptors)
    }

    fn check_dma(&self, queue: DmaQueue) -> Result<(), DeviceError> {
        let live = self.live()?;
        live.queues.check(live.own_queue(queue)?)
    }

    /// Not made again when a signal interrupts it.
    fn increment_semaphore(&self, tpb: TpbIndex, index: SemIndex) -> Result<(), DeviceError> {
        let live = self.live()?;
        let core = live.own_core(tpb)?;
        if index == map::INFERENCE_START {
            // Before, and whatever comes of it: the core may run it.
            live.notifications.count_doorbell(core);
        }
        Ok(live.node().increment_semaphore(core, index, 1)?)
    }

    fn read_semaphore(&self, tpb: TpbIndex, index: SemIndex) -> Result<i32, DeviceError> {
        let live = self.live()?;
        let core = live.own_core(tpb)?;
        Ok(live.node().read_semaphore(core, index)?)
    }

    /// From 4096 bytes, so that the ring is as long as its mapping.
    fn open_notification_queue(
        &self,
        tpb: TpbIndex,
        nq: u8,
        bytes: u64,
    ) -> Result<DeviceAddr, DeviceError> {
        let live = self.live()?;
        live.own_core(tpb)?;
        live.notifications.open(&live.memory, tpb, nq, bytes)
    }

    fn acknowledge(&self, tpb: TpbIndex, heads: &[Head]) -> Result<(), DeviceError> {
        self.live()?.notifications.acknowledge(tpb, heads)
    }

    fn notification_tail(&self, tpb: TpbIndex, nq: u8) -> Result<u64, DeviceError> {
        self.live()?.notifications.tail(tpb, nq)
    }

    fn overflow_latched(&self, tpb: TpbIndex) -> Result<bool, DeviceError> {
        let live = self.live()?;
        live.own_core(tpb)?;
        live.notifications.overflow_latched(tpb)
    }

    /// The firmware counts for the whole chip, and so does this, for each core alike. Zero where sysfs is not there.
    fn memory_errors(&self, tpb: TpbIndex) -> Result<MemoryErrors, DeviceError> {
        let live = self.live()?;
        live.own_core(tpb)?;
        counters::memory_errors(&live.sysfs)
    }

    fn publish(&self, tpb: TpbIndex, metrics: &Metrics) {
        let Ok(live) = self.live() else { return };
        let (Some(store), Ok(core)) = (live.attachment.datastore(), live.own_core(tpb)) else {
            return;
        };
        live.published.lock().publish(store, core, metrics);
    }

    fn now_ns(&self) -> u64 {
        host_ns()
    }

    fn clock(&self) -> Clock {
        match self.live() {
            Ok(live) => live.clock.read(),
            Err(_) => Clock {
                ticks: 0,
                host_ns: host_ns(),
                expected_increment: 1.0,
                actual_increment: 1.0,
            },
        }
    }

    /// No doorbell that waits, no DMA queue with descriptors left, no execution of which an engine has not said that it ended.
    fn quiesce(&self, tpb: TpbIndex, limit: Duration) -> Result<(), DeviceError> {
        rest::quiesce(|| self.live(), tpb, limit)
    }
}

/// The number of a core on the chip.
fn core_of(node: &Node, tpb: TpbIndex) -> Result<u8, DeviceError> {
    match u8::try_from(tpb.get()) {
        Ok(core) if core < node.identity().cores() => Ok(core),
        _ => Err(DeviceError::BadArgument {
            what: "core",
            value: tpb.get().into(),
            allowed: "those of the chip",
        }),
    }
}

fn check_cores(identity: &Identity, cores: Option<Range<u8>>) -> Result<Range<u8>, DriverError> {
    let all = identity.cores();
    let cores = cores.unwrap_or(0..all);
    let mark = &ioctl::CRWL_NC_RANGE_MARK_EXT0;
    calls::within(mark, "first core", cores.start, 0..=u64::from(all) - 1)?;
    let most = u64::from(all - cores.start);
    let count = cores.end.saturating_sub(cores.start);
    calls::within(mark, "number of cores", count, 1..=most)?;
    Ok(cores)
}

/// Resets cores and says that they are initialised.
fn start_cores(node: &Node, cores: &Range<u8>) -> Result<(), DriverError> {
    node.reset_cores(bits(cores))?;
    for core in cores.clone() {
        // Ours by claim, so whatever the answer is, nobody else is at it.
        node.initialise_core(core, CoreInit::Started)?;
        node.initialise_core(core, CoreInit::Completed)?;
    }
    Ok(())
}

/// A bit for each core.
fn bits(cores: &Range<u8>) -> u32 {
    cores.clone().map(|core| 1_u32 << core).sum()
}
