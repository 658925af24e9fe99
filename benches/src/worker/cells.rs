//! All that is measured with a clock: a cell is one way to ask, with everybody who can answer.
//!
//! Samples are nanoseconds for each request; the report turns them into rates where it likes.

use std::fmt;

use super::own::{Completions, Cursor};
use super::peers::channels::Channels;
use super::peers::echo::Echo;
use super::peers::nops;
use super::peers::queues::Queues;
use super::peers::ring::{ByCursor, BySlot};
use super::peers::tasks::{Crossing, CurrentThread, MultiThread};
use super::samples::{asleep, one_core, two_cores};
use super::service::{Loop, Of};
use crate::candidates::rtrb::Rtrb;
use crate::candidates::{Eager, Hinted};
use crate::cell::{self, Candidate, Lengths, Question};
use crate::pin::Pair;
use crate::workload::Measure;

/// The lane: by policy, and by what the caller waits for.
pub(crate) const LANES: [&str; 3] = [
    "xu_worker, Reference",
    "xu_worker, Adaptive",
    "xu_worker, Busy",
];
pub(crate) const CURSOR_LANES: [&str; 3] = [
    "xu_worker, Reference, cursor",
    "xu_worker, Adaptive, cursor",
    "xu_worker, Busy, cursor",
];
/// With the default policy.
pub(crate) const DEFAULT: &str = LANES[1];
pub(crate) const DEFAULT_CURSOR: &str = CURSOR_LANES[1];
pub(crate) const BUSY: &str = LANES[2];

pub(crate) const RING: &str = "xu_ring::queue alone";
pub(crate) const RTRB: &str = "rtrb pair";
pub(crate) const TWIN: &str = "rtrb pair again";
pub(crate) const ECHO: &str = "eventfd and epoll";
pub(crate) const CHANNELS: &str = "crossbeam-channel";
pub(crate) const CURRENT_THREAD: &str = "tokio, current thread";
pub(crate) const MULTI_THREAD: &str = "tokio, multi thread";
pub(crate) const CROSSING: &str = "tokio, multi thread, crossing";
pub(crate) const NOPS: &str = "io_uring NOP";

pub(crate) const DEPTHS: [usize; 3] = [1, 8, 63];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topic {
    TwoCores,
    Asleep,
    OneCore,
}

/// Which cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) topic: Topic,
    pub(crate) depth: usize,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let topic = match self.topic {
            Topic::TwoCores => "two cores",
            Topic::Asleep => "asleep",
            Topic::OneCore => "one core",
        };
        write!(f, "{topic}, depth {}", self.depth)
    }
}

impl Question for Key {
    fn is_rate(self) -> bool {
        false
    }

    fn value(self, ns: f64) -> f64 {
        ns
    }

    fn size(self) -> usize {
        self.depth
    }

    fn lengths(self) -> Lengths {
        match self.topic {
            // A block is one request, to a thread that has slept for a quarter of a millisecond.
            Topic::Asleep => Lengths {
                trial: 8,
                blocks: 12..=40,
            },
            Topic::TwoCores | Topic::OneCore => Lengths {
                trial: 64,
                blocks: 24..=60_000,
            },
        }
    }
}

pub(crate) type Cell = cell::Cell<Key>;

/// Every cell, in the order of the report.
pub(crate) fn all() -> Vec<Cell> {
    let mut cells: Vec<Cell> = DEPTHS
        .into_iter()
        .map(|depth| cell(Topic::TwoCores, depth))
        .collect();
    cells.push(cell(Topic::Asleep, 1));
    cells.push(cell(Topic::OneCore, 1));
    cells
}

fn cell(topic: Topic, depth: usize) -> Cell {
    let candidates = match topic {
        Topic::TwoCores => loops().into_iter().map(Entry::on_two_cores).collect(),
        Topic::OneCore => loops()
            .into_iter()
            .filter(|entry| entry.gives_way)
            .map(Entry::on_one_core)
            .collect(),
        Topic::Asleep => sleepers(),
    };
    Cell {
        key: Key { topic, depth },
        candidates,
    }
}

/// A closed loop that can be driven for any purpose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) way: &'static str,
    pub(crate) drive: fn(Pair, usize, &mut [u64]) -> bool,
    two_cores: Measure,
    one_core: Measure,
    /// Whether both sides let the other have the processor: else two threads on one would wait for the end of their time.
    gives_way: bool,
}

