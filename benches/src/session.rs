//! The run: every candidate of every cell, again and again in a new order, with a probe between any two samples.

use std::time::{Duration, Instant};

use crate::cell::{Candidate, Cell, Question};
use crate::cells::Key;
use crate::probe::{self, Probe, Seen, State};
use crate::random::Random;
use crate::statistics::Summary;
use crate::workload::Rig;

/// No round begins later. Samples are longer while the processors are far from each other.
const LONGEST: Duration = Duration::from_secs(7 * 60 + 45);
/// How long a sample shall take.
const SAMPLE_MS: f64 = 8.0;
/// A sample of which a smaller part counted is no sample.
const LEAST_COUNTED: f64 = 0.25;

/// All good samples of one queue in one cell, in the unit of the cell's topic.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// The way of using it that was best here.
    pub(crate) way: &'static str,
    pub(crate) samples: Vec<f64>,
}

/// All rows of a cell.
#[derive(Clone, Debug)]
pub(crate) struct Measured<K = Key> {
    pub(crate) key: K,
    pub(crate) rows: Vec<Row>,
}

impl<K> Measured<K> {
    /// The samples of a candidate; none for one that is not there.
    pub(crate) fn samples(&self, name: &str) -> &[f64] {
        let row = self.rows.iter().find(|row| row.name == name);
        row.map_or(&[], |row| &row.samples)
    }

    /// Samples that are nanoseconds, as rates: so many times `unit` in a second.
    pub(crate) fn as_rates(&self, unit: f64) -> Self
    where
        K: Clone,
    {
        let mut rates = self.clone();
        for sample in rates.rows.iter_mut().flat_map(|row| &mut row.samples) {
            *sample = 1e9 / unit / *sample;
        }
        rates
    }

    /// Of these candidates, the one with the best median in this run.
    pub(crate) fn best_of<'a>(&self, names: &[&'a str], is_rate: bool) -> Option<&'a str> {
        let medians = names.iter().filter_map(|&name| {
            let summary = Summary::of(self.samples(name))?;
            Some((name, summary.median))
        });
        let by_median = |a: &(&str, f64), b: &(&str, f64)| a.1.total_cmp(&b.1);
        let best = if is_rate {
            medians.max_by(by_median)
        } else {
            medians.min_by(by_median)
        };
        best.map(|(name, _)| name)
    }

    /// How it is used, where there was a choice.
    pub(crate) fn way(&self, name: &str) -> Option<&'static str> {
        let row = self.rows.iter().find(|row| row.name == name)?;
        (!row.way.is_empty()).then_some(row.way)
    }
}

/// All cells in one state of the machine.
#[derive(Debug)]
pub(crate) struct InState<K = Key> {
    pub(crate) state: State,
    pub(crate) cells: Vec<Measured<K>>,
}

/// What a run found, and what it threw away.
#[derive(Debug)]
pub(crate) struct Outcome<K = Key> {
    /// The state that most probes found first. Empty when nothing could be probed.
    pub(crate) states: Vec<InState<K>>,
    pub(crate) rounds: usize,
    pub(crate) taken: usize,
    /// Samples between probes that do not agree, or without a core for each side.
    pub(crate) unsteady: usize,
    /// Samples in which the two sides hardly ran together.
    pub(crate) interrupted: usize,
    /// The probe's work on both processors at once over the same on one alone: near 2 for hyper-threads of one core.
    pub(crate) work_together: f64,
    pub(crate) seconds: f64,
}

/// One sample before it is judged.
struct Raw {
    place: (usize, usize),
    timing: Option<(f64, f64)>,
    probes: [Probe; 2],
}

/// Measures the cells, and says on standard error how far it is.
pub(crate) fn run<K: Question>(cells: &[Cell<K>], rounds: usize, rig: &mut Rig) -> Outcome<K> {
    let begin = Instant::now();
    let alone = probe::work_alone(rig.processors, rig.clock);
    let blocks: Vec<Vec<usize>> = cells
        .iter()
        .map(|cell| {
            let of = |candidate| blocks_for(candidate, cell.key, rig);
            cell.candidates.iter().map(of).collect()
        })
        .collect();
    eprintln!("lengths of samples chosen after {:.0?}", begin.elapsed());

    let mut random = Random::seeded(0);
    let mut raw = Vec::new();
    let mut order: Vec<usize> = (0..cells.len()).collect();
    let mut before = probe::probe(rig.processors, rig.clock);
    let mut done = 0;
    for round in 1..=rounds {
        if begin.elapsed() > LONGEST {
            eprintln!("time is up");
            break;
        }
        done = round;
        random.shuffle(&mut order);
        for &place in &order {
            let cell = &cells[place];
            let mut candidates: Vec<usize> = (0..cell.candidates.len()).collect();
            random.shuffle(&mut candidates);
            for index in candidates {
                let candidate = cell.candidates[index];
                let timing = (candidate.measure)(rig, cell.key.size(), blocks[place][index]);
                let after = probe::probe(rig.processors, rig.clock);
                raw.push(Raw {
                    place: (place, index),
                    timing: timing.map(|timing| (timing.ns, timing.counted)),
                    probes: [before, after],
                });
                before = after;
            }
        }
        eprintln!(
            "round {round} of {rounds} after {:.0?}; a word takes {:.0} ns there and back",
            begin.elapsed(),
            before.round_trip
        );
    }
    let mut outcome = judge(cells, done, raw, alone);
    outcome.seconds = begin.elapsed().as_secs_f64();
    outcome
}

