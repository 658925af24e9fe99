//! Registers and windows of registers.

use super::call::{Call, Failure, Handled};
use xu_abi::driver::errno;

pub(super) fn bar_read(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn bar_write(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn read_hw_counters(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn resource_mmap_info(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}
