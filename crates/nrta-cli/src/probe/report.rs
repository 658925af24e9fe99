//! Verdicts on the facts.

use super::facts::{self, Fact};
use super::subject::Subject;
use nrta::neuron::DriverError;
use std::collections::BTreeMap;

/// What a device said to a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    Confirmed,
    Refuted,
    NotTested,
}

impl Verdict {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Confirmed => "CONFIRMED",
            Self::Refuted => "REFUTED",
            Self::NotTested => "NOT TESTED",
        }
    }
}

/// A verdict with what it rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) verdict: Verdict,
    /// What was seen, in words.
    pub(crate) seen: String,
    /// What was read, in hexadecimal.
    pub(crate) raw: Vec<u64>,
}

/// What is known of the device, and every verdict.
#[derive(Debug)]
pub(crate) struct Report {
    /// Lines about the device: name and value.
    pub(crate) device: Vec<(&'static str, String)>,
    answers: BTreeMap<&'static str, Answer>,
    /// Whether a reset of the core failed: it is in no state that a device should be left in.
    pub(crate) has_failed_reset: bool,
}

impl Report {
    pub(super) fn new(subject: &Subject) -> Self {
        Self {
            device: subject.describe(),
            answers: BTreeMap::new(),
            has_failed_reset: false,
        }
    }

    /// How a reset of the core went.
    pub(super) fn reset(&mut self, result: Result<(), DriverError>) {
        self.has_failed_reset |= result.is_err();
        let value = match result {
            Ok(()) => "succeeded".to_owned(),
            Err(error) => error.to_string(),
        };
        self.note("reset of the core", value);
    }

    pub(super) fn note(&mut self, name: &'static str, value: String) {
        self.device.push((name, value));
    }

    /// Confirms or refutes a fact. An experiment that refutes outweighs another that confirms.
    pub(super) fn judge(&mut self, fact: &'static str, holds: bool, seen: String, raw: &[u64]) {
        let verdict = match holds {
            true => Verdict::Confirmed,
            false => Verdict::Refuted,
        };
        self.answer(fact, verdict, seen, raw);
    }

    /// Says what was seen of a fact that it does not decide.
    pub(super) fn leave(&mut self, fact: &'static str, seen: String, raw: &[u64]) {
        self.answer(fact, Verdict::NotTested, seen, raw);
    }

    /// An experiment ended early: nothing is said of its facts that have no verdict.
    pub(super) fn failed(&mut self, facts: &[&'static str], error: &DriverError) {
        for fact in facts {
            if !self.answers.contains_key(fact) {
                self.leave(fact, error.to_string(), &[]);
            }
        }
    }

    fn answer(&mut self, fact: &'static str, verdict: Verdict, seen: String, raw: &[u64]) {
        let rank = |verdict| match verdict {
            Verdict::NotTested => 0,
            Verdict::Confirmed => 1,
            Verdict::Refuted => 2,
        };
        let known = self.answers.get(fact).map(|answer| answer.verdict);
        if known.is_none_or(|known| rank(verdict) > rank(known) || rank(known) == 0) {
            let raw = raw.to_vec();
            self.answers.insert(fact, Answer { verdict, seen, raw });
        }
    }

    /// Every fact with its answer, by table.
    pub(crate) fn answers(&self) -> Vec<(Fact, Answer)> {
        let answer = |fact: Fact| {
            let known = self.answers.get(fact.name).cloned();
            let answer = known.unwrap_or_else(|| Answer {
                verdict: Verdict::NotTested,
                seen: fact.untested.to_owned(),
                raw: Vec::new(),
            });
            (fact, answer)
        };
        facts::all().map(answer).collect()
    }

    pub(crate) fn count(&self, verdict: Verdict) -> usize {
        let answers = self.answers();
        answers
            .iter()
            .filter(|(_, answer)| answer.verdict == verdict)
            .count()
    }
}

#[cfg(test)]
pub(super) fn empty() -> Report {
    Report {
        device: Vec::new(),
        answers: BTreeMap::new(),
        has_failed_reset: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(report: &Report, name: &str) -> Verdict {
        let answers = report.answers();
        let mut all = answers.iter();
        all.find(|(fact, _)| fact.name == name).unwrap().1.verdict
    }

    #[test]
    fn a_fact_without_an_experiment_is_not_tested() {
        let report = empty();
        assert_eq!(report.count(Verdict::NotTested), facts::all().count());
    }

    #[test]
    fn what_one_experiment_refutes_no_other_confirms() {
        let mut report = empty();
        report.leave("RING_IDS", "nothing".into(), &[]);
        report.leave("RING_IDS", "nothing again".into(), &[]);
        report.failed(&["RING_IDS"], &DriverError::Forked);
        assert_eq!(report.answers["RING_IDS"].seen, "nothing again");
        report.judge("RING_IDS", true, "a lap".into(), &[1]);
        assert_eq!(verdict(&report, "RING_IDS"), Verdict::Confirmed);
        report.judge("RING_IDS", false, "another".into(), &[2]);
        report.judge("RING_IDS", true, "a third".into(), &[3]);
        assert_eq!(verdict(&report, "RING_IDS"), Verdict::Refuted);
    }

    #[test]
    fn an_experiment_that_ends_early_keeps_what_it_has_found() {
        let mut report = empty();
        report.judge("RING_IDS", true, "a lap".into(), &[]);
        report.failed(&["RING_IDS", "DMA_ROUND_TRIP"], &DriverError::Forked);
        assert_eq!(verdict(&report, "RING_IDS"), Verdict::Confirmed);
        assert_eq!(verdict(&report, "DMA_ROUND_TRIP"), Verdict::NotTested);
    }
}
