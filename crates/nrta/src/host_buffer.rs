//! Host memory that a device's DMA reaches directly, and the pool that it comes from.
//!
//! A [`HostBuffer`] is for whoever moves the same sizes again and again. Memory of the heap goes through a bounce buffer, since
//! the device does not reach it; a host buffer does not:
//!
//! ```text
//!   write            Vec ── copied by the worker ──▶ bounce buffer ══ DMA ══▶ tensor
//!   write_from                                        host buffer  ══ DMA ══▶ tensor
//!   copy_from_slice  slice ── copied by the caller ──▶ host buffer
//! ```
//!
//! So the transfer is without a copy, and filling the buffer is not: the bytes of a device's host memory are reached by calls
//! and not by a reference. It pays where one fill serves several transfers, where the worker's time is what is short (it
//! serves all queues of a core), and where the bytes come in parts anyway.
//!
//! # The pool
//!
//! Each runtime has one. Buffers are rounded up to a power of two, from [`HostBuffer::ALIGN`] to
//! [`HostBuffer::MOST_POOLED`] bytes, and go back when they are dropped, on whatever thread that happens; up to
//! [`HostBuffer::MOST_FREE`] bytes wait there for their next use. Larger buffers, and those that are too many, are given back
//! to the device at once, as everything is when the runtime is closed.
//!
//! # What the device may still touch
//!
//! A buffer in a request belongs to the request. It comes back with the outcome, or goes to the pool where nobody takes that.
//! Where a request ends while the device may still write (it hangs, it has aborted), the buffer does not come back:
//! [`RequestError::value`](crate::RequestError::value) is `None`, and the memory is kept until the queue's device is known to
//! be at rest, like that of the tensors.

use crate::error::Error;
use crate::logical_core::Core;
use core::fmt;
use parking_lot::Mutex;
use std::sync::Arc;
use xu_abi::Status;
use xu_device::memory::DeviceMemory;
use xu_device::region::{OutOfRange, Region};
use xu_device::{Device, DeviceError, Place};
use xu_worker::here_only::HereOnly;

/// Host memory that the device reaches. Contents are undefined until written: they may be what an earlier user of the same
/// runtime left there, so fill what must not be seen, before or after.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = nrta::Runtime::builder().open()?;
/// # let core = runtime.core(0)?;
/// let (moves, tensor) = (core.tensor_op(0)?, core.allocate(8)?);
/// let mut buffer = core.host_buffer(8)?;
///
/// buffer.copy_from_slice(0, b"pinned")?;
/// let mut buffer = moves.write_from(&tensor, 0, buffer)?.wait()?;
/// buffer.fill(0)?;
/// let buffer = moves.read_into(&tensor, 0, buffer)?.wait()?;
///
/// let mut back = [0; 6];
/// buffer.copy_to_slice(0, &mut back)?;
/// assert_eq!(&back, b"pinned");
/// # Ok(())
/// # }
/// ```
pub struct HostBuffer {
    /// There until this is dropped or kept.
    memory: Option<Box<HostMemory>>,
    pool: Arc<HostPool>,
}

/// The memory of a buffer, in use or free.
#[derive(Debug)]
pub(crate) struct HostMemory {
    memory: HereOnly<DeviceMemory>,
    /// How much of it is used.
    bytes: u64,
    /// A request has it that has begun.
    lent: bool,
}

/// A buffer was not filled or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HostBufferError {
    /// The bytes do not lie inside the buffer.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
    /// The buffer cannot be made so long.
    #[error("a host buffer with room for {capacity} bytes cannot have {bytes}")]
    TooLong {
        /// What was asked for.
        bytes: u64,
        /// [`HostBuffer::capacity`].
        capacity: u64,
    },
    /// The device refused.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// This process is a child of the one that opened the runtime.
    #[error("the host buffer belongs to the process that this one was forked from")]
    Forked,
}

impl HostBufferError {
    /// The status that the C ABI reports for this error.
    #[must_use]
    pub fn status(&self) -> Status {
        match self {
            Self::OutOfRange(_) | Self::TooLong { .. } => Status::INVALID,
            Self::Device(error) => error.status(),
            Self::Forked => Status::FAILURE,
        }
    }
}

impl Core {
    /// A buffer of `bytes` bytes in host memory that the devices of this runtime reach: a free one of the pool's, or a new one.
    ///
    /// It can be used with every core of the runtime.
    ///
    /// # Errors
    /// [`Error::Device`] when memory is exhausted, [`Error::Closed`], [`Error::Forked`]. Over the kernel driver a buffer is one
    /// piece of the kernel's memory: without an IOMMU there is typically none above 4 MiB (`driver.md` section 8).
    pub fn host_buffer(&self, bytes: u64) -> Result<HostBuffer, Error> {
        let runtime = self.runtime();
        runtime.check_open()?;
        let taken = runtime.host_pool().take(bytes);
        Ok(taken.inspect_err(|error| runtime.log_out_of_memory(error))?)
    }
}

