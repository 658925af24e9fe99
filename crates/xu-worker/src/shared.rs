//! What both halves of a unit share: the entry in the table, and what has no place in it.
//!
//! Used by [`Unit`](crate::Unit) and [`UnitRunner`](crate::UnitRunner). The first fields change hardly ever and are looked at
//! for every request; what a request changes is in the entry, each lock in a line of its own.

use crate::completion_pool::CompletionPool;
use crate::eventfd::WorkCount;
use crate::events::Events;
use crate::followers::Followers;
use crate::fork::Owner;
use crate::funnel::Funnel;
use crate::health::{Cause, Health, HealthCell};
use crate::mutant::Mutant;
use crate::need_wake::NeedWake;
use crate::policy::PollPolicy;
use crate::room::Room;
use crate::statistics::Statistics;
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering};
use crate::table::{EntryRef, UnitTable};
use crate::trace::ToldEnd;
use crate::unstage::{Unstage, Words, release};
use crate::waits::Waits;
use core::fmt;
use std::sync::Arc;
use xu_abi::{Cursor, SeqId, XuId};
use xu_ring::queue::Snapshot;

/// A table of units that take requests `I` and tell outcomes `O`.
pub type Table<I, O> = UnitTable<Funnel<I, O>, Waits, Unstage>;

pub(crate) struct Shared<I, O> {
    /// The process that made the unit.
    pub(crate) owner: Owner,
    pub(crate) policy: PollPolicy,
    /// Whether the worker sleeps; used where the policy lets wakes be skipped.
    pub(crate) need_wake: NeedWake,
    /// Set when the worker has given this unit up, or is gone, or cannot be told of a request.
    abandoned: AtomicBool,
    pub(crate) entry: EntryRef<Funnel<I, O>, Waits, Unstage>,
    pub(crate) work: WorkCount,
    cause: Mutex<Option<Cause>>,
    pub(crate) room: Room,
    pub(crate) events: Events,
    /// Tasks that wait for completions.
    pub(crate) followers: Followers,
    /// Tasks that wait for a change of health.
    pub(crate) health_followers: Followers,
    /// Set when the worker has been joined.
    ended: AtomicBool,
    /// The number of the first stop that was sent when nothing else was accepted any more; 0 while there is none.
    first_stop: AtomicU64,
    pub(crate) pool: Arc<CompletionPool>,
    pub(crate) statistics: Statistics,
    told_end: ToldEnd,
}

impl<I, O> Shared<I, O> {
    pub(crate) fn new(
        policy: PollPolicy,
        entry: EntryRef<Funnel<I, O>, Waits, Unstage>,
        work: WorkCount,
        pool: Arc<CompletionPool>,
    ) -> Self {
        Self {
            owner: Owner::here(),
            policy,
            need_wake: NeedWake::new(),
            abandoned: AtomicBool::new(false),
            entry,
            work,
            cause: Mutex::new(None),
            room: Room::default(),
            events: Events::new(),
            followers: Followers::default(),
            health_followers: Followers::default(),
            ended: AtomicBool::new(false),
            first_stop: AtomicU64::new(0),
            pool,
            statistics: Statistics::new(),
            told_end: ToldEnd::default(),
        }
    }

