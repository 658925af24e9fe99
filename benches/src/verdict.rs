//! How a bar is judged, whatever it compares.
//!
//! A gate that is missed is a reason not to merge; a target is what the design should reach.

use crate::statistics::Ratio;

/// How a bar ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The target, or the gate where there is no target.
    Met,
    /// The gate and not the target.
    GateMet,
    Missed,
    NotMeasured,
}

impl Verdict {
    /// `is_rate`: whether the number has to be large.
    pub(crate) fn of(measured: Option<f64>, is_rate: bool, gate: f64, target: Option<f64>) -> Self {
        let Some(measured) = measured else {
            return Self::NotMeasured;
        };
        let reaches = |bar: f64| {
            if is_rate {
                measured >= bar
            } else {
                measured <= bar
            }
        };
        match (reaches(gate), target.is_none_or(reaches)) {
            (false, _) => Self::Missed,
            (true, false) => Self::GateMet,
            (true, true) => Self::Met,
        }
    }

    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::GateMet => "gate met",
            Self::Missed => "missed",
            Self::NotMeasured => "not measured",
        }
    }
}

/// A bar with what a run says about it.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) ours: &'static str,
    /// Empty where we are compared with nobody.
    pub(crate) peer: String,
    /// Whether the number has to be large.
    pub(crate) is_rate: bool,
    pub(crate) gate: f64,
    pub(crate) target: Option<f64>,
    /// A ratio, or a number in `unit`, with its interval.
    pub(crate) measured: Option<Ratio>,
    pub(crate) unit: &'static str,
    pub(crate) verdict: Verdict,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_to_be_large_and_times_small() {
        let of = |ratio, is_rate| Verdict::of(Some(ratio), is_rate, 1.3, Some(2.0));
        assert_eq!(of(2.0, true), Verdict::Met);
        assert_eq!(of(1.3, true), Verdict::GateMet);
        assert_eq!(of(1.29, true), Verdict::Missed);
        let of = |ratio| Verdict::of(Some(ratio), false, 0.85, Some(0.75));
        assert_eq!(of(0.7), Verdict::Met);
        assert_eq!(of(0.8), Verdict::GateMet);
        assert_eq!(of(0.9), Verdict::Missed);
        assert_eq!(Verdict::of(Some(1.1), true, 1.1, None), Verdict::Met);
        assert_eq!(Verdict::of(None, true, 1.1, None), Verdict::NotMeasured);
    }
}
