//! The harvester against a scripted device: every row of the matcher table of spec `xu.md` section 6, the
//! barrier, the deadline, the error ring, and which execution a record belongs to.
//!
//! Time is an argument of every step, so nothing here waits.
//!
//! | module | subject |
//! |---|---|
//! | `support` | a harvester, its device, and the records that are posted |
//! | `matcher` | the table: subtypes, states, sub-ids, debug hints |
//! | `deadline` | barrier, deadline, when the overflow bit is looked at |
//! | `errors` | the error ring, and failing reads |
//! | `attribution` | order, several executions, two cores, times |
//! | `random` | random records and random interleavings |
#![allow(clippy::unwrap_used, reason = "functions of tests")]

mod attribution;
mod deadline;
mod errors;
mod matcher;
mod random;
#[path = "../scripted/mod.rs"]
mod scripted;
mod support;
