//! Medians, quartiles, and how sure a ratio of two medians is.

use crate::random::Random;

/// Fewer good samples than this say nothing.
pub(crate) const LEAST_SAMPLES: usize = 5;

/// How often the bootstrap draws.
const DRAWS: usize = 2000;

/// The middle of some samples, and where the middle half of them lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    pub(crate) lower: f64,
    pub(crate) median: f64,
    pub(crate) upper: f64,
    pub(crate) count: usize,
}

impl Summary {
    /// `None` when there are too few samples.
    pub(crate) fn of(samples: &[f64]) -> Option<Self> {
        if samples.len() < LEAST_SAMPLES {
            return None;
        }
        let sorted = sorted(samples);
        Some(Self {
            lower: quantile(&sorted, 0.25),
            median: quantile(&sorted, 0.5),
            upper: quantile(&sorted, 0.75),
            count: sorted.len(),
        })
    }
}

/// A ratio of two medians with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ratio {
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Ratio {
    /// The median of `above` over that of `below`. The interval comes from a bootstrap: both sets of samples are drawn
    /// anew, with repetition, and the ratio taken each time. `None` when either set has too few samples.
    pub(crate) fn of_medians(above: &[f64], below: &[f64]) -> Option<Self> {
        let value = Summary::of(above)?.median / Summary::of(below)?.median;
        let mut random = Random::seeded(1);
        let mut buffer = Vec::new();
        let mut drawn: Vec<f64> = (0..DRAWS)
            .map(|_| {
                let above = median_of_draw(above, &mut random, &mut buffer);
                above / median_of_draw(below, &mut random, &mut buffer)
            })
            .collect();
        drawn.sort_unstable_by(f64::total_cmp);
        Some(Self {
            value,
            low: quantile(&drawn, 0.025),
            high: quantile(&drawn, 0.975),
        })
    }
}

fn median_of_draw(samples: &[f64], random: &mut Random, buffer: &mut Vec<f64>) -> f64 {
    buffer.clear();
    buffer.extend((0..samples.len()).map(|_| samples[random.below(samples.len())]));
    buffer.sort_unstable_by(f64::total_cmp);
    quantile(buffer, 0.5)
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// Between two samples it lies in proportion.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let place = part * (sorted.len() - 1) as f64;
    let below = place.floor();
    // CAST: a place is less than the length, and not negative.
    let index = below as usize;
    let next = sorted[(index + 1).min(sorted.len() - 1)];
    sorted[index] + (next - sorted[index]) * (place - below)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(from: u32, to: u32) -> Vec<f64> {
        (from..=to).map(f64::from).collect()
    }

    #[test]
    fn quartiles_of_a_row() {
        let summary = Summary::of(&counted(1, 9)).expect("enough");
        assert_eq!(
            (summary.lower, summary.median, summary.upper, summary.count),
            (3.0, 5.0, 7.0, 9)
        );
        assert_eq!(Summary::of(&counted(1, 6)).expect("enough").median, 3.5);
    }

    #[test]
    fn the_order_of_samples_does_not_matter() {
        let mut samples = counted(1, 30);
        Random::seeded(5).shuffle(&mut samples);
        assert_eq!(Summary::of(&samples), Summary::of(&counted(1, 30)));
    }

    #[test]
    fn few_samples_say_nothing() {
        assert_eq!(Summary::of(&counted(1, 4)), None);
        assert_eq!(Ratio::of_medians(&counted(1, 4), &counted(1, 9)), None);
        assert_eq!(Ratio::of_medians(&counted(1, 9), &[]), None);
    }

    #[test]
    fn the_interval_holds_the_ratio_and_narrows() {
        let few = Ratio::of_medians(&counted(190, 210), &counted(90, 110)).expect("enough");
        assert_eq!(few.value, 2.0);
        assert!(few.low < 2.0 && 2.0 < few.high, "{few:?}");
        assert!(few.low > 1.8 && few.high < 2.2, "{few:?}");
        let same = Ratio::of_medians(&[3.0; 9], &[3.0; 9]).expect("enough");
        assert_eq!((same.low, same.value, same.high), (1.0, 1.0, 1.0));
    }

    #[test]
    fn two_calls_agree() {
        let (above, below) = (counted(1, 40), counted(5, 30));
        assert_eq!(
            Ratio::of_medians(&above, &below),
            Ratio::of_medians(&above, &below)
        );
    }
}
