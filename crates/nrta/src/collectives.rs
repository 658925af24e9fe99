//! Collectives between the cores of a runtime: all-gather, all-reduce, reduce-scatter.
//!
//! [`Group`] is a replica group: cores, of which the first is rank 0. Each core's [`CollectivesQueue`] schedules that rank's
//! part; the parts meet on the device, in the order in which each queue accepted them.
//! Spec: `c-api.md` section 6.3.
//!
//! ```
//! use nrta::{ReduceOp, Runtime, f16};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let runtime = Runtime::builder().cores(2).open()?;
//! let group = runtime.group(&[0, 1])?;
//! let mut pending = Vec::new();
//! let mut sums = Vec::new();
//! for rank in 0..2 {
//!     let core = runtime.core(rank)?;
//!     let (input, sum) = (core.tensor::<f16>(&[2])?, core.tensor::<f16>(&[2])?);
//!     let moves = core.tensor_op(0)?;
//!     moves.write_all(&input, [rank as f32, 1.0].map(f16::from_f32))?.wait()?;
//!     let part = core.collectives().all_reduce_of(&group, ReduceOp::Add, &input, &sum)?;
//!     pending.push(part);
//!     sums.push((moves, sum));
//! }
//! for part in pending {
//!     part.wait()?;
//! }
//! for (moves, sum) in sums {
//!     assert_eq!(moves.read_all(&sum)?.wait()?, [1.0, 2.0].map(f16::from_f32));
//! }
//! # Ok(())
//! # }
//! ```

mod engine;
mod group;
mod typed;

pub(crate) use engine::{CollectivesEngine, CollectivesStage, Part};
pub use group::Group;
pub(crate) use group::Members;

use crate::error::{Refused, ScheduleError};
use crate::logical_core::Core;
use crate::payload::Payload;
use crate::pending::{Outcome, Pending};
use crate::reserve::Place;
use crate::tensor::{Storage, Tensor};
use core::fmt;
use std::sync::Arc;
use xu_device::collectives::{Collective, Plan};
use xu_device::elementwise::{Dtype, ReduceOp};
use xu_device::region::Region;
use xu_worker::{Accepted, Unit};

/// A core's queue of collectives. They run one at a time, in the order in which they were accepted.
///
/// A part waits for those of the other ranks of its group for as long as it takes, with a line in the log after 30 seconds
/// and after twice the time from then on; a rank that is late is no error. A rank whose part can no longer come ends
/// the group: the others complete with `EXEC_HW_ERR_COLLECTIVES`.
#[derive(Clone, Debug)]
pub struct CollectivesQueue {
    pub(crate) core: Core,
}

/// A rank's part in a collective: checked, its scratch memory reserved, not scheduled. Dropping it is no loss to the others.
pub struct Prepared {
    /// Boxed, so that a refusal that hands it back is small.
    part: Box<Part>,
}

impl CollectivesQueue {
    pub(crate) fn new(core: Core) -> Self {
        Self { core }
    }

    /// Checks this core's part in a collective of `group`, and reserves the scratch memory that it needs.
    ///
    /// Sizes: an all-reduce has outputs as large as inputs; with n ranks an all-gather has outputs n times as large, a
    /// reduce-scatter inputs n times as large. k inputs and k outputs are k collectives in one request; an all-gather may
    /// also have n outputs for one input, a reduce-scatter n inputs for one output. Input and output may be the same
    /// tensor. All are in this core's memory.
    ///
    /// # Errors
    /// [`ScheduleError`]: this core is not of the group, a tensor was freed or is on another core, sizes do not fit, or
    /// memory is exhausted.
    pub fn prepare(
        &self,
        group: &Group,
        collective: Collective,
        dtype: Dtype,
        inputs: &[&Tensor],
        outputs: &[&Tensor],
    ) -> Result<Prepared, ScheduleError> {
        self.core.check_state(self.xu())?;
        let (runtime, core) = (self.core.runtime(), self.core.index());
        let rank = group.rank(runtime, core)?;
        let hold = |tensors: &[&Tensor]| -> Result<Vec<Arc<Storage>>, ScheduleError> {
            let storage = tensors
                .iter()
                .map(|tensor| tensor.storage_for(runtime, core));
            storage.collect()
        };
        let (inputs, outputs) = (hold(inputs)?, hold(outputs)?);
        let regions = |held: &[Arc<Storage>]| -> Vec<Region> {
            held.iter().map(|storage| storage.region()).collect()
        };
        let (from, to) = (regions(&inputs), regions(&outputs));
        // Every rank that reads this one's memory keeps it.
        let keep = Arc::new((inputs, outputs));
        let device = runtime.device();
        let plan = Plan::prepare(device, &rank, collective, dtype, &from, &to, keep)?;
        Ok(Prepared {
            part: Box::new(Part::new(plan, Arc::clone(group.members()))),
        })
    }

