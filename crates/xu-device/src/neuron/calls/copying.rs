//! Copies that the driver makes, each of one piece that it can take.
//!
//! Called by [`Chunk`], which has checked that the range is inside it, and cuts what is longer.
//!
//! * A size of 0 does not mean nothing: a DMA descriptor of length 0 moves 64 KiB, and a zero-copy of 0 bytes crashes the
//!   kernel.
//! * MEM_BUF_COPY64 takes its size modulo 4 GiB.
//! * MEM_BUF_ZEROCOPY64 overruns a table of 64 pages when an unaligned buffer spans 65 of them in its only step.

use super::{refuse, within};
use crate::neuron::call::Buffer;
use crate::neuron::error::DriverError;
use crate::neuron::memory::Chunk;
use xu_abi::driver::{
    Features, Ioctl, LARGE, MemBufCopy, MemBufCopy64, MemCopy, MemCopy64, Memset, Memset64, PAGE,
    ZEROCOPY_STEP, ioctl,
};

/// Which way a buffer is copied.
#[derive(Debug)]
pub(in crate::neuron) enum Way<'b> {
    /// From the buffer to the chunk.
    In(&'b [u8]),
    /// From the chunk to the buffer.
    Out(&'b mut [u8]),
}

impl Way<'_> {
    fn bytes(&self) -> u64 {
        // CAST: a length fits 64 bits.
        match self {
            Self::In(buffer) => buffer.len() as u64,
            Self::Out(buffer) => buffer.len() as u64,
        }
    }
}

impl Chunk {
    /// Whether the calls with 64-bit sizes are there.
    pub(in crate::neuron) fn is_wide(&self) -> bool {
        self.node().identity().features.has(Features::MEM_ALLOC64)
    }

    /// Copies one piece of 1 byte to 4 GiB less 1, through the kernel's own buffer.
    pub(in crate::neuron) fn copy_buffer(
        &self,
        offset: u64,
        way: Way<'_>,
    ) -> Result<(), DriverError> {
        let size = way.bytes();
        let copy_to_mem_handle = u32::from(matches!(way, Way::In(_)));
        let mut buffers = [match way {
            Way::In(buffer) => Buffer::Read(buffer),
            Way::Out(buffer) => Buffer::Written(buffer),
        }];
        let mem_handle = self.handle().get();
        if self.is_wide() {
            let ioctl = &ioctl::MEM_BUF_COPY64;
            within(ioctl, "number of bytes", size, 1..=LARGE - 1)?;
            let mut argument = MemBufCopy64 {
                mem_handle,
                size,
                offset,
                copy_to_mem_handle,
                ..MemBufCopy64::ZEROED
            };
            return self.node().call(ioctl, &mut argument, &mut buffers);
        }
        let ioctl = &ioctl::MEM_BUF_COPY;
        let mut argument = MemBufCopy {
            mem_handle,
            size: short(ioctl, "number of bytes", size, 1)?,
            offset: short(ioctl, "offset", offset, 0)?,
            copy_to_mem_handle,
            ..MemBufCopy::ZEROED
        };
        self.node().call(ioctl, &mut argument, &mut buffers)
    }

    /// Copies a buffer to the chunk without a copy in the kernel. Never the other way: see [`crate::neuron::sys`].
    pub(in crate::neuron) fn copy_pinned(
        &self,
        offset: u64,
        buffer: &[u8],
    ) -> Result<(), DriverError> {
        let ioctl = &ioctl::MEM_BUF_ZEROCOPY64;
        // CAST: a length and an address fit 64 bits.
        let size = buffer.len() as u64;
        within(ioctl, "number of bytes", size, 1..=u64::MAX)?;
        let in_page = buffer.as_ptr().addr() as u64 % PAGE;
        if overruns(in_page, size) {
            return Err(refuse(
                ioctl,
                "number of bytes of an unaligned buffer",
                size,
                format!("1 to {}", ZEROCOPY_STEP - in_page),
            ));
        }
        let mut argument = MemBufCopy64 {
            mem_handle: self.handle().get(),
            size,
            offset,
            copy_to_mem_handle: 1,
            ..MemBufCopy64::ZEROED
        };
        self.node()
            .call(ioctl, &mut argument, &mut [Buffer::Read(buffer)])
    }

