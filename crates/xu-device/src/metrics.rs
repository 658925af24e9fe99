//! What the executions of a device amount to: the counters of the driver's datastore, kept in its layout.
//!
//! Written by the worker when an execution finishes, read by whoever watches: statistics, command line, and the
//! backend that hands the datastore to the driver.
//! Rules: spec `xu.md` section 7; places `driver.md` section 9. Names and places of counters are
//! `xu_abi::metric`'s; this file only keeps their values.
//!
//! ```text
//!   record(core, finished)
//!     status ----------------> one counter       + 1   (a status without a row: none)
//!     error flags 5 to 8 ----> one counter each  + 1
//!     device, total, core, cc > four counters    set   (microseconds; unknown: as it was)
//!
//!   0        8          256         1248       55936       57984         67200
//!   | header | device   | cores 0-3 | legacy,  | cores 0-3 | cores 4-15  |    | cores 16 ...
//!   |        | counters | first 31  | nobody's | the rest  | all 95      |    | no place in the datastore
//! ```
//!
//! Values are totals since the store was made; they are never taken back.
//! Every access is one relaxed 64-bit atomic: a reader sees no torn value, and no order between two counters.

mod finished;
mod snapshot;

pub use finished::{ErrorFlags, Finished};
pub use snapshot::Snapshot;

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use xu_abi::metric::{
    CoreCounter, DATASTORE_CORES, DATASTORE_SIGNATURE, DATASTORE_SIZE, DeviceCounter, ErrorFlag,
    Latency,
};
use xu_abi::{Status, TpbIndex};

/// The format that the header of a datastore announces. Chosen: the specification names the field and no value.
pub const DATASTORE_VERSION: i32 = 1;

const WORD: usize = size_of::<u64>();
// CAST: widening.
const DATASTORE_WORDS: usize = DATASTORE_SIZE as usize / WORD;
const COUNTERS: usize = CoreCounter::COUNT as usize;

/// There is no such core in this store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no counters of core {tpb}: the device has {cores} cores")]
pub struct NoSuchCore {
    /// The core that was asked for.
    pub tpb: TpbIndex,
    /// How many there are.
    pub cores: u16,
}

/// The counters of one device.
///
/// ```
/// use std::time::Duration;
/// use xu_abi::metric::CoreCounter;
/// use xu_abi::{Status, TpbIndex};
/// use xu_device::metrics::{Finished, Metrics};
///
/// let (metrics, core) = (Metrics::new(2), TpbIndex::new(1));
/// let finished = Finished {
///     status: Status::TIMEOUT,
///     total: Some(Duration::from_millis(3)),
///     ..Finished::default()
/// };
/// metrics.record(core, &finished)?;
/// assert_eq!(metrics.counter(core, CoreCounter::INFER_TIMED_OUT)?, 1);
/// assert_eq!(metrics.counter(core, CoreCounter::LATENCY_TOTAL)?, 3_000);
/// # Ok::<(), xu_device::metrics::NoSuchCore>(())
/// ```
pub struct Metrics {
    cores: u16,
    /// The datastore of the driver, word by word. Header and legacy area stay zero.
    datastore: Box<[AtomicU64]>,
    /// The cores for which it has no place.
    beyond: Box<[[AtomicU64; COUNTERS]]>,
}

impl Metrics {
    /// All counters of `cores` cores at zero. Takes 66 KiB, and 760 bytes more for each core from the 17th on.
    #[must_use]
    pub fn new(cores: u16) -> Self {
        let beyond = cores.saturating_sub(u16::from(DATASTORE_CORES));
        Self {
            cores,
            datastore: (0..DATASTORE_WORDS).map(|_| AtomicU64::new(0)).collect(),
            beyond: (0..beyond)
                .map(|_| [const { AtomicU64::new(0) }; COUNTERS])
                .collect(),
        }
    }

    /// Number of cores.
    #[must_use]
    pub fn cores(&self) -> u16 {
        self.cores
    }

