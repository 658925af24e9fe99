//! Chunks: memory that the driver gives, in the host or on the device.
//!
//! Held by rings, programs and tensors. Spec `driver.md` sections 3 and 8.
//!
//! ```text
//!  Chunk::allocate ── MEM_ALLOC_V2MT64 (or an older one) ── MEM_GET_EXTENDED_INFO ── what was said is checked
//!       |  map          once; length and offset are exactly the driver's
//!       |  write, read, fill, copy_to
//!     drop ─────────── unmap, then MEM_FREE
//! ```
//!
//! * **Contents are not cleared.** Device memory holds what was there, and so may host memory.
//! * A chunk of 4 GiB or more is refused unless the driver has the calls with 64-bit sizes.
//! * Nothing of length 0 reaches the driver. An empty buffer is copied by doing nothing; an empty chunk, fill or copy
//!   between chunks is an error.
//! * After a copy has timed out the device may still be at it: [`Chunk::leak`] the chunks concerned.

use super::calls::{Way, inside, refuse, within};
use super::error::DriverError;
use super::kernel::{Access, Grain};
use super::mapping::Mapping;
use super::node::Node;
use crate::neuron::call::Buffer;
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use xu_abi::DeviceAddr;
use xu_abi::driver::{
    Features, Ioctl, LARGE, MAX_ALIGN, MAX_HANDLE, MemAllocV2, MemAllocV2MemType,
    MemAllocV2MemType64, MemFree, MemGetExtendedInfo, MemType, PAGE, ioctl,
};

/// Bytes of one copy through the kernel's buffer: below 4 GiB, and a multiple of its pieces of 64 KiB.
const PIECE: usize = 1 << 30;
/// From so many bytes on a copy to the device goes without a copy in the kernel.
const PINNED: usize = 64 << 10;

/// Where a chunk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Location {
    /// Physically contiguous memory of the host, as a device reaches it. A few MiB at most, typically.
    Host,
    /// Memory of the device, on this channel.
    Device {
        /// 0 or 1 of v2, 0 to 3 of v3.
        channel: u8,
    },
}

/// What to allocate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkSpec {
    /// Bytes; the driver rounds up to pages.
    pub bytes: u64,
    /// Bytes; 0 for host memory. Above a page a power of two, at most 1 GiB.
    pub align: u64,
    /// Where.
    pub location: Location,
    /// Whose copy queue is used: best one that is local to the channel.
    pub core: u8,
    /// What for. It says the location, too, and both must agree.
    pub mem_type: MemType,
}

/// The driver's name of a chunk. Never 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle(u64);

impl Handle {
    /// The number.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({})", self.0)
    }
}

/// Memory that is freed when it is dropped.
#[derive(Debug)]
pub struct Chunk {
    node: Arc<Node>,
    handle: Handle,
    location: Location,
    addr: DeviceAddr,
    mmap_offset: u64,
    bytes: u64,
    mapping: OnceLock<Mapping>,
    leaked: AtomicBool,
}

impl Chunk {
    /// Allocates a chunk and asks where it is.
    ///
    /// # Errors
    /// [`DriverError::BadArgument`] for no bytes, for more than the driver can count, for an alignment that it does not
    /// take, for a channel or core that the device does not have, and for a type of another location;
    /// [`DriverError::Nonsense`] when the driver gives something else, which is freed;
    /// [`DriverError::Answered`] with [`super::Meaning::OutOfMemory`].
    pub fn allocate(node: &Arc<Node>, spec: ChunkSpec) -> Result<Self, DriverError> {
        let ioctl = allocation(node);
        check(node, ioctl, spec)?;
        // An allocation by a process that is not attached crashes the kernel.
        node.check_attached()?;
        let handle = call(node, ioctl, spec)?;
        let mut chunk = Self {
            node: Arc::clone(node),
            handle,
            location: spec.location,
            addr: DeviceAddr::new(0),
            mmap_offset: 0,
            bytes: spec.bytes.next_multiple_of(PAGE),
            mapping: OnceLock::new(),
            leaked: AtomicBool::new(false),
        };
        chunk.locate()?;
        Ok(chunk)
    }

