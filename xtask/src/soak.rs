//! `cargo xtask soak`: runs the property over random faults for longer than the tests do.
//!
//! Called by `main`. The test `random` in `crates/xu-device/tests/faults` does the work, and is told by variables how
//! long; each call begins at another seed, so that every one meets scenarios that no call before has met.

use std::ffi::OsString;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::workspace::Workspace;

/// The one test that is run.
const TEST: &str =
    "random::each_execution_completes_once_with_the_status_that_the_specification_predicts";

/// What to run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SoakOptions {
    pub(crate) length: Length,
    /// The first seed; a new one by default.
    pub(crate) first: Option<u64>,
}

/// How much of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Length {
    /// So many scenarios.
    Seeds(u64),
    /// For so long.
    Minutes(u64),
    /// The scenario of this seed, told in full.
    One(u64),
}

impl Default for SoakOptions {
    fn default() -> Self {
        Self {
            length: Length::Minutes(10),
            first: None,
        }
    }
}

/// Runs the property. Whether it held.
///
/// # Errors
/// Cargo does not start.
pub(crate) fn soak(workspace: &Workspace, options: &SoakOptions) -> Result<bool, String> {
    let variables = options.variables(unused_seed());
    for (name, value) in &variables {
        eprintln!("{name}={value}");
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let faults = |arguments: &[&str]| {
        let mut command = Command::new(&cargo);
        command
            .args([
                "test",
                "--locked",
                "-p",
                "xu-device",
                "--test",
                "faults",
                "--",
            ])
            .args(arguments)
            .current_dir(&workspace.root);
        command
    };
    let fails = |fault| format!("cargo does not start: {fault}");
    // A name that fits no test would be a run of nothing that succeeds.
    let listed = faults(&["--exact", TEST, "--list"])
        .output()
        .map_err(fails)?;
    if !String::from_utf8_lossy(&listed.stdout).contains("1 test") {
        return Err(format!("there is no test {TEST}"));
    }
    let status = faults(&["--exact", TEST, "--nocapture"])
        .envs(variables)
        .status()
        .map_err(fails)?;
    Ok(status.success())
}

impl SoakOptions {
    fn variables(&self, unused_seed: u64) -> Vec<(&'static str, String)> {
        let length = match self.length {
            Length::Seeds(seeds) => ("XU_FAULTS_SEEDS", seeds),
            Length::Minutes(minutes) => ("XU_FAULTS_MINUTES", minutes),
            Length::One(seed) => return vec![("XU_FAULTS_SEED", seed.to_string())],
        };
        let first = ("XU_FAULTS_FIRST", self.first.unwrap_or(unused_seed));
        [length, first]
            .map(|(name, value)| (name, value.to_string()))
            .into()
    }
}

/// A seed that no call before has come to: there are fewer scenarios in a second than this leaves room for.
fn unused_seed() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs().saturating_mul(1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_begins_elsewhere_unless_it_is_told_where() {
        let mut options = SoakOptions::default();
        let variables = |options: &SoakOptions| {
            let variables = options.variables(7).into_iter();
            let lines: Vec<_> = variables
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            lines.join(" ")
        };
        assert_eq!(
            variables(&options),
            "XU_FAULTS_MINUTES=10 XU_FAULTS_FIRST=7"
        );
        options.first = Some(3);
        options.length = Length::Seeds(2);
        assert_eq!(variables(&options), "XU_FAULTS_SEEDS=2 XU_FAULTS_FIRST=3");
        options.length = Length::One(9);
        assert_eq!(variables(&options), "XU_FAULTS_SEED=9");
    }
}
