//! A harvester, its scripted device, and the records that a core posts.

use crate::scripted::{CLOCK, Scripted};
use core::time::Duration;
use std::sync::Arc;
use xu_abi::device::ERROR_NQ;
use xu_abi::record::{ErrorKind, Subtype};
use xu_abi::{Engine, ErrorRecord, Status, StatusRecord, TpbIndex};
use xu_device::harvest::{Fault, Harvester, Observer, Progress, Report};
use xu_device::map;
use xu_device::stage::Staged;
use zerocopy::little_endian::U16;
use zerocopy::transmute;

pub(crate) const FIRST: TpbIndex = TpbIndex::new(0);
pub(crate) const SECOND: TpbIndex = TpbIndex::new(1);
/// The limit of every execution that has one.
pub(crate) const LIMIT: Duration = Duration::from_secs(2);
/// A device time later than the start of the clock.
pub(crate) const TICK: u64 = 10_000;

/// Every core passes one barrier first; [`Bench::open`] says that it has.
pub(crate) const STAGED: Staged = Staged {
    compute_idx: 0,
    barriers: [Some(1); 2],
};

/// One or two cores and their harvester.
pub(crate) struct Bench {
    pub(crate) scripted: Arc<Scripted>,
    pub(crate) harvester: Harvester,
    /// What the observer of every step was told.
    pub(crate) heard: Heard,
}

/// Writes down what it is told.
#[derive(Debug, Default)]
pub(crate) struct Heard(pub(crate) Vec<News>);

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum News {
    BarrierOverdue(TpbIndex, Duration),
    TensorDone(TpbIndex, Engine, u32),
    DebugValue(TpbIndex, Engine, u32),
    TensorRead(TpbIndex, Engine, u32),
    DeviceError(TpbIndex, ErrorKind, u16),
}

impl Observer for Heard {
    fn barrier_overdue(&mut self, tpb: TpbIndex, waited: Duration) {
        self.0.push(News::BarrierOverdue(tpb, waited));
    }

    fn tensor_done(&mut self, tpb: TpbIndex, engine: Engine, id: u32) {
        self.0.push(News::TensorDone(tpb, engine, id));
    }

    fn debug_value(&mut self, tpb: TpbIndex, engine: Engine, value: u32) {
        self.0.push(News::DebugValue(tpb, engine, value));
    }

    fn tensor_read(&mut self, tpb: TpbIndex, engine: Engine, id: u32) {
        self.0.push(News::TensorRead(tpb, engine, id));
    }

    fn device_error(&mut self, tpb: TpbIndex, kind: ErrorKind, mask: u16) {
        self.0.push(News::DeviceError(tpb, kind, mask));
    }
}

impl Bench {
    /// One core of generation 2 with an execution that has begun at time 0 with [`LIMIT`].
    pub(crate) fn begun() -> Self {
        Self::begun_with(2, &[FIRST])
    }

    pub(crate) fn begun_with(arch: u8, tpbs: &[TpbIndex]) -> Self {
        let mut bench = Self::open(arch, tpbs);
        bench.harvester.begin(0, STAGED, Some(LIMIT));
        bench
    }

    pub(crate) fn open(arch: u8, tpbs: &[TpbIndex]) -> Self {
        let (scripted, device) = Scripted::new(arch);
        let harvester = Harvester::open(&device, tpbs).unwrap();
        Self::around(scripted, harvester)
    }

    /// A harvester that was opened by the test itself.
    pub(crate) fn around(scripted: Arc<Scripted>, harvester: Harvester) -> Self {
        for tpb in [FIRST, SECOND] {
            scripted.set_semaphore(tpb, map::COLLECTIVES_BARRIER, 1);
        }
        scripted.forget();
        Self {
            scripted,
            harvester,
            heard: Heard::default(),
        }
    }

    pub(crate) fn post(&self, tpb: TpbIndex, engine: Engine, record: StatusRecord) {
        self.scripted
            .post(tpb, engine.status_nq(), transmute!(record));
    }

