//! A node of the driver, and the calls that a program makes of it: nothing is checked before the kernel sees it.

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::libc;
use nix::sys::stat::Mode;
use std::os::fd::{AsRawFd, OwnedFd};
use xu_abi::driver::errno::Answer;
use xu_abi::driver::{
    DeviceInfo, DeviceReady, DeviceReset, DmaQueueInit, Ioctl, MemAllocV2MemType64, MemBufCopy64,
    MemFree, MemGetExtendedInfo, ioctl,
};
use zerocopy::{FromBytes, IntoBytes};

/// Where nothing is mapped.
const NOWHERE: usize = 8;
/// [`MemAllocV2MemType64::mem_type`]: tensors, on the host and on the device.
const TENSORS: [u32; 2] = [9, 2];

/// An open node.
pub(crate) struct Node(pub(crate) OwnedFd);

pub(crate) fn open_as(node: u32, flags: OFlag) -> Result<Node, Errno> {
    nix::fcntl::open(format!("/dev/neuron{node}").as_str(), flags, Mode::empty()).map(Node)
}

/// The address of a value, for a field of an argument.
pub(crate) fn address_of<T>(value: &mut T) -> u64 {
    // CAST: widening; the driver writes through it.
    std::ptr::from_mut(value).expose_provenance() as u64
}

impl Node {
    /// For everything.
    pub(crate) fn open(node: u32) -> Self {
        open_as(node, OFlag::O_RDWR | OFlag::O_CLOEXEC).unwrap()
    }

    /// Resets core 0, and waits until it is ready.
    pub(crate) fn reset_core(&self) {
        let mut reset = DeviceReset {
            nc_map: 1,
            request_id: 0,
        };
        assert_eq!(self.ask(ioctl::NC_RESET, &mut reset), Answer::Done);
        let mut ready = DeviceReady {
            request_id: reset.request_id,
            result: -1,
        };
        assert_eq!(self.ask(ioctl::NC_RESET_READY, &mut ready), Answer::Done);
        assert_eq!(ready.result, 0);
    }

    /// A call with an argument, which the driver may write.
    pub(crate) fn ask<A: FromBytes + IntoBytes>(&self, row: Ioctl, argument: &mut A) -> Answer {
        self.raw(row.request(), address_of(argument) as usize)
    }

    /// A call whose argument nobody looks at afterwards.
    pub(crate) fn call<A: FromBytes + IntoBytes>(&self, row: Ioctl, mut argument: A) -> Answer {
        self.ask(row, &mut argument)
    }

    /// A call with a pointer to nothing.
    pub(crate) fn blind(&self, row: Ioctl) -> Answer {
        self.raw(row.request(), NOWHERE)
    }

    /// A call on a descriptor that was opened for writing only.
    pub(crate) fn on_misc<A: FromBytes + IntoBytes>(&self, row: Ioctl, argument: A) -> Answer {
        open_as(0, OFlag::O_WRONLY).unwrap().call(row, argument)
    }

    /// A call of a process that is not attached any more: a duplicate was closed.
    pub(crate) fn detached<A: FromBytes + IntoBytes>(&self, row: Ioctl, argument: A) -> Answer {
        drop(self.0.try_clone().unwrap());
        self.call(row, argument)
    }

    pub(crate) fn raw(&self, request: u32, argument: usize) -> Answer {
        // SAFETY: the request's argument is as large as its row says, and the tests pass one of that type, or an address at
        //   which nothing is; buffers that it names outlive the call.
        let returned = unsafe { libc::ioctl(self.0.as_raw_fd(), request.into(), argument) };
        match returned {
            0 => Answer::Done,
            -1 => Answer::Errno(Errno::last_raw()),
            positive => Answer::Positive(positive),
        }
    }

    /// A chunk that must be had: on the host, or on channel 0.
    pub(crate) fn chunk(&self, host: bool, bytes: u64) -> u64 {
        let mut handle = 0u64;
        let argument = MemAllocV2MemType64 {
            size: bytes,
            host_memory: host.into(),
            mem_type: TENSORS[usize::from(host)],
            mem_handle: address_of(&mut handle),
            ..MemAllocV2MemType64::ZEROED
        };
        assert_eq!(self.call(ioctl::MEM_ALLOC_V2MT64, argument), Answer::Done);
        handle
    }

    pub(crate) fn free(&self, mem_handle: u64) -> Answer {
        self.call(ioctl::MEM_FREE, MemFree { mem_handle })
    }

