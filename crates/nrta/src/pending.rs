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
use xu_worker::{Accepted, Completion, Lost};

/// How a request ended, as its engine tells it.
#[derive(Debug)]
pub(crate) struct Outcome<T> {
    pub(crate) status: Status,
    pub(crate) detail: Option<String>,
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
}

impl<T: Returned> Pending<T> {
    pub(crate) fn new(accepted: Accepted<Outcome<T::Raw>>) -> Self {
        Self {
            inner: accepted.completion,
            seq: accepted.seq,
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

    /// Blocks until the request is complete.
    ///
    /// # Errors
    /// [`RequestError`] when it did not succeed.
    pub fn wait(self) -> Result<T, RequestError<T>> {
        settle(self.seq, self.inner.wait())
    }

    /// Blocks until the request is complete or `timeout` has passed.
    ///
    /// # Errors
    /// The request itself when time is up: it is still in flight and can be waited for again.
    pub fn wait_timeout(self, timeout: Duration) -> Result<Result<T, RequestError<T>>, Self> {
        let seq = self.seq;
        match self.inner.wait_timeout(timeout) {
            Ok(outcome) => Ok(settle(seq, outcome)),
            Err(inner) => Err(Self { inner, seq }),
        }
    }

    /// The outcome, if it is there. Never blocks.
    ///
    /// # Errors
    /// The request itself while it is in flight.
    pub fn try_take(self) -> Result<Result<T, RequestError<T>>, Self> {
        let seq = self.seq;
        match self.inner.try_take() {
            Ok(outcome) => Ok(settle(seq, outcome)),
            Err(inner) => Err(Self { inner, seq }),
        }
    }
}

impl<T: Returned> Future for Pending<T> {
    type Output = Result<T, RequestError<T>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let seq = self.seq;
        Pin::new(&mut self.inner)
            .poll(cx)
            .map(|outcome| settle(seq, outcome))
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

fn settle<T: Returned>(
    seq: SeqId,
    outcome: Result<Outcome<T::Raw>, Lost>,
) -> Result<T, RequestError<T>> {
    let failed = |status, detail, value| RequestError {
        status,
        seq,
        detail,
        value,
    };
    match outcome {
        Ok(outcome) => match (outcome.status, T::from_raw(outcome.value)) {
            (status, Some(value)) if status.is_success() => Ok(value),
            (status, value) if !status.is_success() => Err(failed(status, outcome.detail, value)),
            // Every request is scheduled with the type that it returns.
            (_, _) => Err(failed(Status::FAILURE, outcome.detail, None)),
        },
        Err(lost) => {
            let status = match lost {
                Lost::OnWorkerThread => Status::INVALID,
                Lost::Forked | Lost::Abandoned | Lost::Taken => Status::FAILURE,
            };
            Err(failed(status, Some(lost.to_string()), None))
        }
    }
}
