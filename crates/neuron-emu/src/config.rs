//! What is emulated: read by [`Emulator::start`](crate::Emulator::start), checked once.

use xu_abi::driver::Arch;
use xu_device::simulated::FaultPlan;

/// What is emulated.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The architecture of all devices.
    pub arch: Arch,
    /// Number of devices, 1 to 16: `neuron0`, ...
    pub devices: u32,
    /// Usable bytes of each HBM.
    pub hbm_bytes: u64,
    /// Host memory that chunks are made of, bytes, for each device.
    pub host_bytes: u64,
    /// Processes that can be attached to a device.
    pub processes: u32,
    /// Decides in which order engines step.
    pub seed: u64,
    /// What goes wrong with the hardware.
    pub faults: FaultPlan,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            arch: Arch::V2,
            devices: 1,
            hbm_bytes: 1 << 30,
            host_bytes: 256 << 20,
            processes: 16,
            seed: 0,
            faults: FaultPlan::default(),
        }
    }
}

/// A configuration that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {value} is not allowed ({allowed})")]
pub struct ConfigError {
    /// Which value.
    pub what: &'static str,
    /// The value.
    pub value: String,
    /// What would be accepted.
    pub allowed: &'static str,
}
