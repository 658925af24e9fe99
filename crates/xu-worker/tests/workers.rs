//! Worker threads: no wake-up is lost, no unit starves another, idle means asleep, and a panic ends where it began.
//!
//! Spec `xu.md` sections 4 (worker loop) and 8; failure kinds W5, W6, W7.
#![cfg(all(not(loom), not(miri)))]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

mod scripted;

use scripted::{
    Core, Facts, Gate, Outcome, PATIENCE, POLICIES, Place, Plan, Rest, Script, Scripted, Work,
    explode, until, wait, within_patience,
};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};
use xu_abi::Status;
use xu_worker::room::Ticket;
use xu_worker::{
    AskError, Completion, Health, Lost, PollPolicy, Refusal, Refused, Unit, WorkerThread,
};

/// A small generator: the tests need pauses that differ, not numbers that are random.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    /// Mostly nothing; now and then about as long as a worker looks before it sleeps.
    fn pause(&mut self) {
        if self.roll(4) == 0 {
            let pause = Duration::from_nanos(self.roll(60_000));
            let start = Instant::now();
            while start.elapsed() < pause {
                core::hint::spin_loop();
            }
        }
    }
}

/// Submits, waiting for room if need be.
fn submit(unit: &Unit<Scripted>, work: Work) -> Completion<Outcome> {
    let mut next = work;
    loop {
        match unit.submit(next) {
            Ok(accepted) => return accepted.completion,
            Err(Refused { reason, item }) => {
                assert_eq!(reason.status(), Status::QUEUE_FULL, "{reason}");
                assert!(unit.wait_room(Some(Instant::now() + PATIENCE)), "{unit:?}");
                next = item.unwrap();
            }
        }
    }
}

/// Unparks the thread that polls.
struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// As [`wait`], but as a task waits.
fn block_on(unit: &Unit<Scripted>, mut completion: Completion<Outcome>) -> Result<Outcome, Lost> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut cx = Context::from_waker(&waker);
        if let std::task::Poll::Ready(outcome) = Pin::new(&mut completion).poll(&mut cx) {
            return outcome;
        }
        assert!(
            Instant::now() < deadline,
            "lost: {completion:?} of {unit:?}"
        );
        thread::park_timeout(PATIENCE);
    }
}

fn drain(unit: &Unit<Scripted>) {
    let drained = unit.drain_until(Instant::now() + PATIENCE);
    assert_eq!(drained, Ok(()), "{unit:?}");
}

/// One exchange, in one of the ways that there are to wait.
fn exchange(unit: &Unit<Scripted>, id: u64) {
    match id % 4 {
        0 => {
            unit.post(Work::short(id)).unwrap();
            drain(unit);
        }
        1 => {
            let completion = submit(unit, Work::short(id));
            assert_eq!(block_on(unit, completion).unwrap().id, id);
        }
        _ => {
            let completion = submit(unit, Work::short(id));
            assert_eq!(wait(unit, completion).unwrap().id, id);
        }
    }
}

fn ping_pong(policy: PollPolicy) {
    let core = Core::new(1, &Plan::new(4, policy));
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    for id in 0..200_000 {
        exchange(&core.units[0], id);
        dice.pause();
    }
    assert_eq!(core.units[0].last_completed().cursor().get(), 200_000);
    drop(core.close().unwrap());
}

#[test]
fn w5_no_wake_up_is_lost_in_200_000_exchanges_by_reference() {
    ping_pong(PollPolicy::Reference);
}

#[test]
fn w5_no_wake_up_is_lost_in_200_000_exchanges_adaptive() {
    ping_pong(PollPolicy::Adaptive);
}

#[test]
fn w5_no_wake_up_is_lost_in_200_000_exchanges_busy() {
    ping_pong(PollPolicy::Busy);
}

/// One of several threads that use all units.
fn scatter(core: &Core, seed: u64) {
    let mut dice = Dice(seed);
    for id in 0..2_000 {
        let unit = &core.units[dice.roll(8) as usize];
        let looks = dice.roll(4) as u32 + 1;
        let completion = submit(unit, Work::new(id, Script::Looks(looks)));
        match dice.roll(8) {
            0 => drop(completion),
            1 => assert_eq!(block_on(unit, completion).unwrap().id, id),
            _ => assert_eq!(wait(unit, completion).unwrap().id, id),
        }
        dice.pause();
    }
}

