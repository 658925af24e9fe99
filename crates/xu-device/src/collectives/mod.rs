//! Collectives between the cores of one runtime: all-gather, all-reduce, reduce-scatter.
//!
//! Owned by the engine of a core's collectives unit and stepped on that core's worker thread; nothing here blocks.
//! The ranks of a [`Communicator`] meet: each prepares a [`Plan`] when its request is scheduled, brings it to the head of
//! its own DMA queue ([`CollectiveDma`]), and every rank moves its own part over its own queue.
//!
//! ```text
//!             save      | meet |        first           |  swap  |        second          | part |
//!  all-gather  in->copy*| all  | gather every input     |  all   |                        | all  |
//!  all-reduce           | have | reduce own shard       | shards | gather the others'     | have |
//!  red.-scat.           | come | reduce own shard       |  are   | copy->out*             | read |
//!                                                       | ready  |                        |      |
//!   * only where input and output overlap
//! ```
//!
//! The bars are barriers. A rank is never ahead of the last barrier that not all have reached, so nobody reads what is not
//! there yet, and no buffer is given back while somebody reads it.
//!
//! Rules:
//! * A shard is reduced by one rank, from rank 0 to the last: every rank gets the same bits, every time.
//! * A rank that is late is waited for, however long; from time to time a step says so ([`Progress::Late`]).
//! * Ranks that meet with different plans all get the same [`CollectiveError::Mismatch`]; nothing has moved.
//! * A rank whose queue refuses before anything moves comes to the meeting all the same, without taking part: it ends with
//!   its own error, the others with [`CollectiveError::Withdrawn`], nothing has moved, and all go on in step.
//! * A plan that was committed and goes unused is a rank that goes away ([`Plan::commit`]).
//! * A rank that fails or goes away ends the communicator: everybody who waits for it gets [`CollectiveError::Lost`].
//!
//! Spec: `c-api.md` section 6.3.
//!
//! ```
//! use std::sync::Arc;
//! use xu_abi::TpbIndex;
//! use xu_device::collectives::{Collective, CollectiveDma, Communicator, Plan, Progress, WARN_AFTER_NS};
//! use xu_device::elementwise::{Dtype, ReduceOp};
//! use xu_device::memory::DeviceMemory;
//! use xu_device::region::Region;
//! use xu_device::simulated::{Machine, MachineConfig};
//! use xu_device::{Device, Place, map};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let device: Arc<dyn Device> = Machine::start(MachineConfig { tpbs: 2, ..MachineConfig::default() })?;
//! let communicator = Communicator::new(2, WARN_AFTER_NS)?;
//! let (mut queues, mut tensors) = (Vec::new(), Vec::new());
//! for rank in 0..2 {
//!     let core = TpbIndex::new(rank);
//!     let tensor = Arc::new(DeviceMemory::allocate(&device, Place::Hbm(core), 4, 64)?);
//!     tensor.write(0, &[1 + rank as u8; 4])?;
//!     let (member, all) = (communicator.join(rank.into())?, [Region::of(&tensor)]);
//!     let sum = Collective::AllReduce(ReduceOp::Add);
//!     let plan = Plan::prepare(&device, &member, sum, Dtype::Uint8, &all, &all, tensor.clone())?;
//!     let mut queue = CollectiveDma::open(&device, map::collectives_queue(core), None)?;
//!     queue.begin(plan)?;
//!     queues.push(queue);
//!     tensors.push(tensor);
//! }
//! // Every worker steps its own queue.
//! let mut done = [false; 2];
//! while done != [true; 2] {
//!     for (queue, done) in queues.iter_mut().zip(&mut done) {
//!         *done = queue.step(0) == Progress::Done;
//!     }
//! }
//! let mut sums = [0; 4];
//! tensors[1].read(0, &mut sums)?;
//! assert_eq!(sums, [3; 4]);
//! # Ok(())
//! # }
//! ```
//!
//! | module | subject |
//! |---|---|
//! | `communicator` | the ranks, their barriers, and what becomes of one that goes |
//! | `plan`, `shards` | a request of one rank, checked; its tensors cut into shards |
//! | `overlaps` | which tensors may have bytes in common |
//! | `agreement` | whether all take part, and whether the plans that have met fit together |
//! | `dma`, `outcome` | the queue that an engine owns and steps; what a step says |
//! | `run` | one rank's way through a collective |

mod agreement;
mod communicator;
mod dma;
mod outcome;
mod overlaps;
mod plan;
mod run;
mod shards;

pub use agreement::{Difference, Mismatch, Withdrawn};
pub use communicator::{
    Communicator, CommunicatorError, Late, Loss, Lost, MAX_RANKS, Rank, WARN_AFTER_NS,
};
pub use dma::{CollectiveDma, Leftover};
pub use outcome::{CollectiveError, Progress};
pub use plan::{Collective, Keep, MAX_TENSORS, Plan, PlanError, UnknownCollective};
