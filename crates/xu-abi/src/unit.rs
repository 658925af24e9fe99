//! An execution unit, its table entry and its worker, as the original lays them out in memory.
//!
//! For code that shares memory with the original's clients or reads its core dumps; our own units are typed Rust
//! values. Spec `xu.md` sections 2.3 to 2.5.

use crate::layout::assert_layout;
use crate::queue::QueueHeader;

/// A lock's area: the size of a pthread mutex. Any lock may live inside.
pub type LockArea = [u64; 5];

/// What every unit begins with (448 bytes).
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct UnitBase {
    /// [`crate::XuId`] bits.
    pub xu_id: u16,
    /// Lookups find nothing while 0.
    pub initialized: u8,
    /// Never read or written.
    pub pad_03: [u8; 5],
    /// Address of the bound logical core.
    pub vcore: u64,
    /// Eventfd with one count per scheduled request.
    pub has_work_efd: i32,
    /// [`UnitBase::HEALTHY`], [`UnitBase::CLOSING`] or [`UnitBase::DEGRADED`].
    pub health_status: u32,
    /// Never read or written.
    pub pad_18: [u8; 40],
    /// The ring.
    pub work_queue: QueueHeader,
    /// Serialises submitters.
    pub submit_work_lock: LockArea,
    /// Covers the pop against the installation of a waiter.
    pub mark_comp_lock: LockArea,
    /// Never read or written.
    pub pad_190: [u8; 48],
}

assert_layout! { UnitBase: 448 bytes, align 64;
xu_id @ 0x000  initialized @ 0x002  pad_03 @ 0x003  vcore @ 0x008  has_work_efd @ 0x010
health_status @ 0x014  pad_18 @ 0x018  work_queue @ 0x040  submit_work_lock @ 0x140
mark_comp_lock @ 0x168  pad_190 @ 0x190 }

impl UnitBase {
    /// Normal operation.
    pub const HEALTHY: u32 = 0;
    /// The runtime is closing.
    pub const CLOSING: u32 = 1;
    /// A fatal error occurred.
    pub const DEGRADED: u32 = 2;
}

/// One entry of the unit table (576 bytes).
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Unit {
    /// What every unit begins with.
    pub base: UnitBase,
    /// Whether the harvest state holds the request at the head.
    pub current_exec_initialized: u8,
    /// Never read or written.
    pub pad_1c1: [u8; 7],
    /// Address of the 472-byte harvest state.
    pub current_exec_state: u64,
    /// Model whose execution was staged last; the id is in the low 32 bits.
    pub last_posted_model: u64,
    /// Models to release when the next request is complete, one per sub-core.
    pub deferred_unstage_ref: [u64; 2],
    /// Model that ran last, one 32-bit id per sub-core.
    pub last_exec_model: [u32; 2],
    /// Covers the deferred references.
    pub unstage_lock: LockArea,
    /// Never read or written.
    pub pad_218: [u8; 40],
}

assert_layout! { Unit: 576 bytes, align 64;
base @ 0x000  current_exec_initialized @ 0x1C0  pad_1c1 @ 0x1C1  current_exec_state @ 0x1C8
last_posted_model @ 0x1D0  deferred_unstage_ref @ 0x1D8  last_exec_model @ 0x1E8
unstage_lock @ 0x1F0  pad_218 @ 0x218 }

/// Entries of the unit table, one per virtual core.
pub const UNIT_TABLE_ENTRIES: usize = 256;

const _: () = assert!(UNIT_TABLE_ENTRIES * size_of::<Unit>() == 0x24000);

/// A worker and the units that it serves (88 bytes).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Worker {
    /// Thread handle.
    pub thread: u64,
    /// Eventfd whose readability ends the thread.
    pub stop_thread_efd: i32,
    /// Never read or written.
    pub pad_0c: [u8; 4],
    /// Addresses of the units.
    pub owned_tpb_xus: [u64; 8],
    /// How many of them there are.
    pub owned_tpb_xu_count: u64,
}

assert_layout! { Worker: 88 bytes, align 8;
thread @ 0x00  stop_thread_efd @ 0x08  pad_0c @ 0x0C  owned_tpb_xus @ 0x10
owned_tpb_xu_count @ 0x50 }
