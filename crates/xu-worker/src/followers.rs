//! Tasks that follow a unit: each leaves one waker and the number of the request that it waits for.
//!
//! Used by [`Unit::poll_completed`](crate::Unit::poll_completed) and
//! [`Unit::poll_newer`](crate::Unit::poll_newer) for completions, which the worker tells, and by
//! [`Unit::poll_health`](crate::Unit::poll_health) for changes of health, which whoever makes them tells.
//! Spec `xu.md` section 8.4; failure kinds F3, F4 and W5.
//!
//! ```text
//!  task                                           worker
//!  complete? -> ready                             mark_comp lock {
//!  wakers lock {                                      pop: the completion is visible
//!      store the waker                                is anybody stored?
//!      if it is new: mark_comp lock { count it }  }
//!  }                                              if so: wakers lock { take those who are due } wake them
//!  complete? -> ready, else pending
//! ```
//!
//! It is the protocol of [`events`](crate::events), with wakers in place of eventfds. Of a completion and a registration
//! one takes the mark_comp lock first: then either the worker sees the count, or the task's second look sees the
//! completion. The wakers' lock is outside the mark_comp lock; the worker takes one after the other, never both.
//! Wakers are cloned, woken and dropped with no lock held. A worker that nobody follows takes no lock and wakes nobody.

use crate::mutant::Mutant;
use crate::sync::{AtomicUsize, Mutex, Ordering};
use crate::wake::{drop_foreign, wake};
use core::task::Waker;
use std::collections::BTreeMap;
use xu_abi::Cursor;

/// Which request a follower waits for, and who it is.
type Place = (u64, u64);

/// The wakers of those who follow one unit.
#[derive(Debug, Default)]
pub(crate) struct Followers {
    /// Wakers that are stored. Changes under the lock of the wakers only.
    stored: AtomicUsize,
    wakers: Mutex<BTreeMap<Place, Waker>>,
}

/// Names one task that follows one unit, so that it stores one waker however often it is polled.
///
/// It is given back with [`Unit::unfollow`](crate::Unit::unfollow), or
/// [`Unit::unfollow_health`](crate::Unit::unfollow_health) where it followed that.
#[derive(Debug, Default)]
pub struct Follower {
    place: Option<Place>,
}

impl Follower {
    /// A task that has not been polled.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Different for every follower of the process, so that those of two units cannot be taken for each other.
    fn next_key() -> u64 {
        // No model looks at it.
        static LAST: core::sync::atomic::AtomicU64 = core::sync::atomic::AtomicU64::new(0);
        LAST.fetch_add(1, core::sync::atomic::Ordering::Relaxed)
    }
}

impl Followers {
    /// Whether a waker is stored. The caller holds the lock under which requests complete.
    #[inline]
    pub(crate) fn is_followed(&self) -> bool {
        // Relaxed: the lock orders it.
        self.stored.load(Ordering::Relaxed) != 0
    }

    /// Stores `waker` as the newest of this follower, who waits for request `until`. The caller looks again afterwards.
    ///
    /// `under_lock` runs what it is given while it holds the lock under which requests complete.
    pub(crate) fn register(
        &self,
        follower: &mut Follower,
        until: Cursor,
        waker: &Waker,
        under_lock: impl FnOnce(&dyn Fn()),
    ) {
        let key = follower
            .place
            .map_or_else(Follower::next_key, |place| place.1);
        let place = (until.get(), key);
        if follower.place.is_some_and(|earlier| earlier != place) {
            self.deregister(follower);
        }
        follower.place = Some(place);
        let is_stored = |wakers: &BTreeMap<Place, Waker>| {
            let stored = wakers.get(&place);
            stored.is_some_and(|stored| stored.will_wake(waker))
        };
        if is_stored(&self.wakers.lock()) {
            return;
        }
        // Foreign code runs without our lock.
        let waker = waker.clone();
        let replaced = {
            let mut wakers = self.wakers.lock();
            let replaced = wakers.insert(place, waker);
            if replaced.is_none() {
                self.count_one_more(under_lock);
            }
            replaced
        };
        drop_foreign(replaced);
    }

    fn count_one_more(&self, under_lock: impl FnOnce(&dyn Fn())) {
        // Relaxed: the caller's lock, and the one that it is told of, order it.
        let count = || {
            self.stored.fetch_add(1, Ordering::Relaxed);
        };
        if Mutant::FollowWithoutLock.is_seeded() {
            count();
        } else {
            under_lock(&count);
        }
    }

    /// Forgets this follower's waker.
    pub(crate) fn deregister(&self, follower: &mut Follower) {
        let Some(place) = follower.place.take() else {
            return;
        };
        let removed = {
            let mut wakers = self.wakers.lock();
            let removed = wakers.remove(&place);
            self.count_fewer(usize::from(removed.is_some()));
            removed
        };
        drop_foreign(removed);
    }

    /// Wakes those who wait for `completed` or for a request before it.
    #[cold]
    pub(crate) fn reached(&self, completed: Cursor) {
        let due = {
            let mut wakers = self.wakers.lock();
            // The first place of the requests behind it.
            let later = wakers.split_off(&(completed.get() + 1, 0));
            let due = core::mem::replace(&mut *wakers, later);
            self.count_fewer(due.len());
            due
        };
        due.into_values().for_each(wake);
    }

    /// Wakes everybody.
    pub(crate) fn wake_all(&self) {
        let all = {
            let mut wakers = self.wakers.lock();
            let all = core::mem::take(&mut *wakers);
            self.count_fewer(all.len());
            all
        };
        all.into_values().for_each(wake);
    }

    fn count_fewer(&self, wakers: usize) {
        // Relaxed: a worker that sees this late looks in vain.
        self.stored.fetch_sub(wakers, Ordering::Relaxed);
    }
}
