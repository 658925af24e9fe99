//! Memory: making and freeing chunks.
//!
//! Called by the dispatch, and by the parts of the driver that need memory themselves. Spec `driver.md` sections 3 and 8.
//!
//! ```text
//!   extents ── free ranges          pools ── which part of which memory
//!   chunks ─── handles, owners      inquiry ── what can be asked about a chunk
//! ```
//!
//! New host memory reads as zeroes, unless the plan has it come from the driver's reserve pool. Device memory is not cleared by the driver: it is filled with [`EMULATED_POISON`] here,
//! so that a client that relies on zeroes fails.

mod chunks;
mod extents;
mod inquiry;
mod pools;

pub(super) use chunks::{Chunk, ChunkRef, Chunks, Lifespan, Request};
pub(super) use inquiry::{
    dmabuf_fd, dump_mem_chunks, mem_get_extended_info, mem_get_info, mem_get_pa, mem_mc_get_info,
    mem_mc_get_info_v2,
};
pub(super) use pools::{BOUNCE, Place};

use super::bug::Bug;
use super::call::{Call, Failure, Handled};
use super::device::Device;
use crate::config::DriverFault;
use std::collections::BTreeMap;
use xu_abi::driver::errno::{EACCES, EINVAL, ENOMEM};
use xu_abi::driver::unverified::{EMULATED_POISON, EMULATED_POISON_BYTES};
use xu_abi::driver::{
    MAX_CORES_PER_DEVICE, MemAlloc, MemAllocV2, MemAllocV2MemType, MemAllocV2MemType64, MemFree,
    MemType,
};

/// Makes a chunk with fresh contents.
pub(super) fn allocate(device: &Device, request: &Request) -> Result<Chunk, Failure> {
    device.faults.allocation()?;
    if device.chip.allocation_fails(near(device, request.place)) {
        return Err(Failure::Errno(ENOMEM));
    }
    let chunk = device
        .chunks
        .lock()
        .allocate(request)
        .map_err(Failure::Errno)?;
    if !chunk.is_host() {
        poison(device, &chunk);
    } else if !device.faults.happens(DriverFault::ReservePool, request.pid) {
        device.chip.punch(chunk.pa, chunk.bytes);
    }
    Ok(chunk)
}

/// A core that is local to the memory, if it is device memory.
fn near(device: &Device, place: Place) -> Option<u8> {
    match place {
        Place::Host => None,
        Place::Hbm(channel) => device.table().core_near(u8::try_from(channel).ok()?),
    }
}

fn poison(device: &Device, chunk: &Chunk) {
    // CAST: a byte; then at most 1 MiB.
    let bytes = chunk.bytes.min(EMULATED_POISON_BYTES) as usize;
    let poison = vec![EMULATED_POISON as u8; bytes];
    // A chunk is memory. A device that is lost has none, and says so to the next call.
    let _ = device.chip.write(chunk.pa, &poison);
}

/// Frees what a process that has gone has left.
pub(super) fn free_of(device: &Device, pid: u32) {
    device.chunks.lock().free_of(pid);
}

/// Frees a chunk, if it is still there.
pub(super) fn free(device: &Device, chunk: ChunkRef) {
    device.chunks.lock().free(chunk);
}

/// Host and device memory of chunks that go with their process, bytes, by process.
pub(super) fn usage(device: &Device) -> BTreeMap<u32, [u64; 2]> {
    let mut usage = BTreeMap::<u32, [u64; 2]>::new();
    let chunks = device.chunks.lock();
    for chunk in chunks.iter().filter(|c| c.lifespan == Lifespan::Process) {
        let [host, hbm] = usage.entry(chunk.pid).or_default();
        *(if chunk.is_host() { host } else { hbm }) += chunk.bytes;
    }
    usage
}

/// A host chunk that lives as long as the device, reads as zeroes and belongs to no process: its address. For datastores.
pub(super) fn allocate_datastore(device: &Device, bytes: u64) -> Result<u64, i32> {
    let request = Request {
        bytes,
        align: 0,
        place: Place::Host,
        core: 0,
        mem_type: MemType::DriverHost,
        pid: 0,
        lifespan: Lifespan::Device,
    };
    match allocate(device, &request) {
        Ok(chunk) => Ok(chunk.pa),
        Err(Failure::Errno(errno)) => Err(errno),
        Err(_) => Err(ENOMEM),
    }
}

