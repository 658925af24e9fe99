//! Wait for one sequence of a unit on a completion descriptor.
//!
//! A unit keeps one [`Waits`] inside its mark_comp lock. Callers go through [`wait`]; the worker calls
//! [`Waits::completed`] when it pops. Spec `xu.md` section 4 (pooled completion efd, report complete):
//!
//! ```text
//!  caller                                            worker
//!  mark_comp { completed? -> return                  mark_comp { pop: the completion is visible
//!              join: descriptor installed }                      completed(seq): signal, forget }
//!  poll the descriptor, until the deadline
//!  mark_comp { completed? ; leave }
//! ```
//!
//! Both look and act under the one lock, so either the caller sees the completion, or the worker sees the descriptor.
//! Waiters poll and never read: one signal serves everybody who waits for the sequence.

use crate::completion_pool::{CompletionPool, Lease};
use crate::eventfd::SignalError;
use crate::mutant::Mutant;
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;
use std::{io, thread};
use xu_abi::SeqId;

/// The first pause of a waiter without a descriptor.
const FIRST_PAUSE: Duration = Duration::from_micros(20);
/// Its longest pause.
const LONGEST_PAUSE: Duration = Duration::from_millis(1);
/// For how long a waiter trusts a descriptor before it looks at the sequence itself. Only a broken one needs it.
const LONGEST_TRUST: Duration = Duration::from_secs(1);

/// Who waits for which sequence of one unit.
#[derive(Debug, Default)]
pub struct Waits {
    /// By the raw number of the sequence.
    waiting: BTreeMap<u64, Waiting>,
    abandoned: bool,
}

#[derive(Debug)]
struct Waiting {
    lease: Arc<Lease>,
    waiters: usize,
}

impl Waits {
    /// Nobody waits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many wait for this sequence.
    #[must_use]
    pub fn waiters(&self, seq: SeqId) -> usize {
        self.waiting
            .get(&seq.raw())
            .map_or(0, |waiting| waiting.waiters)
    }

    /// One more waiter for a sequence that is not complete: with the descriptor of those that wait already, or a new one.
    ///
    /// # Errors
    /// What the operating system says when there is no descriptor. Nothing has changed.
    pub fn join(&mut self, seq: SeqId, pool: &Arc<CompletionPool>) -> io::Result<Arc<Lease>> {
        if let Some(waiting) = self.waiting.get_mut(&seq.raw()) {
            waiting.waiters += 1;
            return Ok(Arc::clone(&waiting.lease));
        }
        let lease = Arc::new(pool.take()?);
        let waiting = Waiting {
            lease: Arc::clone(&lease),
            waiters: 1,
        };
        self.waiting.insert(seq.raw(), waiting);
        Ok(lease)
    }

    /// The sequence is complete, and that is visible: signals its descriptor, if there is one, and forgets it.
    ///
    /// The worker drops what it gets after it has given the lock back: when every waiter has gone meanwhile, that returns
    /// the descriptor to its pool.
    ///
    /// # Errors
    /// What the operating system says. The descriptor is our own, so the unit's accounting is broken and the unit is
    /// poisoned; those who wait on it find out within a second.
    pub fn completed(&mut self, seq: SeqId) -> Result<Option<Arc<Lease>>, SignalError> {
        let Some(waiting) = self.waiting.remove(&seq.raw()) else {
            return Ok(None);
        };
        waiting.lease.signal()?;
        Ok(Some(waiting.lease))
    }

    /// A waiter goes before the signal. `true` when it was the last one: nobody will look at the descriptor any more, and
    /// the slot must not name it.
    ///
    /// `false` too when the sequence has completed meanwhile: the slot is empty then.
    pub fn leave(&mut self, seq: SeqId, lease: &Arc<Lease>) -> bool {
        let Some(waiting) = self.waiting.get_mut(&seq.raw()) else {
            return false;
        };
        if !Arc::ptr_eq(&waiting.lease, lease) {
            return false;
        }
        waiting.waiters -= 1;
        if waiting.waiters > 0 && !Mutant::LeaveTakesAll.is_seeded() {
            return false;
        }
        self.waiting.remove(&seq.raw());
        true
    }

    /// Nothing of this unit will complete any more: everybody who waits is let go, now and later, with
    /// [`Waited::Abandoned`]. For a ring that is corrupt.
    ///
    /// # Errors
    /// The first that the operating system has given; the others are signalled all the same.
    pub fn abandon(&mut self) -> Result<(), SignalError> {
        self.abandoned = true;
        let mut result = Ok(());
        for waiting in core::mem::take(&mut self.waiting).into_values() {
            result = result.and(waiting.lease.signal());
        }
        result
    }

