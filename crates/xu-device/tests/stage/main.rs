//! The stager against a scripted device: what is written, in which order, and when the doorbell rings.
//!
//! Scripted, since its log has every store in its order, and a test chooses the call that fails: no machine tells either.
//!
//! | module | subject |
//! |---|---|
//! | `support` | a stager, its programs, and a reading of the log |
//! | `order` | arm and fire at the seam, and failing in between |
//! | `request` | what a request says: addresses, flags, slots, indices |
//! | `skip` | what a request lets the sequencer keep |
//! | `chain` | the collectives chain, and the barriers it brings |
//! | `doorbell` | what the device finds when the doorbell rings |
//! | `load` | placing programs and opening queues, whole or not at all |
#![allow(clippy::unwrap_used, reason = "functions of tests")]

mod chain;
mod doorbell;
mod load;
mod order;
mod request;
#[path = "../scripted/mod.rs"]
mod scripted;
mod skip;
mod support;
