//! The memory of a device that this process has: chunks and notification rings, found by their addresses.
//!
//! Used by [`super::NeuronDevice`] for every call that names an address.
//!
//! ```text
//!   address ── the region that begins at or before it, and reaches over it
//!                |
//!                |─ host chunk, ring: mapped; words are stored and loaded               no system call
//!                |─ device chunk up to 1 MiB: mapped, too; whole words stored like that, no system call
//!                |                            loaded like that up to 256 bytes
//!                '─ other device chunk, parts of words, long loads: the driver copies   MEM_BUF_COPY64, _ZEROCOPY64
//! ```
//!
//! Requests and binding tables lie in small device chunks, and descriptors in host chunks: staging makes no call.
//!
//! **Ruling.** What is given back while a queue points at it stays until the queue does not ([`RingPair`] has it).
//! What is never given back, because the device may still touch it, goes when the device is closed, after a reset.
//!
//! [`RingPair`]: crate::neuron::RingPair

use super::words::{self, WORD};
use crate::device::{DeviceError, MemoryUse, Place};
use crate::neuron::{Chunk, ChunkSpec, DriverError, Location, Mapping, Meaning, Node, NqRing};
use core::sync::atomic::{AtomicU64, Ordering, fence};
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;
use xu_abi::DeviceAddr;
use xu_abi::driver::{MemType, PAGE};

/// Device chunks up to so many bytes are mapped.
const MAPPED: u64 = 1 << 20;
/// More than the driver can be asked for is more than there is.
const MOST_BYTES: u64 = i64::MAX.unsigned_abs();
/// Loads through a mapping of device memory are slow: beyond so many bytes the driver copies.
const LOADED: usize = 256;

/// All of it.
#[derive(Debug)]
pub(super) struct Memory {
    node: Arc<Node>,
    /// Device memory that each core may have, bytes.
    hbm_bytes: u64,
    /// By address. None overlaps another: the driver gives no memory twice.
    regions: RwLock<BTreeMap<u64, Region>>,
    /// Bytes that callers have: by core, then of the host.
    used: Vec<AtomicU64>,
}

#[derive(Clone, Debug)]
enum Region {
    Chunk(Arc<Chunk>, Place),
    Ring(Arc<NqRing>),
}

impl Region {
    fn bytes(&self) -> u64 {
        match self {
            Self::Chunk(chunk, _) => chunk.bytes(),
            Self::Ring(ring) => ring.spec().bytes.into(),
        }
    }

    fn is_in_host(&self) -> bool {
        match self {
            Self::Chunk(chunk, _) => chunk.location() == Location::Host,
            Self::Ring(_) => true,
        }
    }

    fn mapping(&self) -> Option<&Mapping> {
        match self {
            Self::Chunk(chunk, _) => chunk.mapping(),
            Self::Ring(ring) => Some(ring.mapping()),
        }
    }
}

