//! Waits and events of the product's unit: stepped by hand, and served by worker threads.
//!
//! Spec `xu.md` section 4 (report complete, application eventfds, pool of completion efds); failure kinds W1, W2, W3, W5,
//! W7, W8, F7 and F8.
#![cfg(not(any(loom, miri)))]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

#[path = "notifications/descriptors.rs"]
mod descriptors;
mod lane;
#[path = "notifications/races.rs"]
mod races;
mod scripted;
#[path = "notifications/waits.rs"]
mod waits;

use lane::{Unit, app_event, halves, seq, taken};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use scripted::{
    Core, Facts, Gate, Outcome, PATIENCE, POLICIES, Plan, Scripted, Work, until, within_patience,
};
use std::fs::read_dir;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};
use xu_abi::{Cursor, SeqId, Status, XuId};
use xu_ring::queue::NeverIssued;
use xu_worker::completion_pool::{CompletionPool, POOLED_PER_CORE};
use xu_worker::eventfd::{AppEvent, CompletionEvent};
use xu_worker::events::Registered;
use xu_worker::room::Ticket;
use xu_worker::unit::AskError;
use xu_worker::waits::{Waited, deadline};
use xu_worker::{Accepted, Cause, Completion, Health, Runner, Step, UnitRunner};

/// The highest count of an eventfd.
const MAX: u64 = u64::MAX - 1;

fn event() -> CompletionEvent {
    CompletionEvent::new().unwrap()
}

fn now() -> Option<Instant> {
    Some(Instant::now())
}

/// A waiter looks for itself once a second: without signals tests would end, but late.
struct Signals(Instant);

impl Signals {
    fn expected() -> Self {
        Self(Instant::now())
    }

    fn assert_came(&self) {
        assert!(self.0.elapsed() < PATIENCE, "signals are lost");
    }
}

fn patience() -> Option<Instant> {
    deadline(PATIENCE)
}

/// Until the application's eventfd is readable, as its event loop would see it.
fn readable(event: &CompletionEvent) -> bool {
    let mut fds = [PollFd::new(event.as_fd(), PollFlags::POLLIN)];
    let timeout = PollTimeout::try_from(PATIENCE).unwrap();
    poll(&mut fds, timeout).unwrap() == 1
}

/// An eventfd that takes no more.
fn full(flags: EfdFlags) -> EventFd {
    let fd = EventFd::from_value_and_flags(0, flags | EfdFlags::EFD_CLOEXEC).unwrap();
    fd.write(MAX).unwrap();
    fd
}

/// A unit whose requests say what becomes of them, stepped by hand.
fn stepped(limit: u64) -> (xu_worker::Unit<Scripted>, UnitRunner<Scripted>, Arc<Facts>) {
    scripted::lane(0, &Plan::new(limit, POLICIES[1]))
}

fn submit(unit: &xu_worker::Unit<Scripted>, work: Work) -> Accepted<Outcome> {
    unit.submit(work).map_err(|refused| refused.reason).unwrap()
}

fn cause() -> Cause {
    Cause {
        status: Status::FAILURE,
        seq: None,
        text: "given up on purpose".into(),
    }
}

/// What is no sequence of the unit, which has accepted so many requests.
fn strangers(accepted: u64) -> [SeqId; 4] {
    let strange = SeqId::new(XuId::from_raw(1), Cursor::FIRST);
    let last = SeqId::new(XuId::from_raw(0), Cursor::LAST);
    [seq(0), seq(accepted + 1), last, strange]
}

/// Stops the worker.
fn close(core: &Arc<Core>) {
    drop(core.close().unwrap());
}

fn never_issued(seq: SeqId) -> AskError {
    let xu = XuId::from_raw(0);
    AskError::NeverIssued(NeverIssued { seq, xu })
}

mod events {
    use super::*;

    #[test]
    fn f8_what_was_never_issued_is_refused() {
        let unit = Unit::new(1);
        let event = event();
        for strange in strangers(1) {
            let refused = unit.real.register_event(strange, app_event(&event));
            assert_eq!(refused, Err(never_issued(strange)));
            let refused = unit.real.deregister_event(strange);
            assert_eq!(refused, Err(never_issued(strange)));
        }
        unit.complete(1);
        assert_eq!(taken(&event), 0);
    }

