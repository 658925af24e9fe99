//! Whether all ranks take part, and whether the plans that have met fit together.
//!
//! Asked by every rank once all have come. The answer depends on nothing but the offers, so every rank comes to the same
//! one, and nobody has to be told.

use super::plan::Offer;
use core::fmt;
use core::mem::discriminant;
use std::sync::Arc;
use xu_abi::Status;

/// Two ranks have come with plans that do not fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rank {one} and rank {other} {difference}")]
pub struct Mismatch {
    /// The lower of the two.
    pub one: u32,
    /// The other one.
    pub other: u32,
    /// What does not fit.
    pub difference: Difference,
}

/// What does not fit between two plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The collective.
    Collective,
    /// The reduction.
    Reduction,
    /// The element type.
    Dtype,
    /// How many tensors, or their sizes.
    Sizes,
    /// One writes what the other reads or writes.
    Overlap,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Collective => "have come for different collectives",
            Self::Reduction => "reduce in different ways",
            Self::Dtype => "have different element types",
            Self::Sizes => "have tensors of different sizes",
            Self::Overlap => "use the same memory",
        })
    }
}

/// A rank has come without taking part: its own queue refused before anything moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rank {rank} has withdrawn: {status}")]
pub struct Withdrawn {
    /// Which one: the lowest, if there are several.
    pub rank: u32,
    /// Why.
    pub status: Status,
}

/// The first rank that does not take part. Offers are in the order of the ranks.
pub(super) fn withdrawn(offers: &[Arc<Offer>]) -> Option<Withdrawn> {
    let why = |offer: &Arc<Offer>| offer.withdrawn.get().copied();
    let mut ranks = (0..).zip(offers);
    ranks.find_map(|(rank, offer)| why(offer).map(|status| Withdrawn { rank, status }))
}

/// Whether all offers fit together. They are in the order of the ranks.
pub(super) fn check(offers: &[Arc<Offer>]) -> Result<(), Mismatch> {
    let Some((first, others)) = offers.split_first() else {
        return Ok(());
    };
    for (rank, other) in (1..).zip(others) {
        if let Some(difference) = first.differs(other) {
            return Err(Mismatch {
                one: 0,
                other: rank,
                difference,
            });
        }
    }
    for (one, offer) in (0..).zip(offers) {
        // PANIC: `one` counts the offers.
        for (other, later) in (one + 1..).zip(&offers[one as usize + 1..]) {
            if offer.collides(later) {
                return Err(Mismatch {
                    one,
                    other,
                    difference: Difference::Overlap,
                });
            }
        }
    }
    Ok(())
}

impl Offer {
    fn differs(&self, other: &Self) -> Option<Difference> {
        let sizes = |offer: &Self| offer.parts.len();
        let bytes = |offer: &'_ Self, index: usize| offer.parts.get(index).map(|part| part.bytes);
        if discriminant(&self.collective) != discriminant(&other.collective) {
            Some(Difference::Collective)
        } else if self.collective != other.collective {
            Some(Difference::Reduction)
        } else if self.dtype != other.dtype {
            Some(Difference::Dtype)
        } else if sizes(self) != sizes(other)
            || (0..sizes(self)).any(|index| bytes(self, index) != bytes(other, index))
        {
            Some(Difference::Sizes)
        } else {
            None
        }
    }

    /// Whether one writes what the other uses.
    fn collides(&self, other: &Self) -> bool {
        // The tensors of two ranks are usually in different memories.
        self.place == other.place
            && (self.written.touches(other.written.regions())
                || self.written.touches(other.inputs.iter().copied())
                || other.written.touches(self.inputs.iter().copied()))
    }
}
