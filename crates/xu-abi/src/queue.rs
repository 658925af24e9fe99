//! The ring as other code sees it in memory: header and slot.
//!
//! Written and read by `xu_ring` through atomics with these offsets. Spec `xu.md` sections 2.1 and 2.2.

use crate::layout::{assert_layout, bytes_of};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The 256-byte ring header: identity, buffer, and three cursors on a cache line each.
///
/// Field names are those of the ABI. In the code that moves them, `exec_head` is called *completed*,
/// `scheduled_head` *triggered* and `scheduled_tail` *submitted*.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
pub struct QueueHeader {
    /// The owning queue, [`crate::XuId`] bits.
    pub xu_id: u16,
    /// Never read or written.
    pub pad_02: [u8; 6],
    /// Address of `capacity` slots.
    pub buffer: u64,
    /// Number of slots: any value from 1.
    pub capacity: u64,
    /// Never read or written.
    pub pad_18: [u8; 40],
    /// Completed cursor, written by the consumer only.
    pub exec_head: u64,
    /// Never read or written.
    pub pad_48: [u8; 56],
    /// Triggered cursor, written by the trigger operation only.
    pub scheduled_head: u64,
    /// Never read or written.
    pub pad_88: [u8; 56],
    /// Submitted cursor, written by the submit operation only.
    pub scheduled_tail: u64,
    /// Never read or written.
    pub pad_c8: [u8; 56],
}

assert_layout! { QueueHeader is "xu_queue_t" in "xu.md 2.1": 256 bytes, align 64;
xu_id @ 0x00  pad_02 @ 0x02  buffer @ 0x08  capacity @ 0x10  pad_18 @ 0x18
exec_head @ 0x40  pad_48 @ 0x48
scheduled_head @ 0x80  pad_88 @ 0x88
scheduled_tail @ 0xC0  pad_c8 @ 0xC8 }
bytes_of! { QueueHeader: 256 }

/// One 32-byte slot: the envelope of a request between the submitting thread and the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Slot {
    /// [`crate::SeqId`] bits, written at submit.
    pub seq_id: u64,
    /// Address of the caller's status cell, or 0.
    pub exec_status: u64,
    /// Eventfd of a waiter, or -1; installed after submit.
    pub mark_comp_efd: i32,
    /// 1: the fd goes back to a pool; 0: the worker closes it after signalling.
    pub efd_from_pool: u8,
    /// Padding in the original, which neither reads nor writes it. `xu-ring` says here how far the slot's request is: 0 free,
    /// 1 held back, 2 triggered, 3 done. Its worker looks at nothing else, so a program that fills slots and moves cursors
    /// only, as the original does, is not seen by it.
    pub stage: u8,
    /// Never read or written.
    pub pad_16: [u8; 2],
    /// Address of the work item.
    pub exec_info: u64,
}

assert_layout! { Slot is "xuq_exec_info_t" in "xu.md 2.2": 32 bytes, align 8;
seq_id @ 0x00  exec_status @ 0x08  mark_comp_efd @ 0x10  efd_from_pool @ 0x14  stage @ 0x15  pad_16 @ 0x16
exec_info @ 0x18 }
bytes_of! { Slot: 32 }

impl Slot {
    /// `mark_comp_efd` while nobody waits.
    pub const NO_EFD: i32 = -1;
    /// `efd_from_pool`: the worker closes the eventfd after it has signalled.
    pub const EFD_CLOSED_AFTER_USE: u8 = 0;
    /// `efd_from_pool`: the eventfd goes back to its pool.
    pub const EFD_FROM_POOL: u8 = 1;
}