    #[test]
    fn f8_each_event_is_counted_once() {
        let unit = Unit::new(3);
        let all = event();
        let each = [(); 3].map(|()| event());
        unit.register_unit(&all);
        for (number, event) in (1..).zip(&each) {
            assert_eq!(unit.register(number, event), Registered::Armed);
        }
        for number in 1..=3 {
            unit.complete(number);
            assert_eq!(taken(&all), 1);
            let counts = each.each_ref().map(taken);
            let due = [1, 2, 3].map(|other| u64::from(other == number));
            assert_eq!(counts, due);
        }
        assert_eq!(unit.step(), Step::Idle);
        assert_eq!(taken(&all), 0);
    }

    #[test]
    fn f8_one_event_may_serve_several_sequences() {
        let unit = Unit::new(4);
        let event = event();
        (1..=4).for_each(|number| assert_eq!(unit.register(number, &event), Registered::Armed));
        assert!(unit.deregister(3));
        (1..=4).for_each(|number| unit.complete(number));
        assert_eq!(taken(&event), 3);
    }

    #[test]
    fn f8_what_was_taken_out_is_not_written() {
        let unit = Unit::new(2);
        let (one, all) = (event(), event());
        unit.register(1, &one);
        unit.register_unit(&all);
        assert!(unit.deregister(1));
        assert!(!unit.deregister(1));
        unit.complete(1);
        assert!(unit.deregister_unit());
        unit.complete(2);
        assert_eq!((taken(&one), taken(&all)), (0, 1));
    }

    #[test]
    fn f8_what_was_replaced_is_not_written() {
        let unit = Unit::new(2);
        let [old, new, old_unit, new_unit] = [(); 4].map(|()| event());
        unit.register(1, &old);
        unit.register_unit(&old_unit);
        unit.register(1, &new);
        unit.register_unit(&new_unit);
        (1..=2).for_each(|number| unit.complete(number));
        assert_eq!((taken(&old), taken(&old_unit)), (0, 0));
        assert_eq!((taken(&new), taken(&new_unit)), (1, 2));
    }

    #[test]
    fn f8_a_complete_request_is_signalled_by_the_caller() {
        let unit = Unit::new(2);
        let event = event();
        unit.complete(1);
        for _ in 0..3 {
            assert_eq!(unit.register(1, &event), Registered::Signalled);
            assert_eq!(taken(&event), 1);
        }
        assert!(!unit.deregister(1));
        unit.complete(2);
        assert_eq!(taken(&event), 0);
    }

    #[test]
    fn w1_five_completions_in_a_row_are_a_count_of_five() {
        for policy in POLICIES {
            let core = Core::new(1, &Plan::new(8, policy));
            let (unit, facts) = (&core.units[0], &core.facts[0]);
            let (event, gate, last) = (event(), Gate::default(), Gate::default());
            unit.register_unit_event(app_event(&event)).unwrap();
            (1..=5).for_each(|id| drop(submit(unit, Work::held(id, &gate))));
            drop(submit(unit, Work::held(6, &last)));
            assert_eq!(taken(&event), 0);
            gate.open();
            // When the worker has begun the sixth, it has done with the fifth.
            until("the sixth runs", || facts.begun.load(Ordering::SeqCst) == 6);
            assert_eq!(taken(&event), 5);
            last.open();
            close(&core);
            assert_eq!(
                taken(&event),
                1,
                "the sixth; the stop is none of the application's"
            );
        }
    }

    #[test]
    fn w2_a_full_event_loses_counts_and_harms_nobody() {
        for flags in [EfdFlags::EFD_NONBLOCK, EfdFlags::empty()] {
            let unit = Unit::new(3);
            let (fd, sound) = (full(flags), event());
            unit.real
                .register_unit_event(AppEvent::new(&fd).unwrap())
                .unwrap();
            unit.register_fd(1, AppEvent::new(&fd).unwrap());
            unit.register(2, &sound);
            (1..=2).for_each(|number| unit.complete(number));
            assert_eq!(unit.real.lost_notifications(), 3);
            assert_eq!(fd.read().unwrap(), MAX);
            unit.complete(3);
            assert_eq!(fd.read().unwrap(), 1, "it is written again");
            assert_eq!(taken(&sound), 1);
            assert_eq!(unit.real.lost_notifications(), 3);
            assert_eq!(unit.real.health(), Health::Healthy);
        }
    }

