//! `cargo xtask fuzz`: runs the fuzz targets of the package in `fuzz`, each for a while.
//!
//! ```text
//!   fuzz/seeds/<target>  ─┐                     ┌──> fuzz/corpus/<target>     what reached new code, kept for the next run
//!   fuzz/corpus/<target> ─┴──> cargo-fuzz run ──┴──> fuzz/artifacts/<target>  what failed
//! ```
//!
//! Called by `main`; the step `fuzz-targets` of verify only looks whether the targets still compile.

use std::fs;
use std::time::Duration;

use crate::cli::VerifyOptions;
use crate::step::{Run, Stop, Verdict};
use crate::tools::{self, need};
use crate::workspace::Workspace;

/// What to run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FuzzOptions {
    /// How long each target runs.
    pub(crate) seconds: u64,
    /// One target instead of all.
    pub(crate) target: Option<String>,
}

impl Default for FuzzOptions {
    fn default() -> Self {
        Self {
            seconds: 20,
            target: None,
        }
    }
}

const MANIFEST: &str = "fuzz/Cargo.toml";

/// For the build, and on top of each target's own time.
const SPARE: Duration = Duration::from_secs(10 * 60);

/// The step: on the pinned toolchain, and without the sanitizer, for which nightly would be needed.
pub(crate) fn verify(run: &mut Run<'_>) -> Verdict {
    need(&tools::CXX, run)?;
    let names = targets(run.workspace).map_err(Stop::Failed)?;
    run.command("cargo check --manifest-path fuzz/Cargo.toml --bins --locked")
        .target_subdirectory("fuzz")
        .run()?;
    Ok(format!("{} targets", names.len()))
}

/// Runs the targets and says how often each was executed. Whether none of them failed.
///
/// # Errors
/// There is no such target, a tool is missing, or the targets do not build.
pub(crate) fn fuzz(workspace: &Workspace, options: &FuzzOptions) -> Result<bool, String> {
    let mut names = targets(workspace)?;
    if let Some(target) = &options.target {
        if !names.contains(target) {
            let names = names.join(", ");
            return Err(format!(
                "no fuzz target is called `{target}`; there are: {names}"
            ));
        }
        names = vec![target.clone()];
    }
    let limits = VerifyOptions {
        budget: SPARE + Duration::from_secs(options.seconds),
        ..VerifyOptions::default()
    };
    // A person who fuzzes decides what is installed.
    let mut install_budget = Duration::ZERO;
    let mut run = Run::new("fuzz", workspace, &limits, &mut install_budget)?;
    for tool in [&tools::CXX, &tools::NIGHTLY, &tools::CARGO_FUZZ] {
        need(tool, &mut run).map_err(why)?;
    }
    eprintln!("building the targets");
    build(&mut run, &names).map_err(|stop| {
        let log = workspace.relative(run.log_path());
        format!("{}: see {log}", why(stop))
    })?;

    let mut is_well = true;
    for name in &names {
        run.restart_clock();
        let outcome = run_one(&mut run, name, options.seconds);
        is_well &= outcome.is_ok();
        match outcome {
            Ok(executions) => println!("{name:<20} ok      {executions:>10} executions"),
            Err(stop) => println!("{name:<20} FAILED  {}", why(stop)),
        }
    }
    if !is_well {
        let log = workspace.relative(run.log_path());
        println!("fuzz: inputs that failed are in fuzz/artifacts, what was said in {log}");
    }
    Ok(is_well)
}

/// One target at a time where only one is asked for: each takes a while to link.
fn build(run: &mut Run<'_>, names: &[String]) -> Result<(), Stop> {
    let one = match names {
        [name] => name.as_str(),
        _ => "",
    };
    run.command(&format!("cargo +nightly fuzz build {one}"))
        .target_subdirectory("fuzz")
        .run()?;
    Ok(())
}

/// How many executions there were.
fn run_one(run: &mut Run<'_>, name: &str, seconds: u64) -> Result<u64, Stop> {
    let corpus = format!("fuzz/corpus/{name}");
    fs::create_dir_all(run.workspace.root.join(&corpus))
        .map_err(|e| Stop::Failed(format!("cannot make {corpus}: {e}")))?;
    let mut line = format!("cargo +nightly fuzz run {name} {corpus}");
    let seeds = format!("fuzz/seeds/{name}");
    if run.workspace.root.join(&seeds).is_dir() {
        line.push(' ');
        line.push_str(&seeds);
    }
    line.push_str(&format!(" -- -max_total_time={seconds}"));
    let output = run.command(&line).target_subdirectory("fuzz").run()?;
    match executions(&output) {
        Some(executions) if executions > 0 => Ok(executions),
        _ => Err(Stop::Failed("nothing was executed".to_owned())),
    }
}

/// The number in libFuzzer's last line, `Done 4194304 runs in 21 second(s)`.
fn executions(output: &str) -> Option<u64> {
    output.lines().rev().find_map(|line| {
        let (number, rest) = line.strip_prefix("Done ")?.split_once(' ')?;
        rest.starts_with("runs").then(|| number.parse().ok())?
    })
}

fn why(stop: Stop) -> String {
    match stop {
        Stop::Failed(why) | Stop::Skipped { reason: why, .. } => why,
    }
}

/// The names of the programs in the manifest.
fn targets(workspace: &Workspace) -> Result<Vec<String>, String> {
    let manifest = fs::read_to_string(workspace.root.join(MANIFEST))
        .map_err(|e| format!("cannot read {MANIFEST}: {e}"))?;
    let names = programs(&manifest);
    if names.is_empty() {
        return Err(format!("{MANIFEST} lists no target"));
    }
    Ok(names)
}

fn programs(manifest: &str) -> Vec<String> {
    manifest
        .split("[[bin]]")
        .skip(1)
        .filter_map(|section| {
            section.lines().find_map(|line| {
                let (key, value) = line.split_once('=')?;
                (key.trim() == "name").then(|| value.trim().trim_matches('"').to_owned())
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_the_programs_of_the_manifest() {
        let manifest = "\
[package]
name = \"lane-fuzz\"

[[bin]]
name = \"abi_ids\"
path = \"fuzz_targets/abi_ids.rs\"

[[bin]]
path = \"fuzz_targets/ring_spsc.rs\"
name = \"ring_spsc\"
";
        assert_eq!(programs(manifest), ["abi_ids", "ring_spsc"]);
        assert!(programs("[package]\nname = \"lane-fuzz\"\n").is_empty());
    }

    #[test]
    fn executions_are_in_the_last_line() {
        let output = "\
#2\tINITED cov: 30 ft: 31 corp: 1/1b
#4194304\tDONE   cov: 91 ft: 200 corp: 33/2Kb
Done 4194304 runs in 21 second(s)
";
        assert_eq!(executions(output), Some(4_194_304));
        assert_eq!(executions("==1== ERROR: libFuzzer: deadly signal"), None);
    }
}
