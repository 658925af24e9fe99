//! Two clocks: the host's, which may be virtual, and the device's, which counts ticks at a rate of its own.
//!
//! The host's is read by clients ([`Device::now_ns`]) and by whatever in the machine takes time. The device's is read
//! by the notification writer for every record, and described to clients by [`Device::clock`].
//! Clients that convert a stamp with [`Clock::to_host_ns`] get nanoseconds on the scale of [`Device::now_ns`].
//!
//! [`Device::clock`]: crate::Device::clock
//! [`Device::now_ns`]: crate::Device::now_ns

use super::random::SplitMix;
use crate::device::Clock;
use crate::host_time::host_ns;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

/// When the virtual clock starts: one second, so that a moment before the start has a number too.
const VIRTUAL_START_NS: u64 = 1_000_000_000;

/// Where the machine's time comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Time {
    /// The host's clock; each core has a thread.
    #[default]
    Realtime,
    /// A clock that moves only when it is told to; no threads, the caller steps the machine.
    Virtual,
}

/// The host's clock as the machine sees it.
#[derive(Debug)]
pub(super) enum HostClock {
    /// See [`host_ns`].
    Real,
    /// Nanoseconds. Relaxed throughout: nothing else is read because of it.
    Virtual(AtomicU64),
}

impl HostClock {
    pub(super) fn new(time: Time) -> Self {
        match time {
            Time::Realtime => Self::Real,
            Time::Virtual => Self::Virtual(AtomicU64::new(VIRTUAL_START_NS)),
        }
    }

    /// Nanoseconds now.
    pub(super) fn now_ns(&self) -> u64 {
        match self {
            Self::Real => host_ns(),
            Self::Virtual(now) => now.load(Ordering::Relaxed),
        }
    }

    /// Moves a virtual clock on. A real one moves by itself.
    pub(super) fn advance(&self, by: Duration) {
        if let Self::Virtual(now) = self {
            let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
            let later = now.load(Ordering::Relaxed).saturating_add(by);
            // Two callers that move it at once: the larger time wins, the clock never goes back.
            now.fetch_max(later, Ordering::Relaxed);
        }
    }
}

/// The device's counter.
#[derive(Debug)]
pub(super) struct TickCounter(Clock);

impl TickCounter {
    /// Starts a counter at a value drawn from `seed` that advances `drift` ticks per nanosecond from `host_ns` on.
    pub(super) fn start(seed: u64, drift: f64, host_ns: u64) -> Self {
        Self(Clock {
            // Far from zero, and far from wrapping.
            ticks: (SplitMix::new(seed).next() >> 16) | (1 << 40),
            host_ns,
            expected_increment: 1.0,
            actual_increment: drift,
        })
    }

    /// Both clocks when the host's says `host_ns`.
    pub(super) fn at(&self, host_ns: u64) -> Clock {
        let elapsed = host_ns.saturating_sub(self.0.host_ns) as f64;
        // CAST: a finite non-negative product; `as` saturates.
        let ticks = (elapsed * self.0.actual_increment / self.0.expected_increment) as u64;
        Clock {
            ticks: self.0.ticks.saturating_add(ticks),
            host_ns,
            ..self.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_converts_to_the_time_at_which_it_was_taken() {
        let counter = TickCounter::start(1, 1.0003, 500);
        let stamp = counter.at(1_000_500).ticks;
        let converted = counter.at(7_000_000).to_host_ns(stamp);
        // One tick either way for rounding.
        assert!(converted.abs_diff(1_000_500) <= 2, "{converted}");
    }

    #[test]
    fn the_start_depends_on_the_seed() {
        let start = |seed| TickCounter::start(seed, 1.0, 0).0.ticks;
        assert_ne!(start(1), start(2));
    }

    #[test]
    fn only_a_virtual_clock_can_be_moved() {
        let clock = HostClock::new(Time::Virtual);
        assert_eq!(clock.now_ns(), VIRTUAL_START_NS);
        clock.advance(Duration::from_nanos(7));
        assert_eq!(clock.now_ns(), VIRTUAL_START_NS + 7);
        clock.advance(Duration::MAX);
        assert_eq!(clock.now_ns(), u64::MAX);
        let clock = HostClock::new(Time::Realtime);
        clock.advance(Duration::MAX);
        assert!(clock.now_ns() < u64::MAX);
    }
}
