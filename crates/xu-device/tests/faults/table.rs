//! One test for each row of the tables of `xu.md` section 6, reached through the machine by a fault.
//!
//! What is expected is written down here by hand; the oracle must agree, and the order of turns must not matter.

use crate::oracle;
use crate::plan::Scenario;
use crate::run;
use crate::verdict::{
    DMA_ABORT, ECC, FAILURE, HBM, HW_ERROR, NUMERICAL, OUT_OF_BOUNDS, OVERFLOW, REPAIRABLE,
    SUCCESS, TIMEOUT, WITH_ERROR,
};
use core::time::Duration;
use xu_abi::Engine;
use xu_device::nq::Mode;
use xu_device::simulated::{Costs, Fault, FaultPlan, Mark, Rule, When};

/// The time limit of every execution here.
pub(crate) const LIMIT: Duration = Duration::from_millis(50);
pub(crate) const LIMIT_NS: u64 = 50_000_000;

/// `executions` on one core, staged ahead, with these faults on the first of them.
pub(crate) fn scenario(executions: u32, faults: &[Fault]) -> Scenario {
    let rules = faults.iter().map(|fault| on(0, 0, fault.clone()));
    Scenario {
        seed: 1,
        arch: 2,
        tpbs: 1,
        clock_drift: 1.0003,
        costs: Costs::nominal(),
        chained: false,
        mode: Mode::Phase,
        collectives: false,
        transfers: false,
        depth: 8,
        executions,
        limit: LIMIT,
        plan: FaultPlan {
            rules: rules.collect(),
        },
        laziness: 1,
        turns: 0,
    }
}

/// `fault` on the given execution of a core.
pub(crate) fn on(core: u16, execution: u64, fault: Fault) -> Rule {
    let when = When {
        core: Some(core),
        from: execution,
        times: Some(1),
        probability: None,
    };
    Rule { when, fault }
}

/// The statuses of a scenario, under a few orders of turns and of what happens inside the machine.
#[track_caller]
pub(crate) fn assert_statuses(scenario: &Scenario, expected: &[i32]) {
    for turns in 0..12 {
        let scenario = Scenario {
            turns,
            seed: turns,
            ..scenario.clone()
        };
        let ran = run::run(&scenario).unwrap_or_else(|why| panic!("{why}\n{scenario:#?}"));
        assert_eq!(ran.statuses, expected, "{scenario:#?}\n{ran:#?}");
        for life in &ran.lives {
            let predicted = oracle::predict(life);
            for (execution, allowed) in life.executions.iter().zip(predicted) {
                assert!(allowed.contains(&execution.status), "{allowed:?}\n{ran:#?}");
            }
        }
    }
}

/// An execution with `faults`, alone, and with clean ones behind it when it leaves the unit usable.
#[track_caller]
pub(crate) fn assert_status(faults: &[Fault], status: i32) {
    assert_statuses(&scenario(1, faults), &[status]);
    if !crate::verdict::ends_unit(status) {
        assert_statuses(&scenario(3, faults), &[status, SUCCESS, SUCCESS]);
    }
}

pub(crate) const SP: Engine = Engine::Sp;

fn at_end(subtype: u16) -> Fault {
    Fault::UnknownSubtype {
        engine: SP,
        subtype,
    }
}

fn custom(sub_id: u16) -> Fault {
    Fault::Custom {
        engine: Engine::Dve,
        sub_id,
    }
}

pub(crate) fn drop_of(record: Mark) -> Fault {
    Fault::DropRecord { engine: SP, record }
}

fn twice(record: Mark) -> Fault {
    Fault::DuplicateRecord { engine: SP, record }
}

pub(crate) fn overflow(latched: bool) -> Fault {
    Fault::Overflow {
        engine: Engine::Pe,
        latched,
    }
}

// The matcher.

#[test]
fn start_then_end_on_every_engine_succeeds() {
    for tpbs in [1, 2] {
        for chained in [false, true] {
            let scenario = Scenario {
                tpbs,
                chained,
                ..scenario(5, &[])
            };
            assert_statuses(&scenario, &[SUCCESS; 5]);
        }
    }
}

#[test]
fn a_second_start_is_a_failure() {
    assert_status(&[twice(Mark::Start)], FAILURE);
    assert_status(&[at_end(2)], FAILURE);
}

