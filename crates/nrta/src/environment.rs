//! What the environment says about how a runtime is opened.
//!
//! Called by [`Runtime::from_env`](crate::Runtime::from_env) and [`Builder::from_variables`], and by nobody afterwards: a
//! variable that changes later changes nothing. Names, ranges and what a bad value does are data (`xu_abi::env`); what a
//! good value means stands here. Spec: `env.md`.
//!
//! | variable | sets | a bad value |
//! |---|---|---|
//! | `NEURON_RT_VISIBLE_CORES` | which logical cores, `2`, `0-3` or `0-1,2`; they become cores 0 to n - 1 | is refused |
//! | `NEURON_RT_NUM_CORES` | how many, from the first; 0 and by default all; ignored beside the former | is refused |
//! | `NEURON_LOGICAL_NC_CONFIG`, older `NEURON_RT_VIRTUAL_CORE_SIZE` | physical cores of each logical one, 1 or 2 | is refused |
//! | `NEURON_RT_XU_COMPUTE_MAX_QUEUED_REQUESTS` | [`Builder::compute_limit`] | is adjusted, with a warning |
//! | `NEURON_RT_EXEC_TIMEOUT` | [`Builder::exec_timeout`], seconds; 0 is no limit | is adjusted, with a warning |
//! | `NRTA_POLL_POLICY` | [`Builder::poll_policy`] | is adjusted, with a warning |
//! | `NRTA_BACKEND` | `simulated` is the only one that is built | is refused |
//! | `NRTA_SIM_CORES`, `NRTA_SIM_HBM_MB` | physical cores of the simulated machine (default 2), and the memory of each | is refused |
//! | `NRTA_SIM_FAULTS` | [`Builder::simulated_faults`]: JSON, or the path of a file of it | is refused |
//!
//! Blanks around a value do not count, and an empty value is none. A variable that the specification knows and this
//! runtime does not implement is named in the log.

use crate::builder::Builder;
use crate::error::Error;
use core::time::Duration;
use std::ffi::OsString;
use xu_abi::env::{self, Domain, Preset, Support};
use xu_device::simulated::FaultPlan;
use xu_worker::PollPolicy;

/// What is implemented.
const IMPLEMENTED: [&str; 11] = [
    VISIBLE_CORES,
    NUM_CORES,
    LOGICAL_NC_CONFIG,
    VIRTUAL_CORE_SIZE,
    MAX_QUEUED,
    EXEC_TIMEOUT,
    POLL_POLICY,
    BACKEND,
    SIM_CORES,
    SIM_HBM_MB,
    SIM_FAULTS,
];
const VISIBLE_CORES: &str = "NEURON_RT_VISIBLE_CORES";
const NUM_CORES: &str = "NEURON_RT_NUM_CORES";
const LOGICAL_NC_CONFIG: &str = "NEURON_LOGICAL_NC_CONFIG";
const VIRTUAL_CORE_SIZE: &str = "NEURON_RT_VIRTUAL_CORE_SIZE";
const MAX_QUEUED: &str = "NEURON_RT_XU_COMPUTE_MAX_QUEUED_REQUESTS";
const EXEC_TIMEOUT: &str = "NEURON_RT_EXEC_TIMEOUT";
const POLL_POLICY: &str = "NRTA_POLL_POLICY";
const BACKEND: &str = "NRTA_BACKEND";
const SIM_CORES: &str = "NRTA_SIM_CORES";
const SIM_HBM_MB: &str = "NRTA_SIM_HBM_MB";
const SIM_FAULTS: &str = "NRTA_SIM_FAULTS";

/// Physical cores of a simulated machine of which nobody says how large it is.
const DEFAULT_MACHINE: u32 = 2;
/// Most physical cores of a simulated machine.
const MAX_MACHINE: u64 = 256;

impl Builder {
    /// As [`Runtime::from_env`](crate::Runtime::from_env), from variables of any origin, and to be changed before it opens: what the
    /// builder is told afterwards wins.
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
    /// [`Error::Variable`], which names the variable, its value and what is allowed.
    pub fn from_variables(read: impl Fn(&str) -> Option<OsString>) -> Result<Self, Error> {
        let read = Variables { read };
        read.report_others();
        read.word(BACKEND, &["simulated"])?;
        let tpbs_per_core = read.tpbs_per_core()?;
        let machine = read.strict(SIM_CORES, 1, MAX_MACHINE)?;
        // CAST: at most 256.
        let machine = machine.map_or(DEFAULT_MACHINE, |cores| cores as u32);
        if machine < tpbs_per_core {
            let allowed = format!("at least {tpbs_per_core}, for one logical core");
            return Err(refused(SIM_CORES, machine.to_string(), allowed));
        }
        let (first, cores) = read.cores(machine / tpbs_per_core)?;
        let mut builder = Self::default()
            .tpbs_per_core(tpbs_per_core)
            .simulated_tpbs(machine)
            .first_core(first)
            .cores(cores);
        if let Some(requests) = read.tuned(MAX_QUEUED) {
            builder = builder.compute_limit(requests);
        }
        if let Some(seconds) = read.tuned(EXEC_TIMEOUT) {
            let limit = (seconds > 0).then(|| Duration::from_secs(seconds));
            builder = builder.exec_timeout(limit);
        }
        if let Some(policy) = read.policy() {
            builder = builder.poll_policy(policy);
        }
        if let Some(megabytes) = read.strict(SIM_HBM_MB, 1, 4096)? {
            builder = builder.simulated_hbm_bytes(megabytes << 20);
        }
        if let Some(plan) = read.faults()? {
            builder = builder.simulated_faults(plan);
        }
        Ok(builder)
    }
}

