//! `cargo xtask bench`: builds a measuring harness in `benches` and runs it.
//!
//! Called by `main`. A whole run rewrites `docs/bench-ring.md` and its charts, `docs/bench-worker.md`,
//! `docs/bench-device.md` or `docs/bench-facade.md`; a quick or partial one writes beside the build products, so that it never replaces numbers that
//! were taken with care.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use crate::workspace::Workspace;

/// A machine with more to do than this spoils a measurement.
const QUIET_LOAD: f64 = 0.5;

/// What to measure of the ring. The harness reads the values, and answers for them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct BenchOptions {
    pub(crate) quick: bool,
    pub(crate) rounds: Option<String>,
    /// Bars or groups of cells.
    pub(crate) only: Option<String>,
    /// Text in the name of a cell.
    pub(crate) cell: Option<String>,
}

/// How to measure the worker, the device layer or the facade: everything, always.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct AllOptions {
    /// Only to see that it runs.
    pub(crate) smoke: bool,
    pub(crate) rounds: Option<String>,
}

/// Measures the ring. Whether the harness ended well.
pub(crate) fn ring(workspace: &Workspace, options: &BenchOptions) -> Result<bool, String> {
    let output = if options.is_whole() {
        workspace.root.join("docs")
    } else {
        workspace.target.join("bench-ring")
    };
    run(workspace, "ring-report", &options.arguments(), &output)
}

/// Measures the worker. Whether the harness ended well.
pub(crate) fn worker(workspace: &Workspace, options: &AllOptions) -> Result<bool, String> {
    all(workspace, "worker", options)
}

/// Measures the device layer. Whether the harness ended well.
pub(crate) fn device(workspace: &Workspace, options: &AllOptions) -> Result<bool, String> {
    all(workspace, "device", options)
}

/// Measures the facade. Whether the harness ended well.
pub(crate) fn facade(workspace: &Workspace, options: &AllOptions) -> Result<bool, String> {
    all(workspace, "facade", options)
}

fn all(workspace: &Workspace, subject: &str, options: &AllOptions) -> Result<bool, String> {
    let output = if options.smoke {
        workspace.target.join(format!("bench-{subject}"))
    } else {
        workspace.root.join("docs")
    };
    let harness = format!("{subject}-report");
    run(workspace, &harness, &options.arguments(), &output)
}

fn run(
    workspace: &Workspace,
    harness: &str,
    arguments: &[String],
    output: &Path,
) -> Result<bool, String> {
    if let Some(load) = load_average().filter(|load| *load > QUIET_LOAD) {
        eprintln!(
            "warning: the load average is {load}: something else runs, and the numbers will say so"
        );
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let status = Command::new(cargo)
        .args([
            "run",
            "--profile",
            "bench",
            "--locked",
            "-p",
            "lane-benches",
        ])
        .args(["--bin", harness, "--"])
        .args(arguments)
        .arg("--output")
        .arg(output)
        .current_dir(&workspace.root)
        .status()
        .map_err(|fault| format!("cargo does not start: {fault}"))?;
    Ok(status.success())
}

impl BenchOptions {
    /// Whether everything is measured, as often as it should be.
    fn is_whole(&self) -> bool {
        !self.quick && self.only.is_none() && self.cell.is_none()
    }

    fn arguments(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        if self.quick {
            arguments.push("--quick".to_owned());
        }
        for (flag, value) in [
            ("--rounds", &self.rounds),
            ("--only", &self.only),
            ("--cell", &self.cell),
        ] {
            if let Some(value) = value {
                arguments.extend([flag.to_owned(), value.clone()]);
            }
        }
        arguments
    }
}

impl AllOptions {
    fn arguments(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        if self.smoke {
            arguments.push("--smoke".to_owned());
        }
        if let Some(rounds) = &self.rounds {
            arguments.extend(["--rounds".to_owned(), rounds.clone()]);
        }
        arguments
    }
}

/// The load of the last minute, where the system says it.
fn load_average() -> Option<f64> {
    first_number(&std::fs::read_to_string("/proc/loadavg").ok()?)
}

fn first_number(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(rounds: Option<&str>, only: Option<&str>) -> BenchOptions {
        BenchOptions {
            rounds: rounds.map(str::to_owned),
            only: only.map(str::to_owned),
            ..BenchOptions::default()
        }
    }

    #[test]
    fn only_a_whole_run_replaces_the_report() {
        assert!(options(None, None).is_whole());
        assert!(options(Some("31"), None).is_whole());
        assert!(!options(None, Some("R2")).is_whole());
        let quick = BenchOptions {
            quick: true,
            ..BenchOptions::default()
        };
        assert!(!quick.is_whole());
    }

    #[test]
    fn the_harness_gets_what_was_asked() {
        let arguments = options(Some("9"), Some("R1,T2")).arguments();
        assert_eq!(arguments, ["--rounds", "9", "--only", "R1,T2"]);
        let smoke = AllOptions {
            smoke: true,
            rounds: None,
        };
        assert_eq!(smoke.arguments(), ["--smoke"]);
    }

    #[test]
    fn the_load_is_the_first_number() {
        assert_eq!(first_number("0.73 0.40 0.31 1/85 123\n"), Some(0.73));
        assert_eq!(first_number(""), None);
    }
}