    /// Schedules a part. Never blocks.
    ///
    /// Resolves when no rank uses this rank's tensors any more.
    ///
    /// # Errors
    /// [`Refused`], with the part: it was prepared for another core, or the queue takes no request now.
    pub fn schedule(&self, prepared: Prepared) -> Result<Pending<()>, Refused<Prepared>> {
        self.hand_over(prepared, |part| self.unit().submit(part))
    }

    /// As [`CollectivesQueue::schedule`], but waits for a place while the queue is full.
    ///
    /// # Errors
    /// As [`CollectivesQueue::schedule`], except that the queue is full.
    pub async fn schedule_when_room(
        &self,
        prepared: Prepared,
    ) -> Result<Pending<()>, Refused<Prepared>> {
        if let Err(reason) = self.check(&prepared) {
            return Err(Refused::new(reason, prepared));
        }
        match self.reserve().await {
            Ok(place) => place.schedule(prepared),
            Err(reason) => Err(Refused::new(reason, prepared)),
        }
    }

    fn check(&self, prepared: &Prepared) -> Result<(), ScheduleError> {
        self.core.check_state(self.xu())?;
        let (runtime, core) = (self.core.runtime(), self.core.index());
        prepared.part.check_home(runtime, core)
    }

    fn hand_over(
        &self,
        prepared: Prepared,
        submit: impl FnOnce(Part) -> Submitted,
    ) -> Result<Pending<()>, Refused<Prepared>> {
        if let Err(reason) = self.check(&prepared) {
            return Err(Refused::new(reason, prepared));
        }
        submit(*prepared.part)
            .map(Pending::new)
            .map_err(|refused| Refused {
                reason: refused.reason.into(),
                args: refused.item.map(|part| Prepared {
                    part: Box::new(part),
                }),
            })
    }

    /// Schedules this core's part in an all-gather: every rank gets the inputs of all, one after the other.
    ///
    /// # Errors
    /// As [`CollectivesQueue::prepare`] and [`CollectivesQueue::schedule`].
    pub fn all_gather(
        &self,
        group: &Group,
        dtype: Dtype,
        input: &Tensor,
        output: &Tensor,
    ) -> Result<Pending<()>, Refused<()>> {
        self.at_once(group, Collective::AllGather, dtype, input, output)
    }

    /// Schedules this core's part in an all-reduce: every rank gets the inputs of all, combined in the order of ranks.
    ///
    /// # Errors
    /// As [`CollectivesQueue::all_gather`].
    pub fn all_reduce(
        &self,
        group: &Group,
        op: ReduceOp,
        dtype: Dtype,
        input: &Tensor,
        output: &Tensor,
    ) -> Result<Pending<()>, Refused<()>> {
        self.at_once(group, Collective::AllReduce(op), dtype, input, output)
    }

    /// Schedules this core's part in a reduce-scatter: inputs are combined, and every rank gets its share of the result.
    ///
    /// # Errors
    /// As [`CollectivesQueue::all_gather`].
    pub fn reduce_scatter(
        &self,
        group: &Group,
        op: ReduceOp,
        dtype: Dtype,
        input: &Tensor,
        output: &Tensor,
    ) -> Result<Pending<()>, Refused<()>> {
        self.at_once(group, Collective::ReduceScatter(op), dtype, input, output)
    }

    fn at_once(
        &self,
        group: &Group,
        collective: Collective,
        dtype: Dtype,
        input: &Tensor,
        output: &Tensor,
    ) -> Result<Pending<()>, Refused<()>> {
        self.schedule_prepared(self.prepare(group, collective, dtype, &[input], &[output]))
    }

    /// Schedules what was prepared, and forgets it where that is refused.
    fn schedule_prepared(
        &self,
        prepared: Result<Prepared, ScheduleError>,
    ) -> Result<Pending<()>, Refused<()>> {
        let prepared = prepared.map_err(|reason| Refused::new(reason, ()))?;
        self.schedule(prepared).map_err(|refused| Refused {
            reason: refused.reason,
            args: refused.args.map(drop),
        })
    }

    pub(crate) fn unit(&self) -> &Unit<CollectivesStage> {
        self.core.collectives_unit()
    }
}

crate::queue::queue_methods!(CollectivesQueue);

/// What a unit of collectives says to a part.
type Submitted = Result<Accepted<Outcome<Payload>>, xu_worker::Refused<Part>>;

impl Place<CollectivesQueue> {
    /// Schedules a part in this place. Never blocks, and never finds the queue full.
    ///
    /// # Errors
    /// [`Refused`], with the part: it was prepared for another core, or the queue takes no request any more. The place is
    /// given back.
    pub fn schedule(self, prepared: Prepared) -> Result<Pending<()>, Refused<Prepared>> {
        let queue = self.queue().clone();
        queue.hand_over(prepared, |part| self.into_reservation().submit(part))
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared")
            .field("part", &self.part)
            .finish()
    }
}
