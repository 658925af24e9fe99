//! From notification records to the status of an execution.
//!
//! Driven by the compute engine on the worker thread, one step at a time; a step never blocks.
//! Rules: spec `xu.md` section 6.
//!
//! ```text
//!  begin        step ...                         step ...
//!  -----> WaitBarrier ---- barrier clear -------> WaitCore ---- all engines complete ---> Done
//!           | warns, does not fail for waiting     | per engine: START_PENDING -> END_PENDING -> COMPLETE
//!           '                                      '-- out of order, unexpected, overflow, timeout --> Fatal
//! ```
//!
//! | module | subject |
//! |---|---|
//! | [`matcher`] | what one record means to the engine that posted it: pure |
//! | `tpb` | the rings of one core and how far it is |
//! | `error_ring` | device errors: whose they are, each kind once |
//! | [`verdict`] | from all that was found to a status: pure |
//! | `report` | the answer: status and times |
//! | `observer` | what is told on the side |
//!
//! Records carry no request id, so order is everything: an engine's queue is not read past the END of the
//! execution at hand (what follows belongs to the next one), and error records are told apart by their
//! time stamp.
//! The deadline runs from the moment the barrier is clear, and is judged only after a sweep that found
//! every ring empty: what is already in a ring is never reported as a timeout.
//! The first fault ends the harvester: no record can be told from a leftover any more. Nothing here allocates
//! memory unless an execution fails.

mod error_ring;
pub mod matcher;
mod observer;
mod report;
mod tpb;
pub mod verdict;

pub use observer::Observer;
pub use report::{Reason, Report};
pub use verdict::Fault;

use self::report::Stamps;
use self::tpb::{Core, Execution, NQ_ENTRIES, SWEEP, elapsed};
use self::verdict::Verdict;
use crate::device::{Clock, Device, DeviceError};
use crate::nq::Mode;
use crate::stage::{Staged, check_tpbs};
use core::time::Duration;
use std::sync::Arc;
use xu_abi::TpbIndex;

/// Sweeps that read a whole ring: a device that posts without end must not put its deadline off for ever.
const OVERDUE_SWEEPS: u32 = NQ_ENTRIES / SWEEP;
/// First wait after which a collectives barrier is worth a warning; doubles each time.
const BARRIER_WARNING: Duration = Duration::from_secs(120);
/// How often the request queue is asked whether it still runs, while a barrier stands.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// Age of a reading of the clocks at which the next execution takes a new one. Two crystals that differ by a hundred
/// parts in a million drift apart by 10 µs in that time.
const CLOCK_READING_AGE: Duration = Duration::from_millis(100);

/// What one step found.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub enum Progress {
    /// Still running.
    Continue,
    /// Complete; the unit stays usable whatever the status.
    Done(Report),
    /// Complete, and the unit must take no more work.
    Fatal(Report, Fault),
}

#[derive(Debug)]
enum State {
    /// No execution has begun, or the last one is done.
    Idle,
    WaitBarrier {
        since_ns: u64,
        warn_after: Duration,
        /// When to ask whether the request queue still runs.
        ask_after: Duration,
    },
    WaitCore {
        since_ns: u64,
    },
    /// A fault has ended the unit; `begun` says that somebody began an execution all the same.
    Ended {
        begun: bool,
    },
}

/// The harvester of one compute unit. It serves one execution at a time.
#[derive(Debug)]
pub struct Harvester {
    device: Arc<dyn Device>,
    clock: Clock,
    arch: u8,
    cores: Vec<Core>,
    state: State,
    timeout: Option<Duration>,
    /// Sweeps since the time limit that found something all the same.
    overdue_sweeps: u32,
    barrier_warnings: u64,
    late_records: u64,
}

