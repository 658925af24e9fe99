//! What state the machine is in: how far its two processors are from each other, and whether they have a core each.
//!
//! A virtual machine may move its processors at any time. A word may then take 50 ns there and back (hyper-threads of
//! one core), 100 to 300 (cores of one cache or one chip), or 500 and more (chips that are far apart), and in each state
//! another order of queues wins. So a probe runs between any two samples, and a sample counts for a state when the
//! probes before and after it agree. The states are read from all probes of the run, after it.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::{self, Clock};
use crate::pair;
use crate::pin::Pair;

const ROUNDS: usize = 40;
const TRIPS: u64 = 48;
const WORKS: usize = 15;
const WORK_STEPS: u64 = 2000;

/// What one probe found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Probe {
    /// Nanoseconds that a word takes over two lines, there and back.
    pub(crate) round_trip: f64,
    /// Nanoseconds for a piece of work that keeps a core busy, while the other processor does the same: longer on
    /// hyper-threads, or where a neighbour of this machine has the other half of the core.
    pub(crate) work: f64,
}

/// Alone on its pair of lines.
#[derive(Default)]
#[repr(align(128))]
struct Word(AtomicU64);

/// Probes both processors; takes less than a millisecond.
pub(crate) fn probe(processors: Pair, clock: Clock) -> Probe {
    let (there, back) = (&Word::default(), &Word::default());
    // CAST: the number of rounds is small.
    let last = ROUNDS as u64 * TRIPS;
    let ((round_trip, here), yonder) = pair::run(
        processors,
        || {
            let mut lasted = [0; ROUNDS];
            let mut trip = 0;
            for ticks in &mut lasted {
                let begin = clock::now();
                for _ in 0..TRIPS {
                    trip += 1;
                    // PAIRS: nothing travels but the word itself; release and acquire as in a queue.
                    there.0.store(trip, Ordering::Release);
                    // PAIRS: as above.
                    while back.0.load(Ordering::Acquire) != trip {}
                }
                *ticks = clock::now() - begin;
            }
            (median_of(&mut lasted), work())
        },
        || {
            for trip in 1..=last {
                // PAIRS: as above.
                while there.0.load(Ordering::Acquire) != trip {}
                // PAIRS: as above.
                back.0.store(trip, Ordering::Release);
            }
            work()
        },
    );
    Probe {
        round_trip: clock.ns(round_trip) / TRIPS as f64,
        work: clock.ns(here.max(yonder)),
    }
}

/// The work of a probe on one processor alone, in nanoseconds: the best of some, to compare with.
pub(crate) fn work_alone(processors: Pair, clock: Clock) -> f64 {
    let alone = (0..20)
        .filter_map(|_| {
            let thread = std::thread::spawn(move || {
                crate::pin::pin(processors[0]);
                work()
            });
            thread.join().ok()
        })
        .min();
    clock.ns(alone.unwrap_or(0))
}

/// Ticks for sums in six registers, the median of some.
fn work() -> u64 {
    let mut lasted = [0; WORKS];
    for ticks in &mut lasted {
        let begin = clock::now();
        let mut sums = [1_u64, 2, 3, 4, 5, 6];
        for step in 0..WORK_STEPS {
            for sum in &mut sums {
                *sum = black_box(*sum ^ step);
            }
        }
        black_box(sums);
        *ticks = clock::now() - begin;
    }
    median_of(&mut lasted)
}

fn median_of(ticks: &mut [u64]) -> u64 {
    ticks.sort_unstable();
    ticks[ticks.len() / 2]
}

/// Round trips that belong together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct State {
    /// The middle one.
    pub(crate) round_trip: f64,
    /// The part of all probes that found this state.
    pub(crate) share: f64,
}

/// Probes belong to a state when they are not further from its middle than this factor.
const SPREAD: f64 = 1.4;
/// A group with a smaller part of the probes is no state but a disturbance.
const LEAST_SHARE: f64 = 0.05;
/// Work that takes so much longer than it does at good times has no core to itself.
const SHARED_CORE: f64 = 1.3;

impl State {
    fn contains(&self, round_trip: f64) -> bool {
        round_trip <= self.round_trip * SPREAD && round_trip >= self.round_trip / SPREAD
    }
}

