//! Two cores that disagree: every pair of faults, one on each core, with every record of both in its ring before the
//! first look.
//!
//! What is expected comes from three lists of `xu.md` section 6: what ends the wait at once, what lets it end at the
//! time limit, and what the reports say in the end; and from the priorities of 2.11.

use crate::lane::Lane;
use crate::plan::Scenario;
use crate::table::{LIMIT, on, scenario};
use crate::verdict::{
    self, Allowed, DMA_ABORT, ECC, FAILURE, HBM, HW_ERROR, NUMERICAL, OUT_OF_BOUNDS, OVERFLOW,
    REPAIRABLE, SUCCESS, TIMEOUT, WITH_ERROR,
};
use xu_abi::Engine;
use xu_device::Device;
use xu_device::harvest::Progress;
use xu_device::simulated::{Fault, FaultPlan, Mark};

/// How a fault shows.
#[derive(Clone, Debug)]
struct Shows {
    fault: Fault,
    /// Ends the wait as soon as it is read.
    at_once: Option<i32>,
    /// Lets the wait end at the time limit.
    at_limit: Option<i32>,
    /// Said in the end, by records, counters or the request queue.
    at_last: Vec<i32>,
}

fn shows(fault: Fault) -> Shows {
    let engine = Engine::Act;
    let (at_once, at_limit, at_last) = match &fault {
        Fault::HangEngine { .. } | Fault::DoorbellLost => (None, Some(TIMEOUT), vec![]),
        Fault::DropRecord {
            record: Mark::End, ..
        } => (None, Some(TIMEOUT), vec![]),
        Fault::Overflow { latched: true, .. } => (None, Some(OVERFLOW), vec![]),
        Fault::Overflow { latched: false, .. } => (None, Some(TIMEOUT), vec![]),
        Fault::HbmUncorrectable { repairable, .. } => {
            let counted = if *repairable { REPAIRABLE } else { HBM };
            (None, Some(TIMEOUT), vec![counted])
        }
        Fault::Custom { sub_id: 11, .. } => (Some(HW_ERROR), None, vec![]),
        Fault::Custom { .. } => (None, None, vec![OUT_OF_BOUNDS]),
        Fault::DropRecord { .. }
        | Fault::DuplicateRecord { .. }
        | Fault::ReorderRecords { .. }
        | Fault::UnknownSubtype { .. }
        | Fault::CorruptRecord { .. }
        | Fault::BadDebugHint { .. } => (Some(FAILURE), None, vec![]),
        Fault::Numerical => (None, None, vec![NUMERICAL]),
        Fault::Transient | Fault::Sequencer => (None, None, vec![WITH_ERROR]),
        Fault::EccUncorrectable => (None, None, vec![ECC]),
        Fault::UnknownError { .. } => (None, None, vec![HW_ERROR]),
        Fault::DmaAbort => (None, None, vec![WITH_ERROR, DMA_ABORT]),
        Fault::SlowEngine { .. } | Fault::LateEnd { .. } | Fault::EccCorrectable => {
            (None, None, vec![])
        }
        other => unreachable!("{other:?} on {engine:?} is not of this list"),
    };
    Shows {
        fault,
        at_once,
        at_limit,
        at_last,
    }
}

/// One of each kind that shows in an execution.
fn faults() -> Vec<Shows> {
    let engine = Engine::Act;
    [
        Fault::EccCorrectable,
        Fault::SlowEngine {
            engine,
            by_ns: 5_000,
        },
        Fault::LateEnd {
            engine,
            by_ns: 5_000,
        },
        Fault::HangEngine { engine },
        Fault::DropRecord {
            engine,
            record: Mark::Start,
        },
        Fault::DropRecord {
            engine,
            record: Mark::End,
        },
        Fault::DuplicateRecord {
            engine,
            record: Mark::Start,
        },
        Fault::ReorderRecords { engine },
        Fault::CorruptRecord {
            engine,
            record: Mark::End,
            byte: 6,
            with: 0xF0,
        },
        Fault::UnknownSubtype { engine, subtype: 9 },
        Fault::BadDebugHint { engine, hint: 2 },
        Fault::Custom { engine, sub_id: 3 },
        Fault::Custom { engine, sub_id: 11 },
        Fault::Overflow {
            engine,
            latched: true,
        },
        Fault::Overflow {
            engine,
            latched: false,
        },
        Fault::Numerical,
        Fault::Transient,
        Fault::Sequencer,
        Fault::EccUncorrectable,
        Fault::UnknownError { id: 7 },
        Fault::HbmUncorrectable {
            engine,
            repairable: false,
        },
        Fault::HbmUncorrectable {
            engine,
            repairable: true,
        },
        Fault::DmaAbort,
        Fault::DoorbellLost,
    ]
    .map(shows)
    .into()
}

