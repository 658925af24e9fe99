//! Resets of cores and of whole devices.
//!
//! Spec `driver.md` section 3, claiming cores.

use super::argument::arguments;

arguments! {
    /// Of NC_RESET.
    DeviceReset is "device_reset": 8 bytes, align 4 {
        /// → Bit for each core, or [`DeviceReset::WHOLE_DEVICE`].
        0 nc_map: u32,
        /// ← The caller's process id.
        4 request_id: u32,
    }

    /// Of NC_RESET_READY, which succeeds also when the reset has failed.
    DeviceReady is "device_ready": 8 bytes, align 4 {
        /// → From [`DeviceReset`].
        0 request_id: u32,
        /// ← 0, [`DeviceReady::FAILED`] or [`DeviceReady::INTERRUPTED`].
        4 result: i32,
    }
}

impl DeviceReset {
    /// Every core, and what belongs to none.
    pub const WHOLE_DEVICE: u32 = 0xFFFF_FFFF;
}

impl DeviceReady {
    /// The reset failed, or nobody knows the id.
    pub const FAILED: i32 = 1;
    /// The wait was interrupted.
    pub const INTERRUPTED: i32 = -4;
}
