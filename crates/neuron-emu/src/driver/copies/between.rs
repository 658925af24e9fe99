//! Copies from chunk to chunk.
//!
//! Spec `driver.md` section 3. Each goes through the copy queue of a core, in order with the asynchronous ones there.

use super::asynchronous::QueueKey;
use super::{dma_length, in_time, named};
use crate::driver::call::{Call, Failure, Handled};
use crate::driver::memory::Chunk;
use xu_abi::driver::errno::EPERM;
use xu_abi::driver::{MemCopy, MemCopy64};

/// A copy, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Copy {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) bytes: u64,
    /// The queue that makes it.
    pub(super) queue: QueueKey,
}

/// MEM_COPY.
pub(in crate::driver) fn mem_copy(call: &Call<'_>) -> Handled {
    let argument: MemCopy = call.argument()?;
    copy_now(
        call,
        &MemCopy64 {
            src: argument.src,
            dst: argument.dst,
            size: argument.size.into(),
            src_offset: argument.src_offset.into(),
            dst_offset: argument.dst_offset.into(),
        },
    )
}

/// MEM_COPY64.
pub(in crate::driver) fn mem_copy64(call: &Call<'_>) -> Handled {
    copy_now(call, &call.argument()?)
}

/// Makes a copy behind those that wait in its queue.
pub(super) fn copy_now(call: &Call<'_>, asked: &MemCopy64) -> Handled {
    let copy = Copy::checked(call, asked)?;
    in_time(call, copy.queue)?;
    let mut copies = call.device.copies.lock();
    copies.run_queue(call.device, copy.queue);
    let copied = call.device.chip.copy(copy.from, copy.to, copy.bytes);
    copied.map_err(|_| Failure::Errno(EPERM))
}

impl Copy {
    pub(super) fn checked(call: &Call<'_>, asked: &MemCopy64) -> Result<Self, Failure> {
        let (src, dst) = (named(call, asked.src)?, named(call, asked.dst)?);
        let from = src.range(asked.src_offset, asked.size)?;
        let to = dst.range(asked.dst_offset, asked.size)?;
        Ok(Self {
            from,
            to,
            bytes: dma_length(call, asked.size),
            queue: queue_of(call, &src, &dst),
        })
    }
}

/// The copy queue of the core that was named when the device chunk was allocated; of the destination between host chunks.
pub(super) fn queue_of(call: &Call<'_>, src: &Chunk, dst: &Chunk) -> QueueKey {
    let chunk = if src.is_host() { dst } else { src };
    QueueKey::of_core(call.device.table(), chunk.core)
}
