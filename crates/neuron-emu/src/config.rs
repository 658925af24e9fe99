//! What is emulated: read by [`Emulator::start`](crate::Emulator::start), checked once.

mod faults;
mod identity;
mod waits;

pub use faults::{DriverFault, DriverRule, RuleError};
pub use identity::Identity;
pub use waits::Waits;

use std::ops::RangeInclusive;
use xu_abi::driver::unverified::EMULATED_HOST_CHUNKS;
use xu_abi::driver::{Arch, MAX_PROCESSES, PAGE};
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
    /// Bytes of the largest host chunk: as much as the kernel has in one piece. 4 MiB without an IOMMU, typically. Spec
    /// `driver.md` section 8.
    pub host_chunk_bytes: u64,
    /// Processes that can be attached to a device, 1 to 16.
    pub processes: u32,
    /// Decides in which order engines step.
    pub seed: u64,
    /// What goes wrong with the hardware.
    pub faults: FaultPlan,
    /// What goes wrong in the driver: each rule is asked by itself.
    pub driver_faults: Vec<DriverRule>,
    /// What driver and devices say they are.
    pub identity: Identity,
    /// How long calls wait.
    pub waits: Waits,
    /// Entries that the trace keeps; older ones are dropped.
    pub trace_entries: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            arch: Arch::V2,
            devices: 1,
            hbm_bytes: 1 << 30,
            host_bytes: 256 << 20,
            host_chunk_bytes: 4 << 20,
            processes: MAX_PROCESSES,
            seed: 0,
            faults: FaultPlan::default(),
            driver_faults: Vec::new(),
            identity: Identity::default(),
            waits: Waits::default(),
            trace_entries: 1 << 16,
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

/// Most devices.
const MAX_DEVICES: u32 = 16;
/// Least memory, of each kind, that anything can be done with.
const LEAST_BYTES: u64 = 1 << 20;
/// Most host memory.
const MOST_HOST_BYTES: u64 = 64 << 30;

impl Config {
    /// Whether this can be emulated.
    ///
    /// # Errors
    /// [`ConfigError`] names the first value that cannot.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        within("devices", self.devices, 1..=MAX_DEVICES, "1 to 16")?;
        within("processes", self.processes, 1..=MAX_PROCESSES, "1 to 16")?;
        within(
            "hbm_bytes",
            self.hbm_bytes,
            LEAST_BYTES..=self.arch.table().hbm_bytes,
            "1 MiB to the HBM of the architecture, 16 or 24 GiB",
        )?;
        within(
            "host_bytes",
            self.host_bytes,
            LEAST_BYTES..=MOST_HOST_BYTES,
            "1 MiB to 64 GiB",
        )?;
        within(
            "host_chunk_bytes",
            self.host_chunk_bytes,
            PAGE..=MOST_HOST_BYTES,
            "4 KiB to 64 GiB",
        )
    }

    /// Where DMA engines see the host memory of a device. It is one for all devices: each has its own part of it.
    pub(crate) fn host_base(&self, device: u32) -> u64 {
        self.arch.table().host_bit + EMULATED_HOST_CHUNKS + u64::from(device) * self.host_bytes
    }
}

fn within<N: PartialOrd + ToString>(
    what: &'static str,
    value: N,
    range: RangeInclusive<N>,
    allowed: &'static str,
) -> Result<(), ConfigError> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(ConfigError {
        what,
        value: value.to_string(),
        allowed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_can_be_and_each_limit_is_named() {
        assert_eq!(Config::default().check(), Ok(()));
        let refused = |change: fn(&mut Config)| {
            let mut config = Config::default();
            change(&mut config);
            config.check().unwrap_err().what
        };
        assert_eq!(refused(|c| c.devices = 0), "devices");
        assert_eq!(refused(|c| c.devices = 17), "devices");
        assert_eq!(refused(|c| c.processes = 17), "processes");
        assert_eq!(refused(|c| c.hbm_bytes = (16 << 30) + 1), "hbm_bytes");
        assert_eq!(refused(|c| c.host_bytes = 0), "host_bytes");
        assert_eq!(refused(|c| c.host_chunk_bytes = 0), "host_chunk_bytes");
    }
}
