//! Following a queue in tasks and threads: waits for a batch, the stream of completions, the watch on its health.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

mod held;

use futures::executor::block_on;
use futures::future::join_all;
use futures::{FutureExt, Stream, StreamExt};
use held::Held;
use lane_tests::Rig;
use nrta::{AskError, Health, SeqId, Status, WaitError};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

lane_tests::on_both! {
    waiting_for_the_last_of_a_batch_is_waiting_for_the_batch,
    any_number_of_tasks_and_threads_wait_for_one_sequence,
    what_was_never_issued_cannot_be_waited_for,
    f3_the_newest_waker_is_woken_once,
    f3_a_completion_wakes_those_who_wait_for_it_and_nobody_else,
    f3_a_dropped_future_leaves_no_waker,
    f4_the_destructor_of_a_replaced_waker_may_register_and_wait,
    the_stream_of_completions_grows_and_does_not_miss_the_last,
    the_stream_coalesces_what_nobody_asked_for,
    a_thread_can_iterate_over_completions,
    a_stream_ends_on_a_degraded_queue_when_the_runtime_closes with held::fatal(),
    f7_the_end_wakes_whoever_follows,
    f6_a_watch_learns_of_a_degradation_and_its_cause with held::fatal(),
    f6_a_submitter_that_degrades_its_queue_tells_the_watch,
    a_watch_of_one_queue_is_not_told_of_another with held::fatal(),
    f7_a_waker_cannot_make_the_worker_wait_for_itself,
    f3_registration_against_completion_misses_nothing,
    f5_a_full_queue_says_so_and_changes_nothing_a_thousand_times,
    sequences_of_several_threads_are_the_order_of_acceptance,
}

/// Counts how often it wakes.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Count {
    fn wakes(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// Until a worker has woken it so often.
    fn await_wakes(&self, wakes: usize) {
        while self.wakes() < wakes {
            thread::yield_now();
        }
    }
}

fn counted() -> (Arc<Count>, Waker) {
    let count = Arc::new(Count::default());
    (Arc::clone(&count), Waker::from(count))
}

fn waiting_for_the_last_of_a_batch_is_waiting_for_the_batch(rig: &Rig) {
    let held = Held::new(rig);
    let pending: Vec<_> = (0..5).map(|_| held.execute().unwrap()).collect();
    let last = pending[4].seq();
    assert_eq!(
        held.compute.wait(last, Some(Instant::now())),
        Err(WaitError::TimedOut { seq: last })
    );
    held.release();
    held.compute.wait(last, None).unwrap();
    assert!(pending.iter().all(nrta::Pending::is_done));
    block_on(held.compute.wait_for(last)).unwrap();
}

fn any_number_of_tasks_and_threads_wait_for_one_sequence(rig: &Rig) {
    let held = Held::new(rig);
    let seqs = held.schedule(3);
    let tasks: Vec<_> = (0..2)
        .map(|_| {
            let waits: Vec<_> = (0..25)
                .map(|index| held.compute.wait_for(seqs[index % 3]))
                .collect();
            thread::spawn(move || block_on(join_all(waits)))
        })
        .collect();
    let (compute, last) = (held.compute.clone(), seqs[2]);
    let thread = thread::spawn(move || compute.wait(last, None));
    held.release();
    for task in tasks {
        assert!(task.join().unwrap().iter().all(Result::is_ok));
    }
    thread.join().unwrap().unwrap();
}

fn what_was_never_issued_cannot_be_waited_for(rig: &Rig) {
    let held = Held::new(rig);
    let seq = held.schedule(1)[0];
    let next = SeqId::from_raw(seq.raw() + 1);
    let moves = held.core.tensor_op(0).unwrap();
    for refused in [
        held.compute.wait(next, None).unwrap_err(),
        moves.wait(seq, None).unwrap_err(),
        block_on(held.compute.wait_for(next)).unwrap_err(),
        block_on(moves.wait_for(seq)).unwrap_err(),
    ] {
        assert!(matches!(
            refused,
            WaitError::Queue(AskError::NeverIssued(_))
        ));
        assert_eq!(refused.status(), Status::INVALID);
    }
    // Sequences of two queues do not compare.
    assert_eq!(seq.is_done_at(moves.last_completed()), None);
    held.release();
}

