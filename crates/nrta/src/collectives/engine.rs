//! The worker's side of a collectives queue: step this rank's part until all ranks are done.
//!
//! Called by the unit's runner on the worker thread.

use super::Members;
use crate::error::ScheduleError;
use crate::payload::Payload;
use crate::pending::{Call, Outcome};
use crate::runtime::Inner;
use crate::spans;
use std::sync::Arc;
use xu_abi::Status;
use xu_device::collectives::{self, CollectiveDma, CollectiveError, Leftover, Plan};
use xu_device::tensor_op::OperationError;
use xu_worker::here_only::HereOnly;
use xu_worker::{Cause, Engine, Progress, Stage, StageError};

/// A rank's part in a collective.
#[derive(Debug)]
pub(crate) struct Part {
    rank: u32,
    /// Taken when it comes to the head of the queue.
    plan: HereOnly<Option<Plan>>,
    members: Arc<Members>,
    /// The how manieth part of its rank it is; 0 before it is accepted.
    ordinal: u64,
}

impl Part {
    pub(super) fn new(plan: Plan, members: Arc<Members>) -> Self {
        Self {
            rank: plan.rank().index(),
            plan: HereOnly::new(Some(plan)),
            members,
            ordinal: 0,
        }
    }

    /// Whether it was prepared for this core.
    pub(super) fn check_home(&self, runtime: &Arc<Inner>, core: u32) -> Result<(), ScheduleError> {
        if !self.members.is_of(runtime) {
            return Err(ScheduleError::WrongRuntime { what: "part" });
        }
        match self.members.core(self.rank) {
            Some(on) if on != core => Err(ScheduleError::WrongCore {
                what: "part",
                on,
                queue: core,
            }),
            _ => Ok(()),
        }
    }
}

/// Nothing is staged at submit; a part is only counted.
#[derive(Debug)]
pub(crate) struct CollectivesStage;

impl Stage for CollectivesStage {
    type Item = Part;
    type Outcome = Outcome<Payload>;

    fn prepare(&mut self, _: &mut Part) -> Result<(), StageError> {
        Ok(())
    }

    fn commit(&mut self, part: &mut Part) -> Result<(), StageError> {
        part.ordinal = part.members.accept(part.rank);
        // Whatever becomes of the part now, the other ranks learn of it.
        if let Some(plan) = &mut *part.plan {
            plan.commit();
        }
        Ok(())
    }
}

/// Performs the part at the head of the queue, a chunk or a look per step.
#[derive(Debug)]
pub(crate) struct CollectivesEngine {
    dma: CollectiveDma,
    /// Why the part at the head could not begin.
    refused: Option<CollectiveError>,
    fault: Option<String>,
    /// What the device may still touch after a fault: kept until the unit goes.
    quarantine: Vec<Leftover>,
}

impl CollectivesEngine {
    pub(crate) fn new(dma: CollectiveDma) -> Self {
        Self {
            dma,
            refused: None,
            fault: None,
            quarantine: Vec::new(),
        }
    }

    fn fail(&mut self, error: &CollectiveError) -> Status {
        self.fault = Some(error.to_string());
        error.status()
    }
}

impl Engine for CollectivesEngine {
    type Item = Part;
    type Outcome = Outcome<Payload>;

    fn begin(&mut self, part: &mut Part) {
        self.fault = None;
        self.refused = match part.plan.take() {
            Some(plan) => self.dma.begin(plan).err(),
            // Begun twice: nothing would be done, which must not look like success.
            None => Some(OperationError::QueueFailed.into()),
        };
    }

    fn progress(&mut self, part: &mut Part) -> Progress {
        if let Some(refusal) = self.refused.take() {
            return Progress::Done(self.fail(&refusal));
        }
        let progress = self.dma.step(self.dma.now_ns());
        match progress {
            collectives::Progress::Continue | collectives::Progress::Late(_)
                if part.members.is_in_vain(part.ordinal) =>
            {
                self.fault = Some("the runtime closes, and not every rank was scheduled".into());
                Progress::Done(Status::CLOSED)
            }
            collectives::Progress::Continue => Progress::Continue,
            collectives::Progress::Late(late) => {
                spans::collective_late(part.rank, &late);
                Progress::Continue
            }
            collectives::Progress::Done => Progress::Done(Status::SUCCESS),
            collectives::Progress::Refused(error) => Progress::Done(self.fail(&error)),
            collectives::Progress::Fatal(error) => Progress::Fatal(Cause {
                status: self.fail(&error),
                seq: None,
                text: error.to_string(),
            }),
        }
    }

    fn quiesce(&mut self) -> Result<(), Cause> {
        // Requests run one at a time, so behind the last one nothing is under way.
        Ok(())
    }

    fn finish(&mut self, mut part: Part, status: Status) -> Outcome<Payload> {
        // A part that never began: the others do not wait for it, and learn why.
        if let Some(plan) = part.plan.take() {
            plan.abandon(status);
        }
        self.quarantine.extend(self.dma.end());
        Outcome {
            call: Call::Collective,
            status,
            detail: self
                .fault
                .clone()
                .filter(|_| !status.is_success())
                .map(String::into_boxed_str),
            value: Payload::None,
        }
    }
}
