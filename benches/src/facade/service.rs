//! What both sides are to whoever asks: a request goes in, and a future comes back.

use crate::pin::Pair;

/// Requests that the queue has room for, whatever the depth of the loop: the default of the facade.
const LEAST_ROOM: usize = 8;

/// A lane to a device, ready to take requests: executions of the digits model.
pub(crate) trait Service: Sized + Send + 'static {
    /// Whether the request has succeeded.
    type Answer: Future<Output = bool> + Send + Unpin + 'static;

    /// Opens a device and everything before it, for so many requests at a time. What answers runs on the second processor;
    /// the caller is on the first, and in the context of its executor if it has one.
    fn start(processors: Pair, depth: usize) -> Option<Self>;

    /// Schedules one request. There is room, and it never waits.
    fn request(&mut self) -> Self::Answer;

    /// Whether the answer is there; nobody is told when it comes.
    fn is_done(answer: &Self::Answer) -> bool;
}

/// A service that a thread without an executor can use.
pub(crate) trait Waits: Service {
    /// Blocks until the answer is there.
    fn wait(answer: Self::Answer) -> bool;
    /// Looks until it is there: what is left is what the lane does.
    fn watch(answer: Self::Answer) -> bool;
}

/// How many requests a queue has to take for a loop of this depth.
pub(crate) fn room(depth: usize) -> usize {
    depth.max(LEAST_ROOM)
}
