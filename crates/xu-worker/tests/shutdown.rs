//! Closing: unused, twice, from many threads, too early, too late, and with requests in flight.
//!
//! Spec `xu.md` section 4 (shutdown), failure kind F7.
#![cfg(all(not(loom), not(miri)))]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

mod scripted;

use scripted::{Core, Gate, Log, Place, Plan, Rest, Work, until, wait, within_patience};
use std::collections::BTreeSet;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, OnceLock, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};
use xu_abi::Status;
use xu_worker::{
    CloseError, CloseOptions, Health, InFlight, PollPolicy, Refusal, Runner, Step, UnitRunner,
    WorkerThread, Workers,
};

/// As [`Plan::new`] with the default policy.
fn plan(limit: u64) -> Plan {
    Plan::new(limit, PollPolicy::default())
}

/// A deadline that is over at once, and one that no test sees.
fn soon() -> CloseOptions {
    CloseOptions {
        deadline: Some(Instant::now() + Duration::from_millis(20)),
        ..CloseOptions::default()
    }
}

fn submit(core: &Core, unit: usize, work: Work) -> xu_worker::Completion<scripted::Outcome> {
    core.units[unit].submit(work).unwrap().completion
}

#[test]
fn f7_an_unused_runtime_closes_by_event() {
    let empty = Workers::new(Vec::new());
    assert!(empty.close(&[], &CloseOptions::default()).is_ok());
    for policy in scripted::POLICIES {
        let core = Core::new(16, &Plan::new(4, policy));
        let start = Instant::now();
        let closed = core.close().unwrap();
        let took = start.elapsed();
        println!("idle close of 16 units, 2 workers, {policy:?}: {took:?}");
        assert!(took < Duration::from_secs(1), "{took:?}");
        assert_eq!(closed.retired.len(), 16);
        assert!(closed.not_at_rest.is_empty());
        assert_eq!(core.quiesced(), [1; 16]);
    }
}

#[test]
fn f7_closing_twice_is_closing_once() {
    let core = Core::new(2, &plan(4));
    assert_eq!(core.run(0, Work::short(1)).unwrap().id, 1);
    assert_eq!(core.close().unwrap().retired.len(), 2);
    let again = core.close().unwrap();
    assert!(again.retired.is_empty() && again.not_at_rest.is_empty());
    assert_eq!(core.quiesced(), [1, 1]);
}

/// `closers` threads close while a request is in flight; all of them return after the same end.
fn close_from(closers: usize) {
    let core = Core::new(2, &plan(4));
    let gate = Gate::default();
    core.run(1, Work::short(1)).unwrap();
    let held = submit(&core, 0, Work::held(2, &gate));
    let (sender, receiver) = mpsc::channel();
    let started = Arc::new(Barrier::new(closers + 1));
    for _ in 0..closers {
        let (core, sender, started) = (Arc::clone(&core), sender.clone(), Arc::clone(&started));
        thread::spawn(move || {
            started.wait();
            let closed = core.close_with(&CloseOptions::default()).unwrap();
            let ended = core.facts[0].ended.load(Ordering::SeqCst);
            sender.send((closed.retired.len(), ended)).unwrap();
        });
    }
    started.wait();
    let is_closing = || core.units[1].health() == Health::Closing;
    until("the units are closing", is_closing);
    assert!(
        receiver.try_recv().is_err(),
        "closed with a request in flight"
    );
    gate.open();
    let returned: Vec<_> = (0..closers)
        .map(|_| {
            receiver
                .recv_timeout(scripted::PATIENCE)
                .expect("a close hangs")
        })
        .collect();
    assert!(
        returned.iter().all(|(_, ended)| *ended),
        "the worker still ran"
    );
    let retired: Vec<_> = returned.iter().map(|(retired, _)| *retired).collect();
    assert_eq!(retired.iter().sum::<usize>(), 2, "{retired:?}");
    assert!(held.is_done());
    assert_eq!(core.quiesced(), [1, 1]);
}

