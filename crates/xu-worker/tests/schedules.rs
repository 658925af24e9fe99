//! Random schedules of submissions, completions, waits, registrations and closing on one unit, stepped by hand, compared
//! with a model that is too simple to be wrong.
//!
//! Spec `xu.md` section 4 (submit funnel, step, application eventfds); failure kinds F2, F5, F8, R5, W1. `XU_SCHEDULES` is the number of cases.
#![cfg(all(not(loom), not(miri)))]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

#[path = "schedules/model.rs"]
mod model;
mod steered;

use model::{EVENTS, Model, Reason, Told, WAKERS};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::future::Future;
use std::os::fd::{AsFd, AsRawFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;
use steered::{Bench, Controls, CountingWaker, Ledger, Shared, Steered, cause, counting, fatal};
use xu_abi::{Cursor, SeqId, Status};
use xu_worker::eventfd::CompletionEvent;
use xu_worker::events::Registered;
use xu_worker::room::Ticket;
use xu_worker::{
    Accepted, Completion, Lost, PollPolicy, Progress, Refusal, Refused, Runner, StageError, Step,
    Unit, UnitRunner,
};

/// How the stage treats a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Staging {
    Works,
    PrepareFails,
    CommitFails,
}

/// What one look finds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Look {
    Running,
    Done(Status),
    Fatal(Status),
    Panics,
    /// Done, and then the engine panics instead of saying how it went.
    FinishPanics(Status),
}

#[derive(Clone, Debug)]
enum Op {
    Submit(Staging),
    Post(Staging),
    /// The stage treats the last one as it says.
    PostBatch(u8, Staging),
    Step(Look),
    Poll {
        completion: usize,
        waker: usize,
    },
    Take(usize),
    DropCompletion(usize),
    PollRoom {
        ticket: usize,
        waker: usize,
    },
    WaitRoom,
    LeaveRoom(usize),
    /// For the request that is so many after the last completed one, or before.
    Register {
        after: i64,
        event: usize,
    },
    RegisterUnit(usize),
    Deregister {
        after: i64,
    },
    DeregisterUnit,
    AnnounceSleep,
    AnswerBell,
    Close,
    Stop,
    DrainNow,
    GiveUp,
    DropRunner,
}

const ERRORS: [Status; 4] = [
    Status::TIMEOUT,
    Status::HW_ERROR,
    Status::EXEC_OOB,
    Status::EXEC_HW_ERR_DMA_ABORT,
];

fn staging() -> impl Strategy<Value = Staging> {
    prop_oneof![
        40 => Just(Staging::Works),
        3 => Just(Staging::PrepareFails),
        1 => Just(Staging::CommitFails),
    ]
}

