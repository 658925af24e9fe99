//! How a runtime is opened: what can be chosen, and the opening itself.
//!
//! Made by [`Runtime::builder`] and by what the environment says. Opening is all or nothing: whatever fails, nothing
//! remains.
//!
//! ```text
//!   open ── device: the caller's, or a simulated machine of our own
//!      '── for each core: compute unit, two tensor-op units, collectives unit, and a worker thread for all four
//! ```

use crate::collectives::{CollectivesEngine, CollectivesStage};
use crate::compute::{ComputeEngine, ComputeStage, Counts, Distrust, Execution, Run};
use crate::error::Error;
use crate::pending::Outcome;
use crate::runtime::{CoreUnits, REST_LIMIT, Runtime};
use crate::tensor_op::{TransferEngine, TransferStage};
use core::sync::atomic::AtomicU64;
use core::time::Duration;
use std::sync::Arc;
use xu_abi::{TpbIndex, XuId, XuType};
use xu_device::collectives::CollectiveDma;
use xu_device::metrics::Metrics;
use xu_device::simulated::{FaultPlan, Machine, MachineConfig};
use xu_device::stage::{SkipConfig, Stager};
use xu_device::tensor_op::TensorDma;
use xu_device::{Device, map};
use xu_worker::worker::with_signals_blocked;
use xu_worker::{
    Place, PollPolicy, Runner, Table, Unit, UnitError, UnitOptions, WorkerThread, Workers,
};

/// Most requests that a tensor-op queue takes (spec `xu.md` section 1).
const TENSOR_OP_LIMIT: u64 = 65_536;
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
        Ok(Runtime::of(
            Workers::new(workers),
            cores,
            metrics,
            device,
            self.device.is_some(),
        ))
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
        let model_switches = Arc::new(AtomicU64::new(0));
        let switches = Arc::clone(&model_switches);
        let stage = ComputeStage::new(Arc::clone(device), stager, distrust, switches);
        let place = Place {
            table,
            index: vnc,
            vcore: u64::from(vnc),
        };
        let (compute, runner) = Unit::new_in(place, xu, &options, stage, engine)?;
        runners.push(Box::new(runner));
        // More nanoseconds than 64 bits hold are no limit.
        let limit = self.exec_timeout.map(|limit| limit.as_nanos());
        let limit_ns = limit.and_then(|limit| u64::try_from(limit).ok());
        let mut transfers = Vec::new();
        for queue in 0..XuType::TensorOp.queues() {
            let queue_of_core = map::transfer_queue(tpbs[0], queue);
            let dma = TensorDma::open(device, queue_of_core, limit_ns)?;
            let engine = TransferEngine::new(dma);
            let xu = xu_id(XuType::TensorOp, queue, vnc)?;
            let options = UnitOptions {
                limit: TENSOR_OP_LIMIT,
                ..options.clone()
            };
            let (unit, runner) = Unit::new(xu, &options, TransferStage, engine)?;
            transfers.push(unit);
            runners.push(Box::new(runner));
        }
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
                model_switches,
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
        kind: xu_type,
        queue,
        queues: xu_type.queues(),
    })
}
