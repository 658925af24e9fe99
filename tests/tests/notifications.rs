//! Events through the public interface: one count for each, after the completion, and none after the end.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

mod held;

use held::Held;
use lane_tests::Rig;
use nix::sys::eventfd::{EfdFlags, EventFd};
use nrta::{
    AskError, CompletionEvent, EventError, Health, NotAnEventFd, Registered, Runtime, SeqId, Status,
};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

lane_tests::on_both! {
    f8_a_sequence_is_signalled_once_and_after_its_completion,
    f8_a_completed_sequence_is_signalled_before_the_call_returns,
    f8_registering_again_replaces_and_what_is_not_there_is_no_error,
    f8_deregistering_stops_both_kinds,
    f8_what_was_never_issued_is_an_error_and_changes_nothing,
    f8_what_is_no_eventfd_is_an_error_and_the_registration_stays,
    f8_a_queue_event_counts_completions_not_wake_ups,
    w3_the_application_may_close_its_descriptor,
    w2_a_full_event_loses_its_notification_and_nothing_else,
    f8_one_event_serves_many_sequences_and_queues,
    f6_a_degraded_queue_still_notifies with held::fatal(),
    v14_a_closed_runtime_has_notified_everything_and_forgets_registrations,
    f8_a_dropped_subscription_ends_and_leaves_its_successor_alone,
    f8_replacing_against_completion_counts_each_request_once,
}

fn event() -> CompletionEvent {
    CompletionEvent::new().unwrap()
}

/// Reads counts until there are so many; blocks as an application would.
fn await_counts(event: &CompletionEvent, counts: u64) {
    let mut taken = 0;
    while taken < counts {
        let mut polled = [nix::poll::PollFd::new(
            event.as_fd(),
            nix::poll::PollFlags::POLLIN,
        )];
        nix::poll::poll(&mut polled, nix::poll::PollTimeout::NONE).unwrap();
        taken += event.drain().unwrap();
    }
    assert_eq!(taken, counts);
}

fn f8_a_sequence_is_signalled_once_and_after_its_completion(rig: &Rig) {
    let held = Held::new(rig);
    let event = event();
    let pending = held.execute().unwrap();
    let registered = held.compute.notify(pending.seq(), &event).unwrap();
    assert_eq!(registered, Registered::Armed);
    assert_eq!(event.drain().unwrap(), 0);
    held.release();
    await_counts(&event, 1);
    assert_eq!(held.compute.is_completed(pending.seq()), Ok(true));
    assert!(pending.is_done(), "the status is there");
    let next = held.execute().unwrap().seq();
    held.compute.wait(next, None).unwrap();
    assert_eq!(event.drain().unwrap(), 0, "one notification and no more");
}

fn f8_a_completed_sequence_is_signalled_before_the_call_returns(rig: &Rig) {
    let held = Held::new(rig);
    held.release();
    let seq = held.schedule(1)[0];
    held.compute.wait(seq, None).unwrap();
    let event = event();
    assert_eq!(
        held.compute.notify(seq, &event).unwrap(),
        Registered::Signalled
    );
    assert_eq!(event.drain().unwrap(), 1);
}

fn f8_registering_again_replaces_and_what_is_not_there_is_no_error(rig: &Rig) {
    let held = Held::new(rig);
    let (old, new) = (event(), event());
    let seq = held.schedule(1)[0];
    held.compute.notify(seq, &old).unwrap();
    held.compute.notify(seq, &new).unwrap();
    held.compute.notify_each(&old).unwrap();
    held.compute.notify_each(&new).unwrap();
    held.complete(seq);
    await_counts(&new, 2);
    assert_eq!(old.drain().unwrap(), 0);
    assert!(!held.compute.stop_notify(seq).unwrap(), "it is complete");
    assert!(held.compute.stop_notify_each().unwrap());
    assert!(!held.compute.stop_notify_each().unwrap());
}

fn f8_deregistering_stops_both_kinds(rig: &Rig) {
    let held = Held::new(rig);
    let event = event();
    let seq = held.schedule(1)[0];
    held.compute.notify(seq, &event).unwrap();
    held.compute.notify_each(&event).unwrap();
    assert!(held.compute.stop_notify(seq).unwrap());
    assert!(held.compute.stop_notify_each().unwrap());
    held.complete(seq);
    // The worker has done with it when it signals the next.
    let (next, told) = (held.schedule(1)[0], self::event());
    held.compute.notify(next, &told).unwrap();
    held.complete(next);
    await_counts(&told, 1);
    assert_eq!(event.drain().unwrap(), 0);
}

