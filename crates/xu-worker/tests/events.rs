//! Application events: exactly one count for each event, and none after a deregistration.
#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

mod lane;

use lane::{Unit, app_event, seq, taken};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use xu_worker::eventfd::CompletionEvent;
use xu_worker::events::{Events, Registered};

/// miri takes its time.
const ROUNDS: u64 = if cfg!(miri) { 100 } else { 50_000 };

fn event() -> CompletionEvent {
    CompletionEvent::new().unwrap()
}

/// Lets two threads begin each round together, without the scheduler where it can be done.
#[derive(Default)]
struct Turn(AtomicU64);

impl Turn {
    fn announce(&self, round: u64) {
        self.0.store(round, Ordering::Release);
    }

    fn await_round(&self, round: u64) {
        while self.0.load(Ordering::Acquire) < round {
            thread::yield_now();
        }
    }
}

/// Lets the other thread run on when this one has failed: it fails, too, then.
struct LetGo<'a>(&'a Turn);

impl Drop for LetGo<'_> {
    fn drop(&mut self) {
        self.0.announce(u64::MAX);
    }
}

/// A worker completes `1..=ROUNDS`, beside `round`, which gets the number. After each round both have finished with it.
fn against_completion(
    unit: &Arc<Unit>,
    prepare: impl Fn(u64),
    mut round: impl FnMut(u64),
    check: impl Fn(),
) {
    let (begun, done) = (Turn::default(), Turn::default());
    thread::scope(|scope| {
        scope.spawn(|| {
            let _let_go = LetGo(&done);
            for number in 1..=ROUNDS {
                begun.await_round(number);
                unit.complete(number);
                done.announce(number);
            }
        });
        let _let_go = LetGo(&begun);
        for number in 1..=ROUNDS {
            unit.accept();
            prepare(number);
            begun.announce(number);
            round(number);
            done.await_round(number);
            check();
        }
    });
}

#[test]
fn f8_deregistering_against_completion_is_a_barrier() {
    let unit = Unit::new(0);
    let event = event();
    against_completion(
        &unit,
        |number| assert_eq!(unit.register(number, &event), Registered::Armed),
        |number| {
            let removed = unit.deregister(number);
            assert_eq!(taken(&event), u64::from(!removed));
        },
        || assert_eq!(taken(&event), 0),
    );
    assert_eq!(unit.real.lost_notifications(), 0);
}

#[test]
fn f8_registering_against_completion_counts_once() {
    let unit = Unit::new(0);
    let event = event();
    against_completion(
        &unit,
        |_| {},
        |number| {
            unit.register(number, &event);
        },
        || assert_eq!(taken(&event), 1),
    );
    assert!(!unit.deregister(ROUNDS));
}

#[test]
fn f8_replacing_against_completion_is_a_barrier() {
    let unit = Unit::new(0);
    let (old, new) = (event(), event());
    against_completion(
        &unit,
        |number| assert_eq!(unit.register(number, &old), Registered::Armed),
        |number| {
            unit.register(number, &new);
            assert!(taken(&old) <= 1);
        },
        || {
            assert_eq!(taken(&old), 0);
            assert_eq!(taken(&new), 1);
        },
    );
}

#[test]
fn f8_a_unit_event_counts_what_completes_after_it() {
    let unit = Unit::new(0);
    let event = event();
    let due = Cell::new((0, 0));
    against_completion(
        &unit,
        |_| {},
        |number| {
            let (least, most) = unit.register_unit(&event);
            due.set((number - most, number - least));
        },
        || {
            assert!(unit.deregister_unit());
            let (least, most) = due.get();
            assert!((least..=most).contains(&taken(&event)));
        },
    );
}

#[test]
fn f8_the_last_registration_wins() {
    let unit = Unit::new(1);
    let (first, second) = (event(), event());
    unit.register(1, &first);
    unit.register(1, &second);
    unit.register_unit(&first);
    unit.register_unit(&second);
    unit.complete(1);
    assert_eq!((taken(&first), taken(&second)), (0, 2));
    assert!(!unit.deregister(1), "the sequence's is spent");
    assert!(unit.deregister_unit(), "the unit's stays");
    assert!(!unit.deregister_unit());
}

#[test]
fn f8_a_completed_sequence_is_signalled_at_once() {
    let unit = Unit::new(2);
    let (waiting, late) = (event(), event());
    unit.complete(1);
    assert_eq!(unit.register(1, &late), Registered::Signalled);
    assert_eq!(taken(&late), 1);
    unit.register(2, &waiting);
    assert_eq!(unit.register(1, &late), Registered::Signalled);
    assert_eq!((taken(&late), taken(&waiting)), (1, 0));
    assert!(unit.deregister(2), "the other one stays");
}

#[test]
fn w1_five_completions_are_five_counts() {
    let unit = Unit::new(5);
    let event = event();
    unit.register_unit(&event);
    (1..=5).for_each(|number| unit.complete(number));
    assert_eq!(taken(&event), 5);
}

/// Of the type itself: that nobody is armed is what a worker asks it.
#[test]
fn f8_what_is_spent_or_taken_out_is_not_armed() {
    let (events, event) = (Events::new(), event());
    let register = |number, is_complete| {
        events.register(seq(number), app_event(&event), || is_complete);
    };
    register(1, false);
    register(1, false);
    events.completed(seq(1));
    assert!(!events.is_armed());
    register(2, true);
    assert!(!events.is_armed());
    register(3, false);
    assert!(events.is_armed());
    assert!(events.deregister(seq(3)));
    assert!(!events.is_armed());
    events.register_unit(app_event(&event), || seq(3));
    events.register_unit(app_event(&event), || seq(3));
    assert!(events.deregister_unit());
    assert!(!events.is_armed());
}

/// Of the type itself: a unit clears it when it goes.
#[test]
fn f7_cleared_events_are_not_written() {
    let (events, event) = (Events::new(), event());
    events.register(seq(1), app_event(&event), || false);
    events.register(seq(2), app_event(&event), || false);
    events.register_unit(app_event(&event), || seq(0));
    events.clear();
    assert!(!events.is_armed());
    events.completed(seq(1));
    events.completed(seq(2));
    assert_eq!(taken(&event), 0);
}
