//! Copies that the driver makes: between chunks, between chunks and buffers, and into engines.
//!
//! Spec `driver.md` section 3, memory.

use super::argument::arguments;

arguments! {
    /// Of MEM_COPY.
    MemCopy is "mem_copy": 32 bytes, align 8 {
        /// → Handle.
        0 src: u64,
        /// → Handle.
        8 dst: u64,
        /// → Bytes.
        16 size: u32,
        /// →
        20 src_offset: u32,
        /// →
        24 dst_offset: u32,
        28 pad_1c: [u8; 4],
    }

    /// Of MEM_COPY64.
    MemCopy64 is "mem_copy64": 40 bytes, align 8 {
        /// → Handle.
        0 src: u64,
        /// → Handle.
        8 dst: u64,
        /// → Bytes.
        16 size: u64,
        /// →
        24 src_offset: u64,
        /// →
        32 dst_offset: u64,
    }

    /// Of MEM_COPY_ASYNC.
    MemCopyAsync is "mem_copy_async": 48 bytes, align 8 {
        /// → Handle.
        0 src: u64,
        /// → Handle.
        8 dst: u64,
        /// → Bytes.
        16 size: u32,
        /// →
        20 src_offset: u32,
        /// →
        24 dst_offset: u32,
        28 pad_1c: [u8; 4],
        /// →
        32 host_prefetch_addr: u64,
        /// → -1 starts a chain.
        40 pwait_handle: i32,
        /// ← 1 or 2.
        44 wait_handle: i32,
    }

    /// Of MEM_COPY_ASYNC64.
    MemCopyAsync64 is "mem_copy_async64": 56 bytes, align 8 {
        /// → Handle.
        0 src: u64,
        /// → Handle.
        8 dst: u64,
        /// → Bytes.
        16 size: u64,
        /// →
        24 src_offset: u64,
        /// →
        32 dst_offset: u64,
        /// →
        40 host_prefetch_addr: u64,
        /// → -1 starts a chain.
        48 pwait_handle: i32,
        /// ← 1 or 2.
        52 wait_handle: i32,
    }

    /// Of MEM_COPY_ASYNC_WAIT.
    MemCopyAsyncWait is "mem_copy_async_wait": 24 bytes, align 8 {
        /// → Handle.
        0 src: u64,
        /// → Handle.
        8 dst: u64,
        /// → 1 or 2.
        16 pwait_handle: i32,
        20 pad_14: [u8; 4],
    }

    /// Of MEMSET.
    Memset is "memset": 24 bytes, align 8 {
        /// → Handle.
        0 mem_handle: u64,
        /// →
        8 offset: u64,
        /// → The low byte counts.
        16 value: u32,
        /// → Bytes.
        20 size: u32,
    }

    /// Of MEMSET64.
    Memset64 is "memset64": 32 bytes, align 8 {
        /// → Handle.
        0 mem_handle: u64,
        /// →
        8 offset: u64,
        /// → The low byte counts.
        16 value: u32,
        20 pad_14: [u8; 4],
        /// → Bytes.
        24 size: u64,
    }

    /// Of MEM_BUF_COPY.
    MemBufCopy is "mem_buf_copy": 32 bytes, align 8 {
        /// → Handle.
        0 mem_handle: u64,
        /// → Address of `size` bytes.
        8 buffer: u64,
        /// → Bytes.
        16 size: u32,
        /// → In the chunk.
        20 offset: u32,
        /// → 1 from the buffer to the chunk, 0 the other way.
        24 copy_to_mem_handle: u32,
        28 pad_1c: [u8; 4],
    }

    /// Of MEM_BUF_COPY64 and MEM_BUF_ZEROCOPY64.
    MemBufCopy64 is "mem_buf_copy64": 40 bytes, align 8 {
        /// → Handle.
        0 mem_handle: u64,
        /// → Address of `size` bytes.
        8 buffer: u64,
        /// → Bytes. MEM_BUF_COPY64 takes it modulo [`super::LARGE`].
        16 size: u64,
        /// → In the chunk.
        24 offset: u64,
        /// → 1 from the buffer to the chunk, 0 the other way.
        32 copy_to_mem_handle: u32,
        36 pad_24: [u8; 4],
    }

    /// Of PROGRAM_ENGINE.
    ProgramEngine is "program_engine": 24 bytes, align 8 {
        /// → Device address.
        0 dst: u64,
        /// → Address of `offset` plus `size` bytes.
        8 buffer: u64,
        /// → Bytes.
        16 size: u32,
        /// → Added to destination and source.
        20 offset: u32,
    }

    /// Of PROGRAM_ENGINE_NC.
    ProgramEngineNc is "program_engine_nc": 32 bytes, align 8 {
        /// →
        0 nc_id: u32,
        4 pad_04: [u8; 4],
        /// → Device address.
        8 dst: u64,
        /// → Address of `offset` plus `size` bytes.
        16 buffer: u64,
        /// → Bytes.
        24 size: u32,
        /// → Added to destination and source.
        28 offset: u32,
    }

    /// Of PROGRAM_ENGINE_NC64.
    ProgramEngineNc64 is "program_engine_nc64": 40 bytes, align 8 {
        /// →
        0 nc_id: u32,
        4 pad_04: [u8; 4],
        /// → Device address.
        8 dst: u64,
        /// → Address of `offset` plus `size` bytes.
        16 buffer: u64,
        /// → Bytes.
        24 size: u64,
        /// → Added to destination and source.
        32 offset: u64,
    }
}

/// The handle that starts a chain of asynchronous copies.
pub const CHAIN_START: i32 = -1;
/// Most bytes of one asynchronous copy: 2032 descriptors of 64 KiB.
pub const MAX_ASYNC_COPY: u64 = 2032 * 65_536;
/// Bytes of one step of MEM_BUF_ZEROCOPY64: its table has so many pages.
pub const ZEROCOPY_STEP: u64 = 64 * super::PAGE;
