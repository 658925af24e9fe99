//! A program that has opened `neuron0` and uses its memory: short forms of calls that tests make often.

use crate::program::{BUFFER, Program};
use neuron_emu::{AccessMode, Emulator, Event, FileId};
use std::fs::File;
use std::os::unix::fs::FileExt;
use xu_abi::driver::errno::Answer;
use xu_abi::driver::ioctl::{
    MEM_ALLOC_V2MT64, MEM_BUF_COPY64, MEM_FREE, MEM_GET_EXTENDED_INFO, MEMSET64,
};
use xu_abi::driver::{Ioctl, MemType};
use xu_abi::driver::{MemAllocV2MemType64, MemBufCopy64, MemFree, MemGetExtendedInfo, Memset64};
use zerocopy::{FromBytes, Immutable, IntoBytes};

pub(crate) struct User<'e> {
    pub(crate) emulator: &'e Emulator,
    pub(crate) program: Program<'e>,
    pub(crate) file: FileId,
}

/// What to allocate: 4 KiB of HBM 0 by default.
pub(crate) const DEVICE: MemAllocV2MemType64 = MemAllocV2MemType64 {
    size: 4096,
    mem_type: MemType::TensorsDevice.raw(),
    mem_handle: BUFFER,
    ..MemAllocV2MemType64::ZEROED
};
/// 4 KiB of host memory.
pub(crate) const HOST: MemAllocV2MemType64 = MemAllocV2MemType64 {
    host_memory: 1,
    mem_type: MemType::TensorsHost.raw(),
    ..DEVICE
};

impl<'e> User<'e> {
    pub(crate) fn new(emulator: &'e Emulator, pid: u32) -> Self {
        Self::on(emulator, pid, 0)
    }

    /// Of another device.
    pub(crate) fn on(emulator: &'e Emulator, pid: u32, node: u32) -> Self {
        let program = Program::new(emulator, pid);
        let file = program.try_open(node, AccessMode::ReadWrite).unwrap();
        Self {
            emulator,
            program,
            file,
        }
    }

    pub(crate) fn call<A: FromBytes + IntoBytes + Immutable>(
        &self,
        ioctl: &Ioctl,
        argument: &mut A,
    ) -> Answer {
        self.program.call(self.file, ioctl, argument)
    }

    /// Its handle.
    pub(crate) fn try_allocate(&self, mut what: MemAllocV2MemType64) -> Result<u64, Answer> {
        self.program.put(BUFFER, &[0; 8]);
        match self.call(&MEM_ALLOC_V2MT64, &mut what) {
            Answer::Done => Ok(self.word(BUFFER)),
            refused => Err(refused),
        }
    }

    pub(crate) fn allocate(&self, what: MemAllocV2MemType64) -> u64 {
        self.try_allocate(what).unwrap()
    }

    pub(crate) fn host(&self, size: u64) -> u64 {
        self.allocate(MemAllocV2MemType64 { size, ..HOST })
    }

    pub(crate) fn device(&self, size: u64) -> u64 {
        self.allocate(MemAllocV2MemType64 { size, ..DEVICE })
    }

    pub(crate) fn free(&self, mem_handle: u64) -> Answer {
        self.call(&MEM_FREE, &mut MemFree { mem_handle })
    }

    pub(crate) fn info(&self, mem_handle: u64) -> Result<MemGetExtendedInfo, Answer> {
        let mut info = MemGetExtendedInfo {
            mem_handle,
            version: 1,
            ..MemGetExtendedInfo::ZEROED
        };
        match self.call(&MEM_GET_EXTENDED_INFO, &mut info) {
            Answer::Done => Ok(info),
            refused => Err(refused),
        }
    }

    pub(crate) fn pa(&self, handle: u64) -> u64 {
        self.info(handle).unwrap().pa
    }

    pub(crate) fn write(&self, handle: u64, offset: u64, bytes: &[u8]) -> Answer {
        self.program.put(BUFFER, bytes);
        self.call(&MEM_BUF_COPY64, &mut copy(handle, offset, bytes.len(), 1))
    }

    pub(crate) fn read(&self, handle: u64, offset: u64, bytes: usize) -> Vec<u8> {
        self.program.put(BUFFER, &vec![0; bytes]);
        let answer = self.call(&MEM_BUF_COPY64, &mut copy(handle, offset, bytes, 0));
        assert_eq!(answer, Answer::Done);
        self.program.get(BUFFER)
    }

    pub(crate) fn fill(&self, mem_handle: u64, offset: u64, value: u32, size: u64) -> Answer {
        let mut fill = Memset64 {
            mem_handle,
            offset,
            value,
            size,
            ..Memset64::ZEROED
        };
        self.call(&MEMSET64, &mut fill)
    }

    /// What is at a device address, as the hardware sees it.
    pub(crate) fn at(&self, address: u64, bytes: usize) -> Vec<u8> {
        let opened = self
            .emulator
            .open(&self.program, 0, AccessMode::ReadWrite)
            .unwrap();
        let mut content = vec![0; bytes];
        let memory = File::from(opened.descriptor);
        memory.read_exact_at(&mut content, address).unwrap();
        self.program.close(opened.file);
        content
    }

    /// The 64-bit number at an address of the program.
    pub(crate) fn word(&self, address: u64) -> u64 {
        u64::read_from_bytes(&self.program.get(address)).unwrap()
    }
}

fn copy(mem_handle: u64, offset: u64, bytes: usize, to_chunk: u32) -> MemBufCopy64 {
    MemBufCopy64 {
        mem_handle,
        buffer: BUFFER,
        size: bytes.try_into().unwrap(),
        offset,
        copy_to_mem_handle: to_chunk,
        ..MemBufCopy64::ZEROED
    }
}

/// Bytes that differ from their neighbours and from those of another seed.
pub(crate) fn pattern(bytes: usize, seed: u32) -> Vec<u8> {
    let byte = |i| (i ^ i >> 8 ^ i >> 16 ^ seed.wrapping_mul(0x9E37)) as u8;
    (0..u32::try_from(bytes).unwrap()).map(byte).collect()
}

/// The traps that were stepped into.
pub(crate) fn traps(emulator: &Emulator) -> Vec<u8> {
    emulator.bugs().iter().map(|bug| bug.trap).collect()
}

/// What the driver has let pass.
pub(crate) fn warnings(emulator: &Emulator) -> Vec<String> {
    let warning = |event| match event {
        Event::Warning(what) => Some(what),
        _ => None,
    };
    let trace = emulator.trace().into_iter();
    trace.filter_map(|traced| warning(traced.event)).collect()
}
