//! What we demand of the worker: comparisons of two medians of one run, and limits of what a request may cost.

use super::cells::{
    BUSY, CROSSING, CURRENT_THREAD, DEFAULT, DEFAULT_CURSOR, ECHO, Key, MULTI_THREAD, NOPS, RING,
    RTRB, Topic,
};
use super::costs::Costs;
use crate::lane::Policy;
use crate::session::Measured;
use crate::statistics::Ratio;
use crate::verdict::{Judged, Verdict};

/// What is compared.
#[derive(Clone, Copy, Debug)]
enum As {
    /// Our time over theirs: small is good.
    Time,
    /// Our requests in a second over theirs: large is good.
    Rate,
}

#[derive(Clone, Copy, Debug)]
struct Bar {
    name: &'static str,
    what: &'static str,
    key: Key,
    ours: &'static str,
    peer: &'static str,
    compared: As,
    gate: f64,
    target: Option<f64>,
}

const fn key(topic: Topic, depth: usize) -> Key {
    Key { topic, depth }
}

const ASLEEP: Key = key(Topic::Asleep, 1);
const ONE_CORE: Key = key(Topic::OneCore, 1);

const fn at(depth: usize) -> Key {
    key(Topic::TwoCores, depth)
}

#[rustfmt::skip]
const fn bar(
    name: &'static str, what: &'static str, key: Key, ours: &'static str, peer: &'static str,
    compared: As, (gate, target): (f64, Option<f64>),
) -> Bar {
    Bar { name, what, key, ours, peer, compared, gate, target }
}

#[rustfmt::skip]
const BARS: &[Bar] = &[
    bar("W1", "worker asleep, round trip, two cores", ASLEEP, DEFAULT, ECHO, As::Time, (1.15, Some(1.05))),
    bar("W4", "round trip, two cores", at(1), DEFAULT, CROSSING, As::Time, (0.75, Some(0.5))),
    bar("W4", "round trip, two cores", at(1), DEFAULT, MULTI_THREAD, As::Time, (0.75, Some(0.5))),
    bar("W4", "round trip, two cores", at(1), DEFAULT, NOPS, As::Time, (1.0, Some(0.65))),
    bar("W4", "round trip, two cores", at(1), DEFAULT_CURSOR, CROSSING, As::Time, (0.75, Some(0.5))),
    bar("W4", "round trip, two cores", at(1), DEFAULT_CURSOR, MULTI_THREAD, As::Time, (0.75, Some(0.5))),
    bar("W4", "round trip, two cores", at(1), DEFAULT_CURSOR, NOPS, As::Time, (1.0, Some(0.65))),
    bar("W5", "round trip, one core", ONE_CORE, DEFAULT, ECHO, As::Time, (1.6, Some(1.2))),
    bar("Busy", "round trip, two cores", at(1), BUSY, RING, As::Time, (1.5, None)),
    bar("Q2", "requests/s, depth 8", at(8), DEFAULT, CURRENT_THREAD, As::Rate, (3.0, Some(4.0))),
    bar("Q2", "requests/s, depth 8", at(8), DEFAULT, CROSSING, As::Rate, (3.0, Some(4.0))),
    bar("Q2", "requests/s, depth 8", at(8), DEFAULT, NOPS, As::Rate, (1.1, Some(1.4))),
    bar("Q2", "requests/s, depth 8", at(8), DEFAULT_CURSOR, CURRENT_THREAD, As::Rate, (3.0, Some(4.0))),
    bar("Q2", "requests/s, depth 8", at(8), DEFAULT_CURSOR, CROSSING, As::Rate, (3.0, Some(4.0))),
    bar("Q2", "requests/s, depth 8", at(8), DEFAULT_CURSOR, NOPS, As::Rate, (1.1, Some(1.4))),
    bar("Q4", "requests/s, depth 63", at(63), DEFAULT, CURRENT_THREAD, As::Rate, (4.0, Some(10.0))),
    bar("Q4", "requests/s, depth 63", at(63), DEFAULT, CROSSING, As::Rate, (4.0, Some(10.0))),
    bar("Q4", "requests/s, depth 63", at(63), DEFAULT, NOPS, As::Rate, (1.5, Some(4.0))),
    bar("Q4", "requests/s, depth 63", at(63), DEFAULT_CURSOR, CURRENT_THREAD, As::Rate, (4.0, Some(10.0))),
    bar("Q4", "requests/s, depth 63", at(63), DEFAULT_CURSOR, CROSSING, As::Rate, (4.0, Some(10.0))),
    bar("Q4", "requests/s, depth 63", at(63), DEFAULT_CURSOR, NOPS, As::Rate, (1.5, Some(4.0))),
    bar("T4", "requests/s, depth 1", at(1), RING, RTRB, As::Rate, (1.5, Some(1.9))),
    bar("T4", "requests/s, depth 8", at(8), RING, RTRB, As::Rate, (1.6, Some(2.2))),
    bar("T4", "requests/s, depth 63", at(63), RING, RTRB, As::Rate, (2.3, Some(3.5))),
];

/// None at all would be missed by a single sleep in a whole errand.
const NO_CALLS: f64 = 0.01;
/// Nothing in the steady state, but a queue somewhere may grow once.
const NO_ALLOCATIONS: f64 = 0.001;

