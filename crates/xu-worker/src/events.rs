//! Tell an application's eventfds about the completions of one unit.
//!
//! Applications register through the facade, on their own threads; the worker calls [`Events::completed`]. Spec `xu.md`
//! section 4, application eventfds; failure kinds W2, W3 and F8.
//!
//! One registration per sequence and one for the whole unit; the last one wins. A sequence's registration gets one count
//! and is spent; the unit's gets one count for each completion after it was made.
//!
//! # Locks
//!
//! ```text
//!  application                                    worker
//!  register: registry lock {                      mark_comp lock {
//!      arm                                            pop: the completion is visible
//!      mark_comp lock { completed? }                  is_armed?
//!      if so: disarm, write                       }
//!  }                                              if armed: registry lock { take out, disarm, write }
//! ```
//!
//! * The registry lock is outside the mark_comp lock. The worker takes one after the other, never both.
//! * **Nothing is lost, nothing counts twice.** Of a registration and a completion one takes the mark_comp lock first. If
//!   it is the registration, the worker reads the armed count after it, under the same lock, and comes for the
//!   registration. If it is the worker, the registration sees the completion, and writes itself. Whoever writes has
//!   taken the registration out, under the registry lock.
//! * **Deregistering and replacing are barriers.** Every write happens under the registry lock, so who has had the lock
//!   and taken a registration out knows that no write to it is under way or will follow. Writes do not block: an
//!   eventfd that would block is not written. Holding the lock meanwhile is therefore harmless.
//! * Logging and closing are done without a lock.

use crate::eventfd::{AppEvent, EventId, NotDelivered};
use crate::mutant::Mutant;
use crate::sync::{AtomicU64, AtomicUsize, Mutex, Ordering};
use crate::wake::discard;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use xu_abi::{Cursor, SeqId};

/// The registrations of one unit.
#[derive(Debug, Default)]
pub struct Events {
    /// Registrations that there are. Changes under the registry lock only.
    armed: AtomicUsize,
    registry: Mutex<Registry>,
    /// Notifications that no application got.
    lost: AtomicU64,
}

#[derive(Debug, Default)]
struct Registry {
    /// By the raw number of the sequence.
    sequences: BTreeMap<u64, AppEvent>,
    unit: Option<UnitEvent>,
}

#[derive(Debug)]
struct UnitEvent {
    event: AppEvent,
    /// What had completed when it was registered, or was signalled since.
    after: Cursor,
}

impl UnitEvent {
    /// Signals the completion of `seq`, unless it came before the registration.
    fn tell(&mut self, seq: SeqId) -> Option<NotDelivered> {
        if seq.cursor() <= self.after && !Mutant::UnitCountsThePast.is_seeded() {
            return None;
        }
        self.after = seq.cursor();
        self.event.notify().err()
    }
}

/// What became of a registration for a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registered {
    /// The completion will be signalled.
    Armed,
    /// The sequence was complete: the event was signalled by this call, or lost and counted.
    Signalled,
}

impl Events {
    /// No registrations.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Signals `event` once when `seq` is complete; at once, by this thread, when it is complete already. Replaces the
    /// sequence's earlier registration, which is not written after the return.
    ///
    /// `is_completed` looks *under the unit's mark_comp lock*, and takes no other. The caller has checked that the
    /// sequence exists.
    pub fn register(
        &self,
        seq: SeqId,
        event: AppEvent,
        is_completed: impl FnOnce() -> bool,
    ) -> Registered {
        let mut registry = self.registry.lock();
        let completed = if Mutant::ArmAfterLook.is_seeded() {
            let completed = is_completed();
            self.arm();
            completed
        } else {
            self.arm();
            is_completed()
        };
        if !completed {
            let replaced = registry.sequences.insert(seq.raw(), event);
            if replaced.is_some() {
                self.disarm(1);
            }
            drop(registry);
            drop(replaced);
            return Registered::Armed;
        }
        self.disarm(1);
        let replaced = self.remove(&mut registry, seq);
        let failure = event.notify().err();
        drop(registry);
        drop((replaced, event));
        self.report(seq, failure);
        Registered::Signalled
    }

    /// Signals `event` once for each completion from now on. Replaces the unit's earlier registration, which is not
    /// written after the return: each completion is signalled to one of the two.
    ///
    /// `last_completed` looks *under the unit's mark_comp lock*, and takes no other: completions up to that one are not
    /// signalled, all later ones are.
    pub fn register_unit(&self, event: AppEvent, last_completed: impl FnOnce() -> SeqId) {
        let mut registry = self.registry.lock();
        let after = match &registry.unit {
            // What it was not told of, the new one is.
            Some(replaced) => replaced.after,
            None if Mutant::ArmUnitAfterLook.is_seeded() => {
                let after = last_completed().cursor();
                self.arm();
                after
            }
            None => {
                self.arm();
                last_completed().cursor()
            }
        };
        let replaced = registry.unit.replace(UnitEvent { event, after });
        drop(registry);
        drop(replaced);
    }