/// Where variables come from.
struct Variables<R> {
    read: R,
}

impl<R: Fn(&str) -> Option<OsString>> Variables<R> {
    /// The value of a variable, without blanks around it; none when it is empty.
    fn text(&self, name: &str) -> Option<String> {
        let value = (self.read)(name)?;
        let text = value.to_string_lossy().trim().to_owned();
        (!text.is_empty()).then_some(text)
    }

    /// A number that opening depends on.
    fn strict(&self, name: &'static str, min: u64, max: u64) -> Result<Option<u64>, Error> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        match number(&text) {
            Some(number) if (min..=max).contains(&number) => Ok(Some(number)),
            _ => Err(refused(name, text, format!("a number from {min} to {max}"))),
        }
    }

    /// One of `words`, of which the first is the default.
    fn word(&self, name: &'static str, words: &[&str]) -> Result<(), Error> {
        match self.text(name) {
            Some(text) if !words.contains(&text.as_str()) => {
                Err(refused(name, text, words.join(" or ")))
            }
            _ => Ok(()),
        }
    }

    /// A number for tuning: out of range it is clamped, no number is no value. Either is told.
    fn tuned(&self, name: &'static str) -> Option<u64> {
        let text = self.text(name)?;
        let variable = env::named(name)?;
        let (min, max) = match variable.domain {
            Domain::Integer { min, max, .. } => (min, max.unwrap_or(u64::MAX)),
            _ => (0, u64::MAX),
        };
        let preset = match variable.preset {
            Preset::Integer(preset) => Some(preset),
            _ => None,
        };
        // No number is below the least one: the specification has 0 fall back to the default.
        let used = match number(&text) {
            Some(number) if number >= min => Some(number.min(max)),
            _ => preset,
        };
        if used.map(|used| used.to_string()).as_deref() != Some(text.as_str()) {
            tracing::warn!(variable = name, given = text, ?used, "value adjusted");
        }
        used
    }

    fn policy(&self) -> Option<PollPolicy> {
        let text = self.text(POLL_POLICY)?;
        match text.as_str() {
            "adaptive" => Some(PollPolicy::Adaptive),
            "reference" => Some(PollPolicy::Reference),
            "busy" => Some(PollPolicy::Busy),
            _ => {
                let used = "adaptive";
                tracing::warn!(variable = POLL_POLICY, given = text, used, "value adjusted");
                None
            }
        }
    }

    fn tpbs_per_core(&self) -> Result<u32, Error> {
        let newer = self.strict(LOGICAL_NC_CONFIG, 1, 2)?;
        let older = self.strict(VIRTUAL_CORE_SIZE, 1, 2)?;
        if let (Some(used), Some(given)) = (newer, older)
            && used != given
        {
            let variable = VIRTUAL_CORE_SIZE;
            tracing::warn!(variable, given, used, "overruled by {LOGICAL_NC_CONFIG}");
        }
        // CAST: 1 or 2.
        Ok(newer.or(older).unwrap_or(1) as u32)
    }

    /// The first logical core of a machine of `total`, and how many.
    fn cores(&self, total: u32) -> Result<(u32, u32), Error> {
        if let Some(text) = self.text(VISIBLE_CORES) {
            let range = consecutive(&text).filter(|(_, last)| *last < total);
            let allowed = || {
                let last = total.saturating_sub(1);
                format!("consecutive cores from 0 to {last}, such as 0-1 or 0,1")
            };
            let (first, last) = range.ok_or_else(|| refused(VISIBLE_CORES, text, allowed()))?;
            return Ok((first, last - first + 1));
        }
        // CAST: at most `total`.
        let count = self.strict(NUM_CORES, 0, total.into())?.unwrap_or(0) as u32;
        Ok((0, if count == 0 { total } else { count }))
    }

    /// A plan as JSON, or the file where it stands.
    fn faults(&self) -> Result<Option<FaultPlan>, Error> {
        let Some(text) = self.text(SIM_FAULTS) else {
            return Ok(None);
        };
        let bytes = if text.starts_with('{') {
            Ok(text.clone().into_bytes())
        } else {
            std::fs::read(&text).map_err(|error| error.to_string())
        };
        let plan = bytes
            .and_then(|bytes| serde_json::from_slice(&bytes).map_err(|error| error.to_string()));
        plan.map(Some).map_err(|why| {
            refused(
                SIM_FAULTS,
                text,
                format!("a fault plan or the path of one: {why}"),
            )
        })
    }

    /// Names the variables that are set and have no effect.
    fn report_others(&self) {
        for variable in env::VARIABLES {
            let name = variable.name;
            if IMPLEMENTED.contains(&name) || self.text(name).is_none() {
                continue;
            }
            if variable.support == Support::Removed {
                tracing::warn!(variable = name, "was removed and has no effect");
            } else {
                tracing::info!(variable = name, "has no effect here");
            }
        }
    }
}

/// Decimal digits only: no sign, no suffix, no overflow.
fn number(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

/// The first and the last of a list of cores and ranges that are consecutive and increasing.
fn consecutive(text: &str) -> Option<(u32, u32)> {
    let core = |text: &str| u32::try_from(number(text.trim())?).ok();
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
    all
}

fn refused(variable: &'static str, value: String, allowed: String) -> Error {
    Error::Variable {
        variable,
        value,
        allowed,
    }
}
