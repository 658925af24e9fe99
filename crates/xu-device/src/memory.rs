//! A piece of device memory that is returned when it is dropped.
//!
//! Held by rings, programs, transfer queues and tensors, so that nothing else calls
//! [`Device::release`].

use crate::device::{Device, DeviceError, Place};
use std::sync::Arc;
use xu_abi::DeviceAddr;

/// Reserved memory; dropping it gives it back.
///
/// Whoever drops it must know that the device no longer reads or writes there, or say [`DeviceMemory::leak`] before.
#[derive(Debug)]
pub struct DeviceMemory {
    device: Arc<dyn Device>,
    place: Place,
    addr: DeviceAddr,
    bytes: u64,
    leaked: bool,
}

impl DeviceMemory {
    /// Reserves `bytes` at `place`, aligned to `align` (a power of two).
    ///
    /// # Errors
    /// As [`Device::allocate`].
    pub fn allocate(
        device: &Arc<dyn Device>,
        place: Place,
        bytes: u64,
        align: u64,
    ) -> Result<Self, DeviceError> {
        let addr = device.allocate(place, bytes, align)?;
        Ok(Self {
            device: Arc::clone(device),
            place,
            addr,
            bytes,
            leaked: false,
        })
    }

    /// Never gives it back, since the device may go on reading or writing there.
    pub fn leak(&mut self) {
        self.leaked = true;
    }

    /// Whose memory it is.
    #[must_use]
    pub fn place(&self) -> Place {
        self.place
    }

    /// Where it begins.
    #[must_use]
    pub fn addr(&self) -> DeviceAddr {
        self.addr
    }

    /// How long it is, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The address `offset` bytes in; the caller keeps `offset` within [`DeviceMemory::bytes`].
    #[must_use]
    pub fn at(&self, offset: u64) -> DeviceAddr {
        debug_assert!(offset <= self.bytes, "{offset} of {}", self.bytes);
        // Allocated memory ends inside the 64-bit space.
        DeviceAddr::new(self.addr.get().saturating_add(offset))
    }

    /// Stores `bytes` at `offset`.
    ///
    /// # Errors
    /// [`DeviceError::BadAddress`] when the range is not inside this memory; as [`Device::write`].
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.check(offset, bytes.len())?;
        self.device.write(self.at(offset), bytes)
    }

    /// Loads `into.len()` bytes from `offset`.
    ///
    /// # Errors
    /// [`DeviceError::BadAddress`] when the range is not inside this memory; as [`Device::read`].
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        self.check(offset, into.len())?;
        self.device.read(self.at(offset), into)
    }

    fn check(&self, offset: u64, len: usize) -> Result<(), DeviceError> {
        let len = len as u64;
        match offset.checked_add(len) {
            Some(end) if end <= self.bytes => Ok(()),
            _ => Err(DeviceError::BadAddress {
                addr: DeviceAddr::new(self.addr.get().saturating_add(offset)),
                bytes: len,
            }),
        }
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if self.leaked {
            return;
        }
        // The address came from `allocate`, so the only refusal is a device that is gone.
        let _ = self.device.release(self.addr);
    }
}