/// What the argument of an allocation says: all have these fields. Alignment and type are not in all of them.
macro_rules! wanted {
    ($argument:ident, $align:expr, $mem_type:expr) => {
        Wanted {
            size: $argument.size,
            align: $align,
            host_memory: $argument.host_memory,
            dram_channel: $argument.dram_channel,
            nc_id: $argument.nc_id,
            mem_type: $mem_type,
        }
    };
}

/// MEM_ALLOC. A bad pointer is EACCES.
pub(super) fn mem_alloc(call: &Call<'_>) -> Handled {
    let argument: MemAlloc = call.argument().map_err(|_| Failure::Errno(EACCES))?;
    let wanted = wanted!(argument, 0, None);
    give(call, wanted, argument.mem_handle).map_err(|failure| match failure {
        Failure::Positive(_) => Failure::Errno(EACCES),
        other => other,
    })
}

/// MEM_ALLOC_V2.
pub(super) fn mem_alloc_v2(call: &Call<'_>) -> Handled {
    let argument: MemAllocV2 = call.argument()?;
    let wanted = wanted!(argument, argument.align, None);
    give_attached(call, wanted, argument.mem_handle)
}

/// MEM_ALLOC_V2MT.
pub(super) fn mem_alloc_v2mt(call: &Call<'_>) -> Handled {
    let argument: MemAllocV2MemType = call.argument()?;
    let wanted = wanted!(argument, argument.align, Some(argument.mem_type));
    give_attached(call, wanted, argument.mem_handle)
}

/// MEM_ALLOC_V2MT64: the same with a longer structure, which is never looked at.
pub(super) fn mem_alloc_v2mt64(call: &Call<'_>) -> Handled {
    let argument: MemAllocV2MemType64 = call.argument()?;
    let wanted = wanted!(argument, argument.align, Some(argument.mem_type));
    give_attached(call, wanted, argument.mem_handle)
}

/// MEM_FREE: of any process. Scratchpads are to go in the reverse of the order in which they came, and who does otherwise is
/// told.
pub(super) fn mem_free(call: &Call<'_>) -> Handled {
    let argument: MemFree = call.argument()?;
    let mut chunks = call.device.chunks.lock();
    let chunk = chunks.get(argument.mem_handle).map_err(Failure::Errno)?;
    let later = chunks.later_scratchpad(&chunk);
    chunks.free(chunk.reference());
    drop(chunks);
    if let Some(later) = later {
        let warning = format!(
            "the scratchpad at {:#x} is freed before the one at {later:#x}, which came after it",
            chunk.pa
        );
        call.device.warn(call.pid(), warning);
    }
    Ok(())
}

/// What the arguments of all allocations say.
struct Wanted {
    size: u64,
    align: u64,
    host_memory: u32,
    dram_channel: u32,
    nc_id: u32,
    mem_type: Option<u32>,
}

impl Wanted {
    fn request(&self, call: &Call<'_>) -> Result<Request, Failure> {
        // CAST: at most 4 memories.
        let channels = call.device.table().hbm.len() as u32;
        if self.dram_channel >= channels || self.nc_id >= MAX_CORES_PER_DEVICE {
            return Err(Failure::Errno(EINVAL));
        }
        let (place, unknown) = if self.host_memory == 0 {
            (Place::Hbm(self.dram_channel), MemType::UnknownDevice)
        } else {
            (Place::Host, MemType::UnknownHost)
        };
        let mem_type = self.mem_type.and_then(MemType::from_raw);
        if mem_type == Some(MemType::ContiguousScratchpad) && place == Place::Host {
            return Err(Failure::Bug(Bug {
                trap: 25,
                what: format!("mem_type 19 with host_memory {}", self.host_memory),
            }));
        }
        Ok(Request {
            bytes: self.size,
            align: self.align,
            place,
            core: self.nc_id,
            mem_type: mem_type.unwrap_or(unknown),
            pid: call.pid(),
            lifespan: Lifespan::Process,
        })
    }
}

fn give_attached(call: &Call<'_>, wanted: Wanted, answer: u64) -> Handled {
    if !call.attached {
        return Err(Failure::Bug(Bug {
            trap: 11,
            what: format!(
                "{} by process {}, which is not attached: it closed a duplicate, or was forked (trap 12)",
                call.ioctl.name,
                call.pid()
            ),
        }));
    }
    give(call, wanted, answer)
}

fn give(call: &Call<'_>, wanted: Wanted, answer: u64) -> Handled {
    let chunk = allocate(call.device, &wanted.request(call)?)?;
    call.store(answer, &chunk.handle).inspect_err(|_| {
        // Nobody will ever know its handle.
        free(call.device, chunk.reference());
    })?;
    Ok(())
}
