//! What we demand of the ring: each bar compares two medians of one run.
//!
//! A gate that is missed is a reason not to merge; a target is what the design should reach.

use crate::cells::{Key, NAIVE, RING, RTRB, SPSC, Topic};
use crate::session::Measured;
use crate::statistics::Ratio;
use crate::verdict::{Judged, Verdict};

/// Whom we compare with.
#[derive(Clone, Copy, Debug)]
enum Peer {
    Named(&'static str),
    /// The best of these in this run.
    BestOf(&'static [&'static str]),
    /// Ourselves, at another capacity.
    OurselvesAt(usize),
}

/// One comparison of a bar.
#[derive(Clone, Copy, Debug)]
struct Bar {
    name: &'static str,
    what: &'static str,
    key: Key,
    ours: &'static str,
    peer: Peer,
    gate: f64,
    target: Option<f64>,
}

const fn key(topic: Topic, bytes: usize, capacity: usize) -> Key {
    Key {
        topic,
        bytes,
        capacity,
    }
}

const RUST_PEERS: &[&str] = &["omango", "oneringbuf", "ringbuf", RTRB];

const fn bar(
    name: &'static str,
    what: &'static str,
    key: Key,
    peer: Peer,
    gate: f64,
    target: f64,
) -> Bar {
    let ours = match key.topic {
        Topic::ThreeStage | Topic::Completion => RING,
        _ => SPSC,
    };
    Bar {
        name,
        what,
        key,
        ours,
        peer,
        gate,
        target: if target == 0.0 { None } else { Some(target) },
    }
}

/// For a bar without a target.
const NONE: f64 = 0.0;

#[rustfmt::skip]
const BARS: &[Bar] = &[
    bar("R1", "item by item, 32 B, capacity 8", key(Topic::OneByOne, 32, 8), Peer::Named(RTRB), 1.3, 1.5),
    bar("R1", "item by item, 32 B, capacity 8", key(Topic::OneByOne, 32, 8), Peer::Named("gil"), 1.1, NONE),
    bar("R2", "item by item, 32 B, capacity 64", key(Topic::OneByOne, 32, 64), Peer::Named(RTRB), 1.3, 2.0),
    bar("R2", "item by item, 32 B, capacity 64", key(Topic::OneByOne, 32, 64), Peer::Named("ringbuf"), 1.1, 1.5),
    bar("R3", "item by item, 32 B, capacity 1000", key(Topic::OneByOne, 32, 1000), Peer::Named(RTRB), 1.05, 1.2),
    bar("R3", "item by item, 32 B, capacity 1000", key(Topic::OneByOne, 32, 1000), Peer::Named("ringbuf"), 1.5, NONE),
    bar("R4", "item by item, 32 B, capacity 4096", key(Topic::OneByOne, 32, 4096), Peer::Named(RTRB), 1.2, 1.6),
    bar("R5", "item by item, 8 B, capacity 64", key(Topic::OneByOne, 8, 64), Peer::BestOf(RUST_PEERS), 1.0, 1.15),
    bar("R5", "item by item, 8 B, capacity 1024", key(Topic::OneByOne, 8, 1024), Peer::BestOf(RUST_PEERS), 1.0, 1.15),
    bar("R6", "capacity 1000 against our own 1024", key(Topic::OneByOne, 32, 1000), Peer::OurselvesAt(1024), 0.90, 0.95),
    bar("R8", "three stages, capacity 64", key(Topic::ThreeStage, 32, 64), Peer::Named(NAIVE), 12.0, 18.0),
    bar("R8", "three stages, capacity 1000", key(Topic::ThreeStage, 32, 1000), Peer::Named(NAIVE), 12.0, 18.0),
    bar("R9", "batches of 16, 32 B, capacity 64", key(Topic::Batches, 32, 64), Peer::Named(RTRB), 1.0, 1.1),
    bar("R9", "batches of 16, 32 B, capacity 64", key(Topic::Batches, 32, 64), Peer::Named("gil"), 1.0, 1.1),
    bar("R9", "batches of 16, 32 B, capacity 1000", key(Topic::Batches, 32, 1000), Peer::Named(RTRB), 1.0, 1.1),
    bar("R9", "batches of 16, 32 B, capacity 1000", key(Topic::Batches, 32, 1000), Peer::Named("gil"), 1.0, 1.1),
    bar("T1", "round trip over two queues", key(Topic::RoundTrip, 32, 64), Peer::Named(RTRB), 0.85, 0.75),
    bar("T2", "one ring, submission to completion seen", key(Topic::Completion, 32, 64), Peer::Named(RTRB), 0.65, 0.5),
    bar("S1", "push and pop on one thread, 32 B", key(Topic::Single, 32, 64), Peer::Named(RTRB), 1.2, 1.0),
    bar("S1", "push and pop on one thread, 8 B", key(Topic::Single, 8, 64), Peer::Named(RTRB), 1.2, 1.0),
];

/// What the control does in a second, in millions, where the bars of R8 come from.
pub(crate) const EXPECTED_CONTROL: [f64; 2] = [6.0, 7.0];

