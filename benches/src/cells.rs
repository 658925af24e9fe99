//! All that can be measured: a cell is one workload at one item size and capacity, with every candidate that can do it.
//!
//! Called by the session, which samples cells, and by the reports, which print them.

use std::fmt;
use std::ops::RangeInclusive;

use crate::candidates::crossbeam::Crossbeam;
use crate::candidates::disruptor::Disruptor;
use crate::candidates::gil::{self, Gil};
use crate::candidates::naive::Naive;
use crate::candidates::omango::Omango;
use crate::candidates::oneringbuf::Oneringbuf;
use crate::candidates::ringbuf::{self, Ringbuf};
use crate::candidates::rtrb::{self, Rtrb};
use crate::candidates::spsc::{self, Spsc};
use crate::candidates::variants::{self, Cursors, Parking, Sequence, State};
use crate::candidates::{Eager, Hinted};
use crate::cell::{self, Candidate, Lengths, Question};
use crate::item::Item;
use crate::workload::Measure;
use crate::workload::round_trip::over_two;
use crate::workload::single::push_and_pop;
use crate::workload::three_stage::{Ours, throughput, to_completion};
use crate::workload::throughput::{in_batches, one_by_one};
use crate::workload::word::{one_line, one_line_in_turn, two_lines, two_lines_in_turn};

/// Our queue.
pub(crate) const SPSC: &str = "xu_ring::spsc";
/// Our ring.
pub(crate) const RING: &str = "xu_ring::queue";
/// The control.
pub(crate) const NAIVE: &str = "naive control";
/// The peer that is measured twice, and its other name.
pub(crate) const RTRB: &str = "rtrb";
pub(crate) const TWIN: &str = "rtrb again";

/// A bare word there and back. The name says how a thread waits: here it is no choice of a queue's, but what is measured.
pub(crate) const ONE_LINE: [&str; 4] = [
    "one line",
    "one line, `spin_loop`",
    "one line, the next of 64",
    "one line, the next of 64, `spin_loop`",
];
pub(crate) const TWO_LINES: [&str; 4] = [
    "two lines",
    "two lines, `spin_loop`",
    "two lines, the next of 64",
    "two lines, the next of 64, `spin_loop`",
];

const CAPACITIES: [usize; 6] = [8, 64, 1000, 1024, 4096, 65_536];
const BATCH_CAPACITIES: [usize; 3] = [64, 1000, 4096];
const THREE_STAGE_CAPACITIES: [usize; 3] = [63, 64, 1000];
const CHOICE_CAPACITIES: [usize; 3] = [8, 64, 1000];
/// Where the capacity does not matter.
const CAPACITY: usize = 64;

/// What a cell measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topic {
    OneByOne,
    Batches,
    RoundTrip,
    Completion,
    ThreeStage,
    Single,
    Choices,
    ChoicesTrip,
    Word,
}

impl Topic {
    pub(crate) const ALL: [Self; 9] = [
        Self::OneByOne,
        Self::Batches,
        Self::RoundTrip,
        Self::Completion,
        Self::ThreeStage,
        Self::Single,
        Self::Choices,
        Self::ChoicesTrip,
        Self::Word,
    ];

    /// Whether we are compared with others, and not with ourselves or with the machine.
    pub(crate) const fn has_peers(self) -> bool {
        !matches!(self, Self::Choices | Self::ChoicesTrip | Self::Word)
    }

    /// As `--only` takes it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::OneByOne => "one-by-one",
            Self::Batches => "batches",
            Self::RoundTrip => "round-trip",
            Self::Completion => "completion",
            Self::ThreeStage => "three-stage",
            Self::Single => "single",
            Self::Choices => "choices",
            Self::ChoicesTrip => "choices-round-trip",
            Self::Word => "word",
        }
    }

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::OneByOne => "Throughput, item by item",
            Self::Batches => "Throughput in batches of 16",
            Self::RoundTrip => "Round trip over two queues",
            Self::Completion => "From submission to the completion seen",
            Self::ThreeStage => "Throughput through three stages: submit, trigger, pop",
            Self::Single => "Push and pop on one thread",
            Self::Choices => "What each choice is worth",
            Self::ChoicesTrip => "What each choice is worth: round trip",
            Self::Word => "A bare word there and back",
        }
    }

    /// Whether more is better: items per second, and not nanoseconds.
    pub(crate) const fn is_rate(self) -> bool {
        matches!(
            self,
            Self::OneByOne | Self::Batches | Self::ThreeStage | Self::Choices
        )
    }

    pub(crate) const fn unit(self) -> &'static str {
        if self.is_rate() { "M items/s" } else { "ns" }
    }

    /// A time per item in the unit of the topic.
    pub(crate) fn value(self, ns: f64) -> f64 {
        if self.is_rate() { 1000.0 / ns } else { ns }
    }
}

