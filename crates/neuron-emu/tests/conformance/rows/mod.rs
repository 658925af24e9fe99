//! Every row of the table of ioctls, made once as it should be and once as it should not.

mod devices;
mod engines;
mod memory;

use crate::node::Node;
use crate::{small, with_node};
use std::collections::BTreeSet;
use xu_abi::driver::errno::Answer;
use xu_abi::driver::{Ioctl, ioctl};

/// A row, made twice, each time on a machine of its own.
pub(crate) struct Case {
    row: Ioctl,
    good: fn(&Node) -> Answer,
    answer: Answer,
    bad: fn(&Node) -> Answer,
    refusal: Answer,
}

impl Case {
    const fn new(
        row: Ioctl,
        good: fn(&Node) -> Answer,
        answer: Answer,
        bad: fn(&Node) -> Answer,
        refusal: Answer,
    ) -> Self {
        Self {
            row,
            good,
            answer,
            bad,
            refusal,
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.row.name
    }

    /// Makes it, and says what is wrong with the answer.
    pub(crate) fn make(&self, node: &Node, good: bool) -> Result<(), String> {
        let (answer, expected) = match good {
            true => ((self.good)(node), self.answer),
            false => ((self.bad)(node), self.refusal),
        };
        match answer == expected {
            true => Ok(()),
            false => Err(format!("{}: {answer:?}, not {expected:?}", self.row)),
        }
    }
}

/// All of them.
pub(crate) fn cases() -> impl Iterator<Item = &'static Case> {
    devices::CASES
        .iter()
        .chain(memory::CASES)
        .chain(engines::CASES)
}

#[test]
fn every_row_is_made() {
    let made: BTreeSet<&str> = cases().map(|case| case.row.name).collect();
    let all: BTreeSet<&str> = ioctl::ALL.iter().map(|row| row.name).collect();
    assert_eq!(made, all);
    assert_eq!(cases().count(), ioctl::ALL.len(), "each once");
}

#[test]
fn a_good_argument_is_answered_as_documented() {
    let mut wrong = Vec::new();
    for case in cases() {
        let Some(made) = with_node(small(), |node| case.make(node, true)) else {
            return;
        };
        wrong.extend(made.err());
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_bad_argument_is_answered_as_documented() {
    let mut wrong = Vec::new();
    for case in cases() {
        let Some(made) = with_node(small(), |node| case.make(node, false)) else {
            return;
        };
        wrong.extend(made.err());
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
