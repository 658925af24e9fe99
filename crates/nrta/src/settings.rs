//! What a runtime was opened with, and where each value comes from.
//!
//! [`Builder::settings`](crate::Builder::settings) says it before opening,
//! [`Runtime::settings`](crate::Runtime::settings) afterwards. A value that the builder was told wins over one from the
//! environment, and that one over the default. Spec: `env.md` rule P2.
//!
//! ```
//! use nrta::{Builder, Origin};
//!
//! let variables = |name: &str| (name == "NEURON_RT_XU_COMPUTE_MAX_QUEUED_REQUESTS").then(|| "99".into());
//! let settings = Builder::from_variables(variables)?.cores(1).settings()?;
//! assert_eq!((settings.compute_limit.value, settings.cores.value), (63, 1));
//! assert_eq!(settings.cores.origin, Origin::Builder);
//! assert!(settings.to_string().contains(r#"NEURON_RT_XU_COMPUTE_MAX_QUEUED_REQUESTS="99", adjusted"#));
//! # Ok::<(), nrta::Error>(())
//! ```

mod choice;
mod resolve;

pub(crate) use choice::Choice;
pub(crate) use resolve::MAX_TPBS;

use crate::cpus::CpuSet;
use crate::instance::Instance;
use core::fmt;
use core::time::Duration;
use std::path::PathBuf;
#[cfg(feature = "simulated")]
use xu_device::simulated::FaultPlan;
use xu_device::stage::SkipConfig;
use xu_worker::PollPolicy;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// Nobody said anything.
    Default,
    /// A variable of the environment.
    Environment {
        /// Which.
        variable: &'static str,
        /// What it is set to.
        given: String,
        /// Whether something else is used than was given: it was out of range, or cannot be understood.
        adjusted: bool,
    },
    /// A call of a method of the [`Builder`](crate::Builder).
    Builder,
    /// The kernel driver, or the directory of its nodes.
    Driver,
}

impl Origin {
    /// `default`, `environment`, `builder`, `driver`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Environment { .. } => "environment",
            Self::Builder => "builder",
            Self::Driver => "driver",
        }
    }
}

/// `default`, `builder`, `driver`, or `NAME="given"` with `, adjusted`.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Environment {
                variable,
                given,
                adjusted,
            } => {
                let note = if *adjusted { ", adjusted" } else { "" };
                write!(f, "{variable}={given:?}{note}")
            }
            _ => f.write_str(self.name()),
        }
    }
}

/// A value, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting<T> {
    /// What is used.
    pub value: T,
    /// Where it comes from.
    pub origin: Origin,
}

/// What the device is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Backend {
    /// A machine of this process's own, or the device that the builder was given. With the feature `simulated`.
    #[default]
    Simulated,
    /// Hardware behind the kernel driver. With the feature `real-driver`.
    RealDriver,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Simulated => "simulated",
            Self::RealDriver => "real-driver",
        })
    }
}

/// What becomes of an execution whose results hold NaN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NumericalErrors {
    /// It succeeds.
    None,
    /// It succeeds, and the log says so.
    Warning,
    /// It ends with `EXEC_COMPLETED_WITH_NUM_ERR`; its outputs are written.
    #[default]
    Critical,
}

impl fmt::Display for NumericalErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Warning => "warning",
            Self::Critical => "critical",
        })
    }
}

/// Every value that a runtime is opened with, and its origin. Printed it is a table; [`Settings::to_json`] is for programs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Settings {
    /// What the device is.
    pub backend: Setting<Backend>,
    /// Where the nodes of devices are, for the real driver.
    pub device_directory: Setting<PathBuf>,
    /// Where the root of sysfs is, for the real driver.
    pub sysfs: Setting<PathBuf>,
    /// Which instance the simulated machine is shaped after.
    pub instance: Setting<Option<&'static Instance>>,
    /// Devices of the machine or host, which share its physical cores evenly.
    pub devices: Setting<u32>,
    /// Physical cores of the machine or host.
    pub tpbs: Setting<u32>,
    /// Usable memory of each simulated core, bytes; `None` when the device is none of them.
    pub hbm_bytes: Setting<Option<u64>>,
    /// Seed of the simulated machine.
    pub seed: Setting<u64>,
    /// What goes wrong with the simulated machine on purpose.
    #[cfg(feature = "simulated")]
    pub faults: Setting<FaultPlan>,
    /// The directory of the host whose cores processes share; `None`: the machine is this process's own.
    pub host: Setting<Option<PathBuf>>,
    /// Physical cores of each logical one.
    pub tpbs_per_core: Setting<u32>,
    /// The machine's logical core that is core 0. Where nobody says which cores, and they are claimed, it is known once they are.
    pub first_core: Setting<u32>,
    /// Number of logical cores.
    pub cores: Setting<u32>,
    /// Most executions per core that are accepted and not complete.
    pub compute_limit: Setting<u64>,
    /// Limit for one execution; `None` is no limit.
    pub exec_timeout: Setting<Option<Duration>>,
    /// How eagerly workers look.
    pub poll_policy: Setting<PollPolicy>,
    /// Whether requests skip loading what is loaded.
    pub skip_config: Setting<SkipConfig>,
    /// What becomes of NaN.
    pub numerical_errors: Setting<NumericalErrors>,
    /// Whether the log gets the state of memory when a reservation fails.
    pub log_out_of_memory: Setting<bool>,
    /// Processors that worker threads are bound to; `None`: any.
    pub worker_cpus: Setting<Option<CpuSet>>,
    /// How often closing says what it waits for.
    pub close_warn_every: Setting<Duration>,
    /// Shown beside the process id to whoever wants the same cores.
    pub process_tag: Setting<String>,
}

