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

use super::mapping::Mapping;
use crate::choices::FILE_BYTES;
use crate::config::Config;
use core::num::NonZeroUsize;
use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, FcntlArg, OFlag, SealFlag, fallocate, fcntl, open};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::stat::Mode;
use nix::unistd::ftruncate;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{OnceLock, Weak};
use xu_abi::driver::window::{Block, Resource, Window};
use xu_abi::{DeviceAddr, TpbIndex};
use xu_device::DeviceError;
use xu_device::map::AddressMap;
use xu_device::simulated::Backing;

/// Bytes of what is loaded and stored at once.
const WORD: u64 = 4;

/// The file, and the parts of it that are memory.
#[derive(Debug)]
pub(super) struct Store {
    file: OwnedFd,
    areas: Vec<Area>,
    /// Where its host memory begins.
    host: u64,
    /// The memories of the other devices, whose host memory the engines of this one reach.
    others: OnceLock<Vec<Weak<Store>>>,
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
        Ok(Self {
            file,
            areas,
            host: config.host_base(index),
            others: OnceLock::new(),
        })
    }

    /// Host memory is one for all devices: lets the engines of this one reach that of the others. The first time counts.
    pub(super) fn meet(&self, others: Vec<Weak<Self>>) {
        let _ = self.others.set(others);
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

    /// Works on the area in which all of a range is, with where it begins there: one of its own, or host memory of
    /// another device.
    fn reach<R>(
        &self,
        addr: DeviceAddr,
        bytes: u64,
        work: impl FnOnce(&Area, usize) -> Option<R>,
    ) -> Option<R> {
        if let Some((area, inside)) = self.area(addr, bytes) {
            return work(area, inside);
        }
        let mut others = self.others.get()?.iter().filter_map(Weak::upgrade);
        let other = others.find(|other| other.host_area(addr, bytes).is_some())?;
        let (area, inside) = other.host_area(addr, bytes)?;
        work(area, inside)
    }

    fn host_area(&self, addr: DeviceAddr, bytes: u64) -> Option<(&Area, usize)> {
        let area = self.area(addr, bytes);
        area.filter(|(area, _)| area.base == self.host)
    }

    /// The area of its own in which all of a range is, and where it begins there.
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
    let host = config.host_base(index);
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
        self.reach(addr, bytes, |_, _| Some(())).is_some()
    }

    fn is_hbm(&self, addr: DeviceAddr) -> bool {
        self.area(addr, 1).is_some_and(|(area, _)| area.is_hbm)
    }

    fn read(&self, from: DeviceAddr, into: &mut [u8]) -> Result<(), DeviceError> {
        // CAST: widening, here and below.
        let bytes = into.len() as u64;
        let read = self.reach(from, bytes, |area, at| area.mapping.read(at, into));
        read.ok_or(DeviceError::BadAddress { addr: from, bytes })
    }

    fn write(&self, to: DeviceAddr, bytes: &[u8]) -> Result<(), DeviceError> {
        let length = bytes.len() as u64;
        let written = self.reach(to, length, |area, at| area.mapping.write(at, bytes));
        written.ok_or(DeviceError::BadAddress {
            addr: to,
            bytes: length,
        })
    }

    fn load_acquire(&self, from: DeviceAddr) -> Result<u32, DeviceError> {
        self.reach(from, WORD, |area, at| area.mapping.load_acquire(at))
            .ok_or(DeviceError::BadAddress {
                addr: from,
                bytes: WORD,
            })
    }

    fn store_release(&self, to: DeviceAddr, word: u32) -> Result<(), DeviceError> {
        self.reach(to, WORD, |area, at| area.mapping.store_release(at, word))
            .ok_or(DeviceError::BadAddress {
                addr: to,
                bytes: WORD,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::uio::{pread, pwrite};
    use std::sync::Arc;
    use xu_abi::driver::Arch;
    use xu_abi::driver::unverified::EMULATED_HOST_CHUNKS;

    const BYTES: u64 = 1 << 20;

    fn store(arch: Arch, index: u32) -> Store {
        let config = Config {
            arch,
            hbm_bytes: BYTES,
            host_bytes: BYTES,
            ..Config::default()
        };
        Store::new(&config, index).unwrap()
    }

    fn at(addr: u64) -> DeviceAddr {
        DeviceAddr::new(addr)
    }

    #[test]
    fn an_access_lies_inside_one_area() {
        for (arch, index) in [(Arch::V2, 0), (Arch::V3, 0), (Arch::V3, 2)] {
            let store = store(arch, index);
            let table = arch.table();
            let host = table.host_bit + EMULATED_HOST_CHUNKS + u64::from(index) * BYTES;
            let hbm = table.hbm.iter().map(|base| (*base, true));
            for (base, is_hbm) in hbm.chain([(host, false)]) {
                assert!(store.contains(at(base), BYTES));
                assert_eq!(store.is_hbm(at(base)), is_hbm);
                store.write(at(base + BYTES - 4), b"last").unwrap();
                for (addr, bytes) in [
                    (base + 1, BYTES),
                    (base + BYTES, 1),
                    (base, u64::MAX),
                    (base.wrapping_sub(1), 2),
                ] {
                    assert!(!store.contains(at(addr), bytes), "{addr:#x} {bytes}");
                }
                assert!(store.read(at(base + BYTES - 4), &mut [0; 5]).is_err());
                assert!(store.write(at(base + BYTES - 4), &[0; 5]).is_err());
            }
        }
    }

    #[test]
    fn bytes_at_any_offset_come_back_and_no_others_are_touched() {
        let store = store(Arch::V2, 0);
        for offset in 0..9 {
            for length in 0..40 {
                let written: Vec<u8> = (1..=length).collect();
                store.write(at(0), &[0; 64]).unwrap();
                store.write(at(offset), &written).unwrap();
                let mut all = [0xEE; 64];
                store.read(at(0), &mut all).unwrap();
                let mut back = vec![0; written.len()];
                store.read(at(offset), &mut back).unwrap();
                assert_eq!(back, written);
                let sum: u32 = all.iter().map(|byte| u32::from(*byte)).sum();
                assert_eq!(sum, (1..=u32::from(length)).sum::<u32>());
            }
        }
    }

    #[test]
    fn words_are_aligned_and_little_endian() {
        let store = store(Arch::V2, 0);
        store.store_release(at(8), 0x0403_0201).unwrap();
        let mut bytes = [0; 4];
        store.read(at(8), &mut bytes).unwrap();
        assert_eq!(bytes, [1, 2, 3, 4]);
        assert_eq!(store.load_acquire(at(8)), Ok(0x0403_0201));
        for wrong in [9, 10, BYTES, BYTES - 2] {
            assert!(store.load_acquire(at(wrong)).is_err());
            assert!(store.store_release(at(wrong), 1).is_err());
        }
    }

    #[test]
    fn a_program_sees_the_same_bytes_at_the_same_offset_with_the_access_that_it_was_given() {
        let store = store(Arch::V3, 0);
        let host = Arch::V3.table().host_bit + EMULATED_HOST_CHUNKS;
        let far = Arch::V3.table().hbm[3];
        // The state buffer of core 2, whose cookie is no device address.
        let buffer = AddressMap::Chip(Arch::V3).core_block(TpbIndex::new(2));
        let window = Window::of(Arch::V3, Block::Tpb, 2, Resource::StateBuffer).unwrap();
        assert_ne!(buffer, window.offset);
        let both = store.reopen(true, true).unwrap();
        for (addr, offset) in [(host, host), (far, far), (buffer, window.offset)] {
            let offset = i64::try_from(offset).unwrap();
            store.write(at(addr), b"down").unwrap();
            let mut seen = [0; 4];
            assert_eq!(pread(&both, &mut seen, offset), Ok(4));
            assert_eq!(&seen, b"down");
            assert_eq!(pwrite(&both, b"up", offset), Ok(2));
            store.read(at(addr), &mut seen).unwrap();
            assert_eq!(&seen, b"upwn");
        }
        let reader = store.reopen(true, false).unwrap();
        assert_eq!(pwrite(&reader, b"x", 0), Err(Errno::EBADF));
        let writer = store.reopen(false, true).unwrap();
        assert_eq!(pread(&writer, &mut [0; 1], 0), Err(Errno::EBADF));
        // Or whoever has mapped it would get SIGBUS.
        for size in [0, FILE_BYTES + 1] {
            assert_eq!(ftruncate(&both, size), Err(Errno::EPERM));
        }
    }

    #[test]
    fn a_hole_reads_as_zeroes_and_its_neighbours_stay() {
        let store = store(Arch::V2, 0);
        store.write(at(0), &[7; 0x4000]).unwrap();
        store.punch(0x1000, 0x2000);
        // No memory, and nothing of it.
        for (from, bytes) in [(0, 0), (0, BYTES + 1), (u64::MAX, 2), (1 << 46, 64)] {
            store.punch(from, bytes);
        }
        let mut back = [0; 0x4000];
        store.read(at(0), &mut back).unwrap();
        let zeroes = |range: core::ops::Range<usize>| back[range].iter().all(|byte| *byte == 0);
        assert!(zeroes(0x1000..0x3000) && back[0xFFF] == 7 && back[0x3000] == 7);
    }

    #[test]
    fn each_device_has_a_part_of_host_memory_and_reaches_those_that_it_has_met() {
        let [first, second] = [0, 1].map(|index| store(Arch::V2, index));
        let host = Arch::V2.table().host_bit + EMULATED_HOST_CHUNKS;
        assert!(first.contains(at(host), BYTES) && !first.contains(at(host + BYTES), 1));
        assert!(!second.contains(at(host), 1) && second.contains(at(host + BYTES), BYTES));
        let (first, second) = (Arc::new(first), Arc::new(second));
        first.meet(vec![Arc::downgrade(&second)]);
        first.write(at(host + BYTES), b"over").unwrap();
        let mut seen = [0; 4];
        second.read(at(host + BYTES), &mut seen).unwrap();
        assert_eq!(&seen, b"over");
        // Their HBM has the same addresses, and nothing spans two parts.
        first.write(at(0), b"mine").unwrap();
        second.read(at(0), &mut seen).unwrap();
        assert_eq!(seen, [0; 4]);
        assert!(!first.contains(at(host + BYTES - 4), 8));
        drop(second);
        assert!(first.read(at(host + BYTES), &mut seen).is_err());
    }
}
