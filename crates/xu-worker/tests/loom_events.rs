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

use lane::{Unit, seq, taken};
use loom::thread;
use proof::explore;
use std::sync::Arc;
use xu_worker::eventfd::CompletionEvent;
use xu_worker::events::Registered;
use xu_worker::mutant::Mutant;
use xu_worker::waits::Waited;

/// A worker that completes `1..=last`.
fn worker(unit: &Arc<Unit>, last: u64) -> thread::JoinHandle<()> {
    let unit = Arc::clone(unit);
    thread::spawn(move || (1..=last).for_each(|number| unit.complete(number)))
}

/// A waiter installs its descriptor while the worker completes.
fn install_against_signal() {
    let unit = Unit::new();
    let worker = worker(&unit, 1);
    assert_eq!(unit.wait(1, None), Waited::Completed);
    worker.join().expect("no panic");
    assert_eq!(unit.pool.in_use(), 0);
}

/// Two waiters share one signal.
fn two_waiters() {
    let unit = Unit::new();
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

/// A waiter whose time is up leaves another one waiting.
fn one_leaves() {
    let unit = Unit::new();
    let join = |unit: &Unit| {
        let mut waits = unit.waits();
        waits.join(seq(1), &unit.pool).expect("in memory")
    };
    let stays = join(&unit);
    let goes = join(&unit);
    let worker = worker(&unit, 1);
    let last = unit.waits().leave(seq(1), &goes);
    assert!(!last);
    drop(goes);
    assert!(stays.wait(None).expect("in memory"));
    worker.join().expect("no panic");
    drop(stays);
    assert_eq!((unit.pool.idle(), unit.pool.in_use()), (1, 0));
}

/// A descriptor that was signalled serves the next sequence.
fn reuse() {
    let unit = Unit::new();
    let worker = worker(&unit, 2);
    assert_eq!(unit.wait(1, None), Waited::Completed);
    assert_eq!(unit.wait(2, None), Waited::Completed);
    worker.join().expect("no panic");
    assert_eq!(unit.pool.in_use(), 0);
}

/// A unit that is given up lets its waiters go.
fn abandon() {
    let unit = Unit::new();
    let worker = {
        let unit = Arc::clone(&unit);
        thread::spawn(move || {
            let abandoned = unit.waits().abandon();
            abandoned.expect("in memory");
        })
    };
    assert_eq!(unit.wait(1, None), Waited::Abandoned);
    worker.join().expect("no panic");
}

/// Each registration for a sequence gets exactly one count.
fn register_against_complete() {
    let unit = Unit::new();
    let event = CompletionEvent::new().expect("in memory");
    let worker = worker(&unit, 1);
    unit.register(1, &event);
    worker.join().expect("no panic");
    assert_eq!(taken(&event), 1);
    assert!(!unit.events.is_armed());
}

/// Nothing is written after a deregistration has returned.
fn deregister_against_complete() {
    let unit = Unit::new();
    let event = CompletionEvent::new().expect("in memory");
    assert_eq!(unit.register(1, &event), Registered::Armed);
    let worker = worker(&unit, 1);
    let removed = unit.events.deregister(seq(1));
    let count = taken(&event);
    assert_eq!(count, u64::from(!removed));
    worker.join().expect("no panic");
    assert_eq!(taken(&event), 0);
    assert!(!unit.events.is_armed());
}

/// The old event is not written after it was replaced; one of the two gets the count.
fn replace_against_complete() {
    let unit = Unit::new();
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
    let unit = Unit::new();
    let event = CompletionEvent::new().expect("in memory");
    let worker = worker(&unit, 2);
    let before = unit.register_unit(&event);
    worker.join().expect("no panic");
    assert_eq!(taken(&event), 2 - before);
}

/// The same, when another registration brings the worker in every case.
fn unit_event_beside_another() {
    let unit = Unit::new();
    let event = CompletionEvent::new().expect("in memory");
    let other = CompletionEvent::new().expect("in memory");
    unit.register(1, &other);
    let worker = worker(&unit, 1);
    let before = unit.register_unit(&event);
    worker.join().expect("no panic");
    assert_eq!(taken(&event), 1 - before);
    assert_eq!(taken(&other), 1);
}

/// A unit that closes lets go of its events for good.
fn clear_against_complete() {
    let unit = Unit::new();
    let event = CompletionEvent::new().expect("in memory");
    unit.register(1, &event);
    unit.register_unit(&event);
    let worker = worker(&unit, 1);
    unit.events.clear();
    let count = taken(&event);
    assert!(count == 0 || count == 2);
    worker.join().expect("no panic");
    assert_eq!(taken(&event), 0);
    assert!(!unit.events.is_armed());
}

mod models {
    use super::*;

    #[test]
    fn install_signal() {
        explore("install against signal", None, 38, install_against_signal);
    }

    #[test]
    fn shared_signal() {
        explore("two waiters", None, 50_000, two_waiters);
    }

    #[test]
    fn leave_signal() {
        explore("one leaves", None, 15, one_leaves);
    }

    #[test]
    fn reused_descriptor() {
        explore("reuse", None, 750, reuse);
    }

    #[test]
    fn abandoned_waiter() {
        explore("abandon", None, 15, abandon);
    }

    #[test]
    fn f8_register_complete() {
        explore(
            "register against complete",
            None,
            15,
            register_against_complete,
        );
    }

    #[test]
    fn f8_deregister_complete() {
        explore(
            "deregister against complete",
            None,
            10,
            deregister_against_complete,
        );
    }

    #[test]
    fn f8_replace_complete() {
        explore(
            "replace against complete",
            None,
            45,
            replace_against_complete,
        );
    }

    #[test]
    fn f8_unit_complete() {
        explore("unit event", None, 32, unit_event);
    }

    #[test]
    fn f8_unit_beside_another() {
        explore(
            "unit event beside another",
            None,
            28,
            unit_event_beside_another,
        );
    }

    #[test]
    fn f8_clear_complete() {
        explore("clear against complete", None, 10, clear_against_complete);
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
        notify_without_lock: NotifyWithoutLock by f8_deregister_complete, f8_replace_complete, f8_clear_complete;
    }

    #[test]
    fn every_mutant_is_listed() {
        assert_eq!(LISTED, Mutant::EVENTS);
    }
}
