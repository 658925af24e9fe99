//! Chunks, and copies between them.

use super::Case;
use crate::node::{Node, address_of};
use xu_abi::driver::errno::Answer::{self, Done, Errno, Positive};
use xu_abi::driver::errno::{EAGAIN, EINVAL, ENOMEM};
use xu_abi::driver::ioctl as row;
use xu_abi::driver::{
    DumpMemChunks, Ioctl, MemAlloc, MemAllocV2, MemAllocV2MemType, MemAllocV2MemType64, MemBufCopy,
    MemBufCopy64, MemChunk, MemCopy, MemCopy64, MemCopyAsync, MemCopyAsync64, MemCopyAsyncWait,
    MemFree, MemGetExtendedInfo, MemGetInfo, MemGetMcMmapInfo, MemGetMcMmapInfoV2, MemGetPa,
    Memset, Memset64, ProgramEngine, ProgramEngineNc, ProgramEngineNc64,
};
use zerocopy::{FromBytes, IntoBytes};

/// A handle that names nothing.
const NO_CHUNK: u64 = 99;
const PAGE: u64 = 4096;
/// A channel that a v2 device does not have.
const NO_CHANNEL: u32 = 2;
/// The state buffer of core 0, where engines may be programmed.
const STATE_BUFFER: u64 = 0xFFF_C000_0000;
/// Where they may not.
const ELSEWHERE: u64 = 1 << 40;

/// Bytes that are copied.
const BYTES: usize = 64;

fn alloc<A: FromBytes + IntoBytes>(node: &Node, row: Ioctl, make: impl FnOnce(u64) -> A) -> Answer {
    let mut handle = 0u64;
    let argument = make(address_of(&mut handle));
    let answer = node.call(row, argument);
    assert_eq!(answer == Done, handle != 0, "{row}");
    answer
}

fn mem_alloc(node: &Node, dram_channel: u32) -> Answer {
    alloc(node, row::MEM_ALLOC, |mem_handle| MemAlloc {
        size: PAGE,
        dram_channel,
        mem_handle,
        ..MemAlloc::ZEROED
    })
}

fn mem_alloc_v2(node: &Node, dram_channel: u32) -> Answer {
    alloc(node, row::MEM_ALLOC_V2, |mem_handle| MemAllocV2 {
        size: PAGE,
        dram_channel,
        mem_handle,
        ..MemAllocV2::ZEROED
    })
}

/// A host chunk may not be aligned.
fn mem_alloc_mt(node: &Node, align: u64) -> Answer {
    alloc(node, row::MEM_ALLOC_V2MT, |mem_handle| MemAllocV2MemType {
        size: PAGE,
        align,
        host_memory: 1,
        mem_type: 2,
        mem_handle,
        ..MemAllocV2MemType::ZEROED
    })
}

fn mem_alloc_mt64(node: &Node, size: u64) -> Answer {
    alloc(node, row::MEM_ALLOC_V2MT64, |mem_handle| {
        MemAllocV2MemType64 {
            size,
            mem_type: 9,
            mem_handle,
            ..MemAllocV2MemType64::ZEROED
        }
    })
}

/// A host chunk and a device chunk.
fn pair(node: &Node) -> (u64, u64) {
    (node.chunk(true, PAGE), node.chunk(false, PAGE))
}

fn mem_copy(src: u64, dst: u64) -> MemCopy {
    MemCopy {
        src,
        dst,
        size: BYTES as u32,
        ..MemCopy::ZEROED
    }
}

fn mem_copy64(src: u64, dst: u64) -> MemCopy64 {
    MemCopy64 {
        src,
        dst,
        size: BYTES as u64,
        ..MemCopy64::ZEROED
    }
}

fn mem_copy_async(src: u64, dst: u64) -> MemCopyAsync {
    MemCopyAsync {
        src,
        dst,
        size: BYTES as u32,
        pwait_handle: -1,
        ..MemCopyAsync::ZEROED
    }
}

fn mem_copy_async64(src: u64, dst: u64) -> MemCopyAsync64 {
    MemCopyAsync64 {
        src,
        dst,
        size: BYTES as u64,
        pwait_handle: -1,
        ..MemCopyAsync64::ZEROED
    }
}

fn buf_copy(node: &Node, offset: u32) -> Answer {
    let mut buffer = [7u8; BYTES];
    let argument = MemBufCopy {
        mem_handle: node.chunk(true, PAGE),
        buffer: address_of(&mut buffer),
        size: BYTES as u32,
        offset,
        copy_to_mem_handle: 1,
        ..MemBufCopy::ZEROED
    };
    node.call(row::MEM_BUF_COPY, argument)
}

fn zero_copy(node: &Node, mem_handle: u64) -> Answer {
    let mut buffer = [7u8; BYTES];
    let argument = MemBufCopy64 {
        mem_handle,
        buffer: address_of(&mut buffer),
        size: BYTES as u64,
        copy_to_mem_handle: 1,
        ..MemBufCopy64::ZEROED
    };
    node.call(row::MEM_BUF_ZEROCOPY64, argument)
}