fn f3_the_newest_waker_is_woken_once(rig: &Rig) {
    let held = Held::new(rig);
    let seq = held.schedule(1)[0];
    let mut wait = pin!(held.compute.wait_for(seq));
    let ((first, a), (second, b)) = (counted(), counted());
    assert!(
        wait.as_mut()
            .poll(&mut Context::from_waker(&a))
            .is_pending()
    );
    for _ in 0..100_000 {
        assert!(
            wait.as_mut()
                .poll(&mut Context::from_waker(&b))
                .is_pending()
        );
    }
    // One waker is stored: its handle, and ours twice.
    assert_eq!(Arc::strong_count(&second), 3);
    assert_eq!(Arc::strong_count(&first), 2);
    held.release();
    second.await_wakes(1);
    assert_eq!((first.wakes(), second.wakes()), (0, 1));
    let polled = wait.as_mut().poll(&mut Context::from_waker(&a));
    assert_eq!(polled, Poll::Ready(Ok(())));
    assert_eq!(Arc::strong_count(&second), 2, "nothing is kept");
}

fn f3_a_completion_wakes_those_who_wait_for_it_and_nobody_else(rig: &Rig) {
    let held = Held::new(rig);
    let seqs = held.schedule(3);
    let counts = [counted(), counted()];
    let mut waits = [0, 2].map(|index| Box::pin(held.compute.wait_for(seqs[index])));
    for (wait, (_, waker)) in waits.iter_mut().zip(&counts) {
        assert!(
            wait.poll_unpin(&mut Context::from_waker(waker))
                .is_pending()
        );
    }
    held.complete(seqs[0]);
    // The worker has woken whom it will when it completes the next.
    held.complete(seqs[1]);
    assert_eq!((counts[0].0.wakes(), counts[1].0.wakes()), (1, 0));
    held.complete(seqs[2]);
    counts[1].0.await_wakes(1);
    assert_eq!((counts[0].0.wakes(), counts[1].0.wakes()), (1, 1));
}

fn f3_a_dropped_future_leaves_no_waker(rig: &Rig) {
    let held = Held::new(rig);
    let seq = held.schedule(1)[0];
    let (count, waker) = counted();
    let mut cx = Context::from_waker(&waker);
    let mut wait = held.compute.wait_for(seq);
    let mut completions = held.compute.completions();
    let mut watch = held.compute.watch();
    assert!(wait.poll_unpin(&mut cx).is_pending());
    assert!(completions.poll_next_unpin(&mut cx).is_pending());
    assert!(watch.poll_next_unpin(&mut cx).is_pending());
    drop((wait, completions, watch));
    assert_eq!(Arc::strong_count(&count), 2);
    held.release();
    held.compute.wait(seq, None).unwrap();
    assert_eq!(count.wakes(), 0);
}

/// Does on its destruction what an application could do anywhere.
struct Meddles {
    compute: nrta::ComputeQueue,
    seq: SeqId,
    event: nrta::CompletionEvent,
    destroyed: Arc<Count>,
}