/// What the probes of a run say together.
#[derive(Debug, PartialEq)]
pub(crate) struct Seen {
    /// The most frequent state first.
    pub(crate) states: Vec<State>,
    /// The work at good times: a tenth of the probes were faster.
    pub(crate) work: f64,
}

impl Seen {
    /// Groups the round trips of a run: around the middle of all, then around the middle of what is left.
    pub(crate) fn by(probes: &[Probe]) -> Self {
        let mut left = sorted(probes.iter().map(|probe| probe.round_trip));
        let work = sorted(probes.iter().map(|probe| probe.work));
        let mut states = Vec::new();
        let least = probes.len() as f64 * LEAST_SHARE;
        while !left.is_empty() && left.len() as f64 >= least {
            let mut state = State {
                round_trip: left[left.len() / 2],
                share: 0.0,
            };
            // Towards the middle of the group, in a few steps.
            for _ in 0..5 {
                let group: Vec<f64> = members(&left, &state).collect();
                state.round_trip = group[group.len() / 2];
                state.share = group.len() as f64 / probes.len() as f64;
            }
            left.retain(|&round_trip| !state.contains(round_trip));
            if state.share >= LEAST_SHARE {
                states.push(state);
            }
        }
        states.sort_by(|a, b| b.share.total_cmp(&a.share));
        Self {
            states,
            work: work.get(work.len() / 10).copied().unwrap_or(f64::NAN),
        }
    }

    /// Which state both probes of a sample found, if they agree and each side had a core to itself.
    pub(crate) fn state_of(&self, probes: [Probe; 2]) -> Option<usize> {
        let is_quiet = |probe: &Probe| probe.work <= self.work * SHARED_CORE;
        if !probes.iter().all(is_quiet) {
            return None;
        }
        self.states
            .iter()
            .position(|state| probes.iter().all(|probe| state.contains(probe.round_trip)))
    }
}

fn members(sorted: &[f64], state: &State) -> impl Iterator<Item = f64> {
    let state = *state;
    let within = move |round_trip: &f64| state.contains(*round_trip);
    sorted.iter().copied().filter(within)
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probes(round_trips: impl Iterator<Item = f64>) -> Vec<Probe> {
        round_trips.map(quiet).collect()
    }

    fn quiet(round_trip: f64) -> Probe {
        Probe {
            round_trip,
            work: 1000.0,
        }
    }

    #[test]
    fn one_state_holds_all_probes() {
        let probes = probes((0..100).map(|index| 280.0 + f64::from(index % 20)));
        let seen = Seen::by(&probes);
        assert_eq!(seen.states.len(), 1);
        assert_eq!(seen.states[0].share, 1.0);
        assert_eq!(seen.state_of([probes[0], probes[19]]), Some(0));
        assert_eq!(seen.state_of([probes[0], quiet(900.0)]), None);
    }

    #[test]
    fn near_and_far_are_two_states() {
        let probes = probes((0..100).map(|index| {
            let middle = if index % 3 == 0 { 104.0 } else { 518.0 };
            middle + f64::from(index % 7)
        }));
        let seen = Seen::by(&probes);
        assert_eq!(seen.states.len(), 2);
        assert!(seen.states[0].share > seen.states[1].share);
        assert_eq!(seen.state_of([quiet(520.0); 2]), Some(0));
        assert_eq!(seen.state_of([quiet(105.0); 2]), Some(1));
        assert_eq!(seen.state_of([quiet(105.0), quiet(520.0)]), None);
    }

    #[test]
    fn a_few_disturbances_are_no_state() {
        let probes = probes((0..100).map(|index| {
            if index % 25 == 0 {
                2000.0 + 1000.0 * f64::from(index)
            } else {
                280.0
            }
        }));
        assert_eq!(Seen::by(&probes).states.len(), 1);
    }

    #[test]
    fn a_shared_core_is_no_state() {
        let seen = Seen::by(&probes([280.0; 50].into_iter()));
        let shared = Probe {
            round_trip: 280.0,
            work: 1800.0,
        };
        assert_eq!(seen.state_of([quiet(280.0), shared]), None);
    }

    #[test]
    fn few_probes_and_none() {
        assert_eq!(Seen::by(&[]).states, []);
        assert_eq!(Seen::by(&probes([300.0].into_iter())).states.len(), 1);
        assert_eq!(Seen::by(&probes([f64::NAN].into_iter())).states, []);
    }
}
