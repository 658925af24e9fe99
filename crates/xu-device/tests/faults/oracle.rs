//! The oracle: which status each execution may have, from the faults that hit it and the times at which things
//! happened.
//!
//! Written from the specification (`xu.md` 2.11, 6, 7; `driver_emulation.md` 5), from the rulings, and from the
//! documented meaning of each fault, and not from the harvester or the machine.
//!
//! ```text
//!  faults of each doorbell --posted--> records of each core --reading--> how far each engine is
//!                                      errors, counters     --verdict--> the statuses that are allowed
//! ```
//!
//! Where the specification leaves something open (ties, two faults that are noticed in either order, a time limit that
//! falls between two bounds) every possibility is a *world*. What an execution really said rules out worlds before
//! the next one is predicted.

use crate::posted::{self, Begin, Certainty, Doorbell, Run};
use crate::reading::{self, Queue, Reading, State, Verdict};
use crate::registers::{add, look_behind, overflow_or};
use crate::verdict::{self, Allowed, Found};
use xu_abi::record::ErrorKind;

/// What lies in the rings, and then a time limit that has passed, are judged after at most so many looks.
const LOOKS: usize = 16;

/// Everything that the driver of a test knows about the life of a unit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Life {
    /// The doorbells of each core.
    pub(crate) cores: Vec<Vec<Doorbell>>,
    /// What was harvested, in order.
    pub(crate) executions: Vec<Execution>,
    /// Whether engines wait for each other.
    pub(crate) chained: bool,
    /// How long an execution without faults takes at most, nanoseconds.
    pub(crate) at_most_ns: u64,
}

/// One execution that was harvested.
#[derive(Clone, Debug)]
pub(crate) struct Execution {
    /// When its time limit passed, nanoseconds.
    pub(crate) deadline_ns: u64,
    /// When it was looked at, but for the look that ended it, nanoseconds.
    pub(crate) looks_ns: Vec<u64>,
    /// When it ended, nanoseconds.
    pub(crate) ended_ns: u64,
    /// Whether the device was gone by then.
    pub(crate) device_lost: bool,
    /// What it said.
    pub(crate) status: i32,
}

/// One way in which things may be.
#[derive(Clone, Debug, PartialEq)]
struct World {
    cores: Vec<Core>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Core {
    queues: [Queue; 5],
    /// Errors that no execution has answered for: which run, what.
    errors: Vec<(usize, ErrorKind, Certainty)>,
}

/// The allowed statuses of each execution, up to and with the first that says something else.
pub(crate) fn predict(life: &Life) -> Vec<Allowed> {
    let runs: Vec<Vec<Run>> = life.cores.iter().map(|core| runs_of(core, life)).collect();
    let cores = runs.iter().map(|runs| Core {
        errors: (0..)
            .zip(runs)
            .flat_map(|(index, run)| {
                run.errors
                    .iter()
                    .map(move |(kind, sure)| (index, *kind, *sure))
            })
            .collect(),
        ..Core::default()
    });
    let mut worlds = vec![World {
        cores: cores.collect(),
    }];
    let mut predictions = Vec::new();
    for execution in &life.executions {
        let mut allowed = Allowed::new();
        let mut next: Vec<World> = Vec::new();
        for world in &worlds {
            for (status, after) in possible(world, &runs, execution) {
                allowed.insert(status);
                if status == execution.status && !next.contains(&after) {
                    next.push(after);
                }
            }
        }
        predictions.push(allowed);
        worlds = next;
        if worlds.is_empty() {
            break;
        }
    }
    predictions
}

/// What a core does on its doorbells, as far as it serves them.
fn runs_of(doorbells: &[Doorbell], life: &Life) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for doorbell in doorbells {
        let mut doorbell = doorbell.clone();
        if runs.last().is_some_and(|last| last.hangs) {
            break;
        }
        if runs.last().is_some_and(|last| last.aborts) {
            doorbell.faults.push(xu_device::simulated::Fault::DmaAbort);
        }
        let after = |bound: fn(&Run) -> u64| runs.last().map_or(0, bound).max(doorbell.at_ns);
        let begin = Begin {
            earliest_ns: after(|last| last.ends_earliest_ns),
            latest_ns: after(|last| last.latest_ns),
            at_most_ns: life.at_most_ns,
        };
        runs.extend(posted::run(runs.len(), &doorbell, begin, life.chained));
    }
    runs
}

