//! What this crate says to the application's [`tracing`] subscriber.

use xu_device::DeviceError;

/// Memory is exhausted, if that is what failed.
pub(crate) fn out_of_memory(error: &DeviceError) {
    if matches!(error, DeviceError::OutOfMemory { .. }) {
        tracing::warn!(target: "nrta::memory", "{error}");
    }
}
