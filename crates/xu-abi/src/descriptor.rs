//! The 16-byte DMA descriptor, the pairs it comes in, and the ring id that marks it as fresh.
//!
//! Written by the stager into the two rings of a DMA queue, walked by the device.
//! A copy longer than 64 KiB is a [chain](crate::chain) of pairs.
//! Spec `xu.md` section 2.10, `driver.md` section 6.

use crate::device::DeviceAddr;
use crate::layout::{assert_layout, bytes_of};
use crate::range::OutOfRange;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Size of a descriptor in bytes.
pub const DESCRIPTOR_SIZE: u64 = 16;

/// Most bytes that one descriptor can move.
pub const MAX_TRANSFER: u32 = 0x1_0000;

/// `meta_ctrl` of a plain copy's source descriptor.
pub const META_PLAIN_COPY: u32 = 0x0108_0003;

/// Bit of `meta_ctrl` that holds the next descriptor back until this one's bytes have arrived.
pub const META_WRITE_BARRIER: u32 = 1 << 26;

/// Fields and flags of [`Descriptor::len_ctrl`].
pub mod len_ctrl {
    /// Length in bytes; 0 means 65,536.
    pub const LENGTH: u32 = 0xFFFF;
    /// The descriptor carries metadata. Never set by the driver.
    pub const META: u32 = 1 << 23;
    /// The two bits of the ring id.
    pub const RING_ID: u32 = 3 << RING_ID_SHIFT;
    /// Where the ring id begins.
    pub const RING_ID_SHIFT: u32 = 24;
    /// First descriptor of a packet (Tx).
    pub const FIRST: u32 = 1 << 26;
    /// Last descriptor of a packet (Tx).
    pub const LAST: u32 = 1 << 27;
    /// Interrupt when done.
    pub const INTERRUPT: u32 = 1 << 28;
    /// Strongly ordered write (Rx, third generation and later). Never set by the driver.
    pub const STRONG_ORDER: u32 = 1 << 29;
    /// Memory barrier before this descriptor (Tx).
    pub const DMB: u32 = 1 << 30;
    /// Continues the packet of the descriptor before (Tx). Never set by the driver.
    pub const CONCAT: u32 = 1 << 31;
}

use len_ctrl::{FIRST, LAST, LENGTH, RING_ID, RING_ID_SHIFT};

/// Alignment of a descriptor ring's base, bytes.
pub const RING_ALIGN: u64 = 256;

/// Fewest descriptors of a ring.
pub const RING_MIN_DESCRIPTORS: u32 = 32;

/// Most descriptors of a ring.
pub const RING_MAX_DESCRIPTORS: u32 = 16_777_200;

/// The number of a ring's descriptors is a multiple of this.
pub const RING_GRANULE: u32 = 16;

/// Tells a fresh descriptor from one of an earlier lap: 1, 2, 3, 0, 1, ... advancing at each wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RingId(u8);

impl RingId {
    /// Both rings of a queue start here.
    pub const FIRST: Self = Self(1);

    /// The id with these two bits; `None` from 4 on.
    #[must_use]
    pub const fn new(raw: u8) -> Option<Self> {
        if raw <= 3 { Some(Self(raw)) } else { None }
    }

    /// The id of the next lap.
    #[must_use]
    pub const fn next(self) -> Self {
        Self((self.0 + 1) & 3)
    }

    /// The two bits.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl TryFrom<u8> for RingId {
    type Error = OutOfRange;

    fn try_from(raw: u8) -> Result<Self, OutOfRange> {
        Self::new(raw).ok_or(OutOfRange {
            what: "ring id",
            value: raw.into(),
            allowed: "0 to 3",
        })
    }
}

/// One end of a copy: the source on the Tx ring or the destination on the Rx ring.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(C)]
pub struct Descriptor {
    /// Length, ring id and flags.
    pub len_ctrl: U32,
    /// Operation; 0 on the Rx ring.
    pub meta_ctrl: U32,
    /// Source on Tx, destination on Rx.
    pub buf_ptr: U64,
}

assert_layout! { Descriptor is "UDMA descriptor" in "xu.md 2.10": 16 bytes, align 1;
len_ctrl @ 0x00  meta_ctrl @ 0x04  buf_ptr @ 0x08 }
bytes_of! { Descriptor: 16 }

impl Descriptor {
    /// Length in bytes, 1 to 65,536 (a field of 0 means 65,536).
    #[must_use]
    pub fn transfer_len(&self) -> u32 {
        match self.len_ctrl.get() & LENGTH {
            0 => MAX_TRANSFER,
            len => len,
        }
    }

