//! Who wins, and whether the whole fits: from what was said to [`Settings`].
//!
//! ```text
//!   instance ─▶ generation, devices, physical cores of the machine
//!                     '─▶ physical cores of each logical one ─▶ how many logical cores there are
//!                                                                     '─▶ which of them are ours
//! ```
//!
//! A value that does not fit is refused by the name under which it was given: that of the variable, or of the builder's
//! method.

use super::{Backend, NumericalErrors, Origin, Setting, Settings};
use crate::builder::Builder;
use crate::error::Error;
use crate::own_device::{Found, Lookup};
use core::time::Duration;
#[cfg(feature = "simulated")]
use xu_device::simulated::MachineConfig;
use xu_worker::{CloseOptions, PollPolicy};

/// Cores of a machine that processes share, or that the environment is asked for, and of which nobody says how large it is.
const SMALL_MACHINE: u32 = 2;
/// Most physical cores of a simulated machine.
pub(crate) const MAX_TPBS: u32 = 256;
/// Most logical cores of a runtime.
const MAX_CORES: u32 = 256;
/// Most requests that a compute queue can be made to take.
const MAX_COMPUTE_LIMIT: u64 = 63;
/// Generation of a machine of which nobody says which.
const DEFAULT_ARCH: u8 = 2;
/// Memory of a simulated core, bytes: 1 MiB to 4 GiB.
#[cfg(feature = "simulated")]
const HBM_BYTES: core::ops::RangeInclusive<u64> = 1 << 20..=4 << 30;
/// Closing says what it waits for no more often than this.
const LEAST_WARN_EVERY: Duration = Duration::from_millis(1);
/// Limit for one execution, unless something else is said.
const EXEC_TIMEOUT: Duration = Duration::from_secs(30);
/// Requests of a compute queue, unless something else is said.
const COMPUTE_LIMIT: u64 = 8;

impl Builder {
    /// What [`open`](Self::open) would open, and where each value comes from.
    ///
    /// Where processes share a host ([`simulated_host`](Self::simulated_host)) and nobody says which cores,
    /// [`Settings::first_core`] is known only when they are claimed: here it is 0.
    ///
    /// # Errors
    /// [`Error::Config`] or [`Error::Variable`] for a value that is not allowed, or does not fit the others;
    /// [`Error::Backend`]; with the real driver [`Error::Driver`], as the first node is opened and asked what the host has.
    pub fn settings(&self) -> Result<Settings, Error> {
        let backend = self.backend.or(Backend::default());
        let device_directory = self.device_directory.or("/dev".into());
        let found = self.look(&Lookup {
            backend: backend.value,
            directory: &device_directory.value,
        })?;
        let found = found.as_ref();
        if let Some(cores) = self.cores.told() {
            let is_good = (1..=MAX_CORES).contains(cores);
            check("cores", &wide(&self.cores.or(0)), is_good, "1 to 256")?;
        }
        let tpbs_per_core = self.settle_tpbs_per_core(found)?;
        let (devices, tpbs) = self.settle_machine(found, tpbs_per_core.value)?;
        let total = tpbs.value / tpbs_per_core.value;
        let (first_core, cores) = self.settle_cores(found, total)?;
        let compute_limit = self.compute_limit.or(COMPUTE_LIMIT);
        check(
            "compute_limit",
            &compute_limit,
            (1..=MAX_COMPUTE_LIMIT).contains(&compute_limit.value),
            "1 to 63",
        )?;
        let exec_timeout = self.exec_timeout.or(Some(EXEC_TIMEOUT));
        if exec_timeout.value == Some(Duration::ZERO) {
            return Err(Error::Config {
                what: "exec_timeout",
                value: 0,
                allowed: "more than 0, or None for no limit".to_owned(),
            });
        }
        let close_warn_every = self.settle_close_warn_every()?;
        let hbm_bytes = match (&self.device, found) {
            (Some(_), _) => not_ours(None),
            (None, Some(_)) => of_driver(None),
            (None, None) => self.settle_hbm_bytes()?,
        };
        Ok(Settings {
            backend,
            device_directory,
            sysfs: self.sysfs.or("/sys".into()),
            instance: self.instance.or(None),
            devices,
            tpbs,
            hbm_bytes,
            seed: self.seed.or(0),
            #[cfg(feature = "simulated")]
            faults: self.faults.or(Default::default()),
            host: self.host.or(None),
            tpbs_per_core,
            first_core,
            cores,
            compute_limit,
            exec_timeout,
            poll_policy: self.poll_policy.or(PollPolicy::default()),
            skip_config: self.skip_config.or(Default::default()),
            numerical_errors: self.numerical_errors.or(NumericalErrors::default()),
            log_out_of_memory: self.log_out_of_memory.or(true),
            worker_cpus: self.worker_cpus.or(None),
            close_warn_every,
            process_tag: self.process_tag.or(std::process::id().to_string()),
        })
    }