    /// Counts an execution that has finished on a core, and notes its times. Allocates nothing.
    ///
    /// Called once for each core of the execution, by the worker alone, so that of two executions the later one's times
    /// stay. Never called for a stop.
    ///
    /// # Errors
    /// [`NoSuchCore`]; nothing is counted.
    pub fn record(&self, tpb: TpbIndex, finished: &Finished) -> Result<(), NoSuchCore> {
        let core = self.core(tpb)?;
        if let Some(counter) = CoreCounter::of_status(finished.status) {
            add_one(core.cell(counter));
        }
        let raised = ErrorFlag::all().filter(|flag| finished.flags.contains(*flag));
        for counter in raised.filter_map(ErrorFlag::counter) {
            add_one(core.cell(counter));
        }
        for latency in Latency::ALL {
            if let Some(time) = finished.latency(latency) {
                // Relaxed: the value stands for itself.
                core.cell(latency.counter())
                    .store(microseconds(time), Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Counts a status alone: of a request that was refused, so that it never ran.
    ///
    /// # Errors
    /// [`NoSuchCore`]; nothing is counted.
    pub fn count(&self, tpb: TpbIndex, status: Status) -> Result<(), NoSuchCore> {
        let core = self.core(tpb)?;
        if let Some(counter) = CoreCounter::of_status(status) {
            add_one(core.cell(counter));
        }
        Ok(())
    }

    /// The value of a core's counter now.
    ///
    /// # Errors
    /// [`NoSuchCore`].
    pub fn counter(&self, tpb: TpbIndex, counter: CoreCounter) -> Result<u64, NoSuchCore> {
        Ok(load(self.core(tpb)?.cell(counter)))
    }

    /// Every counter of every core, each as it was when it was read.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let core = |tpb| Core { metrics: self, tpb };
        let counters = |tpb| core_counters().map(move |counter| load(core(tpb).cell(counter)));
        Snapshot {
            cores: self.cores,
            values: (0..self.cores).flat_map(counters).collect(),
        }
    }

    /// The words of the datastore as the driver wants them, each with the byte at which it begins: header, then device
    /// counters, then those of cores 0 to 15. The legacy area, which is not ours to write, is left out.
    ///
    /// For a backend that maps the driver's area: it stores every word, in this order or another.
    pub fn datastore_words(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let device = device_counters().map(DeviceCounter::datastore_offset);
        let core = (0..DATASTORE_CORES).flat_map(|core| {
            core_counters().filter_map(move |counter| counter.datastore_offset(core))
        });
        let value = |offset| (offset, load(self.word(offset)));
        core::iter::once((0, header())).chain(device.chain(core).map(value))
    }

    /// The first 67,200 bytes of a datastore area, little-endian, zero where nothing is kept.
    #[must_use]
    pub fn datastore_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; DATASTORE_WORDS * WORD];
        for (offset, value) in self.datastore_words() {
            // CAST: widening.
            let at = offset as usize;
            // PANIC: `word` was asked for the same offset, or it is the header's, which is 0.
            bytes[at..at + WORD].copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    fn core(&self, tpb: TpbIndex) -> Result<Core<'_>, NoSuchCore> {
        if tpb.get() < self.cores {
            Ok(Core {
                metrics: self,
                tpb: tpb.get(),
            })
        } else {
            Err(NoSuchCore {
                tpb,
                cores: self.cores,
            })
        }
    }

    fn word(&self, offset: u32) -> &AtomicU64 {
        // CAST: widening.
        // PANIC: offsets of counters are multiples of 8 below DATASTORE_SIZE, which a test goes through one by one.
        &self.datastore[offset as usize / WORD]
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics")
            .field("cores", &self.cores)
            .finish_non_exhaustive()
    }
}

/// A core that exists.
#[derive(Clone, Copy)]
struct Core<'a> {
    metrics: &'a Metrics,
    tpb: u16,
}

impl<'a> Core<'a> {
    fn cell(self, counter: CoreCounter) -> &'a AtomicU64 {
        let place = u8::try_from(self.tpb).ok();
        match place.and_then(|core| counter.datastore_offset(core)) {
            Some(offset) => self.metrics.word(offset),
            None => {
                // PANIC: only cores from DATASTORE_CORES to `cores` get here, and each has a row of all counters.
                let row = usize::from(self.tpb) - usize::from(DATASTORE_CORES);
                &self.metrics.beyond[row][usize::from(counter.ordinal())]
            }
        }
    }
}

fn core_counters() -> impl Iterator<Item = CoreCounter> {
    (0..CoreCounter::COUNT).filter_map(CoreCounter::new)
}

fn device_counters() -> impl Iterator<Item = DeviceCounter> {
    (0..DeviceCounter::COUNT).filter_map(DeviceCounter::new)
}

fn add_one(cell: &AtomicU64) {
    // Relaxed: only the sum matters. One addition, and no load and store, so that a submitter may count what was refused
    // while the worker counts what has finished.
    cell.fetch_add(1, Ordering::Relaxed);
}

fn load(cell: &AtomicU64) -> u64 {
    // Relaxed: the value stands for itself.
    cell.load(Ordering::Relaxed)
}

/// Rounded up, so that 0 means "never measured"; saturates.
fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX)
}

fn header() -> u64 {
    let [s0, s1, s2, s3] = DATASTORE_SIGNATURE;
    let [v0, v1, v2, v3] = DATASTORE_VERSION.to_le_bytes();
    u64::from_le_bytes([s0, s1, s2, s3, v0, v1, v2, v3])
}
