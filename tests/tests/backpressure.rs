//! Back-pressure of the facade: places that are reserved, prepared requests, batches, and queues that fill half way.
//!
//! A queue is full here because its places are reserved or its executions held back: no test depends on how fast anything is.
#![allow(
    clippy::unwrap_used,
    clippy::result_large_err,
    reason = "a test that cannot be set up has failed; requests come back as they are"
)]

mod held;

use futures::executor::block_on;
use futures::future::{FutureExt, join_all};
use held::Held;
use lane_tests::{Parts, Rig};
use nrta::{
    Collective, Core, CoreCounter, Dtype, Failure, Health, Pending, Place, PollPolicy, ReduceOp,
    Refusal, Request, Runtime, ScheduleError, SeqId, Status, Tensor, TensorOpQueue, TpbIndex,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Instant;

lane_tests::on_both! {
    f5_a_place_is_full_for_everybody_but_its_holder,
    f5_a_place_that_is_given_back_wakes_who_waits,
    f5_a_completion_wakes_who_reserves,
    f5_a_deadline_ends_a_blocking_wait_for_a_place_and_changes_nothing,
    f5_a_prepared_request_waits_for_a_place_and_comes_back_when_there_is_none,
    f5_every_kind_of_request_can_be_prepared,
    f1_a_prepared_request_owns_what_it_needs,
    d8_what_is_wrong_is_said_when_a_request_is_prepared,
    a_prepared_request_belongs_to_the_queues_of_its_core with Parts::two_devices(),
    f5_a_batch_that_fills_the_queue_keeps_what_it_has_and_hands_the_rest_back,
    f5_a_batch_leaves_reserved_places_alone,
    a_whole_batch_is_waited_for_by_its_last_sequence,
    what_is_in_a_batch_runs_when_it_is_published,
    f7_a_place_does_not_keep_a_runtime_from_closing,
    f6_a_queue_that_degrades_lets_everybody_go_who_waits_for_a_place with held::fatal(),
    f5_many_tasks_and_threads_share_one_place,
    f5_a_part_of_a_collective_has_a_place_too,
    f7_closing_waits_for_no_batch,
    f5_a_batch_that_is_kept_holds_up_nobody_elses_requests,
    an_execution_in_a_batch_is_with_the_device_before_it_is_published,
}

/// A runtime of one core, a tensor-op queue of it, and a tensor of 64 bytes.
struct Moves {
    runtime: Runtime,
    core: Core,
    moves: TensorOpQueue,
    tensor: Tensor,
}

impl Moves {
    fn open(rig: &Rig) -> Self {
        let runtime = rig.builder().open().unwrap();
        let core = runtime.core(0).unwrap();
        Self {
            moves: core.tensor_op(0).unwrap(),
            tensor: core.allocate(64).unwrap(),
            core,
            runtime,
        }
    }

    /// All places of the queue.
    fn fill(&self) -> Vec<Place<TensorOpQueue>> {
        let places = (0..self.moves.limit()).map(|_| self.moves.try_reserve().unwrap());
        places.collect()
    }

    fn write(&self, value: u8) -> Request<Vec<u8>> {
        let prepared = self.moves.prepare().write(&self.tensor, 0, vec![value; 64]);
        prepared.unwrap()
    }

    fn read(&self) -> Vec<u8> {
        let read = self.moves.read(&self.tensor, 0, vec![0; 64]).unwrap();
        read.wait().unwrap()
    }
}

/// Counts how often it is woken.
#[derive(Default)]
struct Counting(AtomicUsize);

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn numbers<T: nrta::Returned>(pending: &[Pending<T>]) -> Vec<u64> {
    let number = |one: &Pending<T>| one.seq().cursor().get();
    pending.iter().map(number).collect()
}

fn f5_a_place_is_full_for_everybody_but_its_holder(rig: &Rig) {
    let bench = Moves::open(rig);
    let mut places = bench.fill();
    let full = bench.moves.try_reserve().unwrap_err();
    assert_eq!(full.failure(), Failure::QueueFull);
    let limit = bench.moves.limit();
    let text = format!("outstanding requests and reserved places take all {limit} of it");
    assert!(full.to_string().contains(&text), "{full}");
    assert_eq!((bench.moves.depth(), bench.moves.reserved()), (0, limit));
    for _ in 0..1_000 {
        let refused = bench
            .moves
            .write(&bench.tensor, 0, vec![9; 64])
            .unwrap_err();
        assert_eq!(refused.status(), Status::QUEUE_FULL);
        assert_eq!(refused.into_retry().unwrap(), [9; 64]);
    }
    assert!(bench.moves.try_reserve().unwrap_err().is_queue_full());
    let place = places.pop().unwrap();
    let write = place.schedule(bench.write(1)).unwrap();
    assert_eq!(write.seq().cursor().get(), 1, "refusals use no number");
    assert_eq!(write.wait().unwrap(), [1; 64]);
    drop(places);
    assert_eq!(bench.read(), [1; 64]);
}

fn f5_a_place_that_is_given_back_wakes_who_waits(rig: &Rig) {
    let bench = Moves::open(rig);
    let mut places = bench.fill();
    let counting = Arc::new(Counting::default());
    let waker = Waker::from(Arc::clone(&counting));
    let mut waiting = Box::pin(bench.moves.reserve());
    let mut dropped = Box::pin(bench.moves.reserve());
    for _ in 0..100 {
        let mut cx = Context::from_waker(&waker);
        assert!(dropped.poll_unpin(&mut cx).is_pending());
        assert!(waiting.poll_unpin(&mut cx).is_pending());
    }
    drop(places.pop());
    assert_eq!(counting.0.load(Ordering::SeqCst), 1, "one place wakes one");
    // It was for the one that goes now: the other is told.
    drop(dropped);
    assert_eq!(counting.0.load(Ordering::SeqCst), 2);
    let place = waiting.now_or_never().unwrap().unwrap();
    assert!(bench.moves.try_reserve().unwrap_err().is_queue_full());
    assert_eq!(place.xu(), bench.moves.xu());
}

fn f5_a_completion_wakes_who_reserves(rig: &Rig) {
    let held = Held::with_limit(rig, 2);
    let seqs = held.schedule(2);
    let compute = held.compute.clone();
    let waiting = thread::spawn(move || compute.reserve_until(None).unwrap());
    let mut task = Box::pin(held.compute.reserve());
    assert!(task.as_mut().now_or_never().is_none());
    held.complete(seqs[0]);
    held.complete(seqs[1]);
    let places = [waiting.join().unwrap(), block_on(task).unwrap()];
    assert!(held.execute().unwrap_err().is_queue_full());
    for place in places {
        let request = held.compute.prepare(&held.bound()).unwrap();
        place.schedule(request).unwrap().detach();
    }
    held.release();
}

fn f5_a_deadline_ends_a_blocking_wait_for_a_place_and_changes_nothing(rig: &Rig) {
    let bench = Moves::open(rig);
    let places = bench.fill();
    let passed = Some(Instant::now());
    let error = bench.moves.reserve_until(passed).unwrap_err();
    assert!(error.is_queue_full());
    drop(places);
    let place = bench.moves.reserve_until(passed).unwrap();
    assert_eq!(bench.moves.reserved(), 1);
    drop(place);
    assert_eq!(bench.moves.reserved(), 0);
    // Looking for a place is no request that was refused.
    assert_eq!(bench.moves.snapshot().queue_full, 0);
}

fn f5_a_prepared_request_waits_for_a_place_and_comes_back_when_there_is_none(rig: &Rig) {
    let bench = Moves::open(rig);
    let places = bench.fill();
    let refused = bench.moves.schedule(bench.write(5)).unwrap_err();
    let request = refused.into_retry().unwrap();
    let mut waiting = Box::pin(bench.moves.schedule_when_room(request));
    assert!(waiting.as_mut().now_or_never().is_none());
    drop(places);
    block_on(block_on(waiting).unwrap()).unwrap();
    assert_eq!(bench.read(), [5; 64]);
    // Given up, it gives the buffer back.
    assert_eq!(bench.write(6).into_buffer(), Some(vec![6; 64]));
    assert_eq!(bench.read(), [5; 64]);
}

fn f5_every_kind_of_request_can_be_prepared(rig: &Rig) {
    let bench = Moves::open(rig);
    let [a, b, to] = [(); 3].map(|()| bench.core.allocate(16).unwrap());
    let half = bench.core.allocate(8).unwrap();
    let prepare = bench.moves.prepare();
    let numbers = prepare
        .write_elements(&a, 0, vec![1.0f32, 2.0, 3.0, 4.0])
        .unwrap();
    let unit = [
        prepare.copy(&a, 0, &b, 0, 16).unwrap(),
        prepare
            .compute(ReduceOp::Add, Dtype::Float32, &[&a, &b], &to, 4)
            .unwrap(),
        prepare.fma(Dtype::Float32, [&a, &b, &to], &to, 4).unwrap(),
        prepare
            .cast(&to, Dtype::Float32, &half, Dtype::Float16, 4)
            .unwrap(),
        prepare.memset(&b, 0, 16, 0).unwrap(),
    ];
    let halves = prepare
        .read_elements(&half, 0, vec![nrta::f16::ZERO; 4])
        .unwrap();
    let zeros = prepare.read(&b, 0, vec![1; 16]).unwrap();
    assert_eq!(
        bench.moves.last_issued().cursor().get(),
        0,
        "nothing is scheduled"
    );
    // In the order of scheduling, not of preparing; what gives back different things, in one batch.
    let mut batch = bench.moves.batch();
    batch.schedule(numbers).unwrap().detach();
    for request in unit {
        batch.schedule(request).unwrap().detach();
    }
    let halves = batch.schedule(halves).unwrap();
    let zeros = batch.schedule(zeros).unwrap();
    assert_eq!(batch.publish(), Some(zeros.seq()));
    let expected = [3.0, 8.0, 15.0, 24.0].map(nrta::f16::from_f32);
    assert_eq!(halves.wait().unwrap(), expected);
    assert_eq!(zeros.wait().unwrap(), [0; 16]);
}

fn f1_a_prepared_request_owns_what_it_needs(rig: &Rig) {
    let bench = Moves::open(rig);
    let request = bench.write(7);
    let other = bench.core.allocate(64).unwrap();
    let copy = bench
        .moves
        .prepare()
        .copy(&bench.tensor, 0, &other, 0, 64)
        .unwrap();
    bench.tensor.free();
    bench.moves.schedule(request).unwrap().detach();
    bench.moves.schedule(copy).unwrap().detach();
    let read = bench.moves.read(&other, 0, vec![0; 64]).unwrap();
    assert_eq!(read.wait().unwrap(), [7; 64]);
}

fn d8_what_is_wrong_is_said_when_a_request_is_prepared(rig: &Rig) {
    let bench = Moves::open(rig);
    let refused = bench
        .moves
        .prepare()
        .write(&bench.tensor, 1, vec![3; 64])
        .unwrap_err();
    assert!(matches!(
        refused.reason,
        ScheduleError::OutOfRange { offset: 1, .. }
    ));
    assert_eq!(refused.args, Some(vec![3; 64]));
    let places = bench.fill();
    // Not after a wait.
    let wrong = bench.moves.write_when_room(&bench.tensor, 1, vec![3; 64]);
    assert!(wrong.now_or_never().unwrap().is_err());
    drop(places);
}

fn a_prepared_request_belongs_to_the_queues_of_its_core(rig: &Rig) {
    let runtime = rig.builder().cores(2).open().unwrap();
    let [first, second] = [0, 1].map(|core| runtime.core(core).unwrap());
    let tensor = first.allocate(4).unwrap();
    let moves = first.tensor_op(0).unwrap();
    let prepare = || moves.prepare().write(&tensor, 0, vec![1; 4]).unwrap();

    let elsewhere = second.tensor_op(0).unwrap();
    let wrong_core = ScheduleError::WrongCore {
        what: "request",
        on: 0,
        queue: 1,
    };
    let refused = elsewhere.schedule(prepare()).unwrap_err();
    assert_eq!(refused.reason, wrong_core);
    assert_eq!(refused.status(), Status::INVALID);
    let request = refused.args.unwrap();
    assert_eq!(request.core(), 0);
    let place = elsewhere.try_reserve().unwrap();
    let refused = place.schedule(request).unwrap_err();
    assert_eq!(refused.reason, wrong_core);
    assert_eq!(elsewhere.reserved(), 0, "the place was given back");
    let request = refused.args.unwrap();
    let refused = elsewhere.batch().schedule(request).unwrap_err();
    assert_eq!(refused.reason, wrong_core);
    let request = refused.args.unwrap();
    let waiting = elsewhere.schedule_when_room(request);
    assert_eq!(block_on(waiting).unwrap_err().reason, wrong_core);

    // One that does not belong here keeps the others out, too.
    let mixed = [
        elsewhere
            .prepare()
            .read(&second.allocate(4).unwrap(), 0, vec![0; 4])
            .unwrap(),
        prepare(),
    ];
    let refused = elsewhere.schedule_all(mixed).unwrap_err();
    assert_eq!((refused.reason, refused.rest.len()), (wrong_core, 2));
    assert_eq!(elsewhere.last_issued().cursor().get(), 0);

    let other_runtime = rig.builder_on(1).open().unwrap();
    let stranger = other_runtime.core(0).unwrap().tensor_op(0).unwrap();
    let refused = stranger.schedule(prepare()).unwrap_err();
    assert_eq!(
        refused.reason,
        ScheduleError::WrongRuntime { what: "request" }
    );

    // The other queue of the core may have it.
    let sibling = first.tensor_op(1).unwrap();
    let pending = sibling.schedule(prepare()).unwrap();
    assert_eq!(pending.seq().xu(), sibling.xu());
    pending.wait().unwrap();
}

fn f5_a_batch_that_fills_the_queue_keeps_what_it_has_and_hands_the_rest_back(rig: &Rig) {
    let held = Held::with_limit(rig, 8);
    let bound = held.bound();
    let requests = (0..10).map(|_| held.compute.prepare(&bound).unwrap());
    let refused = held.compute.schedule_all(requests).unwrap_err();
    assert!(refused.is_queue_full());
    assert_eq!(refused.status(), Status::QUEUE_FULL);
    assert_eq!(refused.failure(), Failure::QueueFull);
    assert_eq!(numbers(&refused.accepted), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(refused.rest.len(), 2);
    assert_eq!(held.compute.snapshot().queue_full, 1);
    // The driver's counter is told, too, by whichever way the request came.
    let told = || {
        let counters = held.runtime.counters();
        counters.counter(TpbIndex::new(0), CoreCounter::INFER_FAILED_TO_QUEUE)
    };
    assert_eq!(told(), Ok(1));
    held.compute.execute_bound(&bound).unwrap_err();
    assert_eq!(told(), Ok(2));
    let mut batch = held.compute.batch();
    let execution = held.compute.prepare(&bound).unwrap();
    batch.schedule(execution).unwrap_err();
    drop(batch);
    assert_eq!(told(), Ok(3));
    for accepted in &refused.accepted[..2] {
        held.complete(accepted.seq());
    }
    let rest = held.compute.schedule_all(refused.rest).unwrap();
    assert_eq!(numbers(&rest), [9, 10]);
    held.release();
    for pending in refused.accepted.into_iter().chain(rest) {
        pending.wait().unwrap();
    }
}

fn f5_a_batch_leaves_reserved_places_alone(rig: &Rig) {
    let bench = Moves::open(rig);
    let mut places = bench.fill();
    drop(places.drain(..2));
    let refused = bench
        .moves
        .schedule_all((0..3).map(|value| bench.write(value)))
        .unwrap_err();
    assert_eq!((refused.accepted.len(), refused.rest.len()), (2, 1));
    for request in refused.rest {
        places.pop().unwrap().schedule(request).unwrap().detach();
    }
    drop(places);
    assert_eq!(bench.read(), [2; 64]);
}

fn a_whole_batch_is_waited_for_by_its_last_sequence(rig: &Rig) {
    let bench = Moves::open(rig);
    let writes = (1..=20).map(|value| bench.write(value));
    let pending = bench.moves.schedule_all(writes).unwrap();
    assert!(numbers(&pending).into_iter().eq(1..=20));
    let last = pending.last().unwrap().seq();
    block_on(bench.moves.wait_for(last)).unwrap();
    assert!(pending.iter().all(Pending::is_done));
    assert_eq!(
        bench
            .moves
            .schedule_all(Vec::<Request<()>>::new())
            .unwrap()
            .len(),
        0
    );
}

fn what_is_in_a_batch_runs_when_it_is_published(rig: &Rig) {
    let bench = Moves::open(rig);
    let sibling = bench.core.tensor_op(1).unwrap();
    let mut batch = bench.moves.batch();
    let pending = batch.schedule(bench.write(4)).unwrap();
    // The worker serves both queues: when this is complete, it has looked at the other one.
    for _ in 0..10 {
        let other = sibling.read(&bench.tensor, 0, vec![0; 64]).unwrap();
        other.wait().unwrap();
    }
    assert_eq!(bench.moves.is_completed(pending.seq()), Ok(false));
    assert_eq!((batch.len(), batch.last()), (1, Some(pending.seq())));
    drop(batch);
    pending.wait().unwrap();
}

fn f7_a_place_does_not_keep_a_runtime_from_closing(rig: &Rig) {
    let bench = Moves::open(rig);
    let places = bench.fill();
    let waiting = {
        let moves = bench.moves.clone();
        thread::spawn(move || moves.reserve_until(None).unwrap_err())
    };
    let task = bench.moves.reserve();
    let request = bench.write(1);
    bench.runtime.close();
    let closed = |error: &ScheduleError| error.status() == Status::CLOSED;
    assert!(closed(&waiting.join().unwrap()));
    assert!(closed(&block_on(task).unwrap_err()));
    assert!(closed(&bench.moves.try_reserve().unwrap_err()));
    let mut request = Some(request);
    for place in places {
        let refused = place.schedule(request.take().unwrap()).unwrap_err();
        assert!(closed(&refused.reason));
        request = refused.args;
    }
    assert_eq!(request.unwrap().into_buffer(), Some(vec![1; 64]));
    assert_eq!(bench.moves.reserved(), 0);
}

fn f6_a_queue_that_degrades_lets_everybody_go_who_waits_for_a_place(rig: &Rig) {
    let held = Held::new(rig);
    let seq = held.schedule(1)[0];
    let places: Vec<_> = (1..held.compute.limit())
        .map(|_| held.compute.try_reserve().unwrap())
        .collect();
    let bound = held.bound();
    let prepare = || held.compute.prepare(&bound).unwrap();
    let mut task = Box::pin(held.compute.schedule_when_room(prepare()));
    assert!(task.as_mut().now_or_never().is_none());
    held.release();
    held.compute.wait(seq, None).unwrap();
    assert_eq!(held.compute.health(), Health::Degraded);
    let degraded = |error: &ScheduleError| matches!(error, ScheduleError::Unit(Refusal::Degraded { cause, .. }) if cause.seq == Some(seq));
    let refused = block_on(task).unwrap_err();
    assert!(degraded(&refused.reason) && refused.args.is_some());
    for place in places {
        assert!(degraded(&place.schedule(prepare()).unwrap_err().reason));
    }
    for _ in 0..3 {
        assert!(degraded(&held.compute.try_reserve().unwrap_err()));
        assert!(degraded(&held.compute.reserve_until(None).unwrap_err()));
    }
}

fn f5_many_tasks_and_threads_share_one_place(rig: &Rig) {
    const ROUNDS: u64 = 50;
    let runtime = rig.builder().compute_limit(1).open().unwrap();
    let core = runtime.core(0).unwrap();
    let path = format!("{}/model.xum", lane_tests::DIGITS);
    let model = core.load(&nrta::Model::open(path).unwrap(), 1).unwrap();
    let image = model.allocate_input(0).unwrap();
    let outputs = [0, 1].map(|index| model.allocate_output(index).unwrap());
    let bound = model.bind(&[&image], &[&outputs[0], &outputs[1]]).unwrap();
    let compute = core.compute();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let place = compute.reserve_until(None).unwrap();
                    let request = compute.prepare(&bound).unwrap();
                    place.schedule(request).unwrap().wait().unwrap();
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                compute.wait_room();
                drop(compute.try_reserve());
            }
        });
        scope.spawn(|| {
            block_on(join_all((0..4).map(|_| async {
                for round in 0..ROUNDS {
                    let place = compute.reserve().await.unwrap();
                    if round % 2 == 0 {
                        drop(place);
                        continue;
                    }
                    let request = compute.prepare(&bound).unwrap();
                    place.schedule(request).unwrap().await.unwrap();
                }
            })));
        });
    });
    assert_eq!(compute.last_issued().cursor().get(), 4 * ROUNDS);
    assert_eq!((compute.depth(), compute.reserved()), (0, 0));
}

