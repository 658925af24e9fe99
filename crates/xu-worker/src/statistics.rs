//! What a unit counts for people who look at it: refusals, failures, and, when asked, how long requests take.
//!
//! Read by [`Unit::snapshot`](crate::Unit::snapshot). Each number has one writer, the submitter that holds the submit lock or
//! the worker, so that counting is a load and a store of a line that is this writer's own. What goes well is not counted:
//! the ring's cursors say it. A histogram needs the time twice for each request, which makes handing a request over a tenth
//! slower; so it is off until it is asked for, and then only requests that are accepted afterwards are measured. A coarse
//! clock would be cheaper, but ticks in milliseconds, and most requests are shorter.

use crate::sync::{AtomicBool, AtomicU64, Ordering};
use core::fmt;
use core::num::NonZeroU64;
use std::time::{Duration, Instant};

/// Number of buckets of [`Latencies`].
pub const BUCKETS: usize = 64;

/// Added to by one thread at a time.
#[derive(Debug, Default)]
struct Tally(AtomicU64);

impl Tally {
    /// The caller is the only writer.
    fn add_one(&self) {
        // Relaxed: a statistic. No read-modify-write: nobody else writes.
        let counted = self.0.load(Ordering::Relaxed);
        self.0.store(counted + 1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        // Relaxed: a statistic.
        self.0.load(Ordering::Relaxed)
    }
}

/// When a request was accepted, nanoseconds from the epoch of its unit: never 0, so that what is not measured takes no room.
pub(crate) type Stamp = NonZeroU64;

/// The numbers of one unit.
pub(crate) struct Statistics {
    is_measuring: AtomicBool,
    /// From when `head_since` counts.
    epoch: Instant,
    /// Written under the submit lock.
    refused_full: Tally,
    worker: Box<WorkerTallies>,
}

/// Written by the worker, in lines of their own.
#[repr(align(128))]
struct WorkerTallies {
    failed: Tally,
    skipped: Tally,
    /// When the request at the head was accepted, nanoseconds from the epoch; 0 when that is not known.
    head_since: AtomicU64,
    latencies: [Tally; BUCKETS],
}

impl Statistics {
    pub(crate) fn new() -> Self {
        Self {
            is_measuring: AtomicBool::new(false),
            epoch: Instant::now(),
            refused_full: Tally::default(),
            worker: Box::new(WorkerTallies {
                failed: Tally::default(),
                skipped: Tally::default(),
                head_since: AtomicU64::new(0),
                latencies: core::array::from_fn(|_| Tally::default()),
            }),
        }
    }

    pub(crate) fn measure(&self, on: bool) {
        // Relaxed: requests that are accepted meanwhile may be measured or not.
        self.is_measuring.store(on, Ordering::Relaxed);
    }

    /// The time of an acceptance, where it is wanted.
    #[inline(always)]
    pub(crate) fn stamp(&self) -> Option<Stamp> {
        // Relaxed: as in `measure`.
        if self.is_measuring.load(Ordering::Relaxed) {
            Some(self.now())
        } else {
            None
        }
    }

    #[cold]
    fn now(&self) -> Stamp {
        // The first nanosecond counts as the second one.
        NonZeroU64::new(nanoseconds(self.epoch.elapsed())).unwrap_or(NonZeroU64::MIN)
    }

    /// A request was refused, because the queue is full. Called under the submit lock.
    #[cold]
    pub(crate) fn refuse_full(&self) {
        self.refused_full.add_one();
    }

    /// A request is at the head from now on. Called by the worker.
    #[cold]
    pub(crate) fn begin(&self, accepted: Stamp) {
        // PAIRS: with the acquire load in `head_age`: who sees it also sees that the request before is complete.
        self.worker
            .head_since
            .store(accepted.get(), Ordering::Release);
    }

    /// A request that was measured is about to complete. Called by the worker.
    #[cold]
    pub(crate) fn end(&self, accepted: Stamp) {
        // Relaxed: the completion, which publishes it, is still to come.
        self.worker.head_since.store(0, Ordering::Relaxed);
        let took = self.now().get().saturating_sub(accepted.get());
        let bucket = bucket_of(Duration::from_nanos(took));
        if let Some(tally) = self.worker.latencies.get(bucket) {
            tally.add_one();
        }
    }

