//! Whether a submitter has to wake the worker: one word per unit.
//!
//! A write to an eventfd costs hundreds of nanoseconds and a thread's wake-up tens of microseconds, so neither is done for
//! a worker that is awake and will look again. The two sides meet here, each writing before it reads:
//!
//! ```text
//!   worker                               submitter
//!   1 flag := ASLEEP                     1 ring: the request is triggered
//!   2 barrier                            2 barrier
//!   3 look at the ring once more         3 flag?  AWAKE: done, the worker looks again by itself
//!   4 something there: flag := AWAKE              ASLEEP: take it back to AWAKE, and ring the bell
//!     nothing: sleep until the bell rings
//! ```
//!
//! Of two barriers one comes first. If it is the worker's, the submitter sees `ASLEEP` and rings; if it is the
//! submitter's, the worker sees the request. Who takes the flag back rings, so that a sleep costs one ring however many
//! submit. Without either barrier, or without the second look, a request is left behind: `tests/loom.rs` shows the run.
//!
//! A worker that sleeps for a moment because the device is busy leaves the flags of units with a request in flight at
//! `AWAKE`: it will look by itself, and what is queued behind that request cannot begin before.
//!
//! Used by [`Unit`](crate::Unit) and [`UnitRunner`](crate::UnitRunner). Spec `xu.md` section 8.2, failure kind W5.

use crate::mutant::Mutant;
use crate::sync::{AtomicU32, Ordering, fence};

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;

/// The flag of one unit.
#[derive(Debug)]
pub(crate) struct NeedWake(AtomicU32);

impl NeedWake {
    /// As if the worker slept: it has not been started yet, and begins with a look at the bell.
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(ASLEEP))
    }

    /// For the submitter, after it has triggered a request: whether it has to ring.
    #[inline]
    pub(crate) fn must_ring(&self) -> bool {
        if !Mutant::NoBarrierBeforeQuestion.is_seeded() {
            // PAIRS: with the barrier in `look_once_more`.
            fence(Ordering::SeqCst);
        }
        // Relaxed: the ring orders what the request is made of; the flag says only who rings.
        self.0.load(Ordering::Relaxed) == ASLEEP && self.0.swap(AWAKE, Ordering::Relaxed) == ASLEEP
    }

    /// For the worker: says that it is about to sleep. [`look_once_more`] comes next.
    pub(crate) fn announce_sleep(&self) {
        // A swap, as the submitter's: the changes of the flag are in one order, in which each sees the one before.
        self.0.swap(ASLEEP, Ordering::Relaxed);
    }

    /// For the worker: says that it is awake.
    pub(crate) fn stay_awake(&self) {
        self.0.swap(AWAKE, Ordering::Relaxed);
    }
}

/// The barrier between [`Runner::announce_sleep`](crate::Runner::announce_sleep) and the last
/// [`Runner::has_work`](crate::Runner::has_work), for who drives units by hand.
pub fn look_once_more() {
    if !Mutant::NoBarrierBeforeLook.is_seeded() {
        // PAIRS: with the barrier in `NeedWake::must_ring`.
        fence(Ordering::SeqCst);
    }
}