fn get_pa(node: &Node, mem_handle: u64) -> Answer {
    let mut pa = 0u64;
    let answer = node.call(
        row::MEM_GET_PA,
        MemGetPa {
            mem_handle,
            pa: address_of(&mut pa),
        },
    );
    assert!(answer != Done || pa == node.pa(mem_handle));
    answer
}

fn get_info(node: &Node, mem_handle: u64) -> Answer {
    let (mut mmap_offset, mut pa) = (0u64, 0u64);
    let argument = MemGetInfo {
        mem_handle,
        mmap_offset: address_of(&mut mmap_offset),
        pa: address_of(&mut pa),
    };
    let answer = node.call(row::MEM_GET_INFO, argument);
    assert_eq!(mmap_offset, pa);
    answer
}

fn extended_info(mem_handle: u64) -> MemGetExtendedInfo {
    MemGetExtendedInfo {
        mem_handle,
        version: 1,
        ..MemGetExtendedInfo::ZEROED
    }
}

fn memset(mem_handle: u64) -> Memset {
    Memset {
        mem_handle,
        offset: 0,
        value: 5,
        size: BYTES as u32,
    }
}

fn memset64(mem_handle: u64) -> Memset64 {
    Memset64 {
        mem_handle,
        value: 5,
        size: BYTES as u64,
        ..Memset64::ZEROED
    }
}

fn dump(node: &Node, room: u32) -> Answer {
    let _two = [(); 2].map(|()| node.chunk(false, PAGE));
    let mut chunks = [MemChunk::ZEROED; 64];
    let argument = DumpMemChunks {
        num_entries_in: room,
        data: address_of(&mut chunks),
        ..DumpMemChunks::ZEROED
    };
    node.call(row::DUMP_MEM_CHUNKS, argument)
}

fn program_engine(node: &Node, dst: u64) -> Answer {
    let mut buffer = [1u8; BYTES];
    let argument = ProgramEngine {
        dst,
        buffer: address_of(&mut buffer),
        size: BYTES as u32,
        offset: 0,
    };
    node.call(row::PROGRAM_ENGINE, argument)
}

fn program_engine_nc(node: &Node, dst: u64) -> Answer {
    let mut buffer = [1u8; BYTES];
    let argument = ProgramEngineNc {
        dst,
        buffer: address_of(&mut buffer),
        size: BYTES as u32,
        ..ProgramEngineNc::ZEROED
    };
    node.call(row::PROGRAM_ENGINE_NC, argument)
}

fn program_engine_nc64(node: &Node, dst: u64) -> Answer {
    let mut buffer = [1u8; BYTES];
    let argument = ProgramEngineNc64 {
        dst,
        buffer: address_of(&mut buffer),
        size: BYTES as u64,
        ..ProgramEngineNc64::ZEROED
    };
    node.call(row::PROGRAM_ENGINE_NC64, argument)
}

fn mc_info(pa: u64) -> MemGetMcMmapInfo {
    MemGetMcMmapInfo {
        pa,
        ..MemGetMcMmapInfo::ZEROED
    }
}

fn mc_info_v2(pa: u64) -> MemGetMcMmapInfoV2 {
    MemGetMcMmapInfoV2 {
        pa,
        ..MemGetMcMmapInfoV2::ZEROED
    }
}

