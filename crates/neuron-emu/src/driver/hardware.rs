//! What the hardware of an emulator has done, for whoever tests with it.

use super::Emulator;
use xu_device::MemoryErrors;

impl Emulator {
    /// Uncorrectable memory errors that all cores of a device have counted: what the firmware reports in sysfs.
    #[must_use]
    pub fn memory_errors(&self, node: u32) -> MemoryErrors {
        let cores = 0..self.config().arch.table().cores;
        // CAST: widening.
        let Some(device) = self.devices.get(node as usize) else {
            return MemoryErrors::default();
        };
        cores.map(|core| device.chip.memory_errors(core)).fold(
            MemoryErrors::default(),
            |sum, errors| MemoryErrors {
                sram: sum.sram + errors.sram,
                hbm: sum.hbm + errors.hbm,
                hbm_repairable: sum.hbm_repairable + errors.hbm_repairable,
            },
        )
    }
}
