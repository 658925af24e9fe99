//! The facade: executions on a compute queue, with a set of tensors for each request that may be on its way.

use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use nrta::{Bindings, ComputeQueue, Execution, LoadedModel, Pending, Refused, Runtime, Tensor};

use super::place::{Place, model};
use super::service::{Service, Waits, room};
use crate::pin::{self, Pair};

/// The facade on a device of kind `P`, as a caller uses it who chooses nothing but the number of requests.
pub(crate) struct Ours<P, W = Bound> {
    queue: ComputeQueue,
    /// One for each request that may be on its way.
    sets: Vec<W>,
    next: usize,
    /// Goes last: closing it waits for what is on its way.
    _runtime: Runtime,
    _place: PhantomData<fn() -> P>,
}

/// A way to say what an execution binds.
pub(crate) trait Way: Sized + Send + 'static {
    fn of(model: &LoadedModel) -> Option<Self>;
    fn execute(&self, queue: &ComputeQueue) -> Result<Pending<Execution>, Refused<()>>;
}

/// Bound once, as a service does it.
pub(crate) struct Bound(Bindings);

/// Given with each call, and checked each time.
pub(crate) struct Each {
    model: LoadedModel,
    tensors: Tensors,
}

struct Tensors {
    image: Tensor,
    scores: Tensor,
    label: Tensor,
}

/// A request on its way.
pub(crate) struct Answer(Pending<Execution>);

impl Way for Bound {
    fn of(model: &LoadedModel) -> Option<Self> {
        let tensors = Tensors::of(model)?;
        let outputs = [&tensors.scores, &tensors.label];
        model.bind(&[&tensors.image], &outputs).ok().map(Self)
    }

    #[inline]
    fn execute(&self, queue: &ComputeQueue) -> Result<Pending<Execution>, Refused<()>> {
        queue.execute_bound(&self.0)
    }
}

impl Way for Each {
    fn of(model: &LoadedModel) -> Option<Self> {
        Some(Self {
            model: model.clone(),
            tensors: Tensors::of(model)?,
        })
    }

    #[inline]
    fn execute(&self, queue: &ComputeQueue) -> Result<Pending<Execution>, Refused<()>> {
        let Tensors {
            image,
            scores,
            label,
        } = &self.tensors;
        queue.execute(&self.model, &[image], &[scores, label])
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

impl<P: Place, W: Way> Service for Ours<P, W> {
    type Answer = Answer;

    fn start(processors: Pair, depth: usize) -> Option<Self> {
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
        let model = core.load(model()?, 1);
        let model = model.map_err(|fault| eprintln!("no model: {fault}")).ok()?;
        Some(Self {
            queue: core.compute(),
            sets: (0..depth).map(|_| W::of(&model)).collect::<Option<_>>()?,
            next: 0,
            _runtime: runtime,
            _place: PhantomData,
        })
    }

    #[inline]
    fn request(&mut self) -> Answer {
        let set = &self.sets[self.next];
        self.next += 1;
        if self.next == self.sets.len() {
            self.next = 0;
        }
        match set.execute(&self.queue) {
            Ok(pending) => Answer(pending),
            Err(refused) => panic!("the facade refuses a request: {refused}"),
        }
    }

    #[inline]
    fn is_done(answer: &Answer) -> bool {
        answer.0.is_done()
    }
}

impl<P: Place, W: Way> Waits for Ours<P, W> {
    #[inline]
    fn wait(answer: Answer) -> bool {
        answer.0.wait().is_ok()
    }

    fn watch(answer: Answer) -> bool {
        while !Self::is_done(&answer) {
            std::hint::spin_loop();
        }
        answer.0.wait().is_ok()
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
