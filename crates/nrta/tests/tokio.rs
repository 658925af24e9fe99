//! On tokio: its reactor counts completions, and its tasks await everything else.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use futures::{FutureExt, StreamExt};
use nrta::reactor::CounterError;
use nrta::{Core, EventError, Health, Runtime, Tensor, TensorOpQueue};
use tokio::runtime::Builder;

/// How many requests each test makes.
const REQUESTS: u64 = 200;

struct Bench {
    runtime: Runtime,
    moves: TensorOpQueue,
    tensor: Tensor,
    _core: Core,
}

fn bench() -> Bench {
    let runtime = Runtime::builder().open().unwrap();
    let core = runtime.core(0).unwrap();
    Bench {
        moves: core.tensor_op(0).unwrap(),
        tensor: core.allocate(8).unwrap(),
        _core: core,
        runtime,
    }
}

/// Runs on both of tokio's runtimes.
fn on_each<F: Future<Output = ()>>(test: impl Fn() -> F) {
    let current = Builder::new_current_thread().enable_io().build().unwrap();
    current.block_on(test());
    let multi = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_io()
        .build()
        .unwrap();
    multi.block_on(test());
}

#[test]
fn every_completion_is_counted_once() {
    on_each(|| async {
        let Bench { moves, tensor, .. } = &bench();
        let mut counter = moves.completion_counter().unwrap();
        let counting = tokio::spawn(async move {
            let mut counted = 0;
            while counted < REQUESTS {
                counted += counter.completed().await.unwrap();
            }
            counted
        });
        for _ in 0..REQUESTS {
            moves.write(tensor, 0, vec![1; 8]).unwrap().await.unwrap();
            tokio::task::yield_now().await;
        }
        assert_eq!(counting.await.unwrap(), REQUESTS);
    });
}

#[test]
fn a_dropped_count_loses_nothing() {
    on_each(|| async {
        let Bench { moves, tensor, .. } = &bench();
        let mut counter = moves.completion_counter().unwrap();
        for _ in 0..10 {
            let counted = counter.completed().now_or_never();
            assert!(counted.is_none(), "nothing has completed");
        }
        moves.write(tensor, 0, vec![1; 8]).unwrap().await.unwrap();
        assert_eq!(counter.completed().await.unwrap(), 1);
    });
}

#[test]
fn tasks_wait_stream_and_watch() {
    on_each(|| async {
        let Bench {
            runtime,
            moves,
            tensor,
            ..
        } = bench();
        let mut completions = moves.completions();
        let last = tokio::spawn(async move {
            let mut last = None;
            while let Some(newest) = completions.next().await {
                last = Some(newest);
            }
            last
        });
        let mut watch = moves.watch();
        let watching = tokio::spawn(async move { watch.changed().await.unwrap().health });
        let mut batch = Vec::new();
        for _ in 0..REQUESTS {
            batch.push(moves.write(&tensor, 0, vec![1; 8]).unwrap());
        }
        let seq = batch.last().unwrap().seq();
        let waiting: Vec<_> = (0..4).map(|_| tokio::spawn(moves.wait_for(seq))).collect();
        for waiting in waiting {
            waiting.await.unwrap().unwrap();
        }
        assert!(batch.iter().all(nrta::Pending::is_done));
        tokio::task::spawn_blocking(|| runtime.close())
            .await
            .unwrap();
        assert_eq!(last.await.unwrap(), Some(seq));
        assert_eq!(watching.await.unwrap(), Health::Closing);
    });
}

#[test]
fn outside_of_tokio_and_on_a_closed_queue_there_is_no_counter() {
    let Bench { runtime, moves, .. } = bench();
    assert!(matches!(
        moves.completion_counter(),
        Err(CounterError::NoRuntime(_))
    ));
    runtime.close();
    on_each(|| async {
        assert!(matches!(
            moves.completion_counter(),
            Err(CounterError::Event(EventError::Queue(_)))
        ));
    });
}

/// A glob takes no name of a crate that the program uses.
mod with_all_names {
    use nrta::*;

    #[test]
    fn all_names_of_this_crate_leave_tokio_its_own() {
        let tokio = tokio::runtime::Builder::new_current_thread().build();
        let runtime = tokio.unwrap().block_on(async { Runtime::builder().open() });
        assert!(runtime.is_ok());
    }
}
