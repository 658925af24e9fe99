//! Cores of a chip behind the kernel driver.

use super::{Found, Open, OwnDevice};
use crate::claims::{Busy, Holder};
use crate::error::Error;
use crate::settings::Settings;
use std::path::Path;
use std::sync::Arc;
use xu_device::neuron::{self, DriverError, Kernel, NeuronDevice, Options, System};

/// What the host has.
pub(super) fn look(directory: &Path) -> Result<Found, Error> {
    let found = neuron::survey(&system(), directory)?;
    Ok(Found {
        // CAST: 2 or 3.
        arch: found.identity.arch.raw() as u8,
        tpbs_per_device: found.identity.cores().into(),
        devices: found.devices,
    })
}

/// Claims and opens the cores of the settings; when it was not said which, the lowest that are free, noted in the settings.
pub(super) fn open(settings: &mut Settings, is_said: bool) -> Result<Open, Error> {
    let host = Host::of(settings)?;
    let wanted = settings.cores.value;
    let mut first = settings.first_core.value;
    let mut refusal = None;
    loop {
        let at = host.device(first);
        let is_inside = first % host.cores_per_device + wanted <= host.cores_per_device;
        let Some(device) = at.filter(|_| is_inside || is_said) else {
            // There is one: the settings are such that the first cores of all fit.
            return Err(refusal.unwrap_or(Error::Closed));
        };
        match host.open(settings, device, first) {
            Ok(open) => {
                settings.first_core.value = first;
                return Ok(open);
            }
            Err(DriverError::CoreTaken {
                core,
                free,
                attached,
            }) => {
                let core = host.logical(core);
                let busy = host.busy(settings, first, core, free, attached);
                if is_said {
                    return Err(busy);
                }
                refusal.get_or_insert(busy);
                first = host.next(core.max(first), wanted);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn system() -> Arc<dyn Kernel> {
    Arc::new(System)
}

/// The logical cores of a host.
struct Host {
    found: Found,
    tpbs_per_core: u32,
    cores_per_device: u32,
}

impl Host {
    fn of(settings: &Settings) -> Result<Self, Error> {
        let found = look(&settings.device_directory.value)?;
        let tpbs_per_core = settings.tpbs_per_core.value;
        Ok(Self {
            // 1 at least: a device has two physical cores or more, and a logical one has two at most.
            cores_per_device: (found.tpbs_per_device / tpbs_per_core).max(1),
            tpbs_per_core,
            found,
        })
    }

    /// The index of the device of a core.
    fn device(&self, core: u32) -> Option<u32> {
        let position = core / self.cores_per_device;
        // CAST: widening.
        self.found.devices.get(position as usize).copied()
    }

    /// The logical core of a physical one, as the driver numbers those: there may be gaps between devices.
    fn logical(&self, tpb: u32) -> u32 {
        let per_device = self.found.tpbs_per_device.max(1);
        let device = tpb / per_device;
        let position = self.found.devices.iter().position(|known| *known == device);
        // CAST: at most 64 devices. A core of another device than was asked for cannot be in the way.
        let position = position.unwrap_or_default() as u32;
        position * self.cores_per_device + tpb % per_device / self.tpbs_per_core
    }

    /// Where to try next when `taken` is in the way.
    fn next(&self, taken: u32, wanted: u32) -> u32 {
        let next = taken + 1;
        let left = self.cores_per_device - next % self.cores_per_device;
        if wanted <= left { next } else { next + left }
    }

    fn open(&self, settings: &Settings, device: u32, first: u32) -> Result<Open, DriverError> {
        let local = first % self.cores_per_device * self.tpbs_per_core;
        let end = local + settings.cores.value * self.tpbs_per_core;
        // Beyond 255 there is no core either, and it is refused.
        let [start, end] = [local, end].map(|core| u8::try_from(core).unwrap_or(u8::MAX));
        let options = Options {
            directory: settings.device_directory.value.clone(),
            sysfs: settings.sysfs.value.clone(),
            device,
            cores: Some(start..end),
            hbm_bytes: None,
        };
        let chip = NeuronDevice::open(&system(), &options)?;
        Ok(Open {
            device: OwnDevice::Chip(chip),
            first_tpb: start.into(),
        })
    }

    fn busy(
        &self,
        settings: &Settings,
        first: u32,
        core: u32,
        free: u32,
        attached: Vec<u32>,
    ) -> Error {
        let pid = match attached[..] {
            [pid] => Some(pid),
            _ => None,
        };
        Error::Busy(Box::new(Busy {
            first,
            last: first + settings.cores.value.saturating_sub(1),
            available: free / self.tpbs_per_core,
            core,
            machine_cores: self.found.tpbs() / self.tpbs_per_core,
            holder: pid.map(|pid| Holder {
                pid: Some(pid),
                about: None,
            }),
            candidates: attached,
        }))
    }
}
