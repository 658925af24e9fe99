//! An open lane, until it is closed: a device, its logical cores, and one worker thread for each.
//!
//! ```text
//!  Runtime ── Inner ── device
//!                 ├─ core 0: compute unit, two tensor-op units      (submitting halves)
//!                 ├─ core 1: ...
//!                 └─ worker threads, one per core                   (their worker halves)
//! ```
//!
//! Opened by the [`builder`](crate::builder). Closing refuses new requests, waits until every accepted request is complete,
//! stops the units and joins the workers. Spec `xu.md` section 4, shutdown.

use crate::builder::Builder;
use crate::claims::Claim;
use crate::collectives::{CollectivesStage, Group, Members};
use crate::compute::ComputeStage;
use crate::error::Error;
use crate::host_buffer::HostPool;
use crate::inherited;
use crate::logical_core::Core;
use crate::own_device::OwnDevice;
use crate::settings::Settings;
use crate::spans;
use crate::tensor_op::TransferStage;
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Instant;
use xu_abi::{Status, TpbIndex};
use xu_device::metrics::{Metrics, Snapshot as Counters};
#[cfg(feature = "simulated")]
use xu_device::simulated::Injection;
use xu_device::{Device, DeviceError};
use xu_worker::here_only::HereOnly;
use xu_worker::{CloseError, CloseOptions, Closing, QueueSnapshot, Runner, Unit, Workers};

/// How long the cores of a device are given to come to rest: one when it is opened, all of them when a device that goes on
/// without us is closed.
pub(crate) const REST_LIMIT: Duration = Duration::from_secs(2);

/// An open runtime. Dropping it closes it.
///
/// Closing waits until every accepted request is complete, because memory that the device may still write
/// must not be freed. Handles that outlive it are refused from then on.
pub struct Runtime {
    inner: Arc<Inner>,
}

/// What [`Builder::open`] has opened.
pub(crate) struct Opened {
    pub(crate) workers: Workers,
    pub(crate) cores: Vec<CoreUnits>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) settings: Settings,
    pub(crate) claim: Option<Claim>,
    pub(crate) device: Arc<dyn Device>,
    /// The same, and whose it is.
    pub(crate) own: OwnDevice,
}

impl Runtime {
    pub(crate) fn of(opened: Opened) -> Self {
        inherited::opened();
        let inner = Inner {
            number: Inner::next_number(),
            workers: opened.workers,
            cores: opened.cores,
            metrics: opened.metrics,
            settings: opened.settings,
            closed: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            groups: Mutex::new(Vec::new()),
            retired: Mutex::new(Vec::new()),
            host_pool: HostPool::new(&opened.device),
            asked_for_rest: AtomicBool::new(false),
            told_end: AtomicBool::new(false),
            own: HereOnly::new(opened.own),
            device: HereOnly::new(opened.device),
            claim: Mutex::new(opened.claim),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Starts describing a runtime.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Opens a runtime as the environment says ([`environment`](crate::environment)).
    ///
    /// # Errors
    /// [`Error::Variable`]; as [`Builder::open`].
    pub fn from_env() -> Result<Self, Error> {
        Builder::from_env().inspect_err(spans::not_opened)?.open()
    }

    /// What it was opened with, and where each value comes from.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    /// Every queue of every core at one moment each, as [`ComputeQueue::snapshot`](crate::ComputeQueue::snapshot) has it: by core,
    /// and there compute, collectives, tensor operations 0 and 1.
    ///
    /// ```
    /// let runtime = nrta::Runtime::builder().cores(2).open()?;
    /// assert_eq!(runtime.snapshots().count(), 8);
    /// let failed: u64 = runtime.snapshots().map(|queue| queue.failed).sum();
    /// assert_eq!(failed, 0);
    /// # Ok::<(), nrta::Error>(())
    /// ```
    pub fn snapshots(&self) -> impl Iterator<Item = QueueSnapshot> + '_ {
        self.inner.snapshots()
    }

    /// Which faults of [`Builder::simulated_faults`] have been injected, oldest first: the first million of them. None when
    /// the device is the caller's, and in a forked child.
    #[cfg(feature = "simulated")]
    #[must_use]
    pub fn simulated_faults_fired(&self) -> Vec<Injection> {
        if self.inner.is_here() {
            self.inner.own.injected()
        } else {
            Vec::new()
        }
    }

    #[cfg(feature = "metrics")]
    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    /// Number of logical cores.
    #[must_use]
    pub fn cores(&self) -> u32 {
        // CAST: at most 256.
        self.inner.cores.len() as u32
    }

    /// One of the logical cores, numbered from 0. The handle does not keep the runtime open.
    ///
    /// # Errors
    /// [`Error::NoSuchCore`].
    pub fn core(&self, index: u32) -> Result<Core, Error> {
        if index >= self.cores() {
            return Err(Error::NoSuchCore {
                core: index,
                cores: self.cores(),
            });
        }
        Ok(Core::new(Arc::clone(&self.inner), index))
    }

    /// Makes a replica group of these logical cores, of which the first is rank 0.
    ///
    /// # Errors
    /// [`Error::Group`] for no core or one that is named twice, [`Error::NoSuchCore`], [`Error::Closed`].
    pub fn group(&self, cores: &[u32]) -> Result<Group, Error> {
        self.inner.check_open()?;
        for core in cores {
            self.core(*core)?;
        }
        let group = Group::new(&self.inner, cores)?;
        let mut groups = self.inner.groups.lock();
        groups.retain(|members| members.strong_count() > 0);
        groups.push(Arc::downgrade(group.members()));
        Ok(group)
    }

    /// The counters of every physical core, by the names and ordinals of the driver's datastore: how executions ended,
    /// and the times of the last one.
    ///
    /// Logical core `n` has the physical core `n`, or `2 n` and `2 n + 1` where it has two, counted from
    /// [`Builder::first_core`]. Moves and collectives are not counted here.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.inner.metrics.snapshot()
    }