    #[test]
    fn w2_a_worker_does_not_stop_at_a_full_event() {
        let core = Core::new(1, &Plan::new(8, POLICIES[1]));
        let (unit, fd) = (&core.units[0], full(EfdFlags::empty()));
        unit.register_unit_event(AppEvent::new(&fd).unwrap())
            .unwrap();
        for id in 0..100 {
            assert_eq!(core.run(0, Work::short(id)).unwrap().id, id);
        }
        assert_eq!(unit.health(), Health::Healthy);
        close(&core);
        assert_eq!(unit.lost_notifications(), 100);
        assert_eq!(fd.read().unwrap(), MAX);
    }

    #[cfg(feature = "test-hooks")]
    #[test]
    fn w2_a_broken_event_is_lost_and_harms_nobody() {
        use nix::errno::Errno;
        use xu_worker::eventfd::fail_call;

        let unit = Unit::new(2);
        let event = event();
        unit.register_unit(&event);
        fail_call(1, Errno::EBADF as i32);
        (1..=2).for_each(|number| unit.complete(number));
        assert_eq!(unit.real.lost_notifications(), 1);
        assert_eq!(taken(&event), 1);
        assert_eq!(unit.real.health(), Health::Healthy);
    }

    #[test]
    fn w3_the_application_may_close_its_descriptor() {
        let unit = Unit::new(2);
        let gone = event();
        unit.register_unit(&gone);
        unit.register(1, &gone);
        drop(gone);
        (1..=2).for_each(|number| unit.complete(number));
        assert_eq!(unit.real.lost_notifications(), 0);
        assert_eq!(unit.real.health(), Health::Healthy);
    }

    #[test]
    fn w7_a_unit_that_degrades_notifies_each_request_once() {
        let (unit, mut runner, _) = stepped(4);
        let all = event();
        let each = [(); 4].map(|()| event());
        unit.register_unit_event(app_event(&all)).unwrap();
        let mut completions = Vec::new();
        for (id, event) in (1..).zip(&each) {
            let work = if id == 2 {
                Work::short(id).fatal(Status::FAILURE)
            } else {
                Work::short(id)
            };
            let accepted = submit(&unit, work);
            unit.register_event(accepted.seq, app_event(event)).unwrap();
            completions.push(accepted.completion);
        }
        while unit.depth() > 0 {
            assert_eq!(runner.step(), Step::Completed);
        }
        assert_eq!(unit.health(), Health::Degraded);
        assert!(completions.iter().all(Completion::is_done));
        drop(runner);
        assert_eq!((taken(&all), each.each_ref().map(taken)), (4, [1; 4]));
    }

    #[test]
    fn w7_a_unit_that_is_given_up_notifies_each_request_once() {
        let unit = Unit::new(4);
        let all = event();
        let each = [(); 4].map(|()| event());
        unit.register_unit(&all);
        for (number, event) in (1..).zip(&each) {
            unit.register(number, event);
        }
        unit.complete(1);
        unit.give_up();
        unit.give_up();
        assert_eq!((taken(&all), each.each_ref().map(taken)), (4, [1; 4]));
        let late = event();
        assert_eq!(unit.register(4, &late), Registered::Signalled);
        assert_eq!(taken(&late), 1);
    }

    #[test]
    fn w7_a_worker_that_goes_notifies_what_it_leaves() {
        let (unit, runner) = halves(3, &Arc::default());
        let (one, all) = (event(), event());
        unit.register_event(seq(2), app_event(&one)).unwrap();
        unit.register_unit_event(app_event(&all)).unwrap();
        drop(runner);
        assert_eq!((taken(&one), taken(&all)), (1, 3));
    }

    #[test]
    fn f7_nothing_is_written_for_a_unit_that_is_gone() {
        let (unit, mut runner) = halves(3, &Arc::default());
        let (one, all) = (event(), event());
        unit.register_event(seq(2), app_event(&one)).unwrap();
        unit.register_unit_event(app_event(&all)).unwrap();
        assert_eq!(runner.step(), Step::Completed);
        assert_eq!(taken(&all), 1);
        drop(unit);
        runner.step();
        runner.give_up(cause());
        drop(runner);
        assert_eq!((taken(&one), taken(&all)), (0, 0));
    }
}

