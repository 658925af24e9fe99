//! Names of things on the device: addresses, engines, cores, semaphores, events.
//!
//! Used by the stager, the harvester and every backend. Spec `xu.md` section 5, `driver.md` section 7.

use crate::range::OutOfRange;
use core::fmt;

/// An address in the device's physical address space, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct DeviceAddr(u64);

impl DeviceAddr {
    /// The address with these bits.
    #[must_use]
    pub const fn new(raw: u64) -> Self {
        Self(raw)
    }

    /// The bits.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The address `bytes` further, unless that leaves the 64-bit space.
    #[must_use]
    pub const fn checked_add(self, bytes: u64) -> Option<Self> {
        match self.0.checked_add(bytes) {
            Some(raw) => Some(Self(raw)),
            None => None,
        }
    }
}

impl fmt::Debug for DeviceAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceAddr({:#x})", self.0)
    }
}

impl fmt::Display for DeviceAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// One of the five engines of a core, in the order of every table that has five entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Engine {
    /// Matrix multiplication.
    Pe = 0,
    /// Activations.
    Act = 1,
    /// Reductions.
    Pool = 2,
    /// Elementwise.
    Dve = 3,
    /// Synchronisation.
    Sp = 4,
}

impl Engine {
    /// All five, in order.
    pub const ALL: [Self; 5] = [Self::Pe, Self::Act, Self::Pool, Self::Dve, Self::Sp];

    /// The engine with this position.
    #[must_use]
    pub const fn from_index(index: usize) -> Option<Self> {
        if index < Self::ALL.len() {
            Some(Self::ALL[index])
        } else {
            None
        }
    }

    /// Position in five-entry tables.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The notification queue on which this engine reports (4 to 8).
    #[must_use]
    pub const fn status_nq(self) -> u8 {
        FIRST_STATUS_NQ + self as u8
    }

    /// The engine that reports on this notification queue, if one does.
    #[must_use]
    pub const fn from_status_nq(nq: u8) -> Option<Self> {
        match nq.checked_sub(FIRST_STATUS_NQ) {
            // CAST: widening.
            Some(index) => Self::from_index(index as usize),
            None => None,
        }
    }

    /// The name used in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pe => "PE",
            Self::Act => "ACT",
            Self::Pool => "POOL",
            Self::Dve => "DVE",
            Self::Sp => "SP",
        }
    }
}

impl TryFrom<usize> for Engine {
    type Error = OutOfRange;

    fn try_from(index: usize) -> Result<Self, OutOfRange> {
        Self::from_index(index).ok_or(OutOfRange {
            what: "index of an engine",
            // CAST: widening on every target that has these layouts.
            value: index as u64,
            allowed: "0 to 4",
        })
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The notification queue of device errors.
pub const ERROR_NQ: u8 = 2;

/// The notification queue of the first engine; the others follow in order.
pub const FIRST_STATUS_NQ: u8 = 4;

macro_rules! index {
    ($(#[$doc:meta])* $name:ident($raw:ty), $what:literal, $allowed:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name($raw);

        impl $name {
            /// The index with this value.
            #[must_use]
            pub const fn new(raw: $raw) -> Self {
                Self(raw)
            }

            /// The value.
            #[must_use]
            pub const fn get(self) -> $raw {
                self.0
            }
        }

        /// Checks instead of truncating, as the driver does: index 65,536 is not index 0.
        impl TryFrom<u64> for $name {
            type Error = OutOfRange;

            fn try_from(raw: u64) -> Result<Self, OutOfRange> {
                match raw.try_into() {
                    Ok(index) => Ok(Self(index)),
                    Err(_) => Err(OutOfRange {
                        what: $what,
                        value: raw,
                        allowed: $allowed,
                    }),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

index! {
    /// One of a core's 256 counting semaphores.
    SemIndex(u8), "index of a semaphore", "0 to 255"
}
index! {
    /// One of a core's 256 one-bit events.
    EventIndex(u8), "index of an event", "0 to 255"
}
index! {
    /// A physical core (TPB) of the machine.
    TpbIndex(u16), "index of a physical core", "0 to 65535"
}
