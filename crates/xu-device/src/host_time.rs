//! The host's monotonic clock as a number, for every device of the process alike.
//!
//! Read by the backends behind [`Device::now_ns`](crate::Device::now_ns), and by whoever compares its own times with theirs.

use std::sync::OnceLock;
use std::time::Instant;

/// Monotonic nanoseconds since a moment that is fixed once per process.
///
/// An [`Instant`] has no absolute value, so devices count from the first call of this function in the
/// process. Times of two devices, and of a client that uses this function, therefore compare.
#[must_use]
pub fn host_ns() -> u64 {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    let epoch = EPOCH.get_or_init(Instant::now);
    // 64 bits of nanoseconds last 584 years.
    u64::try_from(epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
