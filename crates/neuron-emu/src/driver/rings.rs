//! The DMA queues of a device: who initialised each.

use super::call::{Call, Failure, Handled};
use super::device::Device;
use xu_abi::driver::errno;

/// The DMA queues of a device: who initialised each.
#[derive(Debug, Default)]
pub(super) struct Rings {}

/// Gives the queues of a process that has gone a ring that does no harm.
pub(super) fn park(device: &Device, pid: u32) {
    let _ = (device, pid);
}

pub(super) fn dma_eng_set_state(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn dma_eng_get_state(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn dma_queue_init(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn dma_queue_init_batch(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn dma_queue_copy_start(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn dma_ack_completed(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn dma_queue_get_state(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn dma_copy_descriptors(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn dma_copy_descriptors64(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn dma_descriptor_copyout(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

/// A core is reset: the queues of its engines have no rings.
pub(super) fn reset(device: &Device, core: u8) {
    let _ = (device, core);
}
