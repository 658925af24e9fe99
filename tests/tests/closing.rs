//! Closing a runtime with a deadline: a report instead of a wait, and nothing freed that the device may still touch.
//!
//! Failure kind F7; spec `xu.md` section 4, shutdown.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

mod held;

use held::Held;
use lane_tests::{DIGITS, Parts, Rig};
use nrta::{CloseError, Model, Runtime, Status};
use std::sync::Arc;
use std::time::Duration;
use xu_abi::{Engine, TpbIndex};
use xu_device::simulated::{Fault, Machine, MachineConfig, Rule, Time, When};
use xu_device::{Device, Place};

lane_tests::on_both! {
    f7_an_idle_runtime_closes_in_no_time,
    f7_a_late_close_reports_and_the_requests_go_on,
    f7_a_device_is_asked_for_rest_once_and_no_longer_than_the_deadline with slow_engines(),
    f7_that_a_runtime_is_closed_is_said_before_what_is_wrong_with_a_call with held::fatal(),
}

fn f7_an_idle_runtime_closes_in_no_time(rig: &Rig) {
    for _ in 0..20 {
        let runtime = rig.builder().cores(2).open().unwrap();
        let core = runtime.core(0).unwrap();
        runtime.close_within(Duration::ZERO).unwrap();
        assert_eq!(core.allocate(1).unwrap_err().status(), Status::CLOSED);
    }
}

fn f7_a_late_close_reports_and_the_requests_go_on(rig: &Rig) {
    let device = rig.meddler();
    let runtime = Runtime::builder()
        .device(Arc::clone(&device) as Arc<dyn nrta::Device>)
        .exec_timeout(None)
        .open()
        .unwrap();
    let core = runtime.core(0).unwrap();
    let model = Model::open(format!("{DIGITS}/model.xum")).unwrap();
    let model = core.load(&model, 1).unwrap();
    let input = model.allocate_input(0).unwrap();
    let outputs = [
        model.allocate_output(0).unwrap(),
        model.allocate_output(1).unwrap(),
    ];
    device.hold_doorbells();
    let execute = || {
        core.compute()
            .execute(&model, &[&input], &[&outputs[0], &outputs[1]])
    };
    let pending = [execute().unwrap(), execute().unwrap()];
    let oldest = pending[0].seq();

    let CloseError::Overdue(report) = runtime.close_within(Duration::from_millis(20)).unwrap_err()
    else {
        panic!("two executions are held back");
    };
    let [late] = report.in_flight[..] else {
        panic!("{report}");
    };
    assert_eq!(
        (late.xu, late.depth, late.oldest),
        (core.compute().xu(), 2, oldest)
    );
    assert_eq!(execute().unwrap_err().reason.status(), Status::CLOSED);

    device.release_doorbells();
    for pending in pending {
        pending.wait().unwrap();
    }
}

// Stops the time, so that a move stays on its way: only the simulated machine can.
#[test]
fn d7_memory_of_a_move_that_may_still_arrive_is_not_given_back_on_closing() {
    let machine = Machine::start(MachineConfig {
        time: Time::Virtual,
        hbm_bytes: 1 << 20,
        ..MachineConfig::default()
    })
    .unwrap();
    let runtime = Runtime::builder()
        .device(Arc::clone(&machine) as Arc<dyn Device>)
        .exec_timeout(Some(Duration::from_millis(1)))
        .open()
        .unwrap();
    let core = runtime.core(0).unwrap();
    let tensor = core.allocate(64).unwrap();
    let moves = core.tensor_op(0).unwrap();
    let mut pending = moves.write(&tensor, 0, vec![7; 64]).unwrap();
    // Time passes until the worker has posted the move and given it up; nobody lets the queue walk meanwhile.
    let error = loop {
        machine.advance(Duration::from_millis(1));
        match pending.wait_timeout(Duration::from_millis(1)) {
            Ok(outcome) => break outcome.unwrap_err(),
            Err(again) => pending = again,
        }
    };
    assert_eq!(error.status, Status::TIMEOUT);
    drop((tensor, moves, core));
    runtime.close();

    // The machine goes on, and what is free of its memory is somebody else's.
    let place = Place::Hbm(TpbIndex::new(0));
    let mut others = Vec::new();
    while let Ok(block) = machine.allocate(place, 64, 64) {
        machine.write(block, &[0; 64]).unwrap();
        others.push(block);
    }
    assert!(machine.run_until_idle());
    for block in others {
        let mut bytes = [0; 64];
        machine.read(block, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 64], "{block}");
    }
}

const CORES: u16 = 4;

/// Four cores on which nothing that was begun ends.
fn slow_engines() -> Parts {
    let fault = Fault::SlowEngine {
        engine: Engine::Pe,
        by_ns: u64::MAX,
    };
    let when = When::default();
    Parts {
        tpbs: CORES,
        ..Parts::failing(vec![Rule { when, fault }])
    }
}

fn f7_a_device_is_asked_for_rest_once_and_no_longer_than_the_deadline(rig: &Rig) {
    let device = rig.meddler();
    let runtime = Runtime::builder()
        .device(Arc::clone(&device) as Arc<dyn Device>)
        .cores(CORES.into())
        .tpbs_per_core(1)
        .exec_timeout(Some(Duration::from_millis(1)))
        .open()
        .unwrap();
    for index in 0..CORES {
        let core = runtime.core(index.into()).unwrap();
        let model = Model::open(format!("{DIGITS}/model.xum")).unwrap();
        let model = core.load(&model, 1).unwrap();
        let input = model.allocate_input(0).unwrap();
        let outputs = [0, 1].map(|index| model.allocate_output(index).unwrap());
        let run = core
            .compute()
            .execute(&model, &[&input], &[&outputs[0], &outputs[1]]);
        assert_eq!(run.unwrap().wait().unwrap_err().status, Status::TIMEOUT);
    }
    let before = device.asked_for_rest().len();
    let limit = Duration::from_millis(10);
    runtime.close_within(limit).unwrap();
    let asked = &device.asked_for_rest()[before..];
    assert!((1..=usize::from(CORES)).contains(&asked.len()), "{asked:?}");
    assert!(asked.iter().all(|asked| *asked <= limit), "{asked:?}");
}

fn f7_that_a_runtime_is_closed_is_said_before_what_is_wrong_with_a_call(rig: &Rig) {
    let held = Held::new(rig);
    held.release();
    held.execute().unwrap().wait().unwrap_err();
    let moves = held.core.tensor_op(0).unwrap();
    let write = moves.prepare().write(&held.input, 0, vec![1]).unwrap();
    let bound = held.bound();
    let execution = held.compute.prepare(&bound).unwrap();
    // Degraded first, while it is open.
    let refused = held.compute.execute_bound(&bound).unwrap_err();
    assert_eq!(refused.status(), Status::EXEC_UNIT_UNRECOVERABLE);
    let Held {
        runtime,
        compute,
        model,
        input,
        ..
    } = held;
    runtime.close();
    let statuses = [
        moves.write(&input, 1 << 40, vec![1]).unwrap_err().status(),
        moves.copy(&input, 0, &input, 1, 2).unwrap_err().status(),
        moves.schedule(write).unwrap_err().status(),
        compute.execute(&model, &[], &[]).unwrap_err().status(),
        compute.execute_bound(&bound).unwrap_err().status(),
        compute.schedule(execution).unwrap_err().status(),
    ];
    assert_eq!(statuses, [Status::CLOSED; 6]);
}
