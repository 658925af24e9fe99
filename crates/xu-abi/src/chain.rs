//! A copy of any length as a chain of descriptor pairs, and the place of each pair in its rings.
//!
//! One descriptor moves at most 64 KiB, so a longer copy takes several pairs.
//! [`CopyChain`] makes them one by one, without memory of its own; [`RingPosition`] says where each goes and which
//! ring id it carries. Spec `xu.md` section 2.10, `driver.md` section 6.
//!
//! ```
//! use xu_abi::chain::{CopyChain, Framing, RingPosition};
//! use xu_abi::DeviceAddr;
//!
//! let mut position = RingPosition::new(32).unwrap();
//! let chain = CopyChain::new(DeviceAddr::new(0x1_0000), DeviceAddr::new(0x9_0000), 0x2_0010, Framing::Separate)?
//!     .with_write_barrier();
//! assert_eq!(chain.pairs_left(), 3);
//! for placed in chain.place(&mut position) {
//!     // Write placed.pair.rx, then placed.pair.tx, at placed.offset of their rings.
//! #   assert!(placed.offset < 48);
//! }
//! assert_eq!(position.index(), 3);
//! # Ok::<(), xu_abi::chain::ChainError>(())
//! ```
//!
//! # Two framings
//!
//! The papers know two ways to write a long copy, and the engine accepts both.
//!
//! ```text
//!            pair 0        pair 1        pair 2        pair 3
//!  Separate  FIRST LAST    FIRST LAST    FIRST LAST    FIRST LAST     four packets, as the driver writes them
//!  Linked    FIRST         CONCAT        CONCAT        CONCAT LAST    one packet
//! ```
//!
//! **Ruling.** The specification says "FIRST..CONCAT..LAST" and not on which descriptors CONCAT stands. Here it means
//! "continues the descriptor before", so that it stands on all of a packet but the first. A packet ends after
//! [`MAX_PACKET_PAIRS`] pairs, which leaves one of the engine's 65 descriptors for a marker, and another begins.
//! The Rx side carries neither flag.

use crate::descriptor::len_ctrl::{CONCAT, FIRST, LAST};
use crate::descriptor::{CopyPair, DESCRIPTOR_SIZE, MAX_TRANSFER, RING_MAX_DESCRIPTORS, RingId};
use crate::device::DeviceAddr;
use core::fmt;
use core::iter::FusedIterator;

/// Most pairs of one packet that is [linked](Framing::Linked).
pub const MAX_PACKET_PAIRS: u32 = 64;

/// How the pairs of a long copy hang together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Each pair is a packet of its own: what the kernel driver writes.
    Separate,
    /// The pairs of up to 4 MiB form one packet: FIRST, then CONCAT, then LAST.
    Linked,
}

/// Why there is no such chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChainError {
    /// A copy of no bytes: a length field of 0 would mean 65,536.
    Empty,
    /// One end would leave the 64-bit address space.
    PastEnd {
        /// Where that end begins.
        addr: DeviceAddr,
        /// Bytes to move.
        len: u64,
    },
}

impl fmt::Display for ChainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a copy of no bytes"),
            Self::PastEnd { addr, len } => {
                write!(f, "{len} bytes from {addr} leave the address space")
            }
        }
    }
}

impl core::error::Error for ChainError {}

/// What is left of a copy: makes the next pair, and forgets it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a chain writes nothing by itself"]
pub struct CopyChain {
    from: DeviceAddr,
    to: DeviceAddr,
    left: u64,
    framing: Framing,
    barrier: bool,
    /// Pairs of the packet that is being made.
    in_packet: u32,
}

impl CopyChain {
    /// A copy of `len` bytes, from 1 on.
    ///
    /// # Errors
    /// [`ChainError`] when `len` is 0 or one end would leave the address space.
    pub const fn new(
        from: DeviceAddr,
        to: DeviceAddr,
        len: u64,
        framing: Framing,
    ) -> Result<Self, ChainError> {
        let Some(last) = len.checked_sub(1) else {
            return Err(ChainError::Empty);
        };
        // The last byte counts, not the one behind it: memory may reach to the end of the space.
        if from.checked_add(last).is_none() {
            return Err(ChainError::PastEnd { addr: from, len });
        }
        if to.checked_add(last).is_none() {
            return Err(ChainError::PastEnd { addr: to, len });
        }
        Ok(Self {
            from,
            to,
            left: len,
            framing,
            barrier: false,
            in_packet: 0,
        })
    }

