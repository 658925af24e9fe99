//! What an application may rely on, as far as no other file tests it: `docs/promises.md` has the list.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

mod held;

use futures::executor::block_on;
use futures::{FutureExt, StreamExt};
use held::Held;
use lane_tests::{Parts, Rig};
use nrta::simulated::{Fault, Rule, When};
use nrta::{
    CompletionEvent, Execution, Health, Pending, Refusal, Runtime, ScheduleError, SeqId, Status,
    TensorOpQueue,
};
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread;

lane_tests::on_both! {
    each_queue_has_numbers_and_a_health_of_its_own with held::fatal(),
    queues_do_not_wait_for_each_other,
    what_was_waited_for_on_one_queue_is_there_for_another,
    requests_complete_one_at_a_time_and_in_order,
    limits_count_what_is_accepted_and_not_complete,
    f5_an_event_of_the_queue_says_when_to_try_again,
    f2_every_way_to_learn_of_a_completion_finds_success,
    f2_every_way_to_learn_of_a_completion_finds_the_final_status,
    f2_every_way_to_learn_of_a_completion_finds_what_ended_the_queue with held::all_fatal(),
    f2_who_is_let_go_finds_the_outcome,
    a_failed_request_completes_and_those_behind_it_have_their_own_status,
    f6_what_is_queued_behind_a_fatal_move_does_not_succeed with second_aborts(),
    f6_a_degraded_queue_gives_the_same_answers_for_ever with held::fatal(),
    a_closing_queue_refuses_and_finishes_what_it_has,
    requests_are_completed_by_threads_of_the_runtime,
}

fn each_queue_has_numbers_and_a_health_of_its_own(rig: &Rig) {
    let held = Held::new(rig);
    let tensor = held.core.allocate(8).unwrap();
    let moves = [0, 1].map(|queue| held.core.tensor_op(queue).unwrap());
    assert_eq!(
        held.core.tensor_op(2).unwrap_err().status(),
        Status::INVALID
    );
    let seq = held.schedule(1)[0];
    held.release();
    held.compute.wait(seq, None).unwrap();
    assert_eq!(held.compute.health(), Health::Degraded);
    // The others begin at 1, are well, and go on.
    for moves in &moves {
        let pending = moves.write(&tensor, 0, vec![1; 8]).unwrap();
        assert_eq!(pending.seq().cursor().get(), 1);
        assert_eq!(pending.seq().xu(), moves.xu());
        assert_eq!(pending.seq().is_done_at(seq), None, "they do not compare");
        pending.wait().unwrap();
        assert_eq!(moves.health(), Health::Healthy);
    }
}

fn queues_do_not_wait_for_each_other(rig: &Rig) {
    let held = Held::new(rig);
    let tensor = held.core.allocate(8).unwrap();
    let seqs = held.schedule(2);
    for queue in [0, 1] {
        let moves = held.core.tensor_op(queue).unwrap();
        moves.write(&tensor, 0, vec![1; 8]).unwrap().wait().unwrap();
    }
    assert_eq!(held.compute.is_completed(seqs[0]), Ok(false));
    held.release();
}

fn what_was_waited_for_on_one_queue_is_there_for_another(rig: &Rig) {
    let runtime = rig.builder().open().unwrap();
    let core = runtime.core(0).unwrap();
    let tensor = core.allocate(8).unwrap();
    let [writes, reads] = [0, 1].map(|queue| core.tensor_op(queue).unwrap());
    for round in 0..200u64 {
        let written = writes.write(&tensor, 0, round.to_le_bytes().to_vec());
        block_on(writes.wait_for(written.unwrap().seq())).unwrap();
        let read = reads.read(&tensor, 0, vec![0; 8]).unwrap().wait();
        assert_eq!(read.unwrap(), round.to_le_bytes());
    }
}

fn requests_complete_one_at_a_time_and_in_order(rig: &Rig) {
    let held = Held::new(rig);
    let seqs = held.schedule(4);
    for (index, seq) in seqs.iter().enumerate() {
        held.complete(*seq);
        assert_eq!(held.compute.last_completed(), *seq);
        let completed = seqs.iter().map(|seq| held.compute.is_completed(*seq));
        let expected = (0..4).map(|other| Ok(other <= index));
        assert!(completed.eq(expected));
    }
}

