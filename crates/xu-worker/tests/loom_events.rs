//! Every interleaving of small runs of waits and of application events, and the proof that each rule is needed.
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" cargo test -p xu-worker --profile loom --test loom_events -- --show-output
//! ```
//!
//! A test of `models` explores the runs of one scenario; a test of `mutants` starts this program again with one fault
//! seeded, and demands that the named scenarios notice. Eventfds are numbers in memory here; a wait that would never end is
//! a deadlock, which loom reports.
#![cfg(loom)]

mod lane;
mod proof;

use lane::{Unit, app_event, halves, seq, taken};
use loom::sync::Mutex;
use loom::thread;
use proof::explore;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;
use xu_abi::Cursor;
use xu_worker::completion_pool::CompletionPool;
use xu_worker::eventfd::CompletionEvent;
use xu_worker::events::Registered;
use xu_worker::mutant::Mutant;
use xu_worker::waits::{Target, Waited, Waits, wait};
use xu_worker::{Follower, Health, Runner};

/// A worker that completes `1..=last`.
fn worker(unit: &Arc<Unit>, last: u64) -> thread::JoinHandle<()> {
    let unit = Arc::clone(unit);
    thread::spawn(move || (1..=last).for_each(|number| unit.complete(number)))
}

/// A waiter installs its descriptor while the worker completes.
fn install_against_signal() {
    let unit = Unit::new(1);
    let worker = worker(&unit, 1);
    assert_eq!(unit.wait(1, None), Waited::Completed);
    worker.join().expect("no panic");
    assert_eq!(unit.pool.in_use(), 0);
}

/// Two waiters share one signal.
fn two_waiters() {
    let unit = Unit::new(1);
    let worker = worker(&unit, 1);
    let other = {
        let unit = Arc::clone(&unit);
        thread::spawn(move || assert_eq!(unit.wait(1, None), Waited::Completed))
    };
    assert_eq!(unit.wait(1, None), Waited::Completed);
    worker.join().expect("no panic");
    other.join().expect("no panic");
    assert_eq!(unit.pool.in_use(), 0);
    assert!(unit.pool.idle() <= 1);
}

/// A waiter whose time is up leaves another one waiting. Of the type itself: time does not pass in a model.
fn one_leaves() {
    let waits = Arc::new(Mutex::new(Waits::new()));
    let pool = Arc::new(CompletionPool::new());
    let join = || locked(&waits, |waits| waits.join(seq(1), &pool)).expect("in memory");
    let (stays, goes) = (join(), join());
    let worker = {
        let waits = Arc::clone(&waits);
        thread::spawn(move || drop(locked(&waits, |waits| waits.completed(seq(1)))))
    };
    assert!(!locked(&waits, |waits| waits.leave(seq(1), &goes)));
    drop(goes);
    assert!(stays.wait(None).expect("in memory"));
    worker.join().expect("no panic");
    drop(stays);
    assert_eq!((pool.idle(), pool.in_use()), (1, 0));
}

fn locked<R>(waits: &Mutex<Waits>, look: impl FnOnce(&mut Waits) -> R) -> R {
    look(&mut waits.lock().expect("no panic"))
}

/// A descriptor that was signalled serves the next sequence.
fn reuse() {
    let unit = Unit::new(2);
    let worker = worker(&unit, 2);
    assert_eq!(unit.wait(1, None), Waited::Completed);
    assert_eq!(unit.wait(2, None), Waited::Completed);
    worker.join().expect("no panic");
    assert_eq!(unit.pool.in_use(), 0);
}

/// A unit that is given up completes what it has for those who wait.
fn give_up() {
    let unit = Unit::new(1);
    let worker = {
        let unit = Arc::clone(&unit);
        thread::spawn(move || unit.give_up())
    };
    assert_eq!(unit.wait(1, None), Waited::Completed);
    worker.join().expect("no panic");
    assert_eq!(unit.pool.in_use(), 0);
}

