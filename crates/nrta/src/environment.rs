//! What the environment says about how a runtime is opened.
//!
//! Called by [`Runtime::from_env`](crate::Runtime::from_env) and [`Builder::from_variables`], and by nobody afterwards: a
//! variable that changes later changes nothing until the next opening. Names, ranges and what a bad value does are data
//! (`xu_abi::env`); what a good value means stands here, and how it is read in `read`. What comes of it, with its origin,
//! says [`Runtime::settings`](crate::Runtime::settings). Spec: `env.md`.
//!
//! | variable | sets | a bad value |
//! |---|---|---|
//! | `NEURON_RT_VISIBLE_CORES` | which logical cores, `2`, `0-3` or `0-1,2`; they become cores 0 to n - 1 | is refused |
//! | `NEURON_RT_NUM_CORES` | how many, the lowest that are free; 0 and by default all; ignored beside the former | is refused |
//! | `NEURON_LOGICAL_NC_CONFIG`, older `NEURON_RT_VIRTUAL_CORE_SIZE` | [`Builder::tpbs_per_core`], 1 or 2 | is refused |
//! | `NEURON_RT_FAKE_INSTANCE_TYPE` | [`Builder::simulated_instance`] | is refused |
//! | `NRTA_BACKEND` | [`Builder::backend`]: `simulated` or `real-driver` | is refused |
//! | `NRTA_SIM_CORES`, `NRTA_SIM_DEVICES` | physical cores of the simulated machine, default 2, and how many devices share them | is refused |
//! | `NRTA_SIM_HBM_MB` | memory of each of its physical cores | is refused |
//! | `NRTA_SIM_HOST` | [`Builder::simulated_host`]: a directory | is refused |
//! | `NRTA_SIM_FAULTS` | [`Builder::simulated_faults`]: JSON, or the path of a file of it | is refused |
//! | `NEURON_RT_XU_COMPUTE_MAX_QUEUED_REQUESTS` | [`Builder::compute_limit`] | is adjusted |
//! | `NEURON_RT_EXEC_TIMEOUT` | [`Builder::exec_timeout`], seconds; 0 is no limit | is adjusted |
//! | `NEURON_RT_LOW_LATENCY_TASKS_CPU_AFFINITY` | [`Builder::worker_cpus`], such as `0-3,8` | is adjusted |
//! | `NEURON_RT_NUMERICAL_ERRORS_VERBOSITY`, `NEURON_FAIL_ON_NAN` | [`Builder::numerical_errors`]; the latter is `critical` | is adjusted |
//! | `NEURON_RT_ENABLE_DEVICE_MEMORY_OOM_LOG` | [`Builder::log_out_of_memory`] | is adjusted |
//! | `NEURON_PROCESS_TAG` | [`Builder::process_tag`] | |
//! | `NRTA_POLL_POLICY` | [`Builder::poll_policy`] | is adjusted |
//! | `NRTA_CLOSE_WARN_SECS` | [`Builder::close_warn_every`] | is adjusted |
//!
//! Blanks around a value do not count, and an empty value is none. Booleans are `1 true yes on` and `0 false no off` in any
//! case; numbers are decimal digits. What is refused fails the opening with an error that names the variable, its value and
//! what is allowed; what is adjusted is clamped or falls back to the default, with one warning in the log.
//!
//! Two hold whatever they say: a container's checksum is always verified (`NEURON_RT_VALIDATE_HASH`), and cores are always
//! brought to rest before they are used (`NEURON_RT_RESET_CORES`).
//!
//! Other variables that the specification knows have no effect here, and the log says so once for each opening that finds one;
//! removed ones with a warning that names the replacement. A name that begins with `NRTA_` and is not known, such as
//! `NRTA_SIM_CORE`, gets a warning that names the closest one that is; of others, unknown names are nobody's business here. Among them are those of the C interface's own log
//! (`NEURON_RT_LOG_*`): the events of this crate go to the application's [`tracing`] subscriber.

#[cfg(feature = "simulated")]
mod faults;
mod notes;
mod read;
mod unknown;

pub(crate) use notes::Note;

