//! Open and close the lane: a device, its logical cores, and one worker thread for each.
//!
//! ```text
//!  Runtime ── Inner ── device
//!                 ├─ core 0: compute unit, two tensor-op units      (submitting halves)
//!                 ├─ core 1: ...
//!                 └─ worker threads, one per core                   (their worker halves)
//! ```
//!
//! Opening is all or nothing. Closing refuses new requests, waits until every accepted request is complete,
//! stops the units and joins the workers. Spec `xu.md` section 4, shutdown.

use crate::collectives::{CollectivesEngine, CollectivesStage, Group, Members};
use crate::compute::{ComputeEngine, ComputeStage, Counts, Distrust, Execution, Run};
use crate::error::Error;
use crate::logical_core::Core;
use crate::pending::Outcome;
use crate::tensor_op::{TransferEngine, TransferStage};
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Instant;
use xu_abi::{Status, TpbIndex, XuId, XuType};
use xu_device::collectives::CollectiveDma;
use xu_device::metrics::{Metrics, Snapshot};
use xu_device::simulated::{FaultPlan, Machine, MachineConfig};
use xu_device::stage::{SkipConfig, Stager};
use xu_device::transfer::TransferQueue;
use xu_device::{Device, map};
use xu_worker::here_only::HereOnly;
use xu_worker::worker::with_signals_blocked;
use xu_worker::{
    CloseError, CloseOptions, Closing, Place, PollPolicy, Runner, Table, Unit, UnitError,
    UnitOptions, WorkerThread, Workers,
};

/// Most requests that a tensor-op queue takes (spec `xu.md` section 1).
const TENSOR_OP_LIMIT: u64 = 65_536;
/// How long the cores of a device are given to come to rest: one when it is opened, all of them when a device that goes on
/// without us is closed.
pub(crate) const REST_LIMIT: Duration = Duration::from_secs(2);
/// Most requests that a collectives queue takes.
const COLLECTIVES_LIMIT: u64 = 64;
/// Most requests that a compute queue can be made to take.
const MAX_COMPUTE_LIMIT: u64 = 63;
/// Host memory that a simulated machine gets for each core, bytes.
const HOST_BYTES_PER_CORE: u64 = 2 << 20;
/// Most logical cores of a runtime.
const MAX_CORES: u64 = 256;

/// The compute units of a runtime, by core, as the original keeps them in memory.
type ComputeTable = Table<Run, Outcome<Execution>>;

/// How a runtime is opened. Made by [`Runtime::builder`].
#[derive(Clone, Debug)]
pub struct Builder {
    first_core: u32,
    cores: u32,
    tpbs_per_core: u32,
    simulated_tpbs: Option<u32>,
    compute_limit: u64,
    exec_timeout: Option<Duration>,
    poll_policy: PollPolicy,
    skip_config: SkipConfig,
    hbm_bytes: Option<u64>,
    seed: u64,
    faults: FaultPlan,
    device: Option<Arc<dyn Device>>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            first_core: 0,
            cores: 1,
            tpbs_per_core: 1,
            simulated_tpbs: None,
            compute_limit: 8,
            exec_timeout: Some(Duration::from_secs(30)),
            poll_policy: PollPolicy::default(),
            skip_config: SkipConfig::default(),
            hbm_bytes: None,
            seed: 0,
            faults: FaultPlan::default(),
            device: None,
        }
    }
}

impl Builder {
    /// Number of logical cores, 1 to 256; default 1.
    #[must_use]
    pub fn cores(mut self, cores: u32) -> Self {
        self.cores = cores;
        self
    }

    /// The device's logical core that becomes core 0; default its first. The others follow it.
    #[must_use]
    pub fn first_core(mut self, core: u32) -> Self {
        self.first_core = core;
        self
    }

    /// Physical cores of the simulated machine, 1 to 256; default as many as the runtime needs.
    #[must_use]
    pub fn simulated_tpbs(mut self, tpbs: u32) -> Self {
        self.simulated_tpbs = Some(tpbs);
        self
    }

    /// Physical cores of each logical core, 1 or 2; default 1. Two of them run every execution together.
    #[must_use]
    pub fn tpbs_per_core(mut self, tpbs: u32) -> Self {
        self.tpbs_per_core = tpbs;
        self
    }

    /// Most executions per core that are accepted and not complete, 1 to 63; default 8.
    #[must_use]
    pub fn compute_limit(mut self, requests: u64) -> Self {
        self.compute_limit = requests;
        self
    }

