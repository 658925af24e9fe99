//! Look again for a short while before going to sleep.
//!
//! Used by workers without work and by threads that wait for a request. A hand-over between two running threads takes a
//! fraction of a microsecond, a wake-up several or tens: so whoever waits looks again at once, then gives way to other
//! threads between two looks, since on one CPU it is the other end that must run, and gives up after [`BUDGET`].

#[cfg(loom)]
use loom::thread::yield_now;
#[cfg(not(loom))]
use std::thread::yield_now;
use std::time::{Duration, Instant};

/// For how long a thread looks again.
pub(crate) const BUDGET: Duration = Duration::from_micros(20);

/// Looks without giving way: a few hundred nanoseconds.
const EAGER: u32 = if cfg!(any(loom, miri)) { 0 } else { 32 };

/// Looks between two readings of the clock.
const UNTIMED: u32 = 8;

/// One spell of looking again.
#[derive(Debug)]
pub(crate) struct Spin {
    looks: u32,
    since: Option<Instant>,
}

impl Spin {
    pub(crate) const fn new() -> Self {
        Self {
            looks: 0,
            since: None,
        }
    }

    /// Passes a moment; `false` when it is time to sleep.
    #[inline]
    pub(crate) fn again(&mut self) -> bool {
        self.moment();
        self.looks < EAGER || !self.is_over()
    }

    /// Passes a moment: at first without giving way to other threads.
    #[inline]
    pub(crate) fn moment(&mut self) {
        if self.looks < EAGER {
            core::hint::spin_loop();
        } else {
            yield_now();
        }
        self.looks = self.looks.saturating_add(1);
    }

    fn is_over(&mut self) -> bool {
        if cfg!(loom) {
            // A model explores waiting by itself.
            return true;
        }
        if !self.looks.is_multiple_of(UNTIMED) {
            return false;
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        since.elapsed() >= BUDGET
    }
}
