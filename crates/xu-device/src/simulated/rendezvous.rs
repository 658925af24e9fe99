//! Where cores of one machine meet: a collectives group starts when all of its ranks have arrived.
//!
//! Called by sequencers, for an execution that came with a collectives context, and when a model-exec queue is opened.
//! Rules: a rank that is late is waited for, for ever; two cores with the same rank, or ranks that disagree about their
//! number, are a mistake of whoever came last; a group that is complete is forgotten at once, so that its next
//! generation can gather while some cores have yet to notice that the last one has passed.
//!
//! ```text
//!   join (rank 0 of 3)   join (rank 2 of 3)   join (rank 1 of 3)
//!        Waiting               Waiting              |
//!        Passed  <------------ Passed <-------------+ Passed
//! ```

use crate::program::Membership;
use parking_lot::Mutex;
use xu_abi::TpbIndex;

/// All groups of a machine.
#[derive(Debug, Default)]
pub(super) struct Rendezvous(Mutex<Gathering>);

#[derive(Debug, Default)]
struct Gathering {
    waiting: Vec<(TpbIndex, Membership)>,
    passed: Vec<TpbIndex>,
}

/// A rank that cannot be let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Conflict;

/// How a core stands with the group that it has joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Ranks are missing.
    Waiting,
    /// All have arrived. Said once.
    Passed,
    /// The core belongs to no group any more.
    Gone,
}

impl Rendezvous {
    /// Lets `tpb` in; returns who passes because of it, `tpb` included, or nobody.
    pub(super) fn join(
        &self,
        tpb: TpbIndex,
        membership: Membership,
    ) -> Result<Vec<TpbIndex>, Conflict> {
        let mut gathering = self.0.lock();
        let group = membership.group;
        let mut arrived = 1u32;
        for (_, other) in gathering.of(group) {
            if other.rank == membership.rank || other.ranks != membership.ranks {
                return Err(Conflict);
            }
            arrived += 1;
        }
        gathering.waiting.push((tpb, membership));
        if arrived < membership.ranks {
            return Ok(Vec::new());
        }
        let passing: Vec<_> = gathering.of(group).map(|(tpb, _)| *tpb).collect();
        gathering.waiting.retain(|(_, other)| other.group != group);
        gathering.passed.extend_from_slice(&passing);
        Ok(passing)
    }

    /// How `tpb` stands.
    pub(super) fn standing(&self, tpb: TpbIndex) -> Standing {
        let mut gathering = self.0.lock();
        if let Some(at) = gathering.passed.iter().position(|passed| *passed == tpb) {
            gathering.passed.swap_remove(at);
            return Standing::Passed;
        }
        let waits = gathering.waiting.iter().any(|(waiting, _)| *waiting == tpb);
        if waits {
            Standing::Waiting
        } else {
            Standing::Gone
        }
    }

    /// Takes `tpb` out of whatever it has joined.
    pub(super) fn leave(&self, tpb: TpbIndex) {
        let mut gathering = self.0.lock();
        gathering.waiting.retain(|(waiting, _)| *waiting != tpb);
        gathering.passed.retain(|passed| *passed != tpb);
    }
}

impl Gathering {
    fn of(&self, group: u32) -> impl Iterator<Item = &(TpbIndex, Membership)> {
        self.waiting
            .iter()
            .filter(move |(_, member)| member.group == group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tpb(index: u16) -> TpbIndex {
        TpbIndex::new(index)
    }

    fn member(group: u32, rank: u32, ranks: u32) -> Membership {
        Membership { group, rank, ranks }
    }

    #[test]
    fn a_group_passes_when_its_last_rank_arrives_and_then_gathers_anew() {
        let rendezvous = Rendezvous::default();
        for _ in 0..3 {
            assert_eq!(rendezvous.join(tpb(0), member(7, 1, 2)), Ok(vec![]));
            assert_eq!(rendezvous.join(tpb(5), member(8, 0, 2)), Ok(vec![]));
            assert_eq!(rendezvous.standing(tpb(0)), Standing::Waiting);
            let passing = rendezvous.join(tpb(1), member(7, 0, 2));
            assert_eq!(passing, Ok(vec![tpb(0), tpb(1)]));
            // The other core has not looked yet.
            assert_eq!(rendezvous.standing(tpb(1)), Standing::Passed);
            assert_eq!(rendezvous.join(tpb(1), member(7, 0, 2)), Ok(vec![]));
            assert_eq!(rendezvous.standing(tpb(0)), Standing::Passed);
            assert_eq!(rendezvous.standing(tpb(0)), Standing::Gone);
            for core in [1, 5] {
                assert_eq!(rendezvous.standing(tpb(core)), Standing::Waiting);
                rendezvous.leave(tpb(core));
                assert_eq!(rendezvous.standing(tpb(core)), Standing::Gone);
            }
        }
    }

    #[test]
    fn a_rank_that_is_taken_or_counts_differently_is_not_let_in() {
        let rendezvous = Rendezvous::default();
        rendezvous.join(tpb(0), member(1, 0, 3)).unwrap();
        for wrong in [member(1, 0, 3), member(1, 1, 2)] {
            assert_eq!(rendezvous.join(tpb(1), wrong), Err(Conflict));
            assert_eq!(rendezvous.standing(tpb(1)), Standing::Gone);
        }
        assert_eq!(rendezvous.join(tpb(1), member(2, 0, 1)), Ok(vec![tpb(1)]));
    }
}
