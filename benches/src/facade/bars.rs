//! What we demand of the facade: rates and times against the better of two executors, and limits of what a request may cost.

use super::cells::{BLOCKING, Key, OURS, PEERS, Topic, WATCHING};
use super::costs::Costs;
use crate::session::Measured;
use crate::statistics::{LEAST_SAMPLES, Ratio};
use crate::verdict::{Judged, Verdict};

#[derive(Clone, Copy, Debug)]
struct Bar {
    what: &'static str,
    depth: usize,
    /// Whether rates are compared, which have to be large; else times.
    is_rate: bool,
    gate: f64,
    target: Option<f64>,
}

#[rustfmt::skip]
const BARS: &[Bar] = &[
    Bar { what: "requests/s, depth 8", depth: 8, is_rate: true, gate: 2.0, target: Some(4.0) },
    Bar { what: "requests/s, depth 63", depth: 63, is_rate: true, gate: 2.0, target: Some(4.0) },
    Bar { what: "round trip, depth 1", depth: 1, is_rate: false, gate: 1.0, target: None },
];

/// None at all would be missed by a single sleep in a whole errand.
const NO_CALLS: f64 = 0.01;
/// Nothing in the steady state, but a queue somewhere may grow once.
const NO_ALLOCATIONS: f64 = 0.001;

/// Judges the bars that compare, on either device without latency.
pub(crate) fn judge(cells: &[Measured<Key>]) -> Vec<Judged> {
    let judged = |name, topic| {
        BARS.iter().filter_map(move |bar| {
            let key = Key {
                topic,
                depth: bar.depth,
            };
            let cell = cells.iter().find(|cell| cell.key == key)?;
            Some(judge_one(name, bar, cell))
        })
    };
    judged("F1", Topic::NoLatency)
        .chain(judged("F1, at the look", Topic::AtTheLook))
        .collect()
}

/// Each side on the executor that suits it better.
fn judge_one(name: &'static str, bar: &Bar, cell: &Measured<Key>) -> Judged {
    let ours = cell.best_of(&OURS, false).unwrap_or(OURS[0]);
    let peer = cell.best_of(&PEERS, false).unwrap_or(PEERS[0]);
    let (us, them) = (cell.samples(ours), cell.samples(peer));
    let measured = if bar.is_rate {
        Ratio::of_medians(them, us)
    } else {
        Ratio::of_medians(us, them)
    };
    Judged {
        name,
        what: bar.what,
        ours,
        peer: peer.to_owned(),
        is_rate: bar.is_rate,
        gate: bar.gate,
        target: bar.target,
        measured,
        unit: "x",
        verdict: Verdict::of(
            measured.map(|ratio| ratio.value),
            bar.is_rate,
            bar.gate,
            bar.target,
        ),
    }
}

/// Judges what a request costs. A caller that looks makes no call of its own, so what is counted is the lane's; one that
/// awaits may sleep, which is its executor's call.
pub(crate) fn judge_costs(costs: &Costs) -> Vec<Judged> {
    let calls = [WATCHING, OURS[0]].map(|name| {
        let all = costs.calls_of(name);
        // A median with its interval: a ratio to one.
        let median = Ratio::of_medians(all, &[1.0; LEAST_SAMPLES]);
        limit(
            "C1",
            "system calls for each request, depth 8",
            name,
            median,
            NO_CALLS,
        )
    });
    let allocations = [BLOCKING, OURS[0], OURS[1]].map(|name| {
        let counted = costs.allocations_of(name).map(|value| Ratio {
            value,
            low: value,
            high: value,
        });
        let what = "heap allocations for each request, depth 8";
        limit("C2", what, name, counted, NO_ALLOCATIONS)
    });
    calls.into_iter().chain(allocations).collect()
}

fn limit(
    name: &'static str,
    what: &'static str,
    ours: &'static str,
    measured: Option<Ratio>,
    gate: f64,
) -> Judged {
    Judged {
        name,
        what,
        ours,
        peer: String::new(),
        is_rate: false,
        gate,
        target: None,
        measured,
        unit: "",
        // The upper end: what is counted scatters around the sleeps of executors, and a median at the limit would say nothing.
        verdict: Verdict::of(measured.map(|ratio| ratio.high), false, gate, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facade::cells;
    use crate::session::Row;

    fn measured(depth: usize, rows: &[(&'static str, f64)]) -> Measured<Key> {
        let row = |&(name, ns): &(&'static str, f64)| Row {
            name,
            way: "",
            samples: vec![ns; 9],
        };
        Measured {
            key: Key {
                topic: Topic::NoLatency,
                depth,
            },
            rows: rows.iter().map(row).collect(),
        }
    }

    #[test]
    fn every_bar_compares_candidates_that_exist() {
        let cells = cells::all();
        for bar in BARS {
            let cell = cells
                .iter()
                .find(|cell| cell.key.depth == bar.depth && cell.key.topic == Topic::NoLatency);
            let names: Vec<_> = cell
                .expect("the cell exists")
                .candidates
                .iter()
                .map(|candidate| candidate.name)
                .collect();
            for name in OURS.iter().chain(&PEERS) {
                assert!(names.contains(name), "{bar:?}");
            }
        }
    }

    #[test]
    fn each_side_is_taken_on_its_better_executor() {
        let rows = [
            (OURS[0], 500.0),
            (OURS[1], 400.0),
            (PEERS[0], 1200.0),
            (PEERS[1], 1800.0),
        ];
        let judged = judge(&[measured(8, &rows), measured(1, &rows)]);
        assert_eq!(judged.len(), 2);
        assert_eq!((judged[0].ours, &*judged[0].peer), (OURS[1], PEERS[0]));
        assert_eq!(judged[0].measured.expect("enough samples").value, 3.0);
        assert_eq!(judged[0].verdict, Verdict::GateMet);
        let latency = judged[1].measured.expect("enough samples").value;
        assert!((latency - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!(judged[1].verdict, Verdict::Met);
    }

    #[test]
    fn costs_that_were_not_measured_are_not_met() {
        let judged = judge_costs(&Costs::default());
        assert_eq!(judged.len(), 5);
        let silent = |bar: &Judged| bar.verdict == Verdict::NotMeasured;
        assert!(judged.iter().all(silent));
    }
}
