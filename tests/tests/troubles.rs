//! Trouble with a device as an application sees it: causes, times that cannot be true, refusals that are counted.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use lane_tests::{DIGITS, Meddler, Parts, Rig};
use nrta::simulated::{Engine, Fault, Mark, Rule, When};
use nrta::{
    Core, CoreCounter, Device, Execution, LoadedModel, Model, Pending, Refused, Runtime, Status,
    Tensor, TpbIndex,
};
use std::sync::Arc;
use std::time::Duration;

lane_tests::on_both! {
    f6_what_a_failing_doorbell_takes_down_with_it_says_why,
    d4_an_end_in_the_far_future_is_no_time with corrupted(Mark::End, 15),
    d4_a_start_in_the_far_future_is_no_time with corrupted(Mark::Start, 15),
    d4_an_end_in_the_near_future_is_no_time with corrupted(Mark::End, 13),
    what_a_full_queue_refuses_is_counted,
}

/// A model of one core and everything that an execution of it needs.
struct Bench {
    core: Core,
    model: LoadedModel,
    image: Tensor,
    outputs: [Tensor; 2],
    /// Last, so that everything else goes first.
    runtime: Runtime,
}

impl Bench {
    fn of(runtime: Runtime) -> Self {
        let core = runtime.core(0).unwrap();
        let model = core
            .load(&Model::open(format!("{DIGITS}/model.xum")).unwrap(), 1)
            .unwrap();
        Self {
            image: model.allocate_input(0).unwrap(),
            outputs: [0, 1].map(|index| model.allocate_output(index).unwrap()),
            model,
            core,
            runtime,
        }
    }

    fn execute(&self) -> Result<Pending<Execution>, Refused<()>> {
        let outputs = [&self.outputs[0], &self.outputs[1]];
        self.core
            .compute()
            .execute(&self.model, &[&self.image], &outputs)
    }

    fn counter(&self, counter: CoreCounter) -> u64 {
        let counters = self.runtime.counters();
        counters.counter(TpbIndex::new(0), counter).unwrap()
    }
}

/// A device that meddles, and a runtime over it whose compute queue takes `limit` requests.
fn meddled(rig: &Rig, limit: u64) -> (Arc<Meddler>, Bench) {
    let device = rig.meddler();
    let builder = Runtime::builder().device(Arc::clone(&device) as Arc<dyn Device>);
    let bench = Bench::of(builder.compute_limit(limit).open().unwrap());
    (device, bench)
}

fn f6_what_a_failing_doorbell_takes_down_with_it_says_why(rig: &Rig) {
    let (device, bench) = meddled(rig, 8);
    device.hold_doorbells();
    let ahead = bench.execute().unwrap();
    device.fail_doorbells();
    assert_eq!(bench.execute().unwrap_err().status(), Status::HW_ERROR);
    let error = ahead.wait().unwrap_err();
    assert_eq!(error.status, Status::EXEC_UNIT_UNRECOVERABLE);
    let cause = bench.core.compute().cause().unwrap();
    assert!(
        error
            .detail
            .is_some_and(|detail| cause.text.contains(&detail))
    );
}

/// A byte of the time of each such record of PE is wrong.
fn corrupted(record: Mark, byte: u8) -> Parts {
    let fault = Fault::CorruptRecord {
        engine: Engine::Pe,
        record,
        byte,
        with: 0xFF,
    };
    let when = When::default();
    Parts::failing(vec![Rule { when, fault }])
}

fn d4_an_end_in_the_far_future_is_no_time(rig: &Rig) {
    times_that_cannot_be_true_are_none_and_are_not_counted(rig);
}

fn d4_a_start_in_the_far_future_is_no_time(rig: &Rig) {
    times_that_cannot_be_true_are_none_and_are_not_counted(rig);
}

fn d4_an_end_in_the_near_future_is_no_time(rig: &Rig) {
    times_that_cannot_be_true_are_none_and_are_not_counted(rig);
}

fn times_that_cannot_be_true_are_none_and_are_not_counted(rig: &Rig) {
    let bench = Bench::of(rig.builder().open().unwrap());
    let ran = bench.execute().unwrap().wait().unwrap();
    // Stamps may be off by a millisecond.
    let limit = bench.counter(CoreCounter::LATENCY_TOTAL) + 2_000;
    assert!(bench.counter(CoreCounter::NC_TIME) <= limit);
    let limit = Duration::from_micros(limit);
    assert!(ran.device_time.is_none_or(|time| time <= limit), "{ran:?}");
}

fn what_a_full_queue_refuses_is_counted(rig: &Rig) {
    let (device, bench) = meddled(rig, 1);
    device.hold_doorbells();
    let first = bench.execute().unwrap();
    for _ in 0..3 {
        assert!(bench.execute().unwrap_err().is_queue_full());
    }
    device.release_doorbells();
    first.wait().unwrap();
    assert_eq!(bench.counter(CoreCounter::INFER_FAILED_TO_QUEUE), 3);
}
