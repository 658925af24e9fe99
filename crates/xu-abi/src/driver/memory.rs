//! Chunks of memory: allocation and what can be asked about them.
//!
//! Spec `driver.md` sections 3, memory, and 8.

use super::argument::{arguments, named_values};

arguments! {
    /// Of MEM_ALLOC.
    MemAlloc is "mem_alloc": 32 bytes, align 8 {
        /// → Bytes; rounded up to pages.
        0 size: u64,
        /// → 1 for host memory.
        8 host_memory: u32,
        /// → Checked for host memory, too.
        12 dram_channel: u32,
        /// → 0.
        16 dram_region: u32,
        /// → Whose copy queue is used.
        20 nc_id: u32,
        /// → Address of the handle, 8 bytes.
        24 mem_handle: u64,
    }

    /// Of MEM_ALLOC_V2.
    MemAllocV2 is "mem_alloc_v2": 40 bytes, align 8 {
        /// → Bytes; rounded up to pages.
        0 size: u64,
        /// → Bytes; 0 for host memory.
        8 align: u64,
        /// → 1 for host memory.
        16 host_memory: u32,
        /// → Checked for host memory, too.
        20 dram_channel: u32,
        /// → 0.
        24 dram_region: u32,
        /// → Whose copy queue is used.
        28 nc_id: u32,
        /// → Address of the handle, 8 bytes.
        32 mem_handle: u64,
    }

    /// Of MEM_ALLOC_V2MT.
    MemAllocV2MemType is "mem_alloc_v2_mem_type": 48 bytes, align 8 {
        /// → Bytes; rounded up to pages.
        0 size: u64,
        /// → Bytes; 0 for host memory.
        8 align: u64,
        /// → 1 for host memory.
        16 host_memory: u32,
        /// → Checked for host memory, too.
        20 dram_channel: u32,
        /// → 0.
        24 dram_region: u32,
        /// → Whose copy queue is used.
        28 nc_id: u32,
        /// → [`MemType`].
        32 mem_type: u32,
        36 pad_24: [u8; 4],
        /// → Address of the handle, 8 bytes.
        40 mem_handle: u64,
    }

    /// Of MEM_ALLOC_V2MT64.
    MemAllocV2MemType64 is "mem_alloc_v2_mem_type64": 56 bytes, align 8 {
        /// → Bytes; rounded up to pages.
        0 size: u64,
        /// → Bytes; 0 for host memory.
        8 align: u64,
        /// → 1 for host memory.
        16 host_memory: u32,
        /// → Checked for host memory, too.
        20 dram_channel: u32,
        /// → 0.
        24 dram_region: u32,
        /// → Whose copy queue is used.
        28 nc_id: u32,
        /// → [`MemType`].
        32 mem_type: u32,
        36 pad_24: [u8; 4],
        /// → Address of the handle, 8 bytes.
        40 mem_handle: u64,
        48 pad_30: [u8; 8],
    }

    /// Of MEM_FREE.
    MemFree is "mem_free": 8 bytes, align 8 {
        /// →
        0 mem_handle: u64,
    }

    /// Of MEM_GET_PA.
    MemGetPa is "mem_get_pa": 16 bytes, align 8 {
        /// →
        0 mem_handle: u64,
        /// → Address of the answer, 8 bytes.
        8 pa: u64,
    }

    /// Of MEM_GET_INFO.
    MemGetInfo is "mem_get_info": 24 bytes, align 8 {
        /// →
        0 mem_handle: u64,
        /// → Address of the answer, 8 bytes; may be null.
        8 mmap_offset: u64,
        /// → Address of the answer, 8 bytes; may not be null.
        16 pa: u64,
    }

    /// Of MEM_GET_EXTENDED_INFO.
    MemGetExtendedInfo is "mem_get_extended_info": 48 bytes, align 8 {
        /// ↔ Comes back as garbage.
        0 mem_handle: u64,
        /// → 1; ignored, and undefined afterwards.
        8 version: u32,
        /// ← 1 for host memory.
        12 host_memory: u32,
        /// ←
        16 mmap_offset: u64,
        /// ←
        24 pa: u64,
        /// ← The owner.
        32 pid: u64,
        /// ← Bytes, rounded up to pages.
        40 size: u64,
    }

    /// Of MEM_MC_GET_INFO.
    MemGetMcMmapInfo is "mem_get_mc_mmap_info": 24 bytes, align 8 {
        /// → Any address inside a chunk.
        0 pa: u64,
        /// ← Of the chunk's first byte.
        8 mmap_offset: u64,
        /// ← Bytes.
        16 size: u64,
    }

    /// Of MEM_MC_GET_INFO_V2.
    MemGetMcMmapInfoV2 is "mem_get_mc_mmap_info_v2": 32 bytes, align 8 {
        /// → Any address inside a chunk.
        0 pa: u64,
        /// ← Of the chunk's first byte.
        8 mmap_offset: u64,
        /// ← Bytes.
        16 size: u64,
        /// ←
        24 mem_handle: u64,
    }

    /// Of DMABUF_FD.
    DmabufFd is "dmabuf_fd": 24 bytes, align 8 {
        /// → Address inside a mapping of this driver.
        0 va: u64,
        /// → Bytes.
        8 size: u64,
        /// → Address of the answer, 4 bytes.
        16 fd: u64,
    }

    /// Of DUMP_MEM_CHUNKS.
    DumpMemChunks is "dump_mem_chunks": 24 bytes, align 8 {
        /// →
        0 hbm_index: u32,
        /// → Entries that there is room for.
        4 num_entries_in: u32,
        /// ← Entries that there are.
        8 num_entries_out: u32,
        12 pad_0c: [u8; 4],
        /// → Address of so many [`MemChunk`].
        16 data: u64,
    }

    /// One entry of DUMP_MEM_CHUNKS.
    MemChunk is "neuron_ioctl_mem_chunk_info": 24 bytes, align 8 {
        /// ←
        0 pa: u64,
        /// ← Bytes.
        8 size: u64,
        /// ← [`MemType`].
        16 mem_type: u32,
        20 pad_14: [u8; 4],
    }
}