    /// The lap for which this descriptor was written.
    #[must_use]
    pub fn ring_id(&self) -> RingId {
        // CAST: masked to two bits.
        RingId(((self.len_ctrl.get() & RING_ID) >> RING_ID_SHIFT) as u8)
    }

    /// Whether all `flags`, bits of [`len_ctrl`], are set.
    #[must_use]
    pub fn has(&self, flags: u32) -> bool {
        self.len_ctrl.get() & flags == flags
    }

    /// Whether `meta_ctrl` asks for a plain copy, with or without a write barrier.
    #[must_use]
    pub fn is_plain_copy(&self) -> bool {
        self.meta_ctrl.get() & !META_WRITE_BARRIER == META_PLAIN_COPY
    }

    /// Whether `meta_ctrl` holds the next descriptor back until these bytes have arrived.
    #[must_use]
    pub fn has_write_barrier(&self) -> bool {
        self.meta_ctrl.get() & META_WRITE_BARRIER != 0
    }

    /// The address at this end.
    #[must_use]
    pub fn addr(&self) -> DeviceAddr {
        DeviceAddr::new(self.buf_ptr.get())
    }
}

/// A copy of at most 64 KiB: one descriptor for each ring, always made together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyPair {
    /// For the Tx ring.
    pub tx: Descriptor,
    /// For the Rx ring.
    pub rx: Descriptor,
}

impl CopyPair {
    /// A copy of `len` bytes; `None` unless `len` is 1 to 65,536.
    ///
    /// ```
    /// use xu_abi::{DeviceAddr, RingId, descriptor::CopyPair};
    /// let pair = CopyPair::new(DeviceAddr::new(0x1000), DeviceAddr::new(0x2000), 0x1_0000, RingId::FIRST).unwrap();
    /// assert_eq!(pair.tx.len_ctrl.get(), 0x0D00_0000);
    /// assert_eq!(pair.rx.len_ctrl.get(), 0x0100_0000);
    /// assert!(CopyPair::new(DeviceAddr::new(0), DeviceAddr::new(0), 0x1_0001, RingId::FIRST).is_none());
    /// ```
    #[must_use]
    pub fn new(from: DeviceAddr, to: DeviceAddr, len: u32, ring_id: RingId) -> Option<Self> {
        Self::with_place(from, to, len, ring_id, FIRST | LAST)
    }

    /// As [`Self::new`], with the Tx flags that say where in its packet the pair stands.
    pub(crate) fn with_place(
        from: DeviceAddr,
        to: DeviceAddr,
        len: u32,
        ring_id: RingId,
        place: u32,
    ) -> Option<Self> {
        if len == 0 || len > MAX_TRANSFER {
            return None;
        }
        let len_ctrl = len & LENGTH | u32::from(ring_id.0) << RING_ID_SHIFT;
        Some(Self {
            tx: Descriptor {
                len_ctrl: U32::new(len_ctrl | place),
                meta_ctrl: U32::new(META_PLAIN_COPY),
                buf_ptr: U64::new(from.get()),
            },
            rx: Descriptor {
                len_ctrl: U32::new(len_ctrl),
                meta_ctrl: U32::ZERO,
                buf_ptr: U64::new(to.get()),
            },
        })
    }

    /// The same copy, whose bytes arrive before the next descriptor is executed.
    ///
    /// The last data pair before a completion marker needs it.
    #[must_use]
    pub fn with_write_barrier(mut self) -> Self {
        self.tx.meta_ctrl = U32::new(self.tx.meta_ctrl.get() | META_WRITE_BARRIER);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ring_ids_go_1_2_3_0() {
        let ids = [
            RingId::FIRST,
            RingId::FIRST.next(),
            RingId::FIRST.next().next(),
        ];
        assert_eq!(ids.map(RingId::get), [1, 2, 3]);
        assert_eq!(ids[2].next().get(), 0);
        assert_eq!(ids[2].next().next(), RingId::FIRST);
    }

    #[test]
    fn length_zero_means_64_kib() {
        let pair =
            CopyPair::new(DeviceAddr::new(1), DeviceAddr::new(2), 65_536, RingId(3)).unwrap();
        assert_eq!(
            (pair.tx.transfer_len(), pair.rx.transfer_len()),
            (65_536, 65_536)
        );
        assert_eq!(pair.rx.ring_id().get(), 3);
        assert!(CopyPair::new(DeviceAddr::new(1), DeviceAddr::new(2), 0, RingId(3)).is_none());
    }
}
