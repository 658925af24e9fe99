//! Waits for a sequence.

use super::*;

#[test]
fn w8_what_was_never_issued_is_refused() {
    let unit = Unit::new(2);
    for strange in strangers(2) {
        let refused = unit.real.wait(strange, None);
        assert_eq!(refused, Err(never_issued(strange)));
    }
    assert_eq!((unit.pool.idle(), unit.pool.in_use()), (0, 0));
}

#[test]
fn w8_a_wait_that_comes_late_needs_no_descriptor() {
    let unit = Unit::new(2);
    unit.complete(1);
    for when in [None, now(), deadline(Duration::MAX)] {
        assert_eq!(unit.wait(1, when), Waited::Completed);
    }
    unit.complete(2);
    assert_eq!(unit.wait(1, None), Waited::Completed);
    assert_eq!((unit.pool.idle(), unit.pool.in_use()), (0, 0));
}

#[test]
fn w8_a_timeout_ends_between_its_time_and_patience() {
    let unit = Unit::new(1);
    for timeout in [0, 1, 40].map(Duration::from_millis) {
        let begun = Instant::now();
        assert_eq!(unit.wait(1, deadline(timeout)), Waited::TimedOut);
        assert!(begun.elapsed() >= timeout);
        assert!(begun.elapsed() < PATIENCE);
    }
    unit.complete(1);
    assert_eq!(unit.wait(1, None), Waited::Completed);
}

/// The deadlines of all but the last one pass; those that have gone take nothing away.
#[test]
fn w3_waiters_that_leave_take_no_signal_away() {
    let unit = Unit::new(1);
    thread::scope(|scope| {
        let stays = scope.spawn(|| unit.wait(1, patience()));
        until("it waits", || unit.pool.in_use() == 1);
        let leave: Vec<_> = (1..=8)
            .map(|time| {
                let unit = &unit;
                let when = deadline(Duration::from_millis(time));
                scope.spawn(move || unit.wait(1, when))
            })
            .collect();
        for left in leave {
            assert_eq!(left.join().unwrap(), Waited::TimedOut);
        }
        assert_eq!(unit.pool.in_use(), 1, "theirs is still lent");
        unit.complete(1);
        assert_eq!(stays.join().unwrap(), Waited::Completed);
    });
    assert_eq!((unit.pool.idle(), unit.pool.in_use()), (1, 0));
}

#[test]
fn w3_a_descriptor_that_was_left_has_no_signal_for_the_next() {
    let unit = Unit::new(2);
    let short = || deadline(Duration::from_millis(1));
    assert_eq!(unit.wait(1, short()), Waited::TimedOut);
    assert_eq!((unit.pool.idle(), unit.pool.in_use()), (1, 0));
    unit.complete(1);
    assert_eq!(unit.wait(2, short()), Waited::TimedOut);
    assert_eq!((unit.pool.idle(), unit.pool.in_use()), (1, 0));
    unit.complete(2);
    assert_eq!(unit.wait(2, short()), Waited::Completed);
}

/// Deadlines and completions meet in every order; each answer is the truth, and nothing stays lent.
#[test]
fn w5_deadlines_against_completions() {
    const ROUNDS: u64 = 2_000;

    let (unit, signals) = (Unit::new(0), Signals::expected());
    let (round, done) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for number in 1..=ROUNDS {
                    until("a round begins", || round.load(Ordering::SeqCst) == number);
                    let when = deadline(Duration::from_micros(number % 60));
                    unit.wait(number, when);
                    assert_eq!(unit.wait(number, patience()), Waited::Completed);
                    done.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        for number in 1..=ROUNDS {
            unit.accept();
            round.store(number, Ordering::SeqCst);
            unit.complete(number);
            until("both are told", || {
                done.load(Ordering::SeqCst) == 2 * number
            });
            signals.assert_came();
        }
    });
    assert_eq!(unit.pool.in_use(), 0);
    assert!(unit.pool.idle() <= 2);
}

/// The wait ends with the signal, not with the look that a waiter takes each second.
#[test]
fn w5_a_signal_ends_a_wait_at_once() {
    let unit = Unit::new(0);
    let begun = Instant::now();
    for number in 1..=5 {
        unit.accept();
        thread::scope(|scope| {
            let waiter = scope.spawn(|| unit.wait(number, None));
            until("it waits", || unit.pool.in_use() == 1);
            unit.complete(number);
            assert_eq!(waiter.join().unwrap(), Waited::Completed);
        });
        assert_eq!(unit.pool.in_use(), 0);
    }
    assert!(begun.elapsed() < Duration::from_secs(4), "signals are lost");
}

#[test]
fn w7_waits_after_a_unit_was_given_up_end() {
    let unit = Unit::new(3);
    unit.complete(1);
    unit.give_up();
    for number in 1..=3 {
        assert_eq!(unit.wait(number, None), Waited::Completed);
    }
    assert_eq!(unit.real.health(), Health::Degraded);
    assert!(unit.real.wait(seq(4), None).is_err());
}

/// A worker half that is dropped is a worker that is gone.
#[test]
fn w7_a_waiter_of_a_worker_that_goes_is_let_go() {
    let pool = Arc::new(CompletionPool::new());
    let (unit, runner) = halves(2, &pool);
    thread::scope(|scope| {
        let waiters = [1, 2].map(|number| {
            let unit = &unit;
            scope.spawn(move || unit.wait(seq(number), patience()))
        });
        until("both wait", || pool.in_use() == 2);
        drop(runner);
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), Ok(Waited::Completed));
        }
    });
    assert_eq!(unit.wait(seq(2), None), Ok(Waited::Completed));
}

#[test]
fn w5_several_wait_for_each_request_of_a_worker() {
    for policy in POLICIES {
        let core = Core::new(1, &Plan::new(8, policy));
        let (unit, signals) = (&core.units[0], Signals::expected());
        for id in 0..200 {
            signals.assert_came();
            let gate = Gate::default();
            let seq = unit.post(Work::held(id, &gate)).unwrap();
            thread::scope(|scope| {
                let waiters = [(); 4].map(|()| scope.spawn(|| unit.wait(seq, patience())));
                gate.open();
                for waiter in waiters {
                    assert_eq!(waiter.join().unwrap(), Ok(Waited::Completed));
                }
            });
        }
        close(&core);
    }
}
