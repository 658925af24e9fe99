//! What a runtime counts of its executions, by the driver's names.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use lane_tests::{DIGITS, Parts, Rig};
use nrta::{CoreCounter, Model, Runtime, TpbIndex};

lane_tests::on_both! {
    every_physical_core_of_an_execution_counts_it with Parts::cores(4),
}

/// Executes the digits `times` times on logical core 0, and gives the runtime back.
fn execute(rig: &Rig, tpbs_per_core: u32, times: u32) -> Runtime {
    let runtime = rig
        .builder()
        .cores(2)
        .tpbs_per_core(tpbs_per_core)
        .open()
        .unwrap();
    let core = runtime.core(0).unwrap();
    let model = Model::open(format!("{DIGITS}/model.xum")).unwrap();
    let loaded = core.load(&model, 4).unwrap();
    let image = loaded.allocate_input(0).unwrap();
    let outputs = [0, 1].map(|index| loaded.allocate_output(index).unwrap());
    let moves = core.tensor_op(0).unwrap();
    moves
        .write(&image, 0, vec![0; 256])
        .unwrap()
        .wait()
        .unwrap();
    for _ in 0..times {
        core.compute()
            .execute(&loaded, &[&image], &[&outputs[0], &outputs[1]])
            .unwrap()
            .wait()
            .unwrap();
    }
    runtime
}

fn every_physical_core_of_an_execution_counts_it(rig: &Rig) {
    for tpbs_per_core in [1, 2] {
        let runtime = execute(rig, tpbs_per_core, 3);
        let counters = runtime.counters();
        let counter = |tpb, counter| {
            counters
                .counter(TpbIndex::new(tpb), counter)
                .unwrap_or_default()
        };
        for tpb in 0..4 {
            let ran = u64::from(u32::from(tpb) < tpbs_per_core);
            assert_eq!(counter(tpb, CoreCounter::INFER_COMPLETED), 3 * ran);
            for latency in [
                CoreCounter::LATENCY_DEVICE,
                CoreCounter::LATENCY_TOTAL,
                CoreCounter::NC_TIME,
            ] {
                assert_eq!(counter(tpb, latency).min(1), ran, "{latency:?} of {tpb}");
            }
            assert_eq!(counter(tpb, CoreCounter::CC_TIME), 0);
            assert_eq!(counter(tpb, CoreCounter::INFER_TIMED_OUT), 0);
        }
        let total = counter(0, CoreCounter::LATENCY_TOTAL);
        let (device, core) = (
            counter(0, CoreCounter::LATENCY_DEVICE),
            counter(0, CoreCounter::NC_TIME),
        );
        assert!(total >= device && total >= core, "{total} {device} {core}");
    }
}
