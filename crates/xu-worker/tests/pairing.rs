//! What requests cost in system calls on eventfds, counted by the only module that makes them.
//!
//! Spec `xu.md` sections 4 (eventfds) and 8.2; failure kind W1.
#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

mod steered;

use std::collections::VecDeque;
use steered::{Bench, fatal, request};
use xu_abi::Status;
use xu_worker::eventfd::{Calls, calls_here};
use xu_worker::{Cause, PollPolicy, Progress, Runner, Step};

/// System calls of this thread on eventfds while `run` runs: writes and reads.
fn counted(run: impl FnOnce()) -> (u64, u64) {
    let Calls { writes, reads, .. } = calls_here();
    run();
    let after = calls_here();
    (after.writes - writes, after.reads - reads)
}

fn complete(bench: &mut Bench) {
    bench.answer(Progress::Done(Status::SUCCESS));
    assert_eq!(bench.runner.step(), Step::Completed);
}

#[test]
fn w1_reference_writes_and_reads_once_for_each_request() {
    let mut bench = Bench::with_policy(8, PollPolicy::Reference);
    let calls = counted(|| {
        for round in 0..10 {
            for id in 0..5 {
                bench.unit.post(request(round * 10 + id)).unwrap();
            }
            for _ in 0..5 {
                // However often it is looked at.
                assert_eq!(bench.runner.step(), Step::InFlight);
                complete(&mut bench);
            }
        }
    });
    assert_eq!(calls, (50, 50));
    let nothing_left = bench.runner.bell().take().unwrap_err();
    assert_eq!(nothing_left.kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn w1_reference_pairs_batches_and_stops_too() {
    let mut bench = Bench::with_policy(8, PollPolicy::Reference);
    let calls = counted(|| {
        bench.unit.post_batch((0..4).map(request)).unwrap();
        (0..4).for_each(|_| complete(&mut bench));
        bench.unit.close();
        let stop = bench.unit.schedule_stop().unwrap();
        assert_eq!(bench.runner.step(), Step::Completed);
        assert!(stop.completion.is_done());
    });
    assert_eq!(calls, (5, 5));
}

#[test]
fn w1_reference_pairs_batches_with_outcomes_and_places_too() {
    let mut bench = Bench::with_policy(8, PollPolicy::Reference);
    let calls = counted(|| {
        let place = bench.unit.try_reserve().unwrap();
        drop(bench.unit.try_reserve().unwrap());
        let mut items: VecDeque<_> = (0..9).map(request).collect();
        let mut accepted = Vec::new();
        let refusal = bench.unit.submit_batch(&mut items, &mut accepted);
        assert_eq!((refusal.is_err(), accepted.len()), (true, 7));
        place.post(request(9)).unwrap();
        (0..8).for_each(|_| complete(&mut bench));
        let mut batch = bench.unit.batch();
        let _first = batch.submit(request(1)).unwrap();
        batch.post(request(2)).unwrap();
        batch.publish();
        (0..2).for_each(|_| complete(&mut bench));
    });
    assert_eq!(calls, (10, 10));
}

#[test]
fn w1_reference_writes_nothing_for_a_refusal() {
    let bench = Bench::with_policy(1, PollPolicy::Reference);
    bench.unit.post(request(1)).unwrap();
    let calls = counted(|| {
        for id in 0..100 {
            assert!(bench.unit.post(request(id)).is_err());
        }
    });
    assert_eq!(calls, (0, 0));
}

#[test]
fn w1_a_unit_that_is_given_up_leaves_no_count() {
    let mut bench = Bench::with_policy(8, PollPolicy::Reference);
    bench.unit.post_batch((0..5).map(request)).unwrap();
    bench.runner.give_up(Cause {
        status: Status::FAILURE,
        seq: None,
        text: "no more".into(),
    });
    assert!(bench.runner.bell().take().is_err());
    assert_eq!(bench.unit.depth(), 0);
}

#[test]
fn w1_what_completes_behind_a_fatal_request_is_paired() {
    let mut bench = Bench::with_policy(8, PollPolicy::Reference);
    let calls = counted(|| {
        bench.unit.post_batch((0..3).map(request)).unwrap();
        bench.answer(fatal(Status::TIMEOUT));
        (0..3).for_each(|_| assert_eq!(bench.runner.step(), Step::Completed));
    });
    assert_eq!(calls, (3, 3));
}

#[test]
fn c1_a_worker_that_is_awake_costs_no_call() {
    for policy in [PollPolicy::Adaptive, PollPolicy::Busy] {
        let mut bench = Bench::with_policy(8, policy);
        bench.runner.stay_awake();
        let calls = counted(|| {
            for id in 0..100 {
                let accepted = bench.unit.submit(request(id)).unwrap();
                complete(&mut bench);
                assert_eq!(accepted.completion.wait(), Ok(id));
            }
        });
        assert_eq!(calls, (0, 0));
    }
}

#[test]
fn c1_a_sleep_costs_one_ring_however_many_submit() {
    let mut bench = Bench::with_policy(8, PollPolicy::Adaptive);
    let calls = counted(|| {
        for round in 0..10 {
            bench.runner.announce_sleep();
            assert!(!bench.runner.has_work());
            for id in 0..5 {
                bench.unit.post(request(round * 10 + id)).unwrap();
            }
            bench.runner.stay_awake();
            bench.runner.answer_bell();
            (0..5).for_each(|_| complete(&mut bench));
        }
    });
    assert_eq!(calls, (10, 10));
}

#[test]
fn c1_a_batch_rings_once() {
    let mut bench = Bench::with_policy(8, PollPolicy::Adaptive);
    let calls = counted(|| {
        bench.runner.announce_sleep();
        let mut items: VecDeque<_> = (0..5).map(request).collect();
        bench
            .unit
            .submit_batch(&mut items, &mut Vec::new())
            .unwrap();
        bench.runner.stay_awake();
        bench.runner.answer_bell();
        (0..5).for_each(|_| complete(&mut bench));
    });
    assert_eq!(calls, (1, 1));
}

#[test]
fn w1_reference_who_releases_a_batch_of_others_rings_for_it() {
    let bench = Bench::with_policy(8, PollPolicy::Reference);
    let mut batch = bench.unit.batch();
    batch.post(request(1)).unwrap();
    batch.post(request(2)).unwrap();
    // Or the worker would sleep before it comes to this one, for as long as the batch is kept.
    let others = counted(|| drop(bench.unit.post(request(3))));
    assert_eq!(others, (3, 0));
    batch.post(request(4)).unwrap();
    assert_eq!(counted(|| drop(batch)), (1, 0));
    assert_eq!(counted(|| bench.unit.close()), (0, 0));
}
