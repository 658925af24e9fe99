//! Memory that somebody else keeps: what a machine runs over when its memory is not its own.
//!
//! Implemented by whoever starts a machine with [`Machine::start_on`](super::Machine::start_on), called by its DMA
//! queues, its engines and its notification writer, from any thread.
//! Rules: an access lies entirely inside memory or does nothing; nothing is reserved here, whoever keeps the memory
//! knows what is in use.

use crate::device::DeviceError;
use core::fmt;
use xu_abi::DeviceAddr;

/// Memory of a machine, as its DMA queues address it.
pub trait Backing: Send + Sync + fmt::Debug {
    /// Whether all `bytes` bytes from `addr` are memory.
    fn contains(&self, addr: DeviceAddr, bytes: u64) -> bool;

    /// Whether an address is one of device memory: engines fetch instructions from nowhere else.
    fn is_hbm(&self, addr: DeviceAddr) -> bool;

    /// Loads `into.len()` bytes.
    ///
    /// # Errors
    /// [`DeviceError::BadAddress`] when the range is not memory.
    fn read(&self, from: DeviceAddr, into: &mut [u8]) -> Result<(), DeviceError>;

    /// Stores `bytes`.
    ///
    /// # Errors
    /// [`DeviceError::BadAddress`] when the range is not memory.
    fn write(&self, to: DeviceAddr, bytes: &[u8]) -> Result<(), DeviceError>;

    /// Loads one aligned word; what was stored before it with [`Backing::store_release`] is seen by later loads.
    ///
    /// # Errors
    /// [`DeviceError::BadAddress`] when the word is not memory, or not aligned.
    fn load_acquire(&self, from: DeviceAddr) -> Result<u32, DeviceError>;

    /// Stores one aligned word, after everything that this thread has stored before.
    ///
    /// # Errors
    /// [`DeviceError::BadAddress`] when the word is not memory, or not aligned.
    fn store_release(&self, to: DeviceAddr, word: u32) -> Result<(), DeviceError>;
}