    /// The same copy, whose last pair holds back what follows until all bytes have arrived.
    ///
    /// What is copied right before a completion marker needs it.
    pub const fn with_write_barrier(mut self) -> Self {
        self.barrier = true;
        self
    }

    /// Bytes that no pair has been made for.
    #[must_use]
    pub const fn bytes_left(&self) -> u64 {
        self.left
    }

    /// Pairs that are still to come.
    #[must_use]
    pub const fn pairs_left(&self) -> u64 {
        // CAST: widening.
        self.left.div_ceil(MAX_TRANSFER as u64)
    }

    /// The next pair, for a slot of the lap `ring_id`; `None` when the copy is complete.
    pub fn next_pair(&mut self, ring_id: RingId) -> Option<CopyPair> {
        // CAST: at most 65,536; widening before.
        let len = self.left.min(MAX_TRANSFER as u64) as u32;
        let left = self.left - u64::from(len);
        let place = match self.framing {
            Framing::Separate => FIRST | LAST,
            Framing::Linked => {
                let first = if self.in_packet == 0 { FIRST } else { CONCAT };
                let ends = left == 0 || self.in_packet + 1 == MAX_PACKET_PAIRS;
                first | if ends { LAST } else { 0 }
            }
        };
        let pair = CopyPair::with_place(self.from, self.to, len, ring_id, place)?;
        self.left = left;
        self.in_packet = (self.in_packet + 1) % MAX_PACKET_PAIRS;
        // Behind the last pair of a copy that ends with the address space there is no address, and none is needed.
        let beyond = |addr: DeviceAddr| DeviceAddr::new(addr.get().wrapping_add(u64::from(len)));
        (self.from, self.to) = (beyond(self.from), beyond(self.to));
        if self.barrier && left == 0 {
            Some(pair.with_write_barrier())
        } else {
            Some(pair)
        }
    }

    /// The pairs with their places, from `position` on, which moves along.
    ///
    /// A position is a plain value: keep a copy to take the pairs back before they are started. The caller sees to
    /// it that the ring has room for [`CopyChain::pairs_left`] pairs.
    pub const fn place(self, position: &mut RingPosition) -> Placing<'_> {
        Placing {
            chain: self,
            position,
        }
    }
}

/// A pair, and where in both rings it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Bytes from the base of each ring.
    pub offset: u64,
    /// The two descriptors.
    pub pair: CopyPair,
}

/// The pairs of a chain with their places: see [`CopyChain::place`].
#[derive(Debug)]
#[must_use = "iterators do nothing unless they are asked"]
pub struct Placing<'a> {
    chain: CopyChain,
    position: &'a mut RingPosition,
}

impl Iterator for Placing<'_> {
    type Item = Placed;

    fn next(&mut self) -> Option<Placed> {
        let pair = self.chain.next_pair(self.position.ring_id())?;
        let offset = self.position.offset();
        self.position.advance();
        Some(Placed { offset, pair })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match usize::try_from(self.chain.pairs_left()) {
            Ok(left) => (left, Some(left)),
            Err(_) => (usize::MAX, None),
        }
    }
}

impl FusedIterator for Placing<'_> {}

/// Where the next pair goes in a queue's two rings, and the id of the lap it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingPosition {
    descriptors: u32,
    index: u32,
    ring_id: RingId,
}

impl RingPosition {
    /// The first slot of fresh rings of `descriptors` each; `None` unless that is 1 to 16,777,200.
    ///
    /// A device may demand more of a ring: see [`RING_GRANULE`](crate::descriptor::RING_GRANULE) and
    /// [`RING_MIN_DESCRIPTORS`](crate::descriptor::RING_MIN_DESCRIPTORS).
    #[must_use]
    pub const fn new(descriptors: u32) -> Option<Self> {
        if descriptors == 0 || descriptors > RING_MAX_DESCRIPTORS {
            return None;
        }
        Some(Self {
            descriptors,
            index: 0,
            ring_id: RingId::FIRST,
        })
    }

    /// Slot of the next pair, counted from 0.
    #[must_use]
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// The id that the next pair carries.
    #[must_use]
    pub const fn ring_id(&self) -> RingId {
        self.ring_id
    }

    /// Bytes from the base of each ring to the next pair.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        // CAST: widening.
        self.index as u64 * DESCRIPTOR_SIZE
    }

    /// Passes to the next slot; behind the last one a new lap begins.
    pub const fn advance(&mut self) {
        self.index += 1;
        if self.index == self.descriptors {
            self.index = 0;
            self.ring_id = self.ring_id.next();
        }
    }
}