    /// Limit for one execution, and for one chunk of a tensor move; default 30 seconds, `None` is no limit, 0 is
    /// refused.
    ///
    /// An execution's clock starts when it has reached the head of its queue and no collective holds its core
    /// back, so executions do not time out for waiting behind others. A request whose limit has passed and that
    /// has not arrived ends with `TIMEOUT` and degrades its queue.
    #[must_use]
    pub fn exec_timeout(mut self, limit: Option<Duration>) -> Self {
        self.exec_timeout = limit;
        self
    }

    /// How eagerly workers look at the device; default [`PollPolicy::Adaptive`].
    #[must_use]
    pub fn poll_policy(mut self, policy: PollPolicy) -> Self {
        self.poll_policy = policy;
        self
    }

    /// Whether requests skip loading what the sequencer has loaded; default [`SkipConfig::Never`].
    #[must_use]
    pub fn skip_config(mut self, skip: SkipConfig) -> Self {
        self.skip_config = skip;
        self
    }

    /// Usable memory of each simulated core, bytes; default 64 MiB.
    #[must_use]
    pub fn simulated_hbm_bytes(mut self, bytes: u64) -> Self {
        self.hbm_bytes = Some(bytes);
        self
    }

    /// Seed of the simulated machine's interleavings; default 0.
    #[must_use]
    pub fn simulated_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// What is to go wrong with the simulated machine, on purpose; default nothing.
    ///
    /// ```
    /// use nrta::simulated::{Fault, FaultPlan, Rule, When};
    /// use nrta::{Runtime, Status};
    ///
    /// // The first doorbell fails as if the driver had answered EIO.
    /// let when = When { times: Some(1), ..When::default() };
    /// let fault = Fault::DoorbellFails { errno: 5 };
    /// let plan = FaultPlan { rules: vec![Rule { when, fault }] };
    /// let runtime = Runtime::builder().simulated_faults(plan).open()?;
    /// # let core = runtime.core(0)?;
    /// # let model = core.load(&nrta::Model::open("../../examples/digits/model.xum")?, 1)?;
    /// # let image = model.allocate_input(0)?;
    /// # let outputs = [model.allocate_output(0)?, model.allocate_output(1)?];
    ///
    /// let refused = core.compute().execute(&model, &[&image], &[&outputs[0], &outputs[1]]);
    /// assert_eq!(refused.unwrap_err().status(), Status::HW_ERROR);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn simulated_faults(mut self, plan: FaultPlan) -> Self {
        self.faults = plan;
        self
    }

    /// Uses this device instead of a simulated machine of our own making.
    ///
    /// The runtime must be its only user. What the builder says of a simulated machine has no effect then. A machine in virtual
    /// time has to be stepped by somebody, and limits count by its clock.
    #[must_use]
    pub fn device(mut self, device: Arc<dyn Device>) -> Self {
        self.device = Some(device);
        self
    }

    /// Opens the runtime. On failure nothing remains.
    ///
    /// # Errors
    /// [`Error::Config`] for a value out of range, [`Error::Device`], [`Error::Unit`], [`Error::Worker`],
    /// [`Error::Machine`].
    pub fn open(self) -> Result<Runtime, Error> {
        check("cores", u64::from(self.cores), MAX_CORES, "1 to 256")?;
        check("tpbs_per_core", u64::from(self.tpbs_per_core), 2, "1 or 2")?;
        check(
            "compute_limit",
            self.compute_limit,
            MAX_COMPUTE_LIMIT,
            "1 to 63",
        )?;
        if self.exec_timeout == Some(Duration::ZERO) {
            return Err(Error::Config {
                what: "exec_timeout",
                value: 0,
                allowed: "more than 0, or None for no limit",
            });
        }
        let device = match &self.device {
            Some(device) => Arc::clone(device),
            None => self.simulate()?,
        };
        let on_device = u64::from(device.shape().tpbs);
        let allowed =
            "no more logical cores than the device, or simulated_tpbs, has physical ones for";
        let last = u64::from(self.first_core) + u64::from(self.cores);
        let total = on_device / u64::from(self.tpbs_per_core);
        check("first_core + cores", last, total, allowed)?;
        let metrics = Arc::new(Metrics::new(device.shape().tpbs));
        let table = Arc::new(Table::full().map_err(UnitError::from)?);
        let mut cores = Vec::new();
        let mut workers = Vec::new();
        for core in 0..self.cores {
            let (units, runners) = self.open_core(&device, &table, &metrics, core)?;
            let worker = WorkerThread::spawn(&format!("nrta-nc{core}"), runners)
                .map_err(|source| Error::Worker { core, source })?;
            cores.push(units);
            workers.push(worker);
        }
        let inner = Inner {
            workers: Workers::new(workers),
            cores,
            metrics,
            closed: AtomicBool::new(false),
            groups: Mutex::new(Vec::new()),
            retired: Mutex::new(Vec::new()),
            outlived_by_device: self.device.is_some(),
            asked_for_rest: AtomicBool::new(false),
            device: HereOnly::new(device),
        };
        Ok(Runtime {
            inner: Arc::new(inner),
        })
    }

    fn simulate(&self) -> Result<Arc<dyn Device>, Error> {
        let defaults = MachineConfig::default();
        let needed = self.first_core.saturating_add(self.cores);
        let needed = needed.saturating_mul(self.tpbs_per_core);
        let tpbs = self.simulated_tpbs.unwrap_or(needed);
        // More cores than fit 16 bits are too many for the machine as well.
        let tpbs = u16::try_from(tpbs).unwrap_or(u16::MAX);
        let hbm_bytes = self.hbm_bytes.unwrap_or(defaults.hbm_bytes);
        // Rings and three bounce buffers of a core need less than a mebibyte.
        let host_bytes = defaults
            .host_bytes
            .max(u64::from(tpbs) * HOST_BYTES_PER_CORE);
        let config = MachineConfig {
            tpbs,
            hbm_bytes,
            host_bytes,
            seed: self.seed,
            faults: self.faults.clone(),
            ..defaults
        };
        // The machine's threads are as deaf to signals as the workers.
        let machine = with_signals_blocked(|| Machine::start(config))
            .map_err(|source| Error::Machine { source })?;
        Ok(machine?)
    }

    fn open_core(
        &self,
        device: &Arc<dyn Device>,
        table: &Arc<ComputeTable>,
        metrics: &Arc<Metrics>,
        core: u32,
    ) -> Result<(CoreUnits, Vec<Box<dyn Runner>>), Error> {
        // CAST: at most 256 logical cores, and the device has all their physical ones.
        let (vnc, first) = (
            core as u8,
            ((self.first_core + core) * self.tpbs_per_core) as u16,
        );
        let tpbs: Vec<TpbIndex> = (first..)
            .take(self.tpbs_per_core as usize)
            .map(TpbIndex::new)
            .collect();
        let mut runners: Vec<Box<dyn Runner>> = Vec::new();
        // An earlier opening may have left something running: its records must not complete our requests.
        for tpb in &tpbs {
            device.quiesce(*tpb, REST_LIMIT)?;
        }
        let stager = Stager::open(device, &tpbs, self.compute_limit as u32, self.skip_config)?;
        let distrust = Arc::new(Distrust::default());
        let late_records = Arc::new(AtomicU64::new(0));
        let engine = ComputeEngine::open(
            device,
            &tpbs,
            self.exec_timeout,
            Counts {
                metrics: Arc::clone(metrics),
                late_records: Arc::clone(&late_records),
            },
            Arc::clone(&distrust),
        )?;
        let xu = xu_id(XuType::Compute, 0, vnc)?;
        let options = UnitOptions {
            limit: self.compute_limit,
            policy: self.poll_policy,
            ..UnitOptions::default()
        };
        let stage = ComputeStage::new(Arc::clone(device), stager, distrust);
        let place = Place {
            table,
            index: vnc,
            vcore: u64::from(vnc),
        };
        let (compute, runner) = Unit::new_in(place, xu, &options, stage, engine)?;
        runners.push(Box::new(runner));
        let mut transfers = Vec::new();
        for queue in 0..XuType::TensorOp.queues() {
            let queue_of_core = map::transfer_queue(tpbs[0], queue);
            let engine = TransferEngine::new(
                TransferQueue::open(device, queue_of_core)?,
                self.exec_timeout,
            );
            let xu = xu_id(XuType::TensorOp, queue, vnc)?;
            let options = UnitOptions {
                limit: TENSOR_OP_LIMIT,
                ..options.clone()
            };
            let (unit, runner) = Unit::new(xu, &options, TransferStage, engine)?;
            transfers.push(unit);
            runners.push(Box::new(runner));
        }
        let limit_ns = self
            .exec_timeout
            .and_then(|limit| u64::try_from(limit.as_nanos()).ok());
        let dma = CollectiveDma::open(device, map::collectives_queue(tpbs[0]), limit_ns)?;
        let xu = xu_id(XuType::Collectives, 0, vnc)?;
        let options = UnitOptions {
            limit: COLLECTIVES_LIMIT,
            ..options
        };
        let engine = CollectivesEngine::new(dma);
        let (collectives, runner) = Unit::new(xu, &options, CollectivesStage, engine)?;
        runners.push(Box::new(runner));
        Ok((
            CoreUnits {
                tpbs,
                compute,
                late_records,
                transfers,
                collectives,
            },
            runners,
        ))
    }
}

