//! All that is measured with a clock: a cell is a depth on a kind of device, with everybody who can answer.
//!
//! Samples are nanoseconds for each request; the report turns them into rates where it likes.

use std::fmt;

use super::by_hand::{ByHand, Greedy, GreedyAwake, InATask, InTurns, InTurnsAwake, Manner};
use super::callers::{Blocking, CurrentThread, Executor, MultiThread, Task, Watching};
use super::eager::Eager;
use super::ours::{Each, Ours};
use super::place::{NoLatency, NoLatencyAtTheLook, Place, Simulated};
use crate::cell::{self, Candidate, Lengths, Question};
use crate::pin::Pair;
use crate::worker::DEPTHS;
use crate::worker::samples::two_cores;
use crate::worker::service::Loop;
use crate::workload::Measure;

/// The facade, by executor.
pub(crate) const OURS: [&str; 2] = ["nrta, current thread", "nrta, multi thread"];
/// The design by hand, by executor.
pub(crate) const PEERS: [&str; 2] = ["by hand, current thread", "by hand, multi thread"];
/// Against the first of [`PEERS`] it shows how much the same code differs from itself.
pub(crate) const TWIN: &str = "by hand, current thread, again";
pub(crate) const BLOCKING: &str = "nrta, a thread that waits";
pub(crate) const WATCHING: &str = "nrta, a thread that looks";
/// Tensors are given with each call, and not bound once.
pub(crate) const EACH: &str = "nrta, current thread, not bound";
/// Tasks that look again for a while before they sleep, on the current thread.
pub(crate) const EAGER: [&str; 2] = ["nrta, awaits eagerly", "by hand, awaits eagerly"];
pub(crate) const IN_A_TASK: &str = "by hand, all on one thread";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topic {
    NoLatency,
    /// As that, but whoever looks for records writes them.
    AtTheLook,
    Simulated,
}

impl Topic {
    pub(crate) const ALL: [Self; 3] = [Self::NoLatency, Self::AtTheLook, Self::Simulated];
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
            Topic::NoLatency => "no latency",
            Topic::AtTheLook => "no latency, records at the look",
            Topic::Simulated => "simulated machine",
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

    /// Opening a runtime takes milliseconds, so short samples would be nothing but that.
    fn lengths(self) -> Lengths {
        match self.topic {
            Topic::NoLatency | Topic::AtTheLook => Lengths {
                trial: 128,
                blocks: 128..=4000,
            },
            Topic::Simulated => Lengths {
                trial: 12,
                blocks: 12..=400,
            },
        }
    }
}

/// Manners of the thread that owns the device.
const WAYS: [&str; 4] = [
    "greedy, sleeps",
    "greedy, looks again",
    "in turns, sleeps",
    "in turns, looks again",
];

pub(crate) type Cell = cell::Cell<Key>;

/// Every cell, in the order of the report.
pub(crate) fn all() -> Vec<Cell> {
    let of = |topic| DEPTHS.map(|depth| cell(Key { topic, depth }));
    Topic::ALL.into_iter().flat_map(of).collect()
}

fn cell(key: Key) -> Cell {
    let entries = match key.topic {
        Topic::NoLatency => loops(),
        Topic::AtTheLook => in_short::<NoLatencyAtTheLook>(),
        Topic::Simulated => in_short::<Simulated>(),
    };
    let candidate = |entry: Entry| Candidate {
        name: entry.name,
        way: entry.way,
        measure: entry.measure,
    };
    Cell {
        key,
        candidates: entries.into_iter().map(candidate).collect(),
    }
}

/// A closed loop that can be driven for any purpose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    /// How the thread that owns the device takes up jobs.
    pub(crate) way: &'static str,
    pub(crate) drive: fn(Pair, usize, &mut [u64]) -> bool,
    measure: Measure,
}

impl Entry {
    fn of<L: Loop>(name: &'static str, way: &'static str) -> Self {
        Self {
            name,
            way,
            drive: L::drive,
            measure: two_cores::<L>,
        }
    }

