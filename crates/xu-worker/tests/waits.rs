//! Waiting for a sequence: one signal for all, no answer but the truth, deadlines of every length.
#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

mod lane;

use lane::{Unit, seq};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use xu_worker::waits::{Waited, deadline};

fn until_waiters(unit: &Unit, number: u64, waiters: usize) {
    while unit.waits().waiters(seq(number)) < waiters {
        thread::yield_now();
    }
}

#[test]
fn w8_a_zero_timeout_asks_once() {
    let unit = Unit::new();
    let now = Some(Instant::now());
    assert_eq!(unit.wait(1, now), Waited::TimedOut);
    assert_eq!(unit.pool.idle(), 0, "nothing was waited on");
    unit.complete(1);
    assert_eq!(unit.wait(1, now), Waited::Completed);
}

#[test]
fn w8_short_timeouts_end() {
    let unit = Unit::new();
    for timeout in [Duration::from_nanos(1), Duration::from_micros(999)] {
        let begun = Instant::now();
        assert_eq!(unit.wait(1, deadline(timeout)), Waited::TimedOut);
        assert!(begun.elapsed() >= timeout);
    }
    assert!(unit.waits().is_empty());
    assert_eq!(unit.pool.in_use(), 0);
}

#[test]
fn w8_long_timeouts_end_with_the_completion() {
    const MONTH: Duration = Duration::from_secs(30 * 24 * 60 * 60);

    for timeout in [MONTH, Duration::from_secs(u64::MAX / 4), Duration::MAX] {
        let unit = Unit::new();
        thread::scope(|scope| {
            let waiter = scope.spawn(|| unit.wait(1, deadline(timeout)));
            until_waiters(&unit, 1, 1);
            unit.complete(1);
            assert_eq!(waiter.join().unwrap(), Waited::Completed);
        });
    }
}

#[test]
fn w5_one_signal_serves_all_waiters_of_a_sequence() {
    let unit = Unit::new();
    thread::scope(|scope| {
        let waiters: Vec<_> = (0..8).map(|_| scope.spawn(|| unit.wait(1, None))).collect();
        until_waiters(&unit, 1, 8);
        assert_eq!(unit.pool.in_use(), 1);
        unit.complete(1);
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), Waited::Completed);
        }
    });
    assert!(unit.waits().is_empty());
    assert_eq!((unit.pool.idle(), unit.pool.in_use()), (1, 0));
}

#[test]
fn w5_each_sequence_has_its_own_signal() {
    let unit = Unit::new();
    thread::scope(|scope| {
        let waiters: Vec<_> = (1..=20)
            .map(|number| {
                let unit = &unit;
                scope.spawn(move || unit.wait(number, None))
            })
            .collect();
        for number in 1..=20 {
            until_waiters(&unit, number, 1);
        }
        assert_eq!(unit.pool.in_use(), 20);
        for (number, waiter) in (1..).zip(waiters) {
            unit.complete(number);
            assert_eq!(waiter.join().unwrap(), Waited::Completed);
        }
    });
    assert_eq!((unit.pool.idle(), unit.pool.in_use()), (16, 0));
}

#[test]
fn w3_the_last_waiter_that_leaves_is_told() {
    let unit = Unit::new();
    let a = unit.waits().join(seq(1), &unit.pool).unwrap();
    let b = unit.waits().join(seq(1), &unit.pool).unwrap();
    let other = unit.waits().join(seq(2), &unit.pool).unwrap();
    assert!(Arc::ptr_eq(&a, &b));
    assert!(!unit.waits().leave(seq(1), &a));
    assert!(!unit.waits().leave(seq(1), &other), "a stranger");
    assert!(unit.waits().leave(seq(1), &b));
    assert!(!unit.waits().leave(seq(1), &b), "gone");
    assert!(unit.waits().leave(seq(2), &other));
    assert!(unit.waits().is_empty());
}

#[test]
fn w5_a_stray_count_ends_no_wait() {
    let unit = Unit::new();
    let lease = unit.waits().join(seq(1), &unit.pool).unwrap();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| unit.wait(1, None));
        until_waiters(&unit, 1, 2);
        lease.signal().unwrap();
        while lease.wait(Some(Instant::now())).unwrap() {
            thread::yield_now();
        }
        unit.complete(1);
        assert_eq!(waiter.join().unwrap(), Waited::Completed);
    });
}

#[test]
fn w7_an_abandoned_unit_lets_everybody_go() {
    let unit = Unit::new();
    thread::scope(|scope| {
        let waiters: Vec<_> = (1..=3)
            .map(|number| {
                let unit = &unit;
                scope.spawn(move || unit.wait(number, None))
            })
            .collect();
        for number in 1..=3 {
            until_waiters(&unit, number, 1);
        }
        unit.waits().abandon().unwrap();
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), Waited::Abandoned);
        }
    });
    assert_eq!(unit.wait(4, None), Waited::Abandoned);
    unit.complete(1);
    assert_eq!(unit.wait(1, None), Waited::Completed);
}

#[cfg(feature = "test-hooks")]
mod without_descriptors {
    use super::*;
    use xu_worker::eventfd::fail_call;

    const EMFILE: i32 = 24;
    const ENOMEM: i32 = 12;

    #[test]
    fn w5_a_waiter_without_a_descriptor_looks_again() {
        let unit = Unit::new();
        fail_call(1, EMFILE);
        let short = deadline(Duration::from_millis(3));
        assert_eq!(unit.wait(1, short), Waited::TimedOut);
        assert_eq!(unit.pool.idle(), 0);
        thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                fail_call(1, EMFILE);
                unit.wait(1, None)
            });
            unit.complete(1);
            assert_eq!(waiter.join().unwrap(), Waited::Completed);
        });
    }

    #[test]
    fn w5_a_waiter_whose_poll_fails_looks_again() {
        let unit = Unit::new();
        thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                // The first makes the descriptor.
                fail_call(2, ENOMEM);
                unit.wait(1, None)
            });
            unit.complete(1);
            assert_eq!(waiter.join().unwrap(), Waited::Completed);
        });
        fail_call(2, ENOMEM);
        let short = deadline(Duration::from_millis(3));
        assert_eq!(unit.wait(2, short), Waited::TimedOut);
        assert!(unit.waits().is_empty());
        fail_call(0, 0);
    }

    #[test]
    fn w7_a_waiter_whose_signal_failed_returns() {
        const EIO: i32 = 5;

        let unit = Unit::new();
        thread::scope(|scope| {
            let waiter = scope.spawn(|| unit.wait(1, None));
            until_waiters(&unit, 1, 1);
            fail_call(1, EIO);
            assert!(unit.try_complete(1).is_err());
            assert_eq!(waiter.join().unwrap(), Waited::Completed);
        });
    }

    #[test]
    fn w2_a_broken_signal_is_reported() {
        const EBADF: i32 = 9;

        let unit = Unit::new();
        let lease = unit.waits().join(seq(1), &unit.pool).unwrap();
        fail_call(1, EBADF);
        assert!(unit.waits().completed(seq(1)).is_err());
        assert!(unit.waits().is_empty(), "forgotten all the same");
        drop(lease);
    }
}
