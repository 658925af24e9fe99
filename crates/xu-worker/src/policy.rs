//! How eagerly a worker looks at the device while a request is in flight, and whether wakes may be skipped.
//!
//! Chosen when a unit is made. Spec `xu.md` sections 4, 8.1 and 8.2.

/// What a worker does between two looks at a request that is still running, and what a submission costs.
///
/// | policy | while a request runs | system calls per request, worker awake |
/// |---|---|---|
/// | `Reference` | looks as often as epoll returns, which is at once | one write, one read, one or more waits |
/// | `Adaptive` | looks briefly, then sleeps until the request is expected to end | none |
/// | `Busy` | looks without pause | none |
///
/// With nothing in flight every policy sleeps until there is work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PollPolicy {
    /// The original's behaviour: the work count keeps epoll from sleeping, so a core is busy for as long
    /// as any request runs. Each request adds one count, and takes it away when it completes.
    Reference,
    /// Looks again at once for a short while, then sleeps until shortly before the time at which requests of
    /// this unit have ended lately. See [`pace`](crate::pace).
    #[default]
    Adaptive,
    /// Never sleeps while a request is in flight.
    Busy,
}

impl PollPolicy {
    /// Whether each request has a count of its own in the unit's eventfd; if not, a submitter rings only for a
    /// worker that sleeps.
    #[must_use]
    pub const fn pairs_wakes(self) -> bool {
        matches!(self, Self::Reference)
    }
}