fn check(what: &'static str, value: u64, most: u64, allowed: &'static str) -> Result<(), Error> {
    if (1..=most).contains(&value) {
        Ok(())
    } else {
        Err(Error::Config {
            what,
            value,
            allowed,
        })
    }
}

fn xu_id(xu_type: XuType, queue: u8, vnc: u8) -> Result<XuId, Error> {
    XuId::new(xu_type, queue, vnc).ok_or(Error::NoSuchQueue {
        queue,
        queues: xu_type.queues(),
    })
}

/// An open runtime. Dropping it closes it.
///
/// Closing waits until every accepted request is complete, because memory that the device may still write
/// must not be freed. Handles that outlive it are refused from then on.
pub struct Runtime {
    inner: Arc<Inner>,
}

impl Runtime {
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
        Builder::from_variables(|name| std::env::var_os(name))?.open()
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
    pub fn counters(&self) -> Snapshot {
        self.inner.metrics.snapshot()
    }

    /// Closes: refuses new requests, waits for the accepted ones, stops the workers.
    ///
    /// Blocks the calling thread until every accepted request is complete, so not for an executor's thread; with no
    /// [`Builder::exec_timeout`] and a core that hangs, for ever. While it waits it logs what it waits for every two
    /// minutes.
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
            ..CloseOptions::default()
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
        let options = CloseOptions::default();
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
/// then the device.
pub(crate) struct Inner {
    workers: Workers,
    cores: Vec<CoreUnits>,
    metrics: Arc<Metrics>,
    closed: AtomicBool,
    /// Every group that was made, as long as it is used.
    groups: Mutex<Vec<Weak<Members>>>,
    /// Worker halves of closed units: they keep what a degraded unit's device may still touch.
    retired: Mutex<Vec<Box<dyn Runner>>>,
    /// Whether the device is the caller's and goes on without us.
    outlived_by_device: bool,
    /// It was asked whether its cores are at rest.
    asked_for_rest: AtomicBool,
    device: HereOnly<Arc<dyn Device>>,
}

impl Inner {
    pub(crate) fn device(&self) -> &Arc<dyn Device> {
        &self.device
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

    /// Refuses new requests, waits for the accepted ones, stops the workers.
    fn close(&self, options: &CloseOptions) -> Result<(), CloseError> {
        // PAIRS: with the acquire load in `check_open`.
        self.closed.store(true, Ordering::Release);
        self.close_groups();
        let units: Vec<&dyn Closing> = self.cores.iter().flat_map(CoreUnits::all).collect();
        let closed = self.workers.close(&units, options)?;
        self.retired.lock().extend(closed.retired);
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

    /// Whether every core comes to rest by then, so that the memory it was told of may be used again.
    fn is_quiet(&self, deadline: Instant) -> bool {
        let left = || deadline.saturating_duration_since(Instant::now());
        let mut tpbs = self.cores.iter().flat_map(|core| &core.tpbs);
        tpbs.all(|tpb| self.device.quiesce(*tpb, left()).is_ok())
    }
}

/// Closes, and keeps everything that a core which does not come to rest may still touch.
fn close(inner: &Arc<Inner>, options: &CloseOptions) -> Result<(), CloseError> {
    inner.close(options)?;
    // Asked once, however often the runtime is closed.
    let asks = inner.outlived_by_device && inner.is_here();
    if asks && !inner.asked_for_rest.swap(true, Ordering::Relaxed) {
        let limit = Instant::now() + REST_LIMIT;
        if !inner.is_quiet(
            options
                .deadline
                .map_or(limit, |deadline| deadline.min(limit)),
        ) {
            // Leaked on purpose: the device goes on, and nobody knows when it will be done with this memory.
            core::mem::forget(Arc::clone(inner));
        }
    }
    Ok(())
}

impl Drop for Inner {
    fn drop(&mut self) {
        // For a runtime that could not be closed where it was dropped. On a worker's thread it fails: then the thread
        // drops what it serves when it ends.
        let _ = self.close(&CloseOptions::default());
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
    tpbs: Vec<TpbIndex>,
    compute: Unit<ComputeStage>,
    /// Notification records that came after a fault had ended the compute queue.
    late_records: Arc<AtomicU64>,
    /// One per tensor-op queue.
    transfers: Vec<Unit<TransferStage>>,
    collectives: Unit<CollectivesStage>,
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

    pub(crate) fn late_records(&self) -> u64 {
        // Relaxed: the count stands for itself.
        self.late_records.load(Ordering::Relaxed)
    }

    pub(crate) fn transfer(&self, queue: u8) -> &Unit<TransferStage> {
        // PANIC: `TensorOpQueue` handles are made for existing queues only.
        &self.transfers[usize::from(queue)]
    }
}
