//! Waiting for a sequence: one signal for all, no answer but the truth, deadlines of every length.
#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

mod lane;

use lane::{Unit, seq};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};
use xu_worker::Health;
use xu_worker::completion_pool::CompletionPool;
use xu_worker::waits::{Target, Waited, Waits, deadline, wait};

/// Until waits for so many sequences have a descriptor.
fn until_in_use(unit: &Unit, sequences: usize) {
    while unit.pool.in_use() < sequences {
        thread::yield_now();
    }
}

#[test]
fn w8_a_zero_timeout_asks_once() {
    let unit = Unit::new(1);
    let now = Some(Instant::now());
    assert_eq!(unit.wait(1, now), Waited::TimedOut);
    assert_eq!(unit.pool.idle(), 0, "nothing was waited on");
    unit.complete(1);
    assert_eq!(unit.wait(1, now), Waited::Completed);
}

#[test]
fn w8_short_timeouts_end() {
    let unit = Unit::new(1);
    for timeout in [Duration::from_nanos(1), Duration::from_micros(999)] {
        let begun = Instant::now();
        assert_eq!(unit.wait(1, deadline(timeout)), Waited::TimedOut);
        assert!(begun.elapsed() >= timeout);
    }
    assert_eq!(unit.pool.in_use(), 0);
}

#[test]
fn w8_long_timeouts_end_with_the_completion() {
    const MONTH: Duration = Duration::from_secs(30 * 24 * 60 * 60);

    for timeout in [MONTH, Duration::from_secs(u64::MAX / 4), Duration::MAX] {
        let unit = Unit::new(1);
        thread::scope(|scope| {
            let waiter = scope.spawn(|| unit.wait(1, deadline(timeout)));
            until_in_use(&unit, 1);
            unit.complete(1);
            assert_eq!(waiter.join().unwrap(), Waited::Completed);
        });
    }
}

#[test]
fn w5_one_signal_serves_all_waiters_of_a_sequence() {
    let unit = Unit::new(1);
    thread::scope(|scope| {
        let waiters: Vec<_> = (0..8).map(|_| scope.spawn(|| unit.wait(1, None))).collect();
        until_in_use(&unit, 1);
        unit.complete(1);
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), Waited::Completed);
        }
    });
    assert_eq!((unit.pool.idle(), unit.pool.in_use()), (1, 0));
}

#[test]
fn w5_each_sequence_has_its_own_signal() {
    let unit = Unit::new(20);
    thread::scope(|scope| {
        let waiters: Vec<_> = (1..=20)
            .map(|number| {
                let unit = &unit;
                scope.spawn(move || unit.wait(number, None))
            })
            .collect();
        until_in_use(&unit, 20);
        for (number, waiter) in (1..).zip(waiters) {
            unit.complete(number);
            assert_eq!(waiter.join().unwrap(), Waited::Completed);
        }
    });
    assert_eq!((unit.pool.idle(), unit.pool.in_use()), (16, 0));
}

#[test]
fn w7_a_unit_that_is_given_up_lets_everybody_go() {
    let unit = Unit::new(3);
    thread::scope(|scope| {
        let waiters: Vec<_> = (1..=3)
            .map(|number| {
                let unit = &unit;
                scope.spawn(move || unit.wait(number, None))
            })
            .collect();
        until_in_use(&unit, 3);
        unit.give_up();
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), Waited::Completed);
        }
    });
    assert_eq!(unit.wait(3, None), Waited::Completed);
    assert_eq!(unit.real.health(), Health::Degraded);
}

/// One sequence and its waiters, without a unit: what a test does here by hand, no unit does in that order.
#[derive(Default)]
struct ByHand {
    waits: Mutex<Waits>,
    completed: AtomicBool,
    pool: Arc<CompletionPool>,
}

impl ByHand {
    fn waits(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().unwrap()
    }