#[test]
fn w5_many_threads_on_eight_units_lose_nothing() {
    for policy in POLICIES {
        let core = Core::new(8, &Plan::new(2, policy));
        thread::scope(|scope| {
            for seed in 1..=6 {
                let core = &core;
                scope.spawn(move || scatter(core, seed * 0x2545_F491));
            }
        });
        drop(core.close().unwrap());
        let finished = |facts: &Arc<Facts>| facts.finished.load(Ordering::SeqCst);
        assert_eq!(core.facts.iter().map(finished).sum::<usize>(), 12_000);
    }
}

#[test]
fn w5_batches_wake_a_worker_that_sleeps() {
    for policy in POLICIES {
        let core = Core::new(1, &Plan::new(8, policy));
        let mut dice = Dice(77);
        for _ in 0..2_000 {
            let count = dice.roll(8) + 1;
            core.units[0]
                .post_batch((0..count).map(Work::short))
                .unwrap();
            drain(&core.units[0]);
            dice.pause();
        }
        drop(core.close().unwrap());
    }
}

#[test]
fn w5_a_stop_reaches_every_worker() {
    for policy in POLICIES {
        let core = Core::new(32, &Plan::new(2, policy));
        // Two sleep, one spins, one has not begun.
        let _running = submit(&core.units[0], Work::held(1, &Gate::default()));
        core.run(8, Work::short(2)).unwrap();
        let start = Instant::now();
        within_patience("dropping the workers", move || drop(core));
        assert!(start.elapsed() < Duration::from_secs(1));
    }
}

/// Lets a worker go on that would otherwise never stop, also when the test fails.
struct OpenedAtLast(Gate);

impl Drop for OpenedAtLast {
    fn drop(&mut self) {
        self.0.open();
    }
}

#[test]
fn w6_a_unit_that_always_has_work_starves_nobody() {
    for policy in POLICIES {
        let core = Core::new(8, &Plan::new(2, policy));
        let enough = OpenedAtLast(Gate::default());
        let refill = (Arc::clone(&core.units[0]), enough.0.clone());
        assert!(core.facts[0].refill.set(refill).is_ok());
        // From now on unit 0 has a request more whenever one finishes.
        let _endless = submit(&core.units[0], Work::short(0));
        for id in 0..100 {
            for unit in 1..8 {
                assert_eq!(core.run(unit, Work::short(id)).unwrap().id, id);
            }
        }
        assert!(core.units[0].depth() > 0, "it ran dry");
        drop(enough);
        drop(core.close().unwrap());
    }
}

#[test]
fn w6_a_request_without_end_holds_nobody_up() {
    for policy in POLICIES {
        let core = Core::new(8, &Plan::new(2, policy));
        let gate = Gate::default();
        let endless = submit(&core.units[3], Work::held(1, &gate));
        for id in 0..100 {
            for unit in (0..8).filter(|unit| *unit != 3) {
                assert_eq!(core.run(unit, Work::short(id)).unwrap().id, id);
            }
        }
        assert!(!endless.is_done());
        gate.open();
        assert_eq!(wait(&core.units[3], endless).unwrap().id, 1);
        drop(core.close().unwrap());
    }
}

/// The time that a unit's worker has spent on a CPU.
fn cpu_time(facts: &Facts) -> Duration {
    let tid = facts.tid.load(Ordering::SeqCst);
    let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")).unwrap();
    let nanos = stat.split_whitespace().next().unwrap();
    Duration::from_nanos(nanos.parse().unwrap())
}

/// Nothing happens for so long.
fn let_pass(time: Duration) {
    let (_sender, receiver) = mpsc::channel::<()>();
    assert!(receiver.recv_timeout(time).is_err());
}

/// The part of a CPU that unit 0's worker uses while something lasts.
fn load_during(core: &Core, run: impl FnOnce()) -> f64 {
    let (before, start) = (cpu_time(&core.facts[0]), Instant::now());
    run();
    let used = cpu_time(&core.facts[0]) - before;
    used.as_secs_f64() / start.elapsed().as_secs_f64()
}