/// What a bar asks for against this peer: its gate, and its target if it has one.
pub(crate) fn demands(name: &str, against: &str) -> Option<(f64, Option<f64>)> {
    let is_meant =
        |bar: &&Bar| bar.name == name && matches!(bar.peer, Peer::Named(peer) if peer == against);
    let bar = BARS.iter().find(is_meant)?;
    Some((bar.gate, bar.target))
}

/// Whether there is such a bar.
pub(crate) fn is_bar(name: &str) -> bool {
    BARS.iter().any(|bar| bar.name == name)
}

/// Whether the bar, or what the report says about its limits, looks at this cell.
pub(crate) fn needs(name: &str, key: Key) -> bool {
    BARS.iter().filter(|bar| bar.name == name).any(|bar| {
        let other = match bar.peer {
            Peer::OurselvesAt(capacity) => Key {
                capacity,
                ..bar.key
            },
            _ => bar.key,
        };
        let has_word = matches!(bar.key.topic, Topic::RoundTrip | Topic::Completion);
        key == bar.key || key == other || (has_word && key.topic == Topic::Word)
    })
}

/// Judges the bars that look at any of these cells.
pub(crate) fn judge(cells: &[Measured]) -> Vec<Judged> {
    BARS.iter()
        .filter_map(|bar| {
            let cell = cells.iter().find(|cell| cell.key == bar.key)?;
            Some(judge_one(bar, cell, cells))
        })
        .collect()
}

fn judge_one(bar: &Bar, cell: &Measured, cells: &[Measured]) -> Judged {
    let (peer, theirs) = match bar.peer {
        Peer::Named(name) => (name.to_owned(), cell.samples(name)),
        Peer::BestOf(names) => match cell.best_of(names, bar.key.topic.is_rate()) {
            Some(name) => (format!("{name}, the best"), cell.samples(name)),
            None => ("the best".to_owned(), &[][..]),
        },
        Peer::OurselvesAt(capacity) => {
            let key = Key {
                capacity,
                ..bar.key
            };
            let other = cells.iter().find(|other| other.key == key);
            let samples = other.map_or(&[][..], |other| other.samples(bar.ours));
            (format!("itself at {capacity}"), samples)
        }
    };
    let is_rate = bar.key.topic.is_rate();
    let ratio = Ratio::of_medians(cell.samples(bar.ours), theirs);
    Judged {
        name: bar.name,
        what: bar.what,
        ours: bar.ours,
        peer,
        is_rate,
        gate: bar.gate,
        target: bar.target,
        measured: ratio,
        unit: "x",
        verdict: Verdict::of(
            ratio.map(|ratio| ratio.value),
            is_rate,
            bar.gate,
            bar.target,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Row;

    fn measured(key: Key, rows: &[(&'static str, f64)]) -> Measured {
        let row = |&(name, value): &(&'static str, f64)| Row {
            name,
            way: "",
            samples: vec![value; 9],
        };
        Measured {
            key,
            rows: rows.iter().map(row).collect(),
        }
    }

    #[test]
    fn a_bar_compares_with_each_of_its_peers() {
        let cell = measured(
            key(Topic::OneByOne, 32, 64),
            &[(SPSC, 150.0), (RTRB, 100.0), ("ringbuf", 150.0)],
        );
        let judged = judge(&[cell]);
        let verdicts: Vec<_> = judged.iter().map(|bar| (bar.name, bar.verdict)).collect();
        assert_eq!(
            verdicts,
            [("R2", Verdict::GateMet), ("R2", Verdict::Missed)]
        );
    }

    #[test]
    fn the_best_peer_is_chosen_from_the_run() {
        let cell = measured(
            key(Topic::OneByOne, 8, 64),
            &[
                (SPSC, 120.0),
                (RTRB, 60.0),
                ("omango", 110.0),
                ("crossbeam-queue", 500.0),
            ],
        );
        let judged = judge(&[cell]);
        assert_eq!(judged[0].peer, "omango, the best");
        assert_eq!(judged[0].verdict, Verdict::GateMet);
    }

    #[test]
    fn a_capacity_is_compared_with_another() {
        let at = |capacity, value| measured(key(Topic::OneByOne, 32, capacity), &[(SPSC, value)]);
        let judged = judge(&[at(1000, 95.0), at(1024, 100.0)]);
        let own = judged
            .iter()
            .find(|bar| bar.name == "R6")
            .expect("is there");
        assert_eq!(own.verdict, Verdict::Met);
        let alone = judge(&[at(1000, 95.0)]);
        let own = alone.iter().find(|bar| bar.name == "R6").expect("is there");
        assert_eq!(own.verdict, Verdict::NotMeasured);
    }

    #[test]
    fn every_bar_looks_at_a_cell_that_exists() {
        let cells = crate::cells::all();
        for bar in BARS {
            assert!(
                cells.iter().any(|cell| needs(bar.name, cell.key)),
                "{}",
                bar.name
            );
            assert!(cells.iter().any(|cell| cell.key == bar.key), "{}", bar.what);
        }
    }
}
