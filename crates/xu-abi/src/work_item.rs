//! The 208-byte work item and the response area inside it.
//!
//! The bytes that a slot's `exec_info` points at in the original. Our units hand over typed Rust
//! values instead; this layout is for code that shares memory with the original's clients.
//! Spec `xu.md` sections 2.6 and 2.7.
//!
//! # One storage, two views
//!
//! The path that schedules a request and the arm that executes it use the same 208 bytes, and two names for some
//! of them:
//!
//! ```text
//!  0x00    0x28                                                          0x98       0xC8   0xD0
//!   | kind  | resp: combined_output_info | mla_time, ts_* | start_nd, _nc | wait_* | sync_exec   WorkItem
//!   |       |    | submission_ts |                        | device_id, _tpb_idx | | sync_exec    ScheduleView
//!               0x38            0x48                     0x90                     0xC8
//! ```
//!
//! | bytes | until completion | after |
//! |---|---|---|
//! | 0x38 to 0x47 | [`ScheduleView::submission_ts`], monotonic | part of [`InferResponse::combined_output_info`] |
//! | 0x90 to 0x93 | [`ScheduleView::device_id`], [`ScheduleView::device_tpb_idx`] | the same numbers as [`InferResponse::start_nd`], [`InferResponse::start_nc`] |
//!
//! Neither view knows whether the request is complete; who reads the submission time must.
//! Times are checked when they are read: what output information left there is rarely a time.
//!
//! ```
//! use xu_abi::work_item::{Timespec, WorkItem, WorkKind};
//!
//! let mut item = WorkItem::new(WorkKind::Execute);
//! let schedule = item.schedule_mut();
//! schedule.submission_ts = Timespec::new(7, 250_000_000)?;
//! schedule.device_id = 3;
//!
//! assert_eq!(item.work_kind(), Ok(WorkKind::Execute));
//! assert_eq!(item.resp.start_nd, 3);
//! assert_eq!(item.schedule().submission_duration()?.as_millis(), 7250);
//!
//! item.resp.combined_output_info = [u64::MAX; 8];
//! assert!(item.schedule().submission_duration().is_err());
//! # Ok::<(), xu_abi::OutOfRange>(())
//! ```

use crate::layout::{assert_layout, bytes_of};
use crate::range::OutOfRange;
use core::time::Duration;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// Seconds and nanoseconds of the monotonic clock.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Timespec {
    /// Whole seconds.
    pub sec: i64,
    /// Nanoseconds, 0 to 999,999,999.
    pub nsec: i64,
}

assert_layout! { Timespec is "timespec" in "xu.md 2.7": 16 bytes, align 8; sec @ 0x00 nsec @ 0x08 }
bytes_of! { Timespec: 16 }

impl Timespec {
    /// Nanoseconds of a second.
    pub const NANOS_PER_SEC: i64 = 1_000_000_000;

    /// A time.
    ///
    /// # Errors
    /// [`OutOfRange`] when `nsec` is not below a second.
    pub const fn new(sec: i64, nsec: u32) -> Result<Self, OutOfRange> {
        // CAST: widening.
        let time = Self {
            sec,
            nsec: nsec as i64,
        };
        match time.checked() {
            Ok(()) => Ok(time),
            Err(refused) => Err(refused),
        }
    }

    /// Whether the nanoseconds are those of one second.
    ///
    /// # Errors
    /// [`OutOfRange`] when they are not.
    pub const fn checked(self) -> Result<(), OutOfRange> {
        if 0 <= self.nsec && self.nsec < Self::NANOS_PER_SEC {
            return Ok(());
        }
        Err(OutOfRange {
            what: "nanoseconds of a time",
            value: self.nsec.cast_unsigned(),
            allowed: "0 to 999999999",
        })
    }
}

/// The time since the clock's zero.
impl TryFrom<Timespec> for Duration {
    type Error = OutOfRange;

    fn try_from(time: Timespec) -> Result<Self, OutOfRange> {
        time.checked()?;
        match u64::try_from(time.sec) {
            // CAST: below a second, as checked.
            Ok(sec) => Ok(Self::new(sec, time.nsec as u32)),
            Err(_) => Err(OutOfRange {
                what: "seconds of a time",
                value: time.sec.cast_unsigned(),
                allowed: "0 to 9223372036854775807",
            }),
        }
    }
}

