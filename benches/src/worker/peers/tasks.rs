//! `tokio`: an `mpsc` channel to a task that answers each request on its own `oneshot`.
//!
//! Both tasks are spawned, so that none of them runs outside of the runtime's threads.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};

use crate::pin::{self, Pair};
use crate::worker::service::Loop;
use crate::worker::tally::Tally;

/// More than the deepest loop has outstanding.
const CAPACITY: usize = 64;

type Answer = oneshot::Sender<()>;

/// Both tasks on the thread of the first processor.
pub(crate) struct CurrentThread;

/// Two threads, one on each processor.
pub(crate) struct MultiThread;

impl Loop for CurrentThread {
    fn drive(processors: Pair, depth: usize, stamps: &mut [u64]) -> bool {
        pin::on(processors[0], || {
            run(Builder::new_current_thread().build(), depth, stamps)
        })
    }
}

impl Loop for MultiThread {
    fn drive(processors: Pair, depth: usize, stamps: &mut [u64]) -> bool {
        let started = AtomicUsize::new(0);
        let pinned = move || {
            let number = started.fetch_add(1, Ordering::Relaxed);
            pin::pin(processors[number % 2]);
        };
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .on_thread_start(pinned)
            .build();
        run(runtime, depth, stamps)
    }
}

fn run(runtime: std::io::Result<Runtime>, depth: usize, stamps: &mut [u64]) -> bool {
    let Ok(runtime) = runtime else {
        return false;
    };
    let (requests, received) = mpsc::channel(CAPACITY);
    runtime.spawn(answer(received));
    let asking = runtime.spawn(ask(requests, depth, vec![1; stamps.len()]));
    match runtime.block_on(asking) {
        Ok(taken) => stamps.copy_from_slice(&taken),
        Err(fault) => panic!("the asking task ended early: {fault}"),
    }
    true
}

async fn answer(mut requests: mpsc::Receiver<Answer>) {
    while let Some(answer) = requests.recv().await {
        // Who asked may be gone.
        let _ = answer.send(());
    }
}

async fn ask(requests: mpsc::Sender<Answer>, depth: usize, mut stamps: Vec<u64>) -> Vec<u64> {
    let mut tally = Tally::new(&mut stamps, depth);
    let mut waiting = VecDeque::with_capacity(depth);
    while !tally.is_over() {
        while waiting.len() < depth {
            let (answer, answered) = oneshot::channel();
            // An error says that the other task is gone, and then `answered` does too.
            let _ = requests.send(answer).await;
            waiting.push_back(answered);
        }
        if let Some(oldest) = waiting.pop_front() {
            assert!(oldest.await.is_ok(), "a request has no answer");
            tally.completed(1);
        }
    }
    stamps
}
