//! What a queue says about itself: counts that fit each other, ages, and a histogram when it is asked for.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

mod held;

use held::Held;
use lane_tests::Rig;
use nrta::{CompletionEvent, Health};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

lane_tests::on_both! {
    a_snapshot_counts_what_has_happened,
    a_snapshot_counts_failures_and_lost_notifications with held::fatal(),
    nothing_is_measured_until_it_is_asked_for,
    the_numbers_of_a_snapshot_fit_each_other_at_any_time,
}

fn a_snapshot_counts_what_has_happened(rig: &Rig) {
    let held = Held::new(rig);
    let fresh = held.compute.snapshot();
    assert_eq!((fresh.xu, fresh.limit), (held.compute.xu(), 8));
    assert_eq!((fresh.issued, fresh.completed, fresh.failed), (0, 0, 0));
    assert_eq!((fresh.oldest_age, fresh.latency.total()), (None, 0));

    let seqs = held.schedule(8);
    for _ in 0..3 {
        held.execute().unwrap_err();
    }
    held.complete(seqs[0]);
    held.complete(seqs[1]);
    let busy = held.compute.snapshot();
    assert_eq!((busy.issued, busy.completed, busy.depth), (8, 2, 6));
    assert_eq!((busy.queue_full, busy.failed), (3, 0));
    assert_eq!(busy.health, Health::Healthy);
    held.release();

    // The stop of the closing is no request.
    let Held {
        runtime, compute, ..
    } = held;
    runtime.close();
    let closed = compute.snapshot();
    assert_eq!((closed.issued, closed.completed, closed.depth), (8, 8, 0));
    assert_eq!(closed.health, Health::Closing);
    assert_eq!(compute.last_issued(), seqs[7]);
}

fn a_snapshot_counts_failures_and_lost_notifications(rig: &Rig) {
    let held = Held::new(rig);
    let full = nix::sys::eventfd::EventFd::from_flags(nix::sys::eventfd::EfdFlags::EFD_NONBLOCK);
    let full = full.unwrap();
    full.write(u64::MAX - 1).unwrap();
    held.compute.notify_each(&full).unwrap();
    let seqs = held.schedule(4);
    let told = CompletionEvent::new().unwrap();
    held.release();
    held.compute.wait(seqs[3], None).unwrap();
    // Behind a deregistration the worker has told of everything.
    held.compute.notify(seqs[3], &told).unwrap();
    held.compute.stop_notify_each().unwrap();
    let degraded = held.compute.snapshot();
    assert_eq!((degraded.completed, degraded.failed), (4, 4));
    assert_eq!(degraded.health, Health::Degraded);
    drop(held.runtime);
    assert_eq!(held.compute.snapshot().lost_notifications, 4);
    assert_eq!(held.compute.lost_notifications(), 4);
}

fn nothing_is_measured_until_it_is_asked_for(rig: &Rig) {
    let held = Held::new(rig);
    let unmeasured = held.schedule(1)[0];
    held.compute.measure(true);
    let measured = held.schedule(2);
    assert_eq!(held.compute.snapshot().oldest_age, None);
    held.complete(unmeasured);
    held.complete(measured[0]);
    let first = held.compute.snapshot();
    assert_eq!((first.completed, first.latency.total()), (2, 1));
    // The worker comes to the next by itself.
    let age = loop {
        match held.compute.snapshot().oldest_age {
            Some(age) => break age,
            None => thread::yield_now(),
        }
    };
    assert!(held.compute.snapshot().oldest_age >= Some(age), "it grows");
    held.compute.measure(false);
    let last = held.schedule(1)[0];
    held.complete(measured[1]);
    // The one at the head now is not measured, and does not inherit the age of the one before.
    assert_eq!(held.compute.snapshot().oldest_age, None);
    held.complete(last);
    let end = held.compute.snapshot();
    assert_eq!((end.completed, end.latency.total()), (4, 2));
    assert_eq!(end.oldest_age, None);
    // It had been under way for that long when it was asked.
    assert!(end.latency.quantile(1.0) >= Some(age));
}

fn the_numbers_of_a_snapshot_fit_each_other_at_any_time(rig: &Rig) {
    let runtime = rig.builder().open().unwrap();
    let core = runtime.core(0).unwrap();
    let (moves, tensor) = (core.tensor_op(0).unwrap(), core.allocate(8).unwrap());
    moves.measure(true);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut last = moves.snapshot();
            while !done.load(Ordering::Acquire) {
                let now = moves.snapshot();
                assert!(now.failed <= now.completed && now.completed <= now.issued);
                assert_eq!(now.depth, now.issued - now.completed);
                assert!(now.issued >= last.issued && now.completed >= last.completed);
                assert!(
                    now.latency.total() >= now.completed,
                    "each is measured first"
                );
                last = now;
            }
        });
        let mut last = None;
        for _ in 0..5_000 {
            last = Some(moves.write(&tensor, 0, vec![1; 8]).unwrap().seq());
        }
        moves.wait(last.unwrap(), None).unwrap();
        done.store(true, Ordering::Release);
    });
    let end = moves.snapshot();
    assert_eq!((end.issued, end.latency.total()), (5_000, 5_000));
}
