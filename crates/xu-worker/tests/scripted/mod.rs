//! Units for real worker threads, whose requests carry what becomes of them.
//!
//! Used by the tests that run threads: `workers`, `shutdown`, `one_cpu`, `cycles` and `allocations`.
#![allow(dead_code, reason = "every test binary uses a part of it")]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use xu_abi::{Status, XuId};
use xu_worker::{
    Cause, CloseError, CloseOptions, Closed, Closing, Completion, Engine, Lost, PollPolicy,
    Progress, Runner, Stage, StageError, Unit, UnitOptions, UnitRunner, WorkerThread, Workers,
};

pub(crate) const POLICIES: [PollPolicy; 3] = [
    PollPolicy::Reference,
    PollPolicy::Adaptive,
    PollPolicy::Busy,
];

/// After which a test has hung.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Opens once, and is then open to all who hold it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gate(Arc<AtomicBool>);

impl Gate {
    pub(crate) fn open(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// For engines, which may wait in `quiesce`.
    pub(crate) fn wait(&self) {
        until("a gate opens", || self.is_open());
    }
}

/// Gives way to other threads until something is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "never: {what}");
        thread::yield_now();
    }
}

/// Runs something that may hang, and fails if it does.
pub(crate) fn within_patience<T: Send + 'static>(
    what: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (sender, receiver) = mpsc::channel();
    let handle = thread::spawn(move || {
        // Nobody receives it when the test has failed already.
        drop(sender.send(run()));
    });
    match receiver.recv_timeout(PATIENCE) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("hangs: {what}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => match handle.join() {
            Err(payload) => std::panic::resume_unwind(payload),
            Ok(()) => unreachable!("it has not sent"),
        },
    }
}

/// Waits for a request, and fails with what the unit says if it does not complete.
pub(crate) fn wait(
    unit: &Unit<Scripted>,
    completion: Completion<Outcome>,
) -> Result<Outcome, Lost> {
    match completion.wait_timeout(PATIENCE) {
        Ok(result) => result,
        Err(completion) => panic!("lost: {completion:?} of {unit:?}"),
    }
}

/// How long a request runs.
#[derive(Clone, Debug)]
pub(crate) enum Script {
    /// Until its `n`th look; 1 is the first.
    Looks(u32),
    /// For so long, from its beginning.
    Lasts(Duration),
    /// Until a gate opens.
    Held(Gate),
}

/// Where a request panics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Prepare,
    Commit,
    Begin,
    Progress,
    Finish,
    ItemDestructor,
    OutcomeDestructor,
}

/// What a panic throws here: its destructor panics, too.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !thread::panicking() {
            panic!("the payload of a panic was dropped");
        }
    }
}

pub(crate) fn explode() -> ! {
    std::panic::panic_any(Bomb)
}

/// A request.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) id: u64,
    pub(crate) script: Script,
    pub(crate) status: Status,
    /// Whether the unit degrades.
    pub(crate) fatal: bool,
    pub(crate) panics_in: Option<Place>,
    until: Option<Instant>,
}

impl Work {
    pub(crate) fn new(id: u64, script: Script) -> Self {
        Self {
            id,
            script,
            status: Status::SUCCESS,
            fatal: false,
            panics_in: None,
            until: None,
        }
    }

    /// Complete at its first look.
    pub(crate) fn short(id: u64) -> Self {
        Self::new(id, Script::Looks(1))
    }

    pub(crate) fn held(id: u64, gate: &Gate) -> Self {
        Self::new(id, Script::Held(gate.clone()))
    }

    pub(crate) fn panics_in(mut self, place: Place) -> Self {
        self.panics_in = Some(place);
        self
    }

    pub(crate) fn fatal(mut self, status: Status) -> Self {
        self.fatal = true;
        self.status = status;
        self
    }

    fn pass(&self, place: Place) {
        if self.panics_in == Some(place) {
            explode();
        }
    }

    fn is_over(&mut self) -> bool {
        match &mut self.script {
            Script::Looks(looks) => {
                *looks = looks.saturating_sub(1);
                *looks == 0
            }
            Script::Lasts(_) => self.until.is_none_or(|until| Instant::now() >= until),
            Script::Held(gate) => gate.is_open(),
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if !thread::panicking() {
            self.pass(Place::ItemDestructor);
        }
    }
}

/// What a caller learns.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) id: u64,
    panics: bool,
}

