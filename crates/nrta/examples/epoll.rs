//! An event loop of the application's own, on epoll and without any async runtime: images come in through a pipe, a timer ticks,
//! and three queues say what they have completed.
//!
//! ```text
//!                         ┌── pipe: an image            ── take it, write it to a free slot
//!                         ├── queue 0: writes complete  ── execute the slots that they belong to
//!   epoll_wait, one thread┼── compute: executions       ── read their labels
//!                         ├── queue 1: reads            ── count, the slot is free
//!                         └── timer                     ── say how far it is
//! ```
//!
//! Nothing here blocks but `epoll_wait`. A queue is in order, so the count of its event says which requests are complete: the
//! oldest ones. When every slot is in use the pipe is not listened to, so that whoever writes to it has to wait.
//!
//! ```sh
//! cargo run --release -p nrta --example epoll
//! ```

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nrta::{
    Bindings, CompletionEvent, ComputeQueue, Core, Execution, LoadedModel, Model, Pending, Runtime,
    Tensor, TensorOpQueue,
};
use std::collections::VecDeque;
use std::error::Error;
use std::fs;
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

const DIGITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/digits");
const IMAGE: usize = 64;
/// Images in flight.
const SLOTS: usize = 8;
const TICK: Duration = Duration::from_millis(5);

/// What an event of the loop is of.
#[derive(Clone, Copy)]
#[repr(u64)]
enum Source {
    Pipe,
    Writes,
    Executions,
    Reads,
    Timer,
}

impl Source {
    const ALL: [Self; 5] = [
        Self::Pipe,
        Self::Writes,
        Self::Executions,
        Self::Reads,
        Self::Timer,
    ];

    fn of(event: &EpollEvent) -> Option<Self> {
        let is = |source: &Self| *source as u64 == event.data();
        Self::ALL.into_iter().find(is)
    }
}

/// The tensors of one image in flight.
struct Slot {
    image: Tensor<u8>,
    label: Tensor<u32>,
    bound: Bindings,
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

/// The requests of one queue that are in flight, the oldest first, and the event that counts those that are complete.
struct Stage<T: nrta::Returned> {
    event: CompletionEvent,
    in_flight: VecDeque<(Slot, Pending<T>)>,
}

impl<T: nrta::Returned> Stage<T> {
    fn new() -> io::Result<Self> {
        Ok(Self {
            event: CompletionEvent::new()?,
            in_flight: VecDeque::new(),
        })
    }

    /// The slots whose requests are complete, with what came of them. Never blocks.
    fn completed(&mut self) -> Result<Vec<(Slot, T)>, Box<dyn Error>> {
        let mut completed = Vec::new();
        for _ in 0..self.event.drain()? {
            let (slot, request) = self.in_flight.pop_front().ok_or("a count too many")?;
            // Who has the count finds the outcome.
            let outcome = request.try_take().map_err(|_| "not complete")?;
            completed.push((slot, outcome.map_err(|error| error.to_string())?));
        }
        Ok(completed)
    }
}

/// The application: where every image is.
struct Pipeline {
    pipe: PipeReader,
    open: bool,
    free: Vec<Slot>,
    moves_in: TensorOpQueue,
    compute: ComputeQueue,
    moves_out: TensorOpQueue,
    writes: Stage<Vec<u8>>,
    executions: Stage<Execution>,
    reads: Stage<Vec<u32>>,
    labels: Vec<u32>,
}

impl Pipeline {
    fn new(core: &Core, model: &LoadedModel, pipe: PipeReader) -> Result<Self, Box<dyn Error>> {
        let slots = (0..SLOTS).map(|_| Slot::new(model));
        Ok(Self {
            pipe,
            open: true,
            free: slots.collect::<Result<_, _>>()?,
            moves_in: core.tensor_op(0)?,
            compute: core.compute(),
            moves_out: core.tensor_op(1)?,
            writes: Stage::new()?,
            executions: Stage::new()?,
            reads: Stage::new()?,
            labels: Vec::new(),
        })
    }

    fn is_done(&self) -> bool {
        !self.open && self.free.len() == SLOTS
    }

    /// Whether an image could be taken now.
    fn wants_image(&self) -> bool {
        self.open && !self.free.is_empty()
    }

    /// The pipe is readable: takes one image. There is a whole one, or the end: images are written whole.
    fn take_image(&mut self) -> Result<(), Box<dyn Error>> {
        let mut pixels = vec![0; IMAGE];
        match self.pipe.read_exact(&mut pixels) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => self.open = false,
            Err(error) => return Err(error.into()),
            Ok(()) => {
                let slot = self.free.pop().ok_or("no slot is free")?;
                let write = self.moves_in.write_all(&slot.image, pixels)?;
                self.writes.in_flight.push_back((slot, write));
            }
        }
        Ok(())
    }

