//! The ioctls of the driver, one row each.
//!
//! Spec `driver.md` section 2.
//!
//! ```text
//!   31 30 29         16 15         8 7        0
//!  +-----+-------------+------------+----------+
//!  | dir | encoded size|  'N' 0x4E  |  number  |   request
//!  +-----+-------------+------------+----------+
//! ```
//!
//! Neither direction nor encoded size say what the driver reads and writes: the size is often that of a pointer, and
//! the direction is often wrong. The argument's own layout says it, with [`super::indirect`] for what it points at.
//! So a request is looked up here and never made from a structure.

mod table;

pub use table::*;

use super::indirect::{self, Indirect};
use crate::layout::StructLayout;
use core::fmt;

/// The type byte of every request.
pub const MAGIC: u8 = 0x4E;

/// The direction bits of a request. They are not the direction of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Direction {
    /// `_IO`.
    None = 0,
    /// `_IOW`.
    Write = 1,
    /// `_IOR`.
    Read = 2,
    /// `_IOWR`.
    ReadWrite = 3,
}

/// What the third parameter of the system call points at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// Nothing: it is not looked at.
    Ignored,
    /// A structure.
    Struct(&'static StructLayout),
    /// A structure, followed by as many entries as its second word says.
    Entries {
        /// What comes first.
        head: &'static StructLayout,
        /// What is repeated.
        entry: &'static StructLayout,
    },
    /// So many bytes that are one number, which the driver writes.
    Number(usize),
    /// So many bytes whose fields the specification does not name.
    Opaque(usize),
}

impl Argument {
    /// Bytes of the argument, without entries that follow it.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::Ignored => 0,
            Self::Struct(layout) | Self::Entries { head: layout, .. } => layout.size,
            Self::Number(bytes) | Self::Opaque(bytes) => bytes,
        }
    }

    /// The name in the specification.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ignored => "ignored",
            Self::Struct(layout) | Self::Entries { head: layout, .. } => layout.original,
            Self::Number(1) => "u8",
            Self::Number(_) => "u32",
            Self::Opaque(_) => "opaque",
        }
    }
}

/// One ioctl.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Ioctl {
    /// Without `NEURON_IOCTL_`.
    pub name: &'static str,
    /// Not unique: variants share it.
    pub number: u8,
    /// The direction bits.
    pub direction: Direction,
    /// The size bits.
    pub encoded_size: u16,
    /// What is passed.
    pub argument: Argument,
    /// Whether a descriptor that was opened for writing only may be used.
    pub misc: bool,
    /// Whether a process that is not attached is refused.
    pub gated: bool,
}

impl Ioctl {
    const fn new(
        name: &'static str,
        number: u8,
        direction: Direction,
        encoded_size: u16,
        argument: Argument,
    ) -> Self {
        Self {
            name,
            number,
            direction,
            encoded_size,
            argument,
            misc: false,
            gated: false,
        }
    }

    const fn misc(mut self) -> Self {
        self.misc = true;
        self
    }

    const fn gated(mut self) -> Self {
        self.gated = true;
        self
    }

    /// The second parameter of the system call.
    #[must_use]
    pub const fn request(&self) -> u32 {
        // CAST: widening.
        (self.direction as u32) << 30
            | (self.encoded_size as u32) << 16
            | (MAGIC as u32) << 8
            | self.number as u32
    }

    /// The fields of the argument that are addresses of this process.
    #[must_use]
    pub fn pointers(&self) -> &'static [Indirect] {
        match self.argument {
            Argument::Struct(layout) => indirect::of(layout),
            _ => &[],
        }
    }

    /// The row of this request, if it is one.
    #[must_use]
    pub fn from_request(request: u32) -> Option<&'static Self> {
        ALL.iter().find(|ioctl| ioctl.request() == request)
    }
}

impl fmt::Debug for Ioctl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ioctl({} {:#010x})", self.name, self.request())
    }
}

impl fmt::Display for Ioctl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
