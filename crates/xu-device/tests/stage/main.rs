//! The stager against a scripted device: what is written, in which order, and when the doorbell rings.
//!
//! | module | subject |
//! |---|---|
//! | `support` | a stager, its programs, and a reading of the log |
//! | `order` | arm and fire at the seam, and failing in between |
//! | `request` | what a request says: addresses, flags, slots, indices |
#![allow(clippy::unwrap_used, reason = "functions of tests")]

mod order;
mod request;
#[path = "../scripted/mod.rs"]
mod scripted;
mod support;