#[test]
fn f7_two_threads_close_at_once() {
    (0..20).for_each(|_| close_from(2));
}

#[test]
fn f7_eight_threads_close_at_once() {
    (0..20).for_each(|_| close_from(8));
}

/// Closes the core that it is given, and says how that went.
struct CloseWhenWoken {
    core: Arc<Core>,
    result: mpsc::Sender<Result<usize, CloseError>>,
}

impl Wake for CloseWhenWoken {
    fn wake(self: Arc<Self>) {
        let closed = self.core.close_with(&CloseOptions::default());
        self.result
            .send(closed.map(|closed| closed.retired.len()))
            .unwrap();
    }
}

/// Has a worker of the core close it when the gate opens; waits for how that went.
fn close_from_worker(core: &Arc<Core>, gate: &Gate) -> impl FnOnce() -> Result<usize, CloseError> {
    let (sender, receiver) = mpsc::channel();
    let closer = Arc::new(CloseWhenWoken {
        core: Arc::clone(core),
        result: sender,
    });
    let mut held = submit(core, 0, Work::held(1, gate));
    let waker = Waker::from(closer);
    let poll = Pin::new(&mut held).poll(&mut Context::from_waker(&waker));
    assert!(poll.is_pending());
    move || {
        let _held = held;
        receiver
            .recv_timeout(scripted::PATIENCE)
            .expect("the worker hangs")
    }
}

#[test]
fn f7_a_worker_does_not_close_itself() {
    let core = Core::new(2, &plan(4));
    let gate = Gate::default();
    let from_worker = close_from_worker(&core, &gate);
    gate.open();
    assert_eq!(from_worker(), Err(CloseError::OnWorkerThread));
    // Nothing has changed: the worker goes on, and another thread closes.
    assert_eq!(core.run(1, Work::short(2)).unwrap().id, 2);
    assert_eq!(core.close().unwrap().retired.len(), 2);
}

#[test]
fn f7_a_worker_does_not_close_itself_while_another_thread_does() {
    let core = Core::new(1, &plan(4));
    let gate = Gate::default();
    let from_worker = close_from_worker(&core, &gate);
    let elsewhere = {
        let core = Arc::clone(&core);
        thread::spawn(move || core.close().unwrap().retired.len())
    };
    until("it closes", || core.units[0].health() == Health::Closing);
    gate.open();
    assert_eq!(from_worker(), Err(CloseError::OnWorkerThread));
    assert_eq!(elsewhere.join().unwrap(), 1);
}

/// A worker half that panics wherever its flaw is, once the gate is open.
#[derive(Debug)]
struct Deadly {
    inner: UnitRunner<scripted::Scripted>,
    gate: Gate,
    flaw: Flaw,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    /// Takes the unit down.
    Step,
    /// Takes the worker down.
    HasWork,
}

impl Deadly {
    fn panic_in(&self, place: Flaw) {
        assert!(self.flaw != place || !self.gate.is_open(), "{place:?}");
    }
}

impl Runner for Deadly {
    fn step(&mut self) -> Step {
        self.panic_in(Flaw::Step);
        self.inner.step()
    }
    fn give_up(&mut self, cause: xu_worker::Cause) {
        self.inner.give_up(cause);
    }
    fn has_work(&mut self) -> bool {
        self.panic_in(Flaw::HasWork);
        self.inner.has_work()
    }
    fn announce_sleep(&self) {
        self.inner.announce_sleep();
    }
    fn stay_awake(&self) {
        self.inner.stay_awake();
    }
    fn bell(&self) -> &xu_worker::eventfd::WorkCount {
        self.inner.bell()
    }
    fn answer_bell(&mut self) {
        self.inner.answer_bell();
    }
    fn is_here(&self) -> bool {
        true
    }

    fn policy(&self) -> PollPolicy {
        self.inner.policy()
    }
}

