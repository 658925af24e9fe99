//! Instance types that the simulated machine can be shaped after.
//!
//! Named by `NEURON_RT_FAKE_INSTANCE_TYPE` or [`Builder::simulated_instance`](crate::Builder::simulated_instance). What an
//! instance gives is the generation, the number of devices, and the physical cores of each; how much memory a core has stays
//! a setting of its own, since nobody wants to simulate terabytes. Spec: `env.md` section 3.
//!
//! | names | generation | devices | physical cores of each |
//! |---|---|---|---|
//! | `inf2.xlarge`, `inf2.8xlarge` | 2 | 1 | 2 |
//! | `inf2.24xlarge` | 2 | 6 | 2 |
//! | `inf2.48xlarge` | 2 | 12 | 2 |
//! | `trn1.2xlarge` | 2 | 1 | 2 |
//! | `trn1.32xlarge`, `trn1n.32xlarge` | 2 | 16 | 2 |
//! | `trn2.3xlarge` | 3 | 1 | 8 |
//! | `trn2.48xlarge`, `trn2u.48xlarge` | 3 | 16 | 8 |

use core::fmt;

/// The shape of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Instance {
    name: &'static str,
    arch: u8,
    devices: u32,
    tpbs_per_device: u32,
}

/// Every instance that is known.
const INSTANCES: &[Instance] = &[
    Instance::new("inf2.xlarge", 2, 1, 2),
    Instance::new("inf2.8xlarge", 2, 1, 2),
    Instance::new("inf2.24xlarge", 2, 6, 2),
    Instance::new("inf2.48xlarge", 2, 12, 2),
    Instance::new("trn1.2xlarge", 2, 1, 2),
    Instance::new("trn1.32xlarge", 2, 16, 2),
    Instance::new("trn1n.32xlarge", 2, 16, 2),
    Instance::new("trn2.3xlarge", 3, 1, 8),
    Instance::new("trn2.48xlarge", 3, 16, 8),
    Instance::new("trn2u.48xlarge", 3, 16, 8),
];

impl Instance {
    const fn new(name: &'static str, arch: u8, devices: u32, tpbs_per_device: u32) -> Self {
        Self {
            name,
            arch,
            devices,
            tpbs_per_device,
        }
    }

    /// The instance with this name, in any case, if it is known.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        INSTANCES
            .iter()
            .find(|instance| instance.name.eq_ignore_ascii_case(name))
    }

    /// All that are known.
    #[must_use]
    pub fn all() -> &'static [Self] {
        INSTANCES
    }

    /// Such as `trn2.48xlarge`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Generation of the cores, 2 or 3.
    #[must_use]
    pub fn arch(&self) -> u8 {
        self.arch
    }

    /// Number of devices.
    #[must_use]
    pub fn devices(&self) -> u32 {
        self.devices
    }

    /// Physical cores of each device.
    #[must_use]
    pub fn tpbs_per_device(&self) -> u32 {
        self.tpbs_per_device
    }

    /// Physical cores of all devices.
    #[must_use]
    pub fn tpbs(&self) -> u32 {
        self.devices * self.tpbs_per_device
    }
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
