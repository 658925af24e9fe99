//! The seam between the lane and a backend: memory, DMA queues, semaphores, notification queues, a clock.
//!
//! Implemented by each backend, called by the stager, the harvester and the transfer queues.
//! The trait stands at the height of bytes and registers so that all logic stays above it.
//! It is deliberately not sealed: tests interpose a device that alters bytes on the way.

use crate::map::AddressMap;
use crate::metrics::Metrics;
use core::fmt;
use core::time::Duration;
use xu_abi::{DeviceAddr, SemIndex, Status, TpbIndex};

/// What stager, harvester and transfer queues need of a device.
///
/// Every method may be called from any thread.
/// A device never panics on an argument: what it cannot do is a [`DeviceError`].
pub trait Device: Send + Sync + fmt::Debug {
    /// What this device consists of.
    fn shape(&self) -> Shape;

    /// Reserves `bytes` at `place`, aligned to `align` (a power of two). Contents are undefined.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`] with what is free, or [`DeviceError::BadArgument`].
    fn allocate(&self, place: Place, bytes: u64, align: u64) -> Result<DeviceAddr, DeviceError>;

    /// Returns what [`Device::allocate`] gave.
    ///
    /// # Errors
    /// [`DeviceError::BadAddress`] when nothing was allocated there.
    fn release(&self, addr: DeviceAddr) -> Result<(), DeviceError>;

    /// How much of the memory at `place` is taken. `None` where the device does not count, and for a core that it does not
    /// have.
    fn memory_use(&self, place: Place) -> Option<MemoryUse> {
        let _ = place;
        None
    }

    /// Stores `bytes` at `to`; complete before any later doorbell is seen by the device.
    ///
    /// # Errors
    /// [`DeviceError::BadAddress`] when the range is not memory.
    fn write(&self, to: DeviceAddr, bytes: &[u8]) -> Result<(), DeviceError>;

    /// Loads `into.len()` bytes from `from`.
    ///
    /// # Errors
    /// [`DeviceError::BadAddress`] when the range is not memory.
    fn read(&self, from: DeviceAddr, into: &mut [u8]) -> Result<(), DeviceError>;

    /// Loads one aligned 32-bit word that the device may be writing, with acquire ordering.
    ///
    /// # Errors
    /// [`DeviceError::BadAddress`] when `from` is not memory or not a multiple of 4.
    fn load_acquire(&self, from: DeviceAddr) -> Result<u32, DeviceError>;

    /// Gives a DMA queue its two rings of `descriptors` entries each and resets it.
    ///
    /// # Errors
    /// [`DeviceError::BadArgument`] when the count is not a multiple of 16 from 32, or the queue does not
    /// exist; [`DeviceError::BadAddress`] when a base is not 256-byte aligned memory.
    fn open_dma_queue(
        &self,
        queue: DmaQueue,
        tx_ring: DeviceAddr,
        rx_ring: DeviceAddr,
        descriptors: u32,
    ) -> Result<(), DeviceError>;

    /// Adds `descriptors` to the tails of both rings: the queue walks them.
    ///
    /// # Errors
    /// [`DeviceError::BadArgument`] when the count exceeds the ring or the queue is not open. A queue that has stopped may refuse
    /// with [`DeviceError::DmaAborted`] or take them: it moves nothing, and [`Device::check_dma`] says so.
    fn start_dma(&self, queue: DmaQueue, descriptors: u32) -> Result<(), DeviceError>;

    /// Whether a DMA queue still runs. The doorbell of a queue is posted, so an abort shows here.
    ///
    /// # Errors
    /// [`DeviceError::DmaAborted`] when it has stopped; [`DeviceError::BadArgument`] when it does not exist or is
    /// not open.
    fn check_dma(&self, queue: DmaQueue) -> Result<(), DeviceError>;

    /// Adds one to a semaphore of a core. On the start semaphore this is the doorbell.
    ///
    /// # Errors
    /// [`DeviceError::BadArgument`] when the core does not exist; [`DeviceError::Lost`].
    fn increment_semaphore(&self, tpb: TpbIndex, index: SemIndex) -> Result<(), DeviceError>;

