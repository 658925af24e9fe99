//! Requests that go from one thread to another and back, small enough for miri: the cells and boxes of `xu-worker` under
//! many schedules and weak memory.
//!
//! Spec `xu.md` sections 4 and 8.4; failure kinds F1, F2 and R5.
#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

mod steered;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use steered::{Bench, request};
use xu_abi::Status;
use xu_worker::{Completion, Progress, Runner, Step};

/// Requests of one test.
const REQUESTS: u32 = if cfg!(miri) { 8 } else { 2_000 };

/// Steps the unit on a thread of its own until so many requests are complete, each with success.
fn serve(bench: Bench) -> (xu_worker::Unit<steered::Steered>, thread::JoinHandle<()>) {
    let Bench {
        unit,
        mut runner,
        controls,
        ..
    } = bench;
    controls.lock().unwrap().answers = (0..REQUESTS)
        .map(|_| Progress::Done(Status::SUCCESS))
        .collect();
    let worker = thread::spawn(move || {
        let mut completed = 0;
        while completed < REQUESTS {
            match runner.step() {
                Step::Completed => completed += 1,
                Step::Idle | Step::InFlight => thread::yield_now(),
            }
        }
    });
    (unit, worker)
}

#[test]
fn f2_outcomes_cross_to_those_who_wait() {
    let (unit, worker) = serve(Bench::new(2));
    for id in 0..REQUESTS {
        let accepted = unit.submit(request(id)).unwrap();
        assert_eq!(accepted.completion.wait(), Ok(id));
        assert_eq!(unit.is_completed(accepted.seq), Ok(true));
    }
    worker.join().unwrap();
}

#[test]
fn f1_outcomes_that_nobody_takes_are_dropped() {
    let (unit, worker) = serve(Bench::new(2));
    for id in 0..REQUESTS {
        while unit.depth() == unit.limit() {
            thread::yield_now();
        }
        drop(unit.submit(request(id)).unwrap());
    }
    worker.join().unwrap();
}

/// Unparks the thread that polls.
struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on(completion: Completion<u32>) -> u32 {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut completion = pin!(completion);
    loop {
        match completion.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(outcome) => return outcome.unwrap(),
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn f3_outcomes_cross_to_tasks() {
    let (unit, worker) = serve(Bench::new(2));
    for id in 0..REQUESTS {
        assert_eq!(block_on(unit.submit(request(id)).unwrap().completion), id);
    }
    worker.join().unwrap();
}

#[test]
fn f5_submitters_wait_for_room() {
    let (unit, worker) = serve(Bench::new(1));
    for id in 0..REQUESTS {
        assert!(unit.wait_room(None));
        unit.post(request(id)).unwrap();
    }
    unit.drain();
    worker.join().unwrap();
}
