//! How a runtime is opened: what can be chosen, and the opening itself.
//!
//! Made by [`Runtime::builder`] and by what the environment says. Opening is all or nothing: whatever fails, nothing
//! remains.
//!
//! ```text
//!   open ── device: the caller's, a simulated machine of our own, or cores of a chip
//!      '── for each core: compute unit, two tensor-op units, collectives unit, and a worker thread for all four
//! ```

use crate::claims::{Claim, Wanted};
use crate::collectives::{CollectivesEngine, CollectivesStage};
use crate::compute::{ComputeEngine, ComputeStage, Counts, Distrust, Ended, Run};
use crate::cpus::{self, CpuSet};
use crate::environment::Note;
use crate::error::Error;
use crate::inherited;
use crate::instance::Instance;
use crate::own_device::Open;
use crate::pending::Outcome;
use crate::runtime::{CoreUnits, Opened, REST_LIMIT, Runtime};
use crate::settings::{Backend, Choice, NumericalErrors, Settings};
use crate::spans;
use crate::tensor_op::{TransferEngine, TransferStage};
use core::sync::atomic::AtomicU64;
use core::time::Duration;
use std::path::PathBuf;
use std::sync::Arc;
use xu_abi::{TpbIndex, XuId, XuType};
use xu_device::collectives::CollectiveDma;
use xu_device::metrics::Metrics;
#[cfg(feature = "simulated")]
use xu_device::simulated::FaultPlan;
use xu_device::stage::{SkipConfig, Stager};
use xu_device::tensor_op::TensorDma;
use xu_device::{Device, map};
use xu_worker::{
    Place, PollPolicy, Runner, Table, Unit, UnitError, UnitOptions, WorkerThread, Workers,
};

/// Most requests that a tensor-op queue takes (spec `xu.md` section 1).
const TENSOR_OP_LIMIT: u64 = 65_536;
/// Most requests that a collectives queue takes.
const COLLECTIVES_LIMIT: u64 = 64;

/// The compute units of a runtime, by core, as the original keeps them in memory.
type ComputeTable = Table<Run, Outcome<Ended>>;

/// How a runtime is opened. Made by [`Runtime::builder`], or by [`Builder::from_env`].
///
/// What the methods say wins over the environment. [`Builder::settings`] says what comes of it.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    /// Made by the environment: what nobody says is different then.
    pub(crate) is_by_environment: bool,
    pub(crate) backend: Choice<Backend>,
    pub(crate) device_directory: Choice<PathBuf>,
    pub(crate) sysfs: Choice<PathBuf>,
    pub(crate) instance: Choice<Option<&'static Instance>>,
    pub(crate) devices: Choice<u32>,
    /// Of the whole machine.
    pub(crate) tpbs: Choice<u32>,
    pub(crate) hbm_bytes: Choice<u64>,
    pub(crate) seed: Choice<u64>,
    #[cfg(feature = "simulated")]
    pub(crate) faults: Choice<FaultPlan>,
    pub(crate) host: Choice<Option<PathBuf>>,
    pub(crate) tpbs_per_core: Choice<u32>,
    pub(crate) first_core: Choice<u32>,
    pub(crate) cores: Choice<u32>,
    pub(crate) compute_limit: Choice<u64>,
    pub(crate) exec_timeout: Choice<Option<Duration>>,
    pub(crate) poll_policy: Choice<PollPolicy>,
    pub(crate) skip_config: Choice<SkipConfig>,
    pub(crate) numerical_errors: Choice<NumericalErrors>,
    pub(crate) log_out_of_memory: Choice<bool>,
    pub(crate) worker_cpus: Choice<Option<CpuSet>>,
    pub(crate) close_warn_every: Choice<Duration>,
    pub(crate) process_tag: Choice<String>,
    pub(crate) device: Option<Arc<dyn Device>>,
    /// What opening is to say of the environment.
    pub(crate) notes: Vec<Note>,
}

impl Builder {
    /// Number of logical cores, 1 to 256; default 1.
    #[must_use]
    pub fn cores(mut self, cores: u32) -> Self {
        self.cores.tell(cores);
        self
    }

    /// The device's logical core that becomes core 0; default its first. The others follow it.
    #[must_use]
    pub fn first_core(mut self, core: u32) -> Self {
        self.first_core.tell(core);
        self
    }

    /// Which device it is; default [`Backend::Simulated`]. One that is not compiled in is refused with [`Error::Backend`].
    ///
    /// On the real driver the cores are claimed and reset when it is opened, which can take minutes, and are those of one
    /// device: cores of two are refused with [`Error::TwoDevices`]. When it was not said which cores, it takes the lowest that
    /// are free side by side.
    #[must_use]
    pub fn backend(mut self, backend: Backend) -> Self {
        self.backend.tell(backend);
        self
    }

