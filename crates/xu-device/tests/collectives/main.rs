//! Collectives on a device that fails at a chosen call: what a plan reserves, and what the other ranks learn.
//!
//! Their results, who waits for whom, and what a lost rank does to the others is tested on both machines in `tests/tests/device`.
#![allow(clippy::unwrap_used, reason = "functions of tests")]

mod losing;
mod plans;
mod refusing;
#[path = "../scripted/mod.rs"]
mod scripted;
mod support;