named_values! {
    /// What a chunk is for. It selects a counter in sysfs, except [`MemType::ContiguousScratchpad`].
    MemType(u32), "type of memory", "0 to 19";
    /// Of runtimes that do not say, in host memory.
    UnknownHost = 0,
    /// Code and DMA buffers in host memory.
    CodeHost = 1,
    /// Tensors in host memory.
    TensorsHost = 2,
    /// Constants in host memory.
    ConstantsHost = 3,
    /// Other things in host memory.
    MiscHost = 4,
    /// The driver's, in host memory.
    DriverHost = 5,
    /// Notification queues in host memory.
    NotificationHost = 6,
    /// Of runtimes that do not say, in device memory.
    UnknownDevice = 7,
    /// Code in device memory.
    CodeDevice = 8,
    /// Tensors in device memory.
    TensorsDevice = 9,
    /// Constants in device memory.
    ConstantsDevice = 10,
    /// Scratchpad in device memory.
    ScratchpadDevice = 11,
    /// Other things in device memory.
    MiscDevice = 12,
    /// The driver's, in device memory.
    DriverDevice = 13,
    /// Of collectives, in device memory.
    CollectivesDevice = 14,
    /// Scratchpad that models do not share, in device memory.
    NonsharedScratchpadDevice = 15,
    /// Notification queues in device memory.
    NotificationDevice = 16,
    /// DMA rings in host memory.
    DmaRingsHost = 17,
    /// DMA rings in device memory.
    DmaRingsDevice = 18,
    /// Allocated downwards from the end of the pool, each piece next to the one before. Device memory only.
    ContiguousScratchpad = 19,
}

impl MemType {
    /// Whether chunks of this type lie in host memory.
    #[must_use]
    pub const fn is_host(self) -> bool {
        matches!(
            self,
            Self::UnknownHost
                | Self::CodeHost
                | Self::TensorsHost
                | Self::ConstantsHost
                | Self::MiscHost
                | Self::DriverHost
                | Self::NotificationHost
                | Self::DmaRingsHost
        )
    }
}

/// Bytes of a page: sizes of chunks are multiples of it.
pub const PAGE: u64 = 4096;
/// The largest alignment of device memory, bytes.
pub const MAX_ALIGN: u64 = 1 << 30;
/// The last handle that the driver gives; the first is 1.
pub const MAX_HANDLE: u64 = 4_194_303;
/// Requests of device memory up to so many bytes come from a pool of their own.
pub const SMALL_CHUNK: u64 = 512 << 10;
/// Bytes of that pool, at the end of each HBM.
pub const SMALL_POOL: u64 = 1 << 30;
/// Bytes at the start of each HBM that belong to firmware.
pub const HBM_RESERVED: u64 = 16 << 20;
/// Chunks and copies of so many bytes need the calls with 64-bit sizes.
pub const LARGE: u64 = 1 << 32;
