//! Stream the images through the cores: write, execute and read requests, many batches in flight.
//!
//! One thread drives everything. Each core has `depth` lanes; a lane takes the next batch, writes it,
//! executes the model, reads the labels, and starts over. While one lane waits, the others move on.

use crate::Failure;
use crate::args::RunArgs;
use crate::dataset::Dataset;
use crate::progress::Progress;
use crate::stats::{DepthOverTime, Latencies};
use futures::stream::{FuturesUnordered, StreamExt};
use nrta::simulated::FaultPlan;
use nrta::{
    Backend, Builder, ComputeQueue, Core, DeviceError, LoadedModel, Model, Refused, Runtime,
    Tensor, TensorOpQueue,
};
use std::cell::RefCell;
use std::error::Error;
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// What a run has found.
#[derive(Debug)]
pub(crate) struct RunResult {
    /// One class per image, from the first pass.
    pub(crate) predictions: Vec<u8>,
    /// Predictions of later passes that differ from the first.
    pub(crate) changed_predictions: u64,
    pub(crate) images: u64,
    pub(crate) requests: u64,
    pub(crate) elapsed: Duration,
    pub(crate) measured: Measured,
}

/// Most bytes of a plan of faults.
const MAX_PLAN: u64 = 1 << 20;

/// What the lanes measure.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    pub(crate) write: Latencies,
    pub(crate) execute: Latencies,
    pub(crate) device: Latencies,
    pub(crate) read: Latencies,
    pub(crate) total: Latencies,
    pub(crate) depth: DepthOverTime,
    pub(crate) queue_full: u64,
}

/// Runs `model` over `dataset`, `args.repeat` times, on the device of the arguments.
pub(crate) fn run(model: &Model, dataset: &Dataset, args: &RunArgs) -> Result<RunResult, Failure> {
    run_on(builder(args)?, model, dataset, args)
}

/// As [`run`], on a device that the caller has chosen.
pub(crate) fn run_on(
    builder: Builder,
    model: &Model,
    dataset: &Dataset,
    args: &RunArgs,
) -> Result<RunResult, Failure> {
    let label_output = dataset.fit(model).map_err(Failure::Input)?;
    let runtime = builder.open().map_err(|error| match &error {
        nrta::Error::Device(DeviceError::BadPlan { .. }) => Failure::Input(error.to_string()),
        _ => Failure::Run(crate::not_opened(&error)),
    })?;
    if args.show_config {
        // Whoever cannot be told is told by nobody: the run goes on.
        let _ = write!(std::io::stderr(), "{}", runtime.settings());
    }
    let lanes = lanes(&runtime, model, label_output, args)
        .map_err(|error| Failure::Run(crate::with_causes(&error)))?;
    // Loading is over: what is measured is the lane.
    let shared = Shared::new(dataset, args);
    let outcome = futures::executor::block_on(async {
        let mut running: FuturesUnordered<_> =
            lanes.into_iter().map(|lane| lane.run(&shared)).collect();
        while let Some(lane) = running.next().await {
            lane?;
        }
        Ok(())
    });
    let elapsed = shared.started.elapsed();
    runtime.close();
    outcome.map_err(|error: Box<dyn Error>| Failure::Run(crate::with_causes(error.as_ref())))?;
    Ok(shared.into_result(elapsed))
}

/// How to open the device.
fn builder(args: &RunArgs) -> Result<Builder, Failure> {
    let builder = Runtime::builder()
        .backend(args.device)
        .cores(args.cores)
        .tpbs_per_core(args.tpbs)
        .poll_policy(args.policy)
        .exec_timeout(Some(Duration::from_secs(args.timeout.into())));
    if args.device == Backend::Simulated {
        return Ok(builder
            .simulated_seed(args.seed)
            .simulated_faults(faults(args.faults.as_deref())?));
    }
    let builder = match &args.dev {
        Some(directory) => builder.neuron_device_directory(directory),
        None => builder,
    };
    Ok(match &args.sys {
        Some(root) => builder.neuron_sysfs(root),
        None => builder,
    })
}

