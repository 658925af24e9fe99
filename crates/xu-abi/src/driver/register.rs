//! Semaphores, events and registers.
//!
//! Spec `driver.md` sections 3 and 7.

use super::argument::arguments;

arguments! {
    /// Of the four semaphore ioctls.
    Semaphore is "semaphore": 12 bytes, align 4 {
        /// →
        0 nc_id: u32,
        /// → Compared after truncation to 16 bits.
        4 semaphore_index: u32,
        /// ↔
        8 value: i32,
    }

    /// Of EVENT_SET and EVENT_GET.
    Event is "event": 12 bytes, align 4 {
        /// → Not checked.
        0 nc_id: u32,
        /// → 256 is accepted, one past the last.
        4 event_index: u32,
        /// ↔ 0 or 1.
        8 value: u32,
    }

    /// Of BAR_READ and BAR_WRITE.
    BarRw is "bar_rw": 32 bytes, align 8 {
        /// → 0.
        0 bar: u32,
        4 pad_04: [u8; 4],
        /// → Address of `count` register addresses of 8 bytes.
        8 address: u64,
        /// → Address of `count` values of 4 bytes.
        16 data: u64,
        /// → At most [`BarRw::MAX_COUNT`].
        24 count: u32,
        28 pad_1c: [u8; 4],
    }

    /// Of READ_HW_COUNTERS.
    ReadHwCounters is "read_hw_counters": 24 bytes, align 8 {
        /// → Address of `count` device addresses of 8 bytes.
        0 address: u64,
        /// → Address of `count` values of 4 bytes.
        8 data: u64,
        /// → Not checked; at most [`BarRw::MAX_COUNT`] is sensible.
        16 count: u32,
        20 pad_14: [u8; 4],
    }

    /// Of RESOURCE_MMAP_INFO.
    ResourceMmapInfo is "resource_mmap_info": 32 bytes, align 8 {
        /// → [`super::window::Block`].
        0 block: u32,
        /// →
        4 block_id: u32,
        /// → [`super::window::Resource`].
        8 resource: u32,
        12 pad_0c: [u8; 4],
        /// ←
        16 offset: u64,
        /// ← Bytes.
        24 size: u64,
    }

    /// Of POST_METRIC.
    PostMetric is "post_metric": 16 bytes, align 8 {
        /// → Address of `data_size` bytes.
        0 data: u64,
        /// → At most [`PostMetric::MAX_SIZE`].
        8 data_size: u32,
        12 pad_0c: [u8; 4],
    }

    /// Of PRINTK.
    Printk is "printk": 16 bytes, align 8 {
        /// → Address of `size` bytes, the last of which is 0.
        0 buffer: u64,
        /// → 1 to [`Printk::MAX_SIZE`]; 0 corrupts the kernel.
        8 size: u32,
        /// → Ignored.
        12 action: u32,
    }
}

impl BarRw {
    /// Most registers of one call.
    pub const MAX_COUNT: u32 = 100;
}

impl PostMetric {
    /// Most bytes of one call.
    pub const MAX_SIZE: u32 = 128;
}

impl Printk {
    /// Most bytes of one call.
    pub const MAX_SIZE: u32 = 512;
}

/// Offsets in the block of a core: events and the four views of semaphores, 4 bytes each.
pub mod core_window {
    /// Events.
    pub const EVENTS: u64 = 0x270_0000;
    /// Read semaphores.
    pub const SEMAPHORE_READ: u64 = 0x270_1000;
    /// Set semaphores.
    pub const SEMAPHORE_SET: u64 = 0x270_1400;
    /// Add to semaphores.
    pub const SEMAPHORE_ADD: u64 = 0x270_1800;
    /// Subtract from semaphores.
    pub const SEMAPHORE_SUBTRACT: u64 = 0x270_1C00;
    /// Semaphores of a core, and as many events.
    pub const SEMAPHORES: u64 = 256;
}

/// Registers of the firmware mailbox in miscellaneous RAM, which BAR_WRITE refuses.
pub const MAILBOX_BLOCKED: [u64; 5] = [0x1F0, 0x1F4, 0x1F8, 0x1FC, 0x800];