    pub(crate) fn post_error(&self, tpb: TpbIndex, kind: ErrorKind, at: u64) {
        let record = ErrorRecord::new(kind, 0, at);
        self.scripted.post(tpb, ERROR_NQ, transmute!(record));
    }

    pub(crate) fn start(&self, tpb: TpbIndex, engine: Engine, at: u64) {
        self.post(tpb, engine, start(at));
    }

    pub(crate) fn end(&self, tpb: TpbIndex, engine: Engine, at: u64) {
        self.post(tpb, engine, end(at));
    }

    /// Both records of every engine but `engine`.
    pub(crate) fn complete_all_but(&self, tpb: TpbIndex, engine: Engine) {
        for other in Engine::ALL.into_iter().filter(|other| *other != engine) {
            self.start(tpb, other, TICK);
            self.end(tpb, other, TICK + 10);
        }
    }

    /// Both records of every engine, the last END at `end`.
    pub(crate) fn complete(&self, tpb: TpbIndex, end: u64) {
        for engine in Engine::ALL {
            self.start(tpb, engine, end - 10);
            self.end(tpb, engine, end);
        }
    }

    pub(crate) fn step(&mut self, now: Duration) -> Progress {
        self.harvester.step(now.as_nanos() as u64, &mut self.heard)
    }

    /// A step at time 0.
    pub(crate) fn look(&mut self) -> Progress {
        self.step(Duration::ZERO)
    }

    /// Steps at time 0 until the execution is over.
    pub(crate) fn run(&mut self) -> Progress {
        for _ in 0..1_000 {
            match self.look() {
                Progress::Continue => {}
                over => return over,
            }
        }
        panic!("the execution does not end");
    }
}

/// The core stands before its barrier.
pub(crate) fn hold(bench: &Bench, tpb: TpbIndex) {
    passed(bench, tpb, 0);
}

/// The core has passed its barrier.
pub(crate) fn pass(bench: &Bench, tpb: TpbIndex) {
    passed(bench, tpb, 1);
}

/// The core has passed so many barriers.
pub(crate) fn passed(bench: &Bench, tpb: TpbIndex, barriers: i32) {
    bench
        .scripted
        .set_semaphore(tpb, map::COLLECTIVES_BARRIER, barriers);
}

/// An execution with [`LIMIT`] was late.
pub(crate) fn timeout(tpb: TpbIndex, started: &[Engine], not_started: &[Engine]) -> Fault {
    Fault::Timeout {
        tpb,
        limit: LIMIT,
        started: started.to_vec(),
        not_started: not_started.to_vec(),
    }
}

pub(crate) fn start(at: u64) -> StatusRecord {
    StatusRecord::new(Subtype::Start, 4, at)
}

pub(crate) fn end(at: u64) -> StatusRecord {
    StatusRecord::new(Subtype::End, 4, at)
}

pub(crate) fn custom(sub_id: u16) -> StatusRecord {
    StatusRecord {
        custom_sub_id: U16::new(sub_id),
        ..StatusRecord::new(Subtype::Custom, 4, TICK)
    }
}

pub(crate) fn of_subtype(raw: u16) -> StatusRecord {
    StatusRecord {
        subtype: U16::new(raw),
        ..StatusRecord::new(Subtype::Start, 4, TICK)
    }
}

/// Host time of a device time, by the scripted clock: 1.5 ns a tick.
pub(crate) fn host_ns(ticks: u64) -> u64 {
    CLOCK.host_ns + (ticks - CLOCK.ticks) * 3 / 2
}

/// The status of an execution that is over and left its unit usable.
#[track_caller]
pub(crate) fn done(progress: Progress) -> Report {
    match progress {
        Progress::Done(report) => report,
        other => panic!("not done: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn assert_done(progress: Progress, status: Status) {
    assert_eq!(done(progress).status, status);
}

#[track_caller]
pub(crate) fn assert_fatal(progress: Progress, status: Status, fault: &Fault) {
    match progress {
        Progress::Fatal(report, found) => {
            assert_eq!((report.status, &found), (status, fault));
        }
        other => panic!("not fatal: {other:?}"),
    }
}