/// A sequence that will never complete.
struct Hopeless(Mutex<Waits>);

impl Target for Hopeless {
    fn locked<R>(&self, look: impl FnOnce(&mut Waits) -> R) -> R {
        locked(&self.0, look)
    }

    fn is_completed(&self) -> bool {
        false
    }
}

/// A unit that can complete nothing lets its waiters go. Of the type itself: a sound ring completes all that it has.
fn abandon() {
    let hopeless = Arc::new(Hopeless(Mutex::new(Waits::new())));
    let pool = Arc::new(CompletionPool::new());
    let worker = {
        let hopeless = Arc::clone(&hopeless);
        thread::spawn(move || hopeless.locked(Waits::abandon).expect("in memory"))
    };
    assert_eq!(wait(&*hopeless, seq(1), &pool, None), Waited::Abandoned);
    worker.join().expect("no panic");
}

/// Who is told that a request is complete finds its outcome: by an event, and by a wait.
fn outcome_before_notification(told: fn(&Unit, &CompletionEvent) -> bool) {
    let unit = Unit::new(0);
    let completion = unit.submit().completion;
    let event = CompletionEvent::new().expect("in memory");
    let worker = worker(&unit, 1);
    unit.register(1, &event);
    if told(&unit, &event) {
        assert!(completion.is_done());
    }
    worker.join().expect("no panic");
    assert!(completion.is_done());
}

fn outcome_before_event() {
    outcome_before_notification(|_, event| taken(event) == 1);
}

fn outcome_before_wait() {
    outcome_before_notification(|unit, _| unit.wait(1, None) == Waited::Completed);
}

fn outcome_before_question() {
    let now = Some(Instant::now());
    let unit = Unit::new(0);
    let completion = unit.submit().completion;
    let worker = worker(&unit, 1);
    if unit.wait(1, now) == Waited::Completed {
        assert!(completion.is_done());
    }
    worker.join().expect("no panic");
}

fn outcome_before_follower() {
    outcome_before_notification(|unit, _| {
        let mut follower = Follower::new();
        let cx = Context::from_waker(Waker::noop());
        let polled = unit.real.poll_completed(seq(1), &mut follower, &cx);
        unit.real.unfollow(&mut follower);
        polled.is_ready()
    });
}

/// Each registration for a sequence gets exactly one count.
fn register_against_complete() {
    let unit = Unit::new(1);
    let event = CompletionEvent::new().expect("in memory");
    let worker = worker(&unit, 1);
    unit.register(1, &event);
    worker.join().expect("no panic");
    assert_eq!(taken(&event), 1);
    assert!(!unit.deregister(1));
}

/// Nothing is written after a deregistration has returned.
fn deregister_against_complete() {
    let unit = Unit::new(1);
    let event = CompletionEvent::new().expect("in memory");
    assert_eq!(unit.register(1, &event), Registered::Armed);
    let worker = worker(&unit, 1);
    let removed = unit.deregister(1);
    let count = taken(&event);
    assert_eq!(count, u64::from(!removed));
    worker.join().expect("no panic");
    assert_eq!(taken(&event), 0);
}

/// The old event is not written after it was replaced; one of the two gets the count.
fn replace_against_complete() {
    let unit = Unit::new(1);
    let old = CompletionEvent::new().expect("in memory");
    let new = CompletionEvent::new().expect("in memory");
    unit.register(1, &old);
    let worker = worker(&unit, 1);
    unit.register(1, &new);
    let before = taken(&old);
    worker.join().expect("no panic");
    assert_eq!(taken(&old), 0);
    // The second registration is told of a completion that the first was told of: it is one of its own.
    assert_eq!(taken(&new), 1);
    assert!(before <= 1);
}

