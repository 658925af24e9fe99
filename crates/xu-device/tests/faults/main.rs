//! Faults on purpose: each execution completes once, with the status that the specification predicts.
//!
//! On the simulated machine alone, since it is stepped in virtual time and says which faults it has injected.
//!
//! | file | subject |
//! |---|---|
//! | `plan` | scenarios at random |
//! | `posted` | what a core posts, by the documented meaning of each fault |
//! | `reading` | what the specification's matcher makes of it |
//! | `registers` | what a core says besides records |
//! | `verdict` | which status wins |
//! | `oracle` | all four together: which statuses an execution may have |
//! | `lane` | stager, harvester and programs on a machine in virtual time |
//! | `run` | takes turns between them |
//! | `table` | one test for each row of the tables |
//! | `limit` | the time limit, full rings |
//! | `pairs` | every pair of faults on two cores |
//! | `reopened` | what one life of a unit leaves to the next |
//! | `random` | the property over random scenarios |
#![cfg(feature = "simulated")]
#![expect(
    clippy::unwrap_used,
    reason = "the functions that drive the lane are part of the tests"
)]

mod lane;
mod limit;
mod oracle;
mod pairs;
mod plan;
mod posted;
mod random;
mod reading;
mod registers;
mod reopened;
mod run;
mod table;
mod verdict;
