//! A unit of the product that a test steps by itself, with an engine that is done at once: for models and tests alike.
//!
//! Used by `events`, `waits`, `signals`, `exhaustion`, `eventfds`, `mio`, `notifications` and `loom_events`. Nothing of what
//! a unit does is done here: requests go through `Unit`, completions through `UnitRunner::step`.
#![allow(dead_code, reason = "each file uses its part")]

#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard};
use std::sync::Arc;
#[cfg(not(loom))]
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;
use xu_abi::{Cursor, SeqId, Status, XuId};
use xu_worker::completion_pool::CompletionPool;
use xu_worker::eventfd::{AppEvent, CompletionEvent};
use xu_worker::events::Registered;
use xu_worker::waits::Waited;
use xu_worker::{
    Accepted, Cause, Engine, Progress, Runner, Stage, StageError, Step, UnitOptions, UnitRunner,
};

/// A sequence of the unit.
pub(crate) fn seq(number: u64) -> SeqId {
    SeqId::new(
        XuId::from_raw(0),
        Cursor::new(number).expect("a small number"),
    )
}

/// What the application finds in its eventfd.
pub(crate) fn taken(event: &CompletionEvent) -> u64 {
    event.drain().expect("a good descriptor")
}

pub(crate) fn app_event(event: &CompletionEvent) -> AppEvent {
    event.app_event().expect("an eventfd")
}

/// Either side of the unit.
pub(crate) struct AtOnce;

impl Stage for AtOnce {
    type Item = ();
    type Outcome = ();

    fn prepare(&mut self, (): &mut ()) -> Result<(), StageError> {
        Ok(())
    }

    fn commit(&mut self, (): &mut ()) -> Result<(), StageError> {
        Ok(())
    }
}

impl Engine for AtOnce {
    type Item = ();
    type Outcome = ();

    fn begin(&mut self, (): &mut ()) {}

    fn progress(&mut self, (): &mut ()) -> Progress {
        Progress::Done(Status::SUCCESS)
    }

    fn quiesce(&mut self) -> Result<(), Cause> {
        Ok(())
    }

    fn finish(&mut self, (): (), _: Status) {}
}

/// The two halves of a unit that has accepted so many requests, and has room for one at least.
pub(crate) fn halves(
    requests: u64,
    pool: &Arc<CompletionPool>,
) -> (xu_worker::Unit<AtOnce>, UnitRunner<AtOnce>) {
    let options = UnitOptions {
        limit: requests.max(1),
        pool: Arc::clone(pool),
        ..UnitOptions::default()
    };
    let xu = XuId::from_raw(0);
    let (unit, runner) =
        xu_worker::Unit::new(xu, &options, AtOnce, AtOnce).expect("there is memory");
    for _ in 0..requests {
        unit.post(()).expect("there is room");
    }
    (unit, runner)
}

/// Both halves of a unit, and the pool that its waits lend from. Requests are numbered from 1, in the order of acceptance.
pub(crate) struct Unit {
    pub(crate) real: xu_worker::Unit<AtOnce>,
    runner: Mutex<UnitRunner<AtOnce>>,
    pub(crate) pool: Arc<CompletionPool>,
}

impl Unit {
    /// A unit that has accepted so many requests.
    pub(crate) fn new(requests: u64) -> Arc<Self> {
        let pool = Arc::new(CompletionPool::new());
        let (real, runner) = halves(requests, &pool);
        let runner = Mutex::new(runner);
        Arc::new(Self { real, runner, pool })
    }

    /// One more request, for which there must be room.
    pub(crate) fn accept(&self) {
        self.real.post(()).expect("there is room");
    }

    /// The same, with a way back.
    pub(crate) fn submit(&self) -> Accepted<()> {
        self.real.submit(()).expect("there is room")
    }

    fn runner(&self) -> MutexGuard<'_, UnitRunner<AtOnce>> {
        self.runner.lock().expect("no panic")
    }

    /// What a worker does with the request at the head, which has this number.
    pub(crate) fn complete(&self, number: u64) {
        assert_eq!(self.step(), Step::Completed);
        assert_eq!(self.last_completed(), number);
    }

    pub(crate) fn step(&self) -> Step {
        self.runner().step()
    }

    /// What a worker does that cannot go on.
    pub(crate) fn give_up(&self) {
        self.runner().give_up(Cause {
            status: Status::FAILURE,
            seq: None,
            text: "given up on purpose".into(),
        });
    }

    pub(crate) fn last_completed(&self) -> u64 {
        self.real.last_completed().cursor().get()
    }

    /// Waits, and sees to it that nothing but the truth comes out.
    pub(crate) fn wait(&self, number: u64, deadline: Option<Instant>) -> Waited {
        let waited = self.real.wait(seq(number), deadline).expect("accepted");
        if waited == Waited::Completed {
            assert!(self.last_completed() >= number);
        }
        waited
    }

    pub(crate) fn register(&self, number: u64, event: &CompletionEvent) -> Registered {
        self.register_fd(number, app_event(event))
    }

    pub(crate) fn register_fd(&self, number: u64, event: AppEvent) -> Registered {
        let registered = self.real.register_event(seq(number), event);
        registered.expect("accepted")
    }

    pub(crate) fn deregister(&self, number: u64) -> bool {
        self.real.deregister_event(seq(number)).expect("accepted")
    }

    pub(crate) fn deregister_unit(&self) -> bool {
        self.real.deregister_unit_event().expect("this process")
    }

    /// What had completed by then: at least, and at most.
    pub(crate) fn register_unit(&self, event: &CompletionEvent) -> (u64, u64) {
        let least = self.last_completed();
        let registered = self.real.register_unit_event(app_event(event));
        registered.expect("this process");
        (least, self.last_completed())
    }
}
