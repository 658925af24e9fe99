//! Semaphores and events.

use super::call::{Call, Failure, Handled};
use xu_abi::driver::errno;

pub(super) fn semaphore_increment(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn semaphore_decrement(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn semaphore_read(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn semaphore_write(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn event_set(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn event_get(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}
