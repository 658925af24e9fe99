//! Running a model on the device, as `nrta run --device neuron` does: everything that the lane assumes, at once.
//!
//! Only with `--execute`. **Not harmless on hardware**: the request goes to sequencer memory and to tail-increment registers at
//! addresses that the specification of the emulation has chosen, and the programs of the models of this project are for its own
//! machine. Under the emulation it shows that the whole lane agrees with it. On hardware a failure says nothing of a single
//! fact.
//!
//! The notification ring of the first engine is watched meanwhile: its first record, its laps, and how close the reader comes.

use super::report::Report;
use super::watcher::Watcher;
use super::{ProbeArgs, ProbeError};
use crate::args::RunArgs;
use crate::dataset::{Dataset, Expected};
use crate::pipeline;
use nrta::neuron::{DriverError, Kernel, NeuronDevice, Options, System};
use nrta::{Model, Runtime, TpbIndex};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// What has to be right for an execution to come back.
const FACTS: [&str; 13] = [
    "NQ_OF_FIRST_ENGINE",
    "RECORD_TIMESTAMP_WORD",
    "SEQUENCER_MEMORY",
    "TAIL_INCREMENT",
    "INFERENCE_START",
    "FIRST_PROGRAM_SEMAPHORE",
    "REQUEST_LOADED",
    "MODEL_EXEC_QUEUE",
    "FIRST_TRANSFER_QUEUE",
    "DMA_QUEUES",
    "EVENT_WINDOW",
    "ENGINES_PER_CORE",
    "DOORBELL_AFTER_DESCRIPTORS",
];
/// Limit for one execution.
const LIMIT: Duration = Duration::from_secs(10);
/// Passes over the images: rings of a page wrap several times, and do not end where they began.
const PASSES: u32 = 21;

/// Runs the model in a directory and judges by its predictions.
pub(super) fn run(args: &ProbeArgs, dir: &Path, report: &mut Report) {
    let told = predictions(args, dir, report).map_err(|error| crate::with_causes(error.as_ref()));
    match told {
        Ok((equal, seen)) if equal => {
            for fact in FACTS {
                report.judge(fact, true, seen.clone(), &[]);
            }
            report.note("execution", seen);
        }
        Ok((_, seen)) | Err(seen) => {
            for fact in FACTS {
                report.leave(fact, format!("an execution failed: {seen}"), &[]);
            }
            report.note("execution", format!("failed: {seen}"));
        }
    }
}

/// Whether the predictions were those that are expected, and a sentence.
fn predictions(
    args: &ProbeArgs,
    dir: &Path,
    report: &mut Report,
) -> Result<(bool, String), Box<dyn Error>> {
    let model = Model::open(dir.join("model.xum"))?;
    let dataset = Dataset::open(&dir.join("heldout.xud"))?;
    let expected = Expected::open(&dir.join("expected.json"))?;
    let expected = expected.ok_or("there is no expected.json to compare with")?;
    let (device, core) = open(args)?;
    let tpb = TpbIndex::new(core.into());
    let watcher = Arc::new(Watcher::new(Arc::clone(&device), tpb));
    let run = RunArgs {
        dir: dir.to_owned(),
        cores: 1,
        repeat: PASSES,
        quiet: true,
        ..RunArgs::default()
    };
    let builder = Runtime::builder()
        .device(Arc::<Watcher>::clone(&watcher))
        .first_core(core.into())
        .cores(1)
        .exec_timeout(Some(LIMIT));
    let ran = pipeline::run_on(builder, &model, &dataset, &run);
    let watched = watcher.report(report);
    let result = ran?;
    watched?;
    let equal = expected.compare(&result.predictions).equal && result.changed_predictions == 0;
    let seen = match equal {
        true => format!("{} images on core {core}, all as expected", result.images),
        false => format!(
            "{} images on core {core}, predictions differ",
            result.images
        ),
    };
    Ok((equal, seen))
}

/// Opens the device with one core of it: that of the arguments, or the first that is free.
fn open(args: &ProbeArgs) -> Result<(Arc<NeuronDevice>, u8), ProbeError> {
    let index = super::index(args)?;
    let kernel: Arc<dyn Kernel> = Arc::new(System);
    let of_core = |core: u8| {
        let options = Options {
            directory: args.dev.clone(),
            device: index,
            cores: Some(core..core + 1),
            ..Options::default()
        };
        Ok((NeuronDevice::open(&kernel, &options)?, core))
    };
    if let Some(core) = args.core {
        return of_core(core);
    }
    let mut core = 0;
    loop {
        match of_core(core) {
            Err(ProbeError::Driver(DriverError::CoreTaken { .. })) => core += 1,
            // Beyond the last core the argument is refused.
            other => return other,
        }
    }
}