#[test]
fn an_end_without_a_start_is_a_failure() {
    assert_status(&[drop_of(Mark::Start)], FAILURE);
    assert_status(&[Fault::ReorderRecords { engine: SP }], FAILURE);
}

#[test]
fn a_start_out_of_order_while_the_overflow_cause_is_latched_is_an_overflow() {
    // SP ends after PE, whose records are lost.
    let scenario = Scenario {
        chained: true,
        ..scenario(1, &[overflow(true), at_end(2)])
    };
    assert_statuses(&scenario, &[OVERFLOW]);
}

#[test]
fn an_end_out_of_order_while_the_overflow_cause_is_latched_is_an_overflow() {
    let faults = [overflow(true), drop_of(Mark::Start)];
    assert_statuses(
        &Scenario {
            chained: true,
            ..scenario(1, &faults)
        },
        &[OVERFLOW],
    );
    let faults = [overflow(false), drop_of(Mark::Start)];
    assert_statuses(
        &Scenario {
            chained: true,
            ..scenario(1, &faults)
        },
        &[FAILURE],
    );
}

#[test]
fn marks_of_collectives_are_taken_in_any_state_and_complete_nothing() {
    for subtype in [7u8, 8] {
        assert_status(&[at_end(subtype.into())], TIMEOUT);
        // The START is altered to the mark: END has no START then.
        let with = 2 ^ subtype;
        let altered = Fault::CorruptRecord {
            engine: SP,
            record: Mark::Start,
            byte: 6,
            with,
        };
        assert_status(&[altered], FAILURE);
    }
}

#[test]
fn custom_records_that_name_an_out_of_bounds_kind_complete_out_of_bounds() {
    for sub_id in [0, 1, 2, 3, 4, 5, 9, 10] {
        assert_status(&[custom(sub_id)], OUT_OF_BOUNDS);
    }
}

#[test]
fn custom_records_for_debugging_and_of_complete_tensors_succeed() {
    for sub_id in [6, 7, 8] {
        assert_status(&[custom(sub_id)], SUCCESS);
    }
}

#[test]
fn other_custom_records_are_hardware_errors() {
    for sub_id in [11, 12, 255, 256, 0x0106, 0xFFFF] {
        assert_status(&[custom(sub_id)], HW_ERROR);
    }
}

#[test]
fn custom_records_mean_the_same_on_the_third_generation() {
    for engine in Engine::ALL {
        for (sub_id, status) in [(3, OUT_OF_BOUNDS), (7, SUCCESS), (11, HW_ERROR)] {
            let faults = [Fault::Custom { engine, sub_id }];
            assert_statuses(
                &Scenario {
                    arch: 3,
                    ..scenario(1, &faults)
                },
                &[status],
            );
        }
    }
}

#[test]
fn other_subtypes_are_faults() {
    for subtype in [0, 1, 4, 5, 9, 10, 0x0102, 0x0203, 0xFFFF] {
        assert_status(&[at_end(subtype)], FAILURE);
    }
}

#[test]
fn a_debug_hint_is_0_or_1_or_a_fault() {
    for hint in 0..16 {
        let status = if hint < 2 { SUCCESS } else { FAILURE };
        assert_status(&[Fault::BadDebugHint { engine: SP, hint }], status);
    }
}

#[test]
fn instruction_line_tag_and_stamp_of_a_record_decide_nothing() {
    for byte in [0, 1, 3, 8, 9, 15] {
        for record in [Mark::Start, Mark::End] {
            let altered = Fault::CorruptRecord {
                engine: SP,
                record,
                byte,
                with: 0xFF,
            };
            assert_status(&[altered], SUCCESS);
        }
    }
}

// The error ring, the counters, the request queue.

#[test]
fn a_transient_error_completes_with_error() {
    assert_status(&[Fault::Transient], WITH_ERROR);
    assert_status(&[Fault::UnknownError { id: 0 }], WITH_ERROR);
}

#[test]
fn a_numerical_error_completes_with_numerical_error() {
    assert_status(&[Fault::Numerical], NUMERICAL);
}

#[test]
fn an_error_of_the_software_sequencer_completes_with_error() {
    assert_status(&[Fault::Sequencer], WITH_ERROR);
}

#[test]
fn an_uncorrectable_error_ends_the_unit() {
    assert_status(&[Fault::EccUncorrectable], ECC);
    // Without the counter, too.
    assert_status(&[Fault::UnknownError { id: 3 }], ECC);
}

