//! An accepted request on its way: a future that also waits and polls.
//!
//! Returned by every schedule call. Spec: `c-api.md` sections 5.3 and 5.4.

use crate::error::RequestError;
use crate::request::Scheduled;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use xu_abi::{SeqId, Status};
use xu_worker::{Accepted, Completion, Lost, Skip};

/// What a request was to do, in the words of the calls that schedule it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Execute,
    Write,
    Read,
    Copy,
    Memset,
    Cast,
    Compute,
    Fma,
    Collective,
}

impl Call {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Execute => "execute",
            Self::Write => "write",
            Self::Read => "read",
            Self::Copy => "copy",
            Self::Memset => "memset",
            Self::Cast => "cast",
            Self::Compute => "compute",
            Self::Fma => "fma",
            Self::Collective => "collective",
        }
    }
}

/// How a request ended, as its engine tells it.
#[derive(Debug)]
pub(crate) struct Outcome<T> {
    pub(crate) call: Call,
    pub(crate) status: Status,
    /// Boxed to be short: nearly always there is none, and every outcome carries it to another processor.
    pub(crate) detail: Option<Box<str>>,
    pub(crate) value: T,
}

/// What a request gives back. Implemented for what requests of this crate return: buffers, vectors of numbers, `()`,
/// [`Execution`](crate::Execution). For anything else it would have no use.
#[expect(
    private_bounds,
    reason = "which request a value belongs to is nobody's business"
)]
pub trait Returned: Sized {
    /// As the engine hands it over.
    #[doc(hidden)]
    type Raw: Scheduled;

    /// Out of what the engine hands over, which is of the right kind.
    #[doc(hidden)]
    fn from_raw(raw: Self::Raw) -> Option<Self>;
}

/// An accepted request.
///
/// It resolves to what the request gives back: the buffer of a read or write, the timings of an execution.
/// Dropping it detaches: the request runs on, and whatever it holds stays alive until it is complete.
#[must_use = "nobody will learn the outcome; `detach` says that this is meant"]
pub struct Pending<T: Returned> {
    inner: Completion<Outcome<T::Raw>>,
    seq: SeqId,
    /// The outcome was taken, of a request that was skipped.
    was_skipped: bool,
}

impl<T: Returned> Pending<T> {
    pub(crate) fn new(accepted: Accepted<Outcome<T::Raw>>) -> Self {
        Self {
            inner: accepted.completion,
            seq: accepted.seq,
            was_skipped: false,
        }
    }

    /// Its place in its queue. Requests of a queue complete in this order.
    #[must_use]
    pub fn seq(&self) -> SeqId {
        self.seq
    }

    /// Lets the request run on without anybody who learns its outcome: for one whose successor in the same queue is waited
    /// for, or whose failure the queue's health tells.
    pub fn detach(self) {
        drop(self);
    }

