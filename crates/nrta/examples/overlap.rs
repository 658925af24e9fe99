//! Prepare, write, execute and read of many batches, one after the other and overlapped, and what the overlap gains.
//!
//! Two tensor-op queues and the compute queue of a core run side by side, and beside all of them the application. With one set
//! of tensors each step waits for the one before; with several sets a batch is prepared and written while another one computes
//! and a third is read.
//!
//! ```text
//!  one at a time  application  prepare write         read prepare write         read
//!                 core                       execute                    execute
//!
//!  overlapped     application  prepare write prepare write read prepare write read prepare write
//!                 core                       execute      execute            execute
//! ```
//!
//! The simulated core computes on the processors of this machine. So that it has a pace of its own, as hardware has, it is told to
//! take as much longer for each execution as the application takes to prepare a batch.
//!
//! ```sh
//! cargo run --release -p nrta --example overlap
//! ```

use nrta::simulated::{Engine, Fault, FaultPlan, Rule, When};
use nrta::{
    Bindings, Core, Execution, LoadedModel, Model, Pending, RequestError, Returned, Runtime, Tensor,
};
use std::collections::VecDeque;
use std::error::Error;
use std::time::{Duration, Instant};

const MODEL: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../examples/digits/model.xum"
);
const BATCH: usize = 8;
/// Rows and columns of an image, as the network takes it.
const IMAGE: usize = 8;
/// Rows and columns of a scan, as the application gets it.
const SCAN: usize = 256;
/// Batches in flight when they overlap.
const DEPTH: usize = 4;
/// Each way is measured so often, in turns; the fastest counts, since whatever else runs here only makes it slower.
const TURNS: usize = 3;

/// A scanned zero: dark is `true`, row by row.
fn scan() -> Vec<bool> {
    let ring = |x: usize, y: usize| {
        let (x, y) = (x as f32 / 128.0 - 1.0, y as f32 / 128.0 - 1.0);
        (0.35..0.75).contains(&(1.7 * x * x + 0.6 * y * y).sqrt())
    };
    let rows = (0..SCAN).flat_map(|y| (0..SCAN).map(move |x| ring(x, y)));
    rows.collect()
}

/// What the application does before a batch can be written: how dark each part of each scan is, 0 to 16.
fn prepare(scan: &[bool]) -> Vec<u8> {
    const SIDE: usize = SCAN / IMAGE;
    let mut images = Vec::with_capacity(BATCH * IMAGE * IMAGE);
    for _ in 0..BATCH {
        let mut dark = [0; IMAGE * IMAGE];
        for (place, _) in scan.iter().enumerate().filter(|(_, dark)| **dark) {
            dark[place / SCAN / SIDE * IMAGE + place % SCAN / SIDE] += 1;
        }
        // CAST: no part is darker than 16.
        images.extend(dark.map(|dark| (dark * 16 / (SIDE * SIDE)) as u8));
    }
    images
}

/// The tensors of one batch in flight.
struct Slot {
    image: Tensor<u8>,
    label: Tensor<u32>,
    bound: Bindings,
}

/// How long a run took, how long it prepared, and for how long it waited for each step.
#[derive(Clone, Copy, Default)]
struct Times {
    total: Duration,
    preparing: Duration,
    writing: Duration,
    executing: Duration,
    reading: Duration,
}

impl Slot {
    fn new(model: &LoadedModel) -> Result<Self, Box<dyn Error>> {
        let (image, label) = (model.input::<u8>("image")?, model.output::<u32>("label")?);
        let scores = model.output::<f32>("scores")?;
        let bound = model.bind(&[&image], &[&scores, &label])?;
        Ok(Self {
            image,
            label,
            bound,
        })
    }
}

/// Adds to `sum` how long `step` takes.
fn timed<T>(sum: &mut Duration, step: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = step();
    *sum += start.elapsed();
    result
}

fn wait<T: Returned>(sum: &mut Duration, request: Pending<T>) -> Result<T, RequestError<T>> {
    timed(sum, || request.wait())
}

