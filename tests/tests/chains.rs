//! Chains: the next request is scheduled when the one before has succeeded, by the application's own thread.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

mod held;

use futures::FutureExt;
use futures::executor::block_on;
use held::Held;
use lane_tests::Rig;
use nrta::after::StageError;
use nrta::{Chain, ChainError, Core, Pending, Refused, Runtime, Status, Tensor, TensorOpQueue};
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, ThreadId};

lane_tests::on_both! {
    a_chain_crosses_queues_and_runs_in_order,
    f1_what_a_stage_gives_back_goes_into_the_next,
    f6_the_error_says_which_stage_and_gives_back_what_it_was_given,
    f6_nothing_is_scheduled_behind_a_request_that_failed,
    f6_a_full_queue_ends_the_chain,
    f1_a_dropped_chain_schedules_nothing_more,
    a_chain_that_nobody_polls_stands_still,
    the_next_request_is_scheduled_on_the_thread_that_waits,
    f7_a_workers_thread_schedules_nothing,
    a_chain_that_is_polled_again_ends_without_success,
}

struct Bench {
    queues: [TensorOpQueue; 2],
    tensors: [Tensor; 2],
    core: Core,
    _runtime: Runtime,
}

impl Bench {
    fn new(rig: &Rig) -> Self {
        let runtime = rig.builder().open().unwrap();
        let core = runtime.core(0).unwrap();
        Self {
            queues: [0, 1].map(|queue| core.tensor_op(queue).unwrap()),
            tensors: [0, 1].map(|_| core.allocate(4).unwrap()),
            core,
            _runtime: runtime,
        }
    }

    fn write(&self, byte: u8) -> Pending<Vec<u8>> {
        let bytes = vec![byte; 4];
        self.queues[0].write(&self.tensors[0], 0, bytes).unwrap()
    }

    /// On the other queue, to the other tensor.
    fn copy(&self) -> Result<Pending<()>, Refused<()>> {
        let [from, to] = &self.tensors;
        self.queues[1].copy(from, 0, to, 0, 4)
    }

    fn read(&self, into: Vec<u8>) -> Result<Pending<Vec<u8>>, Refused<Vec<u8>>> {
        self.queues[0].read(&self.tensors[1], 0, into)
    }
}

fn a_chain_crosses_queues_and_runs_in_order(rig: &Rig) {
    let bench = Bench::new(rig);
    for round in 0..200 {
        let chain = bench
            .write(round)
            .then(|_| bench.copy())
            .then(|()| bench.read(vec![0; 4]));
        let read = if round % 2 == 0 {
            chain.wait()
        } else {
            block_on(chain)
        };
        assert_eq!(read.unwrap(), [round; 4]);
    }
}

fn f1_what_a_stage_gives_back_goes_into_the_next(rig: &Rig) {
    let bench = Bench::new(rig);
    let bytes = vec![7; 4];
    let at = bytes.as_ptr();
    let write = bench.queues[0].write(&bench.tensors[0], 0, bytes).unwrap();
    let back = write
        .then(|bytes| bench.queues[1].read(&bench.tensors[0], 0, bytes))
        .wait()
        .unwrap();
    assert_eq!((back.as_ptr(), &back[..]), (at, &[7; 4][..]));
}

fn f6_the_error_says_which_stage_and_gives_back_what_it_was_given(rig: &Rig) {
    let bench = Bench::new(rig);
    let short = bench.core.allocate(1).unwrap();
    // Refused: the third of three.
    let error = bench
        .write(1)
        .then(|_| bench.copy())
        .then(|()| bench.queues[0].read(&short, 0, vec![9; 4]))
        .wait()
        .unwrap_err();
    assert_eq!((error.stage(), error.status()), (2, Status::INVALID));
    assert!(
        error.to_string().starts_with("stage 2 was refused"),
        "{error}"
    );
    let ChainError::Refused(refused) = error else {
        panic!("{error}");
    };
    assert_eq!(refused.args, Some(vec![9; 4]));

    // Refused in the middle: the last one is not scheduled.
    let before = bench.queues[0].last_issued();
    let error = bench
        .write(1)
        .then(|_| bench.queues[1].write(&short, 0, vec![8; 4]))
        .then(|_| bench.read(vec![0; 4]))
        .wait()
        .unwrap_err();
    assert_eq!(error.stage(), 1);
    let issued = bench.queues[0].last_issued().cursor().get();
    assert_eq!(issued, before.cursor().get() + 1);
    assert!(matches!(error, ChainError::Before(ChainError::Refused(_))));
}

fn f6_nothing_is_scheduled_behind_a_request_that_failed(rig: &Rig) {
    let held = Held::new(rig);
    held.spoil_the_first();
    held.release();
    let moves = held.core.tensor_op(0).unwrap();
    let tensor = held.core.allocate(4).unwrap();
    let error = held
        .execute()
        .unwrap()
        .then(|_| moves.write(&tensor, 0, vec![0; 4]))
        .wait()
        .unwrap_err();
    assert_eq!((error.stage(), error.status()), (0, Status::EXEC_OOB));
    assert!(error.to_string().starts_with("stage 0: "), "{error}");
    assert_eq!(moves.last_issued().cursor().get(), 0);

    // The last stage itself, which has begun.
    held.spoil_the_first();
    let error = moves
        .write(&tensor, 0, vec![0; 4])
        .unwrap()
        .then(|_| held.execute());
    let error = block_on(error).unwrap_err();
    assert_eq!((error.stage(), error.status()), (1, Status::EXEC_OOB));
    assert!(matches!(error, ChainError::Failed(_)));
    held.execute().unwrap().wait().unwrap();
}

