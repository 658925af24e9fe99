//! Where the real driver crashes the kernel or corrupts it: here it stops the device, loudly.
//!
//! Spec `driver.md` section 11.

/// A trap of `driver.md` section 11 that was stepped into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bug {
    /// Number of the trap.
    pub trap: u8,
    /// What was done, with the values.
    pub what: String,
}