fn look() -> impl Strategy<Value = Look> {
    let error = || (0..ERRORS.len()).prop_map(|index| ERRORS[index]);
    prop_oneof![
        8 => Just(Look::Running),
        20 => Just(Look::Done(Status::SUCCESS)),
        6 => error().prop_map(Look::Done),
        1 => error().prop_map(Look::Fatal),
        1 => Just(Look::Panics),
        1 => error().prop_map(Look::FinishPanics),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let index = || 0..8_usize;
    let waker = || 0..WAKERS;
    prop_oneof![
        20 => staging().prop_map(Op::Submit),
        8 => staging().prop_map(Op::Post),
        5 => (0..5_u8, staging()).prop_map(|(len, last)| Op::PostBatch(len, last)),
        30 => look().prop_map(Op::Step),
        8 => (index(), waker()).prop_map(|(completion, waker)| Op::Poll { completion, waker }),
        8 => index().prop_map(Op::Take),
        4 => index().prop_map(Op::DropCompletion),
        6 => (0..2_usize, waker()).prop_map(|(ticket, waker)| Op::PollRoom { ticket, waker }),
        3 => Just(Op::WaitRoom),
        2 => (0..2_usize).prop_map(Op::LeaveRoom),
        6 => (-3..6_i64, 0..EVENTS).prop_map(|(after, event)| Op::Register { after, event }),
        2 => (0..EVENTS).prop_map(Op::RegisterUnit),
        3 => (-3..6_i64).prop_map(|after| Op::Deregister { after }),
        1 => Just(Op::DeregisterUnit),
        3 => Just(Op::AnnounceSleep),
        3 => Just(Op::AnswerBell),
        1 => Just(Op::Close),
        2 => Just(Op::Stop),
        4 => Just(Op::DrainNow),
        1 => Just(Op::GiveUp),
        1 => Just(Op::DropRunner),
    ]
}

fn policy() -> impl Strategy<Value = PollPolicy> {
    prop_oneof![
        Just(PollPolicy::Reference),
        Just(PollPolicy::Adaptive),
        Just(PollPolicy::Busy),
    ]
}

/// The unit, the model, and the ends that the schedule holds.
struct Run {
    unit: Unit<Steered>,
    runner: Option<UnitRunner<Steered>>,
    controls: Shared,
    ledger: Ledger,
    model: Model,
    next_id: u32,
    completions: BTreeMap<u32, Completion<u32>>,
    stops: BTreeMap<u32, Completion<()>>,
    tickets: [Ticket; 2],
    wakers: Vec<(Arc<CountingWaker>, Waker)>,
    events: Vec<CompletionEvent>,
    /// Counts that were read from each.
    read: [u64; EVENTS],
}

impl Run {
    fn new(limit: u64, policy: PollPolicy) -> Self {
        let bench = Bench::with_policy(limit, policy);
        Self {
            unit: bench.unit,
            runner: Some(bench.runner),
            controls: bench.controls,
            ledger: bench.ledger,
            model: Model::new(limit, policy.pairs_wakes()),
            next_id: 0,
            completions: BTreeMap::new(),
            stops: BTreeMap::new(),
            tickets: Default::default(),
            wakers: (0..WAKERS).map(|_| counting()).collect(),
            events: (0..EVENTS)
                .map(|_| CompletionEvent::new().unwrap())
                .collect(),
            read: [0; EVENTS],
        }
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Submit(staging) => self.submit(staging),
            Op::Post(staging) => self.post(staging),
            Op::PostBatch(len, last) => self.post_batch(len, last),
            Op::Step(look) => self.step(look),
            Op::Poll { completion, waker } => self.poll(completion, waker),
            Op::Take(index) => self.take(index),
            Op::DropCompletion(index) => self.drop_completion(index),
            Op::PollRoom { ticket, waker } => self.poll_room(ticket, waker),
            Op::WaitRoom => {
                let now = Some(Instant::now());
                assert_eq!(self.unit.wait_room(now), self.model.has_room());
            }
            Op::LeaveRoom(ticket) => {
                self.unit.leave_room(&mut self.tickets[ticket]);
                self.model.leave_room(ticket);
            }
            Op::Register { after, event } => self.register(after, event),
            Op::RegisterUnit(event) => {
                let event_of_app = self.events[event].app_event().unwrap();
                self.unit.register_unit_event(event_of_app).unwrap();
                self.model.register_unit(event);
            }
            Op::Deregister { after } => {
                let number = self.number(after);
                let removed = self.unit.deregister_event(self.seq(number)).ok();
                assert_eq!(removed, self.model.deregister(number));
            }
            Op::DeregisterUnit => {
                let removed = self.unit.deregister_unit_event().unwrap();
                assert_eq!(removed, self.model.deregister_unit());
            }
            Op::AnnounceSleep => self.announce_sleep(),
            Op::AnswerBell => self.answer_bell(),
            Op::Close => {
                self.unit.close();
                self.model.close();
            }
            Op::Stop => self.stop(),
            Op::DrainNow => {
                let drained = self.unit.drain_until(Instant::now());
                assert_eq!(drained, self.model.drain_now());
            }
            Op::GiveUp => self.give_up(),
            Op::DropRunner => {
                if self.runner.take().is_some() {
                    self.model.drop_runner();
                }
            }
        }
        self.compare();
        self.compare_events();
    }

    fn number(&self, after: i64) -> u64 {
        self.model.completed().saturating_add_signed(after)
    }

    fn seq(&self, number: u64) -> SeqId {
        SeqId::new(self.unit.xu(), Cursor::new(number).unwrap())
    }

    fn register(&mut self, after: i64, event: usize) {
        let number = self.number(after);
        let event_of_app = self.events[event].app_event().unwrap();
        let registered = self.unit.register_event(self.seq(number), event_of_app);
        let signalled = registered
            .ok()
            .map(|registered| registered == Registered::Signalled);
        assert_eq!(signalled, self.model.register(number, event));
    }

    fn compare_events(&mut self) {
        for (read, event) in self.read.iter_mut().zip(&self.events) {
            *read += event.drain().unwrap();
        }
        assert_eq!(self.read, self.model.told);
        assert_eq!(self.unit.lost_notifications(), 0);
    }

    fn controls(&self, set: impl FnOnce(&mut Controls)) {
        set(&mut self.controls.lock().unwrap());
    }

    fn fresh_id(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id
    }

    /// Makes the stage fail at its next request.
    fn set_stage(&self, staging: Staging) {
        let error = |status| {
            Some(StageError {
                status,
                text: "on purpose".into(),
            })
        };
        self.controls(|controls| {
            controls.prepare = (staging == Staging::PrepareFails)
                .then_some(error(Status::RESOURCE))
                .flatten();
            controls.commit = (staging == Staging::CommitFails)
                .then_some(error(Status::HW_ERROR))
                .flatten();
        });
    }

    fn submit(&mut self, staging: Staging) {
        let id = self.fresh_id();
        self.set_stage(staging);
        let submitted = self.unit.submit(self.ledger.request(id));
        self.set_stage(Staging::Works);
        let expected = self.model.submit(id, staging, true);
        match submitted {
            Ok(Accepted { seq, completion }) => {
                assert_eq!(Ok(seq.cursor().get()), expected);
                self.completions.insert(id, completion);
            }
            Err(refused) => assert_refused(id, staging, refused, expected),
        }
    }

    fn post(&mut self, staging: Staging) {
        let id = self.fresh_id();
        self.set_stage(staging);
        let posted = self.unit.post(self.ledger.request(id));
        self.set_stage(Staging::Works);
        let expected = self.model.submit(id, staging, false);
        match posted {
            Ok(seq) => assert_eq!(Ok(seq.cursor().get()), expected),
            Err(refused) => assert_refused(id, staging, refused, expected),
        }
    }

    fn post_batch(&mut self, len: u8, last: Staging) {
        let ids: Vec<u32> = (0..len).map(|_| self.fresh_id()).collect();
        let posted = self.try_post_batch(&ids, last);
        self.set_stage(Staging::Works);
        let number = |seq: Option<SeqId>| seq.map(|seq| seq.cursor().get());
        let (accepted, refusal) = self.model.post_batch(&ids, last);
        match posted {
            Ok(seq) => assert_eq!((number(seq), None), (accepted, refusal)),
            Err((seq, reason, is_kept, rest)) => {
                assert_eq!(number(seq), accepted);
                let (index, expected) = refusal.expect("the model took all of them");
                assert_eq!((reason, rest), (expected, ids.len() - index - 1));
                assert_eq!(is_kept, matches!(reason, Reason::Commit(_)));
            }
        }
    }

    /// The last that was accepted; of a refusal also why, whether the unit keeps that request, and how many follow.
    fn try_post_batch(
        &self,
        ids: &[u32],
        last: Staging,
    ) -> Result<Option<SeqId>, (Option<SeqId>, Reason, bool, usize)> {
        let items = ids.iter().map(|id| {
            if ids.last() == Some(id) {
                self.set_stage(last);
            }
            self.ledger.request(*id)
        });
        self.unit.post_batch(items).map_err(|refused| {
            let reason = reason_of(&refused.reason);
            let rest = refused.rest.len();
            (refused.last_accepted, reason, refused.item.is_none(), rest)
        })
    }

    fn step(&mut self, look: Look) {
        let Some(runner) = &mut self.runner else {
            return;
        };
        let mut controls = self.controls.lock().unwrap();
        controls.finish_panics = matches!(look, Look::FinishPanics(_)) && self.model.will_look();
        controls.panics = matches!(look, Look::Panics).then_some("on purpose");
        controls.quiesce = match look {
            Look::Fatal(status) => Some(cause(status)),
            _ => None,
        };
        controls.answers = vec![match look {
            Look::Running | Look::Panics => Progress::Continue,
            Look::Done(status) | Look::FinishPanics(status) => Progress::Done(status),
            Look::Fatal(status) => fatal(status),
        }];
        drop(controls);
        let step = runner.step();
        self.controls(|controls| {
            controls.answers.clear();
            (controls.panics, controls.quiesce) = (None, None);
            controls.finish_panics = false;
        });
        let expected = match self.model.step(look) {
            None => Step::Idle,
            Some(false) => Step::InFlight,
            Some(true) => Step::Completed,
        };
        assert_eq!(step, expected);
    }

    /// The completion that an index of the schedule names, if there is any.
    fn name(&self, index: usize) -> Option<u32> {
        let ids = self.completions.keys();
        ids.copied().nth(index % self.completions.len().max(1))
    }

    fn poll(&mut self, index: usize, waker: usize) {
        let Some(id) = self.name(index) else {
            return;
        };
        let completion = self.completions.get_mut(&id).unwrap();
        let polled = Pin::new(completion).poll(&mut Context::from_waker(&self.wakers[waker].1));
        match polled {
            Poll::Pending => assert_eq!(self.model.poll(id, waker), None),
            Poll::Ready(outcome) => {
                assert_eq!(self.model.poll(id, waker), Some(result_of(id, &outcome)));
                let completion = self.completions.remove(&id).unwrap();
                assert_eq!(completion.status(), None, "taken");
                assert_eq!(completion.try_take().unwrap(), Err(Lost::Taken));
            }
        }
    }

    fn take(&mut self, index: usize) {
        let Some(id) = self.name(index) else {
            return;
        };
        match self.completions.remove(&id).unwrap().try_take() {
            Ok(outcome) => assert_eq!(self.model.take(id), Some(result_of(id, &outcome))),
            Err(completion) => {
                assert_eq!(self.model.take(id), None);
                self.completions.insert(id, completion);
            }
        }
    }

    fn drop_completion(&mut self, index: usize) {
        if let Some(id) = self.name(index) {
            drop(self.completions.remove(&id));
            self.model.drop_completion(id);
        }
    }

    fn poll_room(&mut self, ticket: usize, waker: usize) {
        let cx = Context::from_waker(&self.wakers[waker].1);
        let polled = self.unit.poll_room(&mut self.tickets[ticket], &cx);
        assert_eq!(polled.is_ready(), self.model.poll_room(ticket, waker));
    }

    fn announce_sleep(&mut self) {
        if let Some(runner) = &self.runner {
            runner.announce_sleep();
            self.model.announce_sleep();
        }
    }

    /// Where wakes are counted, a step does this itself.
    fn answer_bell(&mut self) {
        if let Some(runner) = &mut self.runner
            && !runner.policy().pairs_wakes()
        {
            runner.answer_bell();
            self.model.answer_bell();
        }
    }

    fn stop(&mut self) {
        let id = self.fresh_id();
        let scheduled = self.unit.schedule_stop();
        match (scheduled, self.model.schedule_stop(id)) {
            (Ok(Accepted { seq, completion }), Ok(expected)) => {
                assert_eq!(seq.cursor().get(), expected);
                self.stops.insert(id, completion);
            }
            (Err(refusal), Err(expected)) => assert_eq!(reason_of(&refusal), expected),
            (scheduled, expected) => panic!("{scheduled:?}, not {expected:?}"),
        }
    }

    fn give_up(&mut self) {
        if let Some(runner) = &mut self.runner {
            runner.give_up(cause(Status::FAILURE));
            self.model.give_up();
        }
    }

    /// Everything that can be asked, without changing anything.
    fn compare(&self) {
        let (unit, model) = (&self.unit, &self.model);
        assert_eq!(unit.depth(), model.depth());
        assert_eq!(unit.health(), model.health);
        assert_eq!(unit.is_drained(), model.drain_now().is_ok());
        assert_eq!(unit.last_submitted().cursor().get(), model.next - 1);
        assert_eq!(unit.last_completed().cursor().get(), model.completed());
        self.compare_cause();
        self.compare_sequence();
        self.compare_completions();
        let woken: Vec<_> = self.wakers.iter().map(|(count, _)| count.count()).collect();
        assert_eq!(woken, model.woken);
        let controls = self.controls.lock().unwrap();
        assert_eq!(controls.finished, model.finished);
        assert_eq!(controls.begun, model.begun);
        let quiesced = controls.log.iter().filter(|entry| **entry == "quiesce");
        assert_eq!(quiesced.count(), model.quiesced);
        drop(controls);
        if let Some(runner) = &self.runner {
            assert_eq!(bell_count(runner), model.bell);
        }
    }

    fn compare_cause(&self) {
        let cause = self.unit.cause();
        let found = cause.map(|cause| (cause.status, cause.seq.map(|seq| seq.cursor().get())));
        assert_eq!(found, self.model.cause);
    }

    fn compare_sequence(&self) {
        let seq = |number| SeqId::new(self.unit.xu(), Cursor::new(number).unwrap());
        let (unit, model) = (&self.unit, &self.model);
        for number in 1..model.next {
            let completed = unit.is_completed(seq(number));
            assert_eq!(completed, Ok(number <= model.completed()));
        }
        assert!(unit.is_completed(seq(model.next)).is_err());
        let in_flight = unit.in_flight().map(|late| (late.depth, late.oldest));
        let expected = (model.depth() > 0).then(|| (model.depth(), seq(model.completed() + 1)));
        assert_eq!(in_flight, expected);
    }

    fn compare_completions(&self) {
        for (id, completion) in &self.completions {
            let result = self.model.result(*id);
            assert_eq!(completion.status(), result.map(|result| result.status));
            assert_eq!(completion.is_done(), result.is_some());
        }
        for (id, completion) in &self.stops {
            let result = self.model.result(*id);
            assert_eq!(completion.status(), result.map(|result| result.status));
        }
    }

    /// Lets go of everything in one of the orders that there are; each request is destroyed once.
    fn finish(mut self, runner_first: bool) {
        for (id, completion) in core::mem::take(&mut self.completions) {
            match completion.try_take() {
                Ok(outcome) => assert_eq!(self.model.take(id), Some(result_of(id, &outcome))),
                Err(_) => assert_eq!(self.model.take(id), None),
            }
        }
        let stored = self
            .wakers
            .iter()
            .map(|(count, _)| Arc::strong_count(count) - 2);
        assert_eq!(
            stored.sum::<usize>(),
            self.model.stored_for_room(),
            "a waker was forgotten"
        );
        let (unit, runner) = (self.unit, self.runner);
        if runner_first {
            drop(runner);
            drop(unit);
        } else {
            drop(unit);
            drop(runner);
        }
        assert_eq!(self.ledger.alive(), 0);
        let stored = self
            .wakers
            .iter()
            .map(|(count, _)| Arc::strong_count(count) - 2);
        assert_eq!(stored.sum::<usize>(), 0);
    }
}

