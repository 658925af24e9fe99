//! The report on the facade: what `schedule().await` costs a service, against the design with `tokio` that its author would
//! write without this project.
//!
//! ```text
//!   facade-report ──> whole_run
//!        │
//!        ├──> cells ──> callers ──> service        the same loop asks both
//!        │                            ├──> ours    `nrta`
//!        │                            ├──> by_hand `mpsc`, `oneshot` and a thread that owns the device; or a task
//!        │                            ├──> eager   either of them, whose answers are looked at again
//!        │                            └──> place   the device: without latency, or the simulated machine
//!        ├──> costs ──> strace, heap
//!        └──> bars, report
//! ```
//!
//! `cargo xtask bench facade` runs it. The method is described in `docs/verifying.md`.

mod bars;
mod by_hand;
mod callers;
mod cells;
mod costs;
mod eager;
mod ours;
mod place;
mod report;
mod service;

use crate::clock::Clock;
use crate::report_heading::Heading;
use crate::whole_run::{Subject, WholeRun};
use crate::workload::Rig;
use crate::{host, pin, report_files, session};
use costs::Costs;

pub(crate) use cells::{Entry, loops};

const SUBJECT: Subject = Subject {
    name: "facade",
    what: "the facade against a design with tokio that does the same work",
    has_errands: true,
};

/// Peers, as the registry calls them.
const PEERS: [&str; 1] = ["tokio"];

/// Measures everything, and prints the report or writes it.
///
/// # Errors
/// The command line is not understood, there are no two processors, or a file cannot be written.
pub fn facade_report(arguments: impl IntoIterator<Item = String>) -> Result<(), String> {
    let options = WholeRun::parse(&SUBJECT, arguments)?;
    if options.help {
        print!("{}", SUBJECT.help());
        return Ok(());
    }
    if let Some(errand) = &options.errand {
        return costs::run(errand);
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
            report_files::write(directory, &[("bench-facade.md".to_owned(), text)])?;
            println!("{}", report::bars(&outcome, &costs));
            println!("written to {}", directory.display());
        }
    }
    Ok(())
}