impl Harvester {
    /// Opens the status and error queues of every core in `tpbs`, to be read by phase.
    ///
    /// Barriers are counted from here on, so the stager of the same cores, whose opening may reset the count, is
    /// opened first.
    ///
    /// # Errors
    /// [`DeviceError::BadArgument`] unless there are one or two cores; as [`NqReader::open`](crate::nq::NqReader::open),
    /// [`Device::read_semaphore`] and [`Device::memory_errors`].
    pub fn open(device: &Arc<dyn Device>, tpbs: &[TpbIndex]) -> Result<Self, DeviceError> {
        Self::open_in(Mode::Phase, device, tpbs)
    }

    /// As [`Harvester::open`], for queues that are read in `mode`.
    ///
    /// # Errors
    /// As [`Harvester::open`].
    pub fn open_in(
        mode: Mode,
        device: &Arc<dyn Device>,
        tpbs: &[TpbIndex],
    ) -> Result<Self, DeviceError> {
        check_tpbs(tpbs)?;
        let cores = tpbs
            .iter()
            .map(|&tpb| Core::open(mode, device, tpb))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            device: Arc::clone(device),
            clock: device.clock(),
            arch: device.shape().arch,
            cores,
            state: State::Idle,
            timeout: None,
            overdue_sweeps: 0,
            barrier_warnings: 0,
            late_records: 0,
        })
    }

    /// Takes up the execution at the head of the queue; the one before it is over. `timeout` of `None` waits for ever.
    ///
    /// After a fault nothing can begin: the next step says so.
    pub fn begin(&mut self, now_ns: u64, staged: Staged, timeout: Option<Duration>) {
        if let State::Ended { begun } = &mut self.state {
            *begun = true;
            return;
        }
        if elapsed(self.clock.host_ns, now_ns) >= CLOCK_READING_AGE {
            self.clock = self.device.clock();
        }
        for (core, barrier) in self.cores.iter_mut().zip(staged.barriers) {
            core.execution = Execution::begun(barrier);
        }
        self.timeout = timeout;
        self.overdue_sweeps = 0;
        self.state = State::WaitBarrier {
            since_ns: now_ns,
            warn_after: BARRIER_WARNING,
            ask_after: ASK_EVERY,
        };
    }

    /// How often a collectives barrier has outlasted its warning threshold.
    #[must_use]
    pub fn barrier_warnings(&self) -> u64 {
        self.barrier_warnings
    }

    /// What the device said first about why the last execution did not succeed.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        self.cores.iter().find_map(|core| core.execution.reason)
    }

    /// Counts the records that have come since a fault ended the unit, and forgets them: they change no verdict. Reads
    /// at most a ring of each engine, and nothing while the unit is well.
    pub fn late_records(&mut self) -> u64 {
        if let State::Ended { .. } = self.state {
            self.late_records += self.cores.iter_mut().map(Core::discard).sum::<u64>();
        }
        self.late_records
    }

    /// Looks once at what the device has to say. `now_ns` is monotonic host time, on the scale of
    /// [`Device::now_ns`].
    pub fn step(&mut self, now_ns: u64, observer: &mut dyn Observer) -> Progress {
        if let State::Ended { begun } = &mut self.state {
            return if core::mem::take(begun) {
                refuse()
            } else {
                Progress::Continue
            };
        }
        let mut verdict = Verdict::default();
        match self.advance(now_ns, &mut verdict, observer) {
            Ok(false) => return Progress::Continue,
            Ok(true) => {}
            Err(fault) => verdict.end(fault),
        }
        self.finish(verdict, observer)
    }

    /// Whether the execution is over now.
    fn advance(
        &mut self,
        now_ns: u64,
        verdict: &mut Verdict,
        observer: &mut dyn Observer,
    ) -> Result<bool, Fault> {
        if let State::WaitBarrier {
            since_ns,
            warn_after,
            ask_after,
        } = self.state
        {
            let device = self.device.as_ref();
            if let Some(core) = standing_barrier(&mut self.cores, device)? {
                let waited = elapsed(since_ns, now_ns);
                if waited >= ask_after {
                    core.check_request_queue(device, observer)?;
                }
                if waited >= warn_after {
                    observer.barrier_overdue(core.tpb, waited);
                    self.barrier_warnings += 1;
                }
                let again = |after: Duration, next| if waited >= after { next } else { after };
                self.state = State::WaitBarrier {
                    since_ns,
                    warn_after: again(warn_after, warn_after.saturating_mul(2)),
                    ask_after: again(ask_after, waited.saturating_add(ASK_EVERY)),
                };
                return Ok(false);
            }
            self.state = State::WaitCore { since_ns: now_ns };
        }
        let State::WaitCore { since_ns } = self.state else {
            return Ok(false);
        };
        let mut read = 0;
        // Every core, whatever one of them says: where they disagree the stronger fault stands.
        for core in &mut self.cores {
            match core.sweep(self.device.as_ref(), self.arch, observer) {
                Ok(records) => read += records,
                Err(fault) => verdict.end(fault),
            }
        }
        if !verdict.is_success() {
            return Ok(true);
        }
        if self.cores.iter().all(|core| core.execution.is_complete()) {
            return Ok(true);
        }
        if read == 0 {
            // The next step may be long in coming.
            for core in &mut self.cores {
                core.acknowledge(self.device.as_ref())?;
            }
        }
        self.judge_deadline(elapsed(since_ns, now_ns), read)?;
        Ok(false)
    }

    /// Fails when time is up after a sweep that `read` so many records.
    fn judge_deadline(&mut self, ran: Duration, read: u32) -> Result<(), Fault> {
        let Some(limit) = self.timeout.filter(|limit| ran >= *limit) else {
            return Ok(());
        };
        self.overdue_sweeps += 1;
        // What was in a ring when time ran out has been read by the last of these sweeps.
        if read > 0 && self.overdue_sweeps <= OVERDUE_SWEEPS {
            return Ok(());
        }
        for core in &self.cores {
            if core.overflowed(self.device.as_ref())? {
                return Err(Fault::Overflow { tpb: core.tpb });
            }
        }
        for core in &self.cores {
            let (started, not_started) = core.execution.pending();
            if !(started.is_empty() && not_started.is_empty()) {
                return Err(Fault::Timeout {
                    tpb: core.tpb,
                    limit,
                    started,
                    not_started,
                });
            }
        }
        Ok(())
    }

    /// Collects all that is known about the execution, and decides whether the unit can go on.
    fn finish(&mut self, mut verdict: Verdict, observer: &mut dyn Observer) -> Progress {
        for core in &mut self.cores {
            core.sweep_errors(self.device.as_ref(), &mut verdict, observer);
        }
        if !verdict.is_success() {
            for core in &mut self.cores {
                core.inquire(self.device.as_ref(), &mut verdict, observer);
            }
        }
        let stamps = self.cores.iter().map(|core| core.execution.stamps);
        let stamps = stamps.fold(Stamps::default(), Stamps::merge);
        let report = stamps.report(verdict.status(), &self.clock);
        match verdict.into_fault() {
            None => {
                self.state = State::Idle;
                Progress::Done(report)
            }
            Some(fault) => {
                self.state = State::Ended { begun: false };
                Progress::Fatal(report, fault)
            }
        }
    }
}

/// The first core that its barrier holds back.
fn standing_barrier<'c>(
    cores: &'c mut [Core],
    device: &dyn Device,
) -> Result<Option<&'c Core>, Fault> {
    for core in cores {
        if !core.barrier_over(device)? {
            return Ok(Some(core));
        }
    }
    Ok(None)
}

/// The answer to an execution that began after the unit had ended.
fn refuse() -> Progress {
    let fault = Fault::UnitEnded;
    let report = Report {
        status: fault.status(),
        ..Report::default()
    };
    Progress::Fatal(report, fault)
}