/// Every status that `execution` may have in `world`, with the world after it.
fn possible(world: &World, runs: &[Vec<Run>], execution: &Execution) -> Vec<(i32, World)> {
    if execution.device_lost {
        return lost(world, runs, execution);
    }
    readings(world, runs, execution.ended_ns)
        .iter()
        .flat_map(|readings| {
            let mut all = ended(world, runs, execution, readings);
            all.extend(completed(world, runs, execution, readings));
            all
        })
        .collect()
}

/// The device is gone: a hardware error. Only what was read of the error ring for the execution before, and belongs to
/// this one, can say more.
fn lost(world: &World, runs: &[Vec<Run>], execution: &Execution) -> Vec<(i32, World)> {
    let mut reported = Found::default();
    for (core, runs) in world.cores.iter().zip(runs) {
        let is_first = core.queues.iter().all(|queue| queue.next_run == 0);
        for (run, kind, _) in core.errors.iter().filter(|_| !is_first) {
            let status = verdict::of_error(*kind);
            let at_ns = execution.ended_ns;
            add(
                &mut reported,
                status,
                Certainty::Possible,
                runs,
                *run,
                at_ns,
            );
        }
    }
    verdict::resolve(Some(verdict::HW_ERROR), &reported, &Found::default())
        .into_iter()
        .map(|status| (status, world.clone()))
        .collect()
}

/// Readings of all queues of all cores: one entry for each combination.
fn readings(world: &World, runs: &[Vec<Run>], at_ns: u64) -> Vec<Vec<Vec<Reading>>> {
    let mut combinations = vec![Vec::new()];
    for (core, runs) in world.cores.iter().zip(runs) {
        let mut of_core = vec![Vec::new()];
        for (engine, queue) in core.queues.iter().enumerate() {
            let readings = reading::read(queue, runs, engine, at_ns);
            of_core = product(&of_core, &readings);
        }
        combinations = product(&combinations, &of_core);
    }
    combinations
}

fn product<T: Clone>(beginnings: &[Vec<T>], ends: &[T]) -> Vec<Vec<T>> {
    beginnings
        .iter()
        .flat_map(|beginning| {
            ends.iter().map(move |end| {
                let mut longer = beginning.clone();
                longer.push(end.clone());
                longer
            })
        })
        .collect()
}

/// The ways in which the wait can have ended before every engine was complete. The world after it does not matter.
fn ended(
    world: &World,
    runs: &[Vec<Run>],
    execution: &Execution,
    readings: &[Vec<Reading>],
) -> Vec<(i32, World)> {
    let mut verdicts = Allowed::new();
    let mut sure = false;
    for (runs, readings) in runs.iter().zip(readings) {
        for reading in readings {
            if let State::Ended(verdict) = reading.state
                && execution.is_in_time(reading.earliest_ns)
                && execution.is_prompt(reading.latest_ns)
            {
                sure |= reading.sure;
                verdicts.extend(statuses_of(verdict, runs, execution.ended_ns));
            }
        }
    }
    let pending = |readings: &[Reading]| {
        readings
            .iter()
            .any(|reading| reading.state == State::Pending || !reading.sure)
    };
    if !sure && execution.ended_ns >= execution.deadline_ns {
        for (runs, readings) in runs.iter().zip(readings) {
            if pending(readings) {
                verdicts.extend(overflow_or(verdict::TIMEOUT, runs, execution.ended_ns));
            }
        }
    }
    let mut reported = Found::default();
    let mut behind = Found::default();
    for ((core, runs), readings) in world.cores.iter().zip(runs).zip(readings) {
        let current = readings
            .iter()
            .map(|reading| reading.run)
            .min()
            .unwrap_or(0);
        let is_over = !pending(readings)
            && readings
                .iter()
                .all(|reading| reading.state == State::Complete && reading.true_stamp);
        for (run, kind, sure) in &core.errors {
            if *run <= current || !is_over {
                let sure = if *run <= current {
                    *sure
                } else {
                    Certainty::Possible
                };
                add(
                    &mut reported,
                    verdict::of_error(*kind),
                    sure,
                    runs,
                    *run,
                    execution.ended_ns,
                );
            }
        }
        look_behind(&mut behind, runs, readings, false, execution.ended_ns);
    }
    verdicts
        .into_iter()
        .flat_map(|verdict| verdict::resolve(Some(verdict), &reported, &behind))
        .map(|status| (status, world.clone()))
        .collect()
}