    /// Closes: refuses new requests, waits for the accepted ones, stops the workers.
    ///
    /// Blocks the calling thread until every accepted request is complete, so not for an executor's thread; with no
    /// [`Builder::exec_timeout`] and a core that hangs, for ever. While it waits it logs what it waits for, as often as
    /// [`Builder::close_warn_every`] says.
    pub fn close(self) {
        drop(self);
    }

    /// As [`Runtime::close`], but waits no longer than `timeout`; one that is too long for the clock means for ever.
    ///
    /// # Errors
    /// [`CloseError::Overdue`] says what is in flight. The runtime is leaked then, on purpose: the device may still write to
    /// its memory. Accepted requests go on and can be waited for; new ones are refused.
    /// [`CloseError::OnWorkerThread`] when a waker calls this on a thread of the runtime: another thread closes it then.
    pub fn close_within(self, timeout: Duration) -> Result<(), CloseError> {
        let options = CloseOptions {
            deadline: Instant::now().checked_add(timeout),
            ..self.inner.close_options()
        };
        let closed = close(&self.inner, &options);
        if let Err(CloseError::Overdue(_)) = closed {
            // Never dropped: not the runtime, and not what it holds.
            core::mem::forget(self);
        }
        closed
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        let options = self.inner.close_options();
        if close(&self.inner, &options) == Err(CloseError::OnWorkerThread) {
            // A waker of the caller's dropped the runtime on the very thread that closing waits for.
            let inner = Arc::clone(&self.inner);
            let closer = thread::Builder::new().name("nrta-close".into());
            // Without a thread the runtime stays open until its last handle goes.
            let _ = closer.spawn(move || close(&inner, &options));
        }
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("cores", &self.cores())
            .finish_non_exhaustive()
    }
}

