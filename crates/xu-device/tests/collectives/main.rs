//! Collectives: their results against a naive reference, who waits for whom, and what a lost rank does to the others.
#![allow(clippy::unwrap_used, reason = "functions of tests")]

mod losing;
mod plans;
mod racing;
mod refusing;
mod results;
#[path = "../scripted/mod.rs"]
mod scripted;
mod support;
mod waiting;