    /// The value of a semaphore of a core.
    ///
    /// # Errors
    /// As [`Device::increment_semaphore`].
    fn read_semaphore(&self, tpb: TpbIndex, index: SemIndex) -> Result<i32, DeviceError>;

    /// Creates (or creates anew) a notification queue of `bytes`, zeroed, empty and enabled, and returns
    /// where its ring begins.
    ///
    /// # Errors
    /// [`DeviceError::BadArgument`] when `bytes` is not a power of two from 64, or core or queue do not exist.
    fn open_notification_queue(
        &self,
        tpb: TpbIndex,
        nq: u8,
        bytes: u64,
    ) -> Result<DeviceAddr, DeviceError>;

    /// Tells the device how far queues of a core have been read: together, since it can be a system call.
    ///
    /// # Errors
    /// [`DeviceError::BadArgument`] when a head is not a record boundary inside the ring of a queue that is open. Those before
    /// it may have been told.
    fn acknowledge(&self, tpb: TpbIndex, heads: &[Head]) -> Result<(), DeviceError>;

    /// Byte offset from the start of a notification ring at which the device will write next: its tail register.
    ///
    /// It is no proof that the record before it has reached memory.
    ///
    /// # Errors
    /// [`DeviceError::BadArgument`] when core or queue do not exist or the queue is not open.
    fn notification_tail(&self, tpb: TpbIndex, nq: u8) -> Result<u64, DeviceError>;

    /// Whether a core's error-trigger cause has the overflow bit set.
    ///
    /// # Errors
    /// As [`Device::increment_semaphore`].
    fn overflow_latched(&self, tpb: TpbIndex) -> Result<bool, DeviceError>;

    /// What the hardware has counted of uncorrectable memory errors of a core since it was started. Slow: asked only
    /// about executions that did not succeed.
    ///
    /// # Errors
    /// As [`Device::increment_semaphore`].
    fn memory_errors(&self, tpb: TpbIndex) -> Result<MemoryErrors, DeviceError>;

    /// Hands the counters of a core on to whoever watches the device from outside: called when an execution has finished on it.
    /// A device that nobody can watch does nothing.
    fn publish(&self, tpb: TpbIndex, metrics: &Metrics) {
        let _ = (tpb, metrics);
    }

    /// Monotonic nanoseconds of the host, on the scale of [`Clock::host_ns`].
    fn now_ns(&self) -> u64;

    /// Reads the device's counter and the host's clock at once.
    fn clock(&self) -> Clock;

    /// Waits until a core runs nothing, as far as the device can tell: no execution, and no DMA queue that has something left
    /// to move. Memory that the core was told of may be used again then. Gives up after `limit`, or a minute if that is
    /// shorter; zero only looks.
    ///
    /// # Errors
    /// [`DeviceError::Busy`] when the core does not come to rest; [`DeviceError::Lost`].
    fn quiesce(&self, tpb: TpbIndex, limit: Duration) -> Result<(), DeviceError>;
}

/// What a device consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Generation: 2 for v2, 3 for v3.
    pub arch: u8,
    /// Number of physical cores.
    pub tpbs: u16,
    /// High-bandwidth memory per core, bytes.
    pub hbm_bytes: u64,
    /// Where its registers are.
    pub addresses: AddressMap,
}

/// How much of a memory is taken. Made by [`Device::memory_use`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryUse {
    /// Bytes that are allocated, with what alignment costs.
    pub used: u64,
    /// Bytes in all.
    pub limit: u64,
    /// The largest piece that could be allocated, bytes.
    pub largest_free: u64,
}

/// Where memory is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// Device memory next to a core.
    Hbm(TpbIndex),
    /// Host memory that the device can reach.
    Host,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hbm(tpb) => write!(f, "device memory of core {tpb}"),
            Self::Host => f.write_str("host memory"),
        }
    }
}

