//! Running a model on the device, as `nrta run --device neuron` does: everything that the lane assumes, at once.
//!
//! Only with `--execute`. **Not harmless on hardware**: the request goes to sequencer memory and to tail-increment registers at
//! addresses that the specification of the emulation has chosen, and the programs of the models of this project are for its own
//! machine. Under the emulation it shows that the whole lane agrees with it. On hardware a failure says nothing of a single
//! fact.

use super::ProbeArgs;
use super::report::Report;
use crate::args::RunArgs;
use crate::dataset::{Dataset, Expected};
use crate::pipeline;
use nrta::{Backend, Model};
use std::path::Path;

/// What has to be right for an execution to come back.
const FACTS: [&str; 18] = [
    "NQ_FIRST_PHASE",
    "FIRST_PHASE",
    "PHASE_FLIPS",
    "NQ_HEAD_UNIT",
    "NQ_OF_FIRST_ENGINE",
    "NQ_TAIL",
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
/// Passes over the images: the notification rings wrap several times.
const PASSES: u32 = 20;

/// Runs the model in a directory and judges by its predictions.
pub(super) fn run(args: &ProbeArgs, dir: &Path, report: &mut Report) {
    match predictions(args, dir) {
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

fn predictions(args: &ProbeArgs, dir: &Path) -> Result<(bool, String), String> {
    let text = |error: &dyn std::error::Error| crate::with_causes(error);
    let model = Model::open(dir.join("model.xum")).map_err(|error| text(&error))?;
    let dataset = Dataset::open(&dir.join("heldout.xud")).map_err(|error| text(&error))?;
    let expected = Expected::open(&dir.join("expected.json")).map_err(|error| text(&error))?;
    let expected = expected.ok_or("there is no expected.json to compare with")?;
    let run = RunArgs {
        dir: dir.to_owned(),
        device: Backend::RealDriver,
        dev: Some(args.dev.clone()),
        cores: 1,
        repeat: PASSES,
        quiet: true,
        ..RunArgs::default()
    };
    let result = pipeline::run(&model, &dataset, &run).map_err(|failure| failure.to_string())?;
    let equal = expected.compare(&result.predictions).equal && result.changed_predictions == 0;
    let seen = match equal {
        true => format!("{} images on one core, all as expected", result.images),
        false => format!("{} images on one core, predictions differ", result.images),
    };
    Ok((equal, seen))
}