/// The ways in which every engine can have completed.
fn completed(
    world: &World,
    runs: &[Vec<Run>],
    execution: &Execution,
    readings: &[Vec<Reading>],
) -> Vec<(i32, World)> {
    let all = || readings.iter().flatten();
    let latest_ns = all().map(|reading| reading.latest_ns).max();
    if !execution.is_prompt(latest_ns.unwrap_or(0))
        || !all().all(|reading| {
            reading.state == State::Complete && execution.is_in_time(reading.earliest_ns)
        })
    {
        return Vec::new();
    }
    let mut behind = Found::default();
    // Which errors are this execution's: for each choice, what was found and what is left.
    let mut choices = vec![(Found::default(), World { cores: Vec::new() })];
    for ((core, runs), readings) in world.cores.iter().zip(runs).zip(readings) {
        let first = readings
            .iter()
            .map(|reading| reading.run)
            .min()
            .unwrap_or(0);
        let last = readings
            .iter()
            .map(|reading| reading.run)
            .max()
            .unwrap_or(0);
        let true_stamps = readings.iter().all(|reading| reading.true_stamp);
        look_behind(&mut behind, runs, readings, true, execution.ended_ns);
        let queues = std::array::from_fn(|engine| readings[engine].left.clone());
        let out_of_bounds = readings.iter().any(|reading| reading.out_of_bounds);
        for (found, after) in &mut choices {
            found
                .certain
                .extend(out_of_bounds.then_some(verdict::OUT_OF_BOUNDS));
            after.cores.push(Core {
                queues: Clone::clone(&queues),
                errors: Vec::new(),
            });
        }
        for error in &core.errors {
            let (run, kind, sure) = *error;
            let may_be =
                runs[run].begins_earliest_ns <= execution.ended_ns && (run <= last || !true_stamps);
            let must_be = run <= first && true_stamps && sure == Certainty::Certain;
            let mut next = Vec::new();
            for (found, after) in choices {
                if may_be {
                    let mut found: Found = found.clone();
                    found.certain.extend(verdict::of_error(kind));
                    next.push((found, after.clone()));
                }
                if !must_be {
                    let mut after: World = after;
                    if let Some(core) = after.cores.last_mut() {
                        core.errors.push(*error);
                    }
                    next.push((found, after));
                }
            }
            choices = next;
        }
    }
    choices
        .into_iter()
        .flat_map(|(found, after)| {
            let statuses = verdict::resolve(None, &found, &behind);
            statuses
                .into_iter()
                .map(move |status| (status, after.clone()))
        })
        .collect()
}

impl Execution {
    /// Whether something that came at `earliest_ns` or later came before the time limit was judged.
    fn is_in_time(&self, earliest_ns: u64) -> bool {
        let mut late = self.looks_ns.iter().filter(|at| **at >= self.deadline_ns);
        late.nth(LOOKS)
            .is_none_or(|judged_ns| earliest_ns <= *judged_ns)
    }

    /// Whether what lay in the rings after `latest_ns` was judged at once, and not left to the time limit.
    fn is_prompt(&self, latest_ns: u64) -> bool {
        self.looks_ns.iter().filter(|at| **at > latest_ns).count() <= LOOKS
    }
}

fn statuses_of(verdict: Verdict, runs: &[Run], at_ns: u64) -> Allowed {
    match verdict {
        Verdict::OutOfOrder => overflow_or(verdict::FAILURE, runs, at_ns),
        Verdict::Unexpected => Allowed::from([verdict::FAILURE]),
        Verdict::Hardware => Allowed::from([verdict::HW_ERROR]),
        Verdict::Lost => Allowed::from([verdict::OVERFLOW]),
    }
}