    /// The device.
    #[must_use]
    pub fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// The driver's name.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle
    }

    /// Where it is.
    #[must_use]
    pub fn location(&self) -> Location {
        self.location
    }

    /// Its address as the DMA engines see it, with the host bit where that belongs.
    #[must_use]
    pub fn addr(&self) -> DeviceAddr {
        self.addr
    }

    /// Bytes, a multiple of pages: not less than was asked for.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What the driver says of it, word by word, for whoever looks at the driver: the handle is overwritten, and the version
    /// is undefined.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn extended_info(&self) -> Result<MemGetExtendedInfo, DriverError> {
        // The driver overwrites the handle in here with something else.
        let mut info = MemGetExtendedInfo {
            mem_handle: self.handle.get(),
            version: 1,
            ..MemGetExtendedInfo::ZEROED
        };
        self.node.ask(&ioctl::MEM_GET_EXTENDED_INFO, &mut info)?;
        Ok(info)
    }

    /// Maps it, whole and once. It stays mapped as long as the chunk lives.
    ///
    /// # Errors
    /// [`DriverError::Map`], [`DriverError::Forked`], [`DriverError::Lost`]; [`DriverError::BadArgument`] for a chunk that
    /// [ends an HBM](Chunk::ends_an_hbm).
    pub fn map(&self) -> Result<&Mapping, DriverError> {
        if let Some(mapping) = self.mapping.get() {
            return Ok(mapping);
        }
        if self.ends_an_hbm() {
            let what = "end of a chunk that is to be mapped";
            let end = self.addr.get() + self.bytes;
            return Err(refuse(
                &ioctl::MEM_GET_EXTENDED_INFO,
                what,
                end,
                "any but the end of an HBM",
            ));
        }
        let mapping = self
            .node
            .map(self.mmap_offset, self.bytes, Access::Full, Grain::Word)?;
        // Two threads may both have mapped it: that is allowed, and the second mapping goes at once.
        Ok(self.mapping.get_or_init(|| mapping))
    }

    /// Its mapping, if it is mapped.
    #[must_use]
    pub fn mapping(&self) -> Option<&Mapping> {
        self.mapping.get()
    }

    /// Whether it touches the end of an HBM: there the driver would map something else. (`driver.md` section 11, trap 27.)
    #[must_use]
    pub fn ends_an_hbm(&self) -> bool {
        let table = self.node.identity().table();
        // Does not wrap: that was checked when it was located.
        let end = self.addr.get() + self.bytes;
        let in_device = self.location != Location::Host;
        in_device && table.hbm.iter().any(|base| base + table.hbm_bytes == end)
    }

    /// Copies a buffer into the chunk.
    ///
    /// # Errors
    /// [`DriverError::BadArgument`] when it does not fit; what the driver answers.
    pub fn write(&self, offset: u64, from: &[u8]) -> Result<(), DriverError> {
        if from.is_empty() {
            return Ok(());
        }
        // CAST: lengths fit 64 bits, in this file.
        inside(self.copying(), offset, from.len() as u64, self.bytes)?;
        let pinned = from.len() >= PINNED && self.is_wide() && self.location != Location::Host;
        if !pinned {
            return self.write_through(offset, from);
        }
        // CAST: less than a page. What comes before the first whole page goes the other way.
        let before = from.as_ptr().align_offset(PAGE as usize).min(from.len());
        let (head, pages) = from.split_at(before);
        self.write_through(offset, head)?;
        let mut at = offset + head.len() as u64;
        for piece in pages.chunks(PIECE) {
            self.copy_pinned(at, piece)?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    /// Copies from the chunk into a buffer.
    ///
    /// # Errors
    /// As [`Chunk::write`].
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DriverError> {
        if into.is_empty() {
            return Ok(());
        }
        inside(self.copying(), offset, into.len() as u64, self.bytes)?;
        let mut at = offset;
        for piece in into.chunks_mut(PIECE) {
            let bytes = piece.len() as u64;
            self.copy_buffer(at, Way::Out(piece))?;
            at += bytes;
        }
        Ok(())
    }

    /// Sets bytes to a value.
    ///
    /// # Errors
    /// [`DriverError::BadArgument`] for no bytes and for a range that leaves the chunk; what the driver answers.
    pub fn fill(&self, offset: u64, bytes: u64, value: u8) -> Result<(), DriverError> {
        inside(&ioctl::MEMSET64, offset, bytes, self.bytes)?;
        self.set_bytes(offset, bytes, value)
    }

    /// Copies to another chunk of the same device, by DMA.
    ///
    /// # Errors
    /// As [`Chunk::fill`], of either chunk; [`DriverError::BadArgument`] for a chunk of another device.
    pub fn copy_to(
        &self,
        offset: u64,
        to: &Self,
        to_offset: u64,
        bytes: u64,
    ) -> Result<(), DriverError> {
        let ioctl = &ioctl::MEM_COPY64;
        if !Arc::ptr_eq(&self.node, &to.node) {
            // There its handle would name another chunk, or none.
            let own = self.node.index().to_string();
            return Err(refuse(
                ioctl,
                "device of a chunk",
                to.node.index().into(),
                own,
            ));
        }
        inside(ioctl, offset, bytes, self.bytes)?;
        inside(ioctl, to_offset, bytes, to.bytes)?;
        self.copy_chunk(offset, to, to_offset, bytes)
    }

    /// Never frees it, since the device may go on reading or writing there. The driver does, when the device is closed.
    pub fn leak(&self) {
        // Relaxed: whoever drops the last owner has synchronised with the others.
        self.leaked.store(true, Ordering::Relaxed);
    }

    /// Leaves it to the driver, which frees it when the device is closed.
    pub(super) fn abandon(self) -> Handle {
        self.leak();
        self.handle
    }

    fn write_through(&self, offset: u64, from: &[u8]) -> Result<(), DriverError> {
        let mut at = offset;
        for piece in from.chunks(PIECE) {
            self.copy_buffer(at, Way::In(piece))?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    fn copying(&self) -> &'static Ioctl {
        match self.is_wide() {
            true => &ioctl::MEM_BUF_COPY64,
            false => &ioctl::MEM_BUF_COPY,
        }
    }

    /// Asks where the chunk is, and compares that with what was asked for.
    fn locate(&mut self) -> Result<(), DriverError> {
        let ioctl = &ioctl::MEM_GET_EXTENDED_INFO;
        let info = self.extended_info()?;
        let host_bit = self.node.identity().table().host_bit;
        let in_host = self.location == Location::Host;
        let nonsense = |what, value| DriverError::Nonsense {
            call: ioctl.name,
            what,
            value,
        };
        if info.size != self.bytes {
            return Err(nonsense("the size", info.size));
        }
        if (info.host_memory != 0) != in_host {
            return Err(nonsense("host_memory", info.host_memory.into()));
        }
        let fits = info.pa.checked_add(info.size).is_some() && info.pa.is_multiple_of(PAGE);
        if !fits || (info.pa & host_bit != 0) != in_host {
            return Err(nonsense("the address", info.pa));
        }
        if !info.mmap_offset.is_multiple_of(PAGE) {
            return Err(nonsense("the offset for mmap", info.mmap_offset));
        }
        self.addr = DeviceAddr::new(info.pa);
        self.mmap_offset = info.mmap_offset;
        Ok(())
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // A mapping does not keep the chunk alive, so it goes first.
        drop(self.mapping.take());
        if self.leaked.load(Ordering::Relaxed) {
            return;
        }
        // Refused in a child of a fork, and on a device that is lost: there is nothing to free then.
        let mut argument = MemFree {
            mem_handle: self.handle.get(),
        };
        let _ = self.node.ask(&ioctl::MEM_FREE, &mut argument);
    }
}

/// The newest allocation that the driver has.
fn allocation(node: &Node) -> &'static Ioctl {
    let features = node.identity().features;
    if features.has(Features::MEM_ALLOC64) {
        &ioctl::MEM_ALLOC_V2MT64
    } else if features.has(Features::MEM_ALLOC_TYPE) {
        &ioctl::MEM_ALLOC_V2MT
    } else {
        &ioctl::MEM_ALLOC_V2
    }
}

fn check(node: &Node, ioctl: &Ioctl, spec: ChunkSpec) -> Result<(), DriverError> {
    let table = node.identity().table();
    let most = match node.identity().features.has(Features::MEM_ALLOC64) {
        // What is left for rounding up to a page.
        true => i64::MAX as u64 + 1 - PAGE,
        false => LARGE - PAGE,
    };
    within(ioctl, "number of bytes", spec.bytes, 1..=most)?;
    node.check_core(ioctl, spec.core)?;
    let in_host = spec.location == Location::Host;
    if spec.mem_type.is_host() != in_host {
        let allowed = "a type of the same location";
        let raw = spec.mem_type.raw().into();
        return Err(refuse(ioctl, "type of memory", raw, allowed));
    }
    match spec.location {
        Location::Host => within(ioctl, "alignment of host memory", spec.align, 0..=0),
        Location::Device { channel } => {
            // CAST: widening.
            let channels = table.hbm.len() as u64;
            within(ioctl, "memory channel", channel, 0..=channels - 1)?;
            within(ioctl, "alignment", spec.align, 0..=MAX_ALIGN)?;
            if spec.align > PAGE && !spec.align.is_power_of_two() {
                let allowed = "powers of two above a page";
                return Err(refuse(ioctl, "alignment", spec.align, allowed));
            }
            Ok(())
        }
    }
}

fn call(node: &Node, ioctl: &'static Ioctl, spec: ChunkSpec) -> Result<Handle, DriverError> {
    let ChunkSpec {
        bytes: size,
        align,
        core,
        ..
    } = spec;
    let (host_memory, dram_channel) = match spec.location {
        Location::Host => (1, 0),
        Location::Device { channel } => (0, channel.into()),
    };
    let (nc_id, mem_type) = (core.into(), spec.mem_type.raw());
    let mut handle = [0; 8];
    let mut buffers = [Buffer::Written(&mut handle)];
    if *ioctl == ioctl::MEM_ALLOC_V2MT64 {
        let mut argument = MemAllocV2MemType64 {
            size,
            align,
            host_memory,
            dram_channel,
            nc_id,
            mem_type,
            ..MemAllocV2MemType64::ZEROED
        };
        node.call(ioctl, &mut argument, &mut buffers)?;
    } else if *ioctl == ioctl::MEM_ALLOC_V2MT {
        let mut argument = MemAllocV2MemType {
            size,
            align,
            host_memory,
            dram_channel,
            nc_id,
            mem_type,
            ..MemAllocV2MemType::ZEROED
        };
        node.call(ioctl, &mut argument, &mut buffers)?;
    } else {
        let mut argument = MemAllocV2 {
            size,
            align,
            host_memory,
            dram_channel,
            nc_id,
            ..MemAllocV2::ZEROED
        };
        node.call(ioctl, &mut argument, &mut buffers)?;
    }
    let handle = u64::from_ne_bytes(handle);
    if (1..=MAX_HANDLE).contains(&handle) {
        Ok(Handle(handle))
    } else {
        Err(DriverError::Nonsense {
            call: ioctl.name,
            what: "the handle",
            value: handle,
        })
    }
}
