//! `nrta probe`: what a device says to every fact that nobody has seen on one yet.
//!
//! Run by owners of hardware, by way of `scripts/hardware-report`; the report comes back as text and JSON. What each fact is good
//! for stands in `docs/hardware-checklist.md`.
//!
//! ```text
//!  Subject: one core, claimed, then its device opened, then the core reset
//!     |
//!  experiments: each answers some facts  ──> Report: CONFIRMED, REFUTED, NOT TESTED, with values and raw words
//!     |
//!  the core is reset again, and everything given back
//! ```
//!
//! Experiments are harmless: they use memory of their own, the highest semaphore and event, the last notification queue, and DMA
//! queues that nobody else uses, of a core that is claimed, by the guarded calls of [`nrta::neuron`] only. The one exception is not
//! run unless it is asked for: [`execution`] runs a model, and so writes to addresses that nobody has verified.
//!
//! | module | subject |
//! |---|---|
//! | [`facts`] | all facts |
//! | [`report`] | verdicts |
//! | [`subject`] | the core that is looked at |
//! | [`chunks`] | memory |
//! | [`semaphores`] | semaphores, events, windows |
//! | [`registers`] | the registers of a notification block |
//! | [`rings`] | DMA |
//! | [`records`] | notification records of DMA |
//! | [`execution`] | running a model |
//! | [`watcher`] | the notification ring meanwhile |
//! | [`render`] | print the report |

mod chunks;
mod execution;
mod facts;
#[cfg(test)]
mod lies;
mod records;
mod registers;
mod render;
mod report;
mod rings;
mod semaphores;
mod subject;
mod watcher;

pub(crate) use render::{json, list, text};
pub(crate) use report::{Report, Verdict};

use nrta::neuron::{DriverError, Kernel, System, discovery};
use std::path::PathBuf;
use std::sync::Arc;
use subject::Subject;

/// What to look at.
#[derive(Debug)]
pub(crate) struct ProbeArgs {
    /// Directory of the device nodes.
    pub(crate) dev: PathBuf,
    /// Index of the device; `None` is the first.
    pub(crate) index: Option<u32>,
    /// Core of the device; `None` is the last that is free.
    pub(crate) core: Option<u8>,
    /// Whether the core is reset before and after.
    pub(crate) reset: bool,
    /// The model to run, with everything that this means.
    pub(crate) execute: Option<PathBuf>,
    /// Only name the facts.
    pub(crate) list: bool,
    pub(crate) json: bool,
    /// Where the report goes as JSON, besides.
    pub(crate) json_file: Option<PathBuf>,
}

impl Default for ProbeArgs {
    fn default() -> Self {
        Self {
            dev: discovery::ROOT.into(),
            index: None,
            core: None,
            reset: true,
            execute: None,
            list: false,
            json: false,
            json_file: None,
        }
    }
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProbeError {
    #[error("no Neuron device: there is no node in {}; `nrta doctor` says how to go on", dev.display())]
    NoDevice { dev: PathBuf },
    #[error(
        "no core of neuron{index} is free: end the processes that hold them (`nrta doctor --deep`)"
    )]
    NoCore { index: u32 },
    #[error(transparent)]
    Driver(#[from] DriverError),
}

/// An experiment, and the facts that it may answer.
struct Experiment {
    facts: &'static [&'static str],
    run: fn(&mut Subject, &mut Report) -> Result<(), DriverError>,
}

/// In this order: registers are looked at before anything is set up, and handles before anything is allocated.
const EXPERIMENTS: [Experiment; 6] = [
    registers::EXPERIMENT,
    chunks::EXPERIMENT,
    semaphores::EXPERIMENT,
    semaphores::WINDOWS,
    rings::EXPERIMENT,
    records::EXPERIMENT,
];

/// Makes every experiment.
///
/// # Errors
/// When there is no device, no free core, or the device cannot be opened. What goes wrong later is a part of the report.
pub(crate) fn run(args: &ProbeArgs) -> Result<Report, ProbeError> {
    let mut report = look(Arc::new(System), args)?;
    if let Some(model) = &args.execute {
        execution::run(args, model, &mut report);
    }
    Ok(report)
}

/// Makes the harmless experiments.
fn look(kernel: Arc<dyn Kernel>, args: &ProbeArgs) -> Result<Report, ProbeError> {
    let index = index(args)?;
    let mut subject = Subject::open(kernel, &args.dev, index, args.core)?;
    let mut report = Report::new(&subject);
    if args.reset {
        subject.reset(&mut report);
    }
    for experiment in &EXPERIMENTS {
        if let Err(error) = (experiment.run)(&mut subject, &mut report) {
            report.failed(experiment.facts, &error);
        }
    }
    if args.reset {
        subject.reset(&mut report);
    }
    Ok(report)
}

/// The device to look at.
fn index(args: &ProbeArgs) -> Result<u32, ProbeError> {
    if let Some(index) = args.index {
        return Ok(index);
    }
    let devices = discovery::devices(&args.dev)?;
    devices
        .first()
        .copied()
        .ok_or_else(|| ProbeError::NoDevice {
            dev: args.dev.clone(),
        })
}