/// One line of [`Settings`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// The field of [`Settings`].
    pub name: &'static str,
    /// The value, for people.
    pub value: String,
    /// Where it comes from.
    pub origin: &'a Origin,
}

impl Settings {
    /// Every setting, in the order of the fields.
    #[must_use]
    pub fn rows(&self) -> Vec<Row<'_>> {
        fn row<'a, T>(
            name: &'static str,
            setting: &'a Setting<T>,
            text: impl FnOnce(&T) -> String,
        ) -> Row<'a> {
            Row {
                name,
                value: text(&setting.value),
                origin: &setting.origin,
            }
        }
        fn or_none<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
            value.map_or_else(|| "none".to_owned(), text)
        }
        let instance = |instance: &Option<&'static Instance>| {
            or_none(*instance, |instance| instance.name().to_owned())
        };
        let host = |host: &Option<PathBuf>| or_none(host.as_ref(), |path| format!("{path:?}"));
        let path = |path: &PathBuf| format!("{path:?}");
        let limit = |limit: &Option<Duration>| or_none(*limit, |limit| format!("{limit:?}"));
        vec![
            row("backend", &self.backend, ToString::to_string),
            row("device_directory", &self.device_directory, path),
            row("sysfs", &self.sysfs, path),
            row("instance", &self.instance, instance),
            row("devices", &self.devices, u32::to_string),
            row("tpbs", &self.tpbs, u32::to_string),
            row("hbm_bytes", &self.hbm_bytes, |bytes| {
                or_none(*bytes, |bytes| bytes.to_string())
            }),
            row("seed", &self.seed, u64::to_string),
            #[cfg(feature = "simulated")]
            row("faults", &self.faults, |plan| {
                format!("{} rules", plan.rules.len())
            }),
            row("host", &self.host, host),
            row("tpbs_per_core", &self.tpbs_per_core, u32::to_string),
            row("first_core", &self.first_core, u32::to_string),
            row("cores", &self.cores, u32::to_string),
            row("compute_limit", &self.compute_limit, u64::to_string),
            row("exec_timeout", &self.exec_timeout, limit),
            row("poll_policy", &self.poll_policy, |policy| {
                policy_name(*policy).to_owned()
            }),
            row("skip_config", &self.skip_config, |skip| {
                format!("{skip:?}").to_lowercase()
            }),
            row(
                "numerical_errors",
                &self.numerical_errors,
                ToString::to_string,
            ),
            row(
                "log_out_of_memory",
                &self.log_out_of_memory,
                bool::to_string,
            ),
            row("worker_cpus", &self.worker_cpus, |cpus| {
                or_none(cpus.as_ref(), CpuSet::to_string)
            }),
            row("close_warn_every", &self.close_warn_every, |every| {
                format!("{every:?}")
            }),
            row("process_tag", &self.process_tag, |tag| format!("{tag:?}")),
        ]
    }

    /// One JSON object: for each setting `value`, which is text, and `origin`; from the environment also `variable`, `given` and
    /// `adjusted`.
    #[must_use]
    pub fn to_json(&self) -> String {
        let rows = self.rows().into_iter().map(|row| {
            let (value, origin) = (row.value, row.origin.name());
            let described = match row.origin {
                Origin::Environment {
                    variable,
                    given,
                    adjusted,
                } => serde_json::json!({
                    "value": value, "origin": origin,
                    "variable": variable, "given": given, "adjusted": adjusted,
                }),
                _ => serde_json::json!({ "value": value, "origin": origin }),
            };
            (row.name.to_owned(), described)
        });
        serde_json::Value::Object(rows.collect()).to_string()
    }
}

/// As the variable has it.
pub(crate) fn policy_name(policy: PollPolicy) -> &'static str {
    match policy {
        PollPolicy::Reference => "reference",
        PollPolicy::Adaptive => "adaptive",
        PollPolicy::Busy => "busy",
    }
}

/// A line for each setting: name, value, origin.
impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.rows();
        let widest = |of: fn(&Row<'_>) -> usize| rows.iter().map(of).max().unwrap_or_default();
        let name = widest(|row| row.name.len());
        let value = widest(|row| row.value.chars().count());
        for row in &rows {
            writeln!(
                f,
                "{:name$}  {:value$}  {}",
                row.name, row.value, row.origin
            )?;
        }
        Ok(())
    }
}
