//! The simulated machine, driven through [`Device`](xu_device::Device) alone by a client that writes its own
//! bytes.
//!
//! Programs are assembled by hand, descriptors are written one by one, and records are read by their phase
//! bit, so that a mistake in the stager or in the harvester cannot hide a mistake in the machine.
//!
//! What a client finds on any device, executions, transfers and wrong programs, is tested on both machines in `tests/tests/device`, with
//! the same client. Here is what only this machine has: a plan of faults, seeds, a clock that the test turns, ports.
//!
//! | module | subject |
//! |---|---|
//! | `client` | the client |
//! | `support` | machines |
//! | `execution` | the order of what nothing else puts in order |
//! | `notification` | notification rings that overflow |
//! | `hostile` | arguments out of range |
//! | `plan_records`, `plan_calls` | every fault of the plan: what it does to records, to calls and to the core |
//! | `plan_data` | the plan as data: round trips, refusals, when rules apply |
//! | `collectives` | cores that wait for each other |
//! | `stepping` | virtual time |
//! | `ports` | the machine as a driver sees it |
//! | `foreign` | a machine over memory that the test keeps |
#![cfg(feature = "simulated")]
#![expect(
    clippy::unwrap_used,
    reason = "the client's functions are part of the tests"
)]

mod client;
mod collectives;
mod execution;
mod foreign;
mod hostile;
mod notification;
mod plan_calls;
mod plan_data;
mod plan_records;
mod ports;
mod stepping;
mod support;
