//! A range of memory that a request reads or writes: a tensor, or a part of one.
//!
//! Made by whoever owns the memory, used by [`tensor_op`](crate::tensor_op) and [`collectives`](crate::collectives).
//! A region says where bytes are and keeps nothing alive: its owner holds the memory until the request has ended and
//! the device is done with it.

use crate::device::Place;
use crate::memory::DeviceMemory;
use core::fmt;
use xu_abi::{DeviceAddr, Status};

/// `bytes` bytes from `addr`; the end lies inside the 64-bit space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    place: Place,
    addr: DeviceAddr,
    bytes: u64,
}

impl Region {
    /// The range with this beginning and length.
    ///
    /// # Errors
    /// [`OutOfRange`] when it passes the end of the 64-bit space.
    pub fn new(place: Place, addr: DeviceAddr, bytes: u64) -> Result<Self, OutOfRange> {
        match addr.checked_add(bytes) {
            Some(_) => Ok(Self { place, addr, bytes }),
            None => Err(OutOfRange {
                offset: addr.get(),
                bytes,
                size: u64::MAX,
            }),
        }
    }

    /// All of `memory`.
    #[must_use]
    pub fn of(memory: &DeviceMemory) -> Self {
        Self {
            place: memory.place(),
            addr: memory.addr(),
            bytes: memory.bytes(),
        }
    }

    /// Its `bytes` bytes from `offset`.
    ///
    /// # Errors
    /// [`OutOfRange`] when they do not lie inside.
    pub fn slice(self, offset: u64, bytes: u64) -> Result<Self, OutOfRange> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.bytes => Ok(Self {
                place: self.place,
                addr: self.at(offset),
                bytes,
            }),
            _ => Err(OutOfRange {
                offset,
                bytes,
                size: self.bytes,
            }),
        }
    }

    /// Whose memory it is.
    #[must_use]
    pub fn place(self) -> Place {
        self.place
    }

    /// Where it begins.
    #[must_use]
    pub fn addr(self) -> DeviceAddr {
        self.addr
    }

    /// How long it is, bytes.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.bytes
    }

    /// The address `offset` bytes in; the caller keeps `offset` within [`Region::bytes`].
    #[must_use]
    pub fn at(self, offset: u64) -> DeviceAddr {
        debug_assert!(offset <= self.bytes, "{offset} of {}", self.bytes);
        DeviceAddr::new(self.addr.get().saturating_add(offset))
    }

    /// Whether some byte is in both.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        let end = |region: Self| region.at(region.bytes).get();
        let both_have_bytes = self.bytes != 0 && other.bytes != 0;
        both_have_bytes && self.addr.get() < end(other) && other.addr.get() < end(self)
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {}", self.bytes, self.addr)
    }
}

/// A range that is not inside what it is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes at {offset} are not inside {size} bytes")]
pub struct OutOfRange {
    /// Where the range would begin.
    pub offset: u64,
    /// How long it would be, bytes.
    pub bytes: u64,
    /// How long the whole is, bytes.
    pub size: u64,
}

impl OutOfRange {
    /// [`Status::INVALID`].
    #[must_use]
    pub const fn status(self) -> Status {
        Status::INVALID
    }
}
