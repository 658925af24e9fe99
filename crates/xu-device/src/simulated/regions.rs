//! Memory that is the machine's own: one HBM per core and the host memory that the device can reach.
//!
//! Reached through [`Memory`](super::memory::Memory). An access lies entirely inside one region or does nothing.
//! Each region has its own lock, so cores do not contend for each other's HBM.
//!
//! ```text
//!  core n:  HBM_STRIDE n   | firmware, no memory here | hbm_bytes ...        |
//!  host:    HOST_BASE      | host_bytes ...                                  |
//! ```
//!
//! Fresh HBM is filled with [`POISON`] (the first MiB of it), so that a client that relies on zeroes fails;
//! fresh host memory is zeroed.

use super::heap::{Heap, Holder, Refusal};
use crate::device::{DeviceError, MemoryUse, Place};
use crate::map;
use parking_lot::{Mutex, RwLock};
use xu_abi::{DeviceAddr, TpbIndex};

/// Blocks are multiples of this, bytes.
const GRANULE: u64 = 64;
/// What fresh HBM is filled with.
const POISON: u8 = 0xA5;
/// How much of a fresh block is filled.
const POISONED_BYTES: u64 = 1 << 20;

/// All memory of a machine that keeps its own.
#[derive(Debug)]
pub(super) struct Regions {
    hbm: Vec<Region>,
    host: Region,
}

struct Region {
    place: Place,
    base: u64,
    len: u64,
    /// The operating system backs a page when it is first written.
    bytes: RwLock<Vec<u8>>,
    heap: Mutex<Heap>,
}

/// Without the bytes.
impl core::fmt::Debug for Region {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}: {:#x} + {:#x}", self.place, self.base, self.len)
    }
}

impl Regions {
    /// Memory for `tpbs` cores. The caller has checked that the sizes are within reason.
    ///
    /// # Errors
    /// [`DeviceError::Os`] when this process cannot have that much memory.
    pub(super) fn new(tpbs: u16, hbm_bytes: u64, host_bytes: u64) -> Result<Self, DeviceError> {
        let hbm = |tpb| {
            let base = map::HBM_STRIDE * u64::from(tpb) + map::HBM_RESERVED;
            Region::new(Place::Hbm(TpbIndex::new(tpb)), base, hbm_bytes)
        };
        Ok(Self {
            hbm: (0..tpbs).map(hbm).collect::<Result<_, _>>()?,
            host: Region::new(Place::Host, map::HOST_BASE, host_bytes)?,
        })
    }

    /// Reserves a block and fills it: HBM with poison, host memory with zeroes.
    pub(super) fn allocate(
        &self,
        place: Place,
        bytes: u64,
        align: u64,
        holder: Holder,
    ) -> Result<DeviceAddr, DeviceError> {
        let (region, filling, filled) = match place {
            Place::Host => (&self.host, 0, bytes),
            Place::Hbm(tpb) => match self.hbm.get(usize::from(tpb.get())) {
                Some(region) => (region, POISON, bytes.min(POISONED_BYTES)),
                None => return Err(no_such_core(tpb)),
            },
        };
        // Whole granules, so that aligned blocks leave no slivers between them. What cannot be rounded does not fit.
        let reserved = bytes.checked_next_multiple_of(GRANULE).unwrap_or(bytes);
        let start = region
            .heap
            .lock()
            .allocate(reserved, align, holder)
            .map_err(|refusal| match refusal {
                Refusal::NoBytes => DeviceError::BadArgument {
                    what: "bytes to allocate",
                    value: bytes,
                    allowed: "at least 1",
                },
                Refusal::Alignment => DeviceError::BadArgument {
                    what: "alignment",
                    value: align,
                    allowed: "a power of two",
                },
                Refusal::Exhausted { free, largest } => DeviceError::OutOfMemory {
                    place,
                    asked: bytes,
                    free,
                    largest,
                },
            })?;
        // CAST: the block lies inside the region, whose length is that of a vector.
        let offset = (start - region.base) as usize;
        region.bytes.write()[offset..offset + filled as usize].fill(filling);
        Ok(DeviceAddr::new(start))
    }

    /// How much of a region is taken.
    pub(super) fn use_of(&self, place: Place) -> Option<MemoryUse> {
        let region = match place {
            Place::Host => &self.host,
            Place::Hbm(tpb) => self.hbm.get(usize::from(tpb.get()))?,
        };
        let limit = region.bytes.read().len() as u64;
        let heap = region.heap.lock();
        Some(MemoryUse {
            used: limit - heap.free_bytes(),
            limit,
            largest_free: heap.largest_free(),
        })
    }

    /// Returns a block that `holder` has allocated.
    pub(super) fn release(&self, addr: DeviceAddr, holder: Holder) -> Result<(), DeviceError> {
        let (region, _) = self.resolve(addr, 0)?;
        if region.heap.lock().release(addr.get(), holder) {
            Ok(())
        } else {
            Err(DeviceError::BadAddress { addr, bytes: 0 })
        }
    }

    /// Whether `bytes` bytes from `addr` are memory.
    pub(super) fn check(&self, addr: DeviceAddr, bytes: u64) -> Result<(), DeviceError> {
        self.resolve(addr, bytes).map(|_| ())
    }

    /// Loads `into.len()` bytes.
    pub(super) fn read(&self, from: DeviceAddr, into: &mut [u8]) -> Result<(), DeviceError> {
        let (region, offset) = self.resolve(from, into.len() as u64)?;
        // PANIC: `resolve` has checked that the range is inside the region, here and below.
        into.copy_from_slice(&region.bytes.read()[offset..offset + into.len()]);
        Ok(())
    }

