//! Every interleaving of small runs of a unit, its worker's loop and its callers, and the proof that each rule is needed.
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" cargo test -p xu-worker --profile loom --test loom -- --show-output
//! ```
//!
//! The code is that of the product: `Unit`, `UnitRunner`, `Rounds` and `Completion`. Eventfds are numbers in memory, and
//! instead of epoll the loop sleeps in [`Model`], which gives way until a bell has rung or the latch is set. A request that
//! is left behind is a caller that never wakes up, which loom reports as a deadlock.
#![cfg(loom)]

mod proof;

use loom::thread;
use proof::explore;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use xu_abi::{Status, XuId, XuType};
use xu_worker::eventfd::{StopLatch, WorkCount};
use xu_worker::mutant::Mutant;
use xu_worker::rounds::{Ready, Rounds, Waiter};
use xu_worker::{
    Cause, Completion, Engine, Lost, PollPolicy, Progress, Refusal, Runner, Skip, Stage,
    StageError, Step, Unit, UnitOptions, UnitRunner, completion,
};

/// An engine that is done at once.
struct AtOnce;

impl Stage for AtOnce {
    type Item = u32;
    type Outcome = u32;

    fn prepare(&mut self, _: &mut u32) -> Result<(), StageError> {
        Ok(())
    }

    fn commit(&mut self, _: &mut u32) -> Result<(), StageError> {
        Ok(())
    }
}

impl Engine for AtOnce {
    type Item = u32;
    type Outcome = u32;

    fn begin(&mut self, _: &mut u32) {}

    fn progress(&mut self, _: &mut u32) -> Progress {
        Progress::Done(Status::SUCCESS)
    }

    fn quiesce(&mut self) -> Result<(), Cause> {
        Ok(())
    }

    fn finish(&mut self, item: u32, _: Status) -> u32 {
        item
    }
}

fn unit(limit: u64, policy: PollPolicy) -> (Arc<Unit<AtOnce>>, UnitRunner<AtOnce>) {
    let xu = XuId::new(XuType::Compute, 0, 0).expect("exists");
    let options = UnitOptions {
        limit,
        policy,
        ..UnitOptions::default()
    };
    let (unit, runner) = Unit::new(xu, &options, AtOnce, AtOnce).expect("in memory");
    (Arc::new(unit), runner)
}

/// As [`AtOnce`], whose requests can be skipped. A request is where it says that it has begun.
struct CanSkip;

impl Stage for CanSkip {
    type Item = Arc<AtomicUsize>;
    type Outcome = Arc<AtomicUsize>;

    fn prepare(&mut self, _: &mut Self::Item) -> Result<(), StageError> {
        Ok(())
    }

    fn commit(&mut self, _: &mut Self::Item) -> Result<(), StageError> {
        Ok(())
    }
}

impl Engine for CanSkip {
    type Item = Arc<AtomicUsize>;
    type Outcome = Arc<AtomicUsize>;

    const CAN_SKIP: bool = true;

    fn begin(&mut self, begun: &mut Self::Item) {
        begun.fetch_add(1, Ordering::SeqCst);
    }

    fn progress(&mut self, _: &mut Self::Item) -> Progress {
        Progress::Done(Status::SUCCESS)
    }

    fn quiesce(&mut self) -> Result<(), Cause> {
        Ok(())
    }

    fn finish(&mut self, item: Self::Item, _: Status) -> Self::Item {
        item
    }
}

/// A request that can be skipped, accepted, and the worker half that has not come to it.
fn skippable() -> (
    Arc<AtomicUsize>,
    Completion<Arc<AtomicUsize>>,
    Unit<CanSkip>,
    UnitRunner<CanSkip>,
) {
    let xu = XuId::new(XuType::TensorOp, 0, 0).expect("exists");
    let (unit, runner) =
        Unit::new(xu, &UnitOptions::default(), CanSkip, CanSkip).expect("in memory");
    let begun = Arc::new(AtomicUsize::new(0));
    let accepted = unit.submit(Arc::clone(&begun)).expect("there is room");
    (begun, accepted.completion, unit, runner)
}

/// Steps a unit on a thread of its own, until its request is complete.
fn complete(mut runner: UnitRunner<CanSkip>) -> thread::JoinHandle<UnitRunner<CanSkip>> {
    thread::spawn(move || {
        assert_eq!(runner.step(), Step::Completed);
        runner
    })
}

/// Where the loop sleeps.
struct Model {
    bell: WorkCount,
    stop: Arc<StopLatch>,
}

impl Waiter for Model {
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Ready> {
        loop {
            let ready = Ready {
                stop: self.stop.is_set(),
                units: u8::from(self.bell.is_readable()),
            };
            if ready.stop || ready.units != 0 || timeout.is_some() {
                return Ok(ready);
            }
            thread::yield_now();
        }
    }
}

