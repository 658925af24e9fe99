//! Notification queues: where their rings are, and the registers behind them.
//!
//! Spec `driver.md` sections 3 and 5. Records are in [`crate::record`].

use super::argument::{arguments, named_values};

arguments! {
    /// Of NOTIFICATIONS_INIT_V1: host memory, cores only.
    NotificationsInitV1 is "notifications_init_v1": 24 bytes, align 8 {
        /// →
        0 nc_id: u32,
        /// → [`NqType`].
        4 nq_type: u32,
        /// → The hardware queue.
        8 engine_index: u32,
        /// → Bytes.
        12 size: u32,
        /// ←
        16 mmap_offset: u64,
    }

    /// Of NOTIFICATIONS_INIT_V2.
    NotificationsInitV2 is "notifications_init_v2": 48 bytes, align 8 {
        /// → Core or TOPSP; truncated to 8 bits.
        0 nq_dev_id: u32,
        /// → [`NqDevice`].
        4 nq_dev_type: u32,
        /// → [`NqType`].
        8 nq_type: u32,
        /// → The hardware queue; truncated to 8 bits.
        12 engine_index: u32,
        /// → Bytes, a power of two.
        16 size: u32,
        /// → 1 for host memory.
        20 on_host_memory: u32,
        /// →
        24 dram_channel: u32,
        /// → 0.
        28 dram_region: u32,
        /// ← All ones for device memory.
        32 mmap_offset: u64,
        /// ←
        40 mem_handle: u64,
    }

    /// Of NOTIFICATIONS_INIT_WITH_REALLOC_V2.
    NotificationsInitWithReallocV2 is "notifications_init_with_realloc_v2": 56 bytes, align 8 {
        /// → Core or TOPSP; truncated to 8 bits.
        0 nq_dev_id: u32,
        /// → [`NqDevice`].
        4 nq_dev_type: u32,
        /// → [`NqType`].
        8 nq_type: u32,
        /// → The hardware queue; truncated to 8 bits.
        12 engine_index: u32,
        /// → Bytes, a power of two.
        16 size: u32,
        /// → 1 for host memory.
        20 on_host_memory: u32,
        /// →
        24 dram_channel: u32,
        /// → 0.
        28 dram_region: u32,
        /// → 1 gives a new ring where there is an old one.
        32 force_alloc_mem: u32,
        36 pad_24: [u8; 4],
        /// ← All ones for device memory.
        40 mmap_offset: u64,
        /// ←
        48 mem_handle: u64,
    }

    /// Of NOTIFICATIONS_QUEUE_INFO, which always fails.
    NotificationsQueueInfo is "notifications_queue_info": 12 bytes, align 4 {
        /// →
        0 nq_dev_id: u8,
        /// → [`NqDevice`].
        1 nq_dev_type: u8,
        /// → [`NqType`].
        2 nq_type: u8,
        /// →
        3 engine_index: u8,
        /// ←
        4 head: u32,
        /// ←
        8 phase_bit: u32,
    }
}

named_values! {
    /// What a notification queue carries.
    NqType(u32), "type of a notification queue", "0 to 5";
    /// Implicit.
    Trace = 0,
    /// Explicit.
    Notify = 1,
    /// Events.
    Event = 2,
    /// Errors.
    Error = 3,
    /// Of the SDMA blocks of a core.
    TraceDma = 4,
    /// Throttling; v3 does not declare it.
    Throttle = 5,
}

named_values! {
    /// What a notification queue belongs to.
    NqDevice(u32), "kind of a notifying device", "0, 1";
    /// A core.
    Core = 0,
    /// A sequencer of collectives.
    Topsp = 1,
}

/// The first `nq_id` that the driver refuses.
pub const NQ_IDS: u32 = 96;
/// Hardware queues that the driver accepts for one type.
pub const NQ_ENGINE_INDICES: u32 = 16;
/// The smallest ring whose mapping is as long as itself.
pub const NQ_MIN_MAPPED: u32 = 4096;
/// What `mmap_offset` says of a ring in device memory.
pub const NQ_NOT_MAPPED: u64 = u64::MAX;

/// The driver's id of a queue: `nq_type` × 16 + `engine_index`.
#[must_use]
pub const fn nq_id(nq_type: NqType, engine_index: u8) -> u32 {
    // CAST: widening.
    nq_type.raw() * NQ_ENGINE_INDICES + engine_index as u32
}

/// Registers of one notification block. Queue *i* begins at `QUEUE_STRIDE` × *i*.
pub mod nq_register {
    /// Distance between the registers of two queues.
    pub const NQ_STRIDE: u64 = 0x28;
    /// Address of the ring, low half. The driver writes it.
    pub const NQ_BASE_LOW: u64 = 0x100;
    /// Address of the ring, high half. The driver writes it.
    pub const NQ_BASE_HIGH: u64 = 0x104;
    /// Bytes of the ring; 0 halts it. The driver writes it.
    pub const NQ_SIZE: u64 = 0x108;
    /// Consumer position, bytes from the base. User space writes it.
    pub const NQ_HEAD: u64 = 0x10C;
}