/// Nine units on two workers; the first worker dies when the gate opens and it next goes to sleep.
fn mortal_core(gate: &Gate) -> Arc<Core> {
    Core::with_runners(9, &plan(4), |raw, inner| match raw {
        0 => Box::new(Deadly {
            inner,
            gate: gate.clone(),
            flaw: Flaw::HasWork,
        }),
        _ => Box::new(inner),
    })
}

#[test]
fn w7_f7_closing_with_a_dead_worker_waits_for_the_other() {
    let (deadly, gate) = (Gate::default(), Gate::default());
    let core = mortal_core(&deadly);
    core.run(8, Work::short(0)).unwrap();
    let stranded: Vec<_> = (1..8)
        .map(|unit| submit(&core, unit, Work::held(1, &Gate::default())))
        .collect();
    let held = submit(&core, 8, Work::held(2, &gate));
    deadly.open();
    // The worker dies once unit 0 is idle and the others have something in flight.
    for (unit, completion) in (1..).zip(stranded) {
        assert_eq!(wait(&core.units[unit], completion).unwrap().id, 1);
        assert_eq!(core.units[unit].health(), Health::Degraded);
    }
    let refused = core.units[3].submit(Work::short(3)).unwrap_err();
    assert_eq!(refused.reason.status(), Status::EXEC_UNIT_UNRECOVERABLE);
    let closing = {
        let core = Arc::clone(&core);
        thread::spawn(move || (core.close(), core.facts[8].ended.load(Ordering::SeqCst)))
    };
    until("it closes", || core.units[8].health() == Health::Closing);
    assert!(!held.is_done());
    gate.open();
    let (closed, ended) = closing.join().unwrap();
    assert!(ended, "close returned before the busy worker had ended");
    assert_eq!(closed.unwrap().retired.len(), 9);
    assert!(held.is_done());
}

#[test]
fn f7_a_unit_whose_worker_died_is_not_at_rest() {
    let deadly = Gate::default();
    let core = mortal_core(&deadly);
    deadly.open();
    core.run(0, Work::short(1)).unwrap();
    let degraded = || core.units[7].health() == Health::Degraded;
    until("the worker dies", degraded);
    let closed = core.close().unwrap();
    let not_at_rest: BTreeSet<_> = closed.not_at_rest.iter().map(|(xu, _)| xu.raw()).collect();
    assert_eq!(
        not_at_rest,
        (0..8).collect(),
        "their devices were never asked to come to rest"
    );
}

#[test]
fn f7_a_unit_that_panics_in_every_step_is_closed() {
    let deadly = Gate::default();
    let core = Core::with_runners(2, &plan(4), |raw, inner| match raw {
        0 => Box::new(Deadly {
            inner,
            gate: deadly.clone(),
            flaw: Flaw::Step,
        }),
        _ => Box::new(inner),
    });
    core.run(0, Work::short(1)).unwrap();
    deadly.open();
    let closed = core.close().unwrap();
    assert_eq!(closed.retired.len(), 2);
    let not_at_rest: Vec<_> = closed.not_at_rest.iter().map(|(xu, _)| xu.raw()).collect();
    assert_eq!(not_at_rest, [0]);
    assert_eq!(core.quiesced(), [0, 1]);
    // It is over, also for who comes later.
    assert!(core.close().unwrap().retired.is_empty());
}

#[test]
fn f7_no_stop_before_every_unit_is_drained_and_none_is_measured() {
    let log = Log::default();
    let core = Core::new(
        3,
        &Plan {
            log: Some(Arc::clone(&log)),
            ..plan(4)
        },
    );
    let gate = Gate::default();
    let held = [
        submit(&core, 1, Work::held(1, &gate)),
        submit(&core, 1, Work::short(2)),
    ];
    let closing = {
        let core = Arc::clone(&core);
        thread::spawn(move || core.close())
    };
    until("it closes", || core.units[2].health() == Health::Closing);
    gate.open();
    drop(closing.join().unwrap().unwrap());
    assert!(held.iter().all(xu_worker::Completion::is_done));
    let log = log.lock().unwrap().clone();
    let (requests, stops) = log.split_at(4);
    assert_eq!(
        requests
            .iter()
            .map(|(xu, what)| (xu.raw(), *what))
            .collect::<Vec<_>>(),
        [(1, "begin"), (1, "finish"), (1, "begin"), (1, "finish")]
    );
    let stops: BTreeSet<_> = stops.iter().map(|(xu, what)| (xu.raw(), *what)).collect();
    assert_eq!(
        stops,
        BTreeSet::from([(0, "quiesce"), (1, "quiesce"), (2, "quiesce")])
    );
    assert_eq!(
        log.len(),
        7,
        "one stop each, which neither begins nor finishes: {log:?}"
    );
}

