//! Everything that can be asked of a unit, at one moment.
//!
//! For monitoring: asked by any thread, at any time, also when the unit is degraded or closed. Spec `c-api.md` section 15.

use super::Unit;
use crate::engine::Stage;
use crate::health::Health;
use crate::statistics::Latencies;
use std::time::Duration;
use xu_abi::XuId;

/// A queue as it was at one moment.
///
/// Other threads go on meanwhile. The numbers of requests fit each other all the same: `failed` and `skipped` are at most
/// `completed`, that is at most `issued`, and `depth` is the difference. Stops are no requests.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueSnapshot {
    /// Which queue.
    pub xu: XuId,
    /// Whether it takes work.
    pub health: Health,
    /// Most requests that may be accepted and not complete.
    pub limit: u64,
    /// Requests that are accepted and not complete.
    pub depth: u64,
    /// Places that are reserved, besides.
    pub reserved: u64,
    /// Requests that were accepted.
    pub issued: u64,
    /// Requests that are complete, whatever their status.
    pub completed: u64,
    /// Requests that are complete without success, but for those that were skipped.
    pub failed: u64,
    /// Requests that were skipped by their callers, and are complete.
    pub skipped: u64,
    /// Requests that were refused because the queue was full.
    pub queue_full: u64,
    /// Notifications that no application got, because its eventfd was full or broken.
    pub lost_notifications: u64,
    /// For how long the oldest request in flight has been accepted; `None` when there is none, when it is not measured, or
    /// when the worker has not come to it yet.
    pub oldest_age: Option<Duration>,
    /// How long the requests took that were measured: those that came while the queue's `measure` was on.
    pub latency: Latencies,
}

impl<S: Stage> Unit<S> {
    /// What can be said of this unit now. Takes no lock.
    #[must_use]
    pub fn snapshot(&self) -> QueueSnapshot {
        let shared = &self.parts.shared;
        let statistics = &shared.statistics;
        // Each of these is at most the one after it, and later looks only find more.
        let (failed, skipped) = (statistics.failed(), statistics.skipped());
        let completed = self.newest_request().cursor().get();
        let issued = self.newest_issued().cursor().get().max(completed);
        QueueSnapshot {
            xu: self.xu(),
            health: self.health(),
            limit: self.limit(),
            depth: issued - completed,
            reserved: self.reserved(),
            issued,
            completed,
            // They are counted just before the completion.
            failed: failed.min(completed),
            skipped: skipped.min(completed),
            queue_full: statistics.refused_full(),
            lost_notifications: self.lost_notifications(),
            oldest_age: self.oldest_age(),
            latency: statistics.latencies(),
        }
    }

    /// Measures the requests that are accepted from now on, or measures no more: how long they take, and how old the oldest
    /// is. Off at first, because it costs the time of two looks at the clock for each request.
    pub fn measure(&self, on: bool) {
        self.parts.shared.statistics.measure(on);
    }

    fn oldest_age(&self) -> Option<Duration> {
        let before = self.last_completed();
        let age = self.parts.shared.statistics.head_age()?;
        // The head is the same as before, so the age is its own.
        let is_same = self.last_completed() == before;
        (is_same && self.depth() > 0).then_some(age)
    }
}
