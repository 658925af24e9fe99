//! The compute queue: run a loaded model on bound tensors.
//!
//! [`ComputeQueue`] is the caller's side. Behind it a stage puts executions before the device, under the submit
//! lock, and an engine harvests them on the worker thread. Spec: `c-api.md` section 6.2, `xu.md` sections 5 and 6.

mod engine;
mod stage;

pub(crate) use engine::{ComputeEngine, Counts};
pub(crate) use stage::{ComputeStage, Distrust, Held, Run};

use crate::bindings::Bindings;
use crate::error::{Refused, ScheduleError};
use crate::logical_core::Core;
use crate::model::LoadedModel;
use crate::pending::{Pending, Returned};
use crate::request::{Home, Request};
use crate::spans;
use crate::tensor::Tensor;
use core::time::Duration;
use std::sync::Arc;
use xu_worker::Unit;

/// A core's queue of executions. They run one at a time, in the order in which they were accepted.
#[derive(Clone, Debug)]
pub struct ComputeQueue {
    pub(crate) core: Core,
}

/// What a finished execution reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Execution {
    /// From the first engine's start to the last engine's end, when the device has said both.
    pub device_time: Option<Duration>,
    /// From the first start of a collective to the last end of one, when the device has said both.
    pub collectives_time: Option<Duration>,
}

/// What the worker hands over of an execution, with what the execution has held.
///
/// That is let go where the outcome is taken: there its counts of references are at hand, while the worker would have to
/// fetch their lines, and the next submission to fetch them back.
#[doc(hidden)]
#[derive(Debug)]
pub struct Ended {
    pub(crate) execution: Execution,
    pub(crate) held: Option<Held>,
}

impl Returned for Execution {
    type Raw = Ended;

    fn from_raw(raw: Ended) -> Option<Self> {
        drop(raw.held);
        Some(raw.execution)
    }
}

impl ComputeQueue {
    pub(crate) fn new(core: Core) -> Self {
        Self { core }
    }

    /// Schedules one execution of `model`. Never blocks.
    ///
    /// As [`LoadedModel::bind`] and [`ComputeQueue::execute_bound`] in one: who executes often binds once. The tensors may be
    /// dropped at once: the request keeps what it needs.
    ///
    /// # Errors
    /// [`Refused`]: a tensor is missing, too small, freed or on another core, or the queue takes no request now.
    pub fn execute(
        &self,
        model: &LoadedModel,
        inputs: &[&Tensor],
        outputs: &[&Tensor],
    ) -> Result<Pending<Execution>, Refused<()>> {
        let bound = self
            .check_home(model)
            .and_then(|()| model.bind(inputs, outputs))
            .map_err(|reason| Refused::new(reason, ()))?;
        self.execute_bound(&bound)
    }

    /// Schedules one execution of a model on the tensors that are bound to it. Never blocks, and allocates nothing once
    /// the queue has been in use.
    ///
    /// # Errors
    /// [`Refused`]: the model was unloaded or is on another core, or the queue takes no request now.
    pub fn execute_bound(&self, bound: &Bindings) -> Result<Pending<Execution>, Refused<()>> {
        let request = self
            .prepare(bound)
            .map_err(|reason| Refused::new(reason, ()))?;
        let pending = self.schedule(request).map_err(without_request)?;
        spans::bound(pending.seq(), bound.model());
        Ok(pending)
    }

    /// Checks an execution of a model on the tensors that are bound to it, to be scheduled later.
    ///
    /// # Errors
    /// [`ScheduleError`]: the model was unloaded or is on another core.
    pub fn prepare(&self, bound: &Bindings) -> Result<Request<Execution>, ScheduleError> {
        self.check_home(bound.model())?;
        let run = Run::new(bound.model().programs()?, Arc::clone(&bound.bound));
        Ok(Request::new(Home::of(&self.core), run))
    }

    /// As [`ComputeQueue::execute`], but waits for a place while the queue is full.
    ///
    /// # Errors
    /// As [`ComputeQueue::execute`], except that the queue is full.
    pub async fn execute_when_room(
        &self,
        model: &LoadedModel,
        inputs: &[&Tensor],
        outputs: &[&Tensor],
    ) -> Result<Pending<Execution>, Refused<()>> {
        let prepare = || {
            self.check_home(model)?;
            self.prepare(&model.bind(inputs, outputs)?)
        };
        let request = prepare().map_err(|reason| Refused::new(reason, ()))?;
        let scheduled = self.schedule_when_room(request).await;
        let pending = scheduled.map_err(without_request)?;
        spans::bound(pending.seq(), model);
        Ok(pending)
    }

    /// Notification records that came after a fault had ended this queue: executions that ended too late. Counted while
    /// requests behind the fault complete; they change no outcome.
    #[must_use]
    pub fn late_records(&self) -> u64 {
        self.core.runtime().units(self.core.index()).late_records()
    }

    /// Accepted executions that ran another model than the one before them: each of them had the device switch models.
    #[must_use]
    pub fn model_switches(&self) -> u64 {
        self.core
            .runtime()
            .units(self.core.index())
            .model_switches()
    }

    /// Whether a model may be executed here.
    fn check_home(&self, model: &LoadedModel) -> Result<(), ScheduleError> {
        self.core.check_state(self.xu())?;
        model.check_home(self.core.runtime(), self.core.index())
    }

    pub(crate) fn unit(&self) -> &Unit<ComputeStage> {
        self.core.compute_unit()
    }
}

crate::queue::queue_methods!(ComputeQueue);
crate::queue::schedule_methods!(ComputeQueue, [] Execution);

/// The request is of no use to who has not prepared it.
fn without_request(refused: Refused<Request<Execution>>) -> Refused<()> {
    refused.and_then(|_| Some(()))
}
