//! One device as the driver keeps it.
//!
//! Lock order: one lock of one device at a time, unless a field says otherwise. No lock is held while a call waits.

use super::memory::Chunks;
use super::notification::Notifications;
use super::rings::Rings;
use crate::chip::Chip;
use parking_lot::Mutex;

/// One device.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) index: u32,
    pub(super) chip: Chip,
    /// Before the lock of `chunks`.
    pub(super) rings: Mutex<Rings>,
    /// Before the lock of `chunks`.
    pub(super) notifications: Mutex<Notifications>,
    pub(super) chunks: Mutex<Chunks>,
}
