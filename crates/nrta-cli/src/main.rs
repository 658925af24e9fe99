//! `nrta`: run a model over the lane from the command line.
//!
//! A thin client of the `nrta` crate; anything that a library user would need too belongs there.
//!
//! | module | subject |
//! |---|---|
//! | [`args`] | the command line |
//! | [`dataset`] | labelled images and the expected result |
//! | [`pipeline`] | stream images through the cores |
//! | [`stats`] | latencies, depth, confusion |
//! | [`report`] | print the result |
//! | [`progress`] | the progress bar |
//! | `probe` | what a device says to facts that nobody has seen on one (feature `real-driver`) |
//! | `doctor` | what a host needs for devices, and what to do about it (feature `real-driver`) |
#![forbid(unsafe_code)]

mod args;
mod dataset;
#[cfg(feature = "real-driver")]
mod doctor;
mod pipeline;
#[cfg(feature = "real-driver")]
mod probe;
mod progress;
mod report;
mod stats;

#[cfg(feature = "real-driver")]
use args::DoctorArgs;
use args::{Command, RunArgs};
use dataset::{Dataset, Expected};
#[cfg(feature = "real-driver")]
use probe::{ProbeArgs, ProbeError, Verdict};
use std::error::Error;
use std::io::Write;
use std::process::ExitCode;

/// Why the command did not succeed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The command line or a file is not acceptable: exit code 2.
    #[error("{0}")]
    Input(String),
    /// The run itself failed: exit code 1.
    #[error("{0}")]
    Run(String),
}

fn main() -> ExitCode {
    match args::parse().and_then(execute) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // One line, whatever the cause contains; whoever cannot be told is told by the exit code.
            let line: String = failure
                .to_string()
                .chars()
                .map(|c| if c.is_control() { ' ' } else { c })
                .collect();
            let _ = writeln!(std::io::stderr(), "nrta: {line}");
            match failure {
                Failure::Input(_) => ExitCode::from(2),
                Failure::Run(_) => ExitCode::from(1),
            }
        }
    }
}

fn execute(command: Command) -> Result<(), Failure> {
    match command {
        Command::Help => report::print(args::HELP),
        Command::Version => report::print(concat!("nrta ", env!("CARGO_PKG_VERSION"), "\n")),
        Command::Run(args) => run(&args),
        Command::Config { json } => config(json),
        #[cfg(feature = "real-driver")]
        Command::Doctor(args) => doctor(&args),
        #[cfg(feature = "real-driver")]
        Command::Probe(args) => probe(&args),
    }
}

/// What a runtime would be opened with in this environment.
fn config(json: bool) -> Result<(), Failure> {
    let settings = nrta::Builder::from_env().and_then(|builder| builder.settings());
    let settings = settings.map_err(|error| Failure::Input(not_opened(&error)))?;
    report::print(&if json {
        settings.to_json() + "\n"
    } else {
        settings.to_string()
    })
}

/// What of this host is as a runtime on devices needs it.
#[cfg(feature = "real-driver")]
fn doctor(args: &DoctorArgs) -> Result<(), Failure> {
    let findings = doctor::examine(&args.host, args.scope);
    report::print(&match args.json {
        true => doctor::json(&findings),
        false => doctor::text(&findings),
    })?;
    match doctor::has_problem(&findings) {
        true => Err(Failure::Run("there are problems".into())),
        false => Ok(()),
    }
}

/// What a device says to every fact that nobody has seen on one.
#[cfg(feature = "real-driver")]
fn probe(args: &ProbeArgs) -> Result<(), Failure> {
    if args.list {
        return report::print(&probe::list());
    }
    let found = probe::run(args).map_err(|error| match error {
        ProbeError::NoDevice { .. } => Failure::Input(error.to_string()),
        other => Failure::Run(with_causes(&other)),
    })?;
    if let Some(file) = &args.json_file {
        std::fs::write(file, probe::json(&found))
            .map_err(|error| Failure::Run(format!("{}: {error}", file.display())))?;
    }
    report::print(&match args.json {
        true => probe::json(&found),
        false => probe::text(&found),
    })?;
    match found.count(Verdict::Refuted) {
        0 if found.has_failed_reset => Err(Failure::Run("a reset of the core failed".into())),
        0 => Ok(()),
        count => Err(Failure::Run(format!(
            "facts that the device refutes: {count}"
        ))),
    }
}

fn run(args: &RunArgs) -> Result<(), Failure> {
    let input = |error: &dyn Error| Failure::Input(with_causes(error));
    let path = args.dir.join("model.xum");
    let model = nrta::Model::open(&path).map_err(|error| input(&error))?;
    let dataset = Dataset::open(&args.dir.join("heldout.xud")).map_err(|error| input(&error))?;
    let expected =
        Expected::open(&args.dir.join("expected.json")).map_err(|error| input(&error))?;
    let result = pipeline::run(&model, &dataset, args)?;
    let verdict = expected.map(|expected| expected.compare(&result.predictions));
    let text = if args.json {
        report::json(args, &dataset, &result, verdict.as_ref())
    } else {
        report::text(args, &model, &dataset, &result, verdict.as_ref())
    };
    report::print(&text)?;
    match verdict {
        Some(verdict) if !verdict.equal => {
            Err(Failure::Run("predictions differ from expected.json".into()))
        }
        _ if result.changed_predictions > 0 => Err(Failure::Run(format!(
            "{} predictions changed between passes",
            result.changed_predictions
        ))),
        _ => Ok(()),
    }
}

/// Why a runtime is not opened, and who knows more.
fn not_opened(error: &nrta::Error) -> String {
    let text = with_causes(error);
    #[cfg(feature = "real-driver")]
    if matches!(error, nrta::Error::Driver(_)) {
        return text + "; `nrta doctor` says how to go on";
    }
    text
}

/// What went wrong, and why, on one line.
fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let part = error.to_string();
        if !text.contains(&part) {
            text = format!("{text}: {part}");
        }
        cause = error.source();
    }
    text
}
