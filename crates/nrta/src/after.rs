//! Chains: schedule the next request when the one before has succeeded, also on another queue.
//!
//! One queue is in order, and between queues nothing is implied: who writes on one and executes on another waits in between.
//! A [`Chain`] is that wait, as one future or one blocking call:
//!
//! ```
//! use nrta::{Model, Runtime};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let runtime = Runtime::builder().open()?;
//! let core = runtime.core(0)?;
//! let digits = core.load(&Model::open("../../examples/digits/model.xum")?, 1)?;
//! let (image, scores, label) =
//!     (digits.allocate_input(0)?, digits.allocate_output(0)?, digits.allocate_output(1)?);
//! let (moves, compute) = (core.tensor_op(0)?, core.compute());
//!
//! let label = moves
//!     .write(&image, 0, vec![0; 64])?
//!     .then(|_pixels| compute.execute(&digits, &[&image], &[&scores, &label]))
//!     .then(|_times| moves.read(&label, 0, vec![0; 4]))
//!     .wait()?; // or `.await?`
//! assert!(label[0] < 10);
//! # Ok(())
//! # }
//! ```
//!
//! ```text
//!   first request ── complete ──▶ whoever polls or waits: schedule(value) ── accepted ──▶ second request ──▶ outcome
//!                └─ no success ─▶ ChainError::Before          └─ refused ─▶ ChainError::Refused        └─▶ ChainError::Failed
//! ```
//!
//! # Whose thread
//!
//! The next request is scheduled where the chain is polled or waited for: by the application's executor or thread. The device
//! and the workers know nothing of chains, so a chain that nobody polls stands still after its first request. A worker's thread
//! never schedules the next one: where a waker polls right there, the chain ends with [`ChainError::OnWorkerThread`].
//!
//! # Dropping
//!
//! A chain that is dropped detaches from the request under way, and schedules none after it.
//!
//! # Back-pressure
//!
//! A queue that is full refuses, and the chain ends. To wait for room, or for anything else that a line of code can say, write
//! an `async` block: it is a chain with a name for every step.

use crate::error::{Refused, RequestError};
use crate::pending::{Pending, Returned};
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use xu_abi::Status;
use xu_worker::is_worker_thread;

/// What a chain begins with: a request, or a shorter chain. Sealed.
pub trait Stage: sealed::Stage {}

/// How a stage of a chain says that it did not succeed. Sealed: [`RequestError`] and [`ChainError`].
pub trait StageError: std::error::Error + sealed::Error {
    /// Number of stages that this can be an error of.
    const STAGES: usize;

    /// Which stage did not succeed, counted from 0; the stages after it were never scheduled.
    fn stage(&self) -> usize;

    /// The status that the C ABI reports for this error.
    fn status(&self) -> Status;
}

pub(crate) mod sealed {
    /// A future that can be waited for, too.
    pub trait Stage: Future<Output = Result<Self::Value, Self::Error>> + Unpin {
        /// What it resolves to.
        type Value;
        /// How it says that it did not succeed.
        type Error: super::StageError;

        #[doc(hidden)]
        fn finish(self) -> Result<Self::Value, Self::Error>;
    }

    pub trait Error {}
}

/// A request that is scheduled when an earlier stage has succeeded. Made by [`Pending::then`] and [`Chain::then`].
///
/// A future that resolves to what the last request gives back. Polled again after that, it ends without success.
#[must_use = "a chain schedules its next request when it is polled or waited for"]
pub struct Chain<P, F, T: Returned> {
    first: P,
    /// Gone once it was called.
    schedule: Option<F>,
    /// There once it was scheduled.
    second: Option<Pending<T>>,
}

/// A stage of a chain did not succeed, and no stage after it was scheduled.
///
/// `E` is the error of the stages before the last one, `V` what they give back, `A` the arguments of the last one, `T` what
/// that gives back.
#[non_exhaustive]
pub enum ChainError<E, V, A, T> {
    /// A stage before did not succeed.
    Before(E),
    /// The stages before have succeeded, and the queue refused the request.
    Refused(Refused<A>),
    /// The request was accepted and did not succeed.
    Failed(RequestError<T>),
    /// The stages before have succeeded, and the chain was polled on a worker's thread, which schedules nothing.
    OnWorkerThread {
        /// What the stages before have given back.
        value: V,
    },
}

impl<T: Returned> Pending<T> {
    /// Schedules another request when this one has succeeded, with what it gives back: a [chain](crate::after).
    ///
    /// `schedule` is called by whoever polls the chain or waits for it, once, and never when this request did not succeed or the
    /// chain is dropped before. It takes the place of the method of that name that `futures::FutureExt` has for all futures.
    pub fn then<F, A, U>(self, schedule: F) -> Chain<Self, F, U>
    where
        F: FnOnce(T) -> Result<Pending<U>, Refused<A>>,
        U: Returned,
    {
        Chain::new(self, schedule)
    }
}

impl<P: Stage, F, T: Returned> Chain<P, F, T> {
    fn new(first: P, schedule: F) -> Self {
        Self {
            first,
            schedule: Some(schedule),
            second: None,
        }
    }

    /// As [`Pending::then`]: one more stage.
    pub fn then<G, A, B, U>(self, schedule: G) -> Chain<Self, G, U>
    where
        Self: sealed::Stage<Value = T>,
        F: FnOnce(P::Value) -> Result<Pending<T>, Refused<A>>,
        G: FnOnce(T) -> Result<Pending<U>, Refused<B>>,
        U: Returned,
    {
        Chain::new(self, schedule)
    }

