//! One request's way back to its caller: a future that can also be waited on or polled.
//!
//! The worker holds the [`Notifier`], the caller the [`Completion`]; the pair owns one shared cell.
//! Dropping the completion detaches: the request runs on and its outcome is dropped by the worker.
//! Dropping the notifier without an outcome completes with [`Lost::Abandoned`], so no caller waits for ever.
//! Spec `xu.md` sections 4 (order visible to applications) and 8.4.

use crate::wake::wake;
use core::fmt;
use core::pin::Pin;
use core::sync::atomic::{AtomicI32, Ordering};
use core::task::{Context, Poll, Waker};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::{Duration, Instant};
use xu_abi::Status;

/// There is no outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// The request's worker went away without one.
    #[error("the worker went away without completing the request")]
    Abandoned,
    /// It was taken before: a future was polled again after it had resolved.
    #[error("the outcome of the request was taken before")]
    Taken,
}

/// Makes the two ends of one request's way back.
pub fn completion<T>() -> (Notifier<T>, Completion<T>) {
    let cell = Arc::new(Cell {
        status: AtomicI32::new(PENDING),
        state: Mutex::new(State::Pending(None)),
        done: Condvar::new(),
    });
    (
        Notifier {
            cell: Some(Arc::clone(&cell)),
        },
        Completion { cell },
    )
}

/// Stands in the status cell until the worker writes; no status has this value.
const PENDING: i32 = i32::MIN;

struct Cell<T> {
    /// Written before the completion is visible.
    status: AtomicI32,
    state: Mutex<State<T>>,
    done: Condvar,
}

enum State<T> {
    /// At most one waker: the newest.
    Pending(Option<Waker>),
    Ready(Result<T, Lost>),
    Taken,
}

impl<T> Cell<T> {
    fn settle(&self, outcome: Result<T, Lost>) {
        let waker = {
            let mut state = self.state.lock();
            match core::mem::replace(&mut *state, State::Ready(outcome)) {
                State::Pending(waker) => waker,
                State::Ready(_) | State::Taken => None,
            }
        };
        self.done.notify_all();
        // Foreign code runs without our lock.
        if let Some(waker) = waker {
            wake(waker);
        }
    }
}

/// The worker's end: says once how the request went.
pub struct Notifier<T> {
    cell: Option<Arc<Cell<T>>>,
}

impl<T> Notifier<T> {
    /// Writes the status; called before the completion is made visible.
    pub fn write_status(&self, status: Status) {
        if let Some(cell) = &self.cell {
            // PAIRS: with the acquire load in `Completion::status`.
            cell.status.store(status.raw(), Ordering::Release);
        }
    }

    /// Hands over the outcome and wakes whoever waits; called after the completion is visible.
    pub fn notify(mut self, outcome: T) {
        if let Some(cell) = self.cell.take() {
            cell.settle(Ok(outcome));
        }
    }
}

impl<T> Drop for Notifier<T> {
    fn drop(&mut self) {
        if let Some(cell) = self.cell.take() {
            cell.settle(Err(Lost::Abandoned));
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
pub struct Completion<T> {
    cell: Arc<Cell<T>>,
}

impl<T> Completion<T> {
    /// Whether the outcome is there.
    #[must_use]
    pub fn is_done(&self) -> bool {
        !matches!(*self.cell.state.lock(), State::Pending(_))
    }

    /// The final status, as soon as the worker has written it.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        // PAIRS: with the release store in `Notifier::write_status`.
        match self.cell.status.load(Ordering::Acquire) {
            PENDING => None,
            raw => Some(Status::from_raw(raw)),
        }
    }

    /// Blocks until the outcome is there.
    ///
    /// # Errors
    /// [`Lost`] when the worker went away.
    pub fn wait(self) -> Result<T, Lost> {
        let mut state = self.cell.state.lock();
        loop {
            if let Some(outcome) = take(&mut state) {
                return outcome;
            }
            self.cell.done.wait(&mut state);
        }
    }

    /// Blocks until the outcome is there or `timeout` has passed. A timeout too long for the clock means for ever.
    ///
    /// # Errors
    /// The completion itself when time is up: the request is still in flight and can be waited for again.
    pub fn wait_timeout(self, timeout: Duration) -> Result<Result<T, Lost>, Self> {
        let Some(deadline) = Instant::now().checked_add(timeout) else {
            return Ok(self.wait());
        };
        {
            let mut state = self.cell.state.lock();
            loop {
                if let Some(outcome) = take(&mut state) {
                    return Ok(outcome);
                }
                if self.cell.done.wait_until(&mut state, deadline).timed_out() {
                    if let Some(outcome) = take(&mut state) {
                        return Ok(outcome);
                    }
                    break;
                }
            }
        }
        Err(self)
    }

    /// The outcome, if it is there.
    ///
    /// # Errors
    /// The completion itself while the request is in flight.
    pub fn try_take(self) -> Result<Result<T, Lost>, Self> {
        let taken = take(&mut self.cell.state.lock());
        taken.ok_or(self)
    }
}

fn take<T>(state: &mut State<T>) -> Option<Result<T, Lost>> {
    match state {
        State::Pending(_) => None,
        State::Ready(_) => match core::mem::replace(state, State::Taken) {
            State::Ready(outcome) => Some(outcome),
            State::Pending(_) | State::Taken => None,
        },
        // A future polled again after it has resolved: the outcome is gone.
        State::Taken => Some(Err(Lost::Taken)),
    }
}

impl<T> Future for Completion<T> {
    type Output = Result<T, Lost>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.cell.state.lock();
        if let Some(outcome) = take(&mut state) {
            return Poll::Ready(outcome);
        }
        let State::Pending(stored) = &mut *state else {
            return Poll::Pending;
        };
        let unchanged = stored
            .as_ref()
            .is_some_and(|waker| waker.will_wake(cx.waker()));
        if unchanged {
            return Poll::Pending;
        }
        // Cloning and dropping wakers is foreign code: neither happens under the lock.
        drop(state);
        let newest = cx.waker().clone();
        let mut state = self.cell.state.lock();
        if let Some(outcome) = take(&mut state) {
            return Poll::Ready(outcome);
        }
        let replaced = match &mut *state {
            State::Pending(stored) => stored.replace(newest),
            State::Ready(_) | State::Taken => None,
        };
        drop(state);
        drop(replaced);
        Poll::Pending
    }
}

impl<T> fmt::Debug for Completion<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completion")
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}
