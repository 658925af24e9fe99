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
//! * A rank that fails or goes away ends the communicator: everybody who waits for it gets [`CollectiveError::Lost`].
//!
//! Spec: `c-api.md` section 6.3.
//!
//! | module | subject |
//! |---|---|
//! | `communicator` | the ranks, their barriers, and what becomes of one that goes |
//! | `plan`, `shards` | a request of one rank, checked; its tensors cut into shards |
//! | `agreement` | whether the plans that have met fit together |
//! | `dma`, `outcome` | the queue that an engine owns and steps; what a step says |
//! | `run` | one rank's way through a collective |

mod agreement;
mod communicator;
mod dma;
mod outcome;
mod plan;
mod run;
mod shards;

pub use agreement::{Difference, Mismatch};
pub use communicator::{
    Communicator, CommunicatorError, Late, Loss, Lost, MAX_RANKS, Rank, WARN_AFTER_NS,
};
pub use dma::{CollectiveDma, Leftover};
pub use outcome::{CollectiveError, Progress};
pub use plan::{Collective, Keep, MAX_TENSORS, Plan, PlanError, UnknownCollective};