    #[inline]
    fn health_cell(&self) -> HealthCell<'_> {
        HealthCell {
            status: &self.entry.health_status,
            cause: &self.cause,
        }
    }

    #[inline]
    pub(crate) fn health(&self) -> Health {
        self.health_cell().get()
    }

    pub(crate) fn cause(&self) -> Option<Cause> {
        self.health_cell().cause()
    }

    pub(crate) fn close(&self) {
        self.health_cell().close();
    }

    /// Degrades the unit; the first cause stands.
    pub(crate) fn degrade(&self, cause: Cause) {
        self.health_cell().degrade(cause);
    }

    /// Whether nothing of this unit will complete any more.
    #[inline]
    pub(crate) fn is_abandoned(&self) -> bool {
        // PAIRS: with the release store in `abandon`.
        self.abandoned.load(Ordering::Acquire)
    }

    pub(crate) fn abandon(&self) {
        // PAIRS: with the acquire load in `is_abandoned`.
        self.abandoned.store(true, Ordering::Release);
    }

    /// Wakes whoever waits for room or for a change of health: the health has changed. An end is told in the log, too, once. Called
    /// with no lock held, since wakers and the log are foreign code.
    pub(crate) fn tell_of_health(&self, xu: XuId) {
        if self.health() == Health::Degraded {
            self.told_end.tell(xu, self.cause());
        }
        self.room.wake_all();
        self.health_followers.wake_all();
        if self.is_abandoned() {
            // They may wait for what will not complete.
            self.followers.wake_all();
        }
    }

    /// Nothing will complete any more.
    pub(crate) fn end(&self) {
        // PAIRS: with the acquire load in `has_ended`. Who registers after the wakers were taken sees it.
        self.ended.store(true, Ordering::Release);
        self.events.clear();
        self.followers.wake_all();
        self.health_followers.wake_all();
    }

    /// Whether [`Shared::end`] was called.
    pub(crate) fn has_ended(&self) -> bool {
        // PAIRS: with the release store in `end`.
        self.ended.load(Ordering::Acquire)
    }

    /// A stop will have the number behind `last`. Called under the submit lock.
    pub(crate) fn note_stop(&self, last: Cursor) {
        // Relaxed: published with the stop itself. A unit that is healthy goes on accepting requests.
        if self.health() != Health::Healthy && self.first_stop.load(Ordering::Relaxed) == 0 {
            self.first_stop.store(last.get() + 1, Ordering::Relaxed);
        }
    }

    /// The last request that is not behind `cursor`, which was loaded before, and is no stop.
    pub(crate) fn without_stops(&self, cursor: Cursor) -> Cursor {
        // Relaxed: whoever has seen a stop in the ring sees its number.
        match self.first_stop.load(Ordering::Relaxed) {
            0 => cursor,
            first => Cursor::new(first - 1).map_or(cursor, |last| last.min(cursor)),
        }
    }

    /// Runs `look` under the lock under which requests complete. Once the unit is gone nobody waits.
    #[inline(always)]
    pub(crate) fn under_mark_comp<R>(&self, look: impl FnOnce(&mut Waits) -> R) -> R {
        let mut lock = self.entry.mark_comp_lock.lock();
        match lock.as_deref_mut() {
            Some(waits) => look(waits),
            None => look(&mut Waits::new()),
        }
    }

    /// Lets somebody who waits for room say so, under the lock under which requests complete.
    pub(crate) fn announce(&self, announce: &dyn Fn()) {
        if Mutant::ArmWithoutLock.is_seeded() {
            announce();
        } else {
            self.under_mark_comp(|_| announce());
        }
    }

    /// A request is complete, or a place was given back: there is a free slot, and perhaps nothing else.
    #[cold]
    pub(crate) fn tell_of_room(&self) {
        // Submitters may be quicker than this look, but then their requests complete later and tell again.
        let depth = self.entry.work_queue().snapshot().map(Snapshot::depth);
        let is_drained = depth == Some(0);
        if (is_drained && self.room.reserved() == 0) || self.health() != Health::Healthy {
            self.room.wake_all();
            return;
        }
        self.room.wake_one();
        if is_drained {
            self.room.wake_drained();
        }
    }

    /// A reserved place was given back, and is counted no more. Called with no lock held.
    pub(crate) fn tell_of_place(&self) {
        let is_awaited = if Mutant::GiveBackWithoutLock.is_seeded() {
            self.room.is_awaited()
        } else {
            self.under_mark_comp(|_| self.room.is_awaited())
        };
        if is_awaited && !Mutant::GiveBackSilently.is_seeded() {
            self.tell_of_room();
        }
    }

    /// Lets models go that were left for requests up to `completed`.
    pub(crate) fn unstage(&self, completed: SeqId) {
        if self.health() == Health::Degraded {
            return;
        }
        let staged = {
            let mut lock = self.entry.unstage_lock.lock();
            lock.as_deref_mut()
                .map(|unstage| unstage.take(completed.cursor(), &self.staged()))
        };
        release(staged.unwrap_or_default());
    }

    pub(crate) fn staged(&self) -> Words<'_> {
        Words {
            deferred: &self.entry.deferred_unstage_ref,
            last_exec: &self.entry.last_exec_model,
        }
    }
}

impl<I, O> fmt::Debug for Shared<I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("entry", &self.entry)
            .finish_non_exhaustive()
    }
}