#[test]
fn w6_a_worker_that_has_had_work_is_idle_without_it() {
    for policy in POLICIES {
        let core = Core::new(8, &Plan::new(4, policy));
        for id in 0..10 {
            core.run(0, Work::new(id, Script::Looks(2))).unwrap();
        }
        let load = load_during(&core, || let_pass(Duration::from_secs(2)));
        println!("idle, {policy:?}: {:.4} % of a CPU", load * 100.0);
        assert!(load < 0.01, "{policy:?}: {load}");
        drop(core.close().unwrap());
    }
}

#[test]
fn w6_an_adaptive_worker_sleeps_through_long_requests() {
    let core = Core::new(2, &Plan::new(4, PollPolicy::Adaptive));
    let long = |id| Work::new(id, Script::Lasts(Duration::from_millis(50)));
    let load = {
        core.run(0, long(0)).unwrap();
        load_during(&core, || (1..20).for_each(|id| drop(core.run(0, long(id)))))
    };
    println!("requests of 50 ms: {:.4} % of a CPU", load * 100.0);
    assert!(load < 0.1, "{load}");
    drop(core.close().unwrap());
}

#[test]
fn w6_an_adaptive_worker_with_a_request_without_end_is_nearly_idle() {
    let core = Core::new(1, &Plan::new(4, PollPolicy::Adaptive));
    core.run(0, Work::short(0)).unwrap();
    let gate = Gate::default();
    let endless = submit(&core.units[0], Work::held(1, &gate));
    let load = load_during(&core, || let_pass(Duration::from_secs(1)));
    println!("a request without end: {:.4} % of a CPU", load * 100.0);
    assert!(load < 0.1, "{load}");
    gate.open();
    wait(&core.units[0], endless).unwrap();
    drop(core.close().unwrap());
}

/// Runs `bad` between two others on unit 0, with unit 1 on the same worker.
struct Accident {
    core: Arc<Core>,
    /// How the three requests ended.
    ended: [Result<u64, Lost>; 3],
}

impl Accident {
    fn with(policy: PollPolicy, bad: Work) -> Self {
        let core = Core::new(2, &Plan::new(4, policy));
        let (gate, unit) = (Gate::default(), &core.units[0]);
        let pending = [
            submit(unit, Work::held(1, &gate)),
            submit(unit, bad),
            submit(unit, Work::short(3)),
        ];
        gate.open();
        let ended = pending.map(|completion| {
            let outcome = wait(unit, completion);
            let id = outcome
                .as_ref()
                .map(|outcome| outcome.id)
                .map_err(|lost| *lost);
            // Its destructor may panic.
            core::mem::forget(outcome);
            id
        });
        Self { core, ended }
    }

    /// Unit 1 and the worker have not noticed anything.
    fn ends_there(self, health: Health) {
        let Self { core, .. } = self;
        assert_eq!(core.units[0].health(), health);
        if health == Health::Degraded {
            let refused = core.units[0].submit(Work::short(4)).unwrap_err();
            assert_eq!(refused.reason.status(), Status::EXEC_UNIT_UNRECOVERABLE);
        }
        assert_eq!(core.run(1, Work::short(5)).unwrap().id, 5);
        assert_eq!(core.close().unwrap().retired.len(), 2);
    }
}

#[test]
fn w7_an_engine_that_panics_takes_its_unit_along_and_nothing_else() {
    for policy in POLICIES {
        for place in [Place::Begin, Place::Progress] {
            let accident = Accident::with(policy, Work::short(2).panics_in(place));
            assert_eq!(accident.ended, [Ok(1), Ok(2), Ok(3)], "{place:?}");
            accident.ends_there(Health::Degraded);
        }
        for place in [Place::Finish, Place::ItemDestructor] {
            let accident = Accident::with(policy, Work::short(2).panics_in(place));
            let expected = [Ok(1), Err(Lost::Abandoned), Ok(3)];
            assert_eq!(accident.ended, expected, "{place:?}");
            accident.ends_there(Health::Degraded);
        }
    }
}

#[test]
fn w7_outcomes_that_panic_when_nobody_wants_them_do_no_harm() {
    for policy in POLICIES {
        let bad = || Work::short(2).panics_in(Place::OutcomeDestructor);
        let accident = Accident::with(policy, bad());
        assert_eq!(accident.ended, [Ok(1), Ok(2), Ok(3)]);
        let unit = &accident.core.units[0];
        unit.post(bad()).unwrap();
        drain(unit);
        // Dropped by the worker, since the caller has gone; and by the caller, since the worker has.
        let gate = Gate::default();
        let mut held = bad();
        held.script = Script::Held(gate.clone());
        drop(submit(unit, held));
        gate.open();
        drain(unit);
        let done = submit(unit, bad());
        until("it is done", || done.is_done());
        drop(done);
        accident.ends_there(Health::Healthy);
    }
}

