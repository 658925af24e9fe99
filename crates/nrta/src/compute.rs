//! The compute queue: run a loaded model on bound tensors.
//!
//! [`ComputeQueue`] is the caller's side. Behind it a stage puts executions before the device, under the submit
//! lock, and an engine harvests them on the worker thread. Spec: `c-api.md` section 6.2, `xu.md` sections 5 and 6.

use crate::error::{Refused, ScheduleError};
use crate::logical_core::Core;
use crate::model::LoadedModel;
use crate::pending::{Outcome, Pending};
use crate::tensor::{Storage, Tensor};
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::Arc;
use xu_abi::{DeviceAddr, Status, TpbIndex};
use xu_device::harvest::{self, Harvester};
use xu_device::program::Program;
use xu_device::stage::{Prepared, Staged, Stager};
use xu_device::{Device, DeviceError};
use xu_worker::{Cause, Engine, Progress, Stage, StageError, Unit};

/// A core's queue of executions. They run one at a time, in the order in which they were accepted.
#[derive(Clone, Debug)]
pub struct ComputeQueue {
    core: Core,
}

/// What a finished execution reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Execution {
    /// From the first engine's start to the last engine's end, when the device has said both.
    pub device_time: Option<Duration>,
}

impl ComputeQueue {
    pub(crate) fn new(core: Core) -> Self {
        Self { core }
    }

    /// Schedules one execution of `model`. Never blocks.
    ///
    /// Tensors are given in the model's order of inputs and outputs; each must be at least as large as the
    /// model says and is used from its first byte. They may be dropped at once: the request keeps what it needs.
    /// Nothing checks that two of them differ: a tensor that is bound twice holds whatever was written to it last.
    ///
    /// # Errors
    /// [`Refused`]: a tensor is missing, too small, freed or on another core, or the queue takes no request now.
    pub fn execute(
        &self,
        model: &LoadedModel,
        inputs: &[&Tensor],
        outputs: &[&Tensor],
    ) -> Result<Pending<Execution>, Refused<()>> {
        let run = self
            .bind(model, inputs, outputs)
            .map_err(|reason| Refused::new(reason, ()))?;
        match self.unit().submit(run) {
            Ok(accepted) => Ok(Pending::new(accepted)),
            Err(refused) => Err(Refused {
                reason: refused.reason.into(),
                args: refused.item.map(drop),
            }),
        }
    }

    /// As [`ComputeQueue::execute`], but waits for room while the queue is full.
    ///
    /// # Errors
    /// As [`ComputeQueue::execute`], except that the queue is full.
    pub async fn execute_when_room(
        &self,
        model: &LoadedModel,
        inputs: &[&Tensor],
        outputs: &[&Tensor],
    ) -> Result<Pending<Execution>, Refused<()>> {
        loop {
            match self
                .execute(model, inputs, outputs)
                .map_err(Refused::into_retry)
            {
                Ok(pending) => return Ok(pending),
                Err(retry) => retry?,
            }
            self.room().await;
        }
    }

    fn bind(
        &self,
        model: &LoadedModel,
        inputs: &[&Tensor],
        outputs: &[&Tensor],
    ) -> Result<Run, ScheduleError> {
        self.core.check_process(self.xu())?;
        let (runtime, core) = (self.core.runtime(), self.core.index());
        model.check_home(runtime, core)?;
        model.check_tensors(inputs, outputs)?;
        let storage = inputs
            .iter()
            .chain(outputs)
            .map(|tensor| tensor.storage_for(runtime, core))
            .collect::<Result<Vec<_>, _>>()?;
        let addrs = storage.iter().map(|storage| storage.addr(0)).collect();
        Ok(Run {
            programs: model.programs(),
            storage,
            addrs,
            prepared: None,
            staged: Staged::default(),
        })
    }

    pub(crate) fn unit(&self) -> &Unit<ComputeStage> {
        self.core.compute_unit()
    }
}

crate::queue::queue_methods!(ComputeQueue);

/// A request to run a model. It owns all that the device touches until it is complete.
#[derive(Debug)]
pub(crate) struct Run {
    programs: Arc<[Arc<Program>]>,
    storage: Vec<Arc<Storage>>,
    addrs: Vec<DeviceAddr>,
    prepared: Option<Prepared>,
    staged: Staged,
}

/// Puts executions before the device.
#[derive(Debug)]
pub(crate) struct ComputeStage {
    stager: Stager,
    distrust: Arc<Distrust>,
}

/// Set by the engine after an execution that did not succeed: what the sequencer has loaded is unknown.
#[derive(Debug, Default)]
pub(crate) struct Distrust(AtomicBool);

