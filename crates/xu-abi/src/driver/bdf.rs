//! Where a device is on the PCI bus.
//!
//! Asked for by clients, answered by whoever plays the driver. Spec `driver.md` section 3, DEVICE_BDF_EXT.

/// An address on the PCI bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bdf {
    /// The domain.
    pub domain: u32,
    /// The bus.
    pub bus: u32,
    /// The slot.
    pub slot: u8,
    /// The function.
    pub func: u8,
}

/// `0000:5e:00.0`, as in the names of the kernel.
impl core::fmt::Display for Bdf {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self {
            domain,
            bus,
            slot,
            func,
        } = self;
        write!(f, "{domain:04x}:{bus:02x}:{slot:02x}.{func:x}")
    }
}