impl TryFrom<Duration> for Timespec {
    type Error = OutOfRange;

    fn try_from(time: Duration) -> Result<Self, OutOfRange> {
        match i64::try_from(time.as_secs()) {
            Ok(sec) => Self::new(sec, time.subsec_nanos()),
            Err(_) => Err(OutOfRange {
                what: "seconds of a time",
                value: time.as_secs(),
                allowed: "0 to 9223372036854775807",
            }),
        }
    }
}

/// What an execution reports besides its status (112 bytes).
#[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct InferResponse {
    /// Output information; holds the submission time until completion.
    pub combined_output_info: [u64; 8],
    /// Device time, seconds.
    pub mla_time: f64,
    /// First engine's start.
    pub ts_start: Timespec,
    /// Last engine's end.
    pub ts_done: Timespec,
    /// Device id.
    pub start_nd: u16,
    /// Physical core on the device.
    pub start_nc: u16,
    /// Never read or written.
    pub pad_6c: [u8; 4],
}

assert_layout! { InferResponse is "infer_resp_t" in "xu.md 2.7": 112 bytes, align 8;
combined_output_info @ 0x00  mla_time @ 0x40  ts_start @ 0x48  ts_done @ 0x58
start_nd @ 0x68  start_nc @ 0x6A  pad_6c @ 0x6C }
bytes_of! { InferResponse: 112 }

/// What a work item asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum WorkKind {
    /// Run a model.
    Execute = WorkItem::EXECUTE,
    /// Quiesce the device.
    Stop = WorkItem::STOP,
}

impl WorkKind {
    /// Both kinds, by value.
    pub const ALL: [Self; 2] = [Self::Execute, Self::Stop];

    /// The kind with this ABI value.
    ///
    /// # Errors
    /// [`OutOfRange`] for any value but 0 and 1.
    pub const fn from_raw(raw: u32) -> Result<Self, OutOfRange> {
        match raw {
            WorkItem::EXECUTE => Ok(Self::Execute),
            WorkItem::STOP => Ok(Self::Stop),
            _ => Err(OutOfRange {
                what: "kind of a work item",
                // CAST: widening.
                value: raw as u64,
                allowed: "0, 1",
            }),
        }
    }

    /// The ABI value.
    #[must_use]
    pub const fn raw(self) -> u32 {
        self as u32
    }
}

impl TryFrom<u32> for WorkKind {
    type Error = OutOfRange;

    fn try_from(raw: u32) -> Result<Self, OutOfRange> {
        Self::from_raw(raw)
    }
}

/// One scheduled execution or stop, as the arm that executes it sees it.
#[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct WorkItem {
    /// [`WorkItem::EXECUTE`] or [`WorkItem::STOP`].
    pub kind: u32,
    /// Never read or written.
    pub pad_04: u32,
    /// Reference-counted model, released by the worker.
    pub mod_ref: u64,
    /// Bound resources, freed by the worker.
    pub resources: u64,
    /// Index of the whole multi-core execution.
    pub compute_idx: u64,
    /// Set when the queue was idle at submit.
    pub sync_point_cpu_timestamp: u64,
    /// Filled at completion.
    pub resp: InferResponse,
    /// Trace span data.
    pub wait_event_data: [u64; 5],
    /// Trace span id.
    pub wait_event_tracking_id: u64,
    /// 1 for a blocking execution.
    pub sync_exec: u8,
    /// Never read or written.
    pub pad_c9: [u8; 7],
}

assert_layout! { WorkItem is "tpb_execution_info_t" in "xu.md 2.6": 208 bytes, align 8;
kind @ 0x00  pad_04 @ 0x04  mod_ref @ 0x08  resources @ 0x10  compute_idx @ 0x18
sync_point_cpu_timestamp @ 0x20  resp @ 0x28  wait_event_data @ 0x98
wait_event_tracking_id @ 0xC0  sync_exec @ 0xC8  pad_c9 @ 0xC9 }
bytes_of! { WorkItem: 208 }

impl WorkItem {
    /// Run a model.
    pub const EXECUTE: u32 = 0;
    /// Quiesce the device.
    pub const STOP: u32 = 1;