/// The unit's event gets one count for each completion after its registration, and none for those before it.
fn unit_event() {
    let unit = Unit::new(2);
    let event = CompletionEvent::new().expect("in memory");
    let worker = worker(&unit, 2);
    let (least, most) = unit.register_unit(&event);
    worker.join().expect("no panic");
    let count = taken(&event);
    assert!((2 - most..=2 - least).contains(&count), "{count}");
}

/// The same, when another registration brings the worker in every case.
fn unit_event_beside_another() {
    let unit = Unit::new(1);
    let event = CompletionEvent::new().expect("in memory");
    let other = CompletionEvent::new().expect("in memory");
    unit.register(1, &other);
    let worker = worker(&unit, 1);
    let (least, most) = unit.register_unit(&event);
    worker.join().expect("no panic");
    let count = taken(&event);
    assert!((1 - most..=1 - least).contains(&count), "{count}");
    assert_eq!(taken(&other), 1);
}

/// Nothing is written for a unit after it was dropped.
fn drop_against_complete() {
    let (unit, mut runner) = halves(1, &Arc::default());
    let event = CompletionEvent::new().expect("in memory");
    let registered = unit.register_event(seq(1), app_event(&event));
    assert_eq!(registered, Ok(Registered::Armed));
    let registered = unit.register_unit_event(app_event(&event));
    assert_eq!(registered, Ok(()));
    let worker = thread::spawn(move || {
        runner.step();
        runner
    });
    drop(unit);
    let count = taken(&event);
    assert!(count == 0 || count == 2, "{count}");
    drop(worker.join().expect("no panic"));
    assert_eq!(taken(&event), 0);
}

/// Counts wakes.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

impl Woken {
    fn wakes(&self) -> usize {
        self.0.load(Relaxed)
    }
}

