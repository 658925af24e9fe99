//! Units whose accounting or ring is broken: nobody waits for ever, and nothing that the device may touch goes too early.
//!
//! Spec `xu.md` section 4 (step, submit funnel); failure kinds F1, F7, W1 and W7.
#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

mod steered;

use std::sync::Arc;
use std::time::{Duration, Instant};
use steered::{Bench, fatal, request};
use xu_abi::Status;
use xu_worker::eventfd::fail_call;
use xu_worker::{Health, Lost, Progress, Runner, Step};

const PATIENCE: Duration = Duration::from_secs(20);

#[cfg(not(miri))]
mod threads {
    use super::*;
    use xu_worker::{CloseOptions, Closing, PollPolicy, WorkerThread, Workers};

    /// Waits until the only thread of this name sleeps, so that it has to be woken.
    fn until_asleep(name: &str) {
        let deadline = Instant::now() + PATIENCE;
        while states(name) != ["S"] {
            assert!(Instant::now() < deadline, "{name} does not sleep");
            std::thread::yield_now();
        }
    }

    /// The states of the threads of this name. One that has just been started has no name yet.
    fn states(name: &str) -> Vec<String> {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        tasks
            .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("stat")).ok())
            .filter_map(|stat| {
                let (number_and_name, rest) = stat.split_once(") ")?;
                number_and_name
                    .ends_with(&format!("({name}"))
                    .then(|| rest[..1].to_owned())
            })
            .collect()
    }

    #[test]
    fn w1_a_worker_that_cannot_be_woken_strands_nobody_who_closes() {
        for policy in [PollPolicy::Reference, PollPolicy::Adaptive] {
            let Bench { unit, runner, .. } = Bench::with_policy(8, policy);
            let workers = Workers::new(vec![
                WorkerThread::spawn("deaf", vec![Box::new(runner)]).unwrap(),
            ]);
            until_asleep("deaf");
            fail_call(1, nix::libc::EIO);
            let accepted = unit.submit(request(1)).unwrap();
            assert_eq!(unit.health(), Health::Degraded, "{policy:?}");
            let options = CloseOptions {
                deadline: Some(Instant::now() + PATIENCE),
                ..CloseOptions::default()
            };
            let closed = workers.close(&[&unit as &dyn Closing], &options).unwrap();
            assert_eq!(closed.not_at_rest.len(), 1, "{policy:?}");
            assert_eq!(
                accepted.completion.status(),
                Some(Status::EXEC_UNIT_UNRECOVERABLE),
                "{policy:?}"
            );
            assert_eq!(accepted.completion.wait(), Ok(1));
        }
    }
}

/// A model that is alive as long as its count is two.
fn model() -> (Arc<()>, Box<dyn Send>) {
    let alive = Arc::new(());
    (Arc::clone(&alive), Box::new(alive))
}

fn is_staged(model: &Arc<()>) -> bool {
    Arc::strong_count(model) == 2
}

#[test]
fn f1_a_model_goes_when_what_was_accepted_before_is_complete() {
    let mut bench = Bench::new(8);
    bench.unit.post_batch((1..=3).map(request)).unwrap();
    let (alive, staged) = model();
    bench.unit.defer_unstage(0, staged);
    bench.unit.post(request(4)).unwrap();
    for seen in [true, true, false, false] {
        bench.answer(Progress::Done(Status::SUCCESS));
        assert_eq!(bench.runner.step(), Step::Completed);
        assert_eq!(is_staged(&alive), seen);
    }
    let (alive, staged) = model();
    bench.unit.defer_unstage(1, staged);
    assert!(!is_staged(&alive), "nothing uses it");
}

#[test]
fn f1_a_degraded_unit_keeps_its_models_until_it_goes() {
    let mut bench = Bench::new(8);
    bench.unit.post_batch((1..=2).map(request)).unwrap();
    let (alive, staged) = model();
    bench.unit.defer_unstage(0, staged);
    bench.answer(fatal(Status::TIMEOUT));
    assert_eq!(bench.runner.step(), Step::Completed);
    assert_eq!(bench.runner.step(), Step::Completed);
    assert!(is_staged(&alive), "the device may still run it");
    let (later, staged) = model();
    bench.unit.defer_unstage(0, staged);
    assert!(is_staged(&later));
    drop(bench);
    assert!(!is_staged(&alive) && !is_staged(&later));
}

#[test]
fn f4_an_iterator_of_a_batch_may_use_the_unit() {
    let mut bench = Bench::new(8);
    let unit = &bench.unit;
    let items = (0..3).map(|id| {
        assert_eq!(unit.depth(), u64::from(id) * 2);
        unit.post(request(10 + id)).unwrap();
        request(id)
    });
    let last = unit.post_batch(items).unwrap().unwrap();
    assert_eq!(last.cursor().get(), 6);
    for _ in 0..6 {
        bench.answer(Progress::Done(Status::SUCCESS));
        assert_eq!(bench.runner.step(), Step::Completed);
    }
    assert_eq!(bench.unit.last_completed(), last);
}

#[test]
fn w7_a_batch_under_way_is_completed_by_a_worker_that_goes() {
    let bench = Bench::new(8);
    let mut runner = Some(bench.runner);
    let unit = &bench.unit;
    let items = (0..3).map(|id| {
        if id == 2 {
            drop(runner.take());
        }
        request(id)
    });
    let refused = unit.post_batch(items).unwrap_err();
    assert_eq!(refused.last_accepted.map(|seq| seq.cursor().get()), Some(2));
    assert_eq!(unit.depth(), 0, "both are complete");
}

#[test]
fn f2_a_request_whose_engine_loses_its_outcome_did_not_succeed() {
    for (said, told) in [
        (Status::SUCCESS, Status::FAILURE),
        (Status::EXEC_OOB, Status::EXEC_OOB),
    ] {
        let mut bench = Bench::new(8);
        let completion = bench.submit(1).unwrap();
        bench.controls.lock().unwrap().finish_panics = true;
        bench.answer(Progress::Done(said));
        assert_eq!(bench.runner.step(), Step::Completed);
        assert_eq!(completion.status(), Some(told));
        assert_eq!(completion.wait(), Err(Lost::Abandoned));
        assert_eq!(bench.unit.health(), Health::Degraded);
    }
}
