//! What a core says besides its records: the overflow cause, memory-error counters, the request queue. None of them says
//! which execution it is about.

use crate::posted::{Certainty, MemoryError, Run};
use crate::reading::{Reading, State};
use crate::verdict::{self, Allowed, Found};

/// What the probe of a core's overflow cause says.
pub(crate) fn overflow_or(otherwise: i32, runs: &[Run], at_ns: u64) -> Allowed {
    let mut latched = runs
        .iter()
        .filter(|run| run.latches && run.begins_earliest_ns <= at_ns)
        .peekable();
    if latched.peek().is_none() {
        Allowed::from([otherwise])
    } else if latched.any(|run| run.latest_ns < at_ns) {
        Allowed::from([verdict::OVERFLOW])
    } else {
        Allowed::from([verdict::OVERFLOW, otherwise])
    }
}

/// Counters and the request queue of a core, which do not say whose they are.
pub(crate) fn look_behind(
    behind: &mut Found,
    runs: &[Run],
    readings: &[Reading],
    complete: bool,
    at_ns: u64,
) {
    let current = readings
        .iter()
        .map(|reading| reading.run)
        .min()
        .unwrap_or(0);
    let is_read =
        |reading: &&Reading| reading.state != State::Pending && (complete || reading.sure);
    let last_read = readings.iter().filter(is_read).map(|reading| reading.run);
    let last_read = last_read.max();
    for (index, run) in runs.iter().enumerate() {
        let sure = if index <= current {
            Certainty::Certain
        } else {
            Certainty::Possible
        };
        // A queue aborts before the records that are due all the same.
        if run.aborts && last_read.is_some_and(|last| index <= last) {
            behind.certain.insert(verdict::DMA_ABORT);
        }
        let aborted = run.aborts.then_some(verdict::DMA_ABORT);
        add(behind, aborted, sure, runs, index, at_ns);
        for (error, certainty) in &run.counted {
            let status = match error {
                MemoryError::Sram => verdict::ECC,
                MemoryError::Hbm => verdict::HBM,
                MemoryError::Repairable => verdict::REPAIRABLE,
            };
            let sure = if *certainty == Certainty::Certain {
                sure
            } else {
                *certainty
            };
            add(behind, Some(status), sure, runs, index, at_ns);
        }
    }
}

/// Adds what happens during `run`, as surely as it has happened by `at_ns`.
pub(crate) fn add(
    found: &mut Found,
    status: Option<i32>,
    sure: Certainty,
    runs: &[Run],
    run: usize,
    at_ns: u64,
) {
    if sure == Certainty::Certain && runs[run].latest_ns < at_ns {
        found.certain.extend(status);
    } else if runs[run].begins_earliest_ns <= at_ns {
        found.possible.extend(status);
    }
}
