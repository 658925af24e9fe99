//! What a program may map.

use super::device::Device;
use super::{AccessMode, MapRequest};
use xu_abi::driver::errno;

/// Whether a mapping may be made. `Ok(false)`: only without the write flag.
pub(super) fn check(
    device: &Device,
    pid: u32,
    attached: bool,
    mode: AccessMode,
    request: MapRequest,
) -> Result<bool, i32> {
    let _ = (device, pid, attached, mode, request);
    Err(errno::EPERM)
}
