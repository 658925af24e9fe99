//! Units whose worker is a thread, through the public interface, with an engine that a test can steer.
#![cfg(not(any(loom, miri)))]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

mod steered;

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use steered::{Bench, request};
use xu_abi::Status;
use xu_worker::{PollPolicy, Progress, Runner, Step, WorkerThread};

#[test]
fn f2_whoever_polls_the_queue_finds_the_status_written() {
    let Bench {
        unit,
        runner,
        controls,
        ..
    } = Bench::with_policy(4, PollPolicy::Busy);
    let worker = WorkerThread::spawn("test-worker", vec![Box::new(runner)]).unwrap();
    for id in 0..5_000 {
        controls
            .lock()
            .unwrap()
            .answers
            .push(Progress::Done(Status::SUCCESS));
        let accepted = unit.submit(request(id)).unwrap();
        let (seq, pending) = (accepted.seq, accepted.completion);
        while !unit.is_completed(seq).unwrap() {
            std::thread::yield_now();
        }
        assert_eq!(pending.status(), Some(Status::SUCCESS));
    }
    unit.close();
    unit.drain();
    drop(worker.stop());
}

#[test]
fn every_policy_completes_what_many_threads_submit() {
    for policy in [
        PollPolicy::Reference,
        PollPolicy::Adaptive,
        PollPolicy::Busy,
    ] {
        let Bench {
            unit,
            runner,
            controls,
            ..
        } = Bench::with_policy(4, policy);
        // Every request runs for a few looks.
        controls.lock().unwrap().answers = (0..400)
            .flat_map(|_| {
                [
                    Progress::Done(Status::SUCCESS),
                    Progress::Continue,
                    Progress::Continue,
                ]
            })
            .collect();
        let worker = WorkerThread::spawn("test-worker", vec![Box::new(runner)]).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let unit = &unit;
                scope.spawn(move || {
                    for round in 0..100 {
                        let id = thread * 1_000 + round;
                        let mut next = Some(request(id));
                        while let Some(item) = next.take() {
                            match unit.submit(item) {
                                Ok(accepted) => assert_eq!(accepted.completion.wait(), Ok(id)),
                                Err(refused) => {
                                    assert_eq!(refused.reason.status(), Status::QUEUE_FULL);
                                    assert!(unit.wait_room(None));
                                    next = refused.item;
                                }
                            }
                        }
                    }
                });
            }
        });
        assert_eq!(unit.last_completed().cursor().get(), 400);
        unit.close();
        unit.drain();
        drop(worker.stop());
    }
}

/// Threads that wait, threads that poll, and threads that change their minds share one place.
#[test]
fn f5_many_threads_reserve_in_a_queue_of_one() {
    const ROUNDS: u32 = 100;
    let Bench {
        unit,
        runner,
        controls,
        ..
    } = Bench::with_policy(1, PollPolicy::Adaptive);
    controls.lock().unwrap().answers = (0..6 * ROUNDS)
        .map(|_| Progress::Done(Status::SUCCESS))
        .collect();
    let worker = WorkerThread::spawn("test-worker", vec![Box::new(runner)]).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let unit = &unit;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let place = if thread % 2 == 0 {
                        unit.reserve_until(None).unwrap()
                    } else {
                        block_on(unit.reserve()).unwrap()
                    };
                    if thread % 3 == 0 {
                        drop(place);
                        continue;
                    }
                    let id = thread * 1_000 + round;
                    let accepted = place.submit(request(id)).unwrap();
                    assert_eq!(accepted.completion.wait(), Ok(id));
                }
            });
        }
    });
    assert_eq!(unit.last_completed().cursor().get(), u64::from(4 * ROUNDS));
    assert_eq!((unit.depth(), unit.reserved()), (0, 0));
    unit.close();
    unit.drain();
    drop(worker.stop());
}

/// Wakes a thread.
struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The smallest executor.
#[test]
fn f7_who_drains_a_unit_is_woken_while_somebody_holds_a_place() {
    let mut bench = Bench::new(2);
    let (unit, runner) = (&bench.unit, &mut bench.runner);
    let _place = unit.try_reserve().unwrap();
    for id in 0..if cfg!(miri) { 3 } else { 200 } {
        unit.post(request(id)).unwrap();
        let done = Progress::Done(Status::SUCCESS);
        bench.controls.lock().unwrap().answers.push(done);
        std::thread::scope(|scope| {
            scope.spawn(|| unit.drain());
            // It sleeps by now, or not yet.
            std::thread::yield_now();
            assert_eq!(runner.step(), Step::Completed);
        });
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut cx = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
        std::thread::park();
    }
}

#[test]
fn a_worker_serves_at_most_eight_units_and_stops_without_work() {
    let runners = |count: usize| -> Vec<Box<dyn Runner>> {
        (0..count)
            .map(|_| Box::new(Bench::new(1).runner) as Box<dyn Runner>)
            .collect()
    };
    assert!(WorkerThread::spawn("nine", runners(9)).is_err());
    let worker = WorkerThread::spawn("eight", runners(8)).unwrap();
    assert_eq!(worker.stop().len(), 8);
}

#[test]
fn w4_worker_threads_have_every_signal_blocked() {
    let Bench {
        unit,
        runner,
        controls,
        ..
    } = Bench::new(1);
    let (sender, receiver) = std::sync::mpsc::channel();
    controls.lock().unwrap().probe = Some(Box::new(move || {
        sender
            .send(std::fs::read_to_string("/proc/thread-self/status").unwrap())
            .unwrap();
    }));
    controls.lock().unwrap().answers = vec![Progress::Done(Status::SUCCESS)];
    let worker = WorkerThread::spawn("sig-blocked", vec![Box::new(runner)]).unwrap();
    let accepted = unit.submit(request(1)).unwrap();
    accepted.completion.wait().unwrap();
    drop(worker.stop());
    let status = receiver.recv().unwrap();
    let field = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap()
            .trim()
    };
    assert_eq!(field("Name:"), "sig-blocked");
    let mask = u64::from_str_radix(field("SigBlk:"), 16).unwrap();
    // All but SIGKILL (9), SIGSTOP (19), and the two that the C library keeps (32, 33).
    let blockable: u64 = !(1 << 8 | 1 << 18 | 1 << 31 | 1 << 32);
    assert_eq!(mask & blockable, blockable);
}