#[test]
fn f7_a_late_close_reports_and_everything_goes_on() {
    let core = Core::new(3, &plan(4));
    let gate = Gate::default();
    core.run(1, Work::short(0)).unwrap();
    let pending = [
        submit(&core, 1, Work::held(1, &gate)),
        submit(&core, 1, Work::short(2)),
    ];
    let Err(CloseError::Overdue(report)) = core.close_with(&soon()) else {
        panic!("closed with a request in flight");
    };
    let [late] = report.in_flight[..] else {
        panic!("{report}");
    };
    assert_eq!((late.xu, late.depth), (core.units[1].xu(), 2));
    assert_eq!(late.oldest.cursor().get(), 2);
    let text = report.to_string();
    assert!(
        text.contains(&late.xu.to_string()) && text.contains("2 in flight"),
        "{text}"
    );
    assert_eq!(core.quiesced(), [0, 0, 0]);
    for unit in &core.units {
        let refused = unit.submit(Work::short(9)).unwrap_err();
        assert_eq!(refused.reason.status(), Status::CLOSED);
    }
    gate.open();
    for (id, completion) in (1..).zip(pending) {
        assert_eq!(wait(&core.units[1], completion).unwrap().id, id);
    }
    assert_eq!(core.close().unwrap().retired.len(), 3);
    assert_eq!(core.quiesced(), [1, 1, 1]);
}

#[test]
fn f7_who_waits_for_another_closer_has_a_deadline_too() {
    let core = Core::new(1, &plan(4));
    let gate = Gate::default();
    let held = submit(&core, 0, Work::held(1, &gate));
    let first = {
        let core = Arc::clone(&core);
        thread::spawn(move || core.close())
    };
    until("it closes", || core.units[0].health() == Health::Closing);
    let Err(CloseError::Overdue(report)) = core.close_with(&soon()) else {
        panic!("closed with a request in flight");
    };
    assert_eq!(report.in_flight[0].depth, 1);
    gate.open();
    assert_eq!(first.join().unwrap().unwrap().retired.len(), 1);
    assert!(held.is_done());
}

#[test]
fn f7_a_device_that_comes_to_rest_late_is_reported_and_closed_later() {
    let core = Core::new(2, &plan(1));
    let gate = Gate::default();
    *core.facts[1].rest.lock().unwrap() = Rest::Held(gate.clone());
    let Err(CloseError::Overdue(report)) = core.close_with(&soon()) else {
        panic!("closed before the device came to rest");
    };
    assert!(
        report
            .in_flight
            .iter()
            .any(|late| late.xu == core.units[1].xu()),
        "{report}"
    );
    gate.open();
    let closed = core.close().unwrap();
    assert_eq!(closed.retired.len(), 2);
    assert!(closed.not_at_rest.is_empty());
}

#[test]
fn f7_devices_that_do_not_come_to_rest_are_named() {
    let core = Core::new(3, &plan(4));
    *core.facts[1].rest.lock().unwrap() = Rest::Fails(Status::TIMEOUT);
    *core.facts[2].rest.lock().unwrap() = Rest::Panics;
    let closed = core.close().unwrap();
    let expected = [
        (core.units[1].xu(), Status::TIMEOUT),
        (core.units[2].xu(), Status::FAILURE),
    ];
    assert_eq!(closed.not_at_rest, expected);
    assert_eq!(core.quiesced(), [1, 1, 1]);
}

