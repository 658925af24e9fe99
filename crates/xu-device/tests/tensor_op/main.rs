//! The operations of a DMA queue: what is refused, and how they end when the device fails.
//!
//! They stand on a scripted device, of which a test chooses the call that fails and the moment at which a chunk arrives; what operations
//! do is tested on both machines in `tests/tests/device`.
#![allow(clippy::unwrap_used, reason = "functions of tests")]

mod failures;
mod invalid;
#[path = "../scripted/mod.rs"]
mod scripted;