impl HostBuffer {
    /// A buffer begins at a multiple of this many bytes, and has room for a multiple of it.
    pub const ALIGN: u64 = 4096;

    /// The largest buffers that the pool keeps, bytes.
    pub const MOST_POOLED: u64 = 16 << 20;

    /// Most bytes that wait in the pool to be used again.
    pub const MOST_FREE: u64 = 64 << 20;

    /// Length in bytes: what a transfer moves.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.memory.as_ref().map_or(0, |memory| memory.bytes)
    }

    /// The length that it can be given, bytes.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        let memory = self.memory.as_ref();
        memory.map_or(0, |memory| memory.memory.bytes())
    }

    /// Gives it another length. The bytes stay; those beyond the earlier length are undefined.
    ///
    /// # Errors
    /// [`HostBufferError::TooLong`] beyond [`HostBuffer::capacity`].
    pub fn resize(&mut self, bytes: u64) -> Result<(), HostBufferError> {
        let capacity = self.capacity();
        match &mut self.memory {
            Some(memory) if bytes <= capacity => {
                memory.bytes = bytes;
                Ok(())
            }
            _ => Err(HostBufferError::TooLong { bytes, capacity }),
        }
    }

    /// Sets every byte to `value`.
    ///
    /// # Errors
    /// [`HostBufferError::Device`], [`HostBufferError::Forked`].
    pub fn fill(&mut self, value: u8) -> Result<(), HostBufferError> {
        let pattern = [value; Self::ALIGN as usize];
        let bytes = self.bytes();
        let mut done = 0;
        while done < bytes {
            // CAST: no more than the pattern's length.
            let part = (bytes - done).min(Self::ALIGN) as usize;
            // PANIC: no more than the pattern's length.
            self.copy_from_slice(done, &pattern[..part])?;
            done += part as u64;
        }
        Ok(())
    }

    /// Copies `bytes` to byte `offset` of the buffer.
    ///
    /// # Errors
    /// [`HostBufferError::OutOfRange`], and nothing was copied; [`HostBufferError::Device`], [`HostBufferError::Forked`].
    pub fn copy_from_slice(&mut self, offset: u64, bytes: &[u8]) -> Result<(), HostBufferError> {
        let memory = self.checked(offset, bytes.len())?;
        Ok(memory.write(offset, bytes)?)
    }

    /// Copies the buffer's bytes from `offset` on to `into`, as many as that is long.
    ///
    /// # Errors
    /// As [`HostBuffer::copy_from_slice`].
    pub fn copy_to_slice(&self, offset: u64, into: &mut [u8]) -> Result<(), HostBufferError> {
        let memory = self.checked(offset, into.len())?;
        Ok(memory.read(offset, into)?)
    }

    /// The part that is used; `None` only of a buffer that has been kept.
    pub(crate) fn region(&self) -> Option<Region> {
        let memory = self.memory.as_ref()?;
        Region::of(&memory.memory).slice(0, memory.bytes).ok()
    }

    /// Whether it comes from this pool.
    pub(crate) fn is_of(&self, pool: &Arc<HostPool>) -> bool {
        Arc::ptr_eq(&self.pool, pool)
    }

    /// A request that uses it begins: dropped from now on, it does not go to the pool.
    pub(crate) fn lend(&mut self) {
        self.mark(true);
    }

    /// The device is known to have done with it.
    pub(crate) fn hand_back(&mut self) {
        self.mark(false);
    }

    /// Takes the memory away from the pool: the device may go on touching it.
    pub(crate) fn keep(mut self) -> Option<Box<HostMemory>> {
        self.memory.take()
    }

    fn mark(&mut self, lent: bool) {
        if let Some(memory) = &mut self.memory {
            memory.lent = lent;
        }
    }

    fn checked(&self, offset: u64, len: usize) -> Result<&DeviceMemory, HostBufferError> {
        let (size, bytes) = (self.bytes(), len as u64);
        let range = OutOfRange {
            offset,
            bytes,
            size,
        };
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= size);
        match &self.memory {
            Some(memory) if !memory.memory.is_here() => Err(HostBufferError::Forked),
            Some(memory) if inside => Ok(&memory.memory),
            _ => Err(range.into()),
        }
    }
}

impl Drop for HostBuffer {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            self.pool.put(memory);
        }
    }
}

impl fmt::Debug for HostBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostBuffer")
            .field("bytes", &self.bytes())
            .field("capacity", &self.capacity())
            .finish_non_exhaustive()
    }
}

/// Number of sizes that are kept: powers of two from [`HostBuffer::ALIGN`] to [`HostBuffer::MOST_POOLED`].
const CLASSES: usize = (HostBuffer::MOST_POOLED / HostBuffer::ALIGN).ilog2() as usize + 1;

/// The free buffers of one size.
#[allow(
    clippy::vec_box,
    reason = "the boxes go round, so that a request carries a pointer and allocates nothing"
)]
type Class = Vec<Box<HostMemory>>;

