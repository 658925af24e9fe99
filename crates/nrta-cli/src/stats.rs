//! What a run measures: latencies per stage, queue depth over time, and the confusion of classes.

use std::time::Duration;

/// Exact latencies of one stage.
#[derive(Debug, Default)]
pub(crate) struct Latencies {
    micros: Vec<f64>,
}

impl Latencies {
    pub(crate) fn record(&mut self, latency: Duration) {
        self.micros.push(latency.as_secs_f64() * 1e6);
    }

    /// The latency below or at which `percent` of all requests lie, microseconds; `None` without any.
    pub(crate) fn percentile(&self, percent: f64) -> Option<f64> {
        let mut sorted = self.micros.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        // Nearest rank. CAST: between 0 and the length.
        let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.max(1) - 1).copied()
    }
}

/// Depth of the compute queues, sampled at each schedule call.
#[derive(Debug, Default)]
pub(crate) struct DepthOverTime {
    samples: Vec<(Duration, u64)>,
}

impl DepthOverTime {
    pub(crate) fn record(&mut self, at: Duration, depth: u64) {
        self.samples.push((at, depth));
    }

    pub(crate) fn max(&self) -> u64 {
        self.samples
            .iter()
            .map(|(_, depth)| *depth)
            .max()
            .unwrap_or(0)
    }

    pub(crate) fn mean(&self) -> f64 {
        let sum: u64 = self.samples.iter().map(|(_, depth)| *depth).sum();
        sum as f64 / self.samples.len().max(1) as f64
    }

    /// The mean depth in each of `bins` equal spans of `total`; `None` for a span without a sample.
    pub(crate) fn bins(&self, total: Duration, bins: usize) -> Vec<Option<f64>> {
        let mut sums = vec![(0u64, 0u64); bins];
        for (at, depth) in &self.samples {
            let share = at.as_secs_f64() / total.as_secs_f64().max(f64::MIN_POSITIVE);
            // CAST: clamped to the last bin.
            let bin = ((share * bins as f64) as usize).min(bins - 1);
            sums[bin].0 += depth;
            sums[bin].1 += 1;
        }
        sums.iter()
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
    fn percentiles_are_nearest_ranks() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.percentile(50.0), None);
        for micros in [40, 10, 30, 20] {
            latencies.record(Duration::from_micros(micros));
        }
        let rounded = |percent| latencies.percentile(percent).map(f64::round);
        assert_eq!(rounded(50.0), Some(20.0));
        assert_eq!(rounded(90.0), Some(40.0));
        assert_eq!(rounded(0.0), Some(10.0));
    }

    #[test]
    fn depth_is_binned_by_time() {
        let mut depth = DepthOverTime::default();
        depth.record(Duration::from_secs(0), 2);
        depth.record(Duration::from_secs(1), 4);
        depth.record(Duration::from_secs(10), 8);
        assert_eq!(
            depth.bins(Duration::from_secs(10), 2),
            [Some(3.0), Some(8.0)]
        );
        assert_eq!(
            (depth.max(), depth.bins(Duration::from_secs(40), 4)[3]),
            (8, None)
        );
    }

    #[test]
    fn confusion_counts_by_true_class() {
        let confusion = Confusion::new(&[0, 1, 1], &[0, 1, 0]);
        let rows: Vec<_> = confusion.rows().collect();
        assert_eq!(rows, [[1, 0], [1, 1]]);
    }
}
