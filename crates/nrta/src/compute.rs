//! The compute queue: run a loaded model on bound tensors.
//!
//! [`ComputeQueue`] is the caller's side. Behind it a stage puts executions before the device, under the submit
//! lock, and an engine harvests them on the worker thread. Spec: `c-api.md` section 6.2, `xu.md` sections 5 and 6.

mod engine;
mod stage;

pub(crate) use engine::{ComputeEngine, Counts};
pub(crate) use stage::{ComputeStage, Distrust, Run};

use crate::error::{Refused, ScheduleError};
use crate::logical_core::Core;
use crate::model::LoadedModel;
use crate::pending::{Pending, Returned};
use crate::spans;
use crate::tensor::Tensor;
use core::time::Duration;
use xu_worker::Unit;

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
    /// From the first start of a collective to the last end of one, when the device has said both.
    pub collectives_time: Option<Duration>,
}

impl Returned for Execution {
    type Raw = Self;

    fn from_raw(raw: Self) -> Option<Self> {
        Some(raw)
    }
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
            Ok(accepted) => {
                spans::bound(accepted.seq, model);
                Ok(Pending::new(accepted))
            }
            Err(refused) => {
                if refused.is_full() {
                    self.core.runtime().count_queue_full(self.core.index());
                }
                Err(Refused {
                    reason: refused.reason.into(),
                    args: refused.item.map(drop),
                })
            }
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

    /// Notification records that came after a fault had ended this queue: executions that ended too late. Counted while
    /// requests behind the fault complete; they change no outcome.
    #[must_use]
    pub fn late_records(&self) -> u64 {
        self.core.runtime().units(self.core.index()).late_records()
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
        Ok(Run::new(model.programs(), storage))
    }

    pub(crate) fn unit(&self) -> &Unit<ComputeStage> {
        self.core.compute_unit()
    }
}

crate::queue::queue_methods!(ComputeQueue);
