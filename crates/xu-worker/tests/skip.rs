//! Requests that are skipped before they begin, on a unit that a test steps.
#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::sync::{Arc, Mutex};
use xu_worker::{
    Cause, Engine, Health, Lost, Progress, Runner, SKIPPED, Skip, Stage, StageError, Status, Step,
    Unit, UnitOptions, UnitRunner, XuId, XuType,
};

/// Requests that have begun, in this order; one that is named 13 breaks the engine where it is skipped.
type Log = Arc<Mutex<Vec<u32>>>;

struct Stub;

impl Stage for Stub {
    type Item = u32;
    type Outcome = (u32, Status);

    fn prepare(&mut self, _: &mut u32) -> Result<(), StageError> {
        Ok(())
    }

    fn commit(&mut self, _: &mut u32) -> Result<(), StageError> {
        Ok(())
    }
}

/// Whether requests can be skipped is a property of the type.
struct Logging<const CAN_SKIP: bool>(Log);

impl<const CAN_SKIP: bool> Engine for Logging<CAN_SKIP> {
    type Item = u32;
    type Outcome = (u32, Status);

    const CAN_SKIP: bool = CAN_SKIP;

    fn begin(&mut self, item: &mut u32) {
        self.0.lock().unwrap().push(*item);
    }

    fn progress(&mut self, _: &mut u32) -> Progress {
        Progress::Done(Status::SUCCESS)
    }

    fn quiesce(&mut self) -> Result<(), Cause> {
        Ok(())
    }

    fn finish(&mut self, item: u32, status: Status) -> (u32, Status) {
        assert!(item != 13, "on purpose");
        (item, status)
    }
}

fn unit<const CAN_SKIP: bool>() -> (Unit<Stub>, UnitRunner<Logging<CAN_SKIP>>, Log) {
    let log = Log::default();
    let xu = XuId::new(XuType::TensorOp, 0, 0).unwrap();
    let engine = Logging(Arc::clone(&log));
    let (unit, runner) = Unit::new(xu, &UnitOptions::default(), Stub, engine).unwrap();
    (unit, runner, log)
}

#[test]
fn f2_a_skipped_request_never_begins_and_completes_in_its_turn() {
    let (unit, mut runner, log) = unit::<true>();
    let [first, second, third] =
        [1, 2, 3].map(|item| unit.submit(item).expect("there is room").completion);
    assert_eq!(second.skip(), Skip::WillNotRun);
    assert_eq!((second.status(), second.is_skipped()), (None, true));
    for completed in [true, false, false] {
        assert_eq!(runner.step(), Step::Completed);
        assert_eq!(second.is_done(), !completed);
    }
    assert_eq!(*log.lock().unwrap(), [1, 3]);
    // The default of `Engine::skip` finishes it.
    assert_eq!(second.status(), Some(SKIPPED));
    assert_eq!(second.skip(), Skip::WillNotRun);
    assert_eq!(second.wait(), Ok((2, SKIPPED)));
    for (completion, item) in [(first, 1), (third, 3)] {
        assert_eq!(completion.skip(), Skip::TooLate);
        assert_eq!(completion.wait(), Ok((item, Status::SUCCESS)));
    }
    let seen = unit.snapshot();
    assert_eq!((seen.completed, seen.failed, seen.skipped), (3, 0, 1));
    assert_eq!(unit.health(), Health::Healthy);
}

#[test]
fn f2_where_requests_cannot_be_skipped_the_answer_is_always_too_late() {
    let (unit, mut runner, log) = unit::<false>();
    // The cells of the first round are used again in the second.
    for round in 0..2 {
        let pending = unit.submit(round).unwrap().completion;
        assert_eq!(pending.skip(), Skip::TooLate, "nobody has come to it");
        assert_eq!(runner.step(), Step::Completed);
        assert_eq!(pending.skip(), Skip::TooLate);
        assert_eq!(pending.wait(), Ok((round, Status::SUCCESS)));
    }
    assert_eq!(*log.lock().unwrap(), [0, 1]);
}

#[test]
fn f2_a_request_knows_nothing_of_the_one_whose_cell_it_uses() {
    let (unit, mut runner, log) = unit::<true>();
    for round in 0..10 {
        let pending = unit.submit(round).unwrap().completion;
        assert!(!pending.is_skipped());
        let skips = round % 2 == 0;
        if skips {
            assert_eq!(pending.skip(), Skip::WillNotRun);
        }
        assert_eq!(runner.step(), Step::Completed);
        assert_eq!(pending.is_skipped(), skips);
        pending.wait().unwrap();
    }
    assert_eq!(*log.lock().unwrap(), [1, 3, 5, 7, 9]);
}

#[test]
fn f7_a_stop_cannot_be_skipped() {
    let (unit, mut runner, _) = unit::<true>();
    unit.close();
    let stop = unit.schedule_stop().unwrap().completion;
    assert_eq!(stop.skip(), Skip::TooLate);
    assert_eq!(runner.step(), Step::Completed);
    assert_eq!(
        (stop.status(), stop.wait()),
        (Some(Status::SUCCESS), Ok(()))
    );
}

#[test]
fn a_request_that_nobody_waits_for_runs() {
    let (unit, mut runner, log) = unit::<true>();
    unit.post(1).unwrap();
    drop(unit.submit(2).unwrap());
    while runner.step() == Step::Completed {}
    assert_eq!(*log.lock().unwrap(), [1, 2]);
}

#[test]
fn f6_a_skipped_request_of_a_unit_that_breaks_never_begins_and_says_so() {
    let (unit, mut runner, log) = unit::<true>();
    let [skipped, wanted] = [1, 2].map(|item| unit.submit(item).unwrap().completion);
    assert_eq!(skipped.skip(), Skip::WillNotRun);
    runner.give_up(Cause {
        status: Status::FAILURE,
        seq: None,
        text: "on purpose".into(),
    });
    assert_eq!(wanted.skip(), Skip::TooLate, "it is complete");
    assert!(skipped.is_skipped() && !wanted.is_skipped());
    let status = Status::EXEC_UNIT_UNRECOVERABLE;
    assert_eq!(skipped.wait(), Ok((1, status)));
    assert_eq!(wanted.wait(), Ok((2, status)));
    assert!(log.lock().unwrap().is_empty());
}

#[test]
fn f6_an_engine_that_breaks_over_a_skipped_request_breaks_its_unit() {
    let (unit, mut runner, _) = unit::<true>();
    let pending = unit.submit(13).unwrap().completion;
    assert_eq!(pending.skip(), Skip::WillNotRun);
    assert_eq!(runner.step(), Step::Completed);
    assert!(pending.is_skipped());
    assert_eq!(pending.wait(), Err(Lost::Abandoned));
    assert_eq!(unit.health(), Health::Degraded);
    let seen = unit.snapshot();
    assert_eq!((seen.completed, seen.failed, seen.skipped), (1, 1, 0));
}
