//! The 208-byte work item and the response area inside it.
//!
//! The bytes that a slot's `exec_info` points at in the original. Our units hand over typed Rust
//! values instead; this layout is for code that shares memory with the original's clients.
//! Spec `xu.md` sections 2.6 and 2.7.
//!
//! One storage, two views. Until completion the schedule path keeps its submission time inside what
//! later becomes `resp.combined_output_info`: read it through [`WorkItem::submission_time`].

use crate::layout::assert_layout;

/// Seconds and nanoseconds of the monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Timespec {
    /// Whole seconds.
    pub sec: i64,
    /// Nanoseconds, 0 to 999,999,999.
    pub nsec: i64,
}

assert_layout! { Timespec: 16 bytes, align 8; sec @ 0x00 nsec @ 0x08 }

/// What an execution reports besides its status (112 bytes).
#[derive(Clone, Copy, Debug)]
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

assert_layout! { InferResponse: 112 bytes, align 8;
combined_output_info @ 0x00  mla_time @ 0x40  ts_start @ 0x48  ts_done @ 0x58
start_nd @ 0x68  start_nc @ 0x6A  pad_6c @ 0x6C }

/// One scheduled execution or stop.
#[derive(Clone, Copy, Debug)]
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

assert_layout! { WorkItem: 208 bytes, align 8;
kind @ 0x00  pad_04 @ 0x04  mod_ref @ 0x08  resources @ 0x10  compute_idx @ 0x18
sync_point_cpu_timestamp @ 0x20  resp @ 0x28  wait_event_data @ 0x98
wait_event_tracking_id @ 0xC0  sync_exec @ 0xC8  pad_c9 @ 0xC9 }

impl WorkItem {
    /// Run a model.
    pub const EXECUTE: u32 = 0;
    /// Quiesce the device.
    pub const STOP: u32 = 1;

    /// Offset of the submission time from the start of the work item.
    pub const SUBMISSION_TIME_OFFSET: usize = 0x38;
    const SUBMISSION_WORD: usize =
        (Self::SUBMISSION_TIME_OFFSET - core::mem::offset_of!(Self, resp)) / 8;

    /// The submission time that the schedule path stored; meaningless after completion.
    #[must_use]
    pub const fn submission_time(&self) -> Timespec {
        let words = &self.resp.combined_output_info;
        Timespec {
            sec: words[Self::SUBMISSION_WORD].cast_signed(),
            nsec: words[Self::SUBMISSION_WORD + 1].cast_signed(),
        }
    }

    /// Stores the submission time where the schedule path keeps it.
    pub const fn set_submission_time(&mut self, at: Timespec) {
        let words = &mut self.resp.combined_output_info;
        words[Self::SUBMISSION_WORD] = at.sec.cast_unsigned();
        words[Self::SUBMISSION_WORD + 1] = at.nsec.cast_unsigned();
    }
}
