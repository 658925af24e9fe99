//! Who a queue is and where a request stands in it: [`XuId`], [`Cursor`], [`SeqId`].
//!
//! Used by every layer above. Rules: spec `xu.md` section 1.
//!
//! ```text
//!  63        56 55  52 51  48 47                                    0
//! +------------+------+------+---------------------------------------+
//! |   vnc_id   | queue| type |                seq_num                |   SeqId
//! +------------+------+------+---------------------------------------+
//!  15         8 7    4 3    0                                            XuId
//! ```

use crate::range::OutOfRange;
use core::fmt;

/// The kind of work an execution unit does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum XuType {
    /// Moves and transforms tensors.
    TensorOp = 0,
    /// Runs models.
    Compute = 1,
    /// Talks to other cores.
    Collectives = 2,
}

impl XuType {
    /// Every type, by value.
    pub const ALL: [Self; 3] = [Self::TensorOp, Self::Compute, Self::Collectives];

    /// The type with this ABI value, if there is one.
    #[must_use]
    pub const fn from_raw(raw: u32) -> Option<Self> {
        match raw {
            0 => Some(Self::TensorOp),
            1 => Some(Self::Compute),
            2 => Some(Self::Collectives),
            _ => None,
        }
    }

    /// Number of queues that one logical core has of this type.
    #[must_use]
    pub const fn queues(self) -> u8 {
        match self {
            Self::TensorOp => 2,
            Self::Compute | Self::Collectives => 1,
        }
    }

    /// How many requests one queue holds outstanding when nothing else is configured; `None` for
    /// [`XuType::Collectives`], which leaves it to the implementation.
    #[must_use]
    pub const fn default_limit(self) -> Option<u64> {
        match self {
            Self::TensorOp => Some(65_536),
            Self::Compute => Some(8),
            Self::Collectives => None,
        }
    }

    /// Most outstanding requests that a compute queue can be configured for.
    pub const MAX_COMPUTE_LIMIT: u64 = 63;

    /// The name used in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TensorOp => "tensor-op",
            Self::Compute => "compute",
            Self::Collectives => "collectives",
        }
    }
}

impl TryFrom<u32> for XuType {
    type Error = OutOfRange;

    fn try_from(raw: u32) -> Result<Self, OutOfRange> {
        Self::from_raw(raw).ok_or(OutOfRange {
            what: "XU type",
            value: raw.into(),
            allowed: "0, 1, 2",
        })
    }
}

/// Most virtual cores of a machine: all that the eight bits of an id can tell apart.
pub const MAX_VIRTUAL_CORES: usize = 256;

/// One queue of one logical core: type, queue index and virtual core in 16 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct XuId(u16);

impl XuId {
    /// Packs an id; `None` when this type has no such queue.
    #[must_use]
    pub const fn new(xu_type: XuType, queue: u8, vnc: u8) -> Option<Self> {
        if queue < xu_type.queues() {
            Some(Self(
                xu_type as u16 | (queue as u16) << 4 | (vnc as u16) << 8,
            ))
        } else {
            None
        }
    }

    /// An id as found in memory; it may name a type or queue that does not exist.
    #[must_use]
    pub const fn from_raw(raw: u16) -> Self {
        Self(raw)
    }

    /// An id from outside that must name a queue which exists.
    ///
    /// # Errors
    /// [`OutOfRange`] when the type is unknown, or has no queue of this index.
    ///
    /// ```
    /// use xu_abi::XuId;
    /// assert_eq!(XuId::checked(0x0310).unwrap().to_string(), "core 3 tensor-op queue 1");
    /// assert_eq!(XuId::checked(0x0311).unwrap_err().to_string(), "queue of a compute unit is 1, allowed: 0");
    /// assert_eq!(XuId::checked(0x0307).unwrap_err().to_string(), "XU type is 7, allowed: 0, 1, 2");
    /// ```
    pub const fn checked(raw: u16) -> Result<Self, OutOfRange> {
        let id = Self(raw);
        let (what, value, allowed) = match id.xu_type() {
            Some(xu_type) if id.queue() < xu_type.queues() => return Ok(id),
            Some(XuType::TensorOp) => ("queue of a tensor-op unit", id.queue() as u64, "0, 1"),
            Some(XuType::Compute) => ("queue of a compute unit", id.queue() as u64, "0"),
            Some(XuType::Collectives) => ("queue of a collectives unit", id.queue() as u64, "0"),
            // CAST: four bits.
            None => ("XU type", (raw & Self::TYPE_MASK) as u64, "0, 1, 2"),
        };
        Err(OutOfRange {
            what,
            value,
            allowed,
        })
    }