/// What all handles share. The fields drop in this order: workers, units, then what they have left behind,
/// then the device, then the claim on its cores.
pub(crate) struct Inner {
    /// Tells the runtimes of a process apart, also when they are gone.
    number: u64,
    workers: Workers,
    cores: Vec<CoreUnits>,
    metrics: Arc<Metrics>,
    settings: Settings,
    /// Nothing new is made from now on.
    closed: AtomicBool,
    /// Every request is complete and every worker gone.
    ended: AtomicBool,
    /// Every group that was made, as long as it is used.
    groups: Mutex<Vec<Weak<Members>>>,
    /// Worker halves of closed units: they keep what a degraded unit's device may still touch.
    retired: Mutex<Vec<Box<dyn Runner>>>,
    /// Free host memory that the device reaches.
    host_pool: Arc<HostPool>,
    /// It was asked whether its cores are at rest.
    asked_for_rest: AtomicBool,
    /// Its end was told.
    told_end: AtomicBool,
    /// The device, and whose it is.
    own: HereOnly<OwnDevice>,
    device: HereOnly<Arc<dyn Device>>,
    /// Given back when the runtime is closed and its device at rest.
    claim: Mutex<Option<Claim>>,
}

impl Inner {
    /// Different for every runtime of the process.
    fn next_number() -> u64 {
        static LAST: AtomicU64 = AtomicU64::new(0);
        // Relaxed: nothing but the number matters.
        LAST.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// Says what is free, if that is what failed, and wanted in the log.
    pub(crate) fn log_out_of_memory(&self, error: &DeviceError) {
        if self.settings.log_out_of_memory.value {
            spans::out_of_memory(error);
        }
    }

    #[cfg(feature = "metrics")]
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Every queue, by core.
    pub(crate) fn snapshots(&self) -> impl Iterator<Item = QueueSnapshot> + '_ {
        self.cores.iter().flat_map(|core| {
            let others = [core.compute.snapshot(), core.collectives.snapshot()];
            others
                .into_iter()
                .chain(core.transfers.iter().map(Unit::snapshot))
        })
    }

    fn close_options(&self) -> CloseOptions {
        CloseOptions {
            warn_every: self.settings.close_warn_every.value,
            ..CloseOptions::default()
        }
    }

    pub(crate) fn host_pool(&self) -> &Arc<HostPool> {
        &self.host_pool
    }

    /// The units of a core that exists.
    pub(crate) fn units(&self, core: u32) -> &CoreUnits {
        // PANIC: `Core` handles are made for existing cores only.
        &self.cores[core as usize]
    }

    /// The physical cores of a logical one: one or two. Its tensors lie in the memory of the first.
    pub(crate) fn tpbs(&self, core: u32) -> &[TpbIndex] {
        &self.units(core).tpbs
    }

    /// Whether this is the process that opened the runtime, and not a child of it.
    pub(crate) fn is_here(&self) -> bool {
        self.device.is_here()
    }

    /// Counts an execution of `core` that was refused because its queue was full.
    pub(crate) fn count_queue_full(&self, core: u32) {
        for tpb in self.tpbs(core) {
            // The store was made for every core of the device.
            let _ = self.metrics.count(*tpb, Status::QUEUE_FULL);
        }
    }

    pub(crate) fn check_open(&self) -> Result<(), Error> {
        if !self.is_here() {
            return Err(Error::Forked);
        }
        // PAIRS: with the release store in `close`.
        if self.closed.load(Ordering::Acquire) {
            Err(Error::Closed)
        } else {
            Ok(())
        }
    }

    /// Whether closing has come to its end.
    pub(crate) fn is_closed(&self) -> bool {
        // PAIRS: with the release store in `close`.
        self.ended.load(Ordering::Acquire)
    }

    /// Refuses new requests, waits for the accepted ones, stops the workers.
    fn close(&self, options: &CloseOptions) -> Result<(), CloseError> {
        // PAIRS: with the acquire load in `check_open`.
        self.closed.store(true, Ordering::Release);
        self.close_groups();
        let units: Vec<&dyn Closing> = self.cores.iter().flat_map(CoreUnits::all).collect();
        let closed = self.workers.close(&units, options)?;
        self.retired.lock().extend(closed.retired);
        // PAIRS: with the acquire load in `is_closed`.
        self.ended.store(true, Ordering::Release);
        self.host_pool.close();
        Ok(())
    }