/// Judges the bars that compare.
pub(crate) fn judge(cells: &[Measured<Key>]) -> Vec<Judged> {
    BARS.iter()
        .filter_map(|bar| {
            let cell = cells.iter().find(|cell| cell.key == bar.key)?;
            Some(judge_one(bar, cell))
        })
        .collect()
}

fn judge_one(bar: &Bar, cell: &Measured<Key>) -> Judged {
    let (ours, theirs) = (cell.samples(bar.ours), cell.samples(bar.peer));
    let (measured, is_rate) = match bar.compared {
        As::Time => (Ratio::of_medians(ours, theirs), false),
        As::Rate => (Ratio::of_medians(theirs, ours), true),
    };
    Judged {
        name: bar.name,
        what: bar.what,
        ours: bar.ours,
        peer: bar.peer.to_owned(),
        is_rate,
        gate: bar.gate,
        target: bar.target,
        measured,
        unit: "x",
        verdict: Verdict::of(
            measured.map(|ratio| ratio.value),
            is_rate,
            bar.gate,
            bar.target,
        ),
    }
}

/// Judges what a request costs with the default policy.
pub(crate) fn judge_costs(costs: &Costs) -> Vec<Judged> {
    let mut judged = Vec::new();
    for (way, ours) in [("completions", DEFAULT), ("cursor", DEFAULT_CURSOR)] {
        let all = costs.calls_of(Policy::DEFAULT, way);
        let what = "system calls for each request, depth 8";
        judged.push(limit("C1", what, ours, median(all), NO_CALLS, None, ""));
    }
    for (way, ours) in [("completions", DEFAULT), ("cursor", DEFAULT_CURSOR)] {
        let taken = costs.allocations_of(Policy::DEFAULT, way).map(exactly);
        let what = "heap allocations for each request, depth 8";
        judged.push(limit("C2", what, ours, taken, NO_ALLOCATIONS, None, ""));
    }
    let waiting = costs.waiting_of(Policy::DEFAULT);
    let share = waiting.and_then(|waiting| median(&waiting.share));
    let late = waiting.and_then(|waiting| median(&waiting.watched));
    let what = "worker's part of a processor while requests of 10 ms run";
    judged.push(limit("C3", what, DEFAULT, share, 5.0, Some(2.0), " %"));
    let what = "completion later than due, requests of 10 ms";
    judged.push(limit("C3", what, DEFAULT, late, 60.0, Some(20.0), " µs"));
    judged
}

fn limit(
    name: &'static str,
    what: &'static str,
    ours: &'static str,
    measured: Option<Ratio>,
    gate: f64,
    target: Option<f64>,
    unit: &'static str,
) -> Judged {
    let value = measured.map(|measured| measured.value);
    Judged {
        name,
        what,
        ours,
        peer: String::new(),
        is_rate: false,
        gate,
        target,
        measured,
        unit,
        verdict: Verdict::of(value, false, gate, target),
    }
}

/// A median with its interval: a ratio to one.
fn median(samples: &[f64]) -> Option<Ratio> {
    Ratio::of_medians(samples, &[1.0; crate::statistics::LEAST_SAMPLES])
}

/// Counted and not sampled.
fn exactly(value: f64) -> Ratio {
    Ratio {
        value,
        low: value,
        high: value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Row;
    use crate::worker::cells;

    fn measured(key: Key, rows: &[(&'static str, f64)]) -> Measured<Key> {
        let row = |&(name, ns): &(&'static str, f64)| Row {
            name,
            way: "",
            samples: vec![ns; 9],
        };
        Measured {
            key,
            rows: rows.iter().map(row).collect(),
        }
    }

    #[test]
    fn every_bar_compares_candidates_that_exist() {
        let cells = cells::all();
        for bar in BARS {
            let cell = cells.iter().find(|cell| cell.key == bar.key);
            let names: Vec<_> = cell
                .expect("the cell exists")
                .candidates
                .iter()
                .map(|candidate| candidate.name)
                .collect();
            assert!(names.contains(&bar.ours), "{bar:?}");
            assert!(names.contains(&bar.peer), "{bar:?}");
        }
    }

    #[test]
    fn times_and_rates_are_ratios_of_the_right_way_round() {
        let slept = measured(ASLEEP, &[(DEFAULT, 110.0), (ECHO, 100.0)]);
        let judged = judge(&[slept]);
        assert_eq!(judged.len(), 1);
        assert_eq!(judged[0].verdict, Verdict::GateMet);
        let ring = measured(at(8), &[(RING, 50.0), (RTRB, 100.0)]);
        let judged = judge(&[ring]);
        let t4 = judged
            .iter()
            .find(|bar| bar.name == "T4")
            .expect("is there");
        assert_eq!(t4.measured.expect("enough samples").value, 2.0);
        assert_eq!(t4.verdict, Verdict::GateMet);
    }

    #[test]
    fn costs_that_were_not_measured_are_not_met() {
        let judged = judge_costs(&Costs::default());
        assert_eq!(judged.len(), 6);
        let silent = |bar: &Judged| bar.verdict == Verdict::NotMeasured;
        assert!(judged.iter().all(silent));
    }
}
