//! The progress of a queue as a stream: each item is the newest completed sequence.
//!
//! Made by `completions` of every queue, for any executor: no thread, no polling, one waker. Spec: `c-api.md` sections 5.3
//! and 6.4.

use crate::blocking::Blocking;
use crate::lane::Lane;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use futures_core::Stream;
use xu_abi::{Cursor, SeqId};
use xu_worker::Follower;

/// The completions of one queue, from the moment when this was made.
///
/// Completions that come while nobody asks are seen as one: each item is the newest completed sequence, and everything
/// before it on the queue is complete. Items grow, and the last completion is never missed. The stream ends when the
/// runtime is closed, after that.
///
/// ```
/// use futures::StreamExt;
/// use nrta::Runtime;
///
/// # futures::executor::block_on(async {
/// let runtime = Runtime::builder().open()?;
/// let core = runtime.core(0)?;
/// let (moves, tensor) = (core.tensor_op(0)?, core.allocate(4)?);
///
/// let mut completions = moves.completions();
/// let mut last = None;
/// for byte in 0..100 {
///     last = Some(moves.write(&tensor, 0, vec![byte; 4])?.seq());
/// }
/// while let Some(newest) = completions.next().await {
///     if Some(newest) == last {
///         break;
///     }
/// }
/// runtime.close();
/// assert_eq!(completions.next().await, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[must_use = "a stream does nothing until it is polled"]
pub struct Completions {
    lane: Lane,
    /// What was said last.
    after: Cursor,
    follower: Follower,
}

impl Completions {
    pub(crate) fn new(lane: Lane) -> Self {
        let after = lane.any_unit().newest_request().cursor();
        Self {
            lane,
            after,
            follower: Follower::new(),
        }
    }

    /// The same for a thread: an iterator that blocks until there is a later completion.
    ///
    /// On a thread of the runtime, where a waker may run, it would wait for itself: there it ends when it would block.
    pub fn blocking(self) -> Blocking<Self> {
        Blocking(self)
    }
}

impl Stream for Completions {
    type Item = SeqId;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<SeqId>> {
        let Self {
            lane,
            after,
            follower,
        } = &mut *self;
        let newer = lane.any_unit().poll_newer(*after, follower, cx);
        if let Poll::Ready(Some(seq)) = newer {
            *after = seq.cursor();
        }
        newer
    }
}

impl Drop for Completions {
    fn drop(&mut self) {
        self.lane.any_unit().unfollow(&mut self.follower);
    }
}

impl fmt::Debug for Completions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completions")
            .field("xu", &self.lane.any_unit().xu())
            .field("after", &self.after)
            .finish_non_exhaustive()
    }
}
