//! All that is measured with a clock: a cell is one part of an execution on so many cores, with everybody who does it.
//!
//! Samples are nanoseconds for each execution, or for each look.

use std::fmt;

use super::by_hand::{ByHand, IntoMemory, SameCalls};
use super::samples::{harvest, look, round_trip, stage};
use super::subject::{OnMachine, Ours, Subject};
use crate::cell::{self, Candidate, Lengths, Question};

/// The lane on a device that costs nothing, by use.
pub(crate) const OURS: [&str; 3] = [
    "ours, loading each time",
    "ours, skip-config",
    "ours, skip-config, a switch each time",
];
/// Where the use makes no difference.
pub(crate) const HARVESTER: &str = "ours";
/// The lane on the simulated machine, by use.
pub(crate) const ON_MACHINE: [&str; 2] = [
    "ours on the simulated machine, loading each time",
    "ours on the simulated machine, skip-config",
];
pub(crate) const SAME_CALLS: &str = "by hand, same calls";
/// Against [`SAME_CALLS`] it shows how much the same code differs from itself.
pub(crate) const TWIN: &str = "by hand, same calls, again";
pub(crate) const INTO_MEMORY: &str = "by hand, into memory";
/// Both controls.
pub(crate) const CONTROLS: [&str; 2] = [SAME_CALLS, INTO_MEMORY];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topic {
    Stage,
    Harvest,
    Look,
    RoundTrip,
}

impl Topic {
    pub(crate) const ALL: [Self; 4] = [Self::Stage, Self::Harvest, Self::Look, Self::RoundTrip];
}

/// Which cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) topic: Topic,
    pub(crate) tpbs: usize,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let topic = match self.topic {
            Topic::Stage => "stage",
            Topic::Harvest => "harvest",
            Topic::Look => "look",
            Topic::RoundTrip => "round trip",
        };
        write!(f, "{topic}, {} TPB", self.tpbs)
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
        self.tpbs
    }

    fn lengths(self) -> Lengths {
        Lengths {
            trial: 64,
            blocks: 24..=20_000,
        }
    }
}

pub(crate) type Cell = cell::Cell<Key>;

/// Every cell, in the order of the report.
pub(crate) fn all() -> Vec<Cell> {
    let of = |topic| [1, 2].map(|tpbs| cell(Key { topic, tpbs }));
    Topic::ALL.into_iter().flat_map(of).collect()
}

fn cell(key: Key) -> Cell {
    let candidates = match key.topic {
        Topic::Stage => vec![
            stages::<Ours<0>>(OURS[0]),
            stages::<Ours<1>>(OURS[1]),
            stages::<Ours<2>>(OURS[2]),
            stages::<ByHand<SameCalls>>(SAME_CALLS),
            stages::<ByHand<SameCalls>>(TWIN),
            stages::<ByHand<IntoMemory>>(INTO_MEMORY),
        ],
        Topic::Harvest => vec![
            harvests::<Ours<0>>(HARVESTER),
            harvests::<ByHand<SameCalls>>(SAME_CALLS),
            harvests::<ByHand<SameCalls>>(TWIN),
            harvests::<ByHand<IntoMemory>>(INTO_MEMORY),
        ],
        Topic::Look => vec![
            looks::<Ours<0>>(HARVESTER),
            looks::<ByHand<SameCalls>>(SAME_CALLS),
            looks::<ByHand<SameCalls>>(TWIN),
            looks::<ByHand<IntoMemory>>(INTO_MEMORY),
        ],
        Topic::RoundTrip => vec![
            round_trips::<Ours<0>>(OURS[0]),
            round_trips::<Ours<1>>(OURS[1]),
            round_trips::<Ours<2>>(OURS[2]),
            round_trips::<ByHand<SameCalls>>(SAME_CALLS),
            round_trips::<ByHand<SameCalls>>(TWIN),
            round_trips::<ByHand<IntoMemory>>(INTO_MEMORY),
            round_trips::<OnMachine<0>>(ON_MACHINE[0]),
            round_trips::<OnMachine<1>>(ON_MACHINE[1]),
        ],
    };
    Cell { key, candidates }
}

fn stages<S: Subject>(name: &'static str) -> Candidate {
    candidate(name, stage::<S>)
}

fn harvests<S: Subject>(name: &'static str) -> Candidate {
    candidate(name, harvest::<S>)
}

fn looks<S: Subject>(name: &'static str) -> Candidate {
    candidate(name, look::<S>)
}

fn round_trips<S: Subject>(name: &'static str) -> Candidate {
    candidate(name, round_trip::<S>)
}

fn candidate(name: &'static str, measure: crate::workload::Measure) -> Candidate {
    Candidate {
        name,
        way: "",
        measure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::pin;
    use crate::workload::Rig;

    /// A sample that comes to nothing would be left out of the report without a word. On a busy machine few blocks may
    /// count, but there are some.
    #[test]
    fn every_candidate_comes_to_its_end() {
        let Ok(processors) = pin::choose() else {
            return;
        };
        let mut rig = Rig::new(processors, Clock::calibrated());
        for cell in all() {
            for candidate in &cell.candidates {
                let timing = (0..5).find_map(|_| (candidate.measure)(&mut rig, cell.key.tpbs, 24));
                let timing = timing.unwrap_or_else(|| panic!("{}: {}", cell.key, candidate.name));
                assert!(timing.ns > 0.0, "{}: {}", cell.key, candidate.name);
            }
        }
    }
}