/// The plan of faults in a file; none without a file.
fn faults(file: Option<&Path>) -> Result<FaultPlan, Failure> {
    let Some(file) = file else {
        return Ok(FaultPlan::default());
    };
    let refused = |why: String| Failure::Input(format!("{}: {why}", file.display()));
    // A plan is a page or two; a device or a pipe that never ends is none.
    let mut bytes = Vec::new();
    let read = std::fs::File::open(file)
        .and_then(|open| open.take(MAX_PLAN).read_to_end(&mut bytes))
        .map_err(|error| refused(error.to_string()))?;
    if read as u64 == MAX_PLAN {
        return Err(refused(format!("longer than {MAX_PLAN} bytes")));
    }
    serde_json::from_slice(&bytes).map_err(|error| refused(error.to_string()))
}

/// Loads the model on every core and makes the lanes.
fn lanes(
    runtime: &Runtime,
    model: &Model,
    label_output: usize,
    args: &RunArgs,
) -> Result<Vec<Lane>, nrta::Error> {
    let mut lanes = Vec::new();
    for index in 0..args.cores {
        let core = runtime.core(index)?;
        let loaded = core.load(model, args.batch)?;
        for _ in 0..args.depth {
            lanes.push(Lane::new(&core, &loaded, label_output)?);
        }
    }
    Ok(lanes)
}

/// What all lanes of a run share. They run on one thread.
struct Shared<'a> {
    dataset: &'a Dataset,
    batch: usize,
    batches_per_pass: usize,
    batches: usize,
    started: Instant,
    state: RefCell<State>,
}

struct State {
    next_batch: usize,
    /// `None` until the first pass has classified the image.
    predictions: Vec<Option<u8>>,
    changed: u64,
    images: u64,
    requests: u64,
    measured: Measured,
    progress: Progress,
}

/// A span of images: one request of each kind.
struct Batch {
    first: usize,
    count: usize,
}

impl<'a> Shared<'a> {
    fn new(dataset: &'a Dataset, args: &RunArgs) -> Self {
        let batch = args.batch as usize;
        let batches_per_pass = dataset.len().div_ceil(batch);
        let total = dataset.len() as u64 * u64::from(args.repeat);
        let state = State {
            next_batch: 0,
            predictions: vec![None; dataset.len()],
            changed: 0,
            images: 0,
            requests: 0,
            measured: Measured::default(),
            progress: if args.json || args.quiet {
                Progress::hidden(total)
            } else {
                Progress::on_terminal(total)
            },
        };
        Self {
            dataset,
            batch,
            batches_per_pass,
            batches: batches_per_pass * args.repeat as usize,
            started: Instant::now(),
            state: RefCell::new(state),
        }
    }

    fn next_batch(&self) -> Option<Batch> {
        let mut state = self.state.borrow_mut();
        if state.next_batch == self.batches {
            return None;
        }
        let first = state.next_batch % self.batches_per_pass * self.batch;
        state.next_batch += 1;
        Some(Batch {
            first,
            count: self.batch.min(self.dataset.len() - first),
        })
    }

    fn record(&self, batch: &Batch, labels: &[u8]) {
        let mut state = self.state.borrow_mut();
        for (index, label) in labels.chunks_exact(4).take(batch.count).enumerate() {
            let class = u32::from_le_bytes([label[0], label[1], label[2], label[3]]);
            // A class that is no byte is wrong in any case.
            let class = u8::try_from(class).unwrap_or(u8::MAX);
            let first = *state.predictions[batch.first + index].get_or_insert(class);
            state.changed += u64::from(first != class);
        }
        state.images += batch.count as u64;
        state.requests += 3;
        state.progress.advance(batch.count as u64);
    }

    fn measure(&self, record: impl FnOnce(&mut Measured)) {
        record(&mut self.state.borrow_mut().measured);
    }

    fn into_result(self, elapsed: Duration) -> RunResult {
        let state = self.state.into_inner();
        state.progress.finish();
        RunResult {
            predictions: state.predictions.into_iter().flatten().collect(),
            changed_predictions: state.changed,
            images: state.images,
            requests: state.requests,
            elapsed,
            measured: state.measured,
        }
    }
}

