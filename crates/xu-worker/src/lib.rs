//! Eventfds, execution units and the worker thread that serves them.
//!
//! Used by `nrta`, which brings the engines: what a unit does with a request is behind two traits, [`Stage`] on
//! the submitting thread and [`Engine`] on the worker thread, and nothing here knows a device.
//!
//! ```
//! use xu_abi::{Status, XuId, XuType};
//! use xu_worker::{
//!     Cause, Completion, Engine, Notifier, PollPolicy, Progress, Stage, StageError, Unit, WorkerThread, completion,
//! };
//!
//! /// Doubles a number; a real engine would ask a device.
//! struct Doubler;
//! struct Request { number: u32, notifier: Notifier<u32> }
//!
//! impl Stage for Doubler {
//!     type Item = Request;
//!     fn prepare(&mut self, _: &mut Request) -> Result<(), StageError> { Ok(()) }
//!     fn commit(&mut self, _: &mut Request) -> Result<(), StageError> { Ok(()) }
//! }
//! impl Engine for Doubler {
//!     type Item = Request;
//!     type Outcome = u32;
//!     fn begin(&mut self, _: &mut Request) {}
//!     fn progress(&mut self, request: &mut Request) -> Progress {
//!         request.number *= 2;
//!         Progress::Done(Status::SUCCESS)
//!     }
//!     fn quiesce(&mut self) -> Result<(), Cause> { Ok(()) }
//!     fn finish(&mut self, request: Request, _: Status) -> (Notifier<u32>, u32) {
//!         (request.notifier, request.number)
//!     }
//! }
//!
//! let xu = XuId::new(XuType::Compute, 0, 0).expect("exists");
//! let (unit, runner) = Unit::new(xu, 8, Doubler, Doubler)?;
//! let worker = WorkerThread::spawn("doubler", vec![Box::new(runner)], PollPolicy::default())?;
//!
//! let (notifier, completion) = completion();
//! unit.submit(Request { number: 21, notifier }).map_err(|refused| refused.reason)?;
//! assert_eq!(completion.wait()?, 42);
//!
//! unit.close();
//! unit.drain();
//! worker.stop();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ```text
//!  submitting thread                                        worker thread
//!  Unit::submit                                             WorkerThread: epoll over stop + has-work
//!    submit lock: gates -> stage -> ring submit, trigger      UnitRunner::step
//!    write 1 to has-work  ---------- eventfd -------------->    peek -> engine.progress
//!                                                               finish -> read 1 count -> status -> pop
//!  Completion  <------------------- notify ------------------   notify
//! ```
//!
//! | module | subject | spec |
//! |---|---|---|
//! | [`eventfd`] | the two eventfds of a lane, by role | `xu.md` 4 |
//! | [`health`] | healthy, closing, degraded, and why | 4, 2.3 |
//! | [`completion`](mod@completion) | tell one caller | 4, 8.4 |
//! | [`engine`] | the two traits of a kind of work | 4, step and submit funnel |
//! | [`mod@unit`] | gates, locks and order of submission | 4, submit funnel |
//! | [`runner`] | one step of a unit on the worker | 4, step |
//! | [`room`] | wait for a free slot, or for an empty queue | 4, shutdown |
//! | [`policy`] | how eagerly a worker looks at the device | 8.1 |
//! | [`worker`] | the thread and its epoll loop | 4, worker loop |
#![forbid(unsafe_code)]

pub mod completion;
pub mod engine;
pub mod eventfd;
pub mod health;
pub mod policy;
pub mod room;
pub mod runner;
pub mod unit;
mod wake;
pub mod worker;

pub use completion::{Completion, Lost, Notifier, completion};
pub use engine::{Engine, Progress, Stage, StageError};
pub use health::{Cause, Health};
pub use policy::PollPolicy;
pub use runner::{Runner, Step, UnitRunner};
pub use unit::{Refusal, Refused, Unit, UnitError};
pub use worker::WorkerThread;
