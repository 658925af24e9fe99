//! The report on the worker: how fast requests are answered, and what waiting for them costs.
//!
//! ```text
//!   worker-report ──> whole_run
//!        │
//!        ├──> cells ──> samples ──> service        who asks, and who answers
//!        │                 │           ├──> own    the lane, through `crate::lane` alone
//!        │                 │           └──> peers
//!        │                 └──> procfs             whether a thread sleeps, and how long it ran
//!        ├──> costs ──> system_calls (strace), allocations (heap), cpu_time
//!        └──> bars, report, report_costs
//! ```
//!
//! `cargo xtask bench worker` runs it. The method is described in `docs/verifying.md`.

mod allocations;
mod bars;
mod cells;
mod costs;
mod cpu_time;
mod own;
pub(crate) mod peers;
mod procfs;
mod report;
mod report_costs;
pub(crate) mod samples;
pub(crate) mod service;
mod system_calls;
pub(crate) mod tally;

use crate::clock::Clock;
use crate::report_heading::Heading;
use crate::whole_run::{Subject, WholeRun};
use crate::workload::Rig;
use crate::{host, pin, report_files, session};
use costs::Costs;
use system_calls::Errand;

pub(crate) use cells::{DEPTHS, Entry, loops};

const SUBJECT: Subject = Subject {
    name: "worker",
    what: "the worker against its peers",
    has_errands: true,
};

/// Peers, as the registry calls them.
const PEERS: [&str; 4] = ["rtrb", "tokio", "crossbeam-channel", "io-uring"];

/// Measures everything, and prints the report or writes it.
///
/// # Errors
/// The command line is not understood, there are no two processors, or a file cannot be written.
pub fn worker_report(arguments: impl IntoIterator<Item = String>) -> Result<(), String> {
    let options = WholeRun::parse(&SUBJECT, arguments)?;
    if options.help {
        print!("{}", SUBJECT.help());
        return Ok(());
    }
    if let Some(errand) = &options.errand {
        return system_calls::run(Errand::parse(errand)?);
    }
    let processors = pin::choose()?;
    let clock = Clock::calibrated();
    // Before the run, whose own load is not the machine's.
    let (facts, busy) = (host::facts(processors, clock, &PEERS), host::is_busy());
    let mut rig = Rig::new(processors, clock);
    let outcome = session::run(&cells::all(), options.rounds, &mut rig);
    let costs = Costs::measured(processors, options.smoke);
    let heading = Heading {
        facts: &facts,
        command: &options.command(&SUBJECT),
        busy,
        smoke: options.smoke,
    };
    let text = report::report(&outcome, &costs, &heading);
    match &options.output {
        None => print!("{text}"),
        Some(directory) => {
            report_files::write(directory, &[("bench-worker.md".to_owned(), text)])?;
            println!("{}", report::bars(&outcome, &costs));
            println!("written to {}", directory.display());
        }
    }
    Ok(())
}