fn f8_what_was_never_issued_is_an_error_and_changes_nothing(rig: &Rig) {
    let held = Held::new(rig);
    let (event, other) = (event(), event());
    let seq = held.schedule(1)[0];
    held.compute.notify(seq, &event).unwrap();
    let next = SeqId::from_raw(seq.raw() + 1);
    let none = SeqId::from_raw(seq.raw() - 1);
    let elsewhere = held.core.tensor_op(0).unwrap();
    for (queue_refuses, status) in [
        held.compute.notify(next, &other).unwrap_err(),
        held.compute.notify(none, &other).unwrap_err(),
        elsewhere.notify(seq, &other).unwrap_err(),
        held.compute.stop_notify(next).unwrap_err(),
    ]
    .map(|error| {
        let is_typed = matches!(error, EventError::Queue(AskError::NeverIssued(_)));
        (is_typed, error.status())
    }) {
        assert!(queue_refuses);
        assert_eq!(status, Status::INVALID);
    }
    held.complete(seq);
    await_counts(&event, 1);
    assert_eq!(other.drain().unwrap(), 0);
}

fn f8_what_is_no_eventfd_is_an_error_and_the_registration_stays(rig: &Rig) {
    let held = Held::new(rig);
    let event = event();
    let seq = held.schedule(1)[0];
    held.compute.notify(seq, &event).unwrap();
    let file = std::fs::File::open("/proc/self/status").unwrap();
    let refused = held.compute.notify(seq, &file).unwrap_err();
    assert!(matches!(
        refused,
        EventError::NotAnEventFd(NotAnEventFd::SomethingElse { .. })
    ));
    assert_eq!(refused.status(), Status::INVALID);
    held.compute.notify_each(&file).unwrap_err();
    held.complete(seq);
    await_counts(&event, 1);
}

fn f8_a_queue_event_counts_completions_not_wake_ups(rig: &Rig) {
    let held = Held::new(rig);
    let event = event();
    let before = held.schedule(1)[0];
    held.complete(before);
    held.compute.notify_each(&event).unwrap();
    assert_eq!(event.drain().unwrap(), 0, "not for what came before");
    let last = *held.schedule(5).last().unwrap();
    held.release();
    await_counts(&event, 5);
    assert_eq!(held.compute.last_completed(), last);
}

fn w3_the_application_may_close_its_descriptor(rig: &Rig) {
    let held = Held::new(rig);
    let (kept, given) = (event(), event());
    let seqs = held.schedule(2);
    held.compute.notify(seqs[0], &given).unwrap();
    held.compute.notify(seqs[1], &kept).unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&given);
    drop(given);
    // The number belongs to something else now.
    let reused = event();
    assert_eq!(std::os::fd::AsRawFd::as_raw_fd(&reused), number);
    held.release();
    await_counts(&kept, 1);
    assert_eq!(reused.drain().unwrap(), 0);
    assert_eq!(held.compute.lost_notifications(), 0);
}

fn w2_a_full_event_loses_its_notification_and_nothing_else(rig: &Rig) {
    let held = Held::new(rig);
    for flags in [EfdFlags::EFD_NONBLOCK, EfdFlags::empty()] {
        let before = held.compute.lost_notifications();
        let full = EventFd::from_value_and_flags(0, flags).unwrap();
        full.write(u64::MAX - 1).unwrap();
        let (late, sound) = (event(), event());
        let seqs = held.schedule(3);
        held.compute.notify(seqs[0], &full).unwrap();
        held.compute.notify_each(&sound).unwrap();
        for seq in &seqs {
            held.complete(*seq);
        }
        await_counts(&sound, 3);
        assert_eq!(held.compute.lost_notifications(), before + 1);
        assert_eq!(held.compute.health(), Health::Healthy);
        held.compute.notify(seqs[0], &late).unwrap();
        assert_eq!(late.drain().unwrap(), 1);
        // What the calling thread cannot write is lost, too.
        held.compute.notify(seqs[0], &full).unwrap();
        assert_eq!(held.compute.lost_notifications(), before + 2);
    }
}

fn f8_one_event_serves_many_sequences_and_queues(rig: &Rig) {
    let held = Held::new(rig);
    let event = event();
    let (moves, tensor) = (
        held.core.tensor_op(0).unwrap(),
        held.core.allocate(8).unwrap(),
    );
    let seqs = held.schedule(3);
    for seq in &seqs {
        held.compute.notify(*seq, &event).unwrap();
    }
    moves.notify_each(&event).unwrap();
    for _ in 0..4 {
        drop(moves.write(&tensor, 0, vec![1; 8]).unwrap());
    }
    held.release();
    await_counts(&event, 7);
}

fn f6_a_degraded_queue_still_notifies(rig: &Rig) {
    let held = Held::new(rig);
    let (each, all) = (event(), event());
    held.compute.notify_each(&all).unwrap();
    let pending: Vec<_> = (0..3).map(|_| held.execute().unwrap()).collect();
    for pending in &pending {
        held.compute.notify(pending.seq(), &each).unwrap();
    }
    held.release();
    await_counts(&each, 3);
    await_counts(&all, 3);
    assert_eq!(held.compute.health(), Health::Degraded);
    let cause = held.compute.cause().unwrap();
    assert_eq!(cause.seq, Some(pending[0].seq()));
    let statuses: Vec<_> = pending
        .into_iter()
        .map(|pending| pending.wait().unwrap_err().status)
        .collect();
    let behind = Status::EXEC_UNIT_UNRECOVERABLE;
    assert_eq!(statuses, [cause.status, behind, behind]);
    // Registering goes on working.
    let last = held.compute.last_completed();
    assert_eq!(
        held.compute.notify(last, &each).unwrap(),
        Registered::Signalled
    );
    assert!(!held.compute.stop_notify(last).unwrap());
}