/// A thread that runs the loop of the product until the latch is set.
fn start(
    runner: UnitRunner<AtOnce>,
    policy: PollPolicy,
    stop: &Arc<StopLatch>,
) -> thread::JoinHandle<()> {
    let model = Model {
        bell: runner.bell().watch(),
        stop: Arc::clone(stop),
    };
    let rounds = Rounds::new(vec![Box::new(runner)], model, policy, Arc::clone(stop));
    thread::spawn(move || drop(rounds.run()))
}

fn submit(unit: &Unit<AtOnce>, number: u32) {
    let accepted = unit.submit(number).expect("there is room");
    assert_eq!(accepted.completion.wait(), Ok(number));
}

/// A worker falls asleep while requests come, and is stopped.
fn requests_wake_the_worker(policy: PollPolicy, requests: u32) {
    let stop = Arc::new(StopLatch::new().expect("in memory"));
    let (unit, runner) = unit(2, policy);
    let worker = start(runner, policy, &stop);
    (1..=requests).for_each(|number| submit(&unit, number));
    stop.set().expect("a fresh latch");
    worker.join().expect("no panic");
}

fn sleep_against_submit() {
    requests_wake_the_worker(PollPolicy::Adaptive, 2);
}

fn counted_wakes() {
    requests_wake_the_worker(PollPolicy::Reference, 2);
}

/// Two submitters meet one sleeping worker: who takes the flag rings for both.
fn two_submitters() {
    let stop = Arc::new(StopLatch::new().expect("in memory"));
    let (unit, runner) = unit(2, PollPolicy::Adaptive);
    let worker = start(runner, PollPolicy::Adaptive, &stop);
    let other = {
        let unit = Arc::clone(&unit);
        thread::spawn(move || submit(&unit, 1))
    };
    submit(&unit, 2);
    other.join().expect("no panic");
    stop.set().expect("a fresh latch");
    worker.join().expect("no panic");
}

/// A stop comes while a request does: whoever waits gets an answer, of the worker or of its end.
fn stop_against_work() {
    let stop = Arc::new(StopLatch::new().expect("in memory"));
    let (unit, runner) = unit(2, PollPolicy::Adaptive);
    let worker = start(runner, PollPolicy::Adaptive, &stop);
    let stopper = {
        let stop = Arc::clone(&stop);
        thread::spawn(move || stop.set().expect("a fresh latch"))
    };
    match unit.submit(1) {
        Ok(accepted) => assert_eq!(accepted.completion.wait(), Ok(1)),
        Err(refused) => assert!(matches!(refused.reason, Refusal::Degraded { .. })),
    }
    stopper.join().expect("no panic");
    worker.join().expect("no panic");
    unit.drain();
}

/// A worker completes while a submitter waits for room.
fn wait_for_room() {
    let (unit, mut runner) = unit(1, PollPolicy::Adaptive);
    unit.post(1).expect("there is room");
    let worker = thread::spawn(move || {
        assert_eq!(runner.step(), Step::Completed);
        runner
    });
    assert!(unit.wait_room(None));
    unit.post(2).expect("there is room");
    let mut runner = worker.join().expect("no panic");
    assert_eq!(runner.step(), Step::Completed);
}

/// Two submitters wait for one slot: both get it, one after the other.
fn two_wait_for_room() {
    let (unit, mut runner) = unit(1, PollPolicy::Adaptive);
    unit.post(1).expect("there is room");
    let submitter = |unit: &Unit<AtOnce>| {
        loop {
            assert!(unit.wait_room(None));
            if unit.post(2).is_ok() {
                return;
            }
        }
    };
    let other = {
        let unit = Arc::clone(&unit);
        thread::spawn(move || submitter(&unit))
    };
    let worker = thread::spawn(move || {
        let mut completed = 0;
        while completed < 3 {
            match runner.step() {
                Step::Completed => completed += 1,
                Step::Idle | Step::InFlight => thread::yield_now(),
            }
        }
    });
    submitter(&unit);
    other.join().expect("no panic");
    worker.join().expect("no panic");
}

/// A worker settles while a thread waits.
fn settle_against_wait() {
    let (notifier, completion) = completion();
    let worker = thread::spawn(move || {
        notifier.write_status(Status::SUCCESS);
        notifier.notify(Box::new(7));
    });
    assert_eq!(completion.wait().as_deref(), Ok(&7));
    worker.join().expect("no panic");
}

/// A worker settles while a caller loses interest: the outcome is dropped once.
fn settle_against_drop() {
    let alive = Arc::new(());
    let outcome = Arc::clone(&alive);
    let (notifier, completion) = completion();
    let worker = thread::spawn(move || notifier.notify(outcome));
    drop(completion);
    worker.join().expect("no panic");
    assert_eq!(Arc::strong_count(&alive), 1);
}

