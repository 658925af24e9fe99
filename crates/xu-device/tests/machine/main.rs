//! The simulated machine, driven through [`Device`](xu_device::Device) alone by a client that writes its own
//! bytes.
//!
//! Programs are assembled by hand, descriptors are written one by one, and records are read by their phase
//! bit, so that a mistake in the stager or in the harvester cannot hide a mistake in the machine.
//!
//! | module | subject |
//! |---|---|
//! | `support` | the client |
//! | `execution` | what executions compute, and their order |
//! | `hanging` | executions that do not end by themselves |
//! | `dma` | transfer queues |
//! | `notification` | notification rings |
//! | `faults` | wrong requests and wrong programs |
//! | `hostile` | arguments out of range, random bytes |
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

mod collectives;
mod dma;
mod execution;
mod faults;
mod foreign;
mod hanging;
mod hostile;
mod notification;
mod plan_calls;
mod plan_data;
mod plan_records;
mod ports;
mod stepping;
mod support;
