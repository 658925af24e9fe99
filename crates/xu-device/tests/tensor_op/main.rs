//! The operations of a DMA queue: what they do on the machine, and how they end when the device fails.
#![allow(clippy::unwrap_used, reason = "functions of tests")]

mod failures;
mod invalid;
mod results;
#[path = "../scripted/mod.rs"]
mod scripted;