    /// Offset of the submission time from the start of the work item, bytes.
    pub const SUBMISSION_TIME_OFFSET: usize = 0x38;

    /// A work item of this kind, all else zero.
    #[must_use]
    pub fn new(kind: WorkKind) -> Self {
        Self {
            kind: kind.raw(),
            ..Self::new_zeroed()
        }
    }

    /// What the item asks for.
    ///
    /// # Errors
    /// [`OutOfRange`] when `kind` is neither 0 nor 1.
    pub const fn work_kind(&self) -> Result<WorkKind, OutOfRange> {
        WorkKind::from_raw(self.kind)
    }

    /// The same bytes as the path that scheduled the request sees them.
    #[must_use]
    pub const fn schedule(&self) -> &ScheduleView {
        zerocopy::transmute_ref!(self)
    }

    /// The same bytes as the path that schedules the request writes them.
    #[must_use]
    pub fn schedule_mut(&mut self) -> &mut ScheduleView {
        zerocopy::transmute_mut!(self)
    }

    /// The submission time that the schedule path stored; meaningless after completion.
    ///
    /// Any bits come back as they are: [`ScheduleView::submission_duration`] checks them.
    #[must_use]
    pub const fn submission_time(&self) -> Timespec {
        self.schedule().submission_ts
    }

    /// Stores the submission time where the schedule path keeps it.
    pub fn set_submission_time(&mut self, at: Timespec) {
        self.schedule_mut().submission_ts = at;
    }
}

/// A work item as the path that schedules it sees it: the same 208 bytes, see the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ScheduleView {
    /// What [`WorkItem`] says about these bytes.
    pub other_00: [u8; 0x38],
    /// When the request was submitted, monotonic clock; valid until completion.
    pub submission_ts: Timespec,
    /// What [`WorkItem`] says about these bytes.
    pub other_48: [u8; 0x48],
    /// Device id.
    pub device_id: u16,
    /// Physical core on the device.
    pub device_tpb_idx: u16,
    /// What [`WorkItem`] says about these bytes.
    pub other_94: [u8; 0x34],
    /// 1 for a blocking execution.
    pub sync_exec: u8,
    /// Never read or written.
    pub pad_c9: [u8; 7],
}

assert_layout! { ScheduleView is "tpb_execution_info_t, schedule view" in "xu.md 2.7": 208 bytes, align 8;
other_00 @ 0x00  submission_ts @ 0x38  other_48 @ 0x48  device_id @ 0x90  device_tpb_idx @ 0x92
other_94 @ 0x94  sync_exec @ 0xC8  pad_c9 @ 0xC9 }
bytes_of! { ScheduleView: 208 }

// The two views agree on what they share.
const _: () = {
    use core::mem::offset_of;

    let resp = offset_of!(WorkItem, resp);
    assert!(offset_of!(ScheduleView, device_id) == resp + offset_of!(InferResponse, start_nd));
    assert!(offset_of!(ScheduleView, device_tpb_idx) == resp + offset_of!(InferResponse, start_nc));
    assert!(offset_of!(ScheduleView, sync_exec) == offset_of!(WorkItem, sync_exec));
    assert!(offset_of!(ScheduleView, submission_ts) == WorkItem::SUBMISSION_TIME_OFFSET);
    assert!(WorkItem::SUBMISSION_TIME_OFFSET + size_of::<Timespec>() <= resp + 64);
};

impl ScheduleView {
    /// The same bytes as the arm that executes the request sees them.
    #[must_use]
    pub const fn execute(&self) -> &WorkItem {
        zerocopy::transmute_ref!(self)
    }

    /// The submission time since the clock's zero.
    ///
    /// # Errors
    /// [`OutOfRange`] when the bytes are no time, as after completion.
    pub fn submission_duration(&self) -> Result<Duration, OutOfRange> {
        self.submission_ts.try_into()
    }

    /// Whether the caller blocks until the execution is complete.
    ///
    /// # Errors
    /// [`OutOfRange`] when the byte is neither 0 nor 1.
    pub const fn is_sync(&self) -> Result<bool, OutOfRange> {
        match self.sync_exec {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(OutOfRange {
                what: "sync_exec of a work item",
                // CAST: widening.
                value: other as u64,
                allowed: "0, 1",
            }),
        }
    }
}