    /// Has every group know how many of its collectives will complete. Nothing is accepted from here on.
    fn close_groups(&self) {
        if !self.is_here() {
            return;
        }
        for core in &self.cores {
            core.collectives.close();
        }
        for members in self.groups.lock().iter().filter_map(Weak::upgrade) {
            members.close();
        }
    }

    /// Has the device show what was counted last, refusals included.
    fn publish(&self) {
        for tpb in self.cores.iter().flat_map(|core| &core.tpbs) {
            self.device.publish(*tpb, &self.metrics);
        }
    }

    /// Whether every core comes to rest by then, so that the memory it was told of may be used again.
    fn is_quiet(&self, deadline: Instant) -> bool {
        let left = || deadline.saturating_duration_since(Instant::now());
        let mut tpbs = self.cores.iter().flat_map(|core| &core.tpbs);
        tpbs.all(|tpb| self.device.quiesce(*tpb, left()).is_ok())
    }
}

/// Closes, and keeps everything that a core which does not come to rest may still touch.
fn close(inner: &Arc<Inner>, options: &CloseOptions) -> Result<(), CloseError> {
    inner.close(options).inspect_err(spans::not_closed)?;
    rest(inner, options);
    // Relaxed: told once, whoever does it.
    if inner.is_here() && !inner.told_end.swap(true, Ordering::Relaxed) {
        spans::closed(inner.snapshots());
    }
    Ok(())
}

/// Gives the cores back when their device is at rest. If it does not come to rest, everything stays for good.
fn rest(inner: &Arc<Inner>, options: &CloseOptions) {
    // Asked once, however often the runtime is closed.
    let asks = inner.own.outlives_us() && inner.is_here();
    if asks && !inner.asked_for_rest.swap(true, Ordering::Relaxed) {
        let limit = Instant::now() + REST_LIMIT;
        if !inner.is_quiet(
            options
                .deadline
                .map_or(limit, |deadline| deadline.min(limit)),
        ) {
            // Leaked on purpose: the device goes on, and nobody knows when it will be done with this memory.
            core::mem::forget(Arc::clone(inner));
            return;
        }
    }
    if inner.is_here() {
        inner.publish();
        inner.own.close();
        drop(inner.claim.lock().take());
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // For a runtime that could not be closed where it was dropped. On a worker's thread it fails: then the thread
        // drops what it serves when it ends.
        let _ = self.close(&self.close_options());
        if self.is_here() {
            inherited::gone();
        }
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner")
            .field("cores", &self.cores)
            .finish_non_exhaustive()
    }
}

/// The submitting halves of a core's units.
#[derive(Debug)]
pub(crate) struct CoreUnits {
    pub(crate) tpbs: Vec<TpbIndex>,
    pub(crate) compute: Unit<ComputeStage>,
    /// Notification records that came after a fault had ended the compute queue.
    pub(crate) late_records: Arc<AtomicU64>,
    /// Executions that ran another model than the one before.
    pub(crate) model_switches: Arc<AtomicU64>,
    /// One per tensor-op queue.
    pub(crate) transfers: Vec<Unit<TransferStage>>,
    pub(crate) collectives: Unit<CollectivesStage>,
}

impl CoreUnits {
    fn all(&self) -> impl Iterator<Item = &dyn Closing> {
        let others: [&dyn Closing; 2] = [&self.compute, &self.collectives];
        let transfers = self.transfers.iter().map(|unit| unit as &dyn Closing);
        others.into_iter().chain(transfers)
    }

    pub(crate) fn collectives(&self) -> &Unit<CollectivesStage> {
        &self.collectives
    }

    pub(crate) fn compute(&self) -> &Unit<ComputeStage> {
        &self.compute
    }

    pub(crate) fn model_switches(&self) -> u64 {
        // Relaxed: the count stands for itself.
        self.model_switches.load(Ordering::Relaxed)
    }

    pub(crate) fn late_records(&self) -> u64 {
        // Relaxed: the count stands for itself.
        self.late_records.load(Ordering::Relaxed)
    }

    pub(crate) fn transfer(&self, queue: u8) -> &Unit<TransferStage> {
        // PANIC: `TensorOpQueue` handles are made for existing queues only.
        &self.transfers[usize::from(queue)]
    }
}