/// A DMA queue of one core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DmaQueue {
    /// The core.
    pub tpb: TpbIndex,
    /// The queue of that core: see [`crate::map`].
    pub index: u8,
}

/// How far a notification queue has been read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The queue, of a core.
    pub nq: u8,
    /// Byte offset in its ring: records before it have been read.
    pub offset: u64,
}

impl Head {
    /// The head of queue `nq`, at byte `offset`.
    #[must_use]
    pub const fn new(nq: u8, offset: u64) -> Self {
        Self { nq, offset }
    }
}

/// Uncorrectable memory errors of a core, counted by its firmware (`driver.md` section 10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryErrors {
    /// In the memory inside the core.
    pub sram: u64,
    /// In HBM; the row cannot be used any more.
    pub hbm: u64,
    /// In HBM; a reset repairs the row.
    pub hbm_repairable: u64,
}

/// A reading of both clocks: how device ticks relate to nanoseconds (spec `xu.md` section 6, timestamps).
///
/// ```
/// use xu_device::Clock;
/// let reading = Clock { ticks: 1_000, host_ns: 5_000, expected_increment: 1.0, actual_increment: 2.0 };
/// assert_eq!([900, 1_000, 1_200].map(|stamp| reading.to_host_ns(stamp)), [4_950, 5_000, 5_100]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clock {
    /// What the device's counter said.
    pub ticks: u64,
    /// What the host's monotonic clock said, nanoseconds.
    pub host_ns: u64,
    /// Nanoseconds that a tick should take.
    pub expected_increment: f64,
    /// Ticks that the counter really advances in that time.
    pub actual_increment: f64,
}

impl Clock {
    /// Whether a stamp cannot have been taken when the clocks were read: by more than [`Clock::LEAD`].
    #[must_use]
    pub fn is_future(&self, stamp: u64) -> bool {
        self.to_host_ns(stamp) > self.host_ns.saturating_add(Self::LEAD)
    }

    /// How far stamps may be ahead of a reading, nanoseconds: clocks are not read at once, and cores that post several
    /// records at a time number them through.
    pub const LEAD: u64 = 1_000_000;

    /// Host nanoseconds at a device time stamp, before or after the reading. Saturates at both ends.
    #[must_use]
    pub fn to_host_ns(&self, stamp: u64) -> u64 {
        // CAST: `as` saturates, and makes 0 of what a clock without a rate gives.
        let to_ns =
            |ticks: u64| (self.expected_increment / self.actual_increment * ticks as f64) as u64;
        match stamp.checked_sub(self.ticks) {
            Some(after) => self.host_ns.saturating_add(to_ns(after)),
            None => self.host_ns.saturating_sub(to_ns(self.ticks - stamp)),
        }
    }
}

/// Why a device did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// Memory ran out; nothing was reserved.
    #[error("{place} is exhausted: asked for {asked} bytes{}", left(*free, *largest))]
    OutOfMemory {
        /// Where.
        place: Place,
        /// Bytes asked for.
        asked: u64,
        /// Bytes free in all; 0, as the next one, where the device does not tell.
        free: u64,
        /// The largest free block, bytes.
        largest: u64,
    },
    /// An address range is not memory, or not allocated.
    #[error("no memory at {addr} for {bytes} bytes")]
    BadAddress {
        /// Where the range begins.
        addr: DeviceAddr,
        /// How long it is.
        bytes: u64,
    },
    /// An argument is out of range.
    #[error("{what}: {value} is not allowed ({allowed})")]
    BadArgument {
        /// Which argument.
        what: &'static str,
        /// Its value.
        value: u64,
        /// What would be accepted.
        allowed: &'static str,
    },
    /// A value of a fault plan is out of range.
    #[error("rule {rule} of the fault plan: {what}: {value} is not allowed ({allowed})")]
    BadPlan {
        /// Which rule, from 0.
        rule: usize,
        /// Which of its values.
        what: &'static str,
        /// The value, as it prints.
        value: String,
        /// What would be accepted.
        allowed: &'static str,
    },
    /// Something has failed before and is not used any more.
    #[error("the {what} has failed before")]
    Failed {
        /// What.
        what: &'static str,
    },
    /// A DMA queue stopped on a descriptor that it could not execute.
    #[error("dma queue {index} of core {tpb} has aborted")]
    DmaAborted {
        /// The core.
        tpb: TpbIndex,
        /// The queue.
        index: u8,
    },
    /// A core did not come to rest.
    #[error("core {tpb} does not come to rest")]
    Busy {
        /// The core.
        tpb: TpbIndex,
    },
    /// The device no longer answers.
    #[error("the device no longer answers")]
    Lost,
    /// The driver answered a call with an error number.
    #[error("{call}: the driver answered {}", named(*errno))]
    Driver {
        /// Which call.
        call: &'static str,
        /// The error number.
        errno: i32,
    },
    /// The driver refused a call, or answered what cannot be.
    #[error("{reason}")]
    Refused {
        /// What that means.
        status: Status,
        /// Which call, its answer and the values.
        reason: String,
    },
    /// The operating system refused a resource.
    #[error("the operating system refused {what}: {reason}")]
    Os {
        /// What was asked for.
        what: &'static str,
        /// Why it was refused.
        reason: String,
    },
}

