//! The memory of a device: one sparse file, in which an offset is an address.
//!
//! Owned by the chip; the machine runs over it as its [`Backing`]. The program maps the same file through descriptors
//! that [`Store::reopen`] makes, so that both see the same pages.
//! Rules: only what a device of this configuration has is memory; the rest of the file is there for mappings, and no
//! engine reaches it. Nobody can change the size of the file. Spec `driver_emulation.md` section 2.
//!
//! ```text
//!   HBM n                  its base                      hbm_bytes           instructions are fetched here only
//!   host memory            host bit + 0x10000000         host_bytes for each device, one behind the other
//!   state buffer of core   its block                     32 MiB              its offset in the file is the cookie
//!   block of a TOPSP       its cookie                    4 MiB
//! ```

use super::choices::FILE_BYTES;
use super::mapping::Mapping;
use crate::config::Config;
use core::num::NonZeroUsize;
use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, FcntlArg, OFlag, SealFlag, fallocate, fcntl, open};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::stat::Mode;
use nix::unistd::ftruncate;
use std::os::fd::{AsRawFd, OwnedFd};
use xu_abi::driver::unverified::EMULATED_HOST_CHUNKS;
use xu_abi::driver::window::{Block, Resource, Window};
use xu_abi::{DeviceAddr, TpbIndex};
use xu_device::DeviceError;
use xu_device::map::AddressMap;
use xu_device::simulated::Backing;

/// The file, and the parts of it that are memory.
#[derive(Debug)]
pub(super) struct Store {
    file: OwnedFd,
    areas: Vec<Area>,
}

/// Memory in one piece.
#[derive(Debug)]
struct Area {
    /// Where DMA engines see it.
    base: u64,
    bytes: u64,
    /// Where it is in the file.
    offset: u64,
    is_hbm: bool,
    mapping: Mapping,
}

/// Where an area is, before it is mapped: address, offset, bytes, and whether it is HBM.
type Place = (u64, u64, u64, bool);

impl Store {
    /// A file for device `index`, and its areas.
    pub(super) fn new(config: &Config, index: u32) -> Result<Self, Errno> {
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let file = memfd_create("neuron", flags)?;
        ftruncate(&file, FILE_BYTES)?;
        let sizes = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(sizes))?;
        let areas = places(config, index)
            .into_iter()
            .map(|place| Area::map(&file, place))
            .collect::<Result<_, _>>()?;
        Ok(Self { file, areas })
    }

    /// An open file of its own for a program.
    pub(super) fn reopen(&self, readable: bool, writable: bool) -> Result<OwnedFd, Errno> {
        let access = match (readable, writable) {
            (true, true) => OFlag::O_RDWR,
            (false, true) => OFlag::O_WRONLY,
            _ => OFlag::O_RDONLY,
        };
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        open(path.as_str(), access | OFlag::O_CLOEXEC, Mode::empty())
    }

    /// Has memory read as zeroes, and gives its pages back. What is no memory stays as it is.
    pub(super) fn punch(&self, from: u64, bytes: u64) {
        if let Some((area, inside)) = self.area(DeviceAddr::new(from), bytes)
            && let (Ok(offset), Ok(length)) =
                // CAST: widening.
                (
                    i64::try_from(area.offset + inside as u64),
                    i64::try_from(bytes),
                )
            && length > 0
        {
            let hole = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
            let punched = fallocate(&self.file, hole, offset, length);
            debug_assert_eq!(punched, Ok(()), "a hole in a file in memory");
        }
    }

    /// The area in which all of a range is, and where it begins there.
    fn area(&self, addr: DeviceAddr, bytes: u64) -> Option<(&Area, usize)> {
        self.areas.iter().find_map(|area| {
            let inside = addr.get().checked_sub(area.base)?;
            let end = inside.checked_add(bytes)?;
            // CAST: an area is mapped, and so no longer than a `usize` says.
            (end <= area.bytes).then_some((area, inside as usize))
        })
    }
}

impl Area {
    fn map(file: &OwnedFd, (base, offset, bytes, is_hbm): Place) -> Result<Self, Errno> {
        let length = usize::try_from(bytes).ok().and_then(NonZeroUsize::new);
        let place = i64::try_from(offset).map_err(|_| Errno::EOVERFLOW)?;
        Ok(Self {
            base,
            bytes,
            offset,
            is_hbm,
            mapping: Mapping::new(file, place, length.ok_or(Errno::EINVAL)?)?,
        })
    }
}

/// What is memory.
fn places(config: &Config, index: u32) -> Vec<Place> {
    let (arch, table) = (config.arch, config.arch.table());
    // Host memory is one for all devices.
    let host = table.host_bit + EMULATED_HOST_CHUNKS + u64::from(index) * config.host_bytes;
    let mut places = vec![(host, host, config.host_bytes, false)];
    places.extend(
        table
            .hbm
            .iter()
            .map(|base| (*base, *base, config.hbm_bytes, true)),
    );
    let cores = (0..u16::from(table.cores)).filter_map(|core| {
        let window = Window::of(arch, Block::Tpb, core.into(), Resource::StateBuffer)?;
        let block = AddressMap::Chip(arch).core_block(TpbIndex::new(core));
        Some((block, window.offset, window.bytes, false))
    });
    places.extend(cores);
    let topsps = (0..u32::from(table.topsps)).filter_map(|topsp| {
        let window = Window::of(arch, Block::Topsp, topsp, Resource::All)?;
        Some((window.offset, window.offset, window.bytes, false))
    });
    places.extend(topsps);
    places
}

impl Backing for Store {
    fn contains(&self, addr: DeviceAddr, bytes: u64) -> bool {
        self.area(addr, bytes).is_some()
    }

    fn is_hbm(&self, addr: DeviceAddr) -> bool {
        self.area(addr, 1).is_some_and(|(area, _)| area.is_hbm)
    }

    fn read(&self, from: DeviceAddr, into: &mut [u8]) -> Result<(), DeviceError> {
        // CAST: widening, here and below.
        let bytes = into.len() as u64;
        self.area(from, bytes)
            .and_then(|(area, inside)| area.mapping.read(inside, into))
            .ok_or(DeviceError::BadAddress { addr: from, bytes })
    }

    fn write(&self, to: DeviceAddr, bytes: &[u8]) -> Result<(), DeviceError> {
        let length = bytes.len() as u64;
        self.area(to, length)
            .and_then(|(area, inside)| area.mapping.write(inside, bytes))
            .ok_or(DeviceError::BadAddress {
                addr: to,
                bytes: length,
            })
    }

    fn load_acquire(&self, from: DeviceAddr) -> Result<u32, DeviceError> {
        self.area(from, 4)
            .and_then(|(area, inside)| area.mapping.load_acquire(inside))
            .ok_or(DeviceError::BadAddress {
                addr: from,
                bytes: 4,
            })
    }

    fn store_release(&self, to: DeviceAddr, word: u32) -> Result<(), DeviceError> {
        self.area(to, 4)
            .and_then(|(area, inside)| area.mapping.store_release(inside, word))
            .ok_or(DeviceError::BadAddress { addr: to, bytes: 4 })
    }
}