use crate::builder::Builder;
use crate::cpus::CpuSet;
use crate::error::Error;
use crate::instance::Instance;
use crate::settings::{Backend, NumericalErrors, Setting, policy_name};
use core::time::Duration;
use read::Given;
use std::ffi::OsString;
use std::path::PathBuf;
use xu_worker::PollPolicy;

const VISIBLE_CORES: &str = "NEURON_RT_VISIBLE_CORES";
const NUM_CORES: &str = "NEURON_RT_NUM_CORES";
const LOGICAL_NC_CONFIG: &str = "NEURON_LOGICAL_NC_CONFIG";
const VIRTUAL_CORE_SIZE: &str = "NEURON_RT_VIRTUAL_CORE_SIZE";
const INSTANCE: &str = "NEURON_RT_FAKE_INSTANCE_TYPE";
const PROCESS_TAG: &str = "NEURON_PROCESS_TAG";
const MAX_QUEUED: &str = "NEURON_RT_XU_COMPUTE_MAX_QUEUED_REQUESTS";
const EXEC_TIMEOUT: &str = "NEURON_RT_EXEC_TIMEOUT";
const CPU_AFFINITY: &str = "NEURON_RT_LOW_LATENCY_TASKS_CPU_AFFINITY";
const NUMERICAL_ERRORS: &str = "NEURON_RT_NUMERICAL_ERRORS_VERBOSITY";
const FAIL_ON_NAN: &str = "NEURON_FAIL_ON_NAN";
const OUT_OF_MEMORY: &str = "NEURON_RT_ENABLE_DEVICE_MEMORY_OOM_LOG";
const POLL_POLICY: &str = "NRTA_POLL_POLICY";
const CLOSE_WARN: &str = "NRTA_CLOSE_WARN_SECS";
const BACKEND: &str = "NRTA_BACKEND";
const SIM_CORES: &str = "NRTA_SIM_CORES";
const SIM_DEVICES: &str = "NRTA_SIM_DEVICES";
const SIM_HBM_MB: &str = "NRTA_SIM_HBM_MB";
const SIM_HOST: &str = "NRTA_SIM_HOST";
const SIM_FAULTS: &str = "NRTA_SIM_FAULTS";
/// What holds whatever these say.
const ALWAYS: [&str; 2] = ["NEURON_RT_VALIDATE_HASH", "NEURON_RT_RESET_CORES"];

/// What is implemented.
const IMPLEMENTED: [&str; 20] = [
    VISIBLE_CORES,
    NUM_CORES,
    LOGICAL_NC_CONFIG,
    VIRTUAL_CORE_SIZE,
    INSTANCE,
    PROCESS_TAG,
    MAX_QUEUED,
    EXEC_TIMEOUT,
    CPU_AFFINITY,
    NUMERICAL_ERRORS,
    FAIL_ON_NAN,
    OUT_OF_MEMORY,
    POLL_POLICY,
    CLOSE_WARN,
    BACKEND,
    SIM_CORES,
    SIM_DEVICES,
    SIM_HBM_MB,
    SIM_HOST,
    SIM_FAULTS,
];

/// Variables that were removed, and what came instead.
const REMOVED: [(&str, &str); 3] = [
    (
        "NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS",
        "schedule with ComputeQueue::execute (nrta_execute_schedule); its limit is \
         NEURON_RT_XU_COMPUTE_MAX_QUEUED_REQUESTS",
    ),
    ("NEURON_RT_INSPECT_DURATION_NSEC", "nothing replaces it"),
    ("NEURON_RT_INSPECT_START_OFFSET_NSEC", "nothing replaces it"),
];

/// Most memory of a simulated core, MiB.
const MAX_HBM_MB: u64 = 4096;

impl Builder {
    /// As [`Runtime::from_env`](crate::Runtime::from_env), to be changed before it opens: what the builder is told wins.
    ///
    /// # Errors
    /// As [`Builder::from_variables`].
    pub fn from_env() -> Result<Self, Error> {
        // All of it at one moment, under one lock of the standard library's: other threads may be changing it.
        let all: Vec<_> = std::env::vars_os().collect();
        let mut builder = Self::from_variables(|name| {
            let found = all.iter().find(|(variable, _)| variable == name);
            found.map(|(_, value)| value.clone())
        })?;
        builder.notes.extend(unknown::notes(&all));
        Ok(builder)
    }

