//! How eagerly a worker looks at the device while a request is in flight.
//!
//! Chosen when a runtime is opened. Spec `xu.md` sections 4 and 8.1.

use core::time::Duration;

/// What a worker does between two looks at a request that is still running.
///
/// With nothing in flight every policy sleeps until there is work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PollPolicy {
    /// The original's behaviour: the work count keeps epoll from sleeping, so a core is busy for as long
    /// as any request runs.
    Reference,
    /// Look again at once for a short while, then sleep with a growing, bounded timeout.
    #[default]
    Adaptive,
    /// Never sleep while a request is in flight.
    Busy,
}

/// For how long [`PollPolicy::Adaptive`] looks again at once, giving way to other threads in between.
pub(crate) const SPIN: Duration = Duration::from_micros(20);
/// Its first sleep.
pub(crate) const FIRST_SLEEP: Duration = Duration::from_micros(20);
/// Its longest sleep.
pub(crate) const LONGEST_SLEEP: Duration = Duration::from_millis(1);
