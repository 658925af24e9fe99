//! The calls of the backend for real hardware, against a kernel that follows a script: what is asked, in which order, and
//! what is never asked.
#![cfg(feature = "real-driver")]
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests may panic as tests may"
)]

mod chunks;
mod claims;
mod cores;
#[path = "../counting/mod.rs"]
mod counting;
mod datastore;
mod device;
mod device_memory;
mod guards;
mod laps;
mod nodes;
mod processes;
mod queues;
mod registers;
mod script;
mod submit;
mod system;
mod together;
