//! Closing a runtime with a deadline: a report instead of a wait, and nothing freed that the device may still touch.
//!
//! Failure kind F7; spec `xu.md` section 4, shutdown.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use lane_tests::{DIGITS, Meddler};
use nrta::{CloseError, Model, Runtime, Status};
use std::sync::Arc;
use std::time::Duration;
use xu_device::simulated::{Machine, MachineConfig};

#[test]
fn f7_an_idle_runtime_closes_in_no_time() {
    for _ in 0..20 {
        let runtime = Runtime::builder().cores(2).open().unwrap();
        let core = runtime.core(0).unwrap();
        runtime.close_within(Duration::ZERO).unwrap();
        assert_eq!(core.allocate(1).unwrap_err().status(), Status::CLOSED);
    }
}

#[test]
fn f7_a_late_close_reports_and_the_requests_go_on() {
    let device = Meddler::new(Machine::start(MachineConfig::default()).unwrap());
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
