//! The notification rings of a device: which chunk each queue has.

use super::call::{Call, Failure, Handled};
use super::device::Device;
use xu_abi::driver::errno;

/// The notification rings of a device: which chunk each queue has.
#[derive(Debug, Default)]
pub(super) struct Notifications {}

/// Destroys the rings of a core, and of its TOPSPs.
pub(super) fn destroy(device: &Device, core: u8) {
    let _ = (device, core);
}

pub(super) fn notifications_init_v1(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn notifications_init_v2(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn notifications_init_with_realloc_v2(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn notifications_queue_info(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}
