//! Futures that are dropped at every point where they may be: whatever was accepted completes, nothing is written to memory
//! that has gone, and the queue is as good as before.
//!
//! `cargo xtask verify` runs this file once more under a sanitizer that sees every access to freed memory.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

mod held;

use futures::StreamExt;
use futures::future::{BoxFuture, FutureExt, select};
use held::Held;
use lane_tests::{Kind, Parts, Rig};
use nrta::Pending;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

lane_tests::on_both! {
    f1_a_future_dropped_at_any_await_point_changes_nothing,
    f3_a_select_loop_stores_one_waker_and_is_woken_once,
    f7_the_last_handle_goes_inside_an_executor_with_requests_in_flight,
}

/// Wakes a thread and counts how often.
struct Counted {
    wakes: AtomicUsize,
    thread: Thread,
}

impl Wake for Counted {
    fn wake(self: Arc<Self>) {
        self.wakes.fetch_add(1, Ordering::SeqCst);
        self.thread.unpark();
    }
}

fn counted() -> (Arc<Counted>, Waker) {
    let counted = Arc::new(Counted {
        wakes: AtomicUsize::new(0),
        thread: thread::current(),
    });
    let waker = Waker::from(Arc::clone(&counted));
    (counted, waker)
}

/// Polls a future when it is woken, but no more than `polls` times, and drops it then. The output, if it came to that.
fn poll_and_drop<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    let (counted, waker) = counted();
    let mut future = pin!(future);
    let mut seen = 0;
    for _ in 0..polls {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(output);
        }
        while counted.wakes.load(Ordering::SeqCst) == seen {
            thread::park();
        }
        seen = counted.wakes.load(Ordering::SeqCst);
    }
    None
}

/// A device whose executions take as long as chance will have it, until this is dropped.
struct Chance {
    over: Arc<AtomicBool>,
    device: Option<thread::JoinHandle<()>>,
}

impl Chance {
    fn over(held: &Held, mut seed: u64) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let (ends, device) = (Arc::clone(&over), Arc::clone(&held.device));
        let device = thread::spawn(move || {
            while !ends.load(Ordering::Acquire) {
                for _ in 0..random(&mut seed) % 8 {
                    thread::yield_now();
                }
                device.ring_one();
            }
        });
        Self {
            over,
            device: Some(device),
        }
    }
}

impl Drop for Chance {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        if let Some(device) = self.device.take() {
            device.join().unwrap();
        }
    }
}

/// A number that looks as if by chance; the seed is not 0.
fn random(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

/// One of the things that a program awaits.
type Awaited = for<'h> fn(&'h Held) -> BoxFuture<'h, ()>;

/// A whole request through the lane, with an await at every step of it.
async fn pipeline(held: &Held) {
    let (moves, compute) = (held.core.tensor_op(0).unwrap(), &held.compute);
    let [scores, label] = &held.outputs;
    let written = moves.write_when_room(&held.input, 0, vec![7u8; 64]).await;
    written.unwrap().await.unwrap();
    let running = compute
        .execute_when_room(&held.model, &[&held.input], &[scores, label])
        .await;
    running.unwrap().await.unwrap();
    let read = moves.read_when_room(label, 0, vec![0u8; 4]).await;
    assert!(read.unwrap().await.unwrap()[0] < 10);
}

/// What it is, and whether it waits for room.
const AWAITED: [(&str, bool, Awaited); 8] = [
    ("an outcome", false, |held| {
        async { drop(held.execute().unwrap().await) }.boxed()
    }),
    ("room", true, |held| held.compute.room().boxed()),
    ("a request when there is room", true, |held| {
        async {
            let [scores, label] = &held.outputs;
            let inputs = [&held.input];
            let accepted = held
                .compute
                .execute_when_room(&held.model, &inputs, &[scores, label])
                .await;
            accepted.unwrap().await.unwrap();
        }
        .boxed()
    }),
    ("a sequence", false, |held| {
        let seq = held.execute().unwrap().seq();
        held.compute.wait_for(seq).map(Result::unwrap).boxed()
    }),
    ("the next completion", false, |held| {
        async {
            let mut completions = held.compute.completions();
            held.execute().unwrap().detach();
            completions.next().await.unwrap();
        }
        .boxed()
    }),
    ("two outcomes at once", false, |held| {
        let [first, second] = [held.execute().unwrap(), held.execute().unwrap()];
        select(first, second).map(drop).boxed()
    }),
    ("a request or a change of health", false, |held| {
        async {
            let mut watch = held.compute.watch();
            let request = held.execute().unwrap();
            drop(select(request, watch.next()).await);
        }
        .boxed()
    }),
    ("a whole pipeline", false, |held| pipeline(held).boxed()),
];