/// What [`tell`] was told. A warning is a plain function, so this is the one test that uses these.
static TOLD: Mutex<Vec<Vec<InFlight>>> = Mutex::new(Vec::new());
static ENOUGH: OnceLock<Gate> = OnceLock::new();

fn tell(waiting_for: &[InFlight]) {
    let mut told = TOLD.lock().unwrap();
    told.push(waiting_for.to_vec());
    if told.len() == 3 {
        ENOUGH.get().unwrap().open();
    }
}

#[test]
fn f7_closing_warns_of_what_it_waits_for() {
    let gate = ENOUGH.get_or_init(Gate::default).clone();
    let core = Core::new(3, &plan(4));
    core.run(2, Work::short(0)).unwrap();
    let held: Vec<_> = [0, 2, 2]
        .map(|unit| submit(&core, unit, Work::held(1, &gate)))
        .into();
    let options = CloseOptions {
        warn_every: Duration::from_millis(5),
        warn: tell,
        ..CloseOptions::default()
    };
    let closing = Arc::clone(&core);
    drop(within_patience("close", move || closing.close_with(&options)).unwrap());
    assert!(held.iter().all(xu_worker::Completion::is_done));
    let told = TOLD.lock().unwrap();
    let first: Vec<_> = told[0]
        .iter()
        .map(|late| (late.xu.raw(), late.depth, late.oldest.cursor().get()))
        .collect();
    assert_eq!(first, [(0, 1, 1), (2, 2, 2)]);
}

#[test]
fn f7_a_warning_that_panics_leaves_a_runtime_that_can_be_closed() {
    let core = Core::new(1, &plan(4));
    let gate = Gate::default();
    let held = submit(&core, 0, Work::held(1, &gate));
    let options = CloseOptions {
        warn_every: Duration::from_millis(1),
        warn: |_| panic!("the log is broken"),
        ..CloseOptions::default()
    };
    let closing = Arc::clone(&core);
    let close = move || {
        let close = AssertUnwindSafe(|| closing.close_with(&options).map(drop));
        catch_unwind(close).is_err()
    };
    assert!(within_patience("close", close), "it did not warn");
    gate.open();
    assert_eq!(core.close().unwrap().retired.len(), 1);
    assert!(held.is_done());
}

#[test]
fn f7_a_closing_unit_is_full_first_and_closed_then() {
    let core = Core::new(1, &plan(1));
    let unit = &core.units[0];
    let gate = Gate::default();
    let held = submit(&core, 0, Work::held(1, &gate));
    let closing = {
        let core = Arc::clone(&core);
        thread::spawn(move || core.close())
    };
    until("it closes", || unit.health() == Health::Closing);
    let full = unit.submit(Work::short(2)).unwrap_err();
    assert!(matches!(full.reason, Refusal::QueueFull { .. }));
    gate.open();
    drop(closing.join().unwrap().unwrap());
    let closed = unit.submit(full.item.unwrap()).unwrap_err();
    assert_eq!(closed.reason.status(), Status::CLOSED);
    assert!(matches!(
        unit.post(Work::short(3)).unwrap_err().reason,
        Refusal::Closing { .. }
    ));
    assert_eq!(core.facts[0].staged.load(Ordering::SeqCst), 1);
    assert!(held.is_done());
}

/// Submits until the unit refuses for good. Returns how many were accepted, all of them complete.
fn submit_until_closed(core: &Core, index: usize) -> usize {
    let unit = &core.units[index];
    let mut accepted = 0;
    loop {
        match unit.submit(Work::new(accepted as u64, scripted::Script::Looks(3))) {
            Ok(one) => {
                assert_eq!(wait(unit, one.completion).unwrap().id, accepted as u64);
                accepted += 1;
            }
            Err(refused) if refused.reason.status() == Status::QUEUE_FULL => {
                assert!(
                    unit.wait_room(Some(Instant::now() + scripted::PATIENCE)),
                    "{unit:?}"
                );
            }
            Err(refused) => {
                assert_eq!(refused.reason.status(), Status::CLOSED);
                assert!(refused.item.is_some());
                return accepted;
            }
        }
    }
}

