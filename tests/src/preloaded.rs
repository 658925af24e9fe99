//! The same test in a process of its own, under the preloaded library: for where seccomp notification is not permitted.
//!
//! Used by [`Emulated`](crate::Emulated). A process cannot preload itself, so the test program starts itself again, for the
//! one test that is under way; in there the driver is the library's, and nobody can look into it but by its crashes.

use neuron_emu::{Settings, preload};
use std::path::PathBuf;
use std::process::Command;

/// `preload` in this variable has every test behave as if seccomp notification were not permitted.
pub const FRONT: &str = "LANE_TESTS_FRONT";
/// What a test says when it has run there.
pub const SAID: &str = "over the preloaded library";
/// Set in the process that the library is in: the directory of its nodes.
const INSIDE: &str = "LANE_TESTS_PRELOADED";

/// Where the nodes are, if the library answers the calls of this process.
pub(crate) fn directory() -> Option<PathBuf> {
    std::env::var_os(INSIDE).map(PathBuf::from)
}

/// Whether somebody has chosen the library.
pub(crate) fn is_chosen() -> bool {
    std::env::var_os(FRONT).is_some_and(|front| front == "preload")
}

/// Runs the test of this thread again, under the library; `Err` says why that is not possible.
///
/// # Panics
/// When the test fails there, or the driver would have crashed.
pub(crate) fn run_again(settings: &Settings) -> Result<(), String> {
    let test = name_of_test().ok_or("the name of the test is not known")?;
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let crashes = std::env::temp_dir().join(format!("lane-tests-crashes-{}", std::process::id()));
    let mut command = Command::new(program);
    command
        .args(["--exact", &test, "--nocapture"])
        .env(INSIDE, settings.directory())
        .env(preload::BUGS, &crashes);
    preload::prepare(settings, &mut command)?;
    let output = command.output().map_err(|error| error.to_string())?;
    let crashed = std::fs::read_to_string(&crashes).unwrap_or_default();
    // Not there as a rule.
    let _ = std::fs::remove_file(&crashes);
    let said =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(
        output.status.success() && crashed.is_empty(),
        "{SAID}: {}: {crashed}{}{}",
        output.status,
        said[0],
        said[1]
    );
    print!("{}", said[0]);
    Ok(())
}

/// Harnesses name threads by tests, but the one of a program that runs a single test.
fn name_of_test() -> Option<String> {
    let thread = std::thread::current();
    match thread.name() {
        Some(name) if name != "main" => Some(name.to_owned()),
        _ => std::env::args().skip(1).find(|word| !word.starts_with('-')),
    }
}