    /// As [`Builder::from_env`], from variables of any origin. They are asked for by name, so unknown ones are not noticed.
    ///
    /// ```
    /// use nrta::Builder;
    ///
    /// let variables = |name: &str| match name {
    ///     "NRTA_SIM_CORES" => Some("4".into()),
    ///     "NEURON_RT_VISIBLE_CORES" => Some("1-2".into()),
    ///     _ => None,
    /// };
    /// let runtime = Builder::from_variables(variables)?.open()?;
    /// assert_eq!(runtime.cores(), 2);
    /// # Ok::<(), nrta::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Variable`], which names the variable, its value and what is allowed. Whether there are as many cores as are
    /// asked for is seen later, by [`Builder::settings`] and [`Builder::open`].
    pub fn from_variables(read: impl Fn(&str) -> Option<OsString>) -> Result<Self, Error> {
        let given = Given::read(read);
        note_others(&given);
        let mut builder = Self {
            is_by_environment: true,
            ..Self::default()
        };
        builder.read_cores(&given)?;
        builder.read_machine(&given)?;
        builder.read_tuning(&given);
        builder.notes = given.into_notes();
        Ok(builder)
    }

    fn read_cores(&mut self, given: &Given) -> Result<(), Error> {
        self.tpbs_per_core.read(tpbs_per_core(given)?);
        match given.strict(VISIBLE_CORES, consecutive, || {
            "consecutive cores such as 3, 0-1 or 0,1".to_owned()
        })? {
            Some(list) => {
                self.cores
                    .read(Some(list.clone().map(|(first, last)| last - first + 1)));
                self.first_core.read(Some(list.map(|(first, _)| first)));
            }
            None => self.cores.read(given.strict_u32(NUM_CORES, 0, u32::MAX)?),
        }
        Ok(())
    }

    fn read_machine(&mut self, given: &Given) -> Result<(), Error> {
        let backend = |text: &str| match text {
            "simulated" => Some(Backend::Simulated),
            "real-driver" => Some(Backend::RealDriver),
            _ => None,
        };
        let words = || "simulated or real-driver".to_owned();
        self.backend.read(given.strict(BACKEND, backend, words)?);
        let instance = given.strict(INSTANCE, Instance::named, || {
            let names: Vec<_> = Instance::all().iter().map(Instance::name).collect();
            names.join(", ")
        })?;
        self.instance
            .read(instance.map(|instance| instance.map(Some)));
        let most = crate::settings::MAX_TPBS;
        self.tpbs.read(given.strict_u32(SIM_CORES, 1, most)?);
        self.devices.read(given.strict_u32(SIM_DEVICES, 1, most)?);
        let megabytes = given.strict_number(SIM_HBM_MB, 1, MAX_HBM_MB)?;
        self.hbm_bytes
            .read(megabytes.map(|megabytes| megabytes.map(|count| count << 20)));
        let host = given.path(SIM_HOST);
        self.host
            .read(host.map(|path| path.map(PathBuf::from).map(Some)));
        #[cfg(feature = "simulated")]
        self.faults.read(faults::read(given)?);
        Ok(())
    }

