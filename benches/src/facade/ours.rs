//! The facade: `execute` on a compute queue, with a set of tensors for each request that may be on its way.

use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use nrta::{ComputeQueue, Execution, LoadedModel, Pending, Runtime, Tensor};

use super::place::{Place, model};
use super::service::{Service, Waits, room};
use crate::pin::{self, Pair};

/// The facade on a device of kind `P`, as a caller uses it who chooses nothing but the number of requests.
pub(crate) struct Ours<P> {
    queue: ComputeQueue,
    model: LoadedModel,
    sets: Vec<Tensors>,
    next: usize,
    /// Goes last: closing it waits for what is on its way.
    _runtime: Runtime,
    _place: PhantomData<fn() -> P>,
}

/// What one execution binds.
struct Tensors {
    image: Tensor,
    scores: Tensor,
    label: Tensor,
}

/// A request on its way.
pub(crate) struct Answer(Pending<Execution>);

impl<P: Place> Ours<P> {
    fn open(processors: Pair, depth: usize) -> Option<Self> {
        let device = P::device(processors)?;
        let builder = Runtime::builder()
            .device(device)
            .compute_limit(room(depth) as u64);
        // The worker inherits the processor that the calling thread is bound to.
        pin::pin(processors[1]);
        let runtime = builder.open();
        pin::pin(processors[0]);
        let runtime = runtime
            .map_err(|fault| eprintln!("no runtime: {fault}"))
            .ok()?;
        let core = runtime.core(0).ok()?;
        let model = core
            .load(model()?, 1)
            .map_err(|fault| eprintln!("no model: {fault}"))
            .ok()?;
        Some(Self {
            queue: core.compute(),
            sets: (0..depth)
                .map(|_| Tensors::of(&model))
                .collect::<Option<_>>()?,
            model,
            next: 0,
            _runtime: runtime,
            _place: PhantomData,
        })
    }
}

impl Tensors {
    fn of(model: &LoadedModel) -> Option<Self> {
        Some(Self {
            image: model.allocate_input(0).ok()?,
            scores: model.allocate_output(0).ok()?,
            label: model.allocate_output(1).ok()?,
        })
    }
}

impl<P: Place> Service for Ours<P> {
    type Answer = Answer;

    fn start(processors: Pair, depth: usize) -> Option<Self> {
        Self::open(processors, depth)
    }

    #[inline]
    fn request(&mut self) -> Answer {
        let Tensors {
            image,
            scores,
            label,
        } = &self.sets[self.next];
        self.next += 1;
        if self.next == self.sets.len() {
            self.next = 0;
        }
        match self.queue.execute(&self.model, &[image], &[scores, label]) {
            Ok(pending) => Answer(pending),
            Err(refused) => panic!("the facade refuses a request: {refused}"),
        }
    }
}

impl<P: Place> Waits for Ours<P> {
    #[inline]
    fn wait(answer: Answer) -> bool {
        answer.0.wait().is_ok()
    }

    fn watch(answer: Answer) -> bool {
        while !answer.0.is_done() {
            std::hint::spin_loop();
        }
        Self::wait(answer)
    }
}

impl Future for Answer {
    type Output = bool;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<bool> {
        Pin::new(&mut self.0)
            .poll(cx)
            .map(|outcome| outcome.is_ok())
    }
}