impl ComputeStage {
    pub(crate) fn new(stager: Stager, distrust: Arc<Distrust>) -> Self {
        Self { stager, distrust }
    }
}

impl Stage for ComputeStage {
    type Item = Run;
    type Outcome = Outcome<Execution>;

    fn prepare(&mut self, run: &mut Run) -> Result<(), StageError> {
        // Relaxed: seen late, it costs one more execution that fails in good order.
        if self.distrust.0.swap(false, Ordering::Relaxed) {
            self.stager.forget_loaded();
        }
        let prepared = self
            .stager
            .prepare(&run.programs, &run.addrs)
            .map_err(|error| StageError::new(Status::INVALID, error))?;
        run.prepared = Some(prepared);
        Ok(())
    }

    fn commit(&mut self, run: &mut Run) -> Result<(), StageError> {
        let Some(prepared) = &run.prepared else {
            return Err(StageError::new(
                Status::FAILURE,
                "the execution was not prepared",
            ));
        };
        run.staged = self
            .stager
            .commit(&run.programs, &run.addrs, prepared)
            .map_err(|error| StageError::new(error.status_in_flight(), error))?;
        Ok(())
    }
}

/// The memory of an execution whose end nobody has seen.
#[derive(Debug)]
struct Kept {
    _programs: Arc<[Arc<Program>]>,
    _storage: Vec<Arc<Storage>>,
}

/// Harvests executions.
#[derive(Debug)]
pub(crate) struct ComputeEngine {
    device: Arc<dyn Device>,
    tpbs: Vec<TpbIndex>,
    harvester: Harvester,
    distrust: Arc<Distrust>,
    timeout: Option<Duration>,
    /// What the execution at the head reported, once it has ended in good order.
    ended: Option<Execution>,
    /// What the device said about an execution that ended without success.
    detail: Option<String>,
    fault: Option<String>,
    /// What the device may still touch after a fault: kept until the unit goes.
    quarantine: Vec<Kept>,
}

impl ComputeEngine {
    /// # Errors
    /// As [`Harvester::open`].
    pub(crate) fn open(
        device: &Arc<dyn Device>,
        tpbs: &[TpbIndex],
        timeout: Option<Duration>,
        distrust: Arc<Distrust>,
    ) -> Result<Self, DeviceError> {
        Ok(Self {
            distrust,
            device: Arc::clone(device),
            tpbs: tpbs.to_vec(),
            harvester: Harvester::open(device, tpbs)?,
            timeout,
            ended: None,
            detail: None,
            fault: None,
            quarantine: Vec::new(),
        })
    }
}

impl Engine for ComputeEngine {
    type Item = Run;
    type Outcome = Outcome<Execution>;

    fn begin(&mut self, run: &mut Run) {
        self.ended = None;
        self.harvester
            .begin(self.device.now_ns(), run.staged, self.timeout);
    }

    fn progress(&mut self, _: &mut Run) -> Progress {
        match self.harvester.step(self.device.now_ns(), &mut ()) {
            harvest::Progress::Continue => Progress::Continue,
            harvest::Progress::Done(report) => {
                self.ended = Some(Execution {
                    device_time: report.device_time(),
                });
                self.detail = self.harvester.reason().map(|reason| reason.to_string());
                Progress::Done(report.status)
            }
            harvest::Progress::Fatal(report, fault) => {
                let text = fault.to_string();
                self.fault = Some(text.clone());
                Progress::Fatal(Cause {
                    status: report.status,
                    seq: None,
                    text,
                })
            }
        }
    }

    fn quiesce(&mut self) -> Result<(), Cause> {
        for tpb in &self.tpbs {
            self.device.quiesce(*tpb).map_err(|error| Cause {
                status: error.status(),
                seq: None,
                text: error.to_string(),
            })?;
        }
        Ok(())
    }

    fn finish(&mut self, run: Run, status: Status) -> Outcome<Execution> {
        if !status.is_success() {
            // Relaxed: see `ComputeStage::prepare`.
            self.distrust.0.store(true, Ordering::Relaxed);
        }
        let ended = self.ended.take();
        let detail = match ended {
            Some(_) => self.detail.take(),
            None => self.fault.clone(),
        };
        if ended.is_none() {
            // It did not end, or never began: the device may still read and write what it names.
            self.quarantine.push(Kept {
                _programs: run.programs,
                _storage: run.storage,
            });
        }
        Outcome {
            status,
            detail,
            value: ended.unwrap_or_default(),
        }
    }
}
