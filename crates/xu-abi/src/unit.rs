//! An execution unit, its table entry and its worker, as the original lays them out in memory.
//!
//! For code that shares memory with the original's clients or reads its core dumps; our own units are typed Rust
//! values. Spec `xu.md` sections 2.3 to 2.5.

use crate::layout::{assert_layout, bytes_of};
use crate::queue::QueueHeader;
use crate::range::OutOfRange;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A lock's area: the size of a pthread mutex. Any lock may live inside.
pub type LockArea = [u64; 5];

/// What every unit begins with (448 bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
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

assert_layout! { UnitBase is "tpb_xu_base_t" in "xu.md 2.3": 448 bytes, align 64;
xu_id @ 0x000  initialized @ 0x002  pad_03 @ 0x003  vcore @ 0x008  has_work_efd @ 0x010
health_status @ 0x014  pad_18 @ 0x018  work_queue @ 0x040  submit_work_lock @ 0x140
mark_comp_lock @ 0x168  pad_190 @ 0x190 }
bytes_of! { UnitBase: 448 }

impl UnitBase {
    /// Normal operation.
    pub const HEALTHY: u32 = 0;
    /// The runtime is closing.
    pub const CLOSING: u32 = 1;
    /// A fatal error occurred.
    pub const DEGRADED: u32 = 2;

    /// The health of the unit.
    ///
    /// # Errors
    /// [`OutOfRange`] when the word is none of the three values.
    pub const fn health(&self) -> Result<Health, OutOfRange> {
        Health::from_raw(self.health_status)
    }
}

/// What `health_status` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Health {
    /// Normal operation.
    Healthy = UnitBase::HEALTHY,
    /// The runtime is closing: no new work except stops.
    Closing = UnitBase::CLOSING,
    /// A fatal error occurred: what is queued completes with 101.
    Degraded = UnitBase::DEGRADED,
}

impl Health {
    /// Every health, by value.
    pub const ALL: [Self; 3] = [Self::Healthy, Self::Closing, Self::Degraded];

    /// The health with this ABI value.
    ///
    /// # Errors
    /// [`OutOfRange`] for any value but 0, 1 and 2.
    pub const fn from_raw(raw: u32) -> Result<Self, OutOfRange> {
        match raw {
            UnitBase::HEALTHY => Ok(Self::Healthy),
            UnitBase::CLOSING => Ok(Self::Closing),
            UnitBase::DEGRADED => Ok(Self::Degraded),
            _ => Err(OutOfRange {
                what: "health of a unit",
                // CAST: widening.
                value: raw as u64,
                allowed: "0, 1, 2",
            }),
        }
    }

    /// The ABI value.
    #[must_use]
    pub const fn raw(self) -> u32 {
        self as u32
    }
}

impl TryFrom<u32> for Health {
    type Error = OutOfRange;

    fn try_from(raw: u32) -> Result<Self, OutOfRange> {
        Self::from_raw(raw)
    }
}

/// One entry of the unit table (576 bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
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

assert_layout! { Unit is "tpb_execution_unit_t" in "xu.md 2.4": 576 bytes, align 64;
base @ 0x000  current_exec_initialized @ 0x1C0  pad_1c1 @ 0x1C1  current_exec_state @ 0x1C8
last_posted_model @ 0x1D0  deferred_unstage_ref @ 0x1D8  last_exec_model @ 0x1E8
unstage_lock @ 0x1F0  pad_218 @ 0x218 }
bytes_of! { Unit: 576 }

impl Unit {
    /// Bytes of the harvest state that `current_exec_state` points at. Its inside is nobody else's business.
    pub const HARVEST_STATE_SIZE: usize = 472;

    /// The id of the model that was staged last: the low half of its slot.
    #[must_use]
    pub const fn last_posted_model_id(&self) -> u32 {
        // CAST: the high half has no meaning.
        self.last_posted_model as u32
    }
}

/// Entries of the unit table, one per virtual core.
pub const UNIT_TABLE_ENTRIES: usize = 256;

const _: () = assert!(UNIT_TABLE_ENTRIES * size_of::<Unit>() == 0x24000);

/// A worker and the units that it serves (88 bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Worker {
    /// Thread handle.
    pub thread: u64,
    /// Eventfd whose readability ends the thread.
    pub stop_thread_efd: i32,
    /// Never read or written.
    pub pad_0c: [u8; 4],
    /// Addresses of the units.
    pub owned_tpb_xus: [u64; Worker::MAX_UNITS],
    /// How many of them there are.
    pub owned_tpb_xu_count: u64,
}

assert_layout! { Worker is "kmgr_xu_worker_t" in "xu.md 2.5": 88 bytes, align 8;
thread @ 0x00  stop_thread_efd @ 0x08  pad_0c @ 0x0C  owned_tpb_xus @ 0x10
owned_tpb_xu_count @ 0x50 }
bytes_of! { Worker: 88 }

impl Worker {
    /// Most units that one worker serves.
    pub const MAX_UNITS: usize = 8;

    /// The addresses of the units that the worker serves.
    ///
    /// # Errors
    /// [`OutOfRange`] when the count exceeds the table.
    pub fn units(&self) -> Result<&[u64], OutOfRange> {
        let count = usize::try_from(self.owned_tpb_xu_count).unwrap_or(usize::MAX);
        self.owned_tpb_xus.get(..count).ok_or(OutOfRange {
            what: "number of units of a worker",
            value: self.owned_tpb_xu_count,
            allowed: "0 to 8",
        })
    }
}