/// Which cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) topic: Topic,
    pub(crate) bytes: usize,
    pub(crate) capacity: usize,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, {} B, capacity {}",
            self.topic.name(),
            self.bytes,
            self.capacity
        )
    }
}

/// Blocks of the samples that find out how many blocks a sample has.
const TRIAL_BLOCKS: usize = 600;
const BLOCKS: RangeInclusive<usize> = 400..=60_000;

impl Question for Key {
    fn is_rate(self) -> bool {
        self.topic.is_rate()
    }

    fn value(self, ns: f64) -> f64 {
        self.topic.value(ns)
    }

    fn size(self) -> usize {
        self.capacity
    }

    fn lengths(self) -> Lengths {
        // So many laps of the largest queues that it does not matter whether they end full or empty.
        let least = self.capacity.div_ceil(64) * 16;
        let (start, end) = (*BLOCKS.start(), *BLOCKS.end());
        Lengths {
            trial: TRIAL_BLOCKS,
            blocks: start.max(least)..=end.max(least),
        }
    }
}

/// One cell of this report.
pub(crate) type Cell = cell::Cell<Key>;

/// Every cell, in the order of the report.
pub(crate) fn all() -> Vec<Cell> {
    let mut cells = Vec::new();
    for capacity in CAPACITIES {
        cells.push(cell::<[u64; 4]>(Topic::OneByOne, capacity));
    }
    for capacity in CAPACITIES {
        cells.push(cell::<u64>(Topic::OneByOne, capacity));
    }
    for capacity in BATCH_CAPACITIES {
        cells.push(cell::<[u64; 4]>(Topic::Batches, capacity));
    }
    for capacity in BATCH_CAPACITIES {
        cells.push(cell::<u64>(Topic::Batches, capacity));
    }
    cells.push(cell::<[u64; 4]>(Topic::RoundTrip, CAPACITY));
    cells.push(cell::<[u64; 4]>(Topic::Completion, CAPACITY));
    for capacity in THREE_STAGE_CAPACITIES {
        cells.push(cell::<[u64; 4]>(Topic::ThreeStage, capacity));
    }
    cells.push(cell::<[u64; 4]>(Topic::Single, CAPACITY));
    cells.push(cell::<u64>(Topic::Single, CAPACITY));
    for capacity in CHOICE_CAPACITIES {
        cells.push(cell::<[u64; 4]>(Topic::Choices, capacity));
    }
    cells.push(cell::<u64>(Topic::Choices, CAPACITY));
    cells.push(cell::<[u64; 4]>(Topic::ChoicesTrip, CAPACITY));
    cells.push(cell::<u64>(Topic::Word, 1));
    cells
}

fn cell<T: Item>(topic: Topic, capacity: usize) -> Cell {
    let mut candidates: Vec<Candidate> = match topic {
        Topic::OneByOne => one_by_one_candidates::<T>(),
        Topic::Batches => batch_candidates::<T>(),
        Topic::RoundTrip => round_trip_candidates::<T>(),
        Topic::Completion => completion_candidates::<T>(),
        Topic::ThreeStage => three_stage_candidates::<T>(),
        Topic::Single => single_candidates::<T>(),
        Topic::Choices => choice_candidates::<T>(),
        Topic::ChoicesTrip => choice_trip_candidates::<T>(),
        Topic::Word => word_candidates(),
    };
    candidates.retain(|candidate| match candidate.name {
        // Its sizes are powers of two.
        "disruptor" => capacity.is_power_of_two(),
        // So slow that the laps of a large queue would take half a second.
        "crossbeam-queue" => capacity < 65_536,
        name => variants::differs::<T>(name, capacity),
    });
    Cell {
        key: Key {
            topic,
            bytes: size_of::<T>(),
            capacity,
        },
        candidates,
    }
}

