//! Copies that the driver makes: between chunks, between chunks and buffers, and into engines.

use super::call::{Call, Failure, Handled};
use xu_abi::driver::errno;

pub(super) fn mem_copy(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn mem_copy64(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn mem_buf_copy(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn mem_buf_copy64(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn mem_buf_zerocopy64(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn memset(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn memset64(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn mem_copy_async(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn mem_copy_async64(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn mem_copy_async_wait(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn program_engine(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn program_engine_nc(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}

pub(super) fn program_engine_nc64(call: &Call<'_>) -> Handled {
    let _ = call;
    Err(Failure::Errno(errno::EINVAL))
}