    /// The bits of the type.
    pub const TYPE_MASK: u16 = 0x000F;
    /// The bits of the queue index.
    pub const QUEUE_MASK: u16 = 0x00F0;
    /// The bits of the virtual core.
    pub const VNC_MASK: u16 = 0xFF00;

    /// The 16 bits.
    #[must_use]
    pub const fn raw(self) -> u16 {
        self.0
    }

    /// The type in bits 3:0, unless it is unknown.
    #[must_use]
    pub const fn xu_type(self) -> Option<XuType> {
        XuType::from_raw((self.0 & 0xF) as u32)
    }

    /// The queue index in bits 7:4.
    #[must_use]
    pub const fn queue(self) -> u8 {
        (self.0 >> 4 & 0xF) as u8
    }

    /// The virtual core in bits 15:8.
    #[must_use]
    pub const fn vnc(self) -> u8 {
        (self.0 >> 8) as u8
    }
}

impl fmt::Debug for XuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "XuId({:#06x})", self.0)
    }
}

/// `core 3 compute`, `core 0 tensor-op queue 1`.
impl fmt::Display for XuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.xu_type() {
            Some(xu_type) if xu_type.queues() == 1 => {
                write!(f, "core {} {}", self.vnc(), xu_type.name())
            }
            Some(xu_type) => {
                write!(
                    f,
                    "core {} {} queue {}",
                    self.vnc(),
                    xu_type.name(),
                    self.queue()
                )
            }
            None => write!(f, "unknown unit {:#06x}", self.0),
        }
    }
}

/// A position in one queue's order of submission: a clean 48-bit counter.
///
/// Queues start at [`Cursor::FIRST`]; number 0 means "nothing yet".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Cursor(u64);

impl Cursor {
    /// Before the first request: what a fresh queue reports as last completed.
    pub const NONE: Self = Self(0);
    /// The first request of a queue.
    pub const FIRST: Self = Self(1);
    /// The largest number that is ever issued.
    pub const LAST: Self = Self(0xFFFF_FFFF_FFFE);

    const MASK: u64 = (1 << SeqId::NUM_BITS) - 1;

    /// A cursor, or `None` when `raw` does not fit 48 bits.
    #[must_use]
    pub const fn new(raw: u64) -> Option<Self> {
        if raw <= Self::MASK {
            Some(Self(raw))
        } else {
            None
        }
    }

    /// The counter.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Whether a request can have this number: neither "nothing yet" nor the end marker.
    #[must_use]
    pub const fn is_issuable(self) -> bool {
        Self::FIRST.0 <= self.0 && self.0 <= Self::LAST.0
    }

    /// The next position. After [`Cursor::LAST`] comes the end marker, which is never issued.
    #[must_use]
    pub const fn next(self) -> Self {
        Self((self.0 + 1) & Self::MASK)
    }

