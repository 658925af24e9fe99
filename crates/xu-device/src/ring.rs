//! The producer's side of a DMA queue: write copy pairs, then start the queue.
//!
//! Used by the stager and by transfer queues, each of which owns one.
//! A pair carries the ring id of its lap, so the device can tell it from an older one.
//! Rules: spec `xu.md` section 2.10, `driver.md` section 6.

use crate::device::{Device, DeviceError, DmaQueue, Place};
use crate::memory::DeviceMemory;
use std::sync::Arc;
use xu_abi::descriptor::{CopyPair, DESCRIPTOR_SIZE, Descriptor, MAX_TRANSFER};
use xu_abi::{DeviceAddr, RingId};
use zerocopy::IntoBytes;

const RING_ALIGN: u64 = 256;
const MIN_DESCRIPTORS: u32 = 32;
const GRANULE: u32 = 16;

/// Both rings of one DMA queue, and where the next pair goes.
#[derive(Debug)]
pub struct DescriptorRing {
    device: Arc<dyn Device>,
    queue: DmaQueue,
    tx: DeviceMemory,
    rx: DeviceMemory,
    descriptors: u32,
    next: u32,
    ring_id: RingId,
}

impl DescriptorRing {
    /// Reserves rings for at least `descriptors` outstanding pairs and opens the queue on them.
    ///
    /// # Errors
    /// [`DeviceError::BadArgument`] when the count does not fit 32 bits once rounded up; as [`Device::allocate`] and
    /// [`Device::open_dma_queue`].
    pub fn open(
        device: &Arc<dyn Device>,
        queue: DmaQueue,
        descriptors: u32,
    ) -> Result<Self, DeviceError> {
        let Some(descriptors) = descriptors
            .max(MIN_DESCRIPTORS)
            .checked_next_multiple_of(GRANULE)
        else {
            return Err(DeviceError::BadArgument {
                what: "descriptors of a ring",
                value: u64::from(descriptors),
                allowed: "at most 4294967280",
            });
        };
        let bytes = u64::from(descriptors) * DESCRIPTOR_SIZE;
        let tx = zeroed(device, bytes)?;
        let rx = zeroed(device, bytes)?;
        device.open_dma_queue(queue, tx.addr(), rx.addr(), descriptors)?;
        Ok(Self {
            device: Arc::clone(device),
            queue,
            tx,
            rx,
            descriptors,
            next: 0,
            ring_id: RingId::FIRST,
        })
    }

    /// Writes the pair that copies `len` bytes. The device does not look at it before [`DescriptorRing::start`]
    /// or, on a model-exec queue, the doorbell.
    ///
    /// The caller keeps no more pairs outstanding than it asked for in [`DescriptorRing::open`].
    ///
    /// # Errors
    /// [`DeviceError::BadArgument`] when `len` is not 1 to 65,536; as [`Device::write`].
    pub fn push(&mut self, from: DeviceAddr, to: DeviceAddr, len: u32) -> Result<(), DeviceError> {
        self.push_pair(CopyPair::new(from, to, len, self.ring_id), len)
    }

    /// As [`DescriptorRing::push`], and the next pair waits until these bytes have arrived.
    ///
    /// # Errors
    /// As [`DescriptorRing::push`].
    pub fn push_with_barrier(
        &mut self,
        from: DeviceAddr,
        to: DeviceAddr,
        len: u32,
    ) -> Result<(), DeviceError> {
        let pair = CopyPair::new(from, to, len, self.ring_id).map(CopyPair::with_write_barrier);
        self.push_pair(pair, len)
    }

    fn push_pair(&mut self, pair: Option<CopyPair>, len: u32) -> Result<(), DeviceError> {
        let Some(CopyPair { tx, rx }) = pair else {
            return Err(DeviceError::BadArgument {
                what: "length of a copy",
                value: u64::from(len),
                allowed: "1 to 65536",
            });
        };
        let offset = u64::from(self.next) * DESCRIPTOR_SIZE;
        // Rx first: a source without a destination must never be seen.
        self.rx.write(offset, Descriptor::as_bytes(&rx))?;
        self.tx.write(offset, Descriptor::as_bytes(&tx))?;
        self.next += 1;
        if self.next == self.descriptors {
            self.next = 0;
            self.ring_id = self.ring_id.next();
        }
        Ok(())
    }

    /// Never gives the rings back, since the device may go on reading them.
    pub fn leak(&mut self) {
        self.tx.leak();
        self.rx.leak();
    }

    /// Hands the last `pairs` to the device.
    ///
    /// # Errors
    /// As [`Device::start_dma`].
    pub fn start(&self, pairs: u32) -> Result<(), DeviceError> {
        self.device.start_dma(self.queue, pairs)
    }
}

/// Most bytes that one pair moves.
pub const MAX_PAIR_BYTES: u32 = MAX_TRANSFER;

fn zeroed(device: &Arc<dyn Device>, bytes: u64) -> Result<DeviceMemory, DeviceError> {
    let memory = DeviceMemory::allocate(device, Place::Host, bytes, RING_ALIGN)?;
    // A ring id of 0 is not fresh on the first lap, so a zeroed ring holds nothing.
    memory.write(0, &vec![0; bytes as usize])?;
    Ok(memory)
}
