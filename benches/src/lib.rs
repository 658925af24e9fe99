//! What the lane costs: benches that people run, and the reports that measure the ring, the worker and the facade against
//! their peers, and the device layer against the same work by hand.
//!
//! ```text
//!   ring-report ──> options
//!        │
//!        ├──> session ──> cells ──> workload ──> candidates     two pinned threads and a queue
//!        │       │                     └──> windows             which part of a sample counts
//!        │       └──> probe                                     the state of the machine, before and after a sample
//!        └──> bars, report_*                                    what the samples say
//! ```
//!
//! `worker-report` is in `worker`, `device-report` in `device` and `facade-report` in `facade`; all share the session, the
//! windows, the probe and the tables.
//!
//! `cargo xtask bench ring`, `bench worker`, `bench device` and `bench facade` run them. The method is described in `docs/verifying.md`.
//! Peers are dependencies of this package and of no other.
#![deny(unsafe_code)]

mod bars;
mod candidates;
mod cell;
mod cells;
#[allow(unsafe_code, reason = "reads the time-stamp counter")]
mod clock;
mod closed_loop;
mod device;
mod facade;
#[allow(unsafe_code, reason = "a global allocator is an unsafe trait")]
mod heap;
mod host;
mod item;
mod lane;
mod options;
mod pair;
mod pin;
mod probe;
mod random;
mod report_bars;
mod report_choices;
mod report_entry;
mod report_files;
mod report_heading;
mod report_limits;
mod report_markdown;
mod report_run;
mod report_svg;
mod session;
mod statistics;
mod strace;
mod verdict;
mod whole_run;
mod windows;
mod worker;
mod workload;

use std::path::Path;

use cells::Cell;
use clock::Clock;
use options::Options;
use session::Outcome;
use workload::Rig;

pub use closed_loop::{ClosedLoop, LoopClock};
pub use device::device_report;
pub use facade::facade_report;
pub use heap::CountingHeap;
pub use worker::worker_report;

/// Measures what the command line asks for, and prints the report or writes it.
///
/// # Errors
/// The command line is not understood, there are no two processors, or a file cannot be written.
pub fn ring_report(arguments: impl IntoIterator<Item = String>) -> Result<(), String> {
    let options = Options::parse(arguments)?;
    if options.help {
        print!("{}", options::HELP);
        return Ok(());
    }
    let cells: Vec<Cell> = cells::all()
        .into_iter()
        .filter(|cell| options.wants(cell))
        .collect();
    if cells.is_empty() {
        return Err("no cell is left to measure".to_owned());
    }
    let processors = pin::choose()?;
    let clock = Clock::calibrated();
    // Before the run, whose own load is not the machine's.
    let (facts, busy) = (
        host::facts(processors, clock, &host::PEERS),
        host::is_busy(),
    );
    let outcome = session::run(&cells, options.rounds, &mut Rig::new(processors, clock));
    let command = command(&options);
    match &options.output {
        Some(directory) => write(directory, &outcome, &facts, &command, busy),
        None => {
            print!(
                "{}",
                report_markdown::report(&outcome, &facts, &command, &[], busy)
            );
            Ok(())
        }
    }
}

/// What a person types to repeat the run.
fn command(options: &Options) -> String {
    let mut command = format!("cargo xtask bench ring --rounds {}", options.rounds);
    if !options.only.is_empty() {
        command += &format!(" --only {}", options.only.join(","));
    }
    if let Some(cell) = &options.cell {
        command += &format!(" --cell \"{cell}\"");
    }
    command
}

fn write(
    directory: &Path,
    outcome: &Outcome,
    facts: &[(&str, String)],
    command: &str,
    busy: bool,
) -> Result<(), String> {
    let charts = match outcome.states.first() {
        Some(state) => report_svg::charts(&state.cells),
        None => Vec::new(),
    };
    let report = report_markdown::report(outcome, facts, command, &charts, busy);
    let mut files = vec![("bench-ring.md".to_owned(), report)];
    files.extend(charts.into_iter().map(|chart| (chart.file, chart.svg)));
    report_files::write(directory, &files)?;
    println!("{}", report_markdown::bars(outcome));
    println!("written to {}", directory.display());
    Ok(())
}
