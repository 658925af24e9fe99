//! What a run measures: latencies per stage, queue depth over time, and the confusion of classes.
//!
//! Nothing here grows with the length of a run.

use std::time::Duration;

/// Sub-buckets per power of two: a value is known to 1.6 %.
const SUB_BUCKETS: u64 = 64;
/// Spans in which depth is kept; a longer run has longer spans.
const SPANS: usize = 96;
/// Length of a span at first, nanoseconds.
const FIRST_SPAN: u64 = 20_000;

/// Latencies of one stage in a histogram whose size does not depend on their number.
///
/// Nanoseconds below [`SUB_BUCKETS`] have a bucket each; above, each power of two has [`SUB_BUCKETS`] of equal width.
#[derive(Debug, Default)]
pub(crate) struct Latencies {
    counts: Vec<u64>,
    total: u64,
}

impl Latencies {
    pub(crate) fn record(&mut self, latency: Duration) {
        let bucket = bucket(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.total += 1;
    }

    /// The latency below or at which `percent` of all requests lie, microseconds; `None` without any.
    pub(crate) fn percentile(&self, percent: f64) -> Option<f64> {
        // Nearest rank. CAST: between 0 and the total.
        let rank = ((percent / 100.0 * self.total as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let bucket = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        Some(middle(bucket) / 1e3)
    }
}

fn bucket(nanos: u64) -> usize {
    // How many low bits of the value its bucket does not tell apart.
    let coarse = (u64::BITS - (nanos / SUB_BUCKETS).leading_zeros()).saturating_sub(1)
        + u32::from(nanos >= SUB_BUCKETS);
    if coarse == 0 {
        // CAST: less than SUB_BUCKETS.
        return nanos as usize;
    }
    // The value, shifted, is from SUB_BUCKETS / 2 up to SUB_BUCKETS.
    let within = nanos >> coarse;
    // CAST: at most 59 * 32 + 64.
    (u64::from(coarse) * (SUB_BUCKETS / 2) + within) as usize
}

/// The middle of a bucket, nanoseconds.
fn middle(bucket: usize) -> f64 {
    let (bucket, half) = (bucket as u64, SUB_BUCKETS / 2);
    if bucket < SUB_BUCKETS {
        return bucket as f64;
    }
    let coarse = bucket / half - 1;
    let within = bucket % half + half;
    (within as f64 + 0.5) * (coarse as f64).exp2()
}

/// Mean depth of the compute queues over time, sampled at each schedule call.
#[derive(Debug)]
pub(crate) struct DepthOverTime {
    /// Sum and number of the samples in each span.
    spans: [(u64, u64); SPANS],
    span_nanos: u64,
    max: u64,
}

impl Default for DepthOverTime {
    fn default() -> Self {
        Self {
            spans: [(0, 0); SPANS],
            span_nanos: FIRST_SPAN,
            max: 0,
        }
    }
}

impl DepthOverTime {
    pub(crate) fn record(&mut self, at: Duration, depth: u64) {
        let nanos = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
        // CAST: a place beyond the last span is only compared.
        while (nanos / self.span_nanos) as usize >= SPANS {
            self.double();
        }
        let span = &mut self.spans[(nanos / self.span_nanos) as usize];
        span.0 += depth;
        span.1 += 1;
        self.max = self.max.max(depth);
    }

    /// Makes each span twice as long.
    fn double(&mut self) {
        for index in 0..SPANS {
            let at = |index: usize| self.spans.get(index).copied().unwrap_or((0, 0));
            let ((sum, n), (sum_next, n_next)) = (at(2 * index), at(2 * index + 1));
            self.spans[index] = (sum + sum_next, n + n_next);
        }
        self.span_nanos = self.span_nanos.saturating_mul(2);
    }

    pub(crate) fn max(&self) -> u64 {
        self.max
    }

    pub(crate) fn mean(&self) -> f64 {
        let (sum, n) = self
            .spans
            .iter()
            .fold((0, 0), |(sum, n), span| (sum + span.0, n + span.1));
        sum as f64 / n.max(1) as f64
    }

    /// The mean depth in each span up to the last with a sample; `None` for a span without one.
    pub(crate) fn means(&self) -> Vec<Option<f64>> {
        let used = self
            .spans
            .iter()
            .rposition(|(_, n)| *n > 0)
            .map_or(0, |last| last + 1);
        self.spans[..used]
            .iter()
            .map(|(sum, n)| (*n > 0).then(|| *sum as f64 / *n as f64))
            .collect()
    }
}

/// How often each true class was taken for each other.
#[derive(Debug)]
pub(crate) struct Confusion {
    classes: usize,
    counts: Vec<u64>,
}

impl Confusion {
    pub(crate) fn new(labels: &[u8], predictions: &[u8]) -> Self {
        let classes = labels
            .iter()
            .chain(predictions)
            .max()
            .map_or(0, |most| usize::from(*most) + 1);
        let mut counts = vec![0; classes * classes];
        for (label, prediction) in labels.iter().zip(predictions) {
            counts[usize::from(*label) * classes + usize::from(*prediction)] += 1;
        }
        Self { classes, counts }
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = &[u64]> {
        self.counts.chunks(self.classes.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_contiguous_and_their_middle_is_close() {
        let mut last = 0;
        for nanos in (0..100_000).chain([1 << 40, u64::MAX]) {
            let at = bucket(nanos);
            assert!(at == last || at == last + 1 || nanos > 100_000, "{nanos}");
            last = at;
            let error = (middle(at) - nanos as f64).abs();
            assert!(
                error <= 0.5 || error / nanos as f64 <= 0.016,
                "{nanos}: {}",
                middle(at)
            );
        }
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.percentile(50.0), None);
        for micros in [40, 10, 30, 20] {
            latencies.record(Duration::from_micros(micros));
        }
        let near = |percent, micros: f64| {
            let found = latencies.percentile(percent).unwrap();
            assert!(
                (found / micros - 1.0).abs() < 0.016,
                "{found} is not {micros}"
            );
        };
        near(50.0, 20.0);
        near(90.0, 40.0);
        near(0.0, 10.0);
    }

    #[test]
    fn depth_is_kept_in_spans_that_grow_with_the_run() {
        let mut depth = DepthOverTime::default();
        depth.record(Duration::ZERO, 2);
        depth.record(Duration::from_nanos(FIRST_SPAN / 2), 4);
        depth.record(Duration::from_nanos(3 * FIRST_SPAN), 8);
        assert_eq!(depth.means(), [Some(3.0), None, None, Some(8.0)]);
        depth.record(Duration::from_secs(3_600), 10);
        let means = depth.means();
        assert_eq!(means.first(), Some(&Some(14.0 / 3.0)));
        assert_eq!(means.last(), Some(&Some(10.0)));
        assert_eq!((depth.max(), depth.mean()), (10, 6.0));
    }

    #[test]
    fn confusion_counts_by_true_class() {
        let confusion = Confusion::new(&[0, 1, 1], &[0, 1, 0]);
        let rows: Vec<_> = confusion.rows().collect();
        assert_eq!(rows, [[1, 0], [1, 1]]);
    }
}