#[rustfmt::skip]
pub(super) const CASES: &[Case] = &[
    Case::new(row::MEM_ALLOC, |n| mem_alloc(n, 1), Done, |n| mem_alloc(n, NO_CHANNEL), Errno(EINVAL)),
    Case::new(row::MEM_ALLOC_V2, |n| mem_alloc_v2(n, 1), Done, |n| mem_alloc_v2(n, NO_CHANNEL), Errno(EINVAL)),
    Case::new(row::MEM_ALLOC_V2MT, |n| mem_alloc_mt(n, 0), Done, |n| mem_alloc_mt(n, PAGE), Errno(EINVAL)),
    Case::new(row::MEM_ALLOC_V2MT64, |n| mem_alloc_mt64(n, PAGE), Done, |n| mem_alloc_mt64(n, 1 << 40), Errno(ENOMEM)),
    Case::new(row::MEM_FREE, |n| n.free(n.chunk(true, PAGE)), Done, |n| n.call(row::MEM_FREE, MemFree { mem_handle: NO_CHUNK }), Errno(EINVAL)),
    Case::new(row::MEM_COPY, |n| { let (a, b) = pair(n); n.call(row::MEM_COPY, mem_copy(a, b)) }, Done, |n| n.call(row::MEM_COPY, mem_copy(NO_CHUNK, NO_CHUNK)), Errno(EINVAL)),
    Case::new(row::MEM_COPY64, |n| { let (a, b) = pair(n); n.call(row::MEM_COPY64, mem_copy64(a, b)) }, Done, |n| n.call(row::MEM_COPY64, mem_copy64(NO_CHUNK, NO_CHUNK)), Errno(EINVAL)),
    Case::new(row::MEM_COPY_ASYNC, |n| { let (a, b) = pair(n); n.call(row::MEM_COPY_ASYNC, mem_copy_async(a, b)) }, Done, |n| n.call(row::MEM_COPY_ASYNC, mem_copy_async(NO_CHUNK, NO_CHUNK)), Errno(EINVAL)),
    Case::new(row::MEM_COPY_ASYNC64, |n| { let (a, b) = pair(n); n.call(row::MEM_COPY_ASYNC64, mem_copy_async64(a, b)) }, Done, |n| n.call(row::MEM_COPY_ASYNC64, mem_copy_async64(NO_CHUNK, NO_CHUNK)), Errno(EINVAL)),
    Case::new(row::MEM_COPY_ASYNC_WAIT, |n| {
        let (src, dst) = pair(n);
        let mut copy = mem_copy_async64(src, dst);
        assert_eq!(n.ask(row::MEM_COPY_ASYNC64, &mut copy), Done);
        assert_eq!(copy.wait_handle, 1);
        n.call(row::MEM_COPY_ASYNC_WAIT, MemCopyAsyncWait { src, dst, pwait_handle: 1, ..MemCopyAsyncWait::ZEROED })
    }, Done, |n| n.call(row::MEM_COPY_ASYNC_WAIT, MemCopyAsyncWait { src: NO_CHUNK, dst: NO_CHUNK, pwait_handle: 1, ..MemCopyAsyncWait::ZEROED }), Errno(EINVAL)),
    Case::new(row::MEM_BUF_COPY, |n| buf_copy(n, 0), Done, |n| buf_copy(n, 4033), Errno(EINVAL)),
    Case::new(row::MEM_BUF_COPY64, |n| n.copy(n.chunk(false, PAGE), 0, &mut [7; BYTES], true), Done, |n| n.copy(n.chunk(false, PAGE), 4033, &mut [7; BYTES], true), Errno(EINVAL)),
    Case::new(row::MEM_BUF_ZEROCOPY64, |n| zero_copy(n, n.chunk(false, PAGE)), Done, |n| zero_copy(n, NO_CHUNK), Errno(EINVAL)),
    Case::new(row::MEM_GET_PA, |n| get_pa(n, n.chunk(true, PAGE)), Done, |n| get_pa(n, NO_CHUNK), Errno(EINVAL)),
    Case::new(row::MEM_GET_INFO, |n| get_info(n, n.chunk(true, PAGE)), Done, |n| get_info(n, NO_CHUNK), Errno(EINVAL)),
    Case::new(row::MEM_GET_EXTENDED_INFO, |n| n.call(row::MEM_GET_EXTENDED_INFO, extended_info(n.chunk(true, PAGE))), Done, |n| n.call(row::MEM_GET_EXTENDED_INFO, extended_info(NO_CHUNK)), Positive(22)),
    Case::new(row::MEM_MC_GET_INFO, |n| n.call(row::MEM_MC_GET_INFO, mc_info(n.pa(n.chunk(true, PAGE)))), Done, |n| n.call(row::MEM_MC_GET_INFO, mc_info(ELSEWHERE)), Errno(ENOMEM)),
    Case::new(row::MEM_MC_GET_INFO_V2, |n| n.call(row::MEM_MC_GET_INFO_V2, mc_info_v2(n.pa(n.chunk(true, PAGE)))), Done, |n| n.call(row::MEM_MC_GET_INFO_V2, mc_info_v2(ELSEWHERE)), Errno(ENOMEM)),
    Case::new(row::MEMSET, |n| n.call(row::MEMSET, memset(n.chunk(false, PAGE))), Done, |n| n.call(row::MEMSET, memset(NO_CHUNK)), Errno(EINVAL)),
    Case::new(row::MEMSET64, |n| n.call(row::MEMSET64, memset64(n.chunk(false, PAGE))), Done, |n| n.call(row::MEMSET64, memset64(NO_CHUNK)), Errno(EINVAL)),
    Case::new(row::DUMP_MEM_CHUNKS, |n| dump(n, 64), Done, |n| dump(n, 1), Errno(EAGAIN)),
    Case::new(row::PROGRAM_ENGINE, |n| program_engine(n, STATE_BUFFER), Done, |n| program_engine(n, ELSEWHERE), Errno(ENOMEM)),
    Case::new(row::PROGRAM_ENGINE_NC, |n| program_engine_nc(n, STATE_BUFFER), Done, |n| program_engine_nc(n, ELSEWHERE), Errno(ENOMEM)),
    Case::new(row::PROGRAM_ENGINE_NC64, |n| program_engine_nc64(n, STATE_BUFFER), Done, |n| program_engine_nc64(n, ELSEWHERE), Errno(ENOMEM)),
];
