//! The worker's side of the compute queue: harvest an execution, count it, give its memory back.
//!
//! Called by the unit's runner on the worker thread. Spec: `xu.md` sections 6 and 7.

use super::stage::{Distrust, Held, Run};
use super::{Ended, Execution};
use crate::pending::{Call, Outcome};
use crate::runtime::REST_LIMIT;
use crate::settings::NumericalErrors;
use crate::spans;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Arc;
use xu_abi::metric::ErrorFlag;
use xu_abi::record::ErrorKind;
use xu_abi::{Engine as DeviceEngine, Status, TpbIndex};
use xu_device::harvest::{self, Fault, Harvester, Observer, Report};
use xu_device::metrics::{ErrorFlags, Finished, Metrics};
use xu_device::{Device, DeviceError};
use xu_worker::{Cause, Description, Engine, Progress};

/// Which error flag an error of the software sequencer raises.
const SEQUENCER_FATAL: u8 = 8;

/// What an engine counts, and others read.
#[derive(Debug)]
pub(crate) struct Counts {
    pub(crate) metrics: Arc<Metrics>,
    /// Records that came after a fault.
    pub(crate) late_records: Arc<AtomicU64>,
}

/// Harvests executions.
#[derive(Debug)]
pub(crate) struct ComputeEngine {
    device: Arc<dyn Device>,
    tpbs: Vec<TpbIndex>,
    harvester: Harvester,
    counts: Counts,
    distrust: Arc<Distrust>,
    timeout: Option<Duration>,
    numerical_errors: NumericalErrors,
    /// What the log says of the execution that was finished last.
    description: Description,
    /// When the execution at the head began, until it is looked at for the first time: the clock is not read twice for that.
    begun_ns: Option<u64>,
    /// Error flags of the execution at the head, by physical core.
    flags: Flags,
    /// How the execution at the head ended; `None` while it runs, and when it never ran.
    report: Option<Report>,
    /// What the device said about an execution that ended without success.
    detail: Option<String>,
    /// Why the unit has ended, and everything behind it with it.
    fault: Option<String>,
    /// What the device may still touch after a fault: kept until the unit goes.
    quarantine: Vec<Held>,
}

impl ComputeEngine {
    /// # Errors
    /// As [`Harvester::open`].
    pub(crate) fn open(
        device: &Arc<dyn Device>,
        tpbs: &[TpbIndex],
        timeout: Option<Duration>,
        numerical_errors: NumericalErrors,
        counts: Counts,
        distrust: Arc<Distrust>,
    ) -> Result<Self, DeviceError> {
        Ok(Self {
            device: Arc::clone(device),
            tpbs: tpbs.to_vec(),
            harvester: Harvester::open(device, tpbs)?,
            counts,
            distrust,
            timeout,
            numerical_errors,
            description: Description::default(),
            begun_ns: None,
            flags: Flags::default(),
            report: None,
            detail: None,
            fault: None,
            quarantine: Vec::new(),
        })
    }

    /// Ends the unit. A status that has renamed the fault is explained by what the device said.
    fn end(&mut self, report: Report, fault: &Fault) -> Progress {
        let text = match self.harvester.reason() {
            Some(reason) => format!("{fault}: {reason}"),
            None => fault.to_string(),
        };
        self.fault = Some(text.clone());
        Progress::Fatal(Cause {
            status: report.status,
            seq: None,
            text,
        })
    }

    /// NaN in a result is an error for who wants it to be one.
    fn judge(&self, status: Status) -> Status {
        if status != Status::EXEC_COMPLETED_WITH_NUM_ERR {
            return status;
        }
        match self.numerical_errors {
            NumericalErrors::Critical => status,
            NumericalErrors::Warning => {
                spans::not_a_number(self.tpbs.first());
                Status::SUCCESS
            }
            NumericalErrors::None => Status::SUCCESS,
        }
    }

    /// Counts an execution that ran, once for each of its cores.
    fn count(&self, run: &Run, status: Status, report: &Report, now_ns: u64) {
        let since = |start: u64, end: u64| Duration::from_nanos(end.saturating_sub(start));
        for (tpb, flags) in self.tpbs.iter().zip(self.flags.by_core) {
            let finished = Finished {
                status,
                flags,
                device: report.ended_ns.map(|end| since(run.submitted_ns, end)),
                total: Some(since(run.submitted_ns, now_ns)),
                core: report.device_time(),
                cc: report.cc_time(),
            };
            // The store was made for every core of the device.
            let _ = self.counts.metrics.record(*tpb, &finished);
            self.device.publish(*tpb, &self.counts.metrics);
        }
    }
}

