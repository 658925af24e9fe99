//! Many requests at once: the worker sees them together, each has its own outcome, and a full queue keeps what it has.
#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

mod steered;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use steered::{Bench, Request};
use xu_abi::Status;
use xu_worker::{Accepted, Health, PollPolicy, Progress, Refusal, Runner, StageError, Step};

fn requests(bench: &Bench, ids: impl IntoIterator<Item = u32>) -> VecDeque<Request> {
    ids.into_iter().map(|id| bench.request(id)).collect()
}

fn numbers<O>(accepted: &[Accepted<O>]) -> Vec<u64> {
    let number = |one: &Accepted<O>| one.seq.cursor().get();
    accepted.iter().map(number).collect()
}

fn run_all(bench: &mut Bench, requests: usize) {
    for _ in 0..requests {
        bench.answer(Progress::Done(Status::SUCCESS));
        assert_eq!(bench.runner.step(), Step::Completed);
    }
    assert_eq!(bench.runner.step(), Step::Idle);
}

#[test]
fn each_request_of_a_batch_has_its_own_sequence_and_outcome() {
    let mut bench = Bench::new(8);
    let mut items = requests(&bench, 1..=5);
    let mut accepted = Vec::new();
    bench.unit.submit_batch(&mut items, &mut accepted).unwrap();
    assert!(items.is_empty());
    assert_eq!(numbers(&accepted), [1, 2, 3, 4, 5]);
    run_all(&mut bench, 5);
    for (id, one) in (1..).zip(accepted) {
        assert_eq!(one.completion.wait(), Ok(id));
    }
}

#[test]
fn f5_a_queue_that_fills_half_way_keeps_what_it_has_and_hands_the_rest_back() {
    let mut bench = Bench::new(3);
    let mut items = requests(&bench, 1..=5);
    let mut accepted = Vec::new();
    let refusal = bench
        .unit
        .submit_batch(&mut items, &mut accepted)
        .unwrap_err();
    assert!(matches!(refusal, Refusal::QueueFull { limit: 3, .. }));
    assert_eq!(numbers(&accepted), [1, 2, 3]);
    assert!(items.iter().map(|item| item.id).eq([4, 5]));
    assert_eq!(bench.unit.snapshot().queue_full, 1);
    run_all(&mut bench, 3);
    // The rest goes in later, behind what is there.
    bench.unit.submit_batch(&mut items, &mut accepted).unwrap();
    assert_eq!(numbers(&accepted), [1, 2, 3, 4, 5]);
    run_all(&mut bench, 2);
}

#[test]
fn f5_a_batch_leaves_reserved_places_alone() {
    let bench = Bench::new(3);
    let place = bench.unit.try_reserve().unwrap();
    let mut items = requests(&bench, 1..=3);
    let mut accepted = Vec::new();
    bench
        .unit
        .submit_batch(&mut items, &mut accepted)
        .unwrap_err();
    assert_eq!((accepted.len(), items.len()), (2, 1));
    place.post(items.pop_front().unwrap()).unwrap();
}

#[test]
fn a_batch_of_nothing_changes_nothing() {
    let mut bench = Bench::new(1);
    let mut accepted: Vec<Accepted<u32>> = Vec::new();
    bench
        .unit
        .submit_batch(&mut VecDeque::new(), &mut accepted)
        .unwrap();
    assert_eq!(bench.unit.batch().publish(), None);
    assert_eq!(bench.runner.step(), Step::Idle);
    bench.unit.close();
    bench
        .unit
        .submit_batch(&mut VecDeque::new(), &mut accepted)
        .unwrap();
    assert!(accepted.is_empty());
}

#[test]
fn d8_what_fails_half_way_ends_the_batch_and_is_kept() {
    let mut bench = Bench::new(8);
    let error = || {
        Some(StageError {
            status: Status::RESOURCE,
            text: "half-way".into(),
        })
    };
    // Where nothing has happened yet, the request comes back.
    bench.controls.lock().unwrap().prepare = error();
    let (mut items, mut accepted) = (requests(&bench, 1..=3), Vec::new());
    let refusal = bench
        .unit
        .submit_batch(&mut items, &mut accepted)
        .unwrap_err();
    assert_eq!(refusal.status(), Status::RESOURCE);
    assert!(items.iter().map(|item| item.id).eq([1, 2, 3]));
    assert_eq!(bench.unit.health(), Health::Healthy);
    // Where the device may know it, it does not.
    bench.controls.lock().unwrap().commit = error();
    let refusal = bench
        .unit
        .submit_batch(&mut items, &mut accepted)
        .unwrap_err();
    assert!(matches!(refusal, Refusal::Commit { .. }));
    assert!(items.iter().map(|item| item.id).eq([2, 3]));
    assert_eq!(bench.unit.health(), Health::Degraded);
    assert!(accepted.is_empty());
    assert_eq!(bench.runner.step(), Step::Idle);
}

#[test]
fn the_worker_sees_a_batch_when_it_is_published() {
    let mut bench = Bench::new(8);
    let mut batch = bench.unit.batch();
    let first = batch.submit(bench.ledger.request(1)).unwrap();
    let second = batch.post(bench.ledger.request(2)).unwrap();
    assert_eq!((batch.len(), batch.last()), (2, Some(second)));
    assert_eq!(bench.unit.depth(), 2);
    assert_eq!(bench.runner.step(), Step::Idle, "it has not been told");
    assert_eq!(batch.publish(), Some(second));
    run_all(&mut bench, 2);
    assert_eq!(first.completion.wait(), Ok(1));
    assert_eq!(bench.unit.is_completed(second), Ok(true));
}

#[test]
fn a_refusal_ends_no_batch() {
    let mut bench = Bench::new(1);
    let mut batch = bench.unit.batch();
    let _first = batch.submit(bench.ledger.request(1)).unwrap();
    let refused = batch.submit(bench.ledger.request(2)).unwrap_err();
    assert!(refused.is_full());
    assert_eq!((refused.item.unwrap().id, batch.len()), (2, 1));
    drop(batch);
    run_all(&mut bench, 1);
}

#[test]
fn w7_a_batch_whose_caller_panics_is_published() {
    let mut bench = Bench::new(8);
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let mut batch = bench.unit.batch();
        let _first = batch.submit(bench.ledger.request(1)).unwrap();
        panic!("the caller's own");
    }));
    assert!(caught.is_err());
    run_all(&mut bench, 1);
}

#[test]
fn f7_closing_publishes_what_a_batch_holds() {
    for policy in [PollPolicy::Adaptive, PollPolicy::Reference] {
        let mut bench = Bench::with_policy(8, policy);
        let mut batch = bench.unit.batch();
        let first = batch.submit(bench.ledger.request(1)).unwrap();
        bench.runner.announce_sleep();
        bench.unit.close();
        bench.runner.bell().take().expect("the worker was told");
        let refused = batch.submit(bench.ledger.request(2)).unwrap_err();
        assert!(matches!(refused.reason, Refusal::Closing { .. }));
        bench.controls.lock().unwrap().answers = vec![Progress::Done(Status::SUCCESS)];
        if policy == PollPolicy::Reference {
            bench.runner.bell().add().unwrap();
        }
        assert_eq!(bench.runner.step(), Step::Completed);
        assert_eq!(first.completion.wait(), Ok(1));
        bench.unit.drain();
        assert_eq!(batch.publish(), Some(first.seq));
    }
}