impl Wake for Meddles {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Meddles {
    fn drop(&mut self) {
        drop(self.compute.subscribe(self.seq, &self.event).unwrap());
        drop(self.compute.subscribe_each(&self.event).unwrap());
        let (_, waker) = counted();
        let mut wait = self.compute.wait_for(self.seq);
        let mut watch = self.compute.watch();
        let mut cx = Context::from_waker(&waker);
        let _ = wait.poll_unpin(&mut cx);
        let _ = watch.poll_next_unpin(&mut cx);
        Arc::clone(&self.destroyed).wake();
    }
}

fn f4_the_destructor_of_a_replaced_waker_may_register_and_wait(rig: &Rig) {
    let held = Held::new(rig);
    let seq = held.schedule(1)[0];
    let destroyed = Arc::new(Count::default());
    let waker = || {
        Waker::from(Arc::new(Meddles {
            compute: held.compute.clone(),
            seq,
            event: nrta::CompletionEvent::new().unwrap(),
            destroyed: Arc::clone(&destroyed),
        }))
    };
    let mut wait = held.compute.wait_for(seq);
    let mut watch = held.compute.watch();
    for _ in 0..3 {
        let waker = waker();
        let mut cx = Context::from_waker(&waker);
        assert!(wait.poll_unpin(&mut cx).is_pending());
        assert!(watch.poll_next_unpin(&mut cx).is_pending());
    }
    drop((wait, watch));
    assert_eq!(destroyed.wakes(), 3);
    held.release();
}

fn the_stream_of_completions_grows_and_does_not_miss_the_last(rig: &Rig) {
    let runtime = rig.builder().open().unwrap();
    let core = runtime.core(0).unwrap();
    let (moves, tensor) = (core.tensor_op(0).unwrap(), core.allocate(8).unwrap());
    drop(moves.write(&tensor, 0, vec![0; 8]).unwrap().wait());
    let completions = moves.completions();
    let reader = thread::spawn(move || block_on(completions.collect::<Vec<_>>()));
    let mut last = None;
    for _ in 0..5_000 {
        last = Some(moves.write(&tensor, 0, vec![1; 8]).unwrap().seq());
    }
    runtime.close();
    let items = reader.join().unwrap();
    assert!(items.is_sorted_by(|one, next| one.cursor() < next.cursor()));
    assert!(items[0].cursor().get() > 1, "not what came before");
    assert_eq!(items.last().copied(), last, "and not the stop either");
}

fn the_stream_coalesces_what_nobody_asked_for(rig: &Rig) {
    let held = Held::new(rig);
    let mut completions = held.compute.completions();
    let (_, waker) = counted();
    let mut cx = Context::from_waker(&waker);
    assert!(completions.poll_next_unpin(&mut cx).is_pending());
    let seqs = held.schedule(3);
    held.release();
    held.compute.wait(seqs[2], None).unwrap();
    assert_eq!(
        completions.poll_next_unpin(&mut cx),
        Poll::Ready(Some(seqs[2]))
    );
    assert!(completions.poll_next_unpin(&mut cx).is_pending());
}

fn a_thread_can_iterate_over_completions(rig: &Rig) {
    let held = Held::new(rig);
    let completions = held.compute.completions().blocking();
    let thread = thread::spawn(move || completions.collect::<Vec<_>>());
    let seqs = held.schedule(2);
    held.complete(seqs[0]);
    held.complete(seqs[1]);
    let Held {
        runtime, device, ..
    } = held;
    device.release_doorbells();
    runtime.close();
    assert_eq!(thread.join().unwrap().last(), Some(&seqs[1]));
}

fn a_stream_ends_on_a_degraded_queue_when_the_runtime_closes(rig: &Rig) {
    let held = Held::new(rig);
    let mut completions = held.compute.completions();
    let seqs = held.schedule(3);
    held.release();
    held.compute.wait(seqs[2], None).unwrap();
    let Held { runtime, .. } = held;
    assert_eq!(block_on(completions.next()), Some(seqs[2]));
    assert_eq!(completions.next().now_or_never(), None);
    runtime.close();
    assert_eq!(block_on(completions.next()), None);
    assert_eq!(block_on(completions.next()), None);
}

fn f7_the_end_wakes_whoever_follows(rig: &Rig) {
    let held = Held::new(rig);
    let Held {
        runtime, compute, ..
    } = held;
    let (mut completions, mut watch) = (compute.completions(), compute.watch());
    let follower = thread::spawn(move || {
        block_on(async {
            let change = watch.changed().await.unwrap();
            (change, watch.changed().await, completions.next().await)
        })
    });
    runtime.close();
    let (change, end, item) = follower.join().unwrap();
    assert_eq!((change.health, change.cause), (Health::Closing, None));
    assert_eq!((end, item), (None, None));
    // Who comes late is told the same.
    assert_eq!(block_on(compute.watch().collect::<Vec<_>>()).len(), 1);
    assert_eq!(block_on(compute.completions().next()), None);
}

fn f6_a_watch_learns_of_a_degradation_and_its_cause(rig: &Rig) {
    let held = Held::new(rig);
    let (mut early, compute) = (held.compute.watch(), held.compute.clone());
    let watcher = thread::spawn(move || block_on(early.changed()).unwrap());
    let seq = held.schedule(1)[0];
    held.release();
    let change = watcher.join().unwrap();
    assert_eq!(change.health, Health::Degraded);
    let cause = change.cause.clone().unwrap();
    assert_eq!(cause.seq, Some(seq));
    // Every later question gets the same answer.
    for _ in 0..3 {
        let all: Vec<_> = block_on(compute.watch().collect());
        assert_eq!(all.as_slice(), std::slice::from_ref(&change));
        assert_eq!(compute.cause(), Some(cause.clone()));
    }
}

fn f6_a_submitter_that_degrades_its_queue_tells_the_watch(rig: &Rig) {
    let held = Held::new(rig);
    held.device.release_doorbells();
    held.device.fail_doorbells();
    let mut watch = held.compute.watch();
    let (count, waker) = counted();
    let mut cx = Context::from_waker(&waker);
    assert!(watch.poll_next_unpin(&mut cx).is_pending());
    held.execute().unwrap_err();
    assert_eq!(count.wakes(), 1);
    let Poll::Ready(Some(change)) = watch.poll_next_unpin(&mut cx) else {
        panic!("it has changed");
    };
    assert_eq!(change.health, Health::Degraded);
    assert!(change.cause.unwrap().seq.is_none());
}

fn a_watch_of_one_queue_is_not_told_of_another(rig: &Rig) {
    let held = Held::new(rig);
    let moves = held.core.tensor_op(0).unwrap();
    let mut watch = moves.watch();
    let (count, waker) = counted();
    let mut cx = Context::from_waker(&waker);
    assert!(watch.poll_next_unpin(&mut cx).is_pending());
    let seq = held.schedule(1)[0];
    held.release();
    held.compute.wait(seq, None).unwrap();
    assert_eq!(moves.health(), Health::Healthy);
    assert_eq!(count.wakes(), 0);
}

/// A waker that waits for a request on the worker that has to complete it.
struct WaitsItself {
    compute: nrta::ComputeQueue,
    next: SeqId,
    refused: Arc<Count>,
}

impl Wake for WaitsItself {
    fn wake(self: Arc<Self>) {
        let refused = self.compute.wait(self.next, None);
        let xu = self.compute.xu();
        if refused == Err(WaitError::Queue(AskError::OnWorkerThread { xu }))
            && self.compute.completions().blocking().next().is_none()
        {
            Arc::clone(&self.refused).wake();
        }
    }
}

fn f7_a_waker_cannot_make_the_worker_wait_for_itself(rig: &Rig) {
    let held = Held::new(rig);
    let seqs = held.schedule(2);
    let refused = Arc::new(Count::default());
    let waker = Waker::from(Arc::new(WaitsItself {
        compute: held.compute.clone(),
        next: seqs[1],
        refused: Arc::clone(&refused),
    }));
    let mut wait = held.compute.wait_for(seqs[0]);
    assert!(
        wait.poll_unpin(&mut Context::from_waker(&waker))
            .is_pending()
    );
    held.complete(seqs[0]);
    refused.await_wakes(1);
    held.complete(seqs[1]);
}

fn f3_registration_against_completion_misses_nothing(rig: &Rig) {
    let runtime = rig.builder().open().unwrap();
    let core = runtime.core(0).unwrap();
    let (moves, tensor) = (core.tensor_op(0).unwrap(), core.allocate(8).unwrap());
    let mut completions = moves.completions();
    let mut state = 0x2545_F491_4F6C_DD1Du64;
    for _ in 0..5_000 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let seq = moves.write(&tensor, 0, vec![1; 8]).unwrap().seq();
        for _ in 0..state % 2_000 {
            std::hint::spin_loop();
        }
        block_on(moves.wait_for(seq)).unwrap();
        // A wake that is lost hangs here.
        assert_eq!(block_on(completions.next()), Some(seq));
    }
}