impl Engine for ComputeEngine {
    type Item = Run;
    type Outcome = Outcome<Ended>;

    fn begin(&mut self, run: &mut Run) {
        self.report = None;
        self.detail = None;
        self.flags = Flags::of(&self.tpbs);
        let now_ns = self.device.now_ns();
        self.begun_ns = Some(now_ns);
        self.harvester.begin(now_ns, run.staged, self.timeout);
    }

    fn progress(&mut self, _: &mut Run) -> Progress {
        let begun_ns = self.begun_ns.take();
        let now_ns = begun_ns.unwrap_or_else(|| self.device.now_ns());
        match self.harvester.step(now_ns, &mut self.flags) {
            harvest::Progress::Continue => Progress::Continue,
            harvest::Progress::Done(report) => {
                self.report = Some(report);
                self.detail = self.harvester.reason().map(|reason| reason.to_string());
                Progress::Done(self.judge(report.status))
            }
            harvest::Progress::Fatal(report, fault) => {
                self.report = Some(report);
                self.end(report, &fault)
            }
        }
    }

    fn quiesce(&mut self) -> Result<(), Cause> {
        for tpb in &self.tpbs {
            self.device
                .quiesce(*tpb, REST_LIMIT)
                .map_err(|error| Cause {
                    status: error.status(),
                    seq: None,
                    text: error.to_string(),
                })?;
        }
        Ok(())
    }

    fn model(&self, run: &Run) -> u32 {
        run.model
    }

    fn finish(&mut self, run: Run, status: Status) -> Outcome<Ended> {
        if !status.is_success() {
            self.distrust.raise();
        }
        let now_ns = self.device.now_ns();
        // A time that cannot be true is none: stamps are the device's word.
        let report = self
            .report
            .take()
            .map(|report| report.within(run.submitted_ns, now_ns));
        if let Some(report) = &report {
            self.count(&run, status, report, now_ns);
        }
        if self.fault.is_some() {
            let late = self.harvester.late_records();
            // Relaxed: the count stands for itself.
            self.counts.late_records.store(late, Ordering::Relaxed);
        }
        let unexplained = || self.fault.clone().or_else(|| self.distrust.cause());
        let detail = match self.detail.take() {
            None if !status.is_success() => unexplained(),
            detail => detail,
        };
        let held = if self.fault.is_some() || report.is_none() {
            // It did not end, or never began: the device may still read and write what it names.
            self.quarantine.push(run.held);
            None
        } else {
            Some(run.held)
        };
        let report = report.unwrap_or_default();
        self.description.device_time = report.device_time();
        Outcome {
            call: Call::Execute,
            status,
            detail: detail.map(String::into_boxed_str),
            value: Ended {
                execution: Execution {
                    device_time: report.device_time(),
                    collectives_time: report.cc_time(),
                },
                held,
            },
        }
    }

    fn describe(&self) -> Description {
        self.description
    }
}

/// Takes down what the harvester says on the side: error flags for the counters, the rest for the log.
#[derive(Clone, Copy, Debug)]
struct Flags {
    first: TpbIndex,
    by_core: [ErrorFlags; xu_device::stage::MAX_TPBS],
}

impl Default for Flags {
    fn default() -> Self {
        Self {
            first: TpbIndex::new(0),
            by_core: [ErrorFlags::NONE; xu_device::stage::MAX_TPBS],
        }
    }
}

impl Flags {
    /// None yet, for these cores.
    fn of(tpbs: &[TpbIndex]) -> Self {
        Self {
            first: tpbs.first().copied().unwrap_or(TpbIndex::new(0)),
            ..Self::default()
        }
    }
}

impl Observer for Flags {
    fn barrier_overdue(&mut self, tpb: TpbIndex, waited: Duration) {
        spans::barrier_overdue(tpb, waited);
    }

    fn debug_value(&mut self, tpb: TpbIndex, engine: DeviceEngine, value: u32) {
        spans::debug_value(tpb, engine, value);
    }

    fn device_error(&mut self, tpb: TpbIndex, kind: ErrorKind, mask: u16) {
        spans::device_error(tpb, kind, mask);
        let place = usize::from(tpb.get().wrapping_sub(self.first.get()));
        if kind == ErrorKind::SoftwareSequencer
            && let Some(flags) = self.by_core.get_mut(place)
            && let Some(flag) = ErrorFlag::new(SEQUENCER_FATAL)
        {
            *flags = flags.with(flag);
        }
    }
}
