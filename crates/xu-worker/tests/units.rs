//! Units and their worker through the public interface, with an engine that a test can steer.

#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

mod steered;

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use steered::{Bench, counting, fatal, request};
use xu_abi::Status;
use xu_worker::{Cause, Completion, Health, Progress, Refusal, Runner, StageError, Step};

#[test]
fn a_step_without_work_is_idle_and_a_running_request_stays_at_the_head() {
    let mut bench = Bench::new(4);
    assert_eq!(bench.runner.step(), Step::Idle);
    let first = bench.submit(1).unwrap();
    assert_eq!(bench.runner.step(), Step::InFlight);
    assert_eq!(bench.runner.step(), Step::InFlight);
    assert_eq!(
        bench.controls.lock().unwrap().begun,
        1,
        "begun once, however often it is looked at"
    );
    bench.answer(Progress::Done(Status::SUCCESS));
    assert_eq!(bench.runner.step(), Step::Completed);
    assert_eq!(bench.runner.step(), Step::Idle);
    assert_eq!(
        (first.status(), first.wait()),
        (Some(Status::SUCCESS), Ok(1))
    );
}

#[test]
fn a_full_unit_refuses_and_gives_back_until_a_completion_makes_room() {
    let mut bench = Bench::new(2);
    let (_one, _two) = (bench.submit(1).unwrap(), bench.submit(2).unwrap());
    let staged = bench.controls.lock().unwrap().log.len();
    let refused = bench.unit.submit(bench.request(3)).unwrap_err();
    assert!(matches!(
        refused.reason,
        Refusal::QueueFull { limit: 2, .. }
    ));
    assert_eq!(refused.reason.status(), Status::QUEUE_FULL);
    assert_eq!(refused.item.unwrap().id, 3);
    assert_eq!(
        bench.controls.lock().unwrap().log.len(),
        staged,
        "nothing was staged"
    );
    bench.answer(Progress::Done(Status::SUCCESS));
    bench.runner.step();
    assert!(bench.submit(4).is_ok());
    assert_eq!(bench.unit.depth(), 2);
}

#[test]
fn errors_that_are_not_fatal_leave_the_unit_usable() {
    let mut bench = Bench::new(4);
    for status in [
        Status::EXEC_COMPLETED_WITH_NUM_ERR,
        Status::EXEC_COMPLETED_WITH_ERR,
        Status::EXEC_OOB,
    ] {
        let pending = bench.submit(7).unwrap();
        bench.answer(Progress::Done(status));
        assert_eq!(bench.runner.step(), Step::Completed);
        assert_eq!(pending.status(), Some(status));
        assert_eq!(bench.unit.health(), Health::Healthy);
    }
}

#[test]
fn f6_the_offender_keeps_its_status_and_those_behind_it_get_101() {
    let mut bench = Bench::new(4);
    let pending: Vec<_> = (1..=3).map(|id| bench.submit(id).unwrap()).collect();
    bench.answer(fatal(Status::TIMEOUT));
    for _ in 0..3 {
        assert_eq!(bench.runner.step(), Step::Completed);
    }
    let dead = Status::EXEC_UNIT_UNRECOVERABLE;
    let statuses: Vec<_> = pending.iter().map(|one| one.status().unwrap()).collect();
    assert_eq!(statuses, [Status::TIMEOUT, dead, dead]);
    assert_eq!(
        bench.controls.lock().unwrap().begun,
        1,
        "those behind it do not run"
    );
    let refusal = bench.submit(4).unwrap_err();
    assert_eq!(refusal.status(), dead);
    let cause = bench.unit.cause().unwrap();
    assert_eq!(
        (cause.status, cause.seq.unwrap().cursor().get()),
        (Status::TIMEOUT, 1)
    );
}

#[test]
fn degraded_comes_before_full_and_full_before_closing() {
    let mut bench = Bench::new(1);
    let _first = bench.submit(1).unwrap();
    bench.unit.close();
    assert!(matches!(bench.submit(2), Err(Refusal::QueueFull { .. })));
    bench.answer(Progress::Done(Status::SUCCESS));
    bench.runner.step();
    assert!(matches!(bench.submit(2), Err(Refusal::Closing { .. })));

    let mut bench = Bench::new(1);
    let _first = bench.submit(1).unwrap();
    bench.answer(fatal(Status::HW_ERROR));
    bench.runner.step();
    bench.unit.close();
    assert!(matches!(bench.submit(2), Err(Refusal::Degraded { .. })));
}