    /// Sets one piece to a value.
    pub(in crate::neuron) fn set_bytes(
        &self,
        offset: u64,
        bytes: u64,
        value: u8,
    ) -> Result<(), DriverError> {
        let mem_handle = self.handle().get();
        let value = value.into();
        if self.is_wide() {
            let ioctl = &ioctl::MEMSET64;
            within(ioctl, "number of bytes", bytes, 1..=u64::MAX)?;
            let mut argument = Memset64 {
                mem_handle,
                offset,
                value,
                size: bytes,
                ..Memset64::ZEROED
            };
            return self.node().ask(ioctl, &mut argument);
        }
        let ioctl = &ioctl::MEMSET;
        let mut argument = Memset {
            mem_handle,
            offset,
            value,
            size: short(ioctl, "number of bytes", bytes, 1)?,
        };
        self.node().ask(ioctl, &mut argument)
    }

    /// Copies one piece to another chunk of the same device.
    pub(in crate::neuron) fn copy_chunk(
        &self,
        src_offset: u64,
        to: &Self,
        dst_offset: u64,
        bytes: u64,
    ) -> Result<(), DriverError> {
        let (src, dst) = (self.handle().get(), to.handle().get());
        if self.is_wide() {
            let ioctl = &ioctl::MEM_COPY64;
            within(ioctl, "number of bytes", bytes, 1..=u64::MAX)?;
            let mut argument = MemCopy64 {
                src,
                dst,
                size: bytes,
                src_offset,
                dst_offset,
            };
            return self.node().ask(ioctl, &mut argument);
        }
        let ioctl = &ioctl::MEM_COPY;
        let mut argument = MemCopy {
            src,
            dst,
            size: short(ioctl, "number of bytes", bytes, 1)?,
            src_offset: short(ioctl, "offset", src_offset, 0)?,
            dst_offset: short(ioctl, "offset", dst_offset, 0)?,
            ..MemCopy::ZEROED
        };
        self.node().ask(ioctl, &mut argument)
    }
}

/// Whether a buffer that begins `in_page` bytes into a page spans more pages than the table of a step has, and would be
/// copied in one step.
fn overruns(in_page: u64, size: u64) -> bool {
    size <= ZEROCOPY_STEP && in_page > ZEROCOPY_STEP - size
}

/// A number for a field of 32 bits.
fn short(ioctl: &Ioctl, what: &'static str, value: u64, least: u64) -> Result<u32, DriverError> {
    within(ioctl, what, value, least..=LARGE - 1)?;
    // CAST: compared above.
    Ok(value as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Trap 22.
    #[test]
    fn d4_65_pages_in_one_step_are_too_many() {
        for (in_page, size) in [
            (0, 262_144),
            (1, 262_143),
            (4095, 1),
            (1, 262_145),
            (1, 1 << 40),
        ] {
            assert!(!overruns(in_page, size), "{in_page} {size}");
        }
        for (in_page, size) in [(1, 262_144), (4095, 262_144), (4095, 262_144 - 4094)] {
            assert!(overruns(in_page, size), "{in_page} {size}");
        }
    }

    #[test]
    fn d4_a_number_of_32_bits_is_not_cut() {
        let ioctl = &ioctl::MEM_COPY;
        assert_eq!(short(ioctl, "offset", LARGE - 1, 0), Ok(u32::MAX));
        assert!(short(ioctl, "offset", LARGE, 0).is_err());
        assert!(short(ioctl, "number of bytes", 0, 1).is_err());
    }
}
