//! What a program may map.
//!
//! Asked by [`Emulator::map`](super::Emulator::map). Spec `driver.md` section 4. A mapping that is allowed is made by the
//! kernel, of the file of the device's memory, in which an offset is an address.

use super::device::Device;
use super::memory::{Chunk, Lifespan};
use super::{AccessMode, MapRequest};
use xu_abi::driver::errno::{EACCES, EINVAL, EPERM};
use xu_abi::driver::window::{Block, Resource, Window};
use xu_abi::driver::{MemType, PAGE};

/// Blocks that windows are looked for in: as many as any architecture has of a kind.
const MOST_BLOCKS: u32 = 16;

/// Whether a mapping may be made. `Ok(false)`: only without the write flag.
pub(super) fn check(
    device: &Device,
    pid: u32,
    attached: bool,
    mode: AccessMode,
    request: MapRequest,
) -> Result<bool, i32> {
    refused_by_the_kernel(mode, request)?;
    // The kernel maps whole pages.
    let bytes = request.bytes.checked_next_multiple_of(PAGE).ok_or(EINVAL)?;
    let chunks = device.chunks.lock();
    let chunk = chunks.around(request.offset);
    if let Some(chunk) = chunk.filter(|chunk| fits(chunk, request.offset, bytes)) {
        let owner = attached && chunk.pid == pid;
        return Ok(owner || chunk.lifespan == Lifespan::Device);
    }
    drop(chunks);
    window(device, request.offset, bytes).ok_or(EPERM)
}

/// What does not come as far as the driver.
fn refused_by_the_kernel(mode: AccessMode, request: MapRequest) -> Result<(), i32> {
    let writes_through = request.writable && request.shared;
    if mode == AccessMode::WriteOnly || (mode == AccessMode::ReadOnly && writes_through) {
        return Err(EACCES);
    }
    // A private copy of the memory of a device is of no use.
    let is_private_copy = request.writable && !request.shared;
    if request.bytes == 0 || !request.offset.is_multiple_of(PAGE) || is_private_copy {
        return Err(EINVAL);
    }
    Ok(())
}

/// A mapping is of one whole chunk; that of a scratchpad may run on to the end of the pool.
fn fits(chunk: &Chunk, offset: u64, bytes: u64) -> bool {
    let is_long_enough = match chunk.mem_type {
        MemType::ContiguousScratchpad => (chunk.bytes..=chunk.reach).contains(&bytes),
        _ => bytes == chunk.bytes,
    };
    chunk.pa == offset && is_long_enough
}

/// The window with this place and length, and whether it may be written. Those of semaphores cannot be emulated.
fn window(device: &Device, offset: u64, bytes: u64) -> Option<bool> {
    let arch = device.config().arch;
    let kinds = [
        (Block::Tpb, Resource::StateBuffer),
        (Block::Topsp, Resource::All),
        (Block::Hbm, Resource::DeviceMemory),
    ];
    kinds.into_iter().find_map(|(block, resource)| {
        let window = |id| Window::of(arch, block, id, resource);
        (0..MOST_BLOCKS)
            .filter_map(window)
            .any(|window| (window.offset, window.bytes) == (offset, bytes))
            .then_some(resource != Resource::All)
    })
}
