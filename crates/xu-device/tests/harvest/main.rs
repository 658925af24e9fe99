//! The harvester against a scripted device: every row of the matcher table of spec `xu.md` section 6, the
//! barrier, the deadline, the error ring, and which execution a record belongs to.
//!
//! Scripted, since a test posts the records, wrong ones and late ones too, that no machine would.
//! Time is an argument of every step, so nothing here waits.
//!
//! | module | subject |
//! |---|---|
//! | `support` | a harvester, its device, and the records that are posted |
//! | `matcher` | the table: subtypes, states, sub-ids, debug hints |
//! | `table` | the pure functions over all of their inputs |
//! | `barrier` | the collectives barrier |
//! | `deadline` | deadline, when the overflow bit is looked at |
//! | `late` | what comes after a fault |
//! | `errors` | the error ring, and failing reads |
//! | `memory_errors` | the counters of memory errors |
//! | `attribution` | order, several executions, two cores, what comes late |
//! | `times` | stamps, clocks, the response area |
//! | `observer` | what is told on the side |
//! | `random` | random interleavings, and any bytes taken for a device |
//! | `hostile` | what must hold of any bytes; the fuzz targets call it, too |
#![allow(clippy::unwrap_used, reason = "functions of tests")]

mod attribution;
mod barrier;
mod deadline;
mod errors;
mod hostile;
mod late;
mod matcher;
mod memory_errors;
mod observer;
mod random;
#[path = "../scripted/mod.rs"]
mod scripted;
mod support;
mod table;
mod times;
