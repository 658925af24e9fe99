//! A core's DMA queue for collectives: one plan at a time, a step at a time, never blocking.
//!
//! Owned by the engine of a core's collectives unit, stepped on that core's worker thread like a
//! [`TensorDma`], which moves the bytes:
//!
//! ```text
//!   begin(plan) ── step(now) ──> Continue, Late      look again
//!                     │    └───> Done                everybody has read what is read
//!                     ├────────> Refused             nothing has moved, queue and communicator go on
//!                     └────────> Fatal               the communicator is at its end; the queue is, too, if it has failed
//!                                                    itself, and else takes plans of other communicators
//!   end() ── gives back what the device may still touch: it must be kept
//! ```
//!
//! A step does at most one chunk of work, or one look at a barrier. Nothing is allocated after [`Plan::prepare`].

use super::outcome::{CollectiveError, Progress};
use super::plan::Plan;
use super::run::Run;
use crate::device::{Device, DeviceError, DmaQueue};
use crate::tensor_op::{OperationError, TensorDma};
use std::sync::Arc;

/// A core's DMA queue for collectives, and the collective at its head.
///
/// Plans of several communicators may follow one another. After [`CollectiveDma::end`] has given something back, this must
/// be kept, too, until the device is at rest, or dropped: with a chunk in flight its bounce buffer and rings are never given
/// back. [`CollectiveDma::end`] comes first then: what is dropped in the middle frees what its plan has kept.
#[derive(Debug)]
pub struct CollectiveDma {
    dma: TensorDma,
    run: Option<Run>,
    warnings: u64,
}

/// Memory of this rank and of others that the device may still touch, and scratch. Keep it until the device is at rest.
#[derive(Debug)]
pub struct Leftover {
    _run: Run,
}

impl CollectiveDma {
    /// Opens `queue` and reserves everything but what plans bring with them.
    ///
    /// A chunk that takes `limit_ns` nanoseconds ends the queue; `None` waits for ever. Waits for other ranks have no
    /// limit.
    ///
    /// # Errors
    /// As [`TensorDma::open`].
    pub fn open(
        device: &Arc<dyn Device>,
        queue: DmaQueue,
        limit_ns: Option<u64>,
    ) -> Result<Self, DeviceError> {
        Ok(Self {
            dma: TensorDma::open(device, queue, limit_ns)?,
            run: None,
            warnings: 0,
        })
    }

    /// The host's clock, as the device reads it: a time for [`CollectiveDma::step`].
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.dma.now_ns()
    }

    /// How often a step has said [`Progress::Late`].
    #[must_use]
    pub fn warnings(&self) -> u64 {
        self.warnings
    }

    /// Takes a plan to the head of the queue. The other ranks notice nothing yet.
    ///
    /// # Errors
    /// [`OperationError::UnderWay`], [`OperationError::QueueFailed`], [`CollectiveError::RankBusy`]. The others may wait
    /// for the plan, and it is gone: with any of them the plan's communicator is at its end.
    pub fn begin(&mut self, plan: Plan) -> Result<(), CollectiveError> {
        match self.admit(&plan) {
            Ok(()) => {
                self.run = Some(Run::new(plan));
                Ok(())
            }
            Err(error) => {
                plan.abandon(error.status());
                Err(error)
            }
        }
    }

    /// Whether the plan can begin; then its rank's seat is occupied.
    fn admit(&self, plan: &Plan) -> Result<(), CollectiveError> {
        if self.run.is_some() {
            return Err(OperationError::UnderWay.into());
        }
        if self.dma.has_failed() {
            return Err(OperationError::QueueFailed.into());
        }
        if !plan.rank.seat().occupy() {
            let rank = plan.rank.index();
            return Err(CollectiveError::RankBusy { rank });
        }
        Ok(())
    }

    /// One look: moves a chunk, or sees whether the other ranks have come.
    ///
    /// Without a collective under way there is nothing to do: [`Progress::Done`].
    pub fn step(&mut self, now_ns: u64) -> Progress {
        let Some(run) = &mut self.run else {
            return Progress::Done;
        };
        let progress = run.step(&mut self.dma, now_ns);
        self.warnings += u64::from(matches!(progress, Progress::Late(_)));
        progress
    }

    /// Ends the collective, whatever became of it. One that is not over is given up, and the communicator with it.
    ///
    /// Gives back what the device may still touch, if anything.
    #[must_use = "memory that the device may still touch must be kept"]
    pub fn end(&mut self) -> Option<Leftover> {
        let mut run = self.run.take()?;
        run.give_up();
        self.dma.end().then_some(Leftover { _run: run })
    }
}
