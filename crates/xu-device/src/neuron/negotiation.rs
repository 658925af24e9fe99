//! The first questions to a driver: its interface version, then what device and what features.
//!
//! Asked by [`super::Node`] and [`super::Claims`] right after an open. Failure kind S2: a driver outside the supported
//! range is refused with both ranges in the message, and asked nothing else.
//!
//! **Ruling.** The numbers of v2 and v3 drivers do not overlap (5 to 7, 10 to 11), and the version is asked before the
//! architecture. So a driver is spoken to in the highest version of either range that it has, and refused afterwards
//! when the device is not of the architecture whose range that is.

use super::answers::Severity;
use super::error::DriverError;
use xu_abi::driver::arch::Versions;
use xu_abi::driver::{
    Arch, ArchTable, Bdf, CompatibleVersion, DeviceBasicInfo, DeviceBdfExt, DeviceDriverInfo,
    Features, Ioctl, ioctl,
};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The interface version that is spoken.
    pub version: u32,
    /// The architecture.
    pub arch: Arch,
    /// Of the PCI device; 240 is a hardware emulator, 255 is QEMU.
    pub revision: u32,
    /// What the driver can do.
    pub features: Features,
    /// Where the device is on the PCI bus.
    pub bdf: Bdf,
}

/// Whoever can be asked without pointers.
pub(super) trait Asked {
    /// Makes the call.
    fn ask<A>(&self, ioctl: &'static Ioctl, argument: &mut A) -> Result<(), DriverError>
    where
        A: Copy + FromBytes + IntoBytes + Immutable;
}

/// The versions that this library speaks.
#[must_use]
pub fn spoken() -> Vec<Versions> {
    Arch::ALL.iter().map(|arch| arch.table().versions).collect()
}

impl Identity {
    /// Asks everything, the version first.
    pub(super) fn ask(node: &impl Asked) -> Result<Self, DriverError> {
        let version = version(node)?;
        let mut basic = DeviceBasicInfo::ZEROED;
        node.ask(&ioctl::DEVICE_BASIC_INFO, &mut basic)?;
        let arch = Arch::from_raw(basic.architecture).ok_or(DriverError::Architecture {
            architecture: basic.architecture,
        })?;
        let versions = arch.table().versions;
        if !(versions.min..=versions.max).contains(&version) {
            return Err(DriverError::Version {
                driver: Versions {
                    min: version,
                    max: version,
                },
                ours: vec![versions],
            });
        }
        Ok(Self {
            version,
            arch,
            revision: basic.revision,
            features: features(node)?,
            bdf: bdf(node)?,
        })
    }

    /// What the architecture consists of.
    #[must_use]
    pub fn table(&self) -> &'static ArchTable {
        self.arch.table()
    }

    /// Cores of the device.
    #[must_use]
    pub fn cores(&self) -> u8 {
        self.table().cores
    }
}

/// The highest version that both speak.
fn version(node: &impl Asked) -> Result<u32, DriverError> {
    let mut asked = CompatibleVersion::ZEROED;
    node.ask(&ioctl::COMPATIBLE_VERSION, &mut asked)?;
    let driver = Versions {
        min: asked.min,
        max: asked.max,
    };
    let common = |ours: Versions| {
        let highest = ours.max.min(driver.max);
        (highest >= ours.min.max(driver.min)).then_some(highest)
    };
    let ours = spoken();
    ours.iter()
        .filter_map(|range| common(*range))
        .max()
        .ok_or(DriverError::Version { driver, ours })
}

/// None when the driver cannot be asked: older ones have no such call.
fn features(node: &impl Asked) -> Result<Features, DriverError> {
    let mut info = DeviceDriverInfo::ZEROED;
    match node.ask(&ioctl::DRIVER_INFO_GET, &mut info) {
        Ok(()) => Ok(Features::from_raw(info.feature_flags1)),
        Err(error) if error.severity() == Severity::Device => Err(error),
        Err(DriverError::Answered { .. }) => Ok(Features::NONE),
        Err(error) => Err(error),
    }
}

fn bdf(node: &impl Asked) -> Result<Bdf, DriverError> {
    // Index 0 is the device that is asked, whose own index is below 64.
    let mut asked = DeviceBdfExt::ZEROED;
    node.ask(&ioctl::DEVICE_BDF_EXT, &mut asked)?;
    Ok(Bdf {
        domain: asked.domain,
        bus: asked.bus,
        slot: asked.slot,
        func: asked.func,
    })
}