    /// Whether [`Waits::abandon`] was called.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.abandoned
    }
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The sequence is complete.
    Completed,
    /// It was not complete when time was up.
    TimedOut,
    /// It is not complete and never will be.
    Abandoned,
}

/// One sequence of a unit, as [`wait`] sees it.
pub trait Target {
    /// Runs `look` under the unit's mark_comp lock.
    fn locked<R>(&self, look: impl FnOnce(&mut Waits) -> R) -> R;

    /// Whether the sequence is complete. Called with and without the lock.
    fn is_completed(&self) -> bool;

    /// Names the descriptor in the sequence's slot. Called under the lock, by each waiter, while the sequence is not
    /// complete.
    fn install(&self, lease: &Lease) {
        let _ = lease;
    }

    /// Removes it from the slot. Called under the lock, while the sequence is not complete.
    fn remove(&self, lease: &Lease) {
        let _ = lease;
    }
}

/// When a wait of this length that begins now ends. `None`, which is for ever, when the clock does not reach that far.
#[must_use]
pub fn deadline(timeout: Duration) -> Option<Instant> {
    Instant::now().checked_add(timeout)
}

/// Waits until the sequence is complete. A deadline that has passed asks once; `None` waits for ever.
///
/// Without a descriptor it looks again and again, with pauses that grow to a millisecond.
pub fn wait(
    target: &impl Target,
    seq: SeqId,
    pool: &Arc<CompletionPool>,
    deadline: Option<Instant>,
) -> Waited {
    match enter(target, seq, pool, deadline) {
        Entered::Over(waited) => waited,
        Entered::Joined(lease) => wait_on(target, seq, &lease, deadline),
        Entered::NoDescriptor => look_again(target, deadline),
    }
}

enum Entered {
    Over(Waited),
    Joined(Arc<Lease>),
    NoDescriptor,
}

fn enter(
    target: &impl Target,
    seq: SeqId,
    pool: &Arc<CompletionPool>,
    deadline: Option<Instant>,
) -> Entered {
    target.locked(|waits| {
        if let Some(waited) =
            answer(target, waits).filter(|_| !Mutant::WaitNoSecondLook.is_seeded())
        {
            return Entered::Over(waited);
        }
        if passed(deadline) {
            return Entered::Over(Waited::TimedOut);
        }
        match waits.join(seq, pool) {
            Ok(lease) => {
                target.install(&lease);
                Entered::Joined(lease)
            }
            Err(_) => Entered::NoDescriptor,
        }
    })
}

/// What is known under the lock.
fn answer(target: &impl Target, waits: &Waits) -> Option<Waited> {
    if target.is_completed() {
        return Some(Waited::Completed);
    }
    waits.is_abandoned().then_some(Waited::Abandoned)
}

fn wait_on(
    target: &impl Target,
    seq: SeqId,
    lease: &Arc<Lease>,
    deadline: Option<Instant>,
) -> Waited {
    loop {
        let woken = lease.wait(trusted_until(deadline));
        let next = target.locked(|waits| {
            if let Some(waited) = answer(target, waits) {
                return Next::Over(waited);
            }
            // The worker signals under this lock, when the sequence is complete: a count is not the worker's.
            let sound = woken.and_then(|signalled| if signalled { lease.drain() } else { Ok(()) });
            if sound.is_ok() && !passed(deadline) {
                return Next::Wait;
            }
            if waits.leave(seq, lease) {
                target.remove(lease);
            }
            if passed(deadline) {
                Next::Over(Waited::TimedOut)
            } else {
                Next::LookAgain
            }
        });
        match next {
            Next::Over(waited) => return waited,
            Next::Wait => {}
            Next::LookAgain => return look_again(target, deadline),
        }
    }
}

enum Next {
    Over(Waited),
    Wait,
    /// The descriptor is broken, and time is not up.
    LookAgain,
}

fn trusted_until(deadline: Option<Instant>) -> Option<Instant> {
    let trusted = Instant::now().checked_add(LONGEST_TRUST);
    match (deadline, trusted) {
        (Some(deadline), Some(trusted)) => Some(deadline.min(trusted)),
        (one, None) | (None, one) => one,
    }
}

fn look_again(target: &impl Target, deadline: Option<Instant>) -> Waited {
    let mut pause = FIRST_PAUSE;
    loop {
        if let Some(waited) = target.locked(|waits| answer(target, waits)) {
            return waited;
        }
        if passed(deadline) {
            return Waited::TimedOut;
        }
        let remaining = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        thread::sleep(remaining.map_or(pause, |remaining| remaining.min(pause)));
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn passed(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| Instant::now() >= deadline)
}