fn limits_count_what_is_accepted_and_not_complete(rig: &Rig) {
    for limit in [1, 8, 63] {
        let held = Held::with_limit(rig, limit);
        let seqs = held.schedule(limit as usize);
        let refused = held.execute().unwrap_err();
        assert!(
            matches!(refused.reason, ScheduleError::Unit(Refusal::QueueFull { limit: named, .. }) if named == limit),
            "the one that runs counts"
        );
        held.complete(seqs[0]);
        drop(held.execute().unwrap());
        assert!(held.execute().unwrap_err().is_queue_full());
        assert_eq!(held.core.tensor_op(0).unwrap().limit(), 65_536);
        held.release();
    }
}

fn f5_an_event_of_the_queue_says_when_to_try_again(rig: &Rig) {
    let held = Held::new(rig);
    let event = CompletionEvent::new().unwrap();
    held.compute.notify_each(&event).unwrap();
    let seqs = held.schedule(8);
    assert!(held.execute().unwrap_err().is_queue_full());
    assert!(held.device.ring_one());
    await_count(&event);
    let next = held.execute().unwrap().seq();
    assert_eq!(next.raw(), seqs[7].raw() + 1);
    held.release();
}

fn await_count(event: &CompletionEvent) {
    let mut polled = [nix::poll::PollFd::new(
        event.as_fd(),
        nix::poll::PollFlags::POLLIN,
    )];
    nix::poll::poll(&mut polled, nix::poll::PollTimeout::NONE).unwrap();
    assert_ne!(event.drain().unwrap(), 0);
}

/// A way to learn that a request is complete, which lets it complete.
type Way = fn(&Held, SeqId);

const WAYS: [(&str, Way); 6] = [
    ("is_completed", |held, seq| {
        assert!(held.device.ring_one());
        while held.compute.is_completed(seq) != Ok(true) {
            thread::yield_now();
        }
    }),
    ("last_completed", |held, seq| {
        assert!(held.device.ring_one());
        while seq.is_done_at(held.compute.last_completed()) != Some(true) {
            thread::yield_now();
        }
    }),
    ("an event of the sequence", |held, seq| {
        assert!(held.device.ring_one());
        let event = CompletionEvent::new().unwrap();
        held.compute.notify(seq, &event).unwrap();
        await_count(&event);
    }),
    ("wait", |held, seq| {
        assert!(held.device.ring_one());
        held.compute.wait(seq, None).unwrap();
    }),
    ("wait_for", |held, seq| {
        assert!(held.device.ring_one());
        block_on(held.compute.wait_for(seq)).unwrap();
    }),
    ("the stream", |held, seq| {
        let mut completions = held.compute.completions();
        assert!(held.device.ring_one());
        assert_eq!(block_on(completions.next()), Some(seq));
    }),
];

fn f2_every_way_to_learn_of_a_completion_finds_success(rig: &Rig) {
    every_way_finds_the_final_status(&|| Held::new(rig), true);
}

fn f2_every_way_to_learn_of_a_completion_finds_the_final_status(rig: &Rig) {
    let out_of_bounds = || {
        let held = Held::new(rig);
        held.spoil_the_first();
        held
    };
    every_way_finds_the_final_status(&out_of_bounds, false);
}

fn f2_every_way_to_learn_of_a_completion_finds_what_ended_the_queue(rig: &Rig) {
    every_way_finds_the_final_status(&|| Held::new(rig), false);
}

fn every_way_finds_the_final_status(hold: &dyn Fn() -> Held, succeeds: bool) {
    for (name, way) in WAYS {
        let held = hold();
        let pending = held.execute().unwrap();
        assert_eq!(pending.status(), None);
        way(&held, pending.seq());
        let status = pending.status().expect(name);
        assert_eq!(status.is_success(), succeeds, "{name}: {status}");
        // The same by the future, which also hands the outcome over.
        let outcome = pending.wait().map_err(|error| error.status);
        assert_eq!(outcome.err().unwrap_or(Status::SUCCESS), status, "{name}");
    }
}

fn f2_who_is_let_go_finds_the_outcome(rig: &Rig) {
    for (name, way) in &WAYS[2..] {
        let held = Held::new(rig);
        let pending = held.execute().unwrap();
        way(&held, pending.seq());
        assert!(pending.is_done(), "{name}");
        held.release();
    }
}