fn f6_a_full_queue_ends_the_chain(rig: &Rig) {
    let held = Held::with_limit(rig, 1);
    let moves = held.core.tensor_op(0).unwrap();
    let tensor = held.core.allocate(4).unwrap();
    let running = held.execute().unwrap();
    let write = moves.write(&tensor, 0, vec![0; 4]).unwrap();
    let error = write.then(|_| held.execute()).wait().unwrap_err();
    assert_eq!(error.status(), Status::QUEUE_FULL);
    held.release();
    running.wait().unwrap();
}

fn f1_a_dropped_chain_schedules_nothing_more(rig: &Rig) {
    let held = Held::new(rig);
    let moves = held.core.tensor_op(0).unwrap();
    let tensor = held.core.allocate(4).unwrap();
    let calls = Cell::new(0);
    let chain = |pending: Pending<nrta::Execution>| {
        pending.then(|_| {
            calls.set(calls.get() + 1);
            moves.write(&tensor, 0, vec![0; 4])
        })
    };
    // Never polled, and polled in vain.
    let first = held.execute().unwrap();
    let last = held.execute().unwrap();
    let seq = last.seq();
    drop(chain(first));
    let mut polled = chain(last);
    let mut cx = Context::from_waker(Waker::noop());
    assert!(polled.poll_unpin(&mut cx).is_pending());
    drop(polled);
    held.release();
    // The requests themselves went on.
    held.compute.wait(seq, None).unwrap();
    assert_eq!(calls.get(), 0);

    // Dropped behind its second request, it detaches from that.
    let mut behind = chain(held.execute().unwrap());
    block_on(std::future::poll_fn(|cx| {
        let _ = behind.poll_unpin(cx);
        if calls.get() > 0 {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }));
    drop(behind);
    let issued = moves.last_issued();
    moves.wait(issued, None).unwrap();
    assert_eq!((calls.get(), issued.cursor().get()), (1, 1));
}

fn a_chain_that_nobody_polls_stands_still(rig: &Rig) {
    let bench = Bench::new(rig);
    let calls = Cell::new(0);
    let write = bench.write(1);
    let seq = write.seq();
    let chain = write.then(|_| {
        calls.set(calls.get() + 1);
        bench.copy()
    });
    bench.queues[0].wait(seq, None).unwrap();
    assert_eq!((calls.get(), bench.queues[1].depth()), (0, 0));
    chain.wait().unwrap();
    assert_eq!(calls.get(), 1);
}

fn the_next_request_is_scheduled_on_the_thread_that_waits(rig: &Rig) {
    let bench = Bench::new(rig);
    let here = thread::current().id();
    let on: Cell<Option<ThreadId>> = Cell::new(None);
    let note = |()| on.set(Some(thread::current().id()));
    bench
        .write(1)
        .then(|_| {
            note(());
            bench.copy()
        })
        .wait()
        .unwrap();
    assert_eq!(on.take(), Some(here));
    let chain = bench.write(1).then(|_| {
        note(());
        bench.copy()
    });
    block_on(chain).unwrap();
    assert_eq!(on.get(), Some(here));
}

/// A chain of a box, with what it ends with told.
type Boxed = Pin<Box<dyn Future<Output = ()> + Send>>;

/// An executor that polls where it is woken: on the worker's thread.
struct Inline {
    task: Mutex<Option<Boxed>>,
}

impl Wake for Inline {
    fn wake(self: Arc<Self>) {
        let Ok(mut task) = self.task.try_lock() else {
            return;
        };
        if let Some(future) = &mut *task {
            let waker = Waker::from(Arc::clone(&self));
            if future
                .as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_ready()
            {
                *task = None;
            }
        }
    }
}

fn f7_a_workers_thread_schedules_nothing(rig: &Rig) {
    let held = Held::new(rig);
    let moves = held.core.tensor_op(0).unwrap();
    let tensor = held.core.allocate(4).unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let (tell, told) = mpsc::channel();
    let running = held.execute().unwrap();
    let seq = running.seq();
    let chain = {
        let (calls, moves) = (Arc::clone(&calls), moves.clone());
        running.then(move |_| {
            calls.fetch_add(1, Ordering::SeqCst);
            moves.write(&tensor, 0, vec![0; 4])
        })
    };
    let future = async move {
        let error = chain.await.unwrap_err();
        assert!(error.to_string().contains("worker"), "{error}");
        let status = error.status();
        let is_given_back = matches!(error, ChainError::OnWorkerThread { .. });
        tell.send((thread::current().id(), status, is_given_back))
            .unwrap();
    };
    let inline = Arc::new(Inline {
        task: Mutex::new(Some(Box::pin(future))),
    });
    // The first poll is ours; the next is the worker's, in the waker.
    Arc::clone(&inline).wake();
    held.release();
    let (thread, status, is_given_back) = told.recv().unwrap();
    assert_ne!(thread, thread::current().id());
    assert_eq!((status, is_given_back), (Status::INVALID, true));
    held.compute.wait(seq, None).unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    assert_eq!(moves.last_issued().cursor().get(), 0);
}

fn a_chain_that_is_polled_again_ends_without_success(rig: &Rig) {
    let bench = Bench::new(rig);
    let mut chain = bench.write(1).then(|_| bench.copy());
    block_on(&mut chain).unwrap();
    let error = block_on(&mut chain).unwrap_err();
    assert_eq!((error.stage(), error.status()), (1, Status::FAILURE));
    assert_eq!(bench.queues[1].last_issued().cursor().get(), 1);
}

/// Chains have a name and move to other threads, so services can keep them.
#[test]
fn a_chain_has_a_type_that_can_be_kept() {
    type Schedule = fn(Vec<u8>) -> Result<Pending<()>, Refused<()>>;
    fn is_send<T: Send>() {}
    is_send::<Chain<Pending<Vec<u8>>, Schedule, ()>>();
}