impl DeviceError {
    /// The status that this error means to an application: the one table from device errors to statuses.
    #[must_use]
    pub fn status(&self) -> Status {
        match self {
            Self::OutOfMemory { .. } | Self::Os { .. } => Status::RESOURCE,
            Self::BadArgument { .. } | Self::BadPlan { .. } => Status::INVALID,
            Self::DmaAborted { .. } => Status::EXEC_HW_ERR_DMA_ABORT,
            Self::Failed { .. } => Status::EXEC_UNIT_UNRECOVERABLE,
            Self::Busy { .. } => Status::EXEC_NC_BUSY,
            Self::BadAddress { .. } | Self::Lost => Status::HW_ERROR,
            Self::Driver { errno, .. } => driver_status(*errno),
            Self::Refused { status, .. } => *status,
        }
    }

    /// As [`DeviceError::status`], once the device may know of a request. Its arguments were checked before,
    /// so a device that refuses one is not what we think it is.
    #[must_use]
    pub fn status_in_flight(&self) -> Status {
        match self.status() {
            Status::INVALID => Status::HW_ERROR,
            status => status,
        }
    }
}

/// An error number of the driver, with its name where it has one.
pub(crate) fn named(errno: i32) -> String {
    match xu_abi::driver::errno::name(errno) {
        Some(name) => format!("{name} ({errno})"),
        None => format!("with error number {errno}"),
    }
}

/// What is left of a memory that is exhausted, for its error.
fn left(free: u64, largest: u64) -> String {
    match (free, largest) {
        (0, 0) => String::new(),
        _ => format!(", {free} free, largest block {largest}"),
    }
}

/// The one table from error numbers of the driver to statuses (`driver.md` section 1, return values).
fn driver_status(errno: i32) -> Status {
    match errno {
        errno_of::EPERM => Status::EXEC_HW_ERR_DMA_ABORT,
        errno_of::EBUSY | errno_of::EAGAIN => Status::EXEC_NC_BUSY,
        errno_of::ENOMEM => Status::RESOURCE,
        errno_of::EINVAL | errno_of::E2BIG => Status::INVALID,
        errno_of::EIO | errno_of::ENXIO | errno_of::ENODEV => Status::HW_ERROR,
        _ => Status::FAILURE,
    }
}

/// The error numbers that the table knows, as Linux numbers them on x86-64 and aarch64.
mod errno_of {
    pub(super) const EPERM: i32 = 1;
    pub(super) const EIO: i32 = 5;
    pub(super) const ENXIO: i32 = 6;
    pub(super) const E2BIG: i32 = 7;
    pub(super) const EAGAIN: i32 = 11;
    pub(super) const ENOMEM: i32 = 12;
    pub(super) const EBUSY: i32 = 16;
    pub(super) const ENODEV: i32 = 19;
    pub(super) const EINVAL: i32 = 22;
}