    /// The position before this one; [`Cursor::NONE`] stays where it is.
    #[must_use]
    pub const fn prev(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

impl TryFrom<u64> for Cursor {
    type Error = OutOfRange;

    fn try_from(raw: u64) -> Result<Self, OutOfRange> {
        Self::new(raw).ok_or(OutOfRange {
            what: "cursor",
            value: raw,
            allowed: "0 to 0xFFFFFFFFFFFF",
        })
    }
}

/// A place in one queue's order of submission, with the queue's id.
///
/// Sequences of different queues do not compare, so there is no `Ord`: ask [`SeqId::is_done_at`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct SeqId(u64);

impl SeqId {
    /// Bits of the number; the id of the queue stands above.
    pub const NUM_BITS: u32 = 48;

    /// The sequence of `cursor` on queue `xu`.
    #[must_use]
    pub const fn new(xu: XuId, cursor: Cursor) -> Self {
        Self(cursor.0 | (xu.0 as u64) << Self::NUM_BITS)
    }

    /// A sequence as an application hands it in: any 64 bits.
    #[must_use]
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// A sequence from outside that must belong to a queue which exists, and have a number that can be issued.
    ///
    /// Whether it *was* issued, only the queue knows.
    ///
    /// # Errors
    /// [`OutOfRange`] as [`XuId::checked`], and for the numbers 0 and 2^48 - 1.
    pub const fn checked(raw: u64) -> Result<Self, OutOfRange> {
        let seq = Self(raw);
        if let Err(refused) = XuId::checked(seq.xu().0) {
            return Err(refused);
        }
        if seq.cursor().is_issuable() {
            Ok(seq)
        } else {
            Err(OutOfRange {
                what: "number of a sequence",
                value: seq.cursor().0,
                allowed: "1 to 0xFFFFFFFFFFFE",
            })
        }
    }

    /// The 64 bits.
    #[must_use]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// The owning queue.
    #[must_use]
    pub const fn xu(self) -> XuId {
        XuId((self.0 >> Self::NUM_BITS) as u16)
    }

    /// The number within the queue.
    #[must_use]
    pub const fn cursor(self) -> Cursor {
        Cursor(self.0 & Cursor::MASK)
    }

    /// Whether this request is complete once `last_completed` is; `None` for another queue.
    ///
    /// ```
    /// use xu_abi::{Cursor, SeqId, XuId, XuType};
    /// let queue = XuId::new(XuType::Compute, 0, 0).unwrap();
    /// let other = XuId::new(XuType::Compute, 0, 1).unwrap();
    /// let (first, second) = (SeqId::new(queue, Cursor::FIRST), SeqId::new(queue, Cursor::FIRST.next()));
    /// assert_eq!(first.is_done_at(second), Some(true));
    /// assert_eq!(second.is_done_at(first), Some(false));
    /// assert_eq!(first.is_done_at(SeqId::new(other, Cursor::FIRST)), None);
    /// ```
    #[must_use]
    pub const fn is_done_at(self, last_completed: Self) -> Option<bool> {
        if self.xu().0 == last_completed.xu().0 {
            Some(self.cursor().0 <= last_completed.cursor().0)
        } else {
            None
        }
    }

    /// How many requests of the queue were issued after `earlier`, up to this one; `None` for another queue, and when
    /// `earlier` is the later one.
    ///
    /// ```
    /// # use xu_abi::{Cursor, SeqId, XuId, XuType};
    /// # let queue = XuId::new(XuType::Compute, 0, 0).unwrap();
    /// let at = |number| SeqId::new(queue, Cursor::new(number).unwrap());
    /// assert_eq!(at(9).since(at(4)), Some(5));
    /// assert_eq!(at(4).since(at(9)), None);
    /// ```
    #[must_use]
    pub const fn since(self, earlier: Self) -> Option<u64> {
        if self.xu().0 == earlier.xu().0 {
            self.cursor().0.checked_sub(earlier.cursor().0)
        } else {
            None
        }
    }
}

impl fmt::Debug for SeqId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SeqId({:#06x}:{})", self.xu().0, self.cursor().0)
    }
}

/// `core 3 compute #17`.
impl fmt::Display for SeqId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} #{}", self.xu(), self.cursor().0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vnc_is_the_high_byte_of_a_sequence() {
        let xu = XuId::new(XuType::TensorOp, 1, 0xAB).unwrap();
        assert_eq!(xu.raw(), 0xAB10);
        let seq = SeqId::new(xu, Cursor::LAST);
        assert_eq!(seq.raw() >> 56, 0xAB);
        assert_eq!((seq.xu(), seq.cursor()), (xu, Cursor::LAST));
    }

    #[test]
    fn queues_that_do_not_exist_are_refused() {
        assert_eq!(XuId::new(XuType::Compute, 1, 0), None);
        assert_eq!(XuId::new(XuType::TensorOp, 2, 0), None);
        assert_eq!(XuId::from_raw(0x000F).xu_type(), None);
        assert_eq!(Cursor::new(1 << 48), None);
    }
}
