//! The ranks of a communicator: where they meet, wait for each other, and learn that one has gone.
//!
//! Made by the facade, one [`Rank`] per core; used by [`CollectiveDma`](super::CollectiveDma).
//! Every rank has a seat with a count of the barriers that it has reached since the beginning. A barrier is passed when
//! every count has come that far. Counts only grow, so a rank that is ahead is never mistaken for one that is behind, and
//! collectives need no number of their own: each takes [`BARRIERS`] counts.
//!
//! ```text
//!   seat 0   reached 7   offer of the 3rd collective        7 = 2 * 3 + 1: has come to the third one
//!   seat 1   reached 6   (none yet)                         everybody has left the second: 6 = 2 * 3
//! ```

use super::plan::Offer;
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};
use xu_abi::Status;

/// Most ranks of a communicator: as many as a machine has cores.
pub const MAX_RANKS: u32 = 256;
/// How long a rank is waited for before that is worth a warning, unless the owner says otherwise: 30 s, nanoseconds.
pub const WARN_AFTER_NS: u64 = 30_000_000_000;
/// Barriers of one collective.
pub(super) const BARRIERS: u64 = 3;

/// The ranks that work together. Clones are handles to the same one.
///
/// As long as there is a handle, ranks may join. When the last one goes, those that have not joined never will.
#[derive(Clone, Debug)]
pub struct Communicator {
    door: Arc<Door>,
}

impl Communicator {
    /// A communicator of `ranks` ranks (1 to [`MAX_RANKS`]), none of which has joined.
    ///
    /// Whoever waits for `warn_after_ns` nanoseconds at a barrier says so, then after twice that time, and so on.
    ///
    /// # Errors
    /// [`CommunicatorError::Ranks`].
    pub fn new(ranks: u32, warn_after_ns: u64) -> Result<Self, CommunicatorError> {
        if !(1..=MAX_RANKS).contains(&ranks) {
            return Err(CommunicatorError::Ranks { ranks });
        }
        let table = Arc::new(Table {
            seats: (0..ranks).map(|_| Seat::default()).collect(),
            lost: OnceLock::new(),
            warn_after_ns: warn_after_ns.max(1),
        });
        Ok(Self {
            door: Arc::new(Door { table }),
        })
    }

    /// Number of ranks.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.door.table.ranks()
    }

    /// Takes a seat. Each can be taken once.
    ///
    /// # Errors
    /// [`CommunicatorError::NoSuchRank`], [`CommunicatorError::Taken`].
    pub fn join(&self, rank: u32) -> Result<Rank, CommunicatorError> {
        let table = &self.door.table;
        let Some(seat) = table.seats.get(rank as usize) else {
            let ranks = self.ranks();
            return Err(CommunicatorError::NoSuchRank { rank, ranks });
        };
        // Relaxed: nothing else is read because of it.
        if seat.taken.swap(true, Ordering::Relaxed) {
            return Err(CommunicatorError::Taken { rank });
        }
        let table = Arc::clone(table);
        Ok(Rank {
            member: Arc::new(Member { table, rank }),
        })
    }

    /// Why no collective of this communicator will complete any more; `None` while all is well.
    #[must_use]
    pub fn lost(&self) -> Option<Lost> {
        self.door.table.lost()
    }
}

/// What the handles of a communicator share: the right to join.
#[derive(Debug)]
struct Door {
    table: Arc<Table>,
}

impl Drop for Door {
    fn drop(&mut self) {
        let absent = |seat: &Seat| !seat.taken.load(Ordering::Relaxed);
        if let Some(rank) = self.table.seats.iter().position(absent) {
            // CAST: at most `MAX_RANKS`.
            self.table.lose(rank as u32, Loss::NeverJoined);
        }
    }
}

/// One rank's part in a communicator. Clones are the same rank; plans keep it, too.
///
/// When the last clone and the last plan are gone, the rank has left, and the communicator is at its end.
#[derive(Clone)]
pub struct Rank {
    member: Arc<Member>,
}

impl Rank {
    /// Which one, from 0.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.member.rank
    }

    /// How many there are.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.table().ranks()
    }

    pub(super) fn table(&self) -> &Table {
        &self.member.table
    }

    /// This rank's seat.
    pub(super) fn seat(&self) -> &Seat {
        // PANIC: `Communicator::join` has found the seat.
        &self.table().seats[self.member.rank as usize]
    }
}

impl fmt::Debug for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rank({} of {})", self.index(), self.ranks())
    }
}

struct Member {
    table: Arc<Table>,
    rank: u32,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.table.lose(self.rank, Loss::Left);
    }
}

/// All seats, and the end of them.
#[derive(Debug)]
pub(super) struct Table {
    seats: Box<[Seat]>,
    /// The first loss: set once, for good.
    lost: OnceLock<Lost>,
    warn_after_ns: u64,
}

/// What the other ranks see of one.
#[derive(Debug, Default)]
pub(super) struct Seat {
    taken: AtomicBool,
    /// A collective of this rank is under way.
    busy: AtomicBool,
    /// Barriers reached since the beginning; written by this rank alone.
    reached: AtomicU64,
    /// What this rank brings to the collective at hand. Locked for a clone only.
    offer: Mutex<Option<Arc<Offer>>>,
}

