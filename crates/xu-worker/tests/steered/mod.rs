//! A unit whose engine does what the test says, look by look, and whose requests are counted.
//!
//! Used by `units`, which steps it by hand, and by `schedules`, which compares it with a model.
#![allow(dead_code, reason = "every test binary uses a part of it")]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};
use xu_abi::{Status, XuId, XuType};
use xu_worker::{
    Cause, Completion, Engine, PollPolicy, Progress, Refusal, Stage, StageError, Unit, UnitOptions,
    UnitRunner,
};

/// What a test decides and observes.
#[derive(Default)]
pub(crate) struct Controls {
    /// What `progress` answers next; `Continue` when empty.
    pub(crate) answers: Vec<Progress>,
    pub(crate) prepare: Option<StageError>,
    pub(crate) commit: Option<StageError>,
    pub(crate) commit_panics: bool,
    pub(crate) panics: Option<&'static str>,
    pub(crate) finish_panics: bool,
    pub(crate) quiesce: Option<Cause>,
    /// Runs once on the worker's thread.
    pub(crate) probe: Option<Box<dyn FnOnce() + Send>>,
    pub(crate) begun: usize,
    pub(crate) finished: Vec<(u32, Status)>,
    pub(crate) log: Vec<&'static str>,
}

pub(crate) type Shared = Arc<Mutex<Controls>>;

/// Which requests were made, and how often each was destroyed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger(Arc<Mutex<BTreeMap<u32, Vec<bool>>>>);

impl Ledger {
    pub(crate) fn request(&self, id: u32) -> Request {
        self.with(|entries| entries.entry(id).or_default().push(false));
        Request {
            id,
            ledger: self.clone(),
        }
    }

    /// Requests that exist.
    pub(crate) fn alive(&self) -> usize {
        self.with(|entries| entries.values().flatten().filter(|gone| !**gone).count())
    }

    fn destroy(&self, id: u32) {
        let once = self.with(|entries| {
            let alive = entries.get_mut(&id)?.iter_mut().find(|gone| !**gone)?;
            *alive = true;
            Some(())
        });
        // Not a panic, which a destructor must not have: it is found by whoever looks at the entries.
        if once.is_none() {
            self.with(|entries| entries.insert(u32::MAX, vec![false]));
        }
    }

    fn with<T>(&self, look: impl FnOnce(&mut BTreeMap<u32, Vec<bool>>) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One destroyed twice counts as one that is alive for ever.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) id: u32,
    ledger: Ledger,
}

impl Drop for Request {
    fn drop(&mut self) {
        self.ledger.destroy(self.id);
    }
}

pub(crate) struct Steered(Shared);

impl Steered {
    fn with<T>(&self, look: impl FnOnce(&mut Controls) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Stage for Steered {
    type Item = Request;
    type Outcome = u32;

    fn prepare(&mut self, _: &mut Request) -> Result<(), StageError> {
        self.with(|controls| {
            controls.log.push("prepare");
            controls.prepare.take().map_or(Ok(()), Err)
        })
    }

    fn commit(&mut self, _: &mut Request) -> Result<(), StageError> {
        assert!(!self.with(|controls| controls.commit_panics), "out of luck");
        self.with(|controls| {
            controls.log.push("commit");
            controls.commit.take().map_or(Ok(()), Err)
        })
    }
}

impl Engine for Steered {
    type Item = Request;
    type Outcome = u32;

    fn begin(&mut self, _: &mut Request) {
        self.with(|controls| controls.begun += 1);
    }

    fn progress(&mut self, _: &mut Request) -> Progress {
        let (panics, answer) =
            self.with(|controls| (controls.panics.take(), controls.answers.pop()));
        if let Some(probe) = self.with(|controls| controls.probe.take()) {
            probe();
        }
        if let Some(message) = panics {
            panic!("{message}");
        }
        answer.unwrap_or(Progress::Continue)
    }

    fn quiesce(&mut self) -> Result<(), Cause> {
        self.with(|controls| {
            controls.log.push("quiesce");
            controls.quiesce.take().map_or(Ok(()), Err)
        })
    }

    fn finish(&mut self, request: Request, status: Status) -> u32 {
        let panics = self.with(|controls| {
            controls.finished.push((request.id, status));
            core::mem::take(&mut controls.finish_panics)
        });
        assert!(!panics, "out of luck");
        request.id
    }
}

/// Both halves of a unit, and what steers them.
pub(crate) struct Bench {
    pub(crate) unit: Unit<Steered>,
    pub(crate) runner: UnitRunner<Steered>,
    pub(crate) controls: Shared,
    pub(crate) ledger: Ledger,
}

impl Bench {
    pub(crate) fn new(limit: u64) -> Self {
        Self::with_policy(limit, PollPolicy::default())
    }

    pub(crate) fn with_policy(limit: u64, policy: PollPolicy) -> Self {
        let controls = Shared::default();
        let xu = XuId::new(XuType::Compute, 0, 0).unwrap();
        let engines = (
            Steered(Arc::clone(&controls)),
            Steered(Arc::clone(&controls)),
        );
        let options = UnitOptions {
            limit,
            policy,
            ..UnitOptions::default()
        };
        let (unit, runner) = Unit::new(xu, &options, engines.0, engines.1).unwrap();
        Self {
            unit,
            runner,
            controls,
            ledger: Ledger::default(),
        }
    }

    pub(crate) fn submit(&self, id: u32) -> Result<Completion<u32>, Refusal> {
        match self.unit.submit(self.request(id)) {
            Ok(accepted) => Ok(accepted.completion),
            Err(refused) => Err(refused.reason),
        }
    }

    pub(crate) fn request(&self, id: u32) -> Request {
        self.ledger.request(id)
    }

    /// Requests that are not dropped.
    pub(crate) fn alive(&self) -> usize {
        self.ledger.alive()
    }

    pub(crate) fn answer(&self, progress: Progress) {
        self.controls.lock().unwrap().answers.push(progress);
    }
}

pub(crate) fn request(id: u32) -> Request {
    Ledger::default().request(id)
}

pub(crate) fn cause(status: Status) -> Cause {
    Cause {
        status,
        seq: None,
        text: "broken on purpose".into(),
    }
}

pub(crate) fn fatal(status: Status) -> Progress {
    Progress::Fatal(cause(status))
}

/// Counts how often it is woken.
pub(crate) struct CountingWaker(pub(crate) AtomicUsize);

impl CountingWaker {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

pub(crate) fn counting() -> (Arc<CountingWaker>, Waker) {
    let count = Arc::new(CountingWaker(AtomicUsize::new(0)));
    (Arc::clone(&count), Waker::from(count))
}