#[test]
fn a_corrected_error_changes_nothing() {
    assert_status(&[Fault::EccCorrectable], SUCCESS);
}

#[test]
fn an_error_without_a_family_is_a_hardware_error() {
    for id in [5, 6, 11, 12, 128, 255] {
        assert_status(&[Fault::UnknownError { id }], HW_ERROR);
    }
}

#[test]
fn memory_errors_that_were_counted_name_the_status_of_an_execution_that_stops() {
    for engine in Engine::ALL {
        assert_status(
            &[Fault::HbmUncorrectable {
                engine,
                repairable: false,
            }],
            HBM,
        );
        assert_status(
            &[Fault::HbmUncorrectable {
                engine,
                repairable: true,
            }],
            REPAIRABLE,
        );
    }
}

#[test]
fn a_request_queue_that_has_aborted_is_the_end_of_the_unit() {
    assert_status(&[Fault::DmaAbort], DMA_ABORT);
    // Also of a request that is given up before it has passed its barrier.
    let before_a_barrier = Scenario {
        collectives: true,
        ..scenario(1, &[Fault::DmaAbort])
    };
    assert_statuses(&before_a_barrier, &[DMA_ABORT]);
}

#[test]
fn several_errors_of_one_core_complete_with_the_strongest() {
    assert_status(&[Fault::Numerical, Fault::Transient], WITH_ERROR);
    assert_status(&[Fault::Numerical, custom(3)], OUT_OF_BOUNDS);
    assert_status(&[Fault::Transient, Fault::UnknownError { id: 7 }], HW_ERROR);
    assert_status(
        &[Fault::UnknownError { id: 7 }, Fault::EccUncorrectable],
        ECC,
    );
}

#[test]
fn a_verdict_is_outranked_by_a_stronger_error_that_ends_the_unit_and_by_no_other() {
    let without_end = drop_of(Mark::End);
    for (error, status) in [
        (Fault::EccUncorrectable, ECC),
        (Fault::UnknownError { id: 7 }, TIMEOUT),
        (Fault::Transient, TIMEOUT),
        (Fault::Numerical, TIMEOUT),
        (custom(3), TIMEOUT),
        (Fault::EccCorrectable, TIMEOUT),
    ] {
        assert_status(&[without_end.clone(), error], status);
    }
}

#[test]
fn errors_of_a_core_that_has_not_ended_count_however_late_they_are() {
    // Every END but the last comes before the error, which no counter repeats.
    let faults = [drop_of(Mark::End), Fault::UnknownError { id: 3 }];
    let scenario = Scenario {
        chained: true,
        ..scenario(1, &faults)
    };
    assert_statuses(&scenario, &[ECC]);
}

// Whose record it is.

#[test]
fn d5_a_second_end_is_left_to_the_next_execution_and_fails_it() {
    let scenario = Scenario {
        depth: 1,
        ..scenario(2, &[twice(Mark::End)])
    };
    assert_statuses(&scenario, &[SUCCESS, FAILURE]);
}

#[test]
fn d5_an_error_of_the_execution_behind_is_not_charged_to_the_one_before() {
    for core in [0, 1] {
        let plan = FaultPlan {
            rules: vec![on(core, 2, Fault::Transient)],
        };
        let scenario = Scenario {
            tpbs: 2,
            plan,
            ..scenario(4, &[])
        };
        assert_statuses(&scenario, &[SUCCESS, SUCCESS, WITH_ERROR, SUCCESS]);
    }
}

#[test]
fn d5_one_core_may_be_far_behind_the_other() {
    let slow = Fault::SlowEngine {
        engine: SP,
        by_ns: LIMIT_NS / 2,
    };
    let rules = vec![
        on(1, 0, slow),
        on(0, 1, Fault::Numerical),
        on(0, 3, custom(3)),
    ];
    let scenario = Scenario {
        tpbs: 2,
        plan: FaultPlan { rules },
        ..scenario(4, &[])
    };
    assert_statuses(&scenario, &[SUCCESS, NUMERICAL, SUCCESS, OUT_OF_BOUNDS]);
}

#[test]
fn a_lost_device_is_a_hardware_error() {
    assert_statuses(&scenario(1, &[Fault::DeviceLost]), &[HW_ERROR]);
}