    /// Whether the outcome is there.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.inner.is_done()
    }

    /// Its final status, as soon as the runtime has written it, which is before the request is complete for anybody. `None`
    /// before, and when the outcome was taken.
    ///
    /// Who has learned by [`is_completed`](crate::TensorOpQueue::is_completed) or
    /// [`last_completed`](crate::TensorOpQueue::last_completed) that the request is complete finds the status here, and the
    /// outcome a moment later; who was woken, signalled or let go finds both.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        self.inner.status()
    }

    /// Has the request skipped if it has not begun, and says whether it is. Never blocks.
    ///
    /// Whoever comes first decides, this call or the worker that begins the request, and the answer never changes. A request
    /// that is skipped stays in its place and completes in its turn: events and waits go on as for any other, no byte of it
    /// moves, the queue stays healthy, and its outcome is a [`RequestError`] that is
    /// [`skipped`](RequestError::skipped) and has the buffer. For an answer at once, drop the request as well.
    ///
    /// Requests of tensor-op queues can be skipped. An execution is with the device from the moment when it is accepted, and
    /// the part of a collective is awaited by the other ranks: there the answer is always [`Skip::TooLate`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = nrta::Runtime::builder().open()?;
    /// # let core = runtime.core(0)?;
    /// # let (moves, tensor) = (core.tensor_op(0)?, core.allocate(4)?);
    /// use nrta::Skip;
    ///
    /// let write = moves.write(&tensor, 0, vec![1; 4])?;
    /// match (write.skip(), write.wait()) {
    ///     (Skip::WillNotRun, Err(error)) => assert!(error.skipped && error.value == Some(vec![1; 4])),
    ///     (Skip::TooLate, Ok(bytes)) => assert_eq!(bytes, [1; 4]),
    ///     (answer, outcome) => unreachable!("{answer:?}, {outcome:?}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn skip(&self) -> Skip {
        if self.was_skipped {
            Skip::WillNotRun
        } else {
            self.inner.skip()
        }
    }

    /// Blocks until the request is complete.
    ///
    /// # Errors
    /// [`RequestError`] when it did not succeed.
    pub fn wait(self) -> Result<T, RequestError<T>> {
        let origin = self.origin();
        settle(origin, self.inner.wait())
    }

    /// Blocks until the request is complete or `timeout` has passed.
    ///
    /// # Errors
    /// The request itself when time is up: it is still in flight and can be waited for again.
    pub fn wait_timeout(self, timeout: Duration) -> Result<Result<T, RequestError<T>>, Self> {
        let origin = self.origin();
        match self.inner.wait_timeout(timeout) {
            Ok(outcome) => Ok(settle(origin, outcome)),
            Err(inner) => Err(Self { inner, ..self }),
        }
    }

    /// The outcome, if it is there. Never blocks.
    ///
    /// # Errors
    /// The request itself while it is in flight.
    pub fn try_take(self) -> Result<Result<T, RequestError<T>>, Self> {
        let origin = self.origin();
        match self.inner.try_take() {
            Ok(outcome) => Ok(settle(origin, outcome)),
            Err(inner) => Err(Self { inner, ..self }),
        }
    }

    /// Whose outcome it is. The caller has the request to itself, so that nobody skips it meanwhile.
    fn origin(&self) -> Origin {
        Origin {
            seq: self.seq,
            skipped: self.was_skipped || self.inner.is_skipped(),
        }
    }
}

impl<T: Returned> Future for Pending<T> {
    type Output = Result<T, RequestError<T>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let origin = self.origin();
        let outcome = Pin::new(&mut self.inner).poll(cx);
        self.was_skipped = outcome.is_ready() && origin.skipped;
        outcome.map(|outcome| settle(origin, outcome))
    }
}

impl<T: Returned> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending")
            .field("seq", &self.seq)
            .field("status", &self.inner.status())
            .finish_non_exhaustive()
    }
}

/// Which request an outcome comes from.
struct Origin {
    seq: SeqId,
    skipped: bool,
}

fn settle<T: Returned>(
    Origin { seq, skipped }: Origin,
    outcome: Result<Outcome<T::Raw>, Lost>,
) -> Result<T, RequestError<T>> {
    let failed = |call, status, detail, value| RequestError {
        call,
        status,
        seq,
        detail,
        skipped,
        value,
    };
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(lost) => {
            let status = match lost {
                Lost::OnWorkerThread => Status::INVALID,
                Lost::Forked | Lost::Abandoned | Lost::Taken => Status::FAILURE,
            };
            return Err(failed("request", status, Some(lost.to_string()), None));
        }
    };
    let (call, detail) = (outcome.call.name(), outcome.detail.map(String::from));
    match (outcome.status, T::from_raw(outcome.value)) {
        (status, Some(value)) if status.is_success() => Ok(value),
        (status, value) if !status.is_success() => Err(failed(call, status, detail, value)),
        // Every request is scheduled with the type that it returns.
        (_, _) => Err(failed(call, Status::FAILURE, detail, None)),
    }
}
