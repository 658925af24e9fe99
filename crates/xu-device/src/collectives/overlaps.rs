//! Which tensors of a rank, or of two, may have bytes in common.
//!
//! Asked when a plan is prepared ([`check`]) and when plans meet ([`Written::touches`]). Outputs are sorted once; since no
//! two of them overlap, those that share a byte with a region lie side by side:
//!
//! ```text
//!   outputs, sorted   | b |   | d || a |     | c |
//!   region                  | ....... |              d and a: found by bisection
//! ```

use super::plan::{Collective, PlanError};
use crate::region::Region;

/// The outputs of a rank by address, without those that have no bytes. No two overlap.
pub(super) struct Written {
    /// Each with its place in the list.
    sorted: Vec<(Region, usize)>,
}

impl Written {
    /// Outputs are written in no particular order, so they must be apart. They are in one place.
    fn new(outputs: &[Region]) -> Result<Self, PlanError> {
        let listed = outputs.iter().copied().zip(0..);
        let mut sorted: Vec<(Region, usize)> =
            listed.filter(|(output, _)| output.bytes() != 0).collect();
        sorted.sort_unstable_by_key(|(output, _)| output.addr().get());
        // If any two overlap, then two neighbours do.
        for pair in sorted.windows(2) {
            // PANIC: a window has two.
            let (one, other) = (pair[0].0, pair[1].0);
            if one.overlaps(other) {
                return Err(PlanError::Overlap { one, other });
            }
        }
        Ok(Self { sorted })
    }

    /// The outputs that have a byte in common with `region`, which is in the same place, and their places in the list.
    fn overlapping(&self, region: Region) -> impl Iterator<Item = (Region, usize)> {
        let end = |of: Region| of.at(of.bytes()).get();
        let before = |(output, _): &(Region, usize)| end(*output) <= region.addr().get();
        let first = self.sorted.partition_point(before);
        let rest = self.sorted.iter().skip(first).copied();
        rest.take_while(move |(output, _)| output.overlaps(region))
    }

    /// Whether some output has a byte in common with one of `regions`.
    pub(super) fn touches(&self, mut regions: impl Iterator<Item = Region>) -> bool {
        regions.any(|region| self.overlapping(region).next().is_some())
    }

    pub(super) fn regions(&self) -> impl Iterator<Item = Region> {
        self.sorted.iter().map(|(output, _)| *output)
    }
}

/// Whether the tensors of one rank overlap only where that can be right. Lists of the same length are pairs of one input and
/// one output each; other lists are one collective.
///
/// What overlaps within a pair or a collective is the business of
/// [`Part::untangle`](super::shards::Part::untangle), but for an all-reduce, whose pairs are the same or apart: each shard is
/// read by one rank only, and by the one that writes it.
pub(super) fn check(
    collective: Collective,
    inputs: &[Region],
    outputs: &[Region],
) -> Result<Written, PlanError> {
    let written = Written::new(outputs)?;
    if inputs.len() != outputs.len() {
        return Ok(written);
    }
    for (pair, input) in inputs.iter().enumerate() {
        for (output, of) in written.overlapping(*input) {
            let allowed = of == pair
                && match collective {
                    Collective::AllReduce(_) => *input == output,
                    Collective::AllGather | Collective::ReduceScatter(_) => true,
                };
            if !allowed {
                let (one, other) = (*input, output);
                return Err(PlanError::Overlap { one, other });
            }
        }
    }
    Ok(written)
}