/// How many blocks make a sample of the length wanted.
fn blocks_for<K: Question>(candidate: &Candidate, key: K, rig: &mut Rig) -> usize {
    let lengths = key.lengths();
    let mut shortest = f64::INFINITY;
    for _ in 0..3 {
        let begin = Instant::now();
        let _ = (candidate.measure)(rig, key.size(), lengths.trial);
        shortest = shortest.min(begin.elapsed().as_secs_f64() * 1000.0);
    }
    // CAST: positive, and bounded below.
    let wanted = (SAMPLE_MS / shortest * lengths.trial as f64) as usize;
    wanted.clamp(*lengths.blocks.start(), *lengths.blocks.end())
}

fn judge<K: Question>(cells: &[Cell<K>], rounds: usize, raw: Vec<Raw>, alone: f64) -> Outcome<K> {
    let probes: Vec<Probe> = raw.iter().map(|sample| sample.probes[1]).collect();
    let seen = Seen::by(&probes);
    let mut outcome = Outcome {
        states: seen
            .states
            .iter()
            .map(|&state| InState {
                state,
                cells: cells.iter().map(empty).collect(),
            })
            .collect(),
        rounds,
        taken: raw.len(),
        unsteady: 0,
        interrupted: 0,
        work_together: seen.work / alone,
        seconds: 0.0,
    };
    for sample in raw {
        let (place, index) = sample.place;
        match (seen.state_of(sample.probes), sample.timing) {
            (Some(state), Some((ns, counted))) if counted >= LEAST_COUNTED => {
                let cell = &mut outcome.states[state].cells[place];
                let value = cell.key.value(ns);
                cell.rows[index].samples.push(value);
            }
            (Some(_), _) => outcome.interrupted += 1,
            (None, _) => outcome.unsteady += 1,
        }
    }
    for cell in outcome.states.iter_mut().flat_map(|state| &mut state.cells) {
        keep_the_best(cell);
    }
    outcome
}

/// Of each queue, the way with the best median: what somebody who cares would use.
fn keep_the_best<K: Question>(cell: &mut Measured<K>) {
    let is_rate = cell.key.is_rate();
    let worth = |row: &Row| match Summary::of(&row.samples) {
        Some(summary) if is_rate => summary.median,
        Some(summary) => -summary.median,
        None => f64::NEG_INFINITY,
    };
    let mut best: Vec<Row> = Vec::new();
    for row in cell.rows.drain(..) {
        match best.iter_mut().find(|other| other.name == row.name) {
            Some(other) if worth(&row) > worth(other) => *other = row,
            Some(_) => {}
            None => best.push(row),
        }
    }
    cell.rows = best;
}

fn empty<K: Question>(cell: &Cell<K>) -> Measured<K> {
    let row = |candidate: &Candidate| Row {
        name: candidate.name,
        way: candidate.way,
        samples: Vec::new(),
    };
    Measured {
        key: cell.key,
        rows: cell.candidates.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells;

    fn raw(round_trips: [f64; 2], timing: Option<(f64, f64)>) -> Raw {
        let probe = |round_trip| Probe {
            round_trip,
            work: 1.0,
        };
        Raw {
            place: (0, 0),
            timing,
            probes: round_trips.map(probe),
        }
    }

    #[test]
    fn only_good_samples_are_kept() {
        let cells = cells::all();
        let good = Some((10.0, 0.9));
        let mut samples: Vec<Raw> = (0..20).map(|_| raw([280.0, 290.0], good)).collect();
        samples.push(raw([280.0, 900.0], good));
        samples.push(raw([280.0, 280.0], Some((10.0, 0.1))));
        samples.push(raw([280.0, 280.0], None));
        let outcome = judge(&cells, 1, samples, 1.0);
        assert_eq!(
            (outcome.taken, outcome.unsteady, outcome.interrupted),
            (23, 1, 2)
        );
        let [only] = &outcome.states[..] else {
            panic!("{:?}", outcome.states.len());
        };
        let cell = &only.cells[0];
        assert_eq!(cell.rows[0].samples, [100.0; 20], "a rate of 10 ns");
        assert_eq!(cell.samples("no such queue"), [0.0; 0]);
    }

    #[test]
    fn the_best_way_of_a_queue_counts() {
        let row = |name, way, value| Row {
            name,
            way,
            samples: vec![value; 9],
        };
        let mut cell = Measured {
            key: cells::all()[0].key,
            rows: vec![
                row("a", "eager", 1.0),
                row("a", "hinted", 2.0),
                row("b", "eager", 3.0),
                row("b", "hinted", 2.0),
            ],
        };
        keep_the_best(&mut cell);
        let ways: Vec<_> = cell.rows.iter().map(|row| (row.name, row.way)).collect();
        assert_eq!(ways, [("a", "hinted"), ("b", "eager")]);
    }

    #[test]
    fn states_are_kept_apart() {
        let cells = cells::all();
        let far = (0..20).map(|_| raw([520.0; 2], Some((50.0, 1.0))));
        let near = (0..10).map(|_| raw([104.0; 2], Some((10.0, 1.0))));
        let outcome = judge(&cells, 1, far.chain(near).collect(), 1.0);
        let counts: Vec<usize> = outcome
            .states
            .iter()
            .map(|state| state.cells[0].rows[0].samples.len())
            .collect();
        assert_eq!(counts, [20, 10]);
    }
}