    /// As [`Regions::read`], from HBM only: engines fetch no instructions from host memory.
    pub(super) fn fetch(&self, from: DeviceAddr, into: &mut [u8]) -> Result<(), DeviceError> {
        if from.get() >= map::HOST_BASE {
            return Err(DeviceError::BadAddress {
                addr: from,
                bytes: into.len() as u64,
            });
        }
        self.read(from, into)
    }

    /// Stores `bytes`.
    pub(super) fn write(&self, to: DeviceAddr, bytes: &[u8]) -> Result<(), DeviceError> {
        let (region, offset) = self.resolve(to, bytes.len() as u64)?;
        region.bytes.write()[offset..offset + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    /// Loads one aligned word.
    ///
    /// The region's lock is the acquire side: everything that was stored before the word, by whoever stored
    /// it under the same lock, is visible to later loads of this thread.
    pub(super) fn load_acquire(&self, from: DeviceAddr) -> Result<u32, DeviceError> {
        const WORD: usize = size_of::<u32>();
        if !from.get().is_multiple_of(WORD as u64) {
            return Err(DeviceError::BadAddress {
                addr: from,
                bytes: WORD as u64,
            });
        }
        let mut word = [0; WORD];
        self.read(from, &mut word)?;
        Ok(u32::from_le_bytes(word))
    }

    /// The region that holds all of the range, and the offset of its first byte there.
    fn resolve(&self, addr: DeviceAddr, bytes: u64) -> Result<(&Region, usize), DeviceError> {
        let raw = addr.get();
        let region = if raw >= map::HOST_BASE {
            Some(&self.host)
        } else {
            usize::try_from(raw / map::HBM_STRIDE)
                .ok()
                .and_then(|core| self.hbm.get(core))
        };
        region
            .and_then(|region| Some((region, region.offset(raw, bytes)?)))
            .ok_or(DeviceError::BadAddress { addr, bytes })
    }
}

impl Region {
    fn new(place: Place, base: u64, len: u64) -> Result<Self, DeviceError> {
        // CAST: the machine's configuration bounds the size.
        let size = len as usize;
        // `vec!` gives zeroed pages that cost nothing until they are touched, but ends the process when there
        // are none to be had: ask first.
        Vec::<u8>::new()
            .try_reserve_exact(size)
            .map_err(|error| DeviceError::Os {
                what: "memory for the simulated machine",
                reason: error.to_string(),
            })?;
        Ok(Self {
            place,
            base,
            len,
            bytes: RwLock::new(vec![0; size]),
            heap: Mutex::new(Heap::new(base, len)),
        })
    }

    fn offset(&self, raw: u64, bytes: u64) -> Option<usize> {
        let offset = raw.checked_sub(self.base)?;
        let end = offset.checked_add(bytes)?;
        // CAST: at most the length of a vector.
        (end <= self.len).then_some(offset as usize)
    }
}

/// The answer to a core that the machine does not have.
pub(super) fn no_such_core(tpb: TpbIndex) -> DeviceError {
    DeviceError::BadArgument {
        what: "core",
        value: u64::from(tpb.get()),
        allowed: "a core of this machine",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: u64 = 1 << 20;
    const HBM: u64 = map::HBM_RESERVED;

    #[test]
    fn an_access_lies_inside_one_region() {
        let memory = Regions::new(2, BYTES, BYTES).unwrap();
        let regions = [HBM, map::HBM_STRIDE + HBM, map::HOST_BASE];
        for base in regions {
            assert!(memory.check(DeviceAddr::new(base), BYTES).is_ok());
            assert!(memory.check(DeviceAddr::new(base + BYTES), 0).is_ok());
            for (addr, bytes) in [
                (base - 1, 1),
                (base, BYTES + 1),
                (base + BYTES, 1),
                (base, u64::MAX),
            ] {
                assert!(
                    memory.check(DeviceAddr::new(addr), bytes).is_err(),
                    "{addr:#x} {bytes}"
                );
            }
        }
        for addr in [0, 2 * map::HBM_STRIDE + HBM, u64::MAX] {
            assert!(memory.check(DeviceAddr::new(addr), 1).is_err());
        }
    }

    #[test]
    fn fresh_hbm_is_poisoned_and_fresh_host_memory_is_zero() {
        let memory = Regions::new(1, BYTES, BYTES).unwrap();
        for (place, expected) in [
            (Place::Hbm(TpbIndex::new(0)), [POISON; 8]),
            (Place::Host, [0; 8]),
        ] {
            let mut seen = [1; 8];
            let block = memory.allocate(place, 8, 8, Holder::Client).unwrap();
            memory.write(block, &[7; 8]).unwrap();
            memory.release(block, Holder::Client).unwrap();
            let again = memory.allocate(place, 8, 8, Holder::Client).unwrap();
            assert_eq!(block, again);
            memory.read(again, &mut seen).unwrap();
            assert_eq!(seen, expected);
        }
    }

    #[test]
    fn words_are_aligned_and_instructions_are_in_hbm() {
        let memory = Regions::new(1, BYTES, BYTES).unwrap();
        let host = DeviceAddr::new(map::HOST_BASE);
        memory.write(host, &[1, 2, 3, 4]).unwrap();
        assert_eq!(memory.load_acquire(host), Ok(0x0403_0201));
        assert!(
            memory
                .load_acquire(DeviceAddr::new(map::HOST_BASE + 2))
                .is_err()
        );
        assert!(memory.fetch(host, &mut [0; 64]).is_err());
        assert!(memory.fetch(DeviceAddr::new(HBM), &mut [0; 64]).is_ok());
    }
}