    /// Blocks until the last request is complete, and schedules each on the calling thread when its turn comes.
    ///
    /// # Errors
    /// [`ChainError`]: which stage did not succeed, and why.
    pub fn wait<A>(self) -> Result<T, ChainError<P::Error, P::Value, A, T>>
    where
        F: FnOnce(P::Value) -> Result<Pending<T>, Refused<A>>,
    {
        let second = match (self.second, self.schedule) {
            (Some(second), _) => second,
            (None, schedule) => {
                let value = self.first.finish().map_err(ChainError::Before)?;
                schedule_next(schedule, value)?
            }
        };
        second.wait().map_err(ChainError::Failed)
    }
}

/// Calls `schedule` where that is allowed.
fn schedule_next<E, V, A, T: Returned>(
    schedule: Option<impl FnOnce(V) -> Result<Pending<T>, Refused<A>>>,
    value: V,
) -> Result<Pending<T>, ChainError<E, V, A, T>> {
    match schedule {
        Some(schedule) if !is_worker_thread() => schedule(value).map_err(ChainError::Refused),
        // It is gone when it was called, and then the stage before is spent and gives no value.
        _ => Err(ChainError::OnWorkerThread { value }),
    }
}

impl<P, F, A, T> Future for Chain<P, F, T>
where
    P: Stage,
    F: FnOnce(P::Value) -> Result<Pending<T>, Refused<A>>,
    T: Returned,
{
    type Output = Result<T, ChainError<P::Error, P::Value, A, T>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self {
            first,
            schedule,
            second,
        } = &mut *self;
        let second = match second {
            Some(second) => second,
            None => {
                let outcome = ready!(Pin::new(first).poll(cx));
                // Whatever it holds goes with the outcome.
                let schedule = schedule.take();
                let value = outcome.map_err(ChainError::Before)?;
                second.insert(schedule_next(schedule, value)?)
            }
        };
        Pin::new(second).poll(cx).map_err(ChainError::Failed)
    }
}

/// What it holds is never pinned.
impl<P: Unpin, F, T: Returned> Unpin for Chain<P, F, T> {}

impl<T: Returned> Stage for Pending<T> {}

impl<T: Returned> sealed::Stage for Pending<T> {
    type Value = T;
    type Error = RequestError<T>;

    fn finish(self) -> Result<T, RequestError<T>> {
        self.wait()
    }
}

impl<P, F, A, T> Stage for Chain<P, F, T>
where
    P: Stage,
    F: FnOnce(P::Value) -> Result<Pending<T>, Refused<A>>,
    T: Returned,
{
}

impl<P, F, A, T> sealed::Stage for Chain<P, F, T>
where
    P: Stage,
    F: FnOnce(P::Value) -> Result<Pending<T>, Refused<A>>,
    T: Returned,
{
    type Value = T;
    type Error = ChainError<P::Error, P::Value, A, T>;

    fn finish(self) -> Result<T, Self::Error> {
        self.wait()
    }
}

impl<T> sealed::Error for RequestError<T> {}

impl<T> StageError for RequestError<T> {
    const STAGES: usize = 1;

    fn stage(&self) -> usize {
        0
    }

    fn status(&self) -> Status {
        self.status
    }
}

impl<E: StageError, V, A, T> sealed::Error for ChainError<E, V, A, T> {}

impl<E: StageError, V, A, T> StageError for ChainError<E, V, A, T> {
    const STAGES: usize = E::STAGES + 1;

    fn stage(&self) -> usize {
        match self {
            Self::Before(error) => error.stage(),
            Self::Refused(_) | Self::Failed(_) | Self::OnWorkerThread { .. } => E::STAGES,
        }
    }

    fn status(&self) -> Status {
        match self {
            Self::Before(error) => error.status(),
            Self::Refused(refused) => refused.status(),
            Self::Failed(error) => error.status,
            Self::OnWorkerThread { .. } => Status::INVALID,
        }
    }
}

impl<E: StageError, V, A, T> fmt::Display for ChainError<E, V, A, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = E::STAGES;
        match self {
            Self::Before(error) if E::STAGES == 1 => write!(f, "stage 0: {error}"),
            // It says itself which one.
            Self::Before(error) => fmt::Display::fmt(error, f),
            Self::Refused(refused) => write!(f, "stage {stage} was refused: {refused}"),
            Self::Failed(error) => write!(f, "stage {stage}: {error}"),
            Self::OnWorkerThread { .. } => {
                write!(f, "stage {stage}: a worker's thread schedules nothing")
            }
        }
    }
}

impl<E: StageError, V, A, T> fmt::Debug for ChainError<E, V, A, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, error): (_, &dyn fmt::Debug) = match self {
            Self::Before(error) => ("Before", error),
            Self::Refused(refused) => ("Refused", refused),
            Self::Failed(error) => ("Failed", error),
            Self::OnWorkerThread { .. } => ("OnWorkerThread", &E::STAGES),
        };
        f.debug_tuple(name).field(error).finish()
    }
}

impl<E: StageError, V, A, T> std::error::Error for ChainError<E, V, A, T> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Before(error) => error.source(),
            Self::Refused(refused) => Some(&refused.reason),
            Self::Failed(_) | Self::OnWorkerThread { .. } => None,
        }
    }
}

impl<P: fmt::Debug, F, T: Returned> fmt::Debug for Chain<P, F, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chain")
            .field("first", &self.first)
            .field("second", &self.second)
            .finish_non_exhaustive()
    }
}