    /// Generation of the machine's cores.
    pub(crate) fn arch(&self, found: Option<&Found>) -> u8 {
        match (&self.device, found, self.instance.or(None).value) {
            (Some(device), _, _) => device.shape().arch,
            (None, Some(found), _) => found.arch,
            (None, None, Some(instance)) => instance.arch(),
            (None, None, None) => DEFAULT_ARCH,
        }
    }

    /// Without the simulated machine there is nothing to settle.
    #[cfg(not(feature = "simulated"))]
    fn settle_hbm_bytes(&self) -> Result<Setting<Option<u64>>, Error> {
        Ok(self.hbm_bytes.or(0).map(Some))
    }

    #[cfg(feature = "simulated")]
    fn settle_hbm_bytes(&self) -> Result<Setting<Option<u64>>, Error> {
        let bytes = self.hbm_bytes.or(MachineConfig::default().hbm_bytes);
        let is_good = HBM_BYTES.contains(&bytes.value);
        let allowed = "1048576 to 4294967296, which are 1 MiB to 4 GiB";
        check("simulated_hbm_bytes", &bytes, is_good, allowed)?;
        Ok(bytes.map(Some))
    }

    fn settle_close_warn_every(&self) -> Result<Setting<Duration>, Error> {
        let every = self.close_warn_every.or(CloseOptions::default().warn_every);
        if every.value < LEAST_WARN_EVERY {
            return Err(Error::Config {
                what: "nanoseconds of close_warn_every",
                // CAST: less than a million.
                value: every.value.as_nanos() as u64,
                allowed: "at least 1000000, a millisecond".to_owned(),
            });
        }
        Ok(every)
    }

    /// Two where cores are made to be used in pairs, which is from the third generation on.
    fn settle_tpbs_per_core(&self, found: Option<&Found>) -> Result<Setting<u32>, Error> {
        let default = if self.arch(found) >= 3 { 2 } else { 1 };
        let chosen = self.tpbs_per_core.or(default);
        let is_good = (1..=2).contains(&chosen.value);
        check("tpbs_per_core", &wide(&chosen), is_good, "1 or 2")?;
        Ok(chosen)
    }

    /// Devices of the machine, and physical cores of all of them.
    fn settle_machine(
        &self,
        found: Option<&Found>,
        tpbs_per_core: u32,
    ) -> Result<(Setting<u32>, Setting<u32>), Error> {
        if let Some(device) = &self.device {
            return Ok((not_ours(1), not_ours(device.shape().tpbs.into())));
        }
        if let Some(found) = found {
            // CAST: at most 64.
            let devices = found.devices.len() as u32;
            return Ok((of_driver(devices), of_driver(found.tpbs())));
        }
        let instance = self.instance.said();
        let like = |of: fn(&crate::Instance) -> u32| match &instance {
            Some(Setting {
                value: Some(instance),
                origin,
            }) => Some(Setting {
                value: of(instance),
                origin: origin.clone(),
            }),
            _ => None,
        };
        let tpbs = self.tpbs.said().or_else(|| like(crate::Instance::tpbs));
        let tpbs = tpbs.unwrap_or_else(|| Setting {
            value: self.needed_tpbs(tpbs_per_core),
            origin: Origin::Default,
        });
        let is_good = (1..=MAX_TPBS).contains(&tpbs.value);
        check("simulated_tpbs", &wide(&tpbs), is_good, "1 to 256")?;
        let is_one_core = tpbs.value >= tpbs_per_core;
        let allowed = "at least 2, for one logical core of two physical ones";
        check("simulated_tpbs", &wide(&tpbs), is_one_core, allowed)?;
        let divides = |devices: u32| devices > 0 && tpbs.value.is_multiple_of(devices);
        let devices = self
            .devices
            .said()
            .or_else(|| like(crate::Instance::devices).filter(|devices| divides(devices.value)));
        let devices = devices.unwrap_or(Setting {
            value: 1,
            origin: Origin::Default,
        });
        let cores = tpbs.value;
        check(
            "simulated_devices",
            &wide(&devices),
            divides(devices.value),
            &format!("a number of devices that share the machine's {cores} physical cores evenly"),
        )?;
        Ok((devices, tpbs))
    }

    /// Physical cores for the logical ones that the builder was asked for; at least a small machine for the environment's, and
    /// where others are to have cores, too.
    fn needed_tpbs(&self, tpbs_per_core: u32) -> u32 {
        let told = |choice: &super::Choice<u32>| choice.told().copied();
        let cores = told(&self.cores).or((!self.is_by_environment).then_some(1));
        let needed = cores.map_or(0, |cores| {
            let first = told(&self.first_core).unwrap_or(0);
            first.saturating_add(cores).saturating_mul(tpbs_per_core)
        });
        let is_shared = self.host.or(None).value.is_some();
        let least = match (self.is_by_environment, is_shared) {
            (true, _) => SMALL_MACHINE,
            (false, true) => SMALL_MACHINE * tpbs_per_core,
            (false, false) => tpbs_per_core,
        };
        needed.max(least)
    }