    /// Where a chunk is.
    pub(crate) fn pa(&self, mem_handle: u64) -> u64 {
        let mut info = MemGetExtendedInfo {
            mem_handle,
            version: 1,
            ..MemGetExtendedInfo::ZEROED
        };
        assert_eq!(
            self.ask(ioctl::MEM_GET_EXTENDED_INFO, &mut info),
            Answer::Done
        );
        info.pa
    }

    /// Copies between a buffer and a chunk.
    pub(crate) fn copy(
        &self,
        mem_handle: u64,
        offset: u64,
        buffer: &mut [u8],
        store: bool,
    ) -> Answer {
        let argument = MemBufCopy64 {
            mem_handle,
            buffer: buffer.as_mut_ptr().expose_provenance() as u64,
            size: buffer.len() as u64,
            offset,
            copy_to_mem_handle: store.into(),
            ..MemBufCopy64::ZEROED
        };
        self.call(ioctl::MEM_BUF_COPY64, argument)
    }

    /// Maps a part of the device, stores a byte at its beginning, and unmaps it. The error number otherwise.
    pub(crate) fn map_and_store(&self, offset: u64, bytes: usize, value: u8) -> Result<(), i32> {
        let offset = libc::off_t::try_from(offset).unwrap();
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses where; nothing else is mapped over.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                protection,
                libc::MAP_SHARED,
                self.0.as_raw_fd(),
                offset,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(Errno::last_raw());
        }
        // SAFETY: the mapping is writable, at least a byte long, and nobody else knows of it.
        unsafe { at.cast::<u8>().write_volatile(value) };
        // SAFETY: it was mapped above, and no reference into it exists.
        let unmapped = unsafe { libc::munmap(at, bytes) };
        assert_eq!(unmapped, 0);
        Ok(())
    }

    /// Asks for a mapping of a part of the device for reading, or for writing, too: what may be done with it (`r--s`, ...), and its first
    /// byte. The error number otherwise.
    pub(crate) fn map_and_look(
        &self,
        offset: u64,
        bytes: usize,
        writable: bool,
    ) -> Result<(String, u8), i32> {
        let offset = libc::off_t::try_from(offset).unwrap();
        let write = if writable { libc::PROT_WRITE } else { 0 };
        let protection = libc::PROT_READ | write;
        // SAFETY: the kernel chooses where; nothing else is mapped over.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                protection,
                libc::MAP_SHARED,
                self.0.as_raw_fd(),
                offset,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(Errno::last_raw());
        }
        // SAFETY: the mapping is readable, and at least a byte long.
        let first = unsafe { at.cast::<u8>().read_volatile() };
        let maps = std::fs::read_to_string("/proc/thread-self/maps").unwrap();
        let begin = format!("{:x}-", at.addr());
        let line = maps.lines().find(|line| line.starts_with(&begin)).unwrap();
        let permitted = line.split(' ').nth(1).unwrap().to_owned();
        // SAFETY: it was mapped above, and no reference into it exists.
        let unmapped = unsafe { libc::munmap(at, bytes) };
        assert_eq!(unmapped, 0);
        Ok((permitted, first))
    }

    /// Address of BAR0 for BAR_READ and BAR_WRITE.
    pub(crate) fn bar(&self) -> u64 {
        let mut info = DeviceInfo::ZEROED;
        assert_eq!(self.ask(ioctl::DEVICE_INFO, &mut info), Answer::Done);
        info.bar_address[0]
    }

    /// Gives queue 5 of engine 0 rings of so many descriptors in a host chunk, and returns the chunk.
    pub(crate) fn queue(&self, descriptors: u32) -> u64 {
        let ring = self.chunk(true, u64::from(descriptors) * 16);
        let argument = queue_init(ring, descriptors);
        assert_eq!(self.call(ioctl::DMA_QUEUE_INIT, argument), Answer::Done);
        ring
    }
}

/// Both rings in one chunk.
pub(crate) fn queue_init(ring: u64, descriptors: u32) -> DmaQueueInit {
    DmaQueueInit {
        eng_id: 0,
        qid: QUEUE,
        tx_desc_count: descriptors,
        rx_desc_count: descriptors,
        tx_handle: ring,
        rx_handle: ring,
        ..DmaQueueInit::ZEROED
    }
}

/// A queue of engine 0 that nothing else uses.
pub(crate) const QUEUE: u32 = 5;