    /// Takes the registration of a sequence out. Whatever it answers, no write to the event is under way or will follow.
    ///
    /// `false` when there is none: none was made, or it has been signalled.
    pub fn deregister(&self, seq: SeqId) -> bool {
        let removed = self.remove(&mut self.registry.lock(), seq);
        removed.is_some()
    }

    /// As [`Events::deregister`], when it is this event that is registered: what has replaced it stays.
    pub fn deregister_this(&self, seq: SeqId, event: EventId) -> bool {
        let removed = {
            let mut registry = self.registry.lock();
            let registered = registry.sequences.get(&seq.raw()).map(AppEvent::id);
            if registered == Some(event) {
                self.remove(&mut registry, seq)
            } else {
                None
            }
        };
        removed.is_some()
    }

    /// Takes the registration of the unit out. Whatever it answers, no write to the event is under way or will follow.
    ///
    /// `false` when there is none.
    pub fn deregister_unit(&self) -> bool {
        self.remove_unit(|_| true)
    }

    /// As [`Events::deregister_unit`], when it is this event that is registered: what has replaced it stays.
    pub fn deregister_this_unit(&self, event: EventId) -> bool {
        self.remove_unit(|registered| registered.id() == event)
    }

    fn remove_unit(&self, is_meant: impl FnOnce(&AppEvent) -> bool) -> bool {
        let removed = {
            let mut registry = self.registry.lock();
            let removed = registry.unit.take_if(|unit| is_meant(&unit.event));
            if removed.is_some() {
                self.disarm(1);
            }
            removed
        };
        removed.is_some()
    }

    /// Takes every registration out, for a unit that closes. As for [`Events::deregister`], no write will follow.
    pub fn clear(&self) {
        let removed = {
            let mut registry = self.registry.lock();
            let removed = core::mem::take(&mut *registry);
            self.disarm(removed.sequences.len() + usize::from(removed.unit.is_some()));
            removed
        };
        drop(removed);
    }

    /// Whether the worker has to call [`Events::completed`] for what it has just popped. No system call, no lock.
    ///
    /// To be read *under the mark_comp lock, after the pop*: that lock orders it with the registrations, which pass
    /// through the lock after they have armed.
    #[must_use]
    pub fn is_armed(&self) -> bool {
        // Relaxed: ordered by the mark_comp lock.
        self.armed.load(Ordering::Relaxed) > 0
    }

    /// Signals whoever registered for `seq`, and the unit's registration. Never blocks.
    ///
    /// The worker calls it once per completion, after the completion is visible, with no lock held.
    pub fn completed(&self, seq: SeqId) {
        self.tell(seq, true);
    }

    /// As [`Events::completed`], for a stop, which is no request of the application's: it is not signalled to the unit's
    /// registration.
    pub(crate) fn stopped(&self, seq: SeqId) {
        self.tell(seq, false);
    }

    fn tell(&self, seq: SeqId, tells_unit: bool) {
        let mut registry = self.registry.lock();
        let spent = self.remove(&mut registry, seq);
        let mut sequence = None;
        if !Mutant::NotifyWithoutLock.is_seeded() {
            sequence = spent.as_ref().and_then(|event| event.notify().err());
        }
        let unit = registry
            .unit
            .as_mut()
            .filter(|_| tells_unit)
            .and_then(|unit| unit.tell(seq));
        drop(registry);
        if Mutant::NotifyWithoutLock.is_seeded() {
            sequence = spent.as_ref().and_then(|event| event.notify().err());
        }
        drop(spent);
        self.report(seq, sequence);
        self.report(seq, unit);
    }

    /// Notifications that no application got, because its eventfd was full or broken.
    #[must_use]
    pub fn lost(&self) -> u64 {
        // Relaxed: a statistic.
        self.lost.load(Ordering::Relaxed)
    }

    fn remove(&self, registry: &mut Registry, seq: SeqId) -> Option<AppEvent> {
        let removed = registry.sequences.remove(&seq.raw());
        if removed.is_some() {
            self.disarm(1);
        }
        removed
    }

    fn arm(&self) {
        // Relaxed: the mark_comp lock, which is taken after it, orders it with the worker's look.
        self.armed.fetch_add(1, Ordering::Relaxed);
    }

    fn disarm(&self, registrations: usize) {
        // Relaxed: a worker that sees this late looks in vain.
        self.armed.fetch_sub(registrations, Ordering::Relaxed);
    }

    /// Counts a lost notification, and logs the first, the second, the fourth, and so on: an application that does not
    /// read would fill the log otherwise. Called without a lock, since the log is foreign code; a panic in it ends here.
    fn report(&self, seq: SeqId, failure: Option<NotDelivered>) {
        let Some(error) = failure else {
            return;
        };
        // Relaxed: a statistic.
        let lost = self.lost.fetch_add(1, Ordering::Relaxed) + 1;
        if lost.is_power_of_two() {
            let log = || tracing::warn!(%seq, lost, %error, "a completion could not be notified");
            if let Err(payload) = catch_unwind(AssertUnwindSafe(log)) {
                discard(payload);
            }
        }
    }
}
