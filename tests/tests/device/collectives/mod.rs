//! Collectives: their results against a naive reference, who waits for whom, and what a lost rank does to the others.
//!
//! What takes a device that fails at a chosen call is in the tests of xu-device, which have the ranks in common with these.

mod losing;
mod plans;
mod racing;
mod results;
#[path = "../../../../crates/xu-device/tests/collectives/support.rs"]
mod support;
mod waiting;
