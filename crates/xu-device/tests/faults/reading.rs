//! What the matcher of `xu.md` section 6 makes of an engine's queue.
//!
//! Records carry no id of their execution, so a queue is one stream over all executions of a core: an execution takes
//! what comes up to an END that fits, and leaves the rest to the next.

use crate::posted::{Record, Run};
use std::collections::VecDeque;
use xu_abi::record::{Custom, Subtype};

/// The queue of one engine: what is left of what was posted.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Queue {
    /// Records of runs before `next_run` that were not read.
    pub(crate) unread: VecDeque<Record>,
    /// The first run whose records are not in `unread` yet.
    pub(crate) next_run: usize,
}

/// Why an execution ends at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// START or END out of order: the overflow cause tells.
    OutOfOrder,
    /// A record that means nothing.
    Unexpected,
    /// A custom record with an unknown sub-id.
    Hardware,
    /// A record that says that others were lost.
    Lost,
}

/// How far an engine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Pending,
    Complete,
    Ended(Verdict),
}

/// What was read of one queue for one execution.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub(crate) state: State,
    /// Whether the records that led to `state` lay in the ring for sure; otherwise it may still be pending.
    pub(crate) sure: bool,
    /// `state` cannot have been reached before, nanoseconds.
    pub(crate) earliest_ns: u64,
    /// What led to `state` lies in the ring after this moment, nanoseconds.
    pub(crate) latest_ns: u64,
    /// The run that the last record belongs to; the next one when there was none.
    pub(crate) run: usize,
    pub(crate) out_of_bounds: bool,
    /// Whether the END that completed it has a true time stamp.
    pub(crate) true_stamp: bool,
    pub(crate) left: Queue,
}

/// Reads `queue` as it may look at `at_ns`, in every way in which the faults may have acted.
pub(crate) fn read(queue: &Queue, runs: &[Run], engine: usize, at_ns: u64) -> Vec<Reading> {
    let begun = Reading {
        state: State::Pending,
        sure: true,
        earliest_ns: 0,
        latest_ns: 0,
        run: queue
            .unread
            .front()
            .map_or(queue.next_run, |record| record.run),
        out_of_bounds: false,
        true_stamp: true,
        left: queue.clone(),
    };
    let mut readings = Vec::new();
    go_on(begun, false, runs, engine, at_ns, &mut readings);
    readings
}

fn go_on(
    mut reading: Reading,
    mut started: bool,
    runs: &[Run],
    engine: usize,
    at_ns: u64,
    readings: &mut Vec<Reading>,
) {
    while let Some(record) = reading.left.unread.front().cloned() {
        if record.earliest_ns > at_ns {
            readings.push(reading);
            return;
        }
        reading.left.unread.pop_front();
        reading.run = record.run;
        reading.earliest_ns = reading.earliest_ns.max(record.earliest_ns);
        let latest_ns = if record.sure {
            runs[record.run].latest_ns
        } else {
            u64::MAX
        };
        reading.latest_ns = reading.latest_ns.max(latest_ns);
        reading.sure &= latest_ns < at_ns;
        reading.state = matched(&record, &mut started, &mut reading.out_of_bounds);
        if reading.state != State::Pending {
            reading.true_stamp = record.true_stamp;
            readings.push(reading);
            return;
        }
    }
    let index = reading.left.next_run;
    let Some(run) = runs.get(index) else {
        readings.push(reading);
        return;
    };
    let lost_before = index > 0 && runs[index - 1].overflows[engine];
    for stream in &run.engines[engine] {
        let mut more = reading.clone();
        more.left.next_run += 1;
        more.left.unread.extend(stream.iter().cloned());
        if let Some(first) = more.left.unread.front_mut() {
            first.lost_before |= lost_before;
        }
        go_on(more, started, runs, engine, at_ns, readings);
    }
}

/// The table of section 6.
fn matched(record: &Record, started: &mut bool, out_of_bounds: &mut bool) -> State {
    if record.lost_before {
        return State::Ended(Verdict::Lost);
    }
    if record.hint > 1 {
        return State::Ended(Verdict::Unexpected);
    }
    match record.subtype {
        Subtype::Start if !*started => {
            *started = true;
            State::Pending
        }
        Subtype::End if *started => State::Complete,
        Subtype::Start | Subtype::End => State::Ended(Verdict::OutOfOrder),
        Subtype::CcStart | Subtype::CcEnd => State::Pending,
        Subtype::Custom => match record.custom {
            Custom::OutOfBounds(_) => {
                *out_of_bounds = true;
                State::Pending
            }
            Custom::DebugValue | Custom::TensorDone | Custom::TensorRead => State::Pending,
            Custom::Unknown(_) => State::Ended(Verdict::Hardware),
        },
        Subtype::Unexpected(_) => State::Ended(Verdict::Unexpected),
    }
}