/// A queue in each of its ways, and each of them waiting in both.
macro_rules! ways {
    ($name:expr, $workload:ident, $item:ty: $($way:literal $queue:ty),+) => {
        [$(
            Candidate {
                name: $name,
                way: concat!($way, "eager"),
                measure: $workload::<$queue, $item, Eager>,
            },
            Candidate {
                name: $name,
                way: concat!($way, "hinted"),
                measure: $workload::<$queue, $item, Hinted>,
            },
        )+]
    };
}

fn one_by_one_candidates<T: Item>() -> Vec<Candidate> {
    [
        &ways!(SPSC, one_by_one, T: "" Spsc)[..],
        &ways!(RTRB, one_by_one, T: "" Rtrb),
        &ways!(TWIN, one_by_one, T: "" Rtrb),
        &ways!("ringbuf", one_by_one, T: "" Ringbuf),
        &ways!("gil", one_by_one, T: "" Gil),
        &gil_itself(one_by_one::<gil::OwnWait, T, Eager>),
        &ways!("oneringbuf", one_by_one, T: "" Oneringbuf),
        &ways!("omango", one_by_one, T: "" Omango),
        &ways!("disruptor", one_by_one, T: "" Disruptor),
        &ways!("crossbeam-queue", one_by_one, T: "" Crossbeam),
    ]
    .concat()
}

fn batch_candidates<T: Item>() -> Vec<Candidate> {
    [
        &ways!(SPSC, in_batches, T: "slices, " Spsc, "iterators, " spsc::Iterators)[..],
        &ways!(RTRB, in_batches, T: "chunks, " Rtrb, "slices, " rtrb::Slices),
        &ways!(TWIN, in_batches, T: "chunks, " Rtrb, "slices, " rtrb::Slices),
        &ways!("ringbuf", in_batches, T: "slices, " Ringbuf, "in place, " ringbuf::InPlace),
        &ways!("gil", in_batches, T: "" Gil),
        &ways!("oneringbuf", in_batches, T: "" Oneringbuf),
        &ways!("disruptor", in_batches, T: "" Disruptor),
    ]
    .concat()
}

fn round_trip_candidates<T: Item>() -> Vec<Candidate> {
    [
        &ways!(SPSC, over_two, T: "" Spsc)[..],
        &ways!(RTRB, over_two, T: "" Rtrb),
        &ways!(TWIN, over_two, T: "" Rtrb),
        &ways!("ringbuf", over_two, T: "" Ringbuf),
        &ways!("gil", over_two, T: "" Gil),
        &gil_itself(over_two::<gil::OwnWait, T, Eager>),
        &ways!("oneringbuf", over_two, T: "" Oneringbuf),
        &ways!("omango", over_two, T: "" Omango),
        &ways!("disruptor", over_two, T: "" Disruptor),
        &ways!("crossbeam-queue", over_two, T: "" Crossbeam),
    ]
    .concat()
}

/// The one queue that also waits in a way of its own.
fn gil_itself(measure: Measure) -> [Candidate; 1] {
    [Candidate {
        name: "gil",
        way: "its own wait",
        measure,
    }]
}

fn completion_candidates<T: Item>() -> Vec<Candidate> {
    [
        &stages(
            RING,
            to_completion::<Ours, Eager>,
            to_completion::<Ours, Hinted>,
        )[..],
        &ways!(RTRB, over_two, T: "" Rtrb),
        &ways!(TWIN, over_two, T: "" Rtrb),
        &stages(
            NAIVE,
            to_completion::<Naive, Eager>,
            to_completion::<Naive, Hinted>,
        ),
    ]
    .concat()
}

fn three_stage_candidates<T: Item>() -> Vec<Candidate> {
    [
        &stages(RING, throughput::<Ours, Eager>, throughput::<Ours, Hinted>)[..],
        &stages(
            NAIVE,
            throughput::<Naive, Eager>,
            throughput::<Naive, Hinted>,
        ),
        &ways!(RTRB, one_by_one, T: "" Rtrb),
        &ways!(TWIN, one_by_one, T: "" Rtrb),
    ]
    .concat()
}