    fn execute_what_is_written(&mut self) -> Result<(), Box<dyn Error>> {
        for (slot, _pixels) in self.writes.completed()? {
            let execution = self.compute.execute_bound(&slot.bound)?;
            self.executions.in_flight.push_back((slot, execution));
        }
        Ok(())
    }

    fn read_what_is_executed(&mut self) -> Result<(), Box<dyn Error>> {
        for (slot, _times) in self.executions.completed()? {
            let read = self.moves_out.read_all(&slot.label)?;
            self.reads.in_flight.push_back((slot, read));
        }
        Ok(())
    }

    fn keep_what_is_read(&mut self) -> Result<(), Box<dyn Error>> {
        for (slot, label) in self.reads.completed()? {
            self.labels.extend(label);
            self.free.push(slot);
        }
        Ok(())
    }

    /// How far each queue is, without waiting: its newest request, and whether that one is complete.
    fn progress(&self) -> Result<String, Box<dyn Error>> {
        let (newest, done) = (self.compute.last_issued(), self.compute.last_completed());
        let idle = newest == done || self.compute.is_completed(newest)?;
        let state = if idle { "idle" } else { "busy" };
        Ok(format!("{} labels, compute is {state}", self.labels.len()))
    }
}

/// The loop: one thread, until the pipe is closed and every image has its label. Returns the labels in the order of the images.
fn run(core: &Core, model: &LoadedModel, pipe: PipeReader) -> Result<Vec<u32>, Box<dyn Error>> {
    let mut pipeline = Pipeline::new(core, model, pipe)?;
    // From here on every completion is counted; dropping these ends it.
    let _subscriptions = [
        pipeline.moves_in.subscribe_each(&pipeline.writes.event)?,
        pipeline
            .compute
            .subscribe_each(&pipeline.executions.event)?,
        pipeline.moves_out.subscribe_each(&pipeline.reads.event)?,
    ];
    let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK)?;
    let tick = Expiration::Interval(TimeSpec::from_duration(TICK));
    timer.set(tick, TimerSetTimeFlags::empty())?;

    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    let readable = |source| EpollEvent::new(EpollFlags::EPOLLIN, source as u64);
    epoll.add(&pipeline.writes.event, readable(Source::Writes))?;
    epoll.add(&pipeline.executions.event, readable(Source::Executions))?;
    epoll.add(&pipeline.reads.event, readable(Source::Reads))?;
    epoll.add(&timer, readable(Source::Timer))?;
    let mut listens = false;
    let mut events = [EpollEvent::empty(); Source::ALL.len()];
    while !pipeline.is_done() {
        if pipeline.wants_image() != listens {
            match listens {
                false => epoll.add(pipeline.pipe.as_fd(), readable(Source::Pipe))?,
                true => epoll.delete(pipeline.pipe.as_fd())?,
            }
            listens = !listens;
        }
        let ready = match epoll.wait(&mut events, EpollTimeout::NONE) {
            Err(nix::Error::EINTR) => continue,
            ready => ready?,
        };
        for source in events[..ready].iter().filter_map(Source::of) {
            match source {
                Source::Pipe => pipeline.take_image()?,
                Source::Writes => pipeline.execute_what_is_written()?,
                Source::Executions => pipeline.read_what_is_executed()?,
                Source::Reads => pipeline.keep_what_is_read()?,
                Source::Timer => {
                    timer.wait()?;
                    println!("{}", pipeline.progress()?);
                }
            }
        }
    }
    Ok(pipeline.labels)
}

/// Classifies the held-out images of the example, which another thread writes to the pipe.
pub fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::builder().compute_limit(SLOTS as u64).open()?;
    let core = runtime.core(0)?;
    let model = core.load(&Model::open(format!("{DIGITS}/model.xum"))?, 1)?;

    // Pixels, then labels, behind a header: see the README there.
    let file = fs::read(format!("{DIGITS}/heldout.xud"))?;
    let images = file.get(24..).ok_or("no header")?;
    let (pixels, truth) = images.split_at(images.len() / (IMAGE + 1) * IMAGE);

    let (reader, mut writer) = io::pipe()?;
    let labels = thread::scope(|scope| {
        // A write of so few bytes to a pipe is whole. It waits while the pipe is full.
        scope.spawn(move || {
            pixels
                .chunks(IMAGE)
                .try_for_each(|image| writer.write_all(image))
        });
        run(&core, &model, reader)
    })?;
    let right = labels.iter().zip(truth);
    let right = right.filter(|(label, truth)| **label == u32::from(**truth));
    println!("{} of {} right", right.clone().count(), labels.len());
    assert_eq!((right.count(), labels.len()), (491, truth.len()));
    Ok(())
}