/// One batch in flight: its own tensors and buffers, used again and again.
struct Lane {
    model: LoadedModel,
    writes: TensorOpQueue,
    compute: ComputeQueue,
    reads: TensorOpQueue,
    input: Tensor,
    outputs: Vec<Tensor>,
    label_output: usize,
    pixels: Vec<u8>,
    labels: Vec<u8>,
}

impl Lane {
    fn new(core: &Core, model: &LoadedModel, label_output: usize) -> Result<Self, nrta::Error> {
        let outputs = (0..model.outputs().len())
            .map(|index| model.allocate_output(index))
            .collect::<Result<Vec<_>, _>>()?;
        let input = model.allocate_input(0)?;
        // CAST: batches are small; loading has checked that they fit the device.
        let pixels = vec![0; input.bytes() as usize];
        let labels = vec![0; outputs[label_output].bytes() as usize];
        Ok(Self {
            model: model.clone(),
            writes: core.tensor_op(0)?,
            compute: core.compute(),
            reads: core.tensor_op(1)?,
            input,
            outputs,
            label_output,
            pixels,
            labels,
        })
    }

    async fn run(mut self, shared: &Shared<'_>) -> Result<(), Box<dyn Error>> {
        while let Some(batch) = shared.next_batch() {
            let started = Instant::now();
            self.write(shared, &batch).await?;
            self.execute(shared).await?;
            self.read(shared).await?;
            shared.measure(|measured| measured.total.record(started.elapsed()));
            shared.record(&batch, &self.labels);
        }
        Ok(())
    }

    async fn write(&mut self, shared: &Shared<'_>, batch: &Batch) -> Result<(), Box<dyn Error>> {
        let images = shared.dataset.pixels(batch.first, batch.count);
        self.pixels[..images.len()].copy_from_slice(images);
        // The last batch of a pass may be short: the rest of the tensor is blank images.
        self.pixels[images.len()..].fill(0);
        let started = Instant::now();
        let mut pixels = std::mem::take(&mut self.pixels);
        let pending = loop {
            match self.writes.write(&self.input, 0, pixels) {
                Ok(pending) => break pending,
                Err(refused) => pixels = wait_for_room(shared, refused, self.writes.room()).await?,
            }
        };
        self.pixels = pending.await?;
        shared.measure(|measured| measured.write.record(started.elapsed()));
        Ok(())
    }

    async fn execute(&mut self, shared: &Shared<'_>) -> Result<(), Box<dyn Error>> {
        let started = Instant::now();
        let outputs: Vec<&Tensor> = self.outputs.iter().collect();
        let pending = loop {
            match self.compute.execute(&self.model, &[&self.input], &outputs) {
                Ok(pending) => break pending,
                Err(refused) => wait_for_room(shared, refused, self.compute.room()).await?,
            }
        };
        let depth = self.compute.depth();
        shared.measure(|measured| measured.depth.record(shared.started.elapsed(), depth));
        let execution = pending.await?;
        shared.measure(|measured| {
            measured.execute.record(started.elapsed());
            if let Some(device_time) = execution.device_time {
                measured.device.record(device_time);
            }
        });
        Ok(())
    }

    async fn read(&mut self, shared: &Shared<'_>) -> Result<(), Box<dyn Error>> {
        let started = Instant::now();
        let mut labels = std::mem::take(&mut self.labels);
        let tensor = &self.outputs[self.label_output];
        let pending = loop {
            match self.reads.read(tensor, 0, labels) {
                Ok(pending) => break pending,
                Err(refused) => labels = wait_for_room(shared, refused, self.reads.room()).await?,
            }
        };
        self.labels = pending.await?;
        shared.measure(|measured| measured.read.record(started.elapsed()));
        Ok(())
    }
}

/// Counts a full queue and waits for room; any other refusal ends the run. (Who does not count uses
/// `write_when_room` and its like.)
async fn wait_for_room<A: 'static>(
    shared: &Shared<'_>,
    refused: Refused<A>,
    room: impl Future<Output = ()>,
) -> Result<A, Box<dyn Error>> {
    let args = refused.into_retry()?;
    shared.measure(|measured| measured.queue_full += 1);
    room.await;
    Ok(args)
}
