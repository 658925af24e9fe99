//! The eventfds of the lane, one type per role.
//!
//! Used by units, workers, waiting callers and applications. Spec `xu.md` section 4, table of eventfds:
//!
//! | type | flags | written by | read by |
//! |---|---|---|---|
//! | [`WorkCount`] | non-blocking, semaphore | submitters, one per request | the worker, one per completed request |
//! | [`StopLatch`] | blocking | whoever stops a worker | nobody: readable means stop |
//! | [`CompletionFd`] | non-blocking | the worker, when a request completes | nobody while it is waited on; drained before reuse |
//! | [`AppEvent`] | the application's | the worker, after the completion is visible | the application |
//! | [`CompletionEvent`] | non-blocking | as an [`AppEvent`] of it | the application |
//!
//! Every descriptor made here is close-on-exec. One private file makes all system calls on eventfds, and repeats those
//! that a signal has interrupted. Under miri and in models an eventfd is a number in memory, so that units run there.

mod app_event;
mod completion_event;
mod completion_fd;
#[cfg(not(any(loom, miri)))]
#[path = "eventfd/descriptor.rs"]
mod counter;
#[cfg(any(loom, miri))]
#[path = "eventfd/memory.rs"]
mod counter;
#[cfg(feature = "test-hooks")]
mod hooks;
mod stop_latch;
mod work_count;

pub use app_event::{AppEvent, EventId, NotAnEventFd, NotDelivered};
pub use completion_event::CompletionEvent;
pub use completion_fd::CompletionFd;
#[cfg(feature = "test-hooks")]
pub use hooks::{Calls, calls, calls_here, fail_call};
pub use stop_latch::StopLatch;
pub use work_count::WorkCount;

use std::io;

/// A counter did not take a count.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignalError {
    /// The count would pass its maximum.
    #[error("the event counter is at its maximum of 2^64 - 2")]
    Saturated,
    /// The operating system refused.
    #[error("the event counter cannot be written: {0}")]
    Os(#[source] io::Error),
}

impl From<io::Error> for SignalError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock => Self::Saturated,
            _ => Self::Os(error),
        }
    }
}

/// How a counter is read, and what it does when it is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A read takes one, and never blocks.
    Semaphore,
    /// A read takes everything, and never blocks.
    Plain,
    /// A read takes everything. Calls block.
    Blocking,
}

/// A kind of system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Write,
    Read,
    Poll,
    Create,
}

/// Comes before every system call: counts it, and fails it where a test has asked for that.
#[cfg(feature = "test-hooks")]
fn announce(call: Call) -> io::Result<()> {
    hooks::announce(call)
}

/// Comes before every system call; only tests want to know.
#[cfg(not(feature = "test-hooks"))]
#[inline(always)]
fn announce(_: Call) -> io::Result<()> {
    Ok(())
}