fn f5_a_part_of_a_collective_has_a_place_too(rig: &Rig) {
    let runtime = rig.builder().open().unwrap();
    let core = runtime.core(0).unwrap();
    let (queue, tensor) = (core.collectives(), core.allocate(4).unwrap());
    let group = runtime.group(&[0]).unwrap();
    let prepare = || {
        let sum = Collective::AllReduce(ReduceOp::Add);
        queue
            .prepare(&group, sum, Dtype::Int32, &[&tensor], &[&tensor])
            .unwrap()
    };
    let mut places: Vec<_> = (0..queue.limit())
        .map(|_| queue.try_reserve().unwrap())
        .collect();
    let part = queue.schedule(prepare()).unwrap_err().into_retry().unwrap();
    let mut waiting = Box::pin(queue.schedule_when_room(part));
    assert!(waiting.as_mut().now_or_never().is_none());
    let first = places.pop().unwrap().schedule(prepare()).unwrap();
    assert_eq!(first.seq().cursor().get(), 1);
    first.wait().unwrap();
    block_on(block_on(waiting).unwrap()).unwrap();
}

/// Places, requests and their futures go to other tasks.
fn _is_for_tasks(queue: &TensorOpQueue, request: Request<Vec<u8>>) -> impl Send {
    fn is_static<T: Send + 'static>(value: T) -> T {
        value
    }
    let place = queue.try_reserve().map(is_static);
    let _: Option<SeqId> = queue.batch().publish();
    let scheduling = queue.schedule_when_room(is_static(request));
    (is_static(queue.reserve()), place, scheduling)
}

