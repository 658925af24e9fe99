//! Completions in tokio's reactor, with the feature `tokio`.
//!
//! Every future and stream of this crate runs on tokio as it is: they are woken by the worker. This is for programs that
//! want each completion counted, or want the queue to be a descriptor among those that their reactor watches.
//!
//! ```
//! # let tokio = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
//! # tokio.block_on(async {
//! let runtime = nrta::Runtime::builder().open()?;
//! let core = runtime.core(0)?;
//! let (moves, tensor) = (core.tensor_op(0)?, core.allocate(4)?);
//!
//! let mut counter = moves.completion_counter()?;
//! for byte in 0..10 {
//!     drop(moves.write(&tensor, 0, vec![byte; 4])?);
//! }
//! let mut completions = 0;
//! while completions < 10 {
//!     completions += counter.completed().await?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::events::{EventError, Subscription};
use crate::lane::Lane;
use core::future::poll_fn;
use core::task::{Context, Poll, ready};
use std::io;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Handle;
use xu_worker::{CompletionEvent, limits};

/// A [`CompletionCounter`] was not made. Nothing is registered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CounterError {
    /// The calling thread is in no tokio runtime.
    #[error("there is no tokio runtime here: {0}")]
    NoRuntime(#[from] tokio::runtime::TryCurrentError),
    /// The operating system gave no descriptor, or the reactor did not take it.
    #[error("no descriptor for the reactor: {}", limits::no_descriptor(.0))]
    Descriptor(#[from] io::Error),
    /// The queue takes no event.
    #[error(transparent)]
    Event(#[from] EventError),
}

/// Counts the completions of one queue. Made by `completion_counter` of every queue.
///
/// It is the queue's one event: another `notify_each`, `subscribe_each` or counter takes its place, and then this one counts
/// no more. Dropping it deregisters.
#[derive(Debug)]
pub struct CompletionCounter {
    // Dropped first: nothing is written to what follows.
    _subscription: Subscription,
    event: AsyncFd<CompletionEvent>,
}

impl CompletionCounter {
    /// # Panics
    /// As `AsyncFd`: the runtime was built without its reactor.
    pub(crate) fn new(lane: Lane) -> Result<Self, CounterError> {
        Handle::try_current()?;
        let event = CompletionEvent::new()?;
        #[allow(
            deprecated,
            reason = "sound here: the event owns its one descriptor until it is dropped. What takes its place is unsafe"
        )]
        let event = AsyncFd::with_interest(event, Interest::READABLE)?;
        let subscription = Subscription::to_queue(lane, event.get_ref())?;
        Ok(Self {
            _subscription: subscription,
            event,
        })
    }

    /// How many requests have completed since this was asked last; waits while there are none.
    ///
    /// Nothing is lost when the future is dropped. It resolves only to more than 0, so never again once the runtime is
    /// closed.
    ///
    /// # Errors
    /// What the operating system says.
    pub async fn completed(&mut self) -> io::Result<u64> {
        poll_fn(|cx| self.poll_completed(cx)).await
    }

    /// As [`CompletionCounter::completed`], for who polls by hand.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn poll_completed(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        loop {
            let mut guard = ready!(self.event.poll_read_ready(cx))?;
            match guard.get_inner().drain()? {
                0 => guard.clear_ready(),
                completions => return Poll::Ready(Ok(completions)),
            }
        }
    }
}
