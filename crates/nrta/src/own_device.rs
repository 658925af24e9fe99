//! The device of a runtime: a machine or a chip of its own, or one that the caller brings and keeps.
//!
//! Opened by the [`builder`](crate::builder), closed by the [`runtime`](crate::runtime) when no request is left.
//!
//! ```text
//!   Builder::device  ── the caller's: goes on without us, so its cores must come to rest
//!   simulated        ── Machine::start: ends with its last handle; nothing of it was anybody else's
//!   real-driver      ── NeuronDevice::open: the cores are claimed; closed at once, so that they are free
//! ```
//!
//! **Ruling.** On the real driver cores are numbered as the driver numbers them for its claims: device by device in the
//! order of their indices, and those of each device from 0. One runtime drives one device. When nobody says which
//! cores, it takes the lowest of one device that are free side by side, and when nobody says how many either, where all are
//! meant, those of one device.

use crate::builder::Builder;
use crate::error::Error;
use crate::settings::{Backend, Settings};
use core::fmt;
use std::sync::Arc;
use xu_device::Device;
#[cfg(feature = "simulated")]
use xu_device::simulated::{Injection, Machine};

#[cfg(feature = "real-driver")]
mod chip;
#[cfg(feature = "simulated")]
mod machine;

/// A device, and whose it is.
pub(crate) enum OwnDevice {
    /// The caller's.
    Callers(Arc<dyn Device>),
    /// A simulated machine of ours.
    #[cfg(feature = "simulated")]
    Machine(Arc<Machine>),
    /// Cores of a chip that we have claimed.
    #[cfg(feature = "real-driver")]
    Chip(Arc<xu_device::neuron::NeuronDevice>),
}

/// A device that is open, and its physical core that is the first of ours.
pub(crate) struct Open {
    pub(crate) device: OwnDevice,
    pub(crate) first_tpb: u16,
}

/// What a host has, before anything of it is claimed.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) arch: u8,
    /// Indices, in order. At least one.
    pub(crate) devices: Vec<u32>,
    pub(crate) tpbs_per_device: u32,
}

impl Found {
    /// Physical cores of all devices.
    pub(crate) fn tpbs(&self) -> u32 {
        // CAST: at most 64.
        self.devices.len() as u32 * self.tpbs_per_device
    }
}

impl OwnDevice {
    pub(crate) fn device(&self) -> Arc<dyn Device> {
        match self {
            Self::Callers(device) => Arc::clone(device),
            #[cfg(feature = "simulated")]
            Self::Machine(machine) => Arc::clone(machine) as _,
            #[cfg(feature = "real-driver")]
            Self::Chip(chip) => Arc::clone(chip) as _,
        }
    }

    /// Whether it goes on when the runtime is closed.
    pub(crate) fn outlives_us(&self) -> bool {
        matches!(self, Self::Callers(_))
    }

    /// Gives it back, with no request left. Handles that outlive the runtime find it gone.
    pub(crate) fn close(&self) {
        match self {
            // A machine ends with its last handle: its memory is ours alone.
            Self::Callers(_) => {}
            #[cfg(feature = "simulated")]
            Self::Machine(_) => {}
            #[cfg(feature = "real-driver")]
            Self::Chip(chip) => chip.close(),
        }
    }

    /// What has been injected into a machine of ours.
    #[cfg(feature = "simulated")]
    pub(crate) fn injected(&self) -> Vec<Injection> {
        match self {
            Self::Machine(machine) => machine.injected(),
            _ => Vec::new(),
        }
    }
}

impl fmt::Debug for OwnDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.device().fmt(f)
    }
}

impl Builder {
    /// What the host has, where there is a choice; nothing is opened for longer than that takes.
    ///
    /// # Errors
    /// [`Error::Backend`], [`Error::Driver`].
    pub(crate) fn look(&self, settings: &Lookup<'_>) -> Result<Option<Found>, Error> {
        match settings.backend {
            _ if self.device.is_some() => Ok(None),
            Backend::Simulated if cfg!(feature = "simulated") => Ok(None),
            #[cfg(feature = "real-driver")]
            Backend::RealDriver => chip::look(settings.directory).map(Some),
            backend => Err(Error::Backend { backend }),
        }
    }

    /// Opens the device that the settings name. Where cores are claimed and nobody said which, it notes the first in them.
    pub(crate) fn open_device(&self, settings: &mut Settings) -> Result<Open, Error> {
        let first = settings.first_core.value * settings.tpbs_per_core.value;
        // CAST: cores of a machine or of a device that is the caller's are numbered with 16 bits.
        let first_tpb = first as u16;
        if let Some(device) = &self.device {
            let device = OwnDevice::Callers(Arc::clone(device));
            return Ok(Open { device, first_tpb });
        }
        match settings.backend.value {
            #[cfg(feature = "simulated")]
            Backend::Simulated => {
                let machine = machine::start(settings, self.arch(None))?;
                let device = OwnDevice::Machine(machine);
                Ok(Open { device, first_tpb })
            }
            #[cfg(feature = "real-driver")]
            Backend::RealDriver => chip::open(settings, self.first_core.said().is_some()),
            #[cfg(not(all(feature = "simulated", feature = "real-driver")))]
            backend => Err(Error::Backend { backend }),
        }
    }
}

/// Where to look.
pub(crate) struct Lookup<'s> {
    pub(crate) backend: Backend,
    #[cfg_attr(
        not(feature = "real-driver"),
        allow(dead_code, reason = "of the real driver")
    )]
    pub(crate) directory: &'s std::path::Path,
}

#[cfg(all(test, not(feature = "simulated")))]
mod tests {
    use super::*;
    use crate::Runtime;

    /// Checked in builds without it: there is no other way to have it missing.
    #[test]
    fn a_backend_that_is_not_compiled_in_is_an_error_that_says_so() {
        let error = Runtime::builder().settings().unwrap_err();
        let backend = Backend::Simulated;
        assert!(matches!(&error, Error::Backend { backend: missing } if *missing == backend));
        assert_eq!(
            error.to_string(),
            "the backend simulated is not compiled in: the feature `simulated` of the crate nrta has it"
        );
    }
}