fn f7_closing_waits_for_no_batch(rig: &Rig) {
    let bench = Moves::open(rig);
    let write = bench.write(7);
    let Moves { runtime, moves, .. } = bench;
    let mut batch = moves.batch();
    let write = batch.schedule(write).unwrap();
    // On the thread that has the batch.
    runtime.close();
    assert_eq!(write.wait().unwrap(), [7; 64]);
    assert_eq!(batch.publish().unwrap().cursor().get(), 1);
}

fn f5_a_batch_that_is_kept_holds_up_nobody_elses_requests(rig: &Rig) {
    for policy in [PollPolicy::Adaptive, PollPolicy::Reference] {
        let runtime = rig.builder().poll_policy(policy).open().unwrap();
        let core = runtime.core(0).unwrap();
        let (moves, tensor) = (core.tensor_op(0).unwrap(), core.allocate(4).unwrap());
        let mut batch = moves.batch();
        for value in 0..3 {
            let set = moves.prepare().memset(&tensor, 0, 4, value).unwrap();
            batch.schedule(set).unwrap().detach();
        }
        let read = moves.read(&tensor, 0, vec![0; 4]).unwrap();
        assert_eq!(read.wait().unwrap(), [2; 4]);
        drop(batch);
    }
}

fn an_execution_in_a_batch_is_with_the_device_before_it_is_published(rig: &Rig) {
    let held = Held::new(rig);
    held.release();
    let (moves, [_, label]) = (held.core.tensor_op(0).unwrap(), &held.outputs);
    let read = || moves.read(label, 0, vec![0; 4]).unwrap().wait().unwrap();
    let set = |tensor, value| moves.memset(tensor, 0, 4, value).unwrap().wait().unwrap();
    set(label, 0xEE);
    let bound = held.bound();
    let mut batch = held.compute.batch();
    let execution = held.compute.prepare(&bound).unwrap();
    let execution = batch.schedule(execution).unwrap();
    while read() == [0xEE; 4] {}
    assert!(!execution.is_done());
    batch.publish();
    execution.wait().unwrap();
}