    /// A request is about to complete without success. Called by the worker.
    #[cold]
    pub(crate) fn fail(&self) {
        self.worker.failed.add_one();
    }

    /// A request that was skipped is about to complete. Called by the worker.
    #[cold]
    pub(crate) fn skip(&self) {
        self.worker.skipped.add_one();
    }

    pub(crate) fn refused_full(&self) -> u64 {
        self.refused_full.get()
    }

    pub(crate) fn failed(&self) -> u64 {
        self.worker.failed.get()
    }

    pub(crate) fn skipped(&self) -> u64 {
        self.worker.skipped.get()
    }

    /// For how long the request at the head has been accepted. The caller sees to it that the head has not changed
    /// meanwhile.
    pub(crate) fn head_age(&self) -> Option<Duration> {
        // PAIRS: with the release store in `begin`.
        match self.worker.head_since.load(Ordering::Acquire) {
            0 => None,
            since => Some(Duration::from_nanos(self.now().get().saturating_sub(since))),
        }
    }

    pub(crate) fn latencies(&self) -> Latencies {
        let mut counts = [0; BUCKETS];
        for (count, tally) in counts.iter_mut().zip(&self.worker.latencies) {
            *count = tally.get();
        }
        Latencies { counts }
    }
}

impl fmt::Debug for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Statistics")
            .field("failed", &self.failed())
            .field("refused_full", &self.refused_full())
            .finish_non_exhaustive()
    }
}

/// Centuries of nanoseconds fit; more saturate.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn bucket_of(latency: Duration) -> usize {
    // CAST: at most 63.
    nanoseconds(latency).max(1).ilog2() as usize
}

/// How long requests took, from their acceptance to their completion: a histogram with buckets that double.
#[derive(Clone, PartialEq, Eq)]
pub struct Latencies {
    counts: [u64; BUCKETS],
}

impl Latencies {
    /// How many requests took from 2^i to 2^(i+1) nanoseconds, by i; shorter than a nanosecond counts as one.
    #[must_use]
    pub fn counts(&self) -> &[u64; BUCKETS] {
        &self.counts
    }

    /// How many requests were measured.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// A time that at least this part of the requests has not passed, 0 to 1: the end of a bucket, so at most twice the
    /// truth. `None` when nothing was measured. Parts below 0 and what is no number count as 0, parts above 1 as 1.
    #[must_use]
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        let total = self.total();
        // CAST: a part of a count is a count; the cast saturates, and makes 0 of what is no number.
        let rank = ((total as f64 * part).ceil() as u64).clamp(1, total.max(1));
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                let end = 2u64.checked_shl(bucket as u32).filter(|end| *end > 0);
                return Some(Duration::from_nanos(end.unwrap_or(u64::MAX)));
            }
        }
        None
    }
}

impl fmt::Debug for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let taken = self
            .counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0);
        f.debug_map()
            .entries(taken.map(|(bucket, count)| (Duration::from_nanos(1 << bucket), count)))
            .finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn buckets_double() {
        for (nanoseconds, bucket) in [(0, 0), (1, 0), (2, 1), (3, 1), (1_000, 9), (u64::MAX, 63)] {
            assert_eq!(bucket_of(Duration::from_nanos(nanoseconds)), bucket);
        }
        assert_eq!(bucket_of(Duration::MAX), 63);
    }

    #[test]
    fn a_quantile_is_the_end_of_a_bucket() {
        let mut counts = [0; BUCKETS];
        (counts[3], counts[10], counts[63]) = (90, 9, 1);
        let latencies = Latencies { counts };
        let ends = [0.0, 0.9, 0.91, 0.99, 1.0, 7.0, -1.0, f64::NAN]
            .map(|part| latencies.quantile(part).map(nanoseconds));
        let (low, high, last) = (Some(16), Some(2_048), Some(u64::MAX));
        assert_eq!(ends, [low, low, high, high, last, last, low, low]);
        let nothing = Latencies {
            counts: [0; BUCKETS],
        };
        assert_eq!(nothing.quantile(0.5), None);
    }
}
