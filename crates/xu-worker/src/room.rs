//! Wait until a queue has a free slot, or until it is empty.
//!
//! The worker wakes after a completion, if anybody waits; submitters and the draining thread wait.
//! A waiter registers, looks again, and only then sleeps, so no release is missed.
//! Spec `xu.md` section 4 (shutdown), failure kinds F5 and W5.
//!
//! A slot that becomes free wakes one of those who wait for room, the oldest first. That one may not want it any more, or
//! somebody else be quicker: then the next completion wakes others, and the last one, which leaves the queue empty, wakes
//! all. So nobody sleeps beside an empty queue, and a thousand who wait do not all run for one slot.
//!
//! A place that was reserved and is given back is such a slot, too; it takes the room of a request as long as it is held.
//! "Empty" is a queue with neither requests nor reserved places: as long as there is one of either, there is an event to come.
//!
//! Whether anybody waits is a count that the worker reads under the unit's `mark_comp` lock, when it makes a completion
//! visible, and that a waiter raises under the same lock before it looks. So either the waiter sees the completion, or
//! the worker sees the waiter, and a worker whose requests nobody waits for takes no lock here and wakes nobody. Whoever gives
//! a place back reads the count under that lock, too, when the place is counted no more.

use crate::sync::{AtomicU64, AtomicUsize, Condvar, Mutex, Ordering};
use crate::wake::wake;
use core::task::Waker;
use std::collections::BTreeMap;
use std::time::Instant;

/// Where waiters of one queue stand.
#[derive(Debug, Default)]
pub struct Room {
    /// Those who sleep or have left a waker.
    waiting: AtomicUsize,
    waiters: Mutex<Waiters>,
    /// Threads that wait for room.
    released: Condvar,
    /// Threads that wait until the queue is empty.
    drained: Condvar,
    reserved: Box<Reserved>,
}

/// How many places are reserved, for those who look without the submit lock, under which it is written. In lines of its own:
/// who reserves writes it for each request, and the worker reads what is beside it.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Reserved(AtomicU64);

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// A free slot.
    Room,
    /// No request.
    Empty,
}

#[derive(Debug, Default)]
struct Waiters {
    wakers: BTreeMap<u64, Waker>,
}

/// Names one asynchronous waiter of one unit, so that it stores one waker however often it is polled.
///
/// It is given back with [`Unit::leave_room`](crate::Unit::leave_room), as [`RoomFuture`](crate::RoomFuture) does when it is
/// dropped.
#[derive(Debug, Default)]
pub struct Ticket {
    key: Option<u64>,
    /// Whether it counts as waiting.
    counted: bool,
}

impl Ticket {
    /// Different for every ticket of the process, so that tickets of two units cannot be taken for each other.
    fn next_key() -> u64 {
        // No model looks at it.
        static LAST: core::sync::atomic::AtomicU64 = core::sync::atomic::AtomicU64::new(0);
        LAST.fetch_add(1, core::sync::atomic::Ordering::Relaxed)
    }
}

impl Room {
    /// Whether anybody waits. The caller holds the lock under which requests complete.
    #[inline]
    pub(crate) fn is_awaited(&self) -> bool {
        // Relaxed: the lock orders it.
        self.waiting.load(Ordering::Relaxed) != 0
    }

    /// Places that are reserved. Whoever adds them to the depth loads the depth first: a request in a reserved place becomes
    /// visible after its place has gone from here, and would count twice otherwise.
    pub(crate) fn reserved(&self) -> u64 {
        // Relaxed: ordered by the load of the depth before, and by the lock under which a waiter says that it waits.
        self.reserved.0.load(Ordering::Relaxed)
    }

    /// The caller holds the submit lock.
    pub(crate) fn show_reserved(&self, reserved: u64) {
        // Relaxed: as above; the submission of a request, or the lock that the giver takes next, publishes it.
        self.reserved.0.store(reserved, Ordering::Relaxed);
    }

    /// Wakes threads that wait until the queue is empty: no request is left, but somebody holds a place.
    pub(crate) fn wake_drained(&self) {
        // Who has looked and does not sleep yet holds the lock.
        drop(self.waiters.lock());
        self.drained.notify_all();
    }

    /// Wakes everybody who waits: the queue is empty, or the unit's health has changed.
    pub(crate) fn wake_all(&self) {
        let wakers = core::mem::take(&mut self.waiters.lock().wakers);
        self.released.notify_all();
        self.drained.notify_all();
        // Foreign code runs without our lock.
        wakers.into_values().for_each(wake);
    }

    /// Wakes one thread and one task that wait for room: a slot is free.
    pub(crate) fn wake_one(&self) {
        let waker = self.waiters.lock().wakers.pop_first();
        self.released.notify_one();
        // Foreign code runs without our lock.
        if let Some((_, waker)) = waker {
            wake(waker);
        }
    }

    /// Stores `waker` as the newest of this ticket. The caller looks again afterwards.
    ///
    /// `under_lock` runs what it is given while it holds the lock under which requests complete.
    pub(crate) fn register(
        &self,
        ticket: &mut Ticket,
        waker: &Waker,
        under_lock: impl FnOnce(&dyn Fn()),
    ) {
        let waker = waker.clone();
        let key = *ticket.key.get_or_insert_with(Ticket::next_key);
        let replaced = self.waiters.lock().wakers.insert(key, waker);
        drop(replaced);
        if !ticket.counted {
            ticket.counted = true;
            under_lock(&|| self.enter());
        }
    }

    /// Forgets this ticket's waker.
    pub(crate) fn deregister(&self, ticket: &mut Ticket) {
        if let Some(key) = ticket.key.take() {
            let removed = self.waiters.lock().wakers.remove(&key);
            drop(removed);
        }
        if core::mem::take(&mut ticket.counted) {
            self.leave();
        }
    }

    /// Blocks until `ready` is true, asking again when it is woken. `false` when `deadline` passes first.
    ///
    /// `ready` must not take a lock that is held around [`Room::wake_all`]; `under_lock` as in [`Room::register`].
    pub(crate) fn wait_until(
        &self,
        until: Until,
        deadline: Option<Instant>,
        under_lock: impl FnOnce(&dyn Fn()),
        mut ready: impl FnMut() -> bool,
    ) -> bool {
        under_lock(&|| self.enter());
        let changed = match until {
            Until::Room => &self.released,
            Until::Empty => &self.drained,
        };
        let is_ready = self.sleep_until(changed, deadline, &mut ready);
        self.leave();
        is_ready
    }

    fn sleep_until(
        &self,
        changed: &Condvar,
        deadline: Option<Instant>,
        ready: &mut dyn FnMut() -> bool,
    ) -> bool {
        let mut waiters = self.waiters.lock();
        loop {
            if ready() {
                return true;
            }
            waiters = match deadline {
                None => changed.wait(waiters),
                Some(deadline) => match changed.wait_until(waiters, deadline) {
                    (_, true) => return ready(),
                    (waiters, false) => waiters,
                },
            };
        }
    }

    fn enter(&self) {
        // Relaxed: the caller's lock orders it.
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    fn leave(&self) {
        // Relaxed: seen late, it costs the worker one release that nobody needs.
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