/// Counts wakes.
struct Counting(AtomicUsize);

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A worker settles while a task polls: it is woken, or it sees the outcome.
fn settle_against_poll() {
    let (notifier, completion) = completion();
    let worker = thread::spawn(move || notifier.notify(7));
    let counting = Arc::new(Counting(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&counting));
    let mut completion = pin!(completion);
    let mut cx = Context::from_waker(&waker);
    let first = completion.as_mut().poll(&mut cx);
    worker.join().expect("no panic");
    match first {
        Poll::Ready(outcome) => assert_eq!(outcome, Ok(7)),
        Poll::Pending => {
            assert_eq!(counting.0.load(Ordering::SeqCst), 1, "it must be woken");
            assert_eq!(completion.poll(&mut cx), Poll::Ready(Ok(7)));
        }
    }
}

/// A worker half goes while a caller waits.
fn going_against_wait() {
    let (notifier, completion) = completion::<u32>();
    let worker = thread::spawn(move || drop(notifier));
    assert_eq!(completion.wait(), Err(Lost::Abandoned));
    worker.join().expect("no panic");
}

/// A caller skips while the worker begins: they agree, and the outcome says the same.
fn skip_against_begin() {
    let (begun, completion, _unit, runner) = skippable();
    let worker = complete(runner);
    let answer = completion.skip();
    let again = completion.skip();
    worker.join().expect("no panic");
    assert_eq!(answer, again);
    let ran = begun.load(Ordering::SeqCst) == 1;
    assert_eq!(answer == Skip::TooLate, ran, "{answer:?}");
    assert_eq!(completion.status() == Some(Status::SUCCESS), ran);
    assert_eq!(completion.skip(), answer, "it is complete");
    assert_eq!(completion.is_skipped(), !ran);
}

/// Two threads skip one request: both get the same answer, which is true.
fn two_skip() {
    let (begun, completion, _unit, runner) = skippable();
    let completion = Arc::new(completion);
    let worker = complete(runner);
    let other = {
        let completion = Arc::clone(&completion);
        thread::spawn(move || completion.skip())
    };
    let answer = completion.skip();
    assert_eq!(other.join().expect("no panic"), answer);
    worker.join().expect("no panic");
    let ran = begun.load(Ordering::SeqCst) == 1;
    assert_eq!(answer == Skip::TooLate, ran, "{answer:?}");
}

/// A caller skips and waits while the worker completes: it is woken either way.
fn skip_against_completion() {
    let (begun, completion, _unit, runner) = skippable();
    let worker = complete(runner);
    let answer = completion.skip();
    let outcome = completion.wait().expect("an outcome");
    let ran = outcome.load(Ordering::SeqCst) == 1;
    assert_eq!(answer == Skip::TooLate, ran, "{answer:?}");
    worker.join().expect("no panic");
    drop(outcome);
    assert_eq!(Arc::strong_count(&begun), 1);
}

/// A caller skips and goes while the worker completes: what the request held is dropped once.
fn skip_against_drop() {
    let (begun, completion, _unit, runner) = skippable();
    let worker = complete(runner);
    let answer = completion.skip();
    drop(completion);
    worker.join().expect("no panic");
    let ran = begun.load(Ordering::SeqCst) == 1;
    assert_eq!(answer == Skip::TooLate, ran, "{answer:?}");
    assert_eq!(Arc::strong_count(&begun), 1);
}

mod models {
    use super::*;

    macro_rules! models {
        ($($name:ident: $preemptions:expr, $at_least:literal;)*) => {
            $(#[test]
            fn $name() {
                explore(stringify!($name), $preemptions, $at_least, super::$name);
            })*
        };
    }

    models! {
        sleep_against_submit: Some(3), 20_000;
        counted_wakes: Some(3), 300;
        two_submitters: Some(2), 100_000;
        stop_against_work: Some(2), 2_000;
        wait_for_room: None, 2_000;
        two_wait_for_room: Some(1), 5_000;
        settle_against_wait: None, 30;
        settle_against_drop: None, 20;
        settle_against_poll: None, 15;
        going_against_wait: None, 30;
        skip_against_begin: None, 40;
        two_skip: Some(3), 300;
        skip_against_completion: Some(3), 80;
        skip_against_drop: None, 200;
    }
}

mod mutants {
    use super::*;
    use proof::killed;

    killed! {
        done_store: DoneStore by settle_against_wait;
        done_load: DoneLoad by settle_against_wait;
        no_second_look: NoSecondLook by settle_against_poll;
        begin_after_look: BeginAfterLook by skip_against_begin, skip_against_drop;
        skip_after_look: SkipAfterLook by skip_against_begin, skip_against_completion;
        sleep_without_look: SleepWithoutLook by sleep_against_submit;
        no_barrier_before_look: NoBarrierBeforeLook by sleep_against_submit;
        no_barrier_before_question: NoBarrierBeforeQuestion by sleep_against_submit;
        arm_without_lock: ArmWithoutLock by wait_for_room;
        abandon_without_barrier: AbandonWithoutBarrier by stop_against_work;
    }

    #[test]
    fn every_mutant_is_listed() {
        assert_eq!(LISTED, Mutant::LANE);
    }
}
