//! What a unit does with waits and events, without a ring, engines or threads: for models and tests alike.
#![allow(dead_code, reason = "each file uses its part")]

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard};
use std::sync::Arc;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;
use xu_abi::{Cursor, SeqId, XuId};
use xu_worker::completion_pool::CompletionPool;
use xu_worker::eventfd::{CompletionEvent, SignalError};
use xu_worker::events::{Events, Registered};
use xu_worker::waits::{Target, Waited, Waits, wait};

/// A sequence of some unit.
pub(crate) fn seq(number: u64) -> SeqId {
    SeqId::new(
        XuId::from_raw(0),
        Cursor::new(number).expect("a small number"),
    )
}

/// What the application finds in its eventfd.
pub(crate) fn taken(event: &CompletionEvent) -> u64 {
    event.drain().expect("a good descriptor")
}

/// The last completed number, which anyone may read; what is under the mark_comp lock; and the events.
pub(crate) struct Unit {
    completed: AtomicU64,
    waits: Mutex<Waits>,
    pub(crate) events: Events,
    pub(crate) pool: Arc<CompletionPool>,
}

impl Unit {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            completed: AtomicU64::new(0),
            waits: Mutex::new(Waits::new()),
            events: Events::new(),
            pool: Arc::new(CompletionPool::new()),
        })
    }

    /// The mark_comp lock.
    pub(crate) fn waits(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().expect("no panic")
    }

    pub(crate) fn last_completed(&self) -> u64 {
        self.completed.load(Ordering::Acquire)
    }

    /// As a registration has to look.
    fn last_completed_locked(&self) -> u64 {
        let _mark_comp = self.waits();
        self.last_completed()
    }

    /// What a worker does when a request has finished.
    pub(crate) fn complete(&self, number: u64) {
        self.try_complete(number).expect("a good descriptor");
    }

    /// The same, when the signal may fail.
    pub(crate) fn try_complete(&self, number: u64) -> Result<(), SignalError> {
        let mut waits = self.waits();
        self.completed.store(number, Ordering::Release);
        let lease = waits.completed(seq(number));
        let armed = self.events.is_armed();
        drop(waits);
        let signalled = lease.map(drop);
        if armed {
            self.events.completed(seq(number));
        }
        signalled
    }

    /// Waits, and sees to it that nothing but the truth comes out.
    pub(crate) fn wait(&self, number: u64, deadline: Option<Instant>) -> Waited {
        let target = Awaited { unit: self, number };
        let waited = wait(&target, seq(number), &self.pool, deadline);
        if waited == Waited::Completed {
            assert!(self.last_completed() >= number);
        }
        waited
    }

    pub(crate) fn register(&self, number: u64, event: &CompletionEvent) -> Registered {
        let event = event.app_event().expect("an eventfd");
        self.events.register(seq(number), event, || {
            self.last_completed_locked() >= number
        })
    }

    /// What had completed by then.
    pub(crate) fn register_unit(&self, event: &CompletionEvent) -> u64 {
        let event = event.app_event().expect("an eventfd");
        let mut before = 0;
        self.events.register_unit(event, || {
            before = self.last_completed_locked();
            seq(before)
        });
        before
    }
}

struct Awaited<'a> {
    unit: &'a Unit,
    number: u64,
}

impl Target for Awaited<'_> {
    fn locked<R>(&self, look: impl FnOnce(&mut Waits) -> R) -> R {
        look(&mut self.unit.waits())
    }

    fn is_completed(&self) -> bool {
        self.unit.last_completed() >= self.number
    }
}