/// Everything that was accepted is complete, and the queue takes requests as on its first day.
fn settle(held: &Held) {
    for queue in [0, 1] {
        let moves = held.core.tensor_op(queue).unwrap();
        if moves.last_issued().cursor().is_issuable() {
            moves.wait(moves.last_issued(), None).unwrap();
        }
        assert_eq!(moves.depth(), 0);
    }
    if held.compute.last_issued().cursor().is_issuable() {
        held.compute.wait(held.compute.last_issued(), None).unwrap();
    }
    assert_eq!(held.compute.depth(), 0);
    let request = held.execute().unwrap();
    assert!(request.wait().is_ok());
}

fn f1_a_future_dropped_at_any_await_point_changes_nothing(rig: &Rig) {
    let held = Held::with_limit(rig, 4);
    let chance = Chance::over(&held, 0x5EED);
    for (what, on_full_queue, awaited) in AWAITED {
        // More polls than any of them needs, and every number before.
        for polls in 0..16 {
            if on_full_queue {
                while held.execute().is_ok() {}
            }
            let ended = poll_and_drop(awaited(&held), polls);
            settle(&held);
            assert!(polls < 15 || ended.is_some(), "{what} never ends");
        }
    }
    drop(chance);
}

/// Through system calls that are answered by another thread it would take a minute.
#[test]
fn f1_ten_thousand_requests_or_timers_whichever_is_first() {
    Kind::Simulated.with(Parts::default(), ten_thousand_requests_or_timers);
}

fn ten_thousand_requests_or_timers(rig: &Rig) {
    const ROUNDS: usize = if cfg!(debug_assertions) {
        10_000
    } else {
        50_000
    };
    let held = Held::with_limit(rig, 4);
    let chance = Chance::over(&held, 0xD1CE);
    let moves = held.core.tensor_op(1).unwrap();
    let mut seed = 0xC0FFEE;
    let mut accepted = 0;
    for round in 0..ROUNDS {
        // The timer is a number of polls.
        let timer = (random(&mut seed) % 3) as usize;
        if round % 2 == 0 {
            let request = async {
                let (inputs, outputs) = ([&held.input], held.outputs.each_ref());
                let accepted = held
                    .compute
                    .execute_when_room(&held.model, &inputs, &outputs);
                accepted.await.unwrap().await
            };
            if let Some(outcome) = poll_and_drop(request, timer) {
                outcome.unwrap();
            }
        } else {
            let bytes = vec![0xA5u8; 64];
            let request = moves.write(&held.input, 0, bytes).unwrap();
            accepted += 1;
            if random(&mut seed).is_multiple_of(4) {
                // Not even its destructor runs.
                std::mem::forget(request);
            } else {
                drop(poll_and_drop(request, timer));
            }
        }
    }
    settle(&held);
    // Each accepted request has completed once.
    let snapshot = moves.snapshot();
    assert_eq!((snapshot.issued, snapshot.completed), (accepted, accepted));
    let snapshot = held.compute.snapshot();
    assert_eq!(snapshot.issued, snapshot.completed);
    drop(chance);
}

fn f3_a_select_loop_stores_one_waker_and_is_woken_once(rig: &Rig) {
    let held = Held::new(rig);
    let mut request = held.execute().unwrap();
    let (counted, waker) = counted();
    for _ in 0..100_000 {
        let poll = Pin::new(&mut request).poll(&mut Context::from_waker(&waker));
        assert!(poll.is_pending());
    }
    // Ours, the waker's, and the one that is stored.
    assert_eq!(Arc::strong_count(&counted), 3);
    held.release();
    held.compute.wait(request.seq(), None).unwrap();
    while counted.wakes.load(Ordering::SeqCst) == 0 {
        thread::yield_now();
    }
    assert!(request.is_done());
    assert_eq!(counted.wakes.load(Ordering::SeqCst), 1);
    assert_eq!(Arc::strong_count(&counted), 2);
}

fn f7_the_last_handle_goes_inside_an_executor_with_requests_in_flight(rig: &Rig) {
    let executed = futures::executor::LocalPool::new().run_until(async {
        let runtime = rig.builder().open().unwrap();
        let core = runtime.core(0).unwrap();
        let tensor = core.allocate(64).unwrap();
        let moves = core.tensor_op(0).unwrap();
        let in_flight: Vec<Pending<Vec<u8>>> = (0..3)
            .map(|_| moves.write(&tensor, 0, vec![1; 64]).unwrap())
            .collect();
        drop((runtime, core, tensor, moves));
        // What was accepted has completed, and says so.
        futures::future::join_all(in_flight).await
    });
    assert!(executed.into_iter().all(|outcome| outcome.is_ok()));
}
