//! What the hardware of an emulator has done, for whoever tests with it.

use super::Emulator;
use super::device::Device;
use xu_device::MemoryErrors;
use xu_device::simulated::Injection;

impl Emulator {
    /// Uncorrectable memory errors that all cores of a device have counted: what the firmware reports in sysfs.
    #[must_use]
    pub fn memory_errors(&self, node: u32) -> MemoryErrors {
        // CAST: widening.
        let device = self.devices.get(node as usize);
        device.map_or_else(MemoryErrors::default, Device::memory_errors)
    }

    /// Which faults of the hardware's plan have happened on a device, the oldest first; none for a device that is not there.
    #[must_use]
    pub fn injected(&self, node: u32) -> Vec<Injection> {
        // CAST: widening.
        let device = self.devices.get(node as usize);
        device.map_or_else(Vec::new, |device| device.chip.injected())
    }
}
