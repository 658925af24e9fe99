//! `tokio`: an `mpsc` channel to a task that answers each request on its own `oneshot`.
//!
//! Spawned on two threads, two tasks that only wait for each other end up on one of them: the runtime runs the task that was
//! woken next, where it was woken. So the crossing is measured besides, with one task outside of the runtime's thread.

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

/// Two threads, one on each processor; where the tasks run is the runtime's choice.
pub(crate) struct MultiThread;

/// The answering task on the runtime's thread, the asking one on the thread that waits for it: each request crosses.
pub(crate) struct Crossing;

impl Loop for CurrentThread {
    fn drive(processors: Pair, depth: usize, stamps: &mut [u64]) -> bool {
        pin::on(processors[0], || {
            let runtime = Builder::new_current_thread().build();
            run(runtime, depth, stamps, Asks::Spawned)
        })
    }
}

impl Loop for MultiThread {
    fn drive(processors: Pair, depth: usize, stamps: &mut [u64]) -> bool {
        run(on_threads(&processors), depth, stamps, Asks::Spawned)
    }
}

impl Loop for Crossing {
    fn drive(processors: Pair, depth: usize, stamps: &mut [u64]) -> bool {
        pin::on(processors[0], || {
            run(on_threads(&processors[1..]), depth, stamps, Asks::Outside)
        })
    }
}

/// Where the asking task runs.
#[derive(Clone, Copy)]
enum Asks {
    Spawned,
    Outside,
}

/// A thread for each of these processors.
pub(crate) fn on_threads(processors: &[usize]) -> std::io::Result<Runtime> {
    let started = AtomicUsize::new(0);
    let each = processors.to_vec();
    let pinned = move || {
        let number = started.fetch_add(1, Ordering::Relaxed);
        pin::pin(each[number % each.len()]);
    };
    Builder::new_multi_thread()
        .worker_threads(processors.len())
        .on_thread_start(pinned)
        .build()
}

fn run(runtime: std::io::Result<Runtime>, depth: usize, stamps: &mut [u64], asks: Asks) -> bool {
    let Ok(runtime) = runtime else {
        return false;
    };
    let (requests, received) = mpsc::channel(CAPACITY);
    runtime.spawn(answer(received));
    let asking = ask(requests, depth, vec![1; stamps.len()]);
    let taken = match asks {
        Asks::Spawned => runtime.block_on(runtime.spawn(asking)),
        Asks::Outside => Ok(runtime.block_on(asking)),
    };
    match taken {
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
