//! Every chunk of a device: its handle, its memory, its owner.
//!
//! Used by every handler that is given a handle or an address, under the lock of the device's chunks. Spec `driver.md`
//! section 8.
//!
//! A handle is a small number that is used again, the one freed last first; so a stale handle names another chunk soon.
//! Who keeps a chunk for longer keeps a [`ChunkRef`], which never means another one.

use super::pools::{Place, Pools};
use crate::config::Config;
use crate::driver::bug::Bug;
use crate::driver::call::Failure;
use std::collections::BTreeMap;
use xu_abi::driver::errno::{EINVAL, ENOMEM};
use xu_abi::driver::{MAX_ALIGN, MAX_HANDLE, MemType, PAGE};

/// One chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::driver) struct Chunk {
    pub(in crate::driver) handle: u64,
    /// Its first address; also where a program maps it.
    pub(in crate::driver) pa: u64,
    /// Whole pages.
    pub(in crate::driver) bytes: u64,
    /// Bytes from its first address that the driver's checks let through: more than there are for scratchpads.
    pub(in crate::driver) reach: u64,
    pub(in crate::driver) place: Place,
    /// Selects the copy queue and the accounting. May be a core that the device has not.
    pub(in crate::driver) core: u32,
    pub(in crate::driver) mem_type: MemType,
    /// The process that allocated it.
    pub(in crate::driver) pid: u32,
    pub(in crate::driver) lifespan: Lifespan,
    serial: u64,
}

/// How long a chunk lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::driver) enum Lifespan {
    /// Until the last full close of its process.
    Process,
    /// Until the driver frees it.
    Device,
}

/// One chunk for ever: another one with the same handle or address is a different one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::driver) struct ChunkRef {
    pa: u64,
    serial: u64,
}

/// What is to be allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::driver) struct Request {
    pub(in crate::driver) bytes: u64,
    /// 0 for none.
    pub(in crate::driver) align: u64,
    pub(in crate::driver) place: Place,
    pub(in crate::driver) core: u32,
    pub(in crate::driver) mem_type: MemType,
    pub(in crate::driver) pid: u32,
    pub(in crate::driver) lifespan: Lifespan,
}

/// The chunks of a device.
#[derive(Debug)]
pub(in crate::driver) struct Chunks {
    pools: Pools,
    /// By first address.
    chunks: BTreeMap<u64, Chunk>,
    /// First address by handle.
    handles: BTreeMap<u64, u64>,
    /// Handles that were freed, the last one last.
    freed: Vec<u64>,
    /// The first handle that was never given.
    next_handle: u64,
    next_serial: u64,
}

impl Chunk {
    pub(in crate::driver) fn is_host(&self) -> bool {
        self.place == Place::Host
    }

    pub(in crate::driver) fn reference(&self) -> ChunkRef {
        ChunkRef {
            pa: self.pa,
            serial: self.serial,
        }
    }

    /// The address of a range of the chunk, when the driver's check lets it through.
    pub(in crate::driver) fn range(&self, offset: u64, bytes: u64) -> Result<u64, Failure> {
        let (end, wraps) = offset.overflowing_add(bytes);
        if end > self.reach {
            return Err(Failure::Errno(EINVAL));
        }
        if wraps {
            return Err(Failure::Bug(Bug {
                trap: 24,
                what: format!("{offset:#x} + {bytes:#x} wraps around to {end:#x}"),
            }));
        }
        Ok(self.pa + offset)
    }
}

impl ChunkRef {
    /// The first address.
    pub(in crate::driver) fn pa(self) -> u64 {
        self.pa
    }
}

impl Chunks {
    pub(in crate::driver) fn new(config: &Config, device: u32) -> Self {
        Self {
            pools: Pools::new(config, device),
            chunks: BTreeMap::new(),
            handles: BTreeMap::new(),
            freed: Vec::new(),
            next_handle: 1,
            next_serial: 0,
        }
    }

    /// Makes a chunk, whose memory is as it was left.
    ///
    /// # Errors
    /// EINVAL, ENOMEM.
    pub(super) fn allocate(&mut self, request: &Request) -> Result<Chunk, i32> {
        let bytes = whole_pages(request.bytes)?;
        let align = alignment(request)?;
        if bytes == 0 || (self.freed.is_empty() && self.next_handle > MAX_HANDLE) {
            return Err(ENOMEM);
        }
        let (pa, reach) = self.find(request, bytes, align).ok_or(ENOMEM)?;
        let handle = self.freed.pop().unwrap_or(self.next_handle);
        self.next_handle = self.next_handle.max(handle + 1);
        self.next_serial += 1;
        let chunk = Chunk {
            handle,
            pa,
            bytes,
            reach,
            place: request.place,
            core: request.core,
            mem_type: request.mem_type,
            pid: request.pid,
            lifespan: request.lifespan,
            serial: self.next_serial,
        };
        self.chunks.insert(pa, chunk);
        self.handles.insert(handle, pa);
        Ok(chunk)
    }

