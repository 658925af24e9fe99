//! The bytes of the machine: its own regions, or memory that somebody else keeps.
//!
//! Read and written by clients through [`Device`](crate::Device), by the DMA queues, by the engines and by
//! the notification writer. An access lies entirely inside one region or does nothing.
//!
//! ```text
//!   Machine::start      Regions    HBM and host memory with heaps
//!   Machine::start_on   Backing    bytes only: nothing can be reserved here
//! ```

use super::backing::Backing;
use super::heap::Holder;
use super::regions::Regions;
use crate::device::{DeviceError, MemoryUse, Place};
use std::sync::Arc;
use xu_abi::DeviceAddr;

pub(super) use super::regions::no_such_core;

/// All memory of a machine.
#[derive(Debug)]
pub(super) enum Memory {
    /// The machine's own.
    Own(Regions),
    /// Somebody else's.
    Foreign(Arc<dyn Backing>),
}

impl Memory {
    /// Memory of its own for `tpbs` cores: see [`Regions::new`].
    pub(super) fn new(tpbs: u16, hbm_bytes: u64, host_bytes: u64) -> Result<Self, DeviceError> {
        Regions::new(tpbs, hbm_bytes, host_bytes).map(Self::Own)
    }

    /// Reserves a block and fills it. In somebody else's memory there is no room.
    pub(super) fn allocate(
        &self,
        place: Place,
        bytes: u64,
        align: u64,
        holder: Holder,
    ) -> Result<DeviceAddr, DeviceError> {
        match self {
            Self::Own(regions) => regions.allocate(place, bytes, align, holder),
            Self::Foreign(_) => Err(DeviceError::OutOfMemory {
                place,
                asked: bytes,
                free: 0,
                largest: 0,
            }),
        }
    }

    /// How much of a region is taken, of regions of its own.
    pub(super) fn use_of(&self, place: Place) -> Option<MemoryUse> {
        match self {
            Self::Own(regions) => regions.use_of(place),
            Self::Foreign(_) => None,
        }
    }

    /// Returns a block that `holder` has allocated.
    pub(super) fn release(&self, addr: DeviceAddr, holder: Holder) -> Result<(), DeviceError> {
        match self {
            Self::Own(regions) => regions.release(addr, holder),
            Self::Foreign(_) => Err(DeviceError::BadAddress { addr, bytes: 0 }),
        }
    }

    /// Whether `bytes` bytes from `addr` are memory.
    pub(super) fn check(&self, addr: DeviceAddr, bytes: u64) -> Result<(), DeviceError> {
        match self {
            Self::Own(regions) => regions.check(addr, bytes),
            Self::Foreign(backing) if backing.contains(addr, bytes) => Ok(()),
            Self::Foreign(_) => Err(DeviceError::BadAddress { addr, bytes }),
        }
    }

    /// Loads `into.len()` bytes.
    pub(super) fn read(&self, from: DeviceAddr, into: &mut [u8]) -> Result<(), DeviceError> {
        match self {
            Self::Own(regions) => regions.read(from, into),
            Self::Foreign(backing) => backing.read(from, into),
        }
    }

    /// As [`Memory::read`], from HBM only: engines fetch no instructions from host memory.
    pub(super) fn fetch(&self, from: DeviceAddr, into: &mut [u8]) -> Result<(), DeviceError> {
        match self {
            Self::Own(regions) => regions.fetch(from, into),
            Self::Foreign(backing) if backing.is_hbm(from) => backing.read(from, into),
            Self::Foreign(_) => Err(DeviceError::BadAddress {
                addr: from,
                bytes: into.len() as u64,
            }),
        }
    }

    /// Stores `bytes`.
    pub(super) fn write(&self, to: DeviceAddr, bytes: &[u8]) -> Result<(), DeviceError> {
        match self {
            Self::Own(regions) => regions.write(to, bytes),
            Self::Foreign(backing) => backing.write(to, bytes),
        }
    }

    /// Loads one aligned word; what was stored before it is visible to later loads of this thread.
    pub(super) fn load_acquire(&self, from: DeviceAddr) -> Result<u32, DeviceError> {
        match self {
            Self::Own(regions) => regions.load_acquire(from),
            Self::Foreign(backing) => backing.load_acquire(from),
        }
    }

    /// Stores one word after everything that this thread has stored before: whoever sees it sees that too.
    pub(super) fn store_release(&self, to: DeviceAddr, word: u32) -> Result<(), DeviceError> {
        match self {
            // The lock of the region is the release side.
            Self::Own(regions) => regions.write(to, &word.to_le_bytes()),
            Self::Foreign(backing) => backing.store_release(to, word),
        }
    }
}
