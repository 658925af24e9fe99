//! The chunks of a device: handles, addresses, sizes, owners.

use super::call::{Call, Failure, Handled};
use super::device::Device;
use xu_abi::driver::errno;

/// The chunks of a device: handles, addresses, sizes, owners.
#[derive(Debug, Default)]
pub(super) struct Chunks {}

/// Frees what a process that has gone has left.
pub(super) fn free_of(device: &Device, pid: u32) {
    let _ = (device, pid);
}

pub(super) fn mem_alloc(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn mem_alloc_v2(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn mem_alloc_v2mt(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn mem_alloc_v2mt64(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn mem_free(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn mem_get_pa(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn mem_get_info(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn mem_get_extended_info(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn mem_mc_get_info(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn mem_mc_get_info_v2(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn dump_mem_chunks(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn dmabuf_fd(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

/// Host and device memory of chunks that go with their process, bytes, by process.
pub(super) fn usage(device: &Device) -> std::collections::BTreeMap<u32, [u64; 2]> {
    let _ = device;
    std::collections::BTreeMap::new()
}

/// A host chunk that lives as long as the device, reads as zeroes and belongs to no process: its address. For datastores.
pub(super) fn allocate_datastore(device: &Device, bytes: u64) -> Result<u64, i32> {
    let _ = (device, bytes);
    Err(errno::ENOMEM)
}
