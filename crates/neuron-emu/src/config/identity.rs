//! What driver and devices say they are, so that clients meet older, newer and poorer ones.

use xu_abi::driver::arch::Versions;
use xu_abi::driver::{Bdf, Features};

/// What driver and devices say they are. Spec `driver_emulation.md` section 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Interface versions; those of the architecture by default.
    pub versions: Option<Versions>,
    /// Revision of the PCI devices.
    pub revision: u32,
    /// Whether the driver knows DRIVER_INFO_GET.
    pub driver_info: bool,
    /// What it says it can do.
    pub features: Features,
    /// Where the first device is; the others have the buses that follow.
    pub bdf: Bdf,
}

impl Default for Identity {
    fn default() -> Self {
        Self {
            versions: None,
            revision: 0,
            driver_info: true,
            features: Features::from_raw(0xFF),
            bdf: Bdf {
                domain: 0,
                bus: 0x10,
                slot: 0,
                func: 0,
            },
        }
    }
}
