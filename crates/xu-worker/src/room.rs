//! Wait until a queue has a free slot, or until it is empty.
//!
//! The worker calls [`Room::released`] after each completion; submitters and the draining thread wait.
//! A waiter registers, looks again, and only then sleeps, so no release is missed.
//! Spec `xu.md` section 4 (shutdown), failure kinds F5 and W5.

use crate::wake::wake;
use core::task::Waker;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::time::Instant;

/// Where waiters of one queue stand.
#[derive(Debug, Default)]
pub struct Room {
    waiters: Mutex<Waiters>,
    released: Condvar,
}

#[derive(Debug, Default)]
struct Waiters {
    next_key: u64,
    wakers: BTreeMap<u64, Waker>,
}

/// Names one asynchronous waiter, so that it stores one waker however often it is polled.
#[derive(Debug, Default)]
pub struct Ticket(Option<u64>);

impl Room {
    /// Wakes everybody who waits: a slot is free, or the unit's health has changed.
    pub fn released(&self) {
        let wakers = core::mem::take(&mut self.waiters.lock().wakers);
        self.released.notify_all();
        // Foreign code runs without our lock.
        wakers.into_values().for_each(wake);
    }

    /// Stores `waker` as the newest of this ticket. The caller looks again afterwards.
    pub fn register(&self, ticket: &mut Ticket, waker: &Waker) {
        let waker = waker.clone();
        let replaced = {
            let mut waiters = self.waiters.lock();
            let key = *ticket.0.get_or_insert_with(|| {
                waiters.next_key += 1;
                waiters.next_key
            });
            waiters.wakers.insert(key, waker)
        };
        drop(replaced);
    }

    /// Forgets this ticket's waker.
    pub fn deregister(&self, ticket: &mut Ticket) {
        if let Some(key) = ticket.0.take() {
            let removed = self.waiters.lock().wakers.remove(&key);
            drop(removed);
        }
    }

    /// Blocks until `ready` is true, asking again after each release. `false` when `deadline` passes first.
    ///
    /// `ready` must not take a lock that is held around [`Room::released`].
    pub fn wait_until(&self, deadline: Option<Instant>, mut ready: impl FnMut() -> bool) -> bool {
        let mut waiters = self.waiters.lock();
        loop {
            if ready() {
                return true;
            }
            match deadline {
                None => self.released.wait(&mut waiters),
                Some(deadline) => {
                    if self.released.wait_until(&mut waiters, deadline).timed_out() {
                        return ready();
                    }
                }
            }
        }
    }
}
