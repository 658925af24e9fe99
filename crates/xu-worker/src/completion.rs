//! One request's way back to its caller: a future that can also be waited on or polled.
//!
//! The worker holds the [`Notifier`], the caller the [`Completion`]; both share one cell.
//! Dropping the completion detaches: the request runs on and its outcome is dropped by whoever lets go of the cell last.
//! Dropping the notifier without an outcome completes with [`Lost::Abandoned`], so no caller waits for ever.
//! Spec `xu.md` sections 4 (order visible to applications) and 8.4.

use crate::cell::{Aftermath, Ends, Look, Settler, Spare, Taker, cell};
use crate::on_worker::is_worker;
use crate::spin::Spin;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use xu_abi::Status;

/// There is no outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// The request ended without one: its worker went away, or its engine failed to say how it went.
    #[error("the request ended without an outcome")]
    Abandoned,
    /// It was taken before: a future was polled again after it had resolved.
    #[error("the outcome of the request was taken before")]
    Taken,
    /// The calling thread is a worker, which would wait for itself. Nobody will be told of the outcome.
    #[error("a worker's thread cannot wait for a request")]
    OnWorkerThread,
    /// This process was forked from the one that waits for it.
    #[error("the request belongs to the process that this one was forked from")]
    Forked,
}

/// What has become of the wish to skip a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "the request may run all the same"]
pub enum Skip {
    /// It has not begun, and never will.
    WillNotRun,
    /// It has begun, it is complete, or its queue cannot skip requests: its outcome says how it goes.
    TooLate,
}

/// The status of a request that was skipped. There is none of its own for it.
pub const SKIPPED: Status = Status::FAILURE;

/// Makes the two ends of one request's way back, for a request that cannot be skipped.
///
/// [`Unit::submit`](crate::Unit::submit) makes them itself; this is for who drives an [`Engine`](crate::Engine) alone.
pub fn completion<T: Send>() -> (Notifier<T>, Completion<T>) {
    let (settler, taker, _) = cell(false);
    (Notifier(Some(settler)), Completion(Some(taker)))
}

/// The worker's end: says once how the request went.
pub struct Notifier<T>(
    /// Gone once it has said so.
    Option<Settler<T>>,
);

impl<T> Notifier<T> {
    /// Writes the status; called before the completion is made visible.
    pub fn write_status(&self, status: Status) {
        if let Some(settler) = &self.0 {
            settler.write_status(status);
        }
    }

    /// Says that the request begins, and whether it does: `false` when its caller has skipped it. Called once, for requests
    /// that can be skipped.
    pub(crate) fn begin(&self) -> bool {
        self.0.as_ref().is_none_or(Settler::begin)
    }

    /// Hands over the outcome and wakes whoever waits; called after the completion is visible.
    pub fn notify(self, outcome: T) {
        if let Some(aftermath) = self.settle(outcome) {
            aftermath.run();
        }
    }

    /// As [`Notifier::notify`], but whoever waits is woken when the caller says so: with no lock held.
    pub(crate) fn settle(mut self, outcome: T) -> Option<Aftermath<T>> {
        Some(self.0.take()?.settle(Ok(outcome)))
    }
}

impl<T> Drop for Notifier<T> {
    fn drop(&mut self) {
        if let Some(settler) = self.0.take() {
            settler.settle(Err(Lost::Abandoned)).run();
        }
    }
}

impl<T> fmt::Debug for Notifier<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notifier").finish_non_exhaustive()
    }
}

/// The caller's end: a future of the outcome.
///
/// After the future has resolved, or a wait has returned the outcome, the completion is spent.
#[must_use = "dropping a completion detaches from the request: nobody will learn its outcome"]
pub struct Completion<T>(
    /// Gone once the outcome is taken.
    Option<Taker<T>>,
);