/// A task polls once, with a waker of its own, while `other` runs beside it: it is ready, or it is woken. At most
/// once for each of its polls.
fn poll_against(
    unit: &Arc<Unit>,
    polls: usize,
    other: fn(&Unit),
    poll: impl FnOnce(&Unit, &mut Follower, &Context<'_>) -> bool,
) {
    let other = {
        let unit = Arc::clone(unit);
        thread::spawn(move || other(&unit))
    };
    let (mut follower, woken) = (Follower::new(), Arc::new(Woken::default()));
    let waker = Waker::from(Arc::clone(&woken));
    let is_ready = poll(unit, &mut follower, &Context::from_waker(&waker));
    other.join().expect("no panic");
    let wakes = woken.wakes();
    assert!(is_ready || wakes > 0, "pending, and never woken");
    assert!(wakes <= polls, "woken {wakes} times in {polls} polls");
    unit.real.unfollow(&mut follower);
    unit.real.unfollow_health(&mut follower);
}

/// A task that waits for a sequence, against its completion.
fn follow_sequence() {
    poll_against(
        &Unit::new(1),
        1,
        |unit| unit.complete(1),
        |unit, follower, cx| unit.real.poll_completed(seq(1), follower, cx).is_ready(),
    );
}

/// A task that leaves a second waker, against the completion: the second one is woken.
fn follow_with_another_waker() {
    poll_against(
        &Unit::new(1),
        1,
        |unit| unit.complete(1),
        |unit, follower, cx| {
            let first = Waker::noop();
            let polled = unit
                .real
                .poll_completed(seq(1), follower, &Context::from_waker(first));
            polled.is_ready() || unit.real.poll_completed(seq(1), follower, cx).is_ready()
        },
    );
}

/// A task that waits for what comes after the first of two completions.
fn follow_progress() {
    poll_against(
        &Unit::new(2),
        2,
        |unit| (1..=2).for_each(|number| unit.complete(number)),
        |unit, follower, cx| {
            let Poll::Ready(newest) = unit.real.poll_newer(Cursor::NONE, follower, cx) else {
                return false;
            };
            let newest = newest.expect("it has not ended").cursor();
            newest == Cursor::FIRST.next() || unit.real.poll_newer(newest, follower, cx).is_ready()
        },
    );
}

/// A task that waits for progress, against the end of the unit.
fn follow_to_the_end() {
    poll_against(
        &Unit::new(0),
        1,
        |unit| unit.real.finish(),
        |unit, follower, cx| unit.real.poll_newer(Cursor::NONE, follower, cx).is_ready(),
    );
}

/// A task that waits for progress, against the last completion and the end behind it: it is told of the completion first.
fn follow_the_last() {
    poll_against(
        &Unit::new(1),
        1,
        |unit| {
            unit.complete(1);
            unit.real.finish();
        },
        |unit, follower, cx| match unit.real.poll_newer(Cursor::NONE, follower, cx) {
            Poll::Ready(newest) => {
                assert_eq!(newest, Some(seq(1)), "the last was missed");
                true
            }
            Poll::Pending => false,
        },
    );
}

/// A task that waits for a change of health, against a worker that gives the unit up.
fn follow_health() {
    poll_against(&Unit::new(0), 1, Unit::give_up, |unit, follower, cx| {
        let changed = unit.real.poll_health(Health::Healthy, follower, cx);
        if let Poll::Ready(health) = changed {
            assert_eq!(health, Some(Health::Degraded));
            assert!(unit.real.cause().is_some());
        }
        changed.is_ready()
    });
}

mod models {
    use super::*;

    macro_rules! models {
        ($($name:ident: $model:ident, $preemptions:expr, $at_least:literal;)*) => {
            $(#[test]
            fn $name() {
                explore(stringify!($model), $preemptions, $at_least, $model);
            })*
        };
    }

    models! {
        install_signal: install_against_signal, None, 38;
        shared_signal: two_waiters, None, 115_000;
        leave_signal: one_leaves, None, 15;
        reused_descriptor: reuse, None, 740;
        given_up: give_up, None, 380;
        abandoned_waiter: abandon, None, 16;
        f8_outcome_event: outcome_before_event, None, 64;
        w5_outcome_wait: outcome_before_wait, None, 155;
        w5_outcome_question: outcome_before_question, None, 16;
        f8_register_complete: register_against_complete, None, 46;
        f8_deregister_complete: deregister_against_complete, None, 43;
        f8_replace_complete: replace_against_complete, None, 104;
        f8_unit_complete: unit_event, None, 280;
        f8_unit_beside_another: unit_event_beside_another, None, 106;
        f8_drop_complete: drop_against_complete, None, 30;
        f2_outcome_follower: outcome_before_follower, None, 740;
        f3_sequence_complete: follow_sequence, None, 140;
        f3_newest_waker: follow_with_another_waker, None, 3_000;
        f3_progress_complete: follow_progress, None, 6_000;
        f3_progress_end: follow_to_the_end, None, 120;
        f3_progress_last: follow_the_last, None, 2_800;
        f3_health_degrade: follow_health, None, 150;
    }
}

mod mutants {
    use super::Mutant;
    use super::proof::killed;

    killed! {
        wait_no_second_look: WaitNoSecondLook by install_signal, shared_signal;
        leave_takes_all: LeaveTakesAll by leave_signal;
        arm_after_look: ArmAfterLook by f8_register_complete;
        arm_unit_after_look: ArmUnitAfterLook by f8_unit_complete;
        unit_counts_the_past: UnitCountsThePast by f8_unit_beside_another;
        notify_without_lock: NotifyWithoutLock by f8_deregister_complete, f8_replace_complete, f8_drop_complete;
        follow_without_lock: FollowWithoutLock by f3_sequence_complete, f3_progress_complete;
        follow_no_second_look: FollowNoSecondLook by f3_sequence_complete, f3_progress_complete, f3_progress_end, f3_health_degrade;
        follow_before_hand_over: FollowBeforeHandOver by f2_outcome_follower;
        end_after_newest: EndAfterNewest by f3_progress_last;
    }

    #[test]
    fn every_mutant_is_listed() {
        assert_eq!(LISTED, Mutant::EVENTS);
    }
}