fn a_failed_request_completes_and_those_behind_it_have_their_own_status(rig: &Rig) {
    let held = Held::new(rig);
    held.spoil_the_first();
    let pending: Vec<Pending<Execution>> = (0..3).map(|_| held.execute().unwrap()).collect();
    held.release();
    let statuses: Vec<_> = pending
        .into_iter()
        .map(|pending| pending.wait().err().map(|error| error.status))
        .collect();
    assert_eq!(statuses, [Some(Status::EXEC_OOB), None, None]);
    let snapshot = held.compute.snapshot();
    assert_eq!((snapshot.completed, snapshot.failed), (3, 1));
    assert_eq!(snapshot.health, Health::Healthy);
}

/// Blocks the worker in a waker until it is opened.
#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.changed.notify_all();
    }
}

impl Wake for Gate {
    fn wake(self: Arc<Self>) {
        let mut open = self.open.lock().unwrap();
        while !*open {
            open = self.changed.wait(open).unwrap();
        }
    }
}

/// The first transfer passes, the second does not.
fn second_aborts() -> Parts {
    let when = When {
        from: 1,
        times: Some(1),
        ..When::default()
    };
    let fault = Fault::TransferAborts;
    Parts::failing(vec![Rule { when, fault }])
}

/// A queue whose worker stands still until the gate is opened, and whose first transfer from then on is fatal.
fn before_a_fatal_transfer(rig: &Rig) -> (Runtime, TensorOpQueue, nrta::Tensor, Arc<Gate>) {
    let runtime = rig.builder().open().unwrap();
    let core = runtime.core(0).unwrap();
    let (moves, tensor) = (core.tensor_op(0).unwrap(), core.allocate(8).unwrap());
    let gate = Arc::new(Gate::default());
    let waker = Waker::from(Arc::clone(&gate));
    loop {
        let first = moves.write(&tensor, 0, Vec::new()).unwrap();
        let mut wait = moves.wait_for(first.seq());
        let polled = wait.poll_unpin(&mut Context::from_waker(&waker));
        if polled.is_pending() {
            // The worker has it, or will.
            core::mem::forget(wait);
            return (runtime, moves, tensor, gate);
        }
    }
}

fn f6_what_is_queued_behind_a_fatal_move_does_not_succeed(rig: &Rig) {
    let (runtime, moves, tensor, gate) = before_a_fatal_transfer(rig);
    let event = CompletionEvent::new().unwrap();
    // One transfer passes, the next does not.
    let fine = moves.write(&tensor, 0, vec![1; 8]).unwrap();
    let fatal = moves.write(&tensor, 0, vec![2; 8]).unwrap();
    let empty = moves.write(&tensor, 0, Vec::new()).unwrap();
    let last = moves.read(&tensor, 0, vec![0; 8]).unwrap();
    moves.notify(last.seq(), &event).unwrap();
    let offender = fatal.seq();
    gate.open();
    fine.wait().unwrap();
    let cause_status = fatal.wait().unwrap_err().status;
    for status in [empty.wait(), last.wait()].map(|ended| ended.unwrap_err().status) {
        assert_eq!(status, Status::EXEC_UNIT_UNRECOVERABLE);
    }
    await_count(&event);
    assert_eq!(moves.depth(), 0, "their slots are free");
    let cause = moves.cause().unwrap();
    assert_eq!((cause.status, cause.seq), (cause_status, Some(offender)));
    runtime.close();
}

