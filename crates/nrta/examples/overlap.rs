//! Write, execute and read of many batches, one after the other and overlapped, and what the overlap gains.
//!
//! Two tensor-op queues and the compute queue of a core run side by side. With one set of tensors each step waits for the one
//! before; with several sets a batch is written while another one computes and a third is read.
//!
//! ```sh
//! cargo run --release -p nrta --example overlap
//! ```

use nrta::{Core, LoadedModel, Model, Pending, Runtime, Tensor};
use std::collections::VecDeque;
use std::error::Error;
use std::time::{Duration, Instant};

const MODEL: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../examples/digits/model.xum"
);
const BATCH: u32 = 64;
const IMAGE: usize = 64;

/// The tensors of one batch in flight.
struct Slot {
    image: Tensor,
    scores: Tensor,
    label: Tensor,
}

/// Where a batch is.
enum Step {
    Writing(Pending<Vec<u8>>),
    Executing(Pending<nrta::Execution>),
    Reading(Pending<Vec<u32>>),
}

impl Slot {
    fn new(model: &LoadedModel) -> Result<Self, nrta::Error> {
        Ok(Self {
            image: model.allocate_input(0)?,
            scores: model.allocate_output(0)?,
            label: model.allocate_output(1)?,
        })
    }
}

/// Classifies `batches` batches with `depth` of them in flight; returns how long it took.
fn classify(
    core: &Core,
    model: &LoadedModel,
    depth: usize,
    batches: usize,
) -> Result<Duration, Box<dyn Error>> {
    let (writes, reads) = (core.tensor_op(0)?, core.tensor_op(1)?);
    let mut idle: Vec<Slot> = (0..depth)
        .map(|_| Slot::new(model))
        .collect::<Result<_, _>>()?;
    let mut in_flight: VecDeque<(Slot, Step)> = VecDeque::new();
    let (mut begun, mut done) = (0, 0);
    let start = Instant::now();
    while done < batches {
        while begun < batches
            && let Some(slot) = idle.pop()
        {
            let image = vec![0u8; BATCH as usize * IMAGE];
            let step = Step::Writing(writes.write(&slot.image, 0, image)?);
            in_flight.push_back((slot, step));
            begun += 1;
        }
        // The oldest batch takes its next step as soon as it can; those behind it are under way meanwhile.
        let Some((slot, step)) = in_flight.pop_front() else {
            break;
        };
        let next = match step {
            Step::Writing(write) => {
                write.wait()?;
                let outputs = [&slot.scores, &slot.label];
                Step::Executing(core.compute().execute(model, &[&slot.image], &outputs)?)
            }
            Step::Executing(execution) => {
                execution.wait()?;
                let labels = vec![0; BATCH as usize];
                Step::Reading(reads.read_elements(&slot.label, 0, labels)?)
            }
            Step::Reading(read) => {
                assert_eq!(read.wait()?.len(), BATCH as usize);
                done += 1;
                idle.push(slot);
                continue;
            }
        };
        in_flight.push_back((slot, next));
    }
    Ok(start.elapsed())
}

/// Runs both ways and says what they took.
pub fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::builder().open()?;
    let core = runtime.core(0)?;
    let model = core.load(&Model::open(MODEL)?, BATCH)?;
    let batches = if cfg!(debug_assertions) { 50 } else { 500 };
    classify(&core, &model, 1, batches / 10)?;
    let sequential = classify(&core, &model, 1, batches)?;
    let overlapped = classify(&core, &model, 6, batches)?;
    let gain = sequential.as_secs_f64() / overlapped.as_secs_f64();
    println!("one at a time {sequential:?}, six in flight {overlapped:?}: {gain:.2} times as fast");
    Ok(())
}