/// Classifies `batches` batches with `depth` of them in flight.
fn classify(
    core: &Core,
    model: &LoadedModel,
    scan: &[bool],
    depth: usize,
    batches: usize,
) -> Result<Times, Box<dyn Error>> {
    let (writes, compute, reads) = (core.tensor_op(0)?, core.compute(), core.tensor_op(1)?);
    let idle = (0..depth).map(|_| Slot::new(model));
    let mut idle = idle.collect::<Result<Vec<_>, _>>()?;
    let mut executing: VecDeque<(Slot, Pending<Execution>)> = VecDeque::new();
    let (mut begun, mut done) = (0, 0);
    let mut times = Times::default();
    let start = Instant::now();
    while done < batches {
        // While there are slots, what is in the compute queue goes on behind all this.
        while begun < batches
            && let Some(slot) = idle.pop()
        {
            let images = timed(&mut times.preparing, || prepare(scan));
            let write = writes.write_all(&slot.image, images)?;
            wait(&mut times.writing, write)?;
            let execution = compute.execute_bound(&slot.bound)?;
            executing.push_back((slot, execution));
            begun += 1;
        }
        let Some((slot, execution)) = executing.pop_front() else {
            break;
        };
        wait(&mut times.executing, execution)?;
        let labels = wait(&mut times.reading, reads.read_all(&slot.label)?)?;
        assert_eq!(labels, [0; BATCH], "every scan is a zero");
        done += 1;
        idle.push(slot);
    }
    times.total = start.elapsed();
    Ok(times)
}

/// A runtime whose core takes longer for each execution.
fn open(longer: Duration) -> Result<Runtime, Box<dyn Error>> {
    let fault = Fault::SlowEngine {
        engine: Engine::Pe,
        by_ns: longer.as_nanos().try_into()?,
    };
    let when = When::default();
    let plan = FaultPlan {
        rules: vec![Rule { when, fault }],
    };
    Ok(Runtime::builder().simulated_faults(plan).open()?)
}

/// Runs both ways, and says what they took and what could be gained at most.
pub fn main() -> Result<(), Box<dyn Error>> {
    let batches = if cfg!(debug_assertions) { 15 } else { 500 };
    let scan = scan();
    let preparing = (0..TURNS).map(|_| {
        let mut time = Duration::ZERO;
        timed(&mut time, || prepare(&scan));
        time
    });
    let runtime = open(preparing.min().unwrap_or_default())?;
    let core = runtime.core(0)?;
    let model = core.load(&Model::open(MODEL)?, BATCH as u32)?;

    let (mut alone, mut overlapped) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        alone.push(classify(&core, &model, &scan, 1, batches)?);
        overlapped.push(classify(&core, &model, &scan, DEPTH, batches)?);
    }
    let fastest = |runs: Vec<Times>| runs.into_iter().min_by_key(|times| times.total);
    let alone = fastest(alone).unwrap_or_default();
    let overlapped = fastest(overlapped).unwrap_or_default();

    let gain = |by: Duration| alone.total.as_secs_f64() / by.as_secs_f64();
    let (together, gained) = (overlapped.total, gain(overlapped.total));
    // One thread prepares, and requests of one queue run one at a time: who has most to do sets the pace.
    let Times {
        total,
        preparing,
        writing,
        executing,
        reading,
    } = alone;
    let most = preparing.max(writing).max(executing).max(reading);
    println!("{batches} batches of {BATCH} scans");
    println!("one at a time    {total:.1?}");
    println!(
        "  preparing {preparing:.1?}, writing {writing:.1?}, executing {executing:.1?}, reading {reading:.1?}"
    );
    println!("{DEPTH} in flight      {together:.1?}: {gained:.2} times as fast");
    println!(
        "longest part     {most:.1?}: perfect overlap is {:.2} times as fast",
        gain(most)
    );
    Ok(())
}
