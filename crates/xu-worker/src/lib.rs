//! Eventfds, execution units and the worker thread that serves them.
//!
//! Used by `nrta`, which brings the engines: what a unit does with a request is behind two traits, [`Stage`] on
//! the submitting thread and [`Engine`] on the worker thread, and nothing here knows a device.
//!
//! ```
//! use xu_worker::{
//!     Cause, CloseOptions, Engine, Progress, Stage, StageError, Status, Unit, UnitOptions, WorkerThread, Workers, XuId, XuType,
//! };
//!
//! /// Doubles a number; a real engine would ask a device.
//! struct Doubler;
//!
//! impl Stage for Doubler {
//!     type Item = u32;
//!     type Outcome = u32;
//!     fn prepare(&mut self, _: &mut u32) -> Result<(), StageError> { Ok(()) }
//!     fn commit(&mut self, _: &mut u32) -> Result<(), StageError> { Ok(()) }
//! }
//! impl Engine for Doubler {
//!     type Item = u32;
//!     type Outcome = u32;
//!     fn begin(&mut self, _: &mut u32) {}
//!     fn progress(&mut self, number: &mut u32) -> Progress {
//!         *number *= 2;
//!         Progress::Done(Status::SUCCESS)
//!     }
//!     fn quiesce(&mut self) -> Result<(), Cause> { Ok(()) }
//!     fn finish(&mut self, number: u32, _: Status) -> u32 { number }
//! }
//!
//! let xu = XuId::new(XuType::Compute, 0, 0).expect("exists");
//! let (unit, runner) = Unit::new(xu, &UnitOptions::default(), Doubler, Doubler)?;
//! let workers = Workers::new(vec![WorkerThread::spawn("doubler", vec![Box::new(runner)])?]);
//!
//! let accepted = unit.submit(21)?;
//! assert_eq!(accepted.completion.wait()?, 42);
//! assert_eq!(unit.is_completed(accepted.seq), Ok(true));
//!
//! // Without a future: post, and wait for the last by its number. A full unit gives the request back.
//! let mut last = accepted.seq;
//! for number in 0..100 {
//!     let mut item = number;
//!     last = loop {
//!         match unit.post(item) {
//!             Ok(seq) => break seq,
//!             Err(refused) if refused.is_full() => {
//!                 item = refused.item.expect("a full unit keeps nothing");
//!                 unit.wait_room(None); // or unit.room().await
//!             }
//!             Err(refused) => return Err(refused.into()),
//!         }
//!     };
//! }
//! unit.wait(last, None)?;
//!
//! let closed = workers.close(&[&unit], &CloseOptions::default())?;
//! assert!(closed.not_at_rest.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ```text
//!  submitting thread                                        worker thread
//!  Unit::submit                                             WorkerThread: rounds
//!    submit lock: gates -> stage -> ring submit, trigger      UnitRunner::step
//!    worker asleep? write 1 to has-work -- eventfd -------->    peek -> engine.progress
//!                                                               finish -> write the status -> pop
//!  Completion  <------------------- notify ------------------   notify, if anybody waits
//! ```
//!
//! | module | subject | spec |
//! |---|---|---|
//! | [`eventfd`] | the eventfds of a lane, by role | `xu.md` 4 |
//! | [`completion_pool`] | descriptors to wait on | 4, eventfds |
//! | [`waits`] | wait for a sequence | 4, step |
//! | [`events`] | notify applications | 4, application eventfds |
//! | `source` | the same, in mio's event loop (feature `mio`) | 4 |
//! | `followers` | tasks that follow completions, or the health | 8.4 |
//! | [`health`] | healthy, closing, degraded, and why | 4, 2.3 |
//! | [`completion`](mod@completion), `cell` | tell one caller | 4, 8.4 |
//! | [`engine`] | the two traits of a kind of work | 4, step and submit funnel |
//! | [`mod@unit`], `funnel`, [`refusal`], `work_item` | gates, locks and order of submission | 4, submit funnel |
//! | [`table`], `shared` | units in memory as the ABI lays them out, and the two lookups | 2.3, 2.4 |
//! | [`unstage`] | models that go when the unit has done with them | 4, step |
//! | [`runner`] | one step of a unit on the worker | 4, step |
//! | `need_wake` | whether a submission has to wake the worker | 8.2 |
//! | `on_worker` | whether this thread must not wait | 4 |
//! | [`room`] | wait for a free slot, or for an empty queue | 4, shutdown |
//! | [`policy`], [`pace`] | how eagerly a worker looks at the device | 8.1 |
//! | [`statistics`] | what is counted for those who look | `c-api.md` 15 |
//! | [`shutdown`] | close, drain, stop, join | 4, shutdown |
//! | [`worker`], [`rounds`], `poller` | the thread, its loop, and epoll | 4, worker loop |
//! | [`fork`], [`here_only`] | leave everything alone in a forked child | 4, fork |
#![deny(unsafe_code)]

mod cell;
pub mod completion;
pub mod completion_pool;
pub mod engine;
pub mod eventfd;
pub mod events;
mod followers;
pub mod fork;
mod funnel;
pub mod health;
pub mod here_only;
pub mod limits;
#[cfg(loom)]
pub mod mutant;
#[cfg(not(loom))]
mod mutant;
mod need_wake;
mod on_worker;
pub mod pace;
pub mod policy;
#[cfg(not(any(loom, miri)))]
mod poller;
pub mod refusal;
pub mod room;
pub mod rounds;
pub mod runner;
mod shared;
#[cfg(not(any(loom, miri)))]
pub mod shutdown;
#[cfg(all(feature = "mio", not(any(loom, miri))))]
pub mod source;
mod spin;
pub mod statistics;
mod sync;
pub mod table;
pub mod trace;
pub mod unit;
pub mod unstage;
pub mod waits;
mod wake;
mod work_item;
#[cfg(not(any(loom, miri)))]
pub mod worker;

pub use completion::{Completion, Lost, Notifier, SKIPPED, Skip, completion};
pub use engine::{Description, Engine, Progress, Stage, StageError};
pub use eventfd::{AppEvent, CompletionEvent, EventId, NotAnEventFd, NotDelivered};
pub use events::Registered;
pub use followers::Follower;
pub use health::{Cause, Health};
pub use on_worker::is_worker_thread;
pub use policy::PollPolicy;
pub use refusal::{Refusal, Refused, RefusedBatch};
pub use room::Ticket;
pub use runner::{Runner, Step, UnitRunner};
pub use shared::Table;
#[cfg(not(any(loom, miri)))]
pub use shutdown::{CloseError, CloseOptions, Closed, Closing, Report, Workers};
pub use statistics::Latencies;
pub use unit::{
    Accepted, AskError, Batch, InFlight, Place, QueueSnapshot, Reservation, ReserveFuture,
    RoomFuture, Unit, UnitError, UnitHandle, UnitOptions,
};
pub use waits::Waited;
#[cfg(not(any(loom, miri)))]
pub use worker::{WorkerError, WorkerThread};

pub use xu_abi::{SeqId, Status, XuId, XuType};
pub use xu_ring::queue::NeverIssued;