    fn ours<P: Place>() -> [Self; 2] {
        [
            Self::of::<Task<CurrentThread, Ours<P>>>(OURS[0], ""),
            Self::of::<Task<MultiThread, Ours<P>>>(OURS[1], ""),
        ]
    }

    /// The design by hand in each of its manners: the best one counts.
    fn by_hand<P: Place, E: Executor>(name: &'static str) -> [Self; 4] {
        fn one<P: Place, E: Executor, M: Manner>(name: &'static str, way: &'static str) -> Entry {
            Entry::of::<Task<E, ByHand<P, M>>>(name, way)
        }
        [
            one::<P, E, Greedy>(name, WAYS[0]),
            one::<P, E, GreedyAwake>(name, WAYS[1]),
            one::<P, E, InTurns>(name, WAYS[2]),
            one::<P, E, InTurnsAwake>(name, WAYS[3]),
        ]
    }
}

/// Everybody, on the device without latency.
pub(crate) fn loops() -> Vec<Entry> {
    let mut entries = Vec::from(Entry::ours::<NoLatency>());
    entries.extend(Entry::by_hand::<NoLatency, CurrentThread>(PEERS[0]));
    entries.extend(Entry::by_hand::<NoLatency, CurrentThread>(TWIN));
    entries.extend(Entry::by_hand::<NoLatency, MultiThread>(PEERS[1]));
    entries.extend([
        Entry::of::<Task<CurrentThread, Ours<NoLatency, Each>>>(EACH, ""),
        Entry::of::<Blocking<Ours<NoLatency>>>(BLOCKING, ""),
        Entry::of::<Watching<Ours<NoLatency>>>(WATCHING, ""),
        Entry::of::<Task<CurrentThread, InATask<NoLatency>>>(IN_A_TASK, ""),
        Entry::of::<Task<CurrentThread, Eager<Ours<NoLatency>>>>(EAGER[0], ""),
        Entry::of::<Task<CurrentThread, Eager<ByHand<NoLatency, Greedy>>>>(EAGER[1], WAYS[0]),
        Entry::of::<Task<CurrentThread, Eager<ByHand<NoLatency, GreedyAwake>>>>(EAGER[1], WAYS[1]),
        Entry::of::<Task<CurrentThread, Eager<ByHand<NoLatency, InTurns>>>>(EAGER[1], WAYS[2]),
        Entry::of::<Task<CurrentThread, Eager<ByHand<NoLatency, InTurnsAwake>>>>(EAGER[1], WAYS[3]),
    ]);
    entries
}

/// The facade and its peers, on another device.
fn in_short<P: Place>() -> Vec<Entry> {
    let mut entries = Vec::from(Entry::ours::<P>());
    entries.extend(Entry::by_hand::<P, CurrentThread>(PEERS[0]));
    entries.extend(Entry::by_hand::<P, MultiThread>(PEERS[1]));
    entries.extend([
        Entry::of::<Blocking<Ours<P>>>(BLOCKING, ""),
        Entry::of::<Task<CurrentThread, InATask<P>>>(IN_A_TASK, ""),
    ]);
    entries
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pin;

    fn come_to_their_end(entries: &[Entry]) {
        let Ok(processors) = pin::choose() else {
            return;
        };
        for entry in entries {
            for depth in DEPTHS {
                let mut stamps = [0; 3];
                let ran = (entry.drive)(processors, depth, &mut stamps);
                let increasing = stamps[0] > 0 && stamps.is_sorted();
                assert!(
                    ran && increasing,
                    "{}, {}, at {depth}",
                    entry.name,
                    entry.way
                );
            }
        }
    }

    #[test]
    fn every_loop_comes_to_its_end() {
        come_to_their_end(&loops());
    }

    #[test]
    fn every_loop_on_the_machine_comes_to_its_end() {
        come_to_their_end(&in_short::<NoLatencyAtTheLook>());
        come_to_their_end(&in_short::<Simulated>());
    }
}