fn v14_a_closed_runtime_has_notified_everything_and_forgets_registrations(rig: &Rig) {
    let held = Held::new(rig);
    let (each, all) = (event(), event());
    let seqs = held.schedule(2);
    held.compute.notify(seqs[1], &each).unwrap();
    let subscription = held.compute.subscribe_each(&all).unwrap();
    held.release();
    let Held {
        runtime, compute, ..
    } = held;
    runtime.close();
    assert_eq!((each.drain().unwrap(), all.drain().unwrap()), (1, 2));
    assert!(!compute.stop_notify_each().unwrap());
    assert!(!subscription.end());
    let refused = compute.notify_each(&all).unwrap_err();
    assert!(matches!(
        refused,
        EventError::Queue(AskError::Closed { .. })
    ));
    assert_eq!(refused.status(), Status::CLOSED);
    assert_eq!(
        compute.notify(seqs[0], &each).unwrap(),
        Registered::Signalled
    );
}

fn f8_a_dropped_subscription_ends_and_leaves_its_successor_alone(rig: &Rig) {
    let held = Held::new(rig);
    let (first, second) = (event(), event());
    let seqs = held.schedule(2);
    drop(held.compute.subscribe(seqs[0], &first).unwrap());
    let replaced = held.compute.subscribe(seqs[1], &first).unwrap();
    let kept = held.compute.subscribe(seqs[1], &second).unwrap();
    let replaced_each = held.compute.subscribe_each(&first).unwrap();
    let kept_each = held.compute.subscribe_each(&second).unwrap();
    assert!(!replaced.end());
    drop(replaced_each);
    held.complete(seqs[0]);
    held.complete(seqs[1]);
    await_counts(&second, 3);
    assert_eq!(first.drain().unwrap(), 0);
    assert!(!kept.end(), "its count was written");
    assert!(kept_each.end());
}

/// Rounds of the races below, in which real threads choose the order.
const ROUNDS: u64 = 3_000;

/// Writes complete on a worker while `race` runs on this thread, from a random moment on.
fn against_completion(race: impl Fn(&nrta::TensorOpQueue, SeqId, &CompletionEvent)) {
    let runtime = Runtime::builder().open().unwrap();
    let core = runtime.core(0).unwrap();
    let (moves, tensor) = (core.tensor_op(0).unwrap(), core.allocate(8).unwrap());
    let event = event();
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    for _ in 0..ROUNDS {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let seq = moves.write(&tensor, 0, vec![1; 8]).unwrap().seq();
        for _ in 0..state % 2_000 {
            std::hint::spin_loop();
        }
        race(&moves, seq, &event);
        moves.wait(seq, None).unwrap();
    }
}

#[test]
fn f8_registration_against_completion_gives_exactly_one_count() {
    against_completion(|moves, seq, event| {
        moves.notify(seq, event).unwrap();
        await_counts(event, 1);
        assert_eq!(moves.is_completed(seq), Ok(true));
    });
}

#[test]
fn f8_deregistration_against_completion_is_a_barrier() {
    against_completion(|moves, seq, event| {
        moves.notify(seq, event).unwrap();
        let removed = moves.stop_notify(seq).unwrap();
        let counts = event.drain().unwrap();
        assert_eq!(counts, u64::from(!removed));
        moves.wait(seq, None).unwrap();
        assert_eq!(event.drain().unwrap(), 0, "nothing follows");
    });
}

fn f8_replacing_against_completion_counts_each_request_once(rig: &Rig) {
    let runtime = rig.builder().open().unwrap();
    let core = runtime.core(0).unwrap();
    let (moves, tensor) = (core.tensor_op(0).unwrap(), core.allocate(8).unwrap());
    let events = [event(), event()];
    moves.notify_each(&events[0]).unwrap();
    let done = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                let pending = moves.write(&tensor, 0, vec![1; 8]).unwrap();
                moves.wait(pending.seq(), None).unwrap();
            }
            done.store(1, Ordering::Release);
        });
        let mut turn = 1;
        while done.load(Ordering::Acquire) == 0 {
            moves.notify_each(&events[turn % 2]).unwrap();
            turn += 1;
        }
    });
    // Behind a registration the last count has been written.
    moves.stop_notify_each().unwrap();
    let counts: u64 = events.iter().map(|event| event.drain().unwrap()).sum();
    assert_eq!(counts, ROUNDS);
}
