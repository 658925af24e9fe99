//! Waits and wakes while a signal handler without restart interrupts the waiting thread a thousand times a second.
#![cfg(not(any(loom, miri)))]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

mod lane;

use lane::{Unit, taken};
use nix::sys::signal::{
    SaFlags, SigAction, SigEvent, SigHandler, SigSet, SigevNotify, Signal, sigaction,
};
use nix::sys::time::TimeSpec;
use nix::sys::timer::{Expiration, Timer, TimerSetTimeFlags};
use nix::time::ClockId;
use nix::unistd::gettid;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use xu_worker::eventfd::{CompletionEvent, WorkCount};
use xu_worker::waits::{Waited, deadline};

static HANDLED: AtomicU64 = AtomicU64::new(0);

extern "C" fn count(_: i32) {
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

/// Interrupts the calling thread until it is dropped.
fn storm() -> Timer {
    let action = SigAction::new(
        SigHandler::Handler(count),
        SaFlags::empty(),
        SigSet::empty(),
    );
    // SAFETY: the handler does one atomic addition, which is safe at any moment.
    unsafe { sigaction(Signal::SIGALRM, &action) }.unwrap();
    let mut timer = Timer::new(
        ClockId::CLOCK_MONOTONIC,
        SigEvent::new(SigevNotify::SigevThreadId {
            signal: Signal::SIGALRM,
            thread_id: gettid().as_raw(),
            si_value: 0,
        }),
    )
    .unwrap();
    let millisecond = TimeSpec::from_duration(Duration::from_millis(1));
    timer
        .set(
            Expiration::Interval(millisecond),
            TimerSetTimeFlags::empty(),
        )
        .unwrap();
    timer
}

#[test]
fn w4_round_trips_in_a_storm_of_signals() {
    const ROUNDS: u64 = 10_000;
    const PATIENCE: Duration = Duration::from_secs(60);

    let _storm = storm();
    let unit = Unit::new(0);
    let work = WorkCount::new().unwrap();
    let event = CompletionEvent::new().unwrap();
    unit.register_unit(&event);
    let begun = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1..=ROUNDS {
                while work.take().is_err() {
                    assert!(begun.elapsed() < PATIENCE, "signals are lost");
                    thread::yield_now();
                }
                unit.complete(number);
            }
        });
        for number in 1..=ROUNDS {
            unit.accept();
            work.add().unwrap();
            assert_eq!(unit.wait(number, None), Waited::Completed);
            // A waiter looks for itself once a second.
            assert!(begun.elapsed() < PATIENCE, "signals are lost");
        }
    });
    assert_eq!(taken(&event), ROUNDS);
    assert_eq!(unit.real.lost_notifications(), 0);
    assert_eq!(work.take_all().unwrap(), 0);
}

#[test]
fn w8_a_timed_wait_in_a_storm_lasts_its_time() {
    const TIMEOUT: Duration = Duration::from_millis(100);

    let _storm = storm();
    let unit = Unit::new(1);
    let begun = Instant::now();
    assert_eq!(unit.wait(1, deadline(TIMEOUT)), Waited::TimedOut);
    assert!(begun.elapsed() >= TIMEOUT);
    assert!(HANDLED.load(Ordering::Relaxed) > 0);
}