/// The same without how they show.
pub(crate) fn each_fault() -> Vec<Fault> {
    faults().into_iter().map(|one| one.fault).collect()
}

/// The statuses that the two together may have: more than one where priorities tie.
fn expected(first: &Shows, second: &Shows) -> Allowed {
    let both = [first, second];
    let strongest = |statuses: Vec<i32>| {
        let top = statuses
            .iter()
            .map(|status| verdict::priority(*status))
            .max();
        let strongest = statuses
            .into_iter()
            .filter(|one| Some(verdict::priority(*one)) == top);
        strongest.collect::<Allowed>()
    };
    // Both are in the rings at the first look, which reads every core.
    let mut verdicts = strongest(both.iter().filter_map(|one| one.at_once).collect());
    if verdicts.is_empty() {
        verdicts = strongest(both.iter().filter_map(|one| one.at_limit).collect());
    }
    let said: Vec<i32> = both.iter().flat_map(|one| one.at_last.clone()).collect();
    let ends: Vec<i32> = said
        .iter()
        .copied()
        .filter(|one| verdict::ends_unit(*one))
        .collect();
    if verdicts.is_empty() {
        return match (said.is_empty(), ends.is_empty()) {
            (true, _) => Allowed::from([SUCCESS]),
            (false, true) => strongest(said),
            (false, false) => strongest(ends),
        };
    }
    let outranked = |verdict: i32| {
        let mut stronger = ends.clone();
        stronger.retain(|one| verdict::priority(*one) > verdict::priority(verdict));
        if stronger.is_empty() {
            Allowed::from([verdict])
        } else {
            strongest(stronger)
        }
    };
    verdicts.into_iter().flat_map(outranked).collect()
}

/// The status of one execution whose records are all there at the first look.
fn harvested(scenario: &Scenario) -> i32 {
    let mut lane = Lane::open(scenario).unwrap();
    let staged = lane.stage().unwrap();
    lane.machine.run_until_idle();
    lane.parts
        .harvester
        .begin(lane.machine.now_ns(), staged, Some(LIMIT));
    for passed in [false, true] {
        if passed {
            lane.machine.advance(LIMIT);
        }
        for _ in 0..20 {
            match lane.look() {
                Progress::Continue => {}
                Progress::Done(report) => {
                    let status = verdict::number(report.status);
                    assert!(!verdict::ends_unit(status), "{report:?}");
                    return status;
                }
                Progress::Fatal(report, _) => {
                    let status = verdict::number(report.status);
                    assert!(verdict::ends_unit(status), "{report:?}");
                    return status;
                }
            }
        }
    }
    panic!("the execution does not end: {scenario:?}");
}

#[test]
fn the_status_of_two_cores_that_disagree_is_that_of_the_higher_priority() {
    let faults = faults();
    let mut wrong = Vec::new();
    for first in &faults {
        for second in &faults {
            let rules = vec![
                on(0, 0, first.fault.clone()),
                on(1, 0, second.fault.clone()),
            ];
            let scenario = Scenario {
                tpbs: 2,
                plan: FaultPlan { rules },
                ..scenario(1, &[])
            };
            let (status, allowed) = (harvested(&scenario), expected(first, second));
            if !allowed.contains(&status) {
                wrong.push(format!(
                    "{:?} and {:?}: {status}, not {allowed:?}",
                    first.fault, second.fault
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