#[test]
fn d8_preparing_fails_clean_and_committing_fails_for_good() {
    let bench = Bench::new(4);
    let error = |text: &str| {
        Some(StageError {
            status: Status::RESOURCE,
            text: text.into(),
        })
    };
    bench.controls.lock().unwrap().prepare = error("no memory");
    let refused = bench.unit.submit(bench.request(1)).unwrap_err();
    assert_eq!(refused.reason.status(), Status::RESOURCE);
    assert_eq!(bench.controls.lock().unwrap().log, ["prepare"]);
    assert_eq!(
        (bench.unit.health(), bench.unit.depth()),
        (Health::Healthy, 0)
    );
    drop(refused.item);
    assert_eq!(bench.alive(), 0);

    bench.controls.lock().unwrap().commit = error("half-way");
    let refused = bench.unit.submit(bench.request(2)).unwrap_err();
    assert!(matches!(refused.reason, Refusal::Commit { .. }));
    assert!(refused.item.is_none(), "the device may hold it");
    assert_eq!(
        (bench.unit.health(), bench.unit.depth()),
        (Health::Degraded, 0)
    );
    assert_eq!(bench.alive(), 1, "kept, not freed");
    let ledger = bench.ledger.clone();
    drop(bench);
    assert_eq!(ledger.alive(), 0);
}

#[test]
fn w7_an_engine_that_panics_degrades_its_unit_and_everybody_is_told() {
    let mut bench = Bench::new(4);
    let (first, second) = (bench.submit(1).unwrap(), bench.submit(2).unwrap());
    bench.controls.lock().unwrap().panics = Some("out of luck");
    assert_eq!(bench.runner.step(), Step::Completed);
    assert_eq!(bench.runner.step(), Step::Completed);
    assert_eq!(first.status(), Some(Status::FAILURE));
    assert_eq!(second.status(), Some(Status::EXEC_UNIT_UNRECOVERABLE));
    assert!(bench.unit.cause().unwrap().text.contains("out of luck"));
}

#[test]
fn a_unit_that_is_given_up_completes_everything_and_goes_quiet() {
    let mut bench = Bench::new(4);
    let pending = [bench.submit(1).unwrap(), bench.submit(2).unwrap()];
    bench.runner.give_up(Cause {
        status: Status::FAILURE,
        seq: None,
        text: "no more".into(),
    });
    let dead = Status::EXEC_UNIT_UNRECOVERABLE;
    assert_eq!(
        pending.each_ref().map(Completion::status),
        [Some(dead), Some(dead)]
    );
    assert_eq!(pending.map(Completion::wait), [Ok(1), Ok(2)]);
    // The engine has given up what the requests held, as always.
    assert_eq!(
        bench.controls.lock().unwrap().finished,
        [(1, dead), (2, dead)]
    );
    assert_eq!(bench.runner.step(), Step::Idle);
    assert!(matches!(bench.submit(3), Err(Refusal::Degraded { .. })));
    bench.unit.drain();
}

#[test]
fn a_stop_passes_the_closing_gate_and_quiesces() {
    let mut bench = Bench::new(1);
    bench.unit.close();
    bench.unit.drain();
    let stopped = bench.unit.schedule_stop().unwrap().completion;
    assert_eq!(bench.runner.step(), Step::Completed);
    assert_eq!(stopped.status(), Some(Status::SUCCESS));
    assert_eq!(stopped.wait(), Ok(()));
    assert_eq!(bench.controls.lock().unwrap().log, ["quiesce"]);
}

#[test]
fn w7_a_worker_half_that_goes_completes_what_is_queued() {
    let bench = Bench::new(4);
    let pending = [bench.submit(1).unwrap(), bench.submit(2).unwrap()];
    drop(bench.runner);
    let dead = Status::EXEC_UNIT_UNRECOVERABLE;
    assert_eq!(
        pending.each_ref().map(Completion::status),
        [Some(dead), Some(dead)]
    );
    assert_eq!(pending.map(Completion::wait), [Ok(1), Ok(2)]);
    assert!(matches!(
        bench.unit.submit(request(3)).unwrap_err().reason,
        Refusal::Degraded { .. }
    ));
    bench.unit.drain();
}

#[test]
fn f3_the_newest_waker_is_woken_once() {
    let mut bench = Bench::new(4);
    let mut pending = bench.submit(1).unwrap();
    let ((old, old_waker), (new, new_waker)) = (counting(), counting());
    let mut poll = |waker: &Waker| Pin::new(&mut pending).poll(&mut Context::from_waker(waker));
    assert!(poll(&old_waker).is_pending());
    for _ in 0..1_000 {
        assert!(poll(&new_waker).is_pending());
    }
    bench.answer(Progress::Done(Status::SUCCESS));
    bench.runner.step();
    assert_eq!(
        (old.0.load(Ordering::SeqCst), new.0.load(Ordering::SeqCst)),
        (0, 1)
    );
    assert_eq!(poll(&new_waker), Poll::Ready(Ok(1)));
    assert_eq!(
        Arc::strong_count(&new),
        2,
        "one here, one in this test's waker, none stored"
    );
}

#[test]
fn f5_whoever_waits_for_room_is_woken_by_a_completion() {
    let mut bench = Bench::new(1);
    let _first = bench.submit(1).unwrap();
    let (woken, waker) = counting();
    let mut ticket = xu_worker::room::Ticket::default();
    let cx = Context::from_waker(&waker);
    for _ in 0..1_000 {
        assert!(bench.unit.poll_room(&mut ticket, &cx).is_pending());
    }
    assert_eq!(
        Arc::strong_count(&woken),
        3,
        "one stored waker, however often it is polled"
    );
    bench.answer(Progress::Done(Status::SUCCESS));
    bench.runner.step();
    assert_eq!(woken.0.load(Ordering::SeqCst), 1);
    assert!(bench.unit.poll_room(&mut ticket, &cx).is_ready());
}