fn result_of(id: u32, outcome: &Result<u32, Lost>) -> Told {
    match outcome {
        Ok(echo) => {
            assert_eq!(*echo, id, "the outcome of another request");
            Told::Outcome
        }
        Err(lost) => {
            assert_eq!(*lost, Lost::Abandoned);
            Told::Abandoned
        }
    }
}

fn reason_of(refusal: &Refusal) -> Reason {
    match refusal {
        Refusal::Degraded { cause, .. } => Reason::Degraded(cause.status),
        Refusal::QueueFull { .. } => Reason::Full,
        Refusal::Closing { .. } => Reason::Closing,
        Refusal::Prepare { status, .. } => Reason::Prepare(*status),
        Refusal::Commit { status, .. } => Reason::Commit(*status),
        other => panic!("{other}"),
    }
}

fn assert_refused(
    id: u32,
    staging: Staging,
    refused: Refused<steered::Request>,
    expected: Result<u64, Reason>,
) {
    let reason = reason_of(&refused.reason);
    assert_eq!(Err(reason), expected);
    let status = match reason {
        Reason::Degraded(_) => Status::EXEC_UNIT_UNRECOVERABLE,
        Reason::Full => Status::QUEUE_FULL,
        Reason::Closing => Status::CLOSED,
        Reason::Prepare(status) | Reason::Commit(status) => status,
    };
    assert_eq!(refused.reason.status(), status);
    let given_back = refused.item.map(|item| item.id);
    if matches!(reason, Reason::Commit(_)) {
        assert_eq!((given_back, staging), (None, Staging::CommitFails));
    } else {
        assert_eq!(given_back, Some(id));
    }
}

/// The count of an eventfd, which reading would change.
fn bell_count(runner: &UnitRunner<Steered>) -> u64 {
    let fd = runner.bell().as_fd().as_raw_fd();
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap();
    let count = info
        .lines()
        .find_map(|line| line.strip_prefix("eventfd-count:"))
        .unwrap();
    u64::from_str_radix(count.trim(), 16).unwrap()
}

fn cases() -> u32 {
    let set = std::env::var("XU_SCHEDULES").ok();
    set.map_or(400, |cases| cases.parse().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn f2_f5_f8_r5_w1_every_schedule_goes_as_the_model_says(
        limit in 1_u64..6,
        policy in policy(),
        ops in vec(op(), 1..120),
        runner_first in any::<bool>(),
    ) {
        let mut run = Run::new(limit, policy);
        for op in &ops {
            run.apply(op);
        }
        run.finish(runner_first);
    }
}