    fn wait(&self) -> Waited {
        wait(self, seq(1), &self.pool, None)
    }

    fn until_waiters(&self, waiters: usize) {
        while self.waits().waiters(seq(1)) < waiters {
            thread::yield_now();
        }
    }

    fn complete(&self) {
        let mut waits = self.waits();
        self.completed.store(true, Ordering::Release);
        waits.completed(seq(1)).unwrap();
    }
}

impl Target for ByHand {
    fn locked<R>(&self, look: impl FnOnce(&mut Waits) -> R) -> R {
        look(&mut self.waits())
    }

    fn is_completed(&self) -> bool {
        self.completed.load(Ordering::Acquire)
    }
}

#[test]
fn w3_the_last_waiter_that_leaves_is_told() {
    let (mut waits, pool) = (Waits::new(), Arc::default());
    let a = waits.join(seq(1), &pool).unwrap();
    let b = waits.join(seq(1), &pool).unwrap();
    let other = waits.join(seq(2), &pool).unwrap();
    assert!(Arc::ptr_eq(&a, &b));
    assert!(!waits.leave(seq(1), &a));
    assert!(!waits.leave(seq(1), &other), "a stranger");
    assert!(waits.leave(seq(1), &b));
    assert!(!waits.leave(seq(1), &b), "gone");
    assert!(waits.leave(seq(2), &other));
    assert!(waits.is_empty());
}

#[test]
fn w5_a_stray_count_ends_no_wait() {
    let one = ByHand::default();
    let lease = one.waits().join(seq(1), &one.pool).unwrap();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| one.wait());
        one.until_waiters(2);
        lease.signal().unwrap();
        while lease.wait(Some(Instant::now())).unwrap() {
            thread::yield_now();
        }
        one.complete();
        assert_eq!(waiter.join().unwrap(), Waited::Completed);
    });
}

#[test]
fn w7_what_will_never_complete_lets_everybody_go() {
    let one = ByHand::default();
    thread::scope(|scope| {
        let waiters: Vec<_> = (0..3).map(|_| scope.spawn(|| one.wait())).collect();
        one.until_waiters(3);
        one.waits().abandon().unwrap();
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), Waited::Abandoned);
        }
    });
    assert_eq!(one.wait(), Waited::Abandoned);
    one.complete();
    assert_eq!(one.wait(), Waited::Completed);
}

#[cfg(feature = "test-hooks")]
mod without_descriptors {
    use super::*;
    use xu_worker::Step;
    use xu_worker::eventfd::fail_call;

    const EMFILE: i32 = 24;
    const ENOMEM: i32 = 12;

    #[test]
    fn w5_a_waiter_without_a_descriptor_looks_again() {
        let unit = Unit::new(1);
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
        let unit = Unit::new(2);
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
        assert_eq!(unit.pool.in_use(), 0);
        fail_call(0, 0);
    }

    #[test]
    fn w7_a_waiter_whose_signal_failed_returns() {
        const EIO: i32 = 5;

        let unit = Unit::new(1);
        thread::scope(|scope| {
            let waiter = scope.spawn(|| unit.wait(1, None));
            until_in_use(&unit, 1);
            fail_call(1, EIO);
            assert_eq!(unit.step(), Step::Idle);
            assert_eq!(waiter.join().unwrap(), Waited::Completed);
        });
        assert_eq!(unit.real.health(), Health::Degraded);
        let cause = unit.real.cause().unwrap();
        assert!(cause.text.contains("waits for a request"), "{cause:?}");
    }

    #[test]
    fn w2_a_broken_signal_is_reported() {
        const EBADF: i32 = 9;

        let (mut waits, pool) = (Waits::new(), Arc::default());
        let lease = waits.join(seq(1), &pool).unwrap();
        fail_call(1, EBADF);
        assert!(waits.completed(seq(1)).is_err());
        assert!(waits.is_empty(), "forgotten all the same");
        drop(lease);
    }
}