/// The free buffers of a runtime, by size.
#[derive(Debug)]
pub(crate) struct HostPool {
    device: HereOnly<Arc<dyn Device>>,
    free: Mutex<Free>,
}

#[derive(Debug, Default)]
struct Free {
    classes: [Class; CLASSES],
    bytes: u64,
    /// Nothing is kept any more.
    closed: bool,
}

impl HostPool {
    pub(crate) fn new(device: &Arc<dyn Device>) -> Arc<Self> {
        Arc::new(Self {
            device: HereOnly::new(Arc::clone(device)),
            free: Mutex::default(),
        })
    }

    /// Gives everything that is free back to the device, and keeps nothing from now on.
    pub(crate) fn close(&self) {
        if self.device.is_here() {
            drop(self.drain(true));
        }
    }

    /// The caller has checked that this is the process of the pool.
    fn take(self: &Arc<Self>, bytes: u64) -> Result<HostBuffer, DeviceError> {
        let size = size_for(bytes);
        // Taken before the match, which would keep the lock until its end.
        let free = self.free.lock().take(size);
        let memory = match free {
            Some(mut memory) => {
                memory.bytes = bytes;
                memory
            }
            None => self.allocate(bytes, size)?,
        };
        Ok(HostBuffer {
            memory: Some(memory),
            pool: Arc::clone(self),
        })
    }

    fn allocate(&self, bytes: u64, size: u64) -> Result<Box<HostMemory>, DeviceError> {
        let new = || DeviceMemory::allocate(&self.device, Place::Host, size, HostBuffer::ALIGN);
        let memory = match new() {
            Err(DeviceError::OutOfMemory { .. }) if self.has_free() => {
                // What waits here for its next use may be what is missing.
                drop(self.drain(false));
                new()?
            }
            memory => memory?,
        };
        Ok(Box::new(HostMemory {
            memory: HereOnly::new(memory),
            bytes,
            lent: false,
        }))
    }

    /// Takes back a buffer that nobody uses.
    fn put(&self, mut memory: Box<HostMemory>) {
        if !memory.memory.is_here() {
            // A thread that does not exist here may hold the lock.
            return;
        }
        if memory.lent {
            // Its request was never ended, so nobody knows what the device does.
            memory.memory.leak();
            return;
        }
        // What is not kept is dropped without the lock.
        let unwanted = self.free.lock().put(memory);
        drop(unwanted);
    }

    fn has_free(&self) -> bool {
        self.free.lock().bytes > 0
    }

    /// Empties the pool; what was in it is for the caller to drop, without the lock.
    fn drain(&self, close: bool) -> [Class; CLASSES] {
        let mut free = self.free.lock();
        free.closed |= close;
        free.bytes = 0;
        core::mem::take(&mut free.classes)
    }
}

impl Free {
    fn take(&mut self, size: u64) -> Option<Box<HostMemory>> {
        let memory = self.classes.get_mut(class_of(size))?.pop()?;
        self.bytes -= size;
        Some(memory)
    }

    /// Keeps a buffer, or gives it back where there are enough.
    fn put(&mut self, memory: Box<HostMemory>) -> Option<Box<HostMemory>> {
        let size = memory.memory.bytes();
        if self.closed || self.bytes + size > HostBuffer::MOST_FREE {
            return Some(memory);
        }
        match self.classes.get_mut(class_of(size)) {
            Some(class) => {
                class.push(memory);
                self.bytes += size;
                None
            }
            None => Some(memory),
        }
    }
}

/// What is allocated for so many bytes: a power of two where the pool keeps it.
fn size_for(bytes: u64) -> u64 {
    let bytes = bytes.max(HostBuffer::ALIGN);
    if bytes <= HostBuffer::MOST_POOLED {
        bytes.next_power_of_two()
    } else {
        // What the device cannot have it refuses.
        bytes
            .checked_next_multiple_of(HostBuffer::ALIGN)
            .unwrap_or(bytes)
    }
}

/// The class of a size that [`size_for`] gave; none has it that is too large.
fn class_of(size: u64) -> usize {
    if size > HostBuffer::MOST_POOLED {
        return CLASSES;
    }
    // CAST: less than 64.
    (size / HostBuffer::ALIGN).ilog2() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_two_as_long_as_they_are_pooled() {
        let cases = [
            (0, 4096, Some(0)),
            (4096, 4096, Some(0)),
            (4097, 8192, Some(1)),
            ((16 << 20) - 1, 16 << 20, Some(CLASSES - 1)),
            ((16 << 20) + 1, (16 << 20) + 4096, None),
            (u64::MAX, u64::MAX, None),
        ];
        for (bytes, size, class) in cases {
            assert_eq!(size_for(bytes), size, "{bytes}");
            let is_kept = class_of(size) < CLASSES;
            assert_eq!(is_kept.then(|| class_of(size)), class, "{bytes}");
        }
    }
}
