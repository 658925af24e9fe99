//! What a finished execution reports: its status, its times, and what the device said first.
//!
//! Made by the harvester, handed to whoever waits. Spec `xu.md` sections 2.7 and 6.

use crate::device::{Clock, MemoryErrors};
use core::fmt;
use core::time::Duration;
use xu_abi::record::ErrorKind;
use xu_abi::work_item::{InferResponse, Timespec};
use xu_abi::{Engine, Status, TpbIndex};
use zerocopy::FromZeros;

/// What a finished execution reports. A time that is not known is `None`, never 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The status, resolved over all cores.
    pub status: Status,
    /// Start of the first engine, monotonic host nanoseconds; `None` when none started.
    pub started_ns: Option<u64>,
    /// End of the last engine, monotonic host nanoseconds; `None` when none ended.
    pub ended_ns: Option<u64>,
    /// Start of the first collective, monotonic host nanoseconds.
    pub cc_started_ns: Option<u64>,
    /// End of the last collective, monotonic host nanoseconds.
    pub cc_ended_ns: Option<u64>,
}

impl Report {
    /// How long the device was busy, when both ends are known.
    #[must_use]
    pub fn device_time(&self) -> Option<Duration> {
        between(self.started_ns, self.ended_ns)
    }

    /// How long collectives took, when both ends are known.
    #[must_use]
    pub fn cc_time(&self) -> Option<Duration> {
        between(self.cc_started_ns, self.cc_ended_ns)
    }

    /// The same without the times that cannot be true: those before `from_ns`, when the execution was not there yet, and
    /// those after `to_ns`, when it was over. Both are moments of the host, nanoseconds; stamps may be off by
    /// [`Clock::LEAD`].
    ///
    /// ```
    /// use xu_device::harvest::Report;
    ///
    /// let report = Report { started_ns: Some(2_000_000_000), ended_ns: Some(u64::MAX), ..Report::default() };
    /// let believed = report.within(1_000_000_000, 3_000_000_000);
    /// assert_eq!((believed.started_ns, believed.ended_ns), (Some(2_000_000_000), None));
    /// ```
    #[must_use]
    pub fn within(self, from_ns: u64, to_ns: u64) -> Self {
        let range = from_ns.saturating_sub(Clock::LEAD)..=to_ns.saturating_add(Clock::LEAD);
        let believed = |at: Option<u64>| at.filter(|at| range.contains(at));
        Self {
            status: self.status,
            started_ns: believed(self.started_ns),
            ended_ns: believed(self.ended_ns),
            cc_started_ns: believed(self.cc_started_ns),
            cc_ended_ns: believed(self.cc_ended_ns),
        }
    }

    /// The response area of a work item that ran on core `tpb` of device `device_id`. Output information is not of
    /// the harvester's making and stays zero, as does a time that is not known.
    ///
    /// ```
    /// use xu_abi::TpbIndex;
    /// use xu_device::harvest::Report;
    ///
    /// let report = Report {
    ///     started_ns: Some(2_000_000_000),
    ///     ended_ns: Some(2_500_000_000),
    ///     ..Report::default()
    /// };
    /// let response = report.response(3, TpbIndex::new(1));
    /// assert_eq!((response.start_nd, response.start_nc), (3, 1));
    /// assert_eq!(response.mla_time, 0.5);
    /// assert_eq!((response.ts_done.sec, response.ts_done.nsec), (2, 500_000_000));
    /// ```
    #[must_use]
    pub fn response(&self, device_id: u16, tpb: TpbIndex) -> InferResponse {
        InferResponse {
            mla_time: self.device_time().unwrap_or_default().as_secs_f64(),
            ts_start: timespec(self.started_ns),
            ts_done: timespec(self.ended_ns),
            start_nd: device_id,
            start_nc: tpb.get(),
            ..InferResponse::new_zeroed()
        }
    }
}

fn between(start_ns: Option<u64>, end_ns: Option<u64>) -> Option<Duration> {
    Some(Duration::from_nanos(end_ns?.saturating_sub(start_ns?)))
}

fn timespec(ns: Option<u64>) -> Timespec {
    let since_zero = Duration::from_nanos(ns.unwrap_or_default());
    // 64 bits of nanoseconds always fit.
    Timespec::try_from(since_zero).unwrap_or_default()
}

/// Device stamps of an execution, in ticks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stamps {
    pub(super) first_start: Option<u64>,
    pub(super) last_end: Option<u64>,
    pub(super) first_cc_start: Option<u64>,
    pub(super) last_cc_end: Option<u64>,
}

impl Stamps {
    /// The stamps of an execution from those of two of its cores.
    pub(super) fn merge(self, other: Self) -> Self {
        Self {
            first_start: earliest(self.first_start, other.first_start),
            last_end: self.last_end.max(other.last_end),
            first_cc_start: earliest(self.first_cc_start, other.first_cc_start),
            last_cc_end: self.last_cc_end.max(other.last_cc_end),
        }
    }

    /// The report with these stamps, in host time.
    pub(super) fn report(self, status: Status, clock: &Clock) -> Report {
        let host_ns = |ticks: Option<u64>| ticks.map(|ticks| clock.to_host_ns(ticks));
        Report {
            status,
            started_ns: host_ns(self.first_start),
            ended_ns: host_ns(self.last_end),
            cc_started_ns: host_ns(self.first_cc_start),
            cc_ended_ns: host_ns(self.last_cc_end),
        }
    }
}

/// The earlier of two stamps, of which either may be unset.
pub(super) fn earliest(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// What a device said about why an execution did not succeed, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// An instruction accessed memory that it must not.
    OutOfBounds {
        /// The core.
        tpb: TpbIndex,
        /// The engine.
        engine: Engine,
        /// The instruction.
        line: u32,
    },
    /// The error ring said so.
    Error {
        /// The core.
        tpb: TpbIndex,
        /// The kind of error.
        kind: ErrorKind,
        /// Its detail mask.
        mask: u16,
    },
    /// The hardware has counted uncorrectable memory errors.
    Memory {
        /// The core.
        tpb: TpbIndex,
        /// How far the counters have risen.
        risen: MemoryErrors,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfBounds { tpb, engine, line } => {
                write!(
                    f,
                    "core {tpb} {engine}: out of bounds at instruction {line}"
                )
            }
            Self::Error { tpb, kind, mask } => {
                write!(f, "core {tpb}: {kind:?} error, detail mask {mask:#x}")
            }
            Self::Memory { tpb, risen } => write!(
                f,
                "core {tpb}: uncorrectable memory errors: {} in HBM, {} in HBM that a reset repairs, {} in the core",
                risen.hbm, risen.hbm_repairable, risen.sram
            ),
        }
    }
}
