//! Time stamps cheap enough to take every few hundred nanoseconds, and what one of their ticks is worth.
//!
//! Used by everything that measures.

use std::thread;
use std::time::{Duration, Instant};

/// Reads the time-stamp counter.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn now() -> u64 {
    // SAFETY: every processor of this architecture has the instruction, and it touches no memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Nanoseconds since the first call.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) fn now() -> u64 {
    static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    // CAST: 584 years fit.
    START.elapsed().as_nanos() as u64
}

/// How long a tick of [`now`] is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    ticks_per_ns: f64,
}

impl Clock {
    /// Compares the ticks with the system's clock for a fifth of a second.
    pub(crate) fn calibrated() -> Self {
        let (system, ticks) = (Instant::now(), now());
        thread::sleep(Duration::from_millis(200));
        let (elapsed, passed) = (system.elapsed(), now().wrapping_sub(ticks));
        Self {
            ticks_per_ns: passed as f64 / elapsed.as_nanos() as f64,
        }
    }

    #[cfg(test)]
    pub(crate) fn with_one_tick_per_ns() -> Self {
        Self { ticks_per_ns: 1.0 }
    }

    pub(crate) fn ns(self, ticks: u64) -> f64 {
        ticks as f64 / self.ticks_per_ns
    }

    pub(crate) fn ticks(self, ns: f64) -> u64 {
        // CAST: spans of time here are far below 2^53 ticks, and positive.
        (ns * self.ticks_per_ns) as u64
    }

    pub(crate) fn ghz(self) -> f64 {
        self.ticks_per_ns
    }
}