impl Drop for Outcome {
    fn drop(&mut self) {
        if self.panics && !thread::panicking() {
            explode();
        }
    }
}

/// How the device answers a stop.
#[derive(Clone, Debug, Default)]
pub(crate) enum Rest {
    #[default]
    Comes,
    Fails(Status),
    Panics,
    /// It comes to rest when a gate opens.
    Held(Gate),
}

/// What the two halves of a unit have done.
#[derive(Default)]
pub(crate) struct Facts {
    pub(crate) staged: AtomicUsize,
    pub(crate) begun: AtomicUsize,
    pub(crate) finished: AtomicUsize,
    pub(crate) quiesced: AtomicUsize,
    /// The worker's thread, as the system counts.
    pub(crate) tid: AtomicI32,
    /// Whether that thread has ended, as far as it can say so itself.
    pub(crate) ended: AtomicBool,
    pub(crate) rest: Mutex<Rest>,
    /// Runs while a request is being committed, with the submit lock held.
    pub(crate) at_commit: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// Given one more request whenever one finishes, until the gate opens.
    pub(crate) refill: OnceLock<(Arc<Unit<Scripted>>, Gate)>,
}

/// Says when its thread ends.
struct Farewell(Arc<Facts>);

impl Drop for Farewell {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::SeqCst);
    }
}

thread_local! {
    static FAREWELLS: RefCell<Vec<Farewell>> = const { RefCell::new(Vec::new()) };
}

/// What several units have done, in order.
pub(crate) type Log = Arc<Mutex<Vec<(XuId, &'static str)>>>;

/// Either side of a unit.
pub(crate) struct Scripted {
    xu: XuId,
    facts: Arc<Facts>,
    log: Option<Log>,
    knows_thread: bool,
}

impl Scripted {
    fn note(&self, what: &'static str) {
        if let Some(log) = &self.log {
            log.lock().unwrap().push((self.xu, what));
        }
    }

    fn learn_thread(&mut self) {
        if core::mem::replace(&mut self.knows_thread, true) {
            return;
        }
        let tid = nix::unistd::gettid().as_raw();
        self.facts.tid.store(tid, Ordering::SeqCst);
        let farewell = Farewell(Arc::clone(&self.facts));
        FAREWELLS.with(|all| all.borrow_mut().push(farewell));
    }
}

impl Stage for Scripted {
    type Item = Work;
    type Outcome = Outcome;

    fn prepare(&mut self, work: &mut Work) -> Result<(), StageError> {
        work.pass(Place::Prepare);
        Ok(())
    }

    fn commit(&mut self, work: &mut Work) -> Result<(), StageError> {
        work.pass(Place::Commit);
        self.facts.staged.fetch_add(1, Ordering::SeqCst);
        let hook = self.facts.at_commit.lock().unwrap().take();
        if let Some(hook) = hook {
            hook();
        }
        Ok(())
    }
}

impl Engine for Scripted {
    type Item = Work;
    type Outcome = Outcome;

    fn begin(&mut self, work: &mut Work) {
        self.learn_thread();
        work.pass(Place::Begin);
        self.note("begin");
        self.facts.begun.fetch_add(1, Ordering::SeqCst);
        if let Script::Lasts(time) = work.script {
            work.until = Instant::now().checked_add(time);
        }
    }

    fn progress(&mut self, work: &mut Work) -> Progress {
        work.pass(Place::Progress);
        if !work.is_over() {
            Progress::Continue
        } else if work.fatal {
            Progress::Fatal(cause(work.status))
        } else {
            Progress::Done(work.status)
        }
    }

    fn quiesce(&mut self) -> Result<(), Cause> {
        self.learn_thread();
        self.note("quiesce");
        self.facts.quiesced.fetch_add(1, Ordering::SeqCst);
        let rest = self
            .facts
            .rest
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        match rest {
            Rest::Comes => Ok(()),
            Rest::Fails(status) => Err(cause(status)),
            Rest::Panics => explode(),
            Rest::Held(gate) => {
                gate.wait();
                Ok(())
            }
        }
    }

    fn finish(&mut self, work: Work, _: Status) -> Outcome {
        self.note("finish");
        self.facts.finished.fetch_add(1, Ordering::SeqCst);
        if let Some((unit, enough)) = self.facts.refill.get()
            && !enough.is_open()
        {
            unit.post(Work::short(0)).unwrap();
        }
        work.pass(Place::Finish);
        Outcome {
            id: work.id,
            panics: work.panics_in == Some(Place::OutcomeDestructor),
        }
    }
}

fn cause(status: Status) -> Cause {
    Cause {
        status,
        seq: None,
        text: "broken on purpose".into(),
    }
}

/// How a unit of these tests is made.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) limit: u64,
    pub(crate) policy: PollPolicy,
    pub(crate) log: Option<Log>,
}

