//! What can be asked about chunks.
//!
//! Spec `driver.md` sections 3 and 8. Addresses and mmap offsets are the same numbers.

use super::chunks::Chunk;
use super::pools::Place;
use crate::choices::GARBAGE_HANDLE;
use crate::driver::call::{Call, Failure, Handled};
use xu_abi::driver::errno::{EAGAIN, EINVAL, ENOMEM, EPROTONOSUPPORT};
use xu_abi::driver::{
    DmabufFd, DumpMemChunks, MemChunk, MemGetExtendedInfo, MemGetInfo, MemGetMcMmapInfo,
    MemGetMcMmapInfoV2, MemGetPa,
};

/// MEM_GET_PA.
pub(in crate::driver) fn mem_get_pa(call: &Call<'_>) -> Handled {
    let argument: MemGetPa = call.argument()?;
    let chunk = named(call, argument.mem_handle)?;
    Ok(call.store(argument.pa, &chunk.pa)?)
}

/// MEM_GET_INFO.
pub(in crate::driver) fn mem_get_info(call: &Call<'_>) -> Handled {
    let argument: MemGetInfo = call.argument()?;
    let chunk = named(call, argument.mem_handle)?;
    if argument.mmap_offset != 0 {
        call.store(argument.mmap_offset, &chunk.pa)?;
    }
    Ok(call.store(argument.pa, &chunk.pa)?)
}

/// MEM_GET_EXTENDED_INFO: the handle is overwritten, and a bad one is a positive number.
pub(in crate::driver) fn mem_get_extended_info(call: &Call<'_>) -> Handled {
    let asked: MemGetExtendedInfo = call.argument()?;
    let chunk = call.device.chunks.lock().named(asked.mem_handle);
    let chunk = chunk.ok_or(Failure::Positive(EINVAL))?;
    let answer = MemGetExtendedInfo {
        mem_handle: GARBAGE_HANDLE | chunk.pa,
        version: !asked.version,
        host_memory: chunk.is_host().into(),
        mmap_offset: chunk.pa,
        pa: chunk.pa,
        pid: chunk.pid.into(),
        size: chunk.bytes,
    };
    Ok(call.answer(&answer)?)
}

/// MEM_MC_GET_INFO.
pub(in crate::driver) fn mem_mc_get_info(call: &Call<'_>) -> Handled {
    let mut argument: MemGetMcMmapInfo = call.argument()?;
    let chunk = around(call, argument.pa)?;
    argument.mmap_offset = chunk.pa;
    argument.size = chunk.bytes;
    Ok(call.answer(&argument)?)
}

/// MEM_MC_GET_INFO_V2.
pub(in crate::driver) fn mem_mc_get_info_v2(call: &Call<'_>) -> Handled {
    let mut argument: MemGetMcMmapInfoV2 = call.argument()?;
    let chunk = around(call, argument.pa)?;
    argument.mmap_offset = chunk.pa;
    argument.size = chunk.bytes;
    argument.mem_handle = chunk.handle;
    Ok(call.answer(&argument)?)
}

/// DUMP_MEM_CHUNKS: the chunks of one HBM, if there is room for all.
pub(in crate::driver) fn dump_mem_chunks(call: &Call<'_>) -> Handled {
    let mut argument: DumpMemChunks = call.argument()?;
    // CAST: widening.
    if argument.hbm_index as usize >= call.device.table().hbm.len() {
        return Err(Failure::Errno(EINVAL));
    }
    let place = Place::Hbm(argument.hbm_index);
    let chunks = call.device.chunks.lock();
    let of_hbm = chunks.iter().filter(|chunk| chunk.place == place);
    let entries: Vec<[u8; MemChunk::ABI.size]> = of_hbm.map(|c| entry(c).to_bytes()).collect();
    drop(chunks);
    // CAST: there are at most MAX_HANDLE chunks.
    argument.num_entries_out = entries.len() as u32;
    if argument.num_entries_out > argument.num_entries_in {
        call.answer(&argument)?;
        return Err(Failure::Errno(EAGAIN));
    }
    call.caller.write(argument.data, entries.as_flattened())?;
    Ok(call.answer(&argument)?)
}

/// DMABUF_FD: this kernel has none.
pub(in crate::driver) fn dmabuf_fd(call: &Call<'_>) -> Handled {
    let _: DmabufFd = call.argument()?;
    Err(Failure::Errno(EPROTONOSUPPORT))
}

fn entry(chunk: &Chunk) -> MemChunk {
    MemChunk {
        pa: chunk.pa,
        size: chunk.bytes,
        mem_type: chunk.mem_type.raw(),
        ..MemChunk::ZEROED
    }
}

fn named(call: &Call<'_>, handle: u64) -> Result<Chunk, Failure> {
    let chunk = call.device.chunks.lock().get(handle);
    chunk.map_err(Failure::Errno)
}

fn around(call: &Call<'_>, pa: u64) -> Result<Chunk, Failure> {
    let chunk = call.device.chunks.lock().around(pa);
    chunk.ok_or(Failure::Errno(ENOMEM))
}