fn race_with_close(policy: PollPolicy) {
    let core = Core::new(2, &Plan::new(2, policy));
    let accepted = [AtomicUsize::new(0), AtomicUsize::new(0)];
    thread::scope(|scope| {
        for submitter in 0..4 {
            let (core, accepted) = (&core, &accepted);
            scope.spawn(move || {
                let count = submit_until_closed(core, submitter % 2);
                accepted[submitter % 2].fetch_add(count, Ordering::SeqCst);
            });
        }
        let busy = || core.units[0].last_completed().cursor().get() > 20;
        until("the submitters submit", busy);
        drop(core.close().unwrap());
    });
    for (facts, accepted) in core.facts.iter().zip(&accepted) {
        let accepted = accepted.load(Ordering::SeqCst);
        assert_eq!(
            facts.staged.load(Ordering::SeqCst),
            accepted,
            "a refused one left a trace"
        );
        assert_eq!(facts.begun.load(Ordering::SeqCst), accepted);
        assert_eq!(facts.finished.load(Ordering::SeqCst), accepted);
    }
    assert_eq!(core.quiesced(), [1, 1]);
}

#[test]
fn f7_each_request_that_races_with_close_completes_or_leaves_no_trace() {
    for policy in scripted::POLICIES {
        (0..20).for_each(|_| race_with_close(policy));
    }
}

#[test]
fn f7_a_submit_that_races_with_the_end_of_its_worker_completes() {
    let (unit, runner, facts) = scripted::lane(0, &plan(4));
    let unit = Arc::new(unit);
    let worker = WorkerThread::spawn("short-lived", vec![Box::new(runner)]).unwrap();
    let watched = Arc::clone(&unit);
    // Past the gates, before the ring: the worker is stopped and its half dropped.
    *facts.at_commit.lock().unwrap() = Some(Box::new(move || {
        thread::spawn(move || drop(worker.stop()));
        until("the worker half is dropped", || {
            watched.health() == Health::Degraded
        });
        // What follows in that destructor takes a moment.
        (0..1_000).for_each(|_| thread::yield_now());
    }));
    if let Ok(accepted) = unit.submit(Work::short(1)) {
        // Accepted means that somebody is told.
        let _ = wait(&unit, accepted.completion);
    }
    assert_eq!(unit.depth(), 0);
}

#[test]
fn f7_a_batch_that_panics_half_way_strands_nothing() {
    for policy in scripted::POLICIES {
        let core = Core::new(1, &Plan::new(8, policy));
        let items = (0..4).map(|id| match id {
            2 => panic!("an iterator is foreign code"),
            id => Work::short(id),
        });
        let post = AssertUnwindSafe(|| core.units[0].post_batch(items).is_ok());
        assert!(catch_unwind(post).is_err());
        // Two were accepted, and the device knows them: they complete, and so do those that follow.
        assert_eq!(core.run(0, Work::short(5)).unwrap().id, 5);
        core.units[0].drain();
        assert_eq!(core.facts[0].staged.load(Ordering::SeqCst), 3);
        assert_eq!(core.close().unwrap().retired.len(), 1);
        assert_eq!(core.facts[0].finished.load(Ordering::SeqCst), 3);
    }
}

#[test]
fn f7_a_batch_whose_last_request_panics_does_not_hold_up_closing() {
    for policy in scripted::POLICIES {
        let core = Core::new(1, &Plan::new(8, policy));
        let items = [
            Work::short(0),
            Work::short(1),
            Work::short(2).panics_in(Place::Prepare),
        ];
        let refused = core.units[0].post_batch(items).unwrap_err();
        assert!(matches!(refused.reason, Refusal::Prepare { .. }));
        assert_eq!(core.close().unwrap().retired.len(), 1);
        assert_eq!(core.facts[0].finished.load(Ordering::SeqCst), 2);
    }
}
