//! Application events: exactly one count for each event, and none after a deregistration.
#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

mod lane;

use lane::{Unit, seq, taken};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use xu_worker::eventfd::CompletionEvent;
use xu_worker::events::Registered;

/// miri takes its time.
const ROUNDS: u64 = if cfg!(miri) { 100 } else { 100_000 };

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

/// A worker completes `1..=ROUNDS`, beside `round`, which gets the number. After each round both have finished with it.
fn against_completion(
    unit: &Arc<Unit>,
    prepare: impl Fn(u64),
    mut round: impl FnMut(u64) -> u64,
    check: impl Fn(u64, u64),
) {
    let (begun, done) = (Turn::default(), Turn::default());
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1..=ROUNDS {
                begun.await_round(number);
                unit.complete(number);
                done.announce(number);
            }
        });
        for number in 1..=ROUNDS {
            prepare(number);
            begun.announce(number);
            let seen = round(number);
            done.await_round(number);
            check(number, seen);
        }
    });
}

#[test]
fn f8_deregistering_against_completion_is_a_barrier() {
    let unit = Unit::new();
    let event = event();
    against_completion(
        &unit,
        |number| assert_eq!(unit.register(number, &event), Registered::Armed),
        |number| {
            let removed = unit.events.deregister(seq(number));
            let count = taken(&event);
            assert_eq!(count, u64::from(!removed));
            count
        },
        |_, _| assert_eq!(taken(&event), 0),
    );
    assert!(!unit.events.is_armed());
    assert_eq!(unit.events.lost(), 0);
}

#[test]
fn f8_registering_against_completion_counts_once() {
    let unit = Unit::new();
    let event = event();
    against_completion(
        &unit,
        |_| {},
        |number| {
            unit.register(number, &event);
            0
        },
        |_, _| assert_eq!(taken(&event), 1),
    );
    assert!(!unit.events.is_armed());
}

#[test]
fn f8_replacing_against_completion_is_a_barrier() {
    let unit = Unit::new();
    let (old, new) = (event(), event());
    against_completion(
        &unit,
        |number| assert_eq!(unit.register(number, &old), Registered::Armed),
        |number| {
            unit.register(number, &new);
            taken(&old)
        },
        |_, before| {
            assert!(before <= 1);
            assert_eq!(taken(&old), 0);
            assert_eq!(taken(&new), 1);
        },
    );
}

#[test]
fn f8_a_unit_event_counts_what_completes_after_it() {
    let unit = Unit::new();
    let event = event();
    against_completion(
        &unit,
        |_| {},
        |number| number - unit.register_unit(&event),
        |_, due| {
            assert!(unit.events.deregister_unit());
            assert_eq!(taken(&event), due);
        },
    );
}

#[test]
fn f8_the_last_registration_wins() {
    let unit = Unit::new();
    let (first, second) = (event(), event());
    unit.register(1, &first);
    unit.register(1, &second);
    unit.register_unit(&first);
    unit.register_unit(&second);
    unit.complete(1);
    assert_eq!((taken(&first), taken(&second)), (0, 2));
    assert!(unit.events.is_armed(), "the unit's stays");
    assert!(!unit.events.deregister(seq(1)), "the sequence's is spent");
    assert!(unit.events.deregister_unit());
    assert!(!unit.events.deregister_unit());
    assert!(!unit.events.is_armed());
}

#[test]
fn f8_a_completed_sequence_is_signalled_at_once() {
    let unit = Unit::new();
    let (waiting, late) = (event(), event());
    unit.complete(1);
    assert_eq!(unit.register(1, &late), Registered::Signalled);
    assert_eq!(taken(&late), 1);
    assert!(!unit.events.is_armed());
    unit.register(2, &waiting);
    assert_eq!(unit.register(1, &late), Registered::Signalled);
    assert!(unit.events.is_armed(), "the other one stays");
    assert_eq!((taken(&late), taken(&waiting)), (1, 0));
}

#[test]
fn w1_five_completions_are_five_counts() {
    let unit = Unit::new();
    let event = event();
    unit.register_unit(&event);
    (1..=5).for_each(|number| unit.complete(number));
    assert_eq!(taken(&event), 5);
}

#[test]
fn f7_a_cleared_unit_writes_nothing() {
    let unit = Unit::new();
    let event = event();
    unit.register(1, &event);
    unit.register(2, &event);
    unit.register_unit(&event);
    unit.events.clear();
    assert!(!unit.events.is_armed());
    unit.complete(1);
    unit.events.completed(seq(2));
    assert_eq!(taken(&event), 0);
}