    /// The first of the logical cores 0 to `total` - 1 that are ours, and how many.
    fn settle_cores(
        &self,
        found: Option<&Found>,
        total: u32,
    ) -> Result<(Setting<u32>, Setting<u32>), Error> {
        let first = self.first_core.or(0);
        if !matches!(first.origin, Origin::Environment { .. }) {
            let last = total.saturating_sub(1);
            let allowed = format!("0 to {last}: {}", self.machine_has(found, total));
            check("first_core", &wide(&first), first.value < total, &allowed)?;
        }
        let left = total.saturating_sub(first.value);
        // All of them are those of one device where a runtime has only one.
        let per_device = found.map_or(total, |found| total / (found.devices.len() as u32).max(1));
        let rest = match found {
            Some(_) => left.min(per_device - first.value % per_device.max(1)),
            None => left,
        };
        let mut cores = self.cores.or(if self.is_by_environment { rest } else { 1 });
        // In the environment no core at all means all of them.
        if cores.value == 0 && cores.origin != Origin::Builder {
            cores.value = rest;
        }
        let is_good = (1..=MAX_CORES).contains(&cores.value) || cores.origin == Origin::Default;
        check("cores", &wide(&cores), is_good, "1 to 256")?;
        let last = u64::from(first.value) + u64::from(cores.value);
        if last <= u64::from(total) {
            check_one_device(found, per_device, first.value, cores.value)?;
            return Ok((first, cores));
        }
        Err(match &cores.origin {
            // A list: both are of one variable.
            Origin::Environment {
                variable, given, ..
            } if self.first_core.or(0).origin == cores.origin => Error::Variable {
                variable,
                value: given.clone(),
                allowed: format!(
                    "{}: {}",
                    consecutive_cores(total),
                    self.machine_has(found, total)
                ),
            },
            Origin::Environment {
                variable, given, ..
            } => Error::Variable {
                variable,
                value: given.clone(),
                allowed: format!(
                    "a number from 0 to {left}: {}",
                    self.machine_has(found, total)
                ),
            },
            _ => Error::Config {
                what: "first_core + cores",
                value: last,
                allowed: {
                    let of = |what, setting: &Setting<u32>| match &setting.origin {
                        Origin::Environment { .. } => {
                            format!("; {what} = {} is of {}", setting.value, setting.origin)
                        }
                        _ => String::new(),
                    };
                    let said = of("first_core", &first) + &of("cores", &cores);
                    format!("at most {total}: {}{said}", self.machine_has(found, total))
                },
            },
        })
    }

    /// How many logical cores there are, and what says so.
    fn machine_has(&self, found: Option<&Found>, total: u32) -> String {
        let plural = if total == 1 { "" } else { "s" };
        if found.is_some() {
            return format!("the devices of this host have {total} logical core{plural}");
        }
        if self.device.is_some() {
            return format!("the device has {total} logical core{plural}");
        }
        let sets = match (self.tpbs.told(), self.is_by_environment) {
            (None, true) => "NRTA_SIM_CORES",
            _ => "simulated_tpbs",
        };
        format!("the machine has {total} logical core{plural}, and {sets} sets its physical ones")
    }
}

/// Refuses cores of two devices.
fn check_one_device(
    found: Option<&Found>,
    cores_per_device: u32,
    first: u32,
    cores: u32,
) -> Result<(), Error> {
    let Some(found) = found.filter(|_| cores > 0 && cores_per_device > 0) else {
        return Ok(());
    };
    let last = first + cores - 1;
    // CAST: widening.
    let device = |core: u32| found.devices.get((core / cores_per_device) as usize);
    match (device(first), device(last)) {
        (Some(of_first), Some(of_last)) if of_first != of_last => Err(Error::TwoDevices {
            first,
            last,
            devices: [*of_first, *of_last],
            cores_per_device,
        }),
        _ => Ok(()),
    }
}

/// What a list of cores may be.
fn consecutive_cores(total: u32) -> String {
    let last = total.saturating_sub(1);
    let such_as = if last == 0 {
        ""
    } else {
        ", such as 0-1 or 0,1"
    };
    format!("consecutive cores from 0 to {last}{such_as}")
}

/// Of a device that is the caller's.
fn not_ours<T>(value: T) -> Setting<T> {
    Setting {
        value,
        origin: Origin::Builder,
    }
}

/// By the driver's word.
fn of_driver<T>(value: T) -> Setting<T> {
    Setting {
        value,
        origin: Origin::Driver,
    }
}

fn wide(setting: &Setting<u32>) -> Setting<u64> {
    setting.clone().map(u64::from)
}

/// Refuses a value by the name under which it was given.
fn check(
    what: &'static str,
    setting: &Setting<u64>,
    is_good: bool,
    allowed: &str,
) -> Result<(), Error> {
    match &setting.origin {
        _ if is_good => Ok(()),
        Origin::Environment {
            variable, given, ..
        } => Err(Error::Variable {
            variable,
            value: given.clone(),
            allowed: allowed.to_owned(),
        }),
        _ => Err(Error::Config {
            what,
            value: setting.value,
            allowed: allowed.to_owned(),
        }),
    }
}