/// Who is told that a request is complete finds its status and its outcome.
mod order {
    use super::*;

    #[test]
    fn f8_an_event_comes_after_the_outcome() {
        const ROUNDS: u64 = 5_000;

        let unit = Unit::new(0);
        let event = event();
        let (sender, receiver) = mpsc::sync_channel(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                for number in receiver {
                    unit.complete(number);
                }
            });
            for number in 1..=ROUNDS {
                let completion = unit.submit().completion;
                unit.register(number, &event);
                sender.send(number).unwrap();
                until("it is told", || taken(&event) == 1);
                assert!(completion.is_done(), "told of {number} before its outcome");
                assert_eq!(completion.status(), Some(Status::SUCCESS));
                assert_eq!(unit.real.is_completed(seq(number)), Ok(true));
            }
            drop(sender);
        });
    }

    #[test]
    fn f8_a_wait_ends_after_the_outcome() {
        const ROUNDS: u64 = 1_000;

        let (unit, signals) = (&*Unit::new(0), Signals::expected());
        thread::scope(|scope| {
            for number in 1..=ROUNDS {
                signals.assert_came();
                let completion = unit.submit().completion;
                let worker = scope.spawn(move || {
                    until("somebody waits", || unit.pool.in_use() == 1);
                    unit.complete(number);
                });
                assert_eq!(unit.wait(number, patience()), Waited::Completed);
                assert!(completion.is_done(), "told of {number} before its outcome");
                assert_eq!(completion.status(), Some(Status::SUCCESS));
                worker.join().unwrap();
            }
        });
    }

    #[test]
    fn f8_events_of_a_worker_come_after_the_outcome() {
        for policy in POLICIES {
            let core = Core::new(1, &Plan::new(8, policy));
            let (unit, event) = (&core.units[0], event());
            for id in 0..2_000 {
                let Accepted { seq, completion } = submit(unit, Work::short(id));
                unit.register_event(seq, app_event(&event)).unwrap();
                assert!(readable(&event), "{unit:?}");
                assert!(completion.is_done(), "told of {seq} before its outcome");
                assert_eq!(completion.status(), Some(Status::SUCCESS));
                assert_eq!(taken(&event), 1);
            }
            close(&core);
        }
    }

    /// What was so when somebody was woken.
    struct Witness {
        name: &'static str,
        unit: Arc<Unit>,
        event: Arc<CompletionEvent>,
        seen: Arc<Mutex<Vec<Seen>>>,
    }

    #[derive(Debug, PartialEq, Eq)]
    struct Seen {
        name: &'static str,
        is_completed: bool,
        events: u64,
    }

    impl Wake for Witness {
        fn wake(self: Arc<Self>) {
            let seen = Seen {
                name: self.name,
                is_completed: self.unit.wait(1, now()) == Waited::Completed,
                events: taken(&self.event),
            };
            self.seen.lock().unwrap().push(seen);
        }
    }

    /// Pop, outcome, event, room: foreign code sees each step done, and looks at the unit without a lock in its way.
    #[test]
    fn f8_outcome_then_event_then_room() {
        let unit = Unit::new(0);
        let mut completion = unit.submit().completion;
        let (event, seen) = (Arc::new(event()), Arc::default());
        let waker = |name| {
            let (unit, event, seen) = (Arc::clone(&unit), Arc::clone(&event), Arc::clone(&seen));
            Waker::from(Arc::new(Witness {
                name,
                unit,
                event,
                seen,
            }))
        };
        unit.register(1, &event);
        let (outcome, room) = (waker("outcome"), waker("room"));
        let polled = Pin::new(&mut completion).poll(&mut Context::from_waker(&outcome));
        assert_eq!(polled, Poll::Pending);
        let mut ticket = Ticket::default();
        let polled = unit
            .real
            .poll_room(&mut ticket, &Context::from_waker(&room));
        assert_eq!(polled, Poll::Pending);
        unit.complete(1);
        unit.real.leave_room(&mut ticket);
        let seen: Vec<_> = seen.lock().unwrap().drain(..).collect();
        let due = [("outcome", 0), ("room", 1)].map(|(name, events)| Seen {
            name,
            is_completed: true,
            events,
        });
        assert_eq!(seen, due);
    }
}
