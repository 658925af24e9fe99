//! Replica groups: which cores work together, and how far each has come in scheduling.
//!
//! Made by [`Runtime::group`](crate::Runtime::group), named in every part that is prepared.
//! When the runtime closes, no core accepts anything any more; a part that waits for one which was never scheduled would wait
//! for ever then. So each member counts what it has accepted, and closing tells the group how many collectives will complete.

use crate::error::{Error, ScheduleError};
use crate::runtime::Inner;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use xu_device::collectives::{Communicator, Rank, WARN_AFTER_NS};

/// A replica group: cores of one runtime, of which the first is rank 0. Clones are handles to the same group.
///
/// When the last handle has gone and nothing is scheduled any more, its ranks have left.
///
/// Give every core the collectives of all groups in the same order. A queue is in order, so two cores that have two collectives
/// in opposite orders wait for each other for ever, and closing waits with them.
#[derive(Clone, Debug)]
pub struct Group {
    members: Arc<Members>,
    ranks: Arc<[Rank]>,
}

/// What the parts of a group share.
#[derive(Debug)]
pub(crate) struct Members {
    runtime: Weak<Inner>,
    /// Cores, by rank.
    cores: Vec<u32>,
    /// Collectives that each rank has accepted.
    accepted: Vec<AtomicU64>,
    /// How many collectives all ranks will come to; no limit while the runtime is open.
    complete: AtomicU64,
}

impl Group {
    /// # Errors
    /// [`Error::Group`]: no core, or one twice.
    pub(crate) fn new(runtime: &Arc<Inner>, cores: &[u32]) -> Result<Self, Error> {
        let refused = |why| Error::Group {
            cores: cores.to_vec(),
            why,
        };
        if (1..cores.len()).any(|index| cores[..index].contains(&cores[index])) {
            return Err(refused("a core can have one rank only"));
        }
        // CAST: a runtime has at most 256 cores, and none is there twice.
        let count = cores.len() as u32;
        let communicator = Communicator::new(count, WARN_AFTER_NS)
            .map_err(|_| refused("a group has at least one core"))?;
        let ranks = (0..count)
            .map(|rank| communicator.join(rank))
            .collect::<Result<_, _>>()
            .map_err(|_| refused("a core can have one rank only"))?;
        let members = Members {
            runtime: Arc::downgrade(runtime),
            cores: cores.to_vec(),
            accepted: cores.iter().map(|_| AtomicU64::new(0)).collect(),
            complete: AtomicU64::new(u64::MAX),
        };
        Ok(Self {
            members: Arc::new(members),
            ranks,
        })
    }

    /// The logical cores, by rank.
    #[must_use]
    pub fn cores(&self) -> &[u32] {
        &self.members.cores
    }

    pub(crate) fn members(&self) -> &Arc<Members> {
        &self.members
    }

    /// The rank of a core of `runtime`.
    pub(super) fn rank(&self, runtime: &Arc<Inner>, core: u32) -> Result<Rank, ScheduleError> {
        if !Weak::ptr_eq(&self.members.runtime, &Arc::downgrade(runtime)) {
            return Err(ScheduleError::WrongRuntime { what: "group" });
        }
        let rank = self.cores().iter().position(|member| *member == core);
        match rank.and_then(|rank| self.ranks.get(rank)) {
            Some(rank) => Ok(rank.clone()),
            None => Err(ScheduleError::NotInGroup {
                core,
                group: self.cores().to_vec(),
            }),
        }
    }
}

impl Members {
    /// Counts a part that `rank` has accepted, and says the how manieth it is, from 1. Under that queue's submit lock.
    pub(super) fn accept(&self, rank: u32) -> u64 {
        // Relaxed: closing reads it behind the same submit lock.
        let accepted = self.accepted.get(rank as usize);
        accepted.map_or(0, |accepted| 1 + accepted.fetch_add(1, Ordering::Relaxed))
    }

    /// No rank accepts anything any more: what not all have accepted will not complete.
    pub(crate) fn close(&self) {
        let accepted = self.accepted.iter();
        let all_have = accepted
            .map(|accepted| accepted.load(Ordering::Relaxed))
            .min();
        // Relaxed: seen later, it is seen at the next look.
        self.complete
            .store(all_have.unwrap_or(0), Ordering::Relaxed);
    }

    /// Whether the part that was accepted as number `ordinal` waits for one that will not come.
    pub(super) fn is_in_vain(&self, ordinal: u64) -> bool {
        ordinal > self.complete.load(Ordering::Relaxed)
    }

    pub(super) fn core(&self, rank: u32) -> Option<u32> {
        self.cores.get(rank as usize).copied()
    }

    pub(super) fn is_of(&self, runtime: &Arc<Inner>) -> bool {
        Weak::ptr_eq(&self.runtime, &Arc::downgrade(runtime))
    }
}