fn f5_a_full_queue_says_so_and_changes_nothing_a_thousand_times(rig: &Rig) {
    let held = Held::new(rig);
    let seqs = held.schedule(8);
    for _ in 0..1_000 {
        let refused = held.execute().unwrap_err();
        assert!(refused.is_queue_full());
    }
    assert_eq!(held.compute.last_issued(), seqs[7]);
    held.complete(seqs[0]);
    // The slot was free before its completion was visible.
    let next = held.execute().unwrap().seq();
    assert_eq!(next.raw(), seqs[7].raw() + 1, "no number was used");
    held.release();
    held.compute
        .wait(next, Some(Instant::now() + Duration::from_secs(600)))
        .unwrap();
}

fn sequences_of_several_threads_are_the_order_of_acceptance(rig: &Rig) {
    let runtime = rig.builder().open().unwrap();
    let core = runtime.core(0).unwrap();
    let moves = core.tensor_op(0).unwrap();
    let tensors: Vec<_> = (0..4).map(|_| core.allocate(8).unwrap()).collect();
    let mut all: Vec<u64> = thread::scope(|scope| {
        let threads: Vec<_> = tensors
            .iter()
            .map(|tensor| {
                scope.spawn(|| {
                    let numbers: Vec<u64> = (0..500)
                        .map(|_| moves.write(tensor, 0, vec![1; 8]).unwrap().seq())
                        .map(|seq| seq.cursor().get())
                        .collect();
                    assert!(numbers.is_sorted(), "each thread sees its own order");
                    numbers
                })
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    all.sort_unstable();
    assert!(
        all.iter().copied().eq(1..=2_000),
        "none twice, none left out"
    );
}

/// Streams can be sent to another task.
fn _is_for_tasks(stream: nrta::Completions) -> impl Stream<Item = SeqId> + Send + Sync + Unpin {
    stream
}
