//! Move a chunk of bytes over one DMA queue.
//!
//! Owned by [`TensorDma`](crate::tensor_op::TensorDma), driven from the worker thread: begin one chunk, poll until it
//! has arrived, begin the next. Nothing here blocks.
//! What comes from or goes to the host passes through a bounce buffer in host memory that the device can reach; from
//! device memory to device memory the way is direct. Behind the data pairs goes a 4-byte copy of a marker, whose
//! arrival says that the data has arrived.
//!
//! ```text
//!   begin_write   host bytes -> bounce =DMA=> device        pairs of a chunk:  | data .. | data, barrier | marker |
//!   begin_fill                  bounce =DMA=> device
//!   begin_read                  device =DMA=> bounce -> collect
//!   begin_copy                  device =DMA=> device
//! ```
//!
//! Rules: `driver.md` section 6.

use crate::device::{Device, DeviceError, DmaQueue, Place};
use crate::map::COMPLETION_MARKER;
use crate::memory::DeviceMemory;
use crate::ring::{DescriptorRing, MAX_PAIR_BYTES};
use std::sync::Arc;
use xu_abi::DeviceAddr;

/// Most bytes of one chunk.
pub const CHUNK: usize = 4 * MAX_PAIR_BYTES as usize;

/// Offsets of the marker's two ends.
const MARKER_SOURCE: u64 = 0;
const MARKER_TARGET: u64 = 4;
const WORD: u32 = 4;

/// One DMA queue with its bounce buffer.
///
/// Dropped with a chunk in flight, it never gives back bounce buffer, marker and rings: the device may still touch them.
#[derive(Debug)]
pub struct TransferQueue {
    device: Arc<dyn Device>,
    queue: DmaQueue,
    ring: DescriptorRing,
    bounce: DeviceMemory,
    marker: DeviceMemory,
    in_flight: bool,
}

impl TransferQueue {
    /// Opens `queue` and reserves its bounce buffer.
    ///
    /// # Errors
    /// As [`DescriptorRing::open`].
    pub fn open(device: &Arc<dyn Device>, queue: DmaQueue) -> Result<Self, DeviceError> {
        let pairs = (CHUNK as u32).div_ceil(MAX_PAIR_BYTES) + 1;
        let bounce = DeviceMemory::allocate(device, Place::Host, CHUNK as u64, 64)?;
        let marker = DeviceMemory::allocate(device, Place::Host, 64, 64)?;
        marker.write(MARKER_SOURCE, &COMPLETION_MARKER.to_le_bytes())?;
        // Last: nothing fails any more once the device knows of the rings.
        let ring = DescriptorRing::open(device, queue, pairs)?;
        Ok(Self {
            device: Arc::clone(device),
            queue,
            ring,
            bounce,
            marker,
            in_flight: false,
        })
    }

