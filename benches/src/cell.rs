//! What one measurement is: a question, and the candidates that are asked it.
//!
//! The two reports have a kind of question each; the session samples either.

use std::fmt;
use std::ops::RangeInclusive;

use crate::workload::Measure;

/// Names a cell, and says how to read and to take its samples.
pub(crate) trait Question: Copy + PartialEq + fmt::Debug + fmt::Display {
    /// Whether more is better, and not less.
    fn is_rate(self) -> bool;
    /// A time for one item in the unit of the question.
    fn value(self, ns: f64) -> f64;
    /// What the workload gets: a capacity or a depth.
    fn size(self) -> usize;
    fn lengths(self) -> Lengths;
}

/// How many blocks a sample has.
#[derive(Clone, Debug)]
pub(crate) struct Lengths {
    /// Of the samples that find out how long a sample takes.
    pub(crate) trial: usize,
    /// Within which the number for a sample is chosen.
    pub(crate) blocks: RangeInclusive<usize>,
}

/// One candidate in one cell, used in one way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) name: &'static str,
    /// How it is used, where there is a choice: the ways of one queue are measured apart, and its best one counts.
    pub(crate) way: &'static str,
    pub(crate) measure: Measure,
}

/// One cell.
#[derive(Debug)]
pub(crate) struct Cell<K> {
    pub(crate) key: K,
    pub(crate) candidates: Vec<Candidate>,
}