/// A waker that panics.
struct Explode;

impl Wake for Explode {
    fn wake(self: Arc<Self>) {
        explode();
    }
}

#[test]
fn w7_wakers_that_panic_do_no_harm() {
    for policy in POLICIES {
        let core = Core::new(2, &Plan::new(2, policy));
        let (gate, unit) = (Gate::default(), &core.units[0]);
        let mut first = submit(unit, Work::held(1, &gate));
        let second = submit(unit, Work::short(2));
        let waker = Waker::from(Arc::new(Explode));
        let mut cx = Context::from_waker(&waker);
        let mut tickets = [Ticket::default(), Ticket::default()];
        for ticket in &mut tickets {
            assert!(unit.poll_room(ticket, &cx).is_pending());
        }
        assert!(Pin::new(&mut first).poll(&mut cx).is_pending());
        gate.open();
        assert_eq!(wait(unit, second).unwrap().id, 2);
        assert_eq!(wait(unit, first).unwrap().id, 1);
        for ticket in &mut tickets {
            unit.leave_room(ticket);
        }
        assert_eq!(unit.health(), Health::Healthy);
        assert_eq!(core.run(1, Work::short(3)).unwrap().id, 3);
        drop(core.close().unwrap());
    }
}

#[test]
fn w7_a_stage_that_panics_leaves_no_lock_behind() {
    for policy in POLICIES {
        let core = Core::new(2, &Plan::new(2, policy));
        let unit = &core.units[0];
        // Nothing has been told to the device: the request comes back.
        let work = Work::short(1).panics_in(Place::Prepare);
        let refused = unit.submit(work).unwrap_err();
        assert!(matches!(refused.reason, Refusal::Prepare { .. }) && refused.item.is_some());
        assert_eq!((unit.health(), unit.depth()), (Health::Healthy, 0));
        assert_eq!(core.run(0, Work::short(2)).unwrap().id, 2);
        let work = Work::short(3).panics_in(Place::Commit);
        let refused = unit.submit(work).unwrap_err();
        assert!(matches!(refused.reason, Refusal::Commit { .. }) && refused.item.is_none());
        assert_eq!((unit.health(), unit.depth()), (Health::Degraded, 0));
        assert_eq!(core.run(1, Work::short(4)).unwrap().id, 4);
        drop(core.close().unwrap());
    }
}

#[test]
fn w7_a_device_that_panics_while_coming_to_rest_is_closed_all_the_same() {
    for policy in POLICIES {
        let core = Core::new(9, &Plan::new(2, policy));
        *core.facts[0].rest.lock().unwrap() = Rest::Panics;
        assert_eq!(core.run(8, Work::short(1)).unwrap().id, 1);
        let closed = core.close().unwrap();
        assert_eq!((closed.retired.len(), closed.not_at_rest.len()), (9, 1));
        assert_eq!(core.quiesced(), [1; 9]);
    }
}

#[test]
fn w7_a_unit_that_degrades_wakes_those_who_wait_for_room() {
    for policy in POLICIES {
        let core = Core::new(1, &Plan::new(1, policy));
        let (gate, unit) = (Gate::default(), Arc::clone(&core.units[0]));
        let mut bad = Work::held(1, &gate).fatal(Status::HW_ERROR);
        bad.status = Status::HW_ERROR;
        let pending = submit(&unit, bad);
        let waiter = {
            let unit = Arc::clone(&unit);
            thread::spawn(move || unit.wait_room(Some(Instant::now() + PATIENCE)))
        };
        gate.open();
        assert!(waiter.join().unwrap());
        wait(&unit, pending).unwrap();
        drop(core.close().unwrap());
    }
}

