//! What an execution comes to when its records are lost, wrong or out of order: the status of `xu.md` section 6, whichever way the
//! records come.
//!
//! The tables are tried exhaustively on the simulated machine, in virtual time (`crates/xu-device/tests/faults`). Here a row of each
//! kind goes the whole way: through rings in memory of the driver, its registers and its overflow cause.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use lane_tests::{DIGITS, Parts, Rig};
use nrta::simulated::{Engine, Fault, Mark, Rule, When};
use nrta::{Model, Status};
use std::time::Duration;

/// For executions that do not end by themselves. Whatever it is, they end by it.
const LIMIT: Duration = Duration::from_millis(200);
const ENGINE: Engine = Engine::Sp;

lane_tests::on_both! {
    d5_a_lost_end_is_a_timeout with first(dropped(Mark::End)),
    d3_a_ring_that_is_full_is_an_overflow with first(full(true)),
    d3_a_ring_that_is_full_without_an_overflow_cause_is_a_timeout with first(full(false)),
    d6_an_engine_that_hangs_is_a_timeout with first(Fault::HangEngine { engine: ENGINE }),
    d5_a_lost_start_is_a_failure with first(dropped(Mark::Start)),
    d5_a_second_start_is_a_failure with first(Fault::DuplicateRecord { engine: ENGINE, record: Mark::Start }),
    d5_records_out_of_order_are_a_failure with first(Fault::ReorderRecords { engine: ENGINE }),
    d4_a_record_out_of_bounds_completes_with_its_status with first(Fault::Custom { engine: ENGINE, sub_id: 3 }),
    d4_a_transient_error_completes_with_error with first(Fault::Transient),
    d4_a_numerical_error_completes_with_error with first(Fault::Numerical),
    d4_an_uncorrectable_error_ends_the_unit with first(Fault::EccUncorrectable),
    d4_a_request_queue_that_aborts_ends_the_unit with first(Fault::DmaAbort),
    d2_a_doorbell_that_is_lost_is_a_timeout with first(Fault::DoorbellLost),
}

/// Something goes wrong with the first execution of core 0.
fn first(fault: Fault) -> Parts {
    let when = When {
        core: Some(0),
        from: 0,
        times: Some(1),
        probability: None,
    };
    Parts::failing(vec![Rule { when, fault }])
}

fn dropped(record: Mark) -> Fault {
    Fault::DropRecord {
        engine: ENGINE,
        record,
    }
}

fn full(latched: bool) -> Fault {
    Fault::Overflow {
        engine: ENGINE,
        latched,
    }
}

/// Executes twice: the first comes to `status`. The second succeeds, or is unrecoverable when the first has ended the unit.
#[track_caller]
fn assert_status(rig: &Rig, status: Status, ends_unit: bool) {
    let limit = [
        Status::TIMEOUT,
        Status::EXEC_SW_NQ_OVERFLOW,
        Status::EXEC_HW_ERR_DMA_ABORT,
    ]
    .contains(&status)
    .then_some(LIMIT);
    let runtime = rig.builder().exec_timeout(limit).open().unwrap();
    let core = runtime.core(0).unwrap();
    let model = Model::open(format!("{DIGITS}/model.xum")).unwrap();
    let loaded = core.load(&model, 1).unwrap();
    let image = loaded.allocate_input(0).unwrap();
    let outputs = [0, 1].map(|index| loaded.allocate_output(index).unwrap());
    let execute = || {
        let outputs = [&outputs[0], &outputs[1]];
        let pending = core.compute().execute(&loaded, &[&image], &outputs);
        pending.map_or_else(
            |refused| Err(refused.status()),
            |pending| pending.wait().map(drop).map_err(|error| error.status),
        )
    };
    assert_eq!(execute(), Err(status));
    let second = if ends_unit {
        Err(Status::EXEC_UNIT_UNRECOVERABLE)
    } else {
        Ok(())
    };
    assert_eq!(execute(), second);
    runtime.close();
}

fn d5_a_lost_end_is_a_timeout(rig: &Rig) {
    assert_status(rig, Status::TIMEOUT, true);
}

fn d3_a_ring_that_is_full_is_an_overflow(rig: &Rig) {
    assert_status(rig, Status::EXEC_SW_NQ_OVERFLOW, true);
}

fn d3_a_ring_that_is_full_without_an_overflow_cause_is_a_timeout(rig: &Rig) {
    assert_status(rig, Status::TIMEOUT, true);
}

fn d6_an_engine_that_hangs_is_a_timeout(rig: &Rig) {
    assert_status(rig, Status::TIMEOUT, true);
}

fn d5_a_lost_start_is_a_failure(rig: &Rig) {
    assert_status(rig, Status::FAILURE, true);
}

fn d5_a_second_start_is_a_failure(rig: &Rig) {
    assert_status(rig, Status::FAILURE, true);
}

fn d5_records_out_of_order_are_a_failure(rig: &Rig) {
    assert_status(rig, Status::FAILURE, true);
}

fn d4_a_record_out_of_bounds_completes_with_its_status(rig: &Rig) {
    assert_status(rig, Status::EXEC_OOB, false);
}

fn d4_a_transient_error_completes_with_error(rig: &Rig) {
    assert_status(rig, Status::EXEC_COMPLETED_WITH_ERR, false);
}

fn d4_a_numerical_error_completes_with_error(rig: &Rig) {
    assert_status(rig, Status::EXEC_COMPLETED_WITH_NUM_ERR, false);
}

fn d4_an_uncorrectable_error_ends_the_unit(rig: &Rig) {
    assert_status(rig, Status::EXEC_HW_ERR_NC_UE, true);
}

fn d4_a_request_queue_that_aborts_ends_the_unit(rig: &Rig) {
    assert_status(rig, Status::EXEC_HW_ERR_DMA_ABORT, true);
}

fn d2_a_doorbell_that_is_lost_is_a_timeout(rig: &Rig) {
    assert_status(rig, Status::TIMEOUT, true);
}