impl<T> Completion<T> {
    /// Whether the outcome is there, or was taken.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.0.as_ref().is_none_or(Taker::is_done)
    }

    /// The final status, as soon as the worker has written it. `None` again once the outcome is taken.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        self.0.as_ref()?.status()
    }

    /// Has the request skipped if it has not begun. Never blocks; the answer is the same whenever this is asked, until the
    /// outcome is taken.
    ///
    /// A skipped request stays in its queue and completes in its turn, with [`SKIPPED`] where its unit is healthy.
    pub fn skip(&self) -> Skip {
        match &self.0 {
            Some(taker) if taker.is_here() && taker.skip() => Skip::WillNotRun,
            _ => Skip::TooLate,
        }
    }

    /// Whether [`Completion::skip`] has said [`Skip::WillNotRun`]. `false` again once the outcome is taken.
    #[must_use]
    pub fn is_skipped(&self) -> bool {
        self.0.as_ref().is_some_and(Taker::is_skipped)
    }

    /// Blocks until the outcome is there: looks again for a short while, then sleeps.
    ///
    /// # Errors
    /// [`Lost`] when the worker went away, or when a waker waits, which runs on a worker's thread.
    pub fn wait(mut self) -> Result<T, Lost> {
        match self.wait_until(None) {
            Some(outcome) => outcome,
            // Without a deadline a wait ends with an outcome.
            None => Err(Lost::Abandoned),
        }
    }

    /// Blocks until the outcome is there or `timeout` has passed. A timeout too long for the clock means for ever.
    ///
    /// # Errors
    /// The completion itself when time is up: the request is still in flight and can be waited for again.
    pub fn wait_timeout(mut self, timeout: Duration) -> Result<Result<T, Lost>, Self> {
        if let Some(outcome) = self.take() {
            return Ok(outcome);
        }
        let deadline = Instant::now().checked_add(timeout);
        self.wait_until(deadline).ok_or(self)
    }

    /// The outcome, if it is there.
    ///
    /// # Errors
    /// The completion itself while the request is in flight.
    pub fn try_take(mut self) -> Result<Result<T, Lost>, Self> {
        self.take().ok_or(self)
    }

    /// The outcome, once; `None` while the request is in flight.
    #[inline]
    fn take(&mut self) -> Option<Result<T, Lost>> {
        let Some(taker) = self.0.take() else {
            return Some(Err(Lost::Taken));
        };
        match taker.take() {
            Ok(outcome) => Some(outcome),
            Err(taker) => {
                self.0 = Some(taker);
                None
            }
        }
    }

    /// `None` when `deadline` has passed.
    fn wait_until(&mut self, deadline: Option<Instant>) -> Option<Result<T, Lost>> {
        let mut spin = Spin::new();
        loop {
            if let Some(outcome) = self.take() {
                return Some(outcome);
            }
            if !spin.again() || deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                break;
            }
        }
        if let Some(taker) = &self.0 {
            if !taker.is_here() {
                return Some(Err(Lost::Forked));
            }
            if is_worker() {
                return Some(Err(Lost::OnWorkerThread));
            }
            taker.sleep_until(deadline);
        }
        self.take()
    }
}

impl<T> Future for Completion<T> {
    type Output = Result<T, Lost>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(outcome) = self.take() {
            return Poll::Ready(outcome);
        }
        if let Some(taker) = &self.0 {
            if !taker.is_here() {
                return Poll::Ready(Err(Lost::Forked));
            }
            if taker.register(cx.waker()) == Look::Pending {
                return Poll::Pending;
            }
        }
        self.take().map_or(Poll::Pending, Poll::Ready)
    }
}

impl<T> Unpin for Completion<T> {}

impl<T> fmt::Debug for Completion<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completion")
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}

/// Makes ends from cells that both earlier ends have let go of, so that no request allocates in a steady state.
///
/// The submitting side owns it: it looks at the oldest cells first, which are the likeliest to be free.
pub(crate) struct Cells<T> {
    lent: VecDeque<Spare<T>>,
    most: usize,
    /// Whether the requests can be skipped.
    can_skip: bool,
}

/// How many cells are looked at for one that is free.
const LOOKS: usize = 2;

impl<T: Send> Cells<T> {
    /// Remembers up to `most` cells.
    pub(crate) fn new(most: usize, can_skip: bool) -> Self {
        Self {
            lent: VecDeque::new(),
            most,
            can_skip,
        }
    }

    /// The two ends of one request's way back.
    #[inline]
    pub(crate) fn completion(&mut self) -> (Notifier<T>, Completion<T>) {
        let (settler, taker, spare) = self.free_cell();
        if self.lent.len() < self.most {
            self.lent.push_back(spare);
        }
        (Notifier(Some(settler)), Completion(Some(taker)))
    }

    fn free_cell(&mut self) -> Ends<T> {
        for _ in 0..LOOKS {
            let Some(spare) = self.lent.pop_front() else {
                break;
            };
            match spare.renew(self.can_skip) {
                Ok(ends) => return ends,
                Err(spare) => self.lent.push_back(spare),
            }
        }
        cell(self.can_skip)
    }
}

impl<T> fmt::Debug for Cells<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cells")
            .field("lent", &self.lent.len())
            .finish_non_exhaustive()
    }
}