#[test]
fn w7_256_units_on_32_workers_open_work_and_close() {
    for policy in POLICIES {
        let core = Core::new(256, &Plan::new(2, policy));
        for id in 0..5 {
            let pending: Vec<_> = core
                .units
                .iter()
                .map(|unit| submit(unit, Work::short(id)))
                .collect();
            for (unit, completion) in core.units.iter().zip(pending) {
                assert_eq!(wait(unit, completion).unwrap().id, id);
            }
        }
        assert_eq!(core.close().unwrap().retired.len(), 256);
        assert_eq!(core.quiesced(), [1; 256]);
    }
}

#[test]
fn w7_units_outlive_their_submitters() {
    for policy in POLICIES {
        let (unit, runner, facts) = scripted::lane(0, &Plan::new(4, policy));
        let gate = Gate::default();
        let pending = [
            submit(&unit, Work::held(1, &gate)),
            submit(&unit, Work::short(2)),
        ];
        let worker = WorkerThread::spawn("orphan", vec![Box::new(runner)]).unwrap();
        drop(unit);
        gate.open();
        for (id, completion) in (1..).zip(pending) {
            let outcome = completion.wait_timeout(PATIENCE).expect("lost");
            assert_eq!(outcome.unwrap().id, id);
        }
        assert_eq!(facts.finished.load(Ordering::SeqCst), 2);
        drop(worker);
    }
}

/// Two threads keep a unit of one slot full; a refusal says so, and nothing else.
#[test]
fn f5_a_unit_that_is_nearly_full_says_full_and_nothing_worse() {
    for policy in POLICIES {
        let core = Core::new(1, &Plan::new(1, policy));
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for id in 0..10_000 {
                        let completion = submit_at_once(&core.units[0], Work::short(id));
                        assert_eq!(wait(&core.units[0], completion).unwrap().id, id);
                    }
                });
            }
        });
        drop(core.close().unwrap());
    }
}

/// As [`submit`], but asks again instead of waiting for room.
fn submit_at_once(unit: &Unit<Scripted>, work: Work) -> Completion<Outcome> {
    let mut next = Some(work);
    let mut accepted = None;
    until("there is room", || {
        match unit.submit(next.take().unwrap()) {
            Ok(one) => accepted = Some(one.completion),
            Err(refused) => {
                assert_eq!(
                    refused.reason.status(),
                    Status::QUEUE_FULL,
                    "{}",
                    refused.reason
                );
                next = refused.item;
            }
        }
        accepted.is_some()
    });
    accepted.unwrap()
}

/// Tries everything that waits, on the worker's thread.
struct Waits {
    unit: Arc<Unit<Scripted>>,
    behind: std::sync::Mutex<Option<Completion<Outcome>>>,
    /// Fills the unit again.
    filler: std::sync::Mutex<Option<Work>>,
    told: std::sync::Mutex<mpsc::Sender<bool>>,
}

impl Wake for Waits {
    fn wake(self: Arc<Self>) {
        let behind = self.behind.lock().unwrap().take().unwrap();
        let filler = self.filler.lock().unwrap().take().unwrap();
        self.unit.post(filler).unwrap();
        let seq = self.unit.last_submitted();
        let refused = behind.wait().err() == Some(Lost::OnWorkerThread)
            && matches!(
                self.unit.wait(seq, None),
                Err(AskError::OnWorkerThread { .. })
            )
            && self.unit.drain_until(Instant::now() + PATIENCE).is_err()
            && !self.unit.wait_room(None);
        self.unit.drain();
        self.told.lock().unwrap().send(refused).unwrap();
    }
}

#[test]
fn f7_a_worker_never_waits_for_itself() {
    for policy in POLICIES {
        let core = Core::new(1, &Plan::new(2, policy));
        let (first, gate) = (Gate::default(), Gate::default());
        let mut completion = submit(&core.units[0], Work::held(1, &first));
        let behind = submit(&core.units[0], Work::held(2, &gate));
        let (told, asked) = mpsc::channel();
        let waits = Arc::new(Waits {
            unit: Arc::clone(&core.units[0]),
            behind: std::sync::Mutex::new(Some(behind)),
            filler: std::sync::Mutex::new(Some(Work::held(3, &gate))),
            told: std::sync::Mutex::new(told),
        });
        let waker = Waker::from(waits);
        let polled = Pin::new(&mut completion).poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        first.open();
        assert!(asked.recv_timeout(PATIENCE).unwrap());
        gate.open();
        core.units[0].drain();
        drop((completion, waker));
        drop(core.close().unwrap());
    }
}
