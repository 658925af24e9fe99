//! The same program on executors that know nothing of the lane: smol, one written by hand, and no executor at all.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use futures::StreamExt;
use nrta::{CompletionEvent, Health, Runtime};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread;

type BoxedTask = Pin<Box<dyn Future<Output = ()>>>;

/// Runs a task beside the others.
type Spawn = Rc<dyn Fn(BoxedTask)>;

/// Requests, a task that follows them, tasks that wait for a batch, and a watch: until the runtime is closed.
async fn program(spawn: Spawn) {
    let runtime = Runtime::builder().open().unwrap();
    let core = runtime.core(0).unwrap();
    let (moves, tensor) = (core.tensor_op(0).unwrap(), core.allocate(8).unwrap());
    let log = Rc::new(RefCell::new(Vec::new()));
    let (mut completions, mut watch) = (moves.completions(), moves.watch());
    let (followed, follows) = futures::channel::oneshot::channel();
    spawn(Box::pin(async move {
        let mut last = None;
        while let Some(newest) = completions.next().await {
            last = Some(newest);
        }
        followed.send(last).unwrap();
    }));
    let (watched, watches) = futures::channel::oneshot::channel();
    spawn(Box::pin(async move {
        watched.send(watch.changed().await.unwrap().health).unwrap();
    }));
    let mut last = None;
    for round in 0..20 {
        for _ in 0..10 {
            let pending = moves.write_when_room(&tensor, 0, vec![round; 8]).await;
            last = Some(pending.unwrap().seq());
        }
        let (wait, log) = (moves.wait_for(last.unwrap()), Rc::clone(&log));
        spawn(Box::pin(async move {
            wait.await.unwrap();
            log.borrow_mut().push(round);
        }));
    }
    moves.wait_for(last.unwrap()).await.unwrap();
    let read = moves.read(&tensor, 0, vec![0; 8]).unwrap();
    last = Some(read.seq());
    assert_eq!(read.await.unwrap(), [19; 8]);
    // It blocks, so another thread does it.
    thread::spawn(|| runtime.close());
    assert_eq!(follows.await.unwrap(), last);
    assert_eq!(watches.await.unwrap(), Health::Closing);
    let mut log = log.take();
    log.sort_unstable();
    assert!(log.into_iter().eq(0..20), "each batch was seen");
}

#[test]
fn the_program_runs_on_smol() {
    let executor = Rc::new(smol::LocalExecutor::new());
    let spawn: Spawn = {
        let executor = Rc::clone(&executor);
        Rc::new(move |task| executor.spawn(task).detach())
    };
    smol::block_on(executor.run(program(spawn)));
}

#[test]
fn an_event_is_a_descriptor_of_smols_reactor() {
    let runtime = Runtime::builder().open().unwrap();
    let core = runtime.core(0).unwrap();
    let (moves, tensor) = (core.tensor_op(0).unwrap(), core.allocate(8).unwrap());
    let event = smol::Async::new(CompletionEvent::new().unwrap()).unwrap();
    let _subscription = moves.subscribe_each(&event).unwrap();
    smol::block_on(async {
        let mut counted = 0;
        for _ in 0..20 {
            drop(moves.write(&tensor, 0, vec![1; 8]).unwrap());
        }
        while counted < 20 {
            event.readable().await.unwrap();
            counted += event.get_ref().drain().unwrap();
        }
        assert_eq!(counted, 20);
    });
}

/// An executor of one thread. A waker puts the number of its task in a queue, and that is all there is.
#[derive(Default)]
struct ByHand {
    tasks: RefCell<BTreeMap<usize, BoxedTask>>,
    new: RefCell<Vec<BoxedTask>>,
    ready: Arc<Ready>,
}

#[derive(Default)]
struct Ready {
    tasks: Mutex<VecDeque<usize>>,
    some: Condvar,
}

struct Task {
    number: usize,
    ready: Arc<Ready>,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.ready.tasks.lock().unwrap().push_back(self.number);
        self.ready.some.notify_one();
    }
}

impl ByHand {
    fn run(&self) {
        let mut number = 0;
        loop {
            for task in self.new.take() {
                number += 1;
                self.tasks.borrow_mut().insert(number, task);
                self.ready.tasks.lock().unwrap().push_back(number);
            }
            if self.tasks.borrow().is_empty() {
                return;
            }
            let mut ready = self.ready.tasks.lock().unwrap();
            let number = loop {
                match ready.pop_front() {
                    Some(number) => break number,
                    None => ready = self.ready.some.wait(ready).unwrap(),
                }
            };
            drop(ready);
            self.poll(number);
        }
    }

    fn poll(&self, number: usize) {
        let ready = Arc::clone(&self.ready);
        let waker = Waker::from(Arc::new(Task { number, ready }));
        // It may have ended, and been woken again.
        let Some(mut task) = self.tasks.borrow_mut().remove(&number) else {
            return;
        };
        if task
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
        {
            self.tasks.borrow_mut().insert(number, task);
        }
    }
}

#[test]
fn the_program_runs_on_an_executor_written_by_hand() {
    let executor = Rc::new(ByHand::default());
    let spawn: Spawn = {
        let executor = Rc::clone(&executor);
        Rc::new(move |task| executor.new.borrow_mut().push(task))
    };
    spawn(Box::pin(program(Rc::clone(&spawn))));
    executor.run();
}
