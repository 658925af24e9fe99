//! Where the real driver crashes the kernel or corrupts it: here it stops the device, loudly.
//!
//! Spec `driver.md` section 11. A handler gives a [`Bug`]; [`Device::stop`](super::device::Device::stop) does the rest.

use std::fmt;

/// A trap of `driver.md` section 11 that was stepped into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bug {
    /// Number of the trap.
    pub trap: u8,
    /// What was done, with the values.
    pub what: String,
}

impl fmt::Display for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel BUG: trap {}: {}", self.trap, self.what)
    }
}