    /// Where the nodes of the real driver are; default `/dev`. For containers, and hosts that are emulated.
    #[must_use]
    pub fn neuron_device_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.device_directory.tell(directory.into());
        self
    }

    /// Where the root of sysfs is, in which the real driver counts memory errors; default `/sys`. For containers, and hosts
    /// that are emulated. When the device is not there, it has none.
    #[must_use]
    pub fn neuron_sysfs(mut self, root: impl Into<PathBuf>) -> Self {
        self.sysfs.tell(root.into());
        self
    }

    /// Shapes the simulated machine after an instance: generation, devices, physical cores.
    #[cfg(feature = "simulated")]
    #[must_use]
    pub fn simulated_instance(mut self, instance: &'static Instance) -> Self {
        self.instance.tell(Some(instance));
        self
    }

    /// Devices that share the physical cores of the simulated machine evenly ([`Builder::simulated_tpbs`] says how many); default 1, or those of the instance.
    #[cfg(feature = "simulated")]
    #[must_use]
    pub fn simulated_devices(mut self, devices: u32) -> Self {
        self.devices.tell(devices);
        self
    }

    /// The host whose cores processes share, named by an existing directory; default none.
    ///
    /// Opening claims the cores then, all of them or none, until the runtime is closed or the process ends, however it ends.
    /// When it was not said which cores, it takes the lowest that are free. See [`claims`](crate::claims). When it was not said
    /// how large the machine is ([`Builder::simulated_tpbs`], [`Builder::simulated_instance`]), it has two logical cores, or
    /// as many as this runtime needs if that is more; all who share should say the same.
    #[cfg(feature = "simulated")]
    #[must_use]
    pub fn simulated_host(mut self, directory: impl Into<PathBuf>) -> Self {
        self.host.tell(Some(directory.into()));
        self
    }

    /// What is shown beside the process id to whoever wants the same cores; default the process id.
    #[must_use]
    pub fn process_tag(mut self, tag: impl Into<String>) -> Self {
        self.process_tag.tell(tag.into());
        self
    }

    /// What becomes of an execution whose results hold NaN; default [`NumericalErrors::Critical`].
    #[must_use]
    pub fn numerical_errors(mut self, errors: NumericalErrors) -> Self {
        self.numerical_errors.tell(errors);
        self
    }

    /// Whether a warning in the log says what is free when device memory is exhausted; default yes.
    #[must_use]
    pub fn log_out_of_memory(mut self, on: bool) -> Self {
        self.log_out_of_memory.tell(on);
        self
    }

    /// Processors that worker threads are bound to; default any. When the process may use none of them, the log says so and
    /// nothing is bound.
    #[must_use]
    pub fn worker_cpus(mut self, cpus: CpuSet) -> Self {
        self.worker_cpus.tell(Some(cpus));
        self
    }

    /// How often closing says in the log what it waits for, at least a millisecond, less is refused; default every two minutes.
    #[must_use]
    pub fn close_warn_every(mut self, every: Duration) -> Self {
        self.close_warn_every.tell(every);
        self
    }

    /// Physical cores of the simulated machine, 1 to 256; default those of the instance, or as many as the runtime needs;
    /// at least those of two logical cores where a host is named or the environment was read.
    #[cfg(feature = "simulated")]
    #[must_use]
    pub fn simulated_tpbs(mut self, tpbs: u32) -> Self {
        self.tpbs.tell(tpbs);
        self
    }

    /// Physical cores of each logical core, 1 or 2; default 1 on the second generation and 2 from the third on. Two of them
    /// run every execution together.
    #[must_use]
    pub fn tpbs_per_core(mut self, tpbs: u32) -> Self {
        self.tpbs_per_core.tell(tpbs);
        self
    }

    /// Most executions per core that are accepted and not complete, 1 to 63; default 8.
    #[must_use]
    pub fn compute_limit(mut self, requests: u64) -> Self {
        self.compute_limit.tell(requests);
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
        self.exec_timeout.tell(limit);
        self
    }

    /// How eagerly workers look at the device; default [`PollPolicy::Adaptive`].
    #[must_use]
    pub fn poll_policy(mut self, policy: PollPolicy) -> Self {
        self.poll_policy.tell(policy);
        self
    }

    /// Whether requests skip loading what the sequencer has loaded; default [`SkipConfig::Never`].
    #[must_use]
    pub fn skip_config(mut self, skip: SkipConfig) -> Self {
        self.skip_config.tell(skip);
        self
    }

    /// Usable memory of each simulated core, bytes, 1 MiB to 4 GiB; default 64 MiB.
    #[cfg(feature = "simulated")]
    #[must_use]
    pub fn simulated_hbm_bytes(mut self, bytes: u64) -> Self {
        self.hbm_bytes.tell(bytes);
        self
    }

    /// Seed of the simulated machine's interleavings; default 0.
    #[cfg(feature = "simulated")]
    #[must_use]
    pub fn simulated_seed(mut self, seed: u64) -> Self {
        self.seed.tell(seed);
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
    #[cfg(feature = "simulated")]
    #[must_use]
    pub fn simulated_faults(mut self, plan: FaultPlan) -> Self {
        self.faults.tell(plan);
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
    /// As [`Builder::settings`]; [`Error::Busy`] and [`Error::Host`] where processes share a host or devices; [`Error::Device`],
    /// [`Error::Unit`], [`Error::Worker`], [`Error::Machine`].
    pub fn open(self) -> Result<Runtime, Error> {
        let opened = spans::opening().in_scope(|| self.open_all());
        let runtime = opened.inspect_err(spans::not_opened)?;
        spans::opened(runtime.settings());
        Ok(runtime)
    }

    fn open_all(self) -> Result<Runtime, Error> {
        if inherited::are_open() {
            return Err(Error::Forked);
        }
        self.notes.iter().for_each(Note::tell);
        let mut settings = self.settings()?;
        // Whatever fails from here on, the claim goes with it.
        let claim = self.claim(&mut settings)?;
        let Open { device, first_tpb } = self.open_device(&mut settings)?;
        let cpus = settings.worker_cpus.value.clone();
        let usable = cpus.as_ref().and_then(CpuSet::usable);
        let opening = Opening {
            table: Arc::new(Table::full().map_err(UnitError::from)?),
            metrics: Arc::new(Metrics::new(device.device().shape().tpbs)),
            device: device.device(),
            first_tpb,
            settings,
        };
        let mut cores = Vec::new();
        let mut workers = Vec::new();
        for core in 0..opening.settings.cores.value {
            let (units, runners) = opening.open_core(core)?;
            let spawn = || WorkerThread::spawn(&format!("nrta-nc{core}"), runners);
            let worker = cpus::starting_on(usable.as_ref(), spawn)
                .map_err(|source| Error::Worker { core, source })?;
            cores.push(units);
            workers.push(worker);
        }
        Ok(Runtime::of(Opened {
            workers: Workers::new(workers),
            cores,
            metrics: opening.metrics,
            settings: opening.settings,
            claim,
            device: opening.device,
            own: device,
        }))
    }

    /// Claims the cores of the settings, or the lowest that are free, which it notes in the settings.
    fn claim(&self, settings: &mut Settings) -> Result<Option<Claim>, Error> {
        let Some(directory) = &settings.host.value else {
            return Ok(None);
        };
        let wanted = Wanted {
            first: self.first_core.said().map(|first| first.value),
            cores: settings.cores.value,
            total: settings.tpbs.value / settings.tpbs_per_core.value,
            tpbs_per_core: settings.tpbs_per_core.value,
        };
        let claim = Claim::take(directory, &wanted, &settings.process_tag.value)?;
        settings.first_core.value = claim.first_core();
        Ok(Some(claim))
    }
}

/// What the cores of a runtime are opened with.
struct Opening {
    device: Arc<dyn Device>,
    /// The first physical core of core 0.
    first_tpb: u16,
    table: Arc<ComputeTable>,
    metrics: Arc<Metrics>,
    settings: Settings,
}

impl Opening {
    fn open_core(&self, core: u32) -> Result<(CoreUnits, Vec<Box<dyn Runner>>), Error> {
        let (settings, device, table) = (&self.settings, &self.device, &self.table);
        let tpbs_per_core = settings.tpbs_per_core.value;
        let exec_timeout = settings.exec_timeout.value;
        // CAST: at most 256 logical cores, and the device has all their physical ones.
        let (vnc, first) = (core as u8, self.first_tpb + (core * tpbs_per_core) as u16);
        let tpbs: Vec<TpbIndex> = (first..)
            .take(tpbs_per_core as usize)
            .map(TpbIndex::new)
            .collect();
        let mut runners: Vec<Box<dyn Runner>> = Vec::new();
        // An earlier opening may have left something running: its records must not complete our requests.
        for tpb in &tpbs {
            device.quiesce(*tpb, REST_LIMIT)?;
        }
        let stager = Stager::open(
            device,
            &tpbs,
            settings.compute_limit.value as u32,
            settings.skip_config.value,
        )?;
        let distrust = Arc::new(Distrust::default());
        let late_records = Arc::new(AtomicU64::new(0));
        let engine = ComputeEngine::open(
            device,
            &tpbs,
            exec_timeout,
            settings.numerical_errors.value,
            Counts {
                metrics: Arc::clone(&self.metrics),
                late_records: Arc::clone(&late_records),
            },
            Arc::clone(&distrust),
        )?;
        let xu = xu_id(XuType::Compute, 0, vnc)?;
        let options = UnitOptions {
            limit: settings.compute_limit.value,
            policy: settings.poll_policy.value,
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
        let limit = exec_timeout.map(|limit| limit.as_nanos());
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

fn xu_id(xu_type: XuType, queue: u8, vnc: u8) -> Result<XuId, Error> {
    XuId::new(xu_type, queue, vnc).ok_or(Error::NoSuchQueue {
        kind: xu_type,
        queue,
        queues: xu_type.queues(),
    })
}