    /// The host's clock, as the device reads it: [`Device::now_ns`].
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.device.now_ns()
    }

    /// Whether a descriptor has been written whose chunk has not been seen to arrive: from then on the device may
    /// touch the chunk's memory, started or not.
    #[must_use]
    pub fn is_in_flight(&self) -> bool {
        self.in_flight
    }

    /// Starts moving `bytes` (1 to [`CHUNK`]) to device address `to`.
    ///
    /// # Errors
    /// [`DeviceError::BadArgument`] for another length; as [`Device::write`] and [`Device::start_dma`].
    pub fn begin_write(&mut self, to: DeviceAddr, bytes: &[u8]) -> Result<(), DeviceError> {
        let len = chunk_len(bytes.len())?;
        self.bounce.write(0, bytes)?;
        self.post(self.bounce.addr(), to, len)
    }

    /// Puts `bytes` (1 to [`CHUNK`]) into the bounce buffer, for [`TransferQueue::begin_fill`].
    ///
    /// # Errors
    /// [`DeviceError::BadArgument`] for another length; as [`Device::write`].
    pub fn fill(&self, bytes: &[u8]) -> Result<(), DeviceError> {
        chunk_len(bytes.len())?;
        self.bounce.write(0, bytes)
    }

    /// Starts moving the first `len` bytes (1 to [`CHUNK`]) of the bounce buffer to device address `to`.
    ///
    /// # Errors
    /// As [`TransferQueue::begin_write`].
    pub fn begin_fill(&mut self, to: DeviceAddr, len: usize) -> Result<(), DeviceError> {
        let len = chunk_len(len)?;
        self.post(self.bounce.addr(), to, len)
    }

    /// Starts moving `len` bytes (1 to [`CHUNK`]) from one device address to another.
    ///
    /// # Errors
    /// As [`TransferQueue::begin_write`].
    pub fn begin_copy(
        &mut self,
        from: DeviceAddr,
        to: DeviceAddr,
        len: usize,
    ) -> Result<(), DeviceError> {
        let len = chunk_len(len)?;
        self.post(from, to, len)
    }

    /// Starts moving `len` bytes (1 to [`CHUNK`]) from device address `from`.
    ///
    /// # Errors
    /// As [`TransferQueue::begin_write`].
    pub fn begin_read(&mut self, from: DeviceAddr, len: usize) -> Result<(), DeviceError> {
        let len = chunk_len(len)?;
        self.post(from, self.bounce.addr(), len)
    }

    /// Whether the chunk has arrived.
    ///
    /// # Errors
    /// [`DeviceError::DmaAborted`] when it never will; as [`Device::load_acquire`].
    pub fn poll(&mut self) -> Result<bool, DeviceError> {
        if self.device.load_acquire(self.marker.at(MARKER_TARGET))? == COMPLETION_MARKER {
            self.in_flight = false;
            return Ok(true);
        }
        self.device.check_dma(self.queue)?;
        Ok(false)
    }

    /// Fetches what [`TransferQueue::begin_read`] brought.
    ///
    /// # Errors
    /// As [`Device::read`].
    pub fn collect(&self, into: &mut [u8]) -> Result<(), DeviceError> {
        self.bounce.read(0, into)
    }

    fn post(&mut self, from: DeviceAddr, to: DeviceAddr, len: u32) -> Result<(), DeviceError> {
        self.marker.write(MARKER_TARGET, &0u32.to_le_bytes())?;
        // The line between what can be undone and what the device may know: a descriptor that is written may be seen,
        // even if writing it failed half-way.
        self.in_flight = true;
        let mut pairs = 0;
        let mut done = 0;
        while done < len {
            let part = (len - done).min(MAX_PAIR_BYTES);
            let (src, dst) = (offset(from, done), offset(to, done));
            done += part;
            if done == len {
                self.ring.push_with_barrier(src, dst, part)?;
            } else {
                self.ring.push(src, dst, part)?;
            }
            pairs += 1;
        }
        self.ring.push(
            self.marker.at(MARKER_SOURCE),
            self.marker.at(MARKER_TARGET),
            WORD,
        )?;
        self.ring.start(pairs + 1)
    }
}

impl Drop for TransferQueue {
    fn drop(&mut self) {
        if self.in_flight {
            self.ring.leak();
            self.bounce.leak();
            self.marker.leak();
        }
    }
}

fn chunk_len(len: usize) -> Result<u32, DeviceError> {
    match u32::try_from(len) {
        Ok(len32) if (1..=CHUNK).contains(&len) => Ok(len32),
        _ => Err(DeviceError::BadArgument {
            what: "length of a transfer chunk",
            value: len as u64,
            allowed: "1 to 262144 bytes",
        }),
    }
}

/// An address outside memory is refused by the device, so overflow only has to stay out of range.
fn offset(addr: DeviceAddr, bytes: u32) -> DeviceAddr {
    DeviceAddr::new(addr.get().saturating_add(u64::from(bytes)))
}
