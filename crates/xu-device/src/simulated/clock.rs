//! The device clock: ticks from an arbitrary start, at a rate that differs a little from the host's.
//!
//! Read by the notification writer for every record, and described to clients by [`Device::clock`].
//! Clients that convert a stamp with [`Clock::to_host_ns`] get nanoseconds on the scale of [`host_ns`].
//!
//! [`Device::clock`]: crate::Device::clock

use super::random::SplitMix;
use crate::device::Clock;
use std::sync::OnceLock;
use std::time::Instant;

/// Monotonic nanoseconds since a moment that is fixed once per process.
///
/// An [`Instant`] has no absolute value, so the machine counts from the first call of this function in the
/// process. Times of two machines, and of a client that uses this function, therefore compare.
#[must_use]
pub fn host_ns() -> u64 {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    let epoch = EPOCH.get_or_init(Instant::now);
    // 64 bits of nanoseconds last 584 years.
    u64::try_from(epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// The running counter.
#[derive(Debug)]
pub(super) struct TickCounter(Clock);

impl TickCounter {
    /// Starts a counter at a value drawn from `seed` that advances `drift` ticks per nanosecond.
    pub(super) fn start(seed: u64, drift: f64) -> Self {
        Self(Clock {
            // Far from zero, and far from wrapping.
            ticks: (SplitMix::new(seed).next() >> 16) | (1 << 40),
            host_ns: host_ns(),
            expected_increment: 1.0,
            actual_increment: drift,
        })
    }

    /// Both clocks now.
    pub(super) fn clock(&self) -> Clock {
        let host_ns = host_ns();
        let elapsed = host_ns.saturating_sub(self.0.host_ns) as f64;
        // CAST: a finite non-negative product; `as` saturates.
        let ticks = (elapsed * self.0.actual_increment / self.0.expected_increment) as u64;
        Clock {
            ticks: self.0.ticks.saturating_add(ticks),
            host_ns,
            ..self.0
        }
    }

    /// The ticks now.
    pub(super) fn now(&self) -> u64 {
        self.clock().ticks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_converts_to_the_time_at_which_it_was_taken() {
        let counter = TickCounter::start(1, 1.0003);
        let before = host_ns();
        let stamp = counter.now();
        let after = host_ns();
        let converted = counter.clock().to_host_ns(stamp);
        // One tick either way for rounding.
        assert!(
            before <= converted + 2 && converted <= after + 2,
            "{before} {converted} {after}"
        );
    }

    #[test]
    fn the_start_depends_on_the_seed() {
        let start = |seed| TickCounter::start(seed, 1.0).0.ticks;
        assert_ne!(start(1), start(2));
    }
}