impl Memory {
    pub(super) fn new(node: &Arc<Node>, hbm_bytes: u64) -> Self {
        let cores = usize::from(node.identity().cores());
        Self {
            node: Arc::clone(node),
            hbm_bytes,
            regions: RwLock::default(),
            used: (0..=cores).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    pub(super) fn allocate(
        &self,
        place: Place,
        bytes: u64,
        align: u64,
    ) -> Result<DeviceAddr, DeviceError> {
        let spec = self.spec(place, bytes, align)?;
        let exhausted = |free| DeviceError::OutOfMemory {
            place,
            asked: bytes,
            free,
            largest: free,
        };
        let most = match place {
            Place::Host => MOST_BYTES,
            Place::Hbm(_) => self.hbm_bytes,
        };
        // Taken before the driver is asked, so that two threads do not get more than there is.
        let all = bytes.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX);
        let within = |used: u64| used.checked_add(all).filter(|sum| *sum <= most);
        if let Err(used) = self.count(place, within) {
            return Err(exhausted(match place {
                Place::Host => 0,
                Place::Hbm(_) => most.saturating_sub(used),
            }));
        }
        let chunk = self.chunk(spec).map_err(|error| {
            let _ = self.count(place, |used| used.checked_sub(all));
            match error.meaning() {
                // How much the driver has left it does not say.
                Some(Meaning::OutOfMemory) => exhausted(0),
                _ => error.into(),
            }
        })?;
        let addr = chunk.addr();
        let region = Region::Chunk(Arc::new(chunk), place);
        self.regions.write().insert(addr.get(), region);
        Ok(addr)
    }

    /// What the driver is asked for.
    fn spec(&self, place: Place, bytes: u64, align: u64) -> Result<ChunkSpec, DeviceError> {
        let refuse = |what, value, allowed| {
            Err(DeviceError::BadArgument {
                what,
                value,
                allowed,
            })
        };
        if bytes == 0 {
            return refuse("bytes to allocate", 0, "at least 1");
        }
        if !align.is_power_of_two() {
            return refuse("alignment", align, "a power of two");
        }
        match place {
            Place::Host if align > PAGE => refuse(
                "alignment of host memory",
                align,
                "a power of two up to 4096",
            ),
            Place::Host => Ok(ChunkSpec {
                bytes,
                align: 0,
                location: Location::Host,
                core: 0,
                mem_type: MemType::CodeHost,
            }),
            Place::Hbm(tpb) => {
                let core = super::core_of(&self.node, tpb)?;
                let table = self.node.identity().table();
                // CAST: 2 or 4.
                let channels = table.hbm.len() as u8;
                Ok(ChunkSpec {
                    bytes,
                    align,
                    location: Location::Device {
                        channel: core / (table.cores / channels),
                    },
                    core,
                    mem_type: MemType::TensorsDevice,
                })
            }
        }
    }

    /// A chunk, mapped where that is wanted.
    fn chunk(&self, spec: ChunkSpec) -> Result<Chunk, DriverError> {
        let chunk = Chunk::allocate(&self.node, spec)?;
        if spec.location == Location::Host {
            chunk.map()?;
            return Ok(chunk);
        }
        if chunk.bytes() > MAPPED {
            return Ok(chunk);
        }
        if chunk.ends_an_hbm() {
            // Another one, while this one occupies the end.
            let other = Chunk::allocate(&self.node, spec)?;
            other.map()?;
            return Ok(other);
        }
        chunk.map()?;
        Ok(chunk)
    }

    pub(super) fn release(&self, addr: DeviceAddr) -> Result<(), DeviceError> {
        let mut regions = self.regions.write();
        match regions.get(&addr.get()) {
            Some(Region::Chunk(chunk, place)) => {
                let _ = self.count(*place, |used| used.checked_sub(chunk.bytes()));
            }
            _ => return Err(DeviceError::BadAddress { addr, bytes: 0 }),
        }
        let region = regions.remove(&addr.get());
        // Unmapped and freed without the lock: those are calls.
        drop(regions);
        drop(region);
        Ok(())
    }

    /// Changes how much is in use; what it is when the change is refused.
    fn count(&self, place: Place, change: impl Fn(u64) -> Option<u64>) -> Result<(), u64> {
        let used = self.used(place).ok_or(0u64)?;
        // Relaxed: the number stands for itself.
        let changed = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
        changed.map(|_| ())
    }

    fn used(&self, place: Place) -> Option<&AtomicU64> {
        let (host, cores) = self.used.split_last()?;
        match place {
            Place::Host => Some(host),
            Place::Hbm(tpb) => cores.get(usize::from(tpb.get())),
        }
    }

    /// By what this process has: the driver does not say what others have. Of host memory nobody knows how much there is.
    pub(super) fn use_of(&self, place: Place) -> Option<MemoryUse> {
        let Place::Hbm(_) = place else { return None };
        // Relaxed: the number stands for itself.
        let used = self.used(place)?.load(Ordering::Relaxed);
        Some(MemoryUse {
            used,
            limit: self.hbm_bytes,
            largest_free: self.hbm_bytes.saturating_sub(used),
        })
    }

    /// Whether something was never given back: then the device may still touch it.
    pub(super) fn is_in_use(&self) -> bool {
        let regions = self.regions.read();
        regions
            .values()
            .any(|region| matches!(region, Region::Chunk(..)))
    }

    /// Gives none of it back: the cores may be at it for ever.
    pub(super) fn leak(&self) {
        for region in self.regions.read().values() {
            if let Region::Chunk(chunk, _) = region {
                chunk.leak();
            }
        }
    }

    /// Takes a notification ring up, so that its records can be read.
    pub(super) fn insert_ring(&self, ring: &Arc<NqRing>) {
        let region = Region::Ring(Arc::clone(ring));
        self.regions.write().insert(ring.addr().get(), region);
    }

    /// Forgets a notification ring.
    pub(super) fn remove_ring(&self, ring: &NqRing) {
        self.regions.write().remove(&ring.addr().get());
    }

    /// The chunk that begins at an address.
    pub(super) fn chunk_at(&self, addr: DeviceAddr) -> Result<Arc<Chunk>, DeviceError> {
        match self.regions.read().get(&addr.get()) {
            Some(Region::Chunk(chunk, _)) => Ok(Arc::clone(chunk)),
            _ => Err(DeviceError::BadAddress { addr, bytes: 0 }),
        }
    }

    /// The region in which all of a range lies, and how far from its beginning.
    fn find(&self, addr: DeviceAddr, bytes: usize) -> Result<(Region, u64), DeviceError> {
        self.check_alive()?;
        // CAST: a length fits 64 bits.
        let bytes = bytes as u64;
        let none = DeviceError::BadAddress { addr, bytes };
        let regions = self.regions.read();
        let Some((base, region)) = regions.range(..=addr.get()).next_back() else {
            return Err(none);
        };
        let offset = addr.get() - base;
        match offset.checked_add(bytes) {
            Some(end) if end <= region.bytes() => Ok((region.clone(), offset)),
            _ => Err(none),
        }
    }

    pub(super) fn write(&self, to: DeviceAddr, bytes: &[u8]) -> Result<(), DeviceError> {
        let (region, offset) = self.find(to, bytes.len())?;
        // Parts of words are changed by a locked instruction, which is for memory of the host only.
        let is_whole = (offset | bytes.len() as u64).is_multiple_of(WORD as u64);
        if let Some(mapping) = region.mapping()
            && (region.is_in_host() || is_whole)
        {
            let stored = words::store(mapping, offset as usize, bytes);
            if !region.is_in_host() {
                // PAIRS: with the device. Drains what the processor gathers for such memory: the doorbell is not to
                // overtake it.
                fence(Ordering::SeqCst);
            }
            return stored.ok_or_else(|| self.unreachable(to, bytes.len()));
        }
        match region {
            Region::Chunk(chunk, _) => copied(&chunk, chunk.write(offset, bytes)),
            Region::Ring(_) => Err(self.unreachable(to, bytes.len())),
        }
    }

    pub(super) fn read(&self, from: DeviceAddr, into: &mut [u8]) -> Result<(), DeviceError> {
        let (region, offset) = self.find(from, into.len())?;
        let length = into.len();
        let is_short = region.is_in_host() || length <= LOADED;
        match region.mapping() {
            // CAST: a mapping is no longer than the address space.
            Some(mapping) if is_short => words::load(mapping, offset as usize, into)
                .ok_or_else(|| self.unreachable(from, length)),
            _ => match &region {
                Region::Chunk(chunk, _) => copied(chunk, chunk.read(offset, into)),
                Region::Ring(_) => Err(self.unreachable(from, length)),
            },
        }
    }

    pub(super) fn load_acquire(&self, from: DeviceAddr) -> Result<u32, DeviceError> {
        let (region, offset) = self.find(from, WORD)?;
        if !offset.is_multiple_of(WORD as u64) {
            return Err(self.unreachable(from, WORD));
        }
        if let Some(mapping) = region.mapping() {
            // CAST: as in `read`.
            let word = mapping.word(offset as usize);
            // PAIRS: with the release store of whoever writes there; a device orders its writes to memory itself.
            let loaded = word.map(|word| word.load(Ordering::Acquire));
            return loaded.ok_or_else(|| self.unreachable(from, WORD));
        }
        let mut word = [0; WORD];
        match region {
            Region::Chunk(chunk, _) => copied(&chunk, chunk.read(offset, &mut word))?,
            Region::Ring(_) => return Err(self.unreachable(from, WORD)),
        }
        Ok(u32::from_ne_bytes(word))
    }

    /// Mappings stay when a device goes, so they are not to be believed then.
    fn check_alive(&self) -> Result<(), DeviceError> {
        match self.node.lost() {
            None => Ok(()),
            Some(_) => Err(DeviceError::Lost),
        }
    }

    /// A range that a mapping does not have. In a child of a fork it has none.
    fn unreachable(&self, addr: DeviceAddr, bytes: usize) -> DeviceError {
        if self.node.owner().is_here() {
            // CAST: a length fits 64 bits.
            let bytes = bytes as u64;
            DeviceError::BadAddress { addr, bytes }
        } else {
            DriverError::Forked.into()
        }
    }
}

/// What became of a copy. When it has timed out the device may still be at it: the memory is not given to anybody else.
fn copied(chunk: &Chunk, result: Result<(), DriverError>) -> Result<(), DeviceError> {
    result.map_err(|error| {
        if error.meaning() == Some(Meaning::DmaAborted) {
            chunk.leak();
        }
        error.into()
    })
}