fn stages(name: &'static str, eager: Measure, hinted: Measure) -> [Candidate; 2] {
    [("eager", eager), ("hinted", hinted)].map(|(way, measure)| Candidate { name, way, measure })
}

/// Nobody waits here, so there is one way.
fn single_candidates<T: Item>() -> Vec<Candidate> {
    [
        (SPSC, push_and_pop::<Spsc, T> as Measure),
        (RTRB, push_and_pop::<Rtrb, T>),
        (TWIN, push_and_pop::<Rtrb, T>),
        ("ringbuf", push_and_pop::<Ringbuf, T>),
        ("gil", push_and_pop::<Gil, T>),
        ("oneringbuf", push_and_pop::<Oneringbuf, T>),
        ("omango", push_and_pop::<Omango, T>),
        ("disruptor", push_and_pop::<Disruptor, T>),
        ("crossbeam-queue", push_and_pop::<Crossbeam, T>),
    ]
    .map(|(name, measure)| Candidate {
        name,
        way: "",
        measure,
    })
    .to_vec()
}

/// Ours, and each variant of it.
fn choice_candidates<T: Item>() -> Vec<Candidate> {
    use variants::{Close, Divided, LineEach, Prefetching, Same};
    [
        ways!(SPSC, one_by_one, T: "" Spsc),
        ways!(variants::COPY.name, one_by_one, T: "" State<Same>),
        ways!(variants::CURSORS.name, one_by_one, T: "" Cursors<true>),
        ways!(variants::UNCACHED.name, one_by_one, T: "" Cursors<false>),
        ways!(variants::SEQUENCE.name, one_by_one, T: "" Sequence),
        ways!(variants::DIVISION.name, one_by_one, T: "" State<Divided>),
        ways!(variants::CLOSE.name, one_by_one, T: "" State<Close>),
        ways!(variants::LINE_EACH.name, one_by_one, T: "" State<LineEach>),
        ways!(variants::PREFETCHING.name, one_by_one, T: "" State<Prefetching>),
        ways!(variants::SWAP.name, one_by_one, T: "" Parking),
    ]
    .concat()
}

/// The variants that move other lines than ours.
fn choice_trip_candidates<T: Item>() -> Vec<Candidate> {
    [
        ways!(SPSC, over_two, T: "" Spsc),
        ways!(variants::COPY.name, over_two, T: "" State<variants::Same>),
        ways!(variants::CURSORS.name, over_two, T: "" Cursors<true>),
        ways!(variants::SEQUENCE.name, over_two, T: "" Sequence),
    ]
    .concat()
}

fn word_candidates() -> Vec<Candidate> {
    let one: [Measure; 4] = [
        one_line::<Eager>,
        one_line::<Hinted>,
        one_line_in_turn::<Eager>,
        one_line_in_turn::<Hinted>,
    ];
    let two: [Measure; 4] = [
        two_lines::<Eager>,
        two_lines::<Hinted>,
        two_lines_in_turn::<Eager>,
        two_lines_in_turn::<Hinted>,
    ];
    let names = ONE_LINE.into_iter().chain(TWO_LINES);
    names
        .zip(one.into_iter().chain(two))
        .map(|(name, measure)| Candidate {
            name,
            way: "",
            measure,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_cells_have_one_key() {
        let cells = all();
        for (index, cell) in cells.iter().enumerate() {
            assert!(
                cells[..index].iter().all(|other| other.key != cell.key),
                "{}",
                cell.key
            );
        }
    }

    #[test]
    fn every_cell_has_the_twins() {
        for cell in all() {
            let twins = match cell.key.topic {
                Topic::Word => continue,
                Topic::Choices | Topic::ChoicesTrip => [SPSC, variants::COPY.name],
                _ => [RTRB, TWIN],
            };
            for name in twins {
                assert!(
                    cell.candidates.iter().any(|other| other.name == name),
                    "{}",
                    cell.key
                );
            }
        }
    }

    #[test]
    fn the_disruptor_is_only_asked_for_powers_of_two() {
        for cell in all() {
            let is_there = cell
                .candidates
                .iter()
                .any(|other| other.name == "disruptor");
            assert!(!is_there || cell.key.capacity.is_power_of_two());
        }
    }
}