/// What a look at a barrier found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Barrier {
    Passed,
    /// Some have not come yet.
    Missing {
        first: u32,
        count: u32,
    },
    /// Some have not come, and never will.
    Lost(Lost),
}

impl Table {
    pub(super) fn ranks(&self) -> u32 {
        // CAST: at most `MAX_RANKS`.
        self.seats.len() as u32
    }

    pub(super) fn warn_after_ns(&self) -> u64 {
        self.warn_after_ns
    }

    pub(super) fn lost(&self) -> Option<Lost> {
        self.lost.get().copied()
    }

    /// Ends the communicator, unless it has ended.
    pub(super) fn lose(&self, rank: u32, loss: Loss) {
        // Only the first loss counts.
        let _ = self.lost.set(Lost { rank, loss });
    }

    /// Whether every rank has reached barrier number `barrier`.
    pub(super) fn look(&self, barrier: u64) -> Barrier {
        // A loss that is seen first came before the counts that are read next; who had come by then still counts.
        let lost = self.lost();
        // PAIRS: with the release store in `Seat::reach`.
        let behind = |seat: &Seat| seat.reached.load(Ordering::Acquire) < barrier;
        let mut missing = (0..)
            .zip(self.seats.iter())
            .filter(|(_, seat)| behind(seat));
        match (missing.next(), lost) {
            (None, _) => Barrier::Passed,
            (Some(_), Some(lost)) => Barrier::Lost(lost),
            (Some((first, _)), None) => Barrier::Missing {
                first,
                // CAST: at most `MAX_RANKS`.
                count: 1 + missing.count() as u32,
            },
        }
    }

    /// The offers of all ranks, in order, appended to `into`; false when one has been taken back.
    pub(super) fn offers(&self, into: &mut Vec<Arc<Offer>>) -> bool {
        into.clear();
        into.extend(
            self.seats
                .iter()
                .filter_map(|seat| seat.offer.lock().clone()),
        );
        into.len() == self.seats.len()
    }
}

impl Seat {
    /// Marks that a collective is under way; false when one is already.
    pub(super) fn occupy(&self) -> bool {
        // PAIRS: with the release store in `vacate`: another queue's thread knows this rank's count.
        !self.busy.swap(true, Ordering::Acquire)
    }

    /// The collective is over, and what was shown is taken back.
    pub(super) fn vacate(&self) {
        *self.offer.lock() = None;
        // PAIRS: with the acquire swap in `occupy`.
        self.busy.store(false, Ordering::Release);
    }

    /// This rank's count, asked by itself: relaxed.
    pub(super) fn reached(&self) -> u64 {
        self.reached.load(Ordering::Relaxed)
    }

    /// Shows what this rank brings. Before the barrier at which the others look for it.
    pub(super) fn show(&self, offer: Arc<Offer>) {
        *self.offer.lock() = Some(offer);
    }

    /// Reaches barrier number `barrier`.
    pub(super) fn reach(&self, barrier: u64) {
        // PAIRS: with the acquire load in `Table::look`: the offer is shown, and what was moved has arrived.
        self.reached.store(barrier, Ordering::Release);
    }
}

/// Somebody is late. No failure: the wait goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("waiting for {waited_ns} ns for {missing} ranks, the first of them rank {first_missing}")]
pub struct Late {
    /// How long the wait has lasted, nanoseconds.
    pub waited_ns: u64,
    /// How many ranks have not come.
    pub missing: u32,
    /// The lowest of them.
    pub first_missing: u32,
}

/// A rank that never comes again, and with it the end of its communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rank {rank} {loss}")]
pub struct Lost {
    /// Which one: the first, if there are several.
    pub rank: u32,
    /// What became of it.
    pub loss: Loss,
}

/// How a rank was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Its own part of a collective failed with this status.
    Failed(Status),
    /// It gave up a collective under way.
    GaveUp,
    /// It has left.
    Left,
    /// It can no longer join.
    NeverJoined,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(status) => write!(f, "has failed: {status}"),
            Self::GaveUp => f.write_str("has given up a collective"),
            Self::Left => f.write_str("has left"),
            Self::NeverJoined => f.write_str("has never joined"),
        }
    }
}

/// Why there is no such communicator or rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommunicatorError {
    /// A number of ranks that is not allowed.
    #[error("{ranks} ranks are not allowed (1 to 256)")]
    Ranks {
        /// How many were asked for.
        ranks: u32,
    },
    /// A rank that does not exist.
    #[error("there is no rank {rank} among {ranks}")]
    NoSuchRank {
        /// Which one was asked for.
        rank: u32,
        /// How many there are.
        ranks: u32,
    },
    /// A rank that has joined before.
    #[error("rank {rank} has joined before")]
    Taken {
        /// Which one.
        rank: u32,
    },
}

impl CommunicatorError {
    /// [`Status::INVALID`].
    #[must_use]
    pub const fn status(self) -> Status {
        Status::INVALID
    }
}