fn f6_a_degraded_queue_gives_the_same_answers_for_ever(rig: &Rig) {
    let held = Held::new(rig);
    let seqs = held.schedule(3);
    held.release();
    held.compute.wait(seqs[2], None).unwrap();
    let cause = held.compute.cause().unwrap();
    let event = CompletionEvent::new().unwrap();
    for _ in 0..3 {
        let refused = held.execute().unwrap_err();
        assert_eq!(refused.status(), Status::EXEC_UNIT_UNRECOVERABLE);
        assert!(matches!(
            refused.reason,
            ScheduleError::Unit(Refusal::Degraded { cause: named, .. }) if named == cause
        ));
        assert_eq!(held.compute.health(), Health::Degraded);
        assert_eq!(held.compute.cause().as_ref(), Some(&cause));
        assert_eq!(held.compute.depth(), 0);
        assert_eq!(held.compute.last_completed(), seqs[2]);
        assert_eq!(held.compute.last_issued(), seqs[2]);
        assert!(
            seqs.iter()
                .all(|seq| held.compute.is_completed(*seq) == Ok(true))
        );
        held.compute.wait(seqs[0], None).unwrap();
        block_on(held.compute.wait_for(seqs[1])).unwrap();
        block_on(held.compute.room());
        held.compute.wait_room();
        held.compute.notify(seqs[2], &event).unwrap();
        assert_eq!(event.drain().unwrap(), 1);
        held.compute.notify_each(&event).unwrap();
        assert!(held.compute.stop_notify_each().unwrap());
        assert!(!held.compute.stop_notify(seqs[0]).unwrap());
        let change = block_on(held.compute.watch().changed()).unwrap();
        assert_eq!(change.cause.as_ref(), Some(&cause));
        let snapshot = held.compute.snapshot();
        assert_eq!((snapshot.completed, snapshot.failed), (3, 3));
    }
}

fn a_closing_queue_refuses_and_finishes_what_it_has(rig: &Rig) {
    let held = Held::new(rig);
    let (compute, device) = (held.compute.clone(), Arc::clone(&held.device));
    let pending = held.execute().unwrap();
    let (seq, mut watch) = (pending.seq(), compute.watch());
    thread::scope(|scope| {
        let Held {
            runtime,
            core,
            compute,
            ..
        } = held;
        let tensor = core.allocate(8).unwrap();
        scope.spawn(|| runtime.close());
        let change = block_on(watch.changed()).unwrap();
        assert_eq!((change.health, change.cause), (Health::Closing, None));
        assert_eq!(compute.is_completed(seq), Ok(false));
        // The queues of a core close one after the other.
        let mut other = core.tensor_op(1).unwrap().watch();
        block_on(other.changed()).unwrap();
        let refused = core.tensor_op(1).unwrap().write(&tensor, 0, vec![1; 8]);
        assert_eq!(refused.unwrap_err().status(), Status::CLOSED);
        device.release_doorbells();
        pending.wait().unwrap();
    });
    assert_eq!(compute.is_completed(seq), Ok(true));
}

/// Takes down the thread that wakes it.
struct Where(Mutex<Option<thread::ThreadId>>, thread::Thread);

impl Wake for Where {
    fn wake(self: Arc<Self>) {
        *self.0.lock().unwrap() = Some(thread::current().id());
        self.1.unpark();
    }
}

fn requests_are_completed_by_threads_of_the_runtime(rig: &Rig) {
    let held = Held::new(rig);
    let seq = held.schedule(1)[0];
    let woken = Arc::new(Where(Mutex::new(None), thread::current()));
    let waker = Waker::from(Arc::clone(&woken));
    let mut wait = held.compute.wait_for(seq);
    assert!(
        wait.poll_unpin(&mut Context::from_waker(&waker))
            .is_pending()
    );
    held.release();
    while woken.0.lock().unwrap().is_none() {
        thread::park();
    }
    assert_ne!(*woken.0.lock().unwrap(), Some(thread::current().id()));
}

/// Where the files are that the page names.
const FILES: [(&str, &str); 3] = [
    ("nrta/", "../crates/nrta/tests"),
    ("xu-worker/", "../crates/xu-worker/tests"),
    ("", "tests"),
];

#[test]
fn the_page_names_tests_that_exist() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("../docs/promises.md")).unwrap();
    let mut named = 0;
    for name in page.split('`').skip(1).step_by(2) {
        let Some((file, test)) = name.split_once("::").filter(|(_, test)| !test.is_empty()) else {
            continue;
        };
        let (prefix, directory) = FILES
            .into_iter()
            .find(|(prefix, _)| file.starts_with(prefix))
            .unwrap();
        let file = &file[prefix.len()..];
        let path = root.join(directory).join(format!("{file}.rs"));
        let text = std::fs::read_to_string(&path).expect(name);
        assert!(text.contains(&format!("fn {test}(")), "there is no {name}");
        named += 1;
    }
    assert!(named > 80, "{named}");
}
