//! `cargo xtask`: the developer's commands of this workspace.
//!
//! ```text
//!   cli ──> verify ──> steps ──> process      runs one command within a time budget
//!             │          ├────> tools        is it there, how to get it
//!             │          ├────> count        how many tests ran
//!             │          ├────> tidy         rules that no other tool knows
//!             │          ├────> package      what a registry would get
//!             │          └────> abi          the committed layouts are those of the code
//!             └──> report                    the table and the closing line
//!   cli ──> abi                             prints them, or writes them down
//!   cli ──> bench                           runs a measuring harness
//!   cli ──> fuzz                            runs the fuzz targets, each for a while
//!   cli ──> soak                            runs the property over random faults for long
//! ```
//!
//! Nothing but the standard library, so that it builds in seconds and adds nothing to the lock file.

mod abi;
mod bench;
mod cli;
mod count;
mod fuzz;
mod package;
mod process;
mod report;
mod soak;
mod step;
mod steps;
mod tidy;
mod tools;
mod verify;
mod workspace;

use std::process::ExitCode;

use cli::Command;
use workspace::Workspace;

/// What a command answers when it was called wrongly, as opposed to having found a fault.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let command = match cli::parse(std::env::args().skip(1)) {
        Ok(command) => command,
        Err(wrong) => {
            eprintln!("cargo xtask: {wrong}\nTry `cargo xtask help`.");
            return ExitCode::from(USAGE);
        }
    };
    match run(command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(fault) => {
            eprintln!("cargo xtask: {fault}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all is well.
fn run(command: Command) -> Result<bool, String> {
    if let Command::Help = command {
        print!("{}", cli::help());
        return Ok(true);
    }
    let workspace = Workspace::find()?;
    match command {
        Command::Help => Ok(true),
        Command::Verify(options) => verify::verify(&workspace, &options),
        Command::Setup => tools::setup(&workspace),
        Command::Abi { write } => abi::abi(&workspace, write).map(|()| true),
        Command::BenchRing(options) => bench::ring(&workspace, &options),
        Command::BenchWorker(options) => bench::worker(&workspace, &options),
        Command::BenchDevice(options) => bench::device(&workspace, &options),
        Command::BenchFacade(options) => bench::facade(&workspace, &options),
        Command::Fuzz(options) => fuzz::fuzz(&workspace, &options),
        Command::Soak(options) => soak::soak(&workspace, &options),
        Command::Tidy => {
            let tidied = tidy::check(&workspace.root)?;
            for finding in &tidied.findings {
                println!("{finding}");
            }
            println!("tidy: {}", tidied.summary());
            Ok(tidied.findings.is_empty())
        }
    }
}
