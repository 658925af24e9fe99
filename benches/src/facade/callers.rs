//! Who asks: the same closed loop, as a task on an executor of `tokio` or as a thread of its own.
//!
//! ```text
//!   first processor                              second processor
//!   the loop: schedule until `depth` are on  ──> whatever answers
//!   the way, await the oldest                <──
//! ```

use std::collections::VecDeque;
use std::marker::PhantomData;

use tokio::runtime::{Builder, Runtime};

use super::service::{Service, Waits};
use crate::pin::{self, Pair};
use crate::worker::peers::tasks::on_threads;
use crate::worker::service::Loop;
use crate::worker::tally::Tally;

/// An executor that the loop is spawned on.
pub(crate) trait Executor {
    fn start(processors: Pair) -> Option<Runtime>;
}

/// `tokio`'s executor for one thread.
pub(crate) struct CurrentThread;

/// `tokio`'s executor for many threads, with one: the other processor is for who answers.
pub(crate) struct MultiThread;

impl Executor for CurrentThread {
    fn start(_: Pair) -> Option<Runtime> {
        Builder::new_current_thread().build().ok()
    }
}

impl Executor for MultiThread {
    fn start(processors: Pair) -> Option<Runtime> {
        on_threads(&processors[..1]).ok()
    }
}

/// The loop as a task.
pub(crate) struct Task<E, S>(PhantomData<(E, S)>);

/// The loop as a thread that blocks.
pub(crate) struct Blocking<S>(PhantomData<S>);

/// The loop as a thread that looks all the time.
pub(crate) struct Watching<S>(PhantomData<S>);

impl<E: Executor, S: Service> Loop for Task<E, S> {
    fn drive(processors: Pair, depth: usize, stamps: &mut [u64]) -> bool {
        pin::on(processors[0], || {
            let Some(executor) = E::start(processors) else {
                return false;
            };
            let service = {
                let _context = executor.enter();
                S::start(processors, depth)
            };
            let Some(service) = service else {
                return false;
            };
            // A task of the executor owns what it uses.
            let asking = executor.spawn(ask(service, depth, vec![1; stamps.len()]));
            match executor.block_on(asking) {
                Ok((service, taken)) => {
                    stamps.copy_from_slice(&taken);
                    // Closing blocks, which a task must not.
                    drop(service);
                    true
                }
                Err(fault) => panic!("the asking task ended early: {fault}"),
            }
        })
    }
}

impl<S: Waits> Loop for Blocking<S> {
    fn drive(processors: Pair, depth: usize, stamps: &mut [u64]) -> bool {
        on_a_thread::<S>(processors, depth, stamps, S::wait)
    }
}

impl<S: Waits> Loop for Watching<S> {
    fn drive(processors: Pair, depth: usize, stamps: &mut [u64]) -> bool {
        on_a_thread::<S>(processors, depth, stamps, S::watch)
    }
}

async fn ask<S: Service>(mut service: S, depth: usize, mut stamps: Vec<u64>) -> (S, Vec<u64>) {
    let mut tally = Tally::new(&mut stamps, depth);
    let mut waiting = VecDeque::with_capacity(depth);
    while !tally.is_over() {
        while waiting.len() < depth {
            waiting.push_back(service.request());
        }
        if let Some(oldest) = waiting.pop_front() {
            assert!(oldest.await, "a request has failed");
            tally.completed(1);
        }
    }
    for answer in waiting {
        answer.await;
    }
    (service, stamps)
}

fn on_a_thread<S: Waits>(
    processors: Pair,
    depth: usize,
    stamps: &mut [u64],
    wait: fn(S::Answer) -> bool,
) -> bool {
    pin::on(processors[0], || {
        let Some(mut service) = S::start(processors, depth) else {
            return false;
        };
        let mut tally = Tally::new(stamps, depth);
        let mut waiting = VecDeque::with_capacity(depth);
        while !tally.is_over() {
            while waiting.len() < depth {
                waiting.push_back(service.request());
            }
            if let Some(oldest) = waiting.pop_front() {
                assert!(wait(oldest), "a request has failed");
                tally.completed(1);
            }
        }
        for answer in waiting {
            wait(answer);
        }
        true
    })
}