#[test]
fn f5_a_slot_wakes_one_of_those_who_wait_and_an_empty_queue_all() {
    let mut bench = Bench::new(2);
    let _running = [bench.submit(1).unwrap(), bench.submit(2).unwrap()];
    let mut waiting: Vec<_> = (0..5)
        .map(|_| (counting(), xu_worker::room::Ticket::default()))
        .collect();
    for ((_, waker), ticket) in &mut waiting {
        let cx = Context::from_waker(waker);
        assert!(bench.unit.poll_room(ticket, &cx).is_pending());
    }
    let woken = |waiting: &[((Arc<steered::CountingWaker>, Waker), _)]| -> Vec<usize> {
        waiting
            .iter()
            .map(|((count, _), _)| count.0.load(Ordering::SeqCst))
            .collect()
    };
    bench.answer(Progress::Done(Status::SUCCESS));
    bench.runner.step();
    assert_eq!(woken(&waiting), [1, 0, 0, 0, 0], "the oldest");
    // It goes without using the slot: the next one is told.
    bench.unit.leave_room(&mut waiting[0].1);
    assert_eq!(woken(&waiting), [1, 1, 0, 0, 0]);
    bench.answer(Progress::Done(Status::SUCCESS));
    bench.runner.step();
    assert_eq!(
        woken(&waiting),
        [1, 1, 1, 1, 1],
        "nobody sleeps beside an empty queue"
    );
}

#[test]
fn there_is_no_room_in_a_full_queue_that_is_closing_and_all_of_it_in_a_degraded_one() {
    let mut bench = Bench::new(1);
    let _first = bench.submit(1).unwrap();
    let (woken, waker) = counting();
    let mut ticket = xu_worker::room::Ticket::default();
    let cx = Context::from_waker(&waker);
    assert!(bench.unit.poll_room(&mut ticket, &cx).is_pending());
    bench.unit.close();
    assert!(
        bench.unit.poll_room(&mut ticket, &cx).is_pending(),
        "submitting now would be refused as full, so waiting must not return"
    );
    bench.answer(fatal(Status::TIMEOUT));
    bench.runner.step();
    assert!(woken.0.load(Ordering::SeqCst) >= 1);
    assert!(bench.unit.poll_room(&mut ticket, &cx).is_ready());
}

/// Runs a function each time it is woken.
struct Probe(Box<dyn Fn() + Send + Sync>);

impl Wake for Probe {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

#[test]
fn f2_when_the_waker_runs_the_status_is_written_and_the_completion_visible() {
    let Bench {
        unit,
        mut runner,
        controls,
        ..
    } = Bench::new(4);
    let unit = Arc::new(unit);
    for progress in [Progress::Done(Status::EXEC_OOB), fatal(Status::TIMEOUT)] {
        let accepted = unit.submit(request(1)).unwrap();
        let (seq, pending) = (accepted.seq, accepted.completion);
        let pending = Arc::new(Mutex::new(pending));
        let seen = Arc::new(Mutex::new(None));
        let probe = {
            let (unit, pending, seen) =
                (Arc::clone(&unit), Arc::clone(&pending), Arc::clone(&seen));
            Probe(Box::new(move || {
                let status = pending.lock().unwrap().status();
                *seen.lock().unwrap() = Some((unit.is_completed(seq), status));
            }))
        };
        let waker = Waker::from(Arc::new(probe));
        let mut cx = Context::from_waker(&waker);
        assert!(
            Pin::new(&mut *pending.lock().unwrap())
                .poll(&mut cx)
                .is_pending()
        );
        let expected = match &progress {
            Progress::Done(status) => *status,
            Progress::Fatal(cause) => cause.status,
            Progress::Continue => Status::SUCCESS,
        };
        controls.lock().unwrap().answers.push(progress);
        runner.step();
        assert_eq!(*seen.lock().unwrap(), Some((Ok(true), Some(expected))));
    }
}

#[test]
fn a_stage_that_panics_half_way_has_failed_half_way() {
    let bench = Bench::new(4);
    bench.controls.lock().unwrap().commit_panics = true;
    let refused = bench.unit.submit(bench.request(1)).unwrap_err();
    assert!(matches!(refused.reason, Refusal::Commit { .. }));
    assert!(refused.item.is_none());
    assert_eq!(bench.alive(), 1, "kept, not freed");
    assert_eq!(bench.unit.health(), Health::Degraded);
}

#[test]
fn waiting_with_a_deadline_gives_the_completion_back() {
    let mut bench = Bench::new(1);
    let pending = bench.submit(1).unwrap();
    let pending = pending.wait_timeout(Duration::ZERO).unwrap_err();
    let pending = pending.try_take().unwrap_err();
    bench.answer(Progress::Done(Status::SUCCESS));
    bench.runner.step();
    assert_eq!(pending.wait_timeout(Duration::MAX).unwrap(), Ok(1));
}