impl Entry {
    fn of<L: Loop>(name: &'static str, way: &'static str, gives_way: bool) -> Self {
        Self {
            name,
            way,
            drive: L::drive,
            two_cores: two_cores::<L>,
            one_core: one_core::<L>,
            gives_way,
        }
    }

    fn on_two_cores(self) -> Candidate {
        candidate(self.name, self.way, self.two_cores)
    }

    fn on_one_core(self) -> Candidate {
        candidate(self.name, self.way, self.one_core)
    }
}

fn candidate(name: &'static str, way: &'static str, measure: Measure) -> Candidate {
    Candidate { name, way, measure }
}

/// Everybody who can run in a closed loop.
pub(crate) fn loops() -> Vec<Entry> {
    let (sleeps, spins) = (true, false);
    vec![
        Entry::of::<Of<Completions<0>>>(LANES[0], "", sleeps),
        Entry::of::<Of<Completions<1>>>(LANES[1], "", sleeps),
        Entry::of::<Of<Completions<2>>>(LANES[2], "", sleeps),
        Entry::of::<Of<Cursor<0>>>(CURSOR_LANES[0], "", sleeps),
        Entry::of::<Of<Cursor<1>>>(CURSOR_LANES[1], "", sleeps),
        Entry::of::<Of<Cursor<2>>>(CURSOR_LANES[2], "", sleeps),
        Entry::of::<Of<BySlot<Eager>>>(RING, "slot, eager", spins),
        Entry::of::<Of<BySlot<Hinted>>>(RING, "slot, hinted", spins),
        Entry::of::<Of<ByCursor<Eager>>>(RING, "cursor, eager", spins),
        Entry::of::<Of<ByCursor<Hinted>>>(RING, "cursor, hinted", spins),
        Entry::of::<Of<Queues<Rtrb, Eager>>>(RTRB, "eager", spins),
        Entry::of::<Of<Queues<Rtrb, Hinted>>>(RTRB, "hinted", spins),
        Entry::of::<Of<Queues<Rtrb, Eager>>>(TWIN, "eager", spins),
        Entry::of::<Of<Queues<Rtrb, Hinted>>>(TWIN, "hinted", spins),
        Entry::of::<Of<Echo>>(ECHO, "", sleeps),
        Entry::of::<Of<Channels>>(CHANNELS, "", sleeps),
        Entry::of::<CurrentThread>(CURRENT_THREAD, "", sleeps),
        Entry::of::<MultiThread>(MULTI_THREAD, "", sleeps),
        Entry::of::<Crossing>(CROSSING, "", sleeps),
        Entry::of::<Of<nops::Any>>(NOPS, "any", sleeps),
        Entry::of::<Of<nops::All>>(NOPS, "all", sleeps),
    ]
}

/// Whoever sleeps in the kernel when nothing comes, on one thread that can be watched.
fn sleepers() -> Vec<Candidate> {
    vec![
        candidate(LANES[0], "", asleep::<Completions<0>>),
        candidate(LANES[1], "", asleep::<Completions<1>>),
        candidate(LANES[2], "", asleep::<Completions<2>>),
        candidate(CURSOR_LANES[1], "", asleep::<Cursor<1>>),
        candidate(ECHO, "", asleep::<Echo>),
        candidate(CHANNELS, "", asleep::<Channels>),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::pin;
    use crate::workload::Rig;

    #[test]
    fn every_loop_comes_to_its_end() {
        let Ok(processors) = pin::choose() else {
            return;
        };
        for entry in loops() {
            for depth in DEPTHS {
                let mut stamps = [0; 3];
                let ran = (entry.drive)(processors, depth, &mut stamps);
                let increasing = stamps[0] > 0 && stamps.is_sorted();
                assert!(increasing || !ran, "{} at {depth}", entry.name);
            }
        }
    }

    #[test]
    fn a_sleeper_is_asked() {
        if let Ok(processors) = pin::choose() {
            let mut rig = Rig::new(processors, Clock::calibrated());
            let _ = asleep::<Echo>(&mut rig, 1, 8);
            let _ = asleep::<Completions<1>>(&mut rig, 1, 8);
        }
    }

    #[test]
    fn the_names_are_those_of_the_policies() {
        for (name, policy) in LANES.into_iter().zip(crate::lane::Policy::ALL) {
            assert!(name.ends_with(policy.name()));
        }
    }
}