    fn read_tuning(&mut self, given: &Given) {
        self.compute_limit.read(given.tuned_number(MAX_QUEUED));
        let seconds = given.tuned_number(EXEC_TIMEOUT);
        self.exec_timeout.read(seconds.map(|seconds| {
            seconds.map(|seconds| (seconds > 0).then(|| Duration::from_secs(seconds)))
        }));
        let list = |text: &str| CpuSet::parse(text).map(Some);
        let cpus = given.tuned(CPU_AFFINITY, list, None, |_| "any".to_owned());
        self.worker_cpus.read(cpus);
        self.numerical_errors.read(numerical_errors(given));
        self.log_out_of_memory
            .read(given.tuned_boolean(OUT_OF_MEMORY, true));
        let policy = |text: &str| match text {
            "adaptive" => Some(PollPolicy::Adaptive),
            "reference" => Some(PollPolicy::Reference),
            "busy" => Some(PollPolicy::Busy),
            _ => None,
        };
        let shown = |policy: &PollPolicy| policy_name(*policy).to_owned();
        self.poll_policy
            .read(given.tuned(POLL_POLICY, policy, PollPolicy::default(), shown));
        let seconds = given.tuned_number(CLOSE_WARN);
        self.close_warn_every
            .read(seconds.map(|seconds| seconds.map(Duration::from_secs)));
        self.process_tag.read(given.text(PROCESS_TAG));
    }
}

/// The newer name wins.
fn tpbs_per_core(given: &Given) -> Result<Option<Setting<u32>>, Error> {
    let newer = given.strict_u32(LOGICAL_NC_CONFIG, 1, 2)?;
    let older = given.strict_u32(VIRTUAL_CORE_SIZE, 1, 2)?;
    if let (Some(newer), Some(older)) = (&newer, &older)
        && newer.value != older.value
    {
        given.note(Note::Adjusted {
            variable: VIRTUAL_CORE_SIZE,
            given: older.value.to_string(),
            used: newer.value.to_string(),
            allowed: format!("what {LOGICAL_NC_CONFIG} says"),
        });
    }
    Ok(newer.or(older))
}

/// To fail on NaN is the stricter of the two, and wins.
fn numerical_errors(given: &Given) -> Option<Setting<NumericalErrors>> {
    let word = |text: &str| match text {
        "none" => Some(NumericalErrors::None),
        "warning" => Some(NumericalErrors::Warning),
        "critical" => Some(NumericalErrors::Critical),
        _ => None,
    };
    let default = NumericalErrors::default();
    let verbosity = given.tuned(NUMERICAL_ERRORS, word, default, ToString::to_string);
    match given.tuned_boolean(FAIL_ON_NAN, false) {
        Some(fail) if fail.value => Some(fail.map(|_| NumericalErrors::Critical)),
        _ => verbosity,
    }
}

/// Notes the variables that are set and have no effect.
fn note_others(given: &Given) {
    for (variable, text) in given.all() {
        let name = variable.name;
        if let Some((_, instead)) = REMOVED.iter().find(|(removed, _)| *removed == name) {
            // Zero asked for nothing.
            if text.parse() != Ok(0u64) {
                given.note(Note::Removed {
                    variable: name,
                    given: text,
                    instead,
                });
            }
        } else if !IMPLEMENTED.contains(&name) || is_of_no_machine(name) {
            given.note(Note::NoEffect {
                variable: name,
                why: why_without_effect(name),
            });
        }
    }
}

/// Whether it shapes a simulated machine in a build that has none.
fn is_of_no_machine(name: &str) -> bool {
    cfg!(not(feature = "simulated")) && name.starts_with("NRTA_SIM_")
}

fn why_without_effect(name: &str) -> &'static str {
    if is_of_no_machine(name) {
        "this build has no simulated machine"
    } else if ALWAYS.contains(&name) {
        "it is always done"
    } else if name.starts_with("NEURON_RT_LOG_") {
        "it is for the log of the C interface"
    } else {
        "it is not implemented"
    }
}

/// The first and the last of a list of cores and ranges that are consecutive and increasing.
fn consecutive(text: &str) -> Option<(u32, u32)> {
    let core = |text: &str| u32::try_from(read::number(text.trim())?).ok();
    let mut all: Option<(u32, u32)> = None;
    for part in text.split(',') {
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (core(first)?, core(last)?),
            None => (core(part)?, core(part)?),
        };
        if first > last {
            return None;
        }
        all = match all {
            None => Some((first, last)),
            Some((start, end)) if end.checked_add(1) == Some(first) => Some((start, last)),
            Some(_) => return None,
        };
    }
    // The number of all cores that 32 bits can name has 33 bits.
    all.filter(|(_, last)| *last < u32::MAX)
}
