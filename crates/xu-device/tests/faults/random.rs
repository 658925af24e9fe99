//! The property: in every scenario each execution completes once, with a status that the oracle predicts.
//!
//! | variable | meaning |
//! |---|---|
//! | `XU_FAULTS_SEED` | this scenario alone, told in full |
//! | `XU_FAULTS_EXECUTIONS` | how many executions (20,000) |
//! | `XU_FAULTS_SEEDS` | how many scenarios, instead |
//! | `XU_FAULTS_MINUTES` | for so long, instead |
//! | `XU_FAULTS_FIRST` | the first seed (0) |

use crate::oracle;
use crate::plan::{self, Scenario};
use crate::run::{self, Ran};
use crate::verdict::{self, Allowed};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// What a run has covered.
#[derive(Debug, Default)]
struct Coverage {
    scenarios: u64,
    executions: u64,
    /// Executions that may say something else than success.
    faulty: u64,
    /// Those of them for which one status was allowed.
    decided: u64,
    /// How often each kind of fault was injected.
    hits: BTreeMap<&'static str, u64>,
    /// How often several statuses were allowed.
    open: BTreeMap<Vec<i32>, u64>,
    /// How often each status was seen.
    statuses: BTreeMap<i32, u64>,
}

/// When a run has had enough.
enum Until {
    Executions(u64),
    Scenarios(u64),
    Moment(Instant),
}

#[test]
fn each_execution_completes_once_with_the_status_that_the_specification_predicts() {
    if let Some(seed) = number("XU_FAULTS_SEED") {
        let scenario = Scenario::of(seed);
        println!("{scenario:#?}");
        println!("{:#?}", run(&scenario));
        demand(&scenario);
        return;
    }
    let mut coverage = Coverage::default();
    let until = Until::from_environment();
    let first = number("XU_FAULTS_FIRST").unwrap_or(0);
    while !until.is_reached(&coverage) {
        let scenario = Scenario::of(first.wrapping_add(coverage.scenarios));
        coverage.scenarios += 1;
        match verdict(&scenario) {
            Ok((ran, predictions)) => coverage.add(&ran, &predictions),
            Err(_) => demand(&scenario),
        }
    }
    println!("{coverage:#?}");
    assert!(coverage.executions > 0, "nothing was run");
    coverage.demand();
}

/// Fails with the smallest scenario that does.
#[track_caller]
fn demand(scenario: &Scenario) {
    let Err(why) = verdict(scenario) else { return };
    let mut smallest = (scenario.clone(), why);
    while let Some(simpler) = smallest.0.simpler().into_iter().find_map(|simpler| {
        let why = verdict(&simpler).err()?;
        Some((simpler, why))
    }) {
        smallest = simpler;
    }
    let (simplest, why) = smallest;
    panic!(
        "seed {}: {why}\n{simplest:#?}\nXU_FAULTS_SEED={} repeats the scenario it was found in",
        scenario.seed, scenario.seed
    );
}

/// Runs a scenario and judges it.
fn verdict(scenario: &Scenario) -> Result<(Ran, Vec<Allowed>), String> {
    let ran = run(scenario)?;
    let mut all = Vec::new();
    for life in &ran.lives {
        let predictions = oracle::predict(life);
        for (index, (execution, allowed)) in life.executions.iter().zip(&predictions).enumerate() {
            if !allowed.contains(&execution.status) {
                return Err(format!(
                    "execution {index} ended with {} at {}, and {allowed:?} is allowed; {life:#?}",
                    execution.status, execution.ended_ns
                ));
            }
        }
        all.extend(predictions);
    }
    Ok((ran, all))
}

/// Runs a scenario; a panic is a failure like any other.
fn run(scenario: &Scenario) -> Result<Ran, String> {
    catch_unwind(AssertUnwindSafe(|| run::run(scenario))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(format!("panic: {}", text.unwrap_or_default()))
    })
}

impl Coverage {
    fn add(&mut self, ran: &Ran, predictions: &[Allowed]) {
        self.executions += ran.statuses.len() as u64;
        for status in &ran.statuses {
            *self.statuses.entry(*status).or_default() += 1;
        }
        for fault in &ran.hits {
            *self.hits.entry(plan::kind(fault)).or_default() += 1;
        }
        for allowed in predictions {
            let is_faulty = *allowed != Allowed::from([verdict::SUCCESS]);
            self.faulty += u64::from(is_faulty);
            self.decided += u64::from(is_faulty && allowed.len() == 1);
            if allowed.len() > 1 {
                let open = allowed.iter().copied().collect();
                *self.open.entry(open).or_default() += 1;
            }
        }
    }

    /// A run of the usual length meets every fault often, every status, and few executions that are left open.
    fn demand(&self) {
        if self.executions < 10_000 {
            return;
        }
        assert!(
            self.decided * 10 >= self.faulty * 9,
            "{} of {}",
            self.decided,
            self.faulty
        );
        for kind in plan::KINDS {
            let hits = self.hits.get(kind).copied().unwrap_or(0);
            assert!(hits >= 20, "{kind} was injected {hits} times");
        }
        for status in STATUSES {
            assert!(
                self.statuses.contains_key(status),
                "{status} was never seen"
            );
        }
    }
}

/// Every status that an execution can have.
const STATUSES: &[i32] = &[
    verdict::SUCCESS,
    verdict::FAILURE,
    verdict::TIMEOUT,
    verdict::HW_ERROR,
    verdict::UNRECOVERABLE,
    verdict::NUMERICAL,
    verdict::WITH_ERROR,
    verdict::OUT_OF_BOUNDS,
    verdict::HBM,
    verdict::ECC,
    verdict::DMA_ABORT,
    verdict::OVERFLOW,
    verdict::REPAIRABLE,
];

impl Until {
    fn from_environment() -> Self {
        if let Some(minutes) = number("XU_FAULTS_MINUTES") {
            Self::Moment(Instant::now() + Duration::from_secs(60 * minutes))
        } else if let Some(scenarios) = number("XU_FAULTS_SEEDS") {
            Self::Scenarios(scenarios)
        } else {
            Self::Executions(number("XU_FAULTS_EXECUTIONS").unwrap_or(20_000))
        }
    }

    fn is_reached(&self, coverage: &Coverage) -> bool {
        match self {
            Self::Executions(executions) => coverage.executions >= *executions,
            Self::Scenarios(scenarios) => coverage.scenarios >= *scenarios,
            Self::Moment(moment) => Instant::now() >= *moment,
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable}={text} is not a number")),
    )
}

#[test]
fn every_fault_of_the_plan_is_drawn() {
    let rules = (0..20_000).flat_map(|seed| Scenario::of(seed).plan.rules);
    let drawn: BTreeSet<&str> = rules.map(|rule| plan::kind(&rule.fault)).collect();
    assert_eq!(drawn, BTreeSet::from(plan::KINDS));
}