    /// Memory for a chunk, and how far the checks of the driver reach.
    fn find(&mut self, request: &Request, bytes: u64, align: u64) -> Option<(u64, u64)> {
        match (request.mem_type, request.place) {
            (MemType::ContiguousScratchpad, Place::Hbm(channel)) => {
                let end = self.pools.end_of_main(channel)?;
                let below = self.lowest_scratchpad(channel).unwrap_or(end);
                let pa = self.pools.take_below(channel, below, bytes, align)?;
                Some((pa, end - pa))
            }
            (_, place) => Some((self.pools.take(place, bytes, align)?, bytes)),
        }
    }

    /// Where the scratchpad lies that came last, if this is another one of the same HBM.
    pub(super) fn later_scratchpad(&self, chunk: &Chunk) -> Option<u64> {
        let Place::Hbm(channel) = chunk.place else {
            return None;
        };
        let is_scratchpad = chunk.mem_type == MemType::ContiguousScratchpad;
        // They grow downwards.
        self.lowest_scratchpad(channel)
            .filter(|lowest| is_scratchpad && *lowest < chunk.pa)
    }

    fn lowest_scratchpad(&self, channel: u32) -> Option<u64> {
        self.chunks
            .values()
            .find(|chunk| {
                chunk.mem_type == MemType::ContiguousScratchpad
                    && chunk.place == Place::Hbm(channel)
            })
            .map(|chunk| chunk.pa)
    }

    /// Frees a chunk, if it is still there.
    pub(super) fn free(&mut self, chunk: ChunkRef) -> bool {
        if !self.is_there(chunk) {
            return false;
        }
        if let Some(chunk) = self.chunks.remove(&chunk.pa) {
            self.handles.remove(&chunk.handle);
            self.freed.push(chunk.handle);
            self.pools
                .give(chunk.place, chunk.pa..chunk.pa + chunk.bytes);
        }
        true
    }

    /// Frees what a process has allocated for as long as it lives.
    pub(super) fn free_of(&mut self, pid: u32) {
        let left: Vec<ChunkRef> = self
            .iter()
            .filter(|chunk| chunk.pid == pid && chunk.lifespan == Lifespan::Process)
            .map(Chunk::reference)
            .collect();
        for chunk in left {
            self.free(chunk);
        }
    }

    /// Whether this very chunk has not been freed.
    pub(in crate::driver) fn is_there(&self, chunk: ChunkRef) -> bool {
        self.chunks
            .get(&chunk.pa)
            .is_some_and(|there| there.serial == chunk.serial)
    }

    /// The chunk with this handle.
    pub(in crate::driver) fn named(&self, handle: u64) -> Option<Chunk> {
        self.chunks.get(self.handles.get(&handle)?).copied()
    }

    /// The chunk with this handle.
    ///
    /// # Errors
    /// EINVAL.
    pub(in crate::driver) fn get(&self, handle: u64) -> Result<Chunk, i32> {
        self.named(handle).ok_or(EINVAL)
    }

    /// The chunk in which an address lies.
    pub(in crate::driver) fn around(&self, pa: u64) -> Option<Chunk> {
        let (_, chunk) = self.chunks.range(..=pa).next_back()?;
        (pa - chunk.pa < chunk.bytes).then_some(*chunk)
    }

    /// All chunks, by address.
    pub(in crate::driver) fn iter(&self) -> impl Iterator<Item = &Chunk> {
        self.chunks.values()
    }

    /// The driver's own host memory to copy through: [`BOUNCE`](super::BOUNCE) bytes.
    pub(in crate::driver) fn bounce(&self) -> u64 {
        self.pools.own()
    }

    /// The driver's own ring, of 64 descriptors.
    pub(in crate::driver) fn dummy_ring(&self) -> u64 {
        self.pools.own() + super::BOUNCE
    }
}

fn whole_pages(bytes: u64) -> Result<u64, i32> {
    // CAST: the largest signed number is positive.
    if bytes > i64::MAX as u64 {
        return Err(EINVAL);
    }
    Ok(bytes.next_multiple_of(PAGE))
}

/// Bytes; at least a page.
fn alignment(request: &Request) -> Result<u64, i32> {
    match (request.place, request.align) {
        (Place::Host, 0) => Ok(PAGE),
        (Place::Host, _) => Err(EINVAL),
        (_, align) if align <= PAGE => Ok(PAGE),
        (_, align) if align.is_power_of_two() && align <= MAX_ALIGN => Ok(align),
        _ => Err(EINVAL),
    }
}
