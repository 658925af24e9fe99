//! A core that does not come to rest: nothing that it may still touch is given back.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use lane_tests::{DIGITS, Rig};
use nrta::{Model, Runtime, Status};
use std::sync::Arc;
use std::time::Duration;

// Behind the driver a core that does not come to rest is reset before its memory is given back, and then opens again.
lane_tests::on_simulated! {
    d7_a_core_that_does_not_come_to_rest_keeps_its_memory_and_does_not_open_again,
}

fn d7_a_core_that_does_not_come_to_rest_keeps_its_memory_and_does_not_open_again(rig: &Rig) {
    let device = rig.meddler();
    let open = || {
        Runtime::builder()
            .device(Arc::clone(&device) as Arc<dyn nrta::Device>)
            .exec_timeout(Some(Duration::from_millis(30)))
            .open()
    };
    // PE waits for a semaphore that nobody raises.
    device.alter_writes(Box::new(|_, bytes| {
        let [opcode, engine, ..] = bytes[..] else {
            return;
        };
        if bytes.len() > 128 && bytes.len().is_multiple_of(64) && (opcode, engine) == (3, 0) {
            bytes[3] ^= 0x40;
        }
    }));
    let runtime = open().unwrap();
    let core = runtime.core(0).unwrap();
    let model = core
        .load(&Model::open(format!("{DIGITS}/model.xum")).unwrap(), 1)
        .unwrap();
    let input = model.allocate_input(0).unwrap();
    let outputs = [
        model.allocate_output(0).unwrap(),
        model.allocate_output(1).unwrap(),
    ];
    let run = core
        .compute()
        .execute(&model, &[&input], &[&outputs[0], &outputs[1]])
        .unwrap();
    assert_eq!(run.wait().unwrap_err().status, Status::TIMEOUT);
    drop((model, input, outputs, core));
    let before = device.released().len();
    drop(runtime);
    assert_eq!(
        device.released().len(),
        before,
        "the core may go on at any time"
    );
    let error = open().unwrap_err();
    assert_eq!(error.status(), Status::EXEC_NC_BUSY, "{error}");
}