impl Plan {
    pub(crate) fn new(limit: u64, policy: PollPolicy) -> Self {
        Self {
            limit,
            policy,
            log: None,
        }
    }
}

/// Both halves of unit number `raw`, and what is known of them.
pub(crate) fn lane(raw: u16, plan: &Plan) -> (Unit<Scripted>, UnitRunner<Scripted>, Arc<Facts>) {
    let xu = XuId::from_raw(raw);
    let facts = Arc::new(Facts::default());
    let side = || Scripted {
        xu,
        facts: Arc::clone(&facts),
        log: plan.log.clone(),
        knows_thread: false,
    };
    let options = UnitOptions {
        limit: plan.limit,
        policy: plan.policy,
        ..UnitOptions::default()
    };
    let (unit, runner) = Unit::new(xu, &options, side(), side()).unwrap();
    (unit, runner, facts)
}

/// Units and the threads that serve them.
pub(crate) struct Core {
    pub(crate) units: Vec<Arc<Unit<Scripted>>>,
    pub(crate) facts: Vec<Arc<Facts>>,
    pub(crate) workers: Workers,
}

impl Core {
    /// `count` units, eight to a worker.
    pub(crate) fn new(count: u16, plan: &Plan) -> Arc<Self> {
        Self::with_runners(count, plan, |_, runner| Box::new(runner))
    }

    /// As [`Core::new`], with worker halves that the test has wrapped.
    pub(crate) fn with_runners(
        count: u16,
        plan: &Plan,
        wrap: impl Fn(u16, UnitRunner<Scripted>) -> Box<dyn Runner>,
    ) -> Arc<Self> {
        let (mut units, mut facts, mut runners) = (Vec::new(), Vec::new(), Vec::new());
        for raw in 0..count {
            let (unit, runner, fact) = lane(raw, plan);
            units.push(Arc::new(unit));
            facts.push(fact);
            runners.push(wrap(raw, runner));
        }
        let mut threads = Vec::new();
        while !runners.is_empty() {
            let served = runners.drain(..runners.len().min(8)).collect();
            threads.push(WorkerThread::spawn("scripted", served).unwrap());
        }
        Arc::new(Self {
            units,
            facts,
            workers: Workers::new(threads),
        })
    }

    pub(crate) fn close_with(&self, options: &CloseOptions) -> Result<Closed, CloseError> {
        let units: Vec<&dyn Closing> = self
            .units
            .iter()
            .map(|unit| &**unit as &dyn Closing)
            .collect();
        self.workers.close(&units, options)
    }

    /// Closes without a deadline; fails if that hangs.
    pub(crate) fn close(self: &Arc<Self>) -> Result<Closed, CloseError> {
        let core = Arc::clone(self);
        within_patience("close", move || core.close_with(&CloseOptions::default()))
    }

    /// Runs one request and waits for it.
    pub(crate) fn run(&self, unit: usize, work: Work) -> Result<Outcome, Lost> {
        let unit = &self.units[unit];
        let accepted = unit.submit(work).map_err(|refused| refused.reason).unwrap();
        wait(unit, accepted.completion)
    }

    pub(crate) fn quiesced(&self) -> Vec<usize> {
        let quiesced = |facts: &Arc<Facts>| facts.quiesced.load(Ordering::SeqCst);
        self.facts.iter().map(quiesced).collect()
    }
}
