//! The report on the device layer: what stager and harvester cost besides the bytes that they have to move.
//!
//! ```text
//!   device-report ──> whole_run
//!        │
//!        ├──> cells ──> samples ──> subject
//!        │                             ├──> lane       stager and harvester, on ...
//!        │                             │     ├──> null     a device that costs nothing
//!        │                             │     └──> the simulated machine
//!        │                             └──> by_hand    the same bytes without them
//!        ├──> calls                                    how often an execution calls the device
//!        └──> report
//! ```
//!
//! `cargo xtask bench device` runs it. The method is described in `docs/verifying.md`.

mod by_hand;
mod calls;
mod cells;
mod lane;
pub(crate) mod null;
mod report;
mod samples;
mod subject;

use crate::clock::Clock;
use crate::report_heading::Heading;
use crate::whole_run::{Subject, WholeRun};
use crate::workload::Rig;
use crate::{host, pin, report_files, session};

const SUBJECT: Subject = Subject {
    name: "device",
    what: "stager and harvester against the same work by hand",
    has_errands: false,
};

/// Measures everything, and prints the report or writes it.
///
/// # Errors
/// The command line is not understood, there are no two processors, or a file cannot be written.
pub fn device_report(arguments: impl IntoIterator<Item = String>) -> Result<(), String> {
    let options = WholeRun::parse(&SUBJECT, arguments)?;
    if options.help {
        print!("{}", SUBJECT.help());
        return Ok(());
    }
    let processors = pin::choose()?;
    let clock = Clock::calibrated();
    // Before the run, whose own load is not the machine's.
    let (facts, busy) = (host::facts(processors, clock, &[]), host::is_busy());
    let mut rig = Rig::new(processors, clock);
    let outcome = session::run(&cells::all(), options.rounds, &mut rig);
    let heading = Heading {
        facts: &facts,
        command: &options.command(&SUBJECT),
        busy,
        smoke: options.smoke,
    };
    let text = report::report(&outcome, &calls::count(), &heading);
    match &options.output {
        None => print!("{text}"),
        Some(directory) => {
            report_files::write(directory, &[("bench-device.md".to_owned(), text)])?;
            println!("{}", report::overheads(&outcome));
            println!("written to {}", directory.display());
        }
    }
    Ok(())
}
