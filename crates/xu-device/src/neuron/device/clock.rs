//! The device's clock: a counter of ticks, read together with the host's clock, and how fast it runs.
//!
//! Used by [`super::NeuronDevice`]. The counter is that of the notification block, which stamps records.
//!
//! ```text
//!   host     |-- read --|   ....................   |-- read --|
//!                 first                                now          rate = ticks / nanoseconds between the two
//! ```
//!
//! A reading is two times of the host, before and after the call; the counter was read at some moment between them. On a busy
//! host, or under emulation, that may be milliseconds, so a rate is known with an error: half of what both readings took, by
//! how far apart they are. The first reading is made when the device is opened, and again until the rate is good enough;
//! later readings take part in it only when they make it no worse, and are placed where the rate expects them, as far as
//! their own two times allow. The rate that was expected is not known: it is taken for 1, and the whole rate is in the one
//! that was measured.

use super::notifications::block;
use crate::device::Clock;
use crate::host_time::host_ns;
use crate::neuron::{DriverError, Node};
use core::time::Duration;
use parking_lot::Mutex;
use std::sync::Arc;
use xu_abi::driver::unverified::{NQ_TIMESTAMP_HIGH, NQ_TIMESTAMP_LOW};

/// Between the first two readings; then twice that, and so on.
const FIRST_INTERVAL: Duration = Duration::from_millis(2);
/// How often the first reading is compared with a later one when the device is opened, at most: 62 ms in all.
const MOST_INTERVALS: u32 = 5;
/// A rate that is good enough to begin with, by its relative error.
const GOOD: f64 = 0.002;
/// Readings of which the quickest is taken, at the beginning.
const ATTEMPTS: usize = 4;
/// How often the two halves are read again when the upper one has moved meanwhile.
const MOST_CARRIES: usize = 3;

/// The counter of one core's block. Those of the others are taken to agree with it.
#[derive(Debug)]
pub(super) struct DeviceClock {
    node: Arc<Node>,
    core: u8,
    first: Reading,
    /// As of the last reading.
    known: Mutex<Known>,
}

/// What is known of the clock.
#[derive(Clone, Copy, Debug)]
struct Known {
    clock: Clock,
    /// How far the rate may be wrong, relatively. Infinite while there is none.
    error: f64,
}

#[derive(Clone, Copy, Debug)]
struct Reading {
    ticks: u64,
    host_ns: u64,
    /// How long reading took.
    width_ns: u64,
}

impl DeviceClock {
    /// Reads it until its rate is known well enough. Takes a few milliseconds, more on a busy host.
    pub(super) fn start(node: &Arc<Node>, core: u8) -> Result<Self, DriverError> {
        let first = best(node, core)?;
        let mut known = Known::at(first);
        for doubled in 0..MOST_INTERVALS {
            std::thread::sleep(FIRST_INTERVAL * (1 << doubled));
            known.take_up(first, best(node, core)?);
            // One that stands still does so for ever.
            if known.error <= GOOD || known.error.is_infinite() {
                break;
            }
        }
        Ok(Self {
            node: Arc::clone(node),
            core,
            first,
            known: Mutex::new(known),
        })
    }

    /// Both clocks now; when the device does not answer, as they went on from the last answer.
    pub(super) fn read(&self) -> Clock {
        let mut known = self.known.lock();
        match read(&self.node, self.core) {
            Ok(now) => known.take_up(self.first, now),
            Err(_) => known.go_on(host_ns()),
        }
        known.clock
    }
}

impl Known {
    /// What one reading says: there is no rate.
    fn at(first: Reading) -> Self {
        Self {
            clock: Clock {
                ticks: first.ticks,
                host_ns: first.host_ns,
                expected_increment: 1.0,
                actual_increment: 1.0,
            },
            error: f64::INFINITY,
        }
    }

    /// Takes up a later reading.
    fn take_up(&mut self, first: Reading, now: Reading) {
        if let Some((rate, error)) = first.rate_until(now).filter(|new| new.1 <= self.error) {
            self.clock = Clock {
                actual_increment: rate,
                ..Self::at(first).clock
            };
            self.error = error;
        }
        let half = now.width_ns / 2;
        let (earliest, latest) = (
            now.host_ns.saturating_sub(half),
            now.host_ns.saturating_add(half),
        );
        let expected = self.clock.to_host_ns(now.ticks);
        self.clock.ticks = now.ticks;
        self.clock.host_ns = expected.clamp(earliest, latest);
    }

    /// Goes on to a host time without a reading.
    fn go_on(&mut self, host_ns: u64) {
        let elapsed = host_ns.saturating_sub(self.clock.host_ns) as f64;
        // CAST: not negative; `as` saturates.
        let ticks = (elapsed * self.clock.actual_increment) as u64;
        self.clock.ticks = self.clock.ticks.saturating_add(ticks);
        self.clock.host_ns = host_ns;
    }
}

impl Reading {
    /// Ticks in a nanosecond up to a later reading, and how far that may be wrong, relatively; `None` for a counter that
    /// stands still, or is not there.
    fn rate_until(self, now: Self) -> Option<(f64, f64)> {
        // CAST: differences of a run are far below 2^53.
        let ticks = now.ticks.saturating_sub(self.ticks) as f64;
        let elapsed = now.host_ns.saturating_sub(self.host_ns) as f64;
        let unsure = self.width_ns.saturating_add(now.width_ns) as f64 / 2.0;
        (ticks > 0.0 && elapsed > 0.0).then(|| (ticks / elapsed, unsure / elapsed))
    }
}

/// The quickest of a few readings.
fn best(node: &Node, core: u8) -> Result<Reading, DriverError> {
    let mut best = read(node, core)?;
    for _ in 1..ATTEMPTS {
        let another = read(node, core)?;
        if another.width_ns < best.width_ns {
            best = another;
        }
    }
    Ok(best)
}

/// Reads both halves in one call, the upper one before and after the lower one.
fn read(node: &Node, core: u8) -> Result<Reading, DriverError> {
    let block = block(node, core);
    let [low, high] = [NQ_TIMESTAMP_LOW, NQ_TIMESTAMP_HIGH].map(|register| block + register);
    let mut halves = [0; 3];
    let mut width_ns = 0;
    let mut middle = 0;
    for _ in 0..MOST_CARRIES {
        let before = host_ns();
        node.read_registers(&[high, low, high], &mut halves)?;
        width_ns = host_ns().saturating_sub(before);
        middle = before.saturating_add(width_ns / 2);
        if halves[0] == halves[2] {
            break;
        }
    }
    Ok(Reading {
        ticks: u64::from(halves[2]) << 32 | u64::from(halves[1]),
        host_ns: middle,
        width_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn reading(ticks: u64, host_ns: u64, width_ns: u64) -> Reading {
        Reading {
            ticks,
            host_ns,
            width_ns,
        }
    }

    fn known(first: Reading, later: &[Reading]) -> Known {
        let mut known = Known::at(first);
        for now in later {
            known.take_up(first, *now);
        }
        known
    }

    #[test]
    fn a_stamp_converts_to_the_time_at_which_it_was_taken() {
        // 1.4 ticks in a nanosecond.
        let later = reading(1_000_000 + 2_800, 2_500, 0);
        let clock = known(reading(1_000_000, 500, 0), &[later]).clock;
        assert_eq!(clock.to_host_ns(1_000_000 + 1_400), 1_500);
        assert_eq!(clock.to_host_ns(1_000_000 + 4_200), 3_500);
    }

    #[test]
    fn a_counter_that_stands_still_converts_all_the_same() {
        for later in [
            reading(7, 900, 0),
            reading(7, 500, 0),
            reading(3, 900, 0),
            reading(9, 500, 0),
        ] {
            let clock = known(reading(7, 500, 0), &[later]).clock;
            assert_eq!(clock.to_host_ns(later.ticks), later.host_ns);
            assert_eq!(clock.to_host_ns(later.ticks + 10), later.host_ns + 10);
        }
    }

    /// A thread that is put aside between the two clocks has read nothing better than before.
    #[test]
    fn a_reading_that_took_long_does_not_spoil_the_rate() {
        const MS: u64 = 1_000_000;
        let first = reading(0, 0, 10);
        // One tick in a nanosecond. The last was read at 12 ms, at the beginning of the 8 ms that it took.
        let later = [
            reading(10 * MS, 10 * MS, 10),
            reading(12 * MS, 16 * MS, 8 * MS),
        ];
        let clock = known(first, &later).clock;
        assert_eq!(clock.actual_increment, 1.0);
        assert_eq!((clock.ticks, clock.host_ns), (12 * MS, 12 * MS));
        assert_eq!(clock.to_host_ns(13 * MS) - clock.to_host_ns(12 * MS), MS);
        // Far enough away it is better all the same.
        let far = known(
            first,
            &[reading(2 * MS, MS, MS), reading(1_000 * MS, 1_000 * MS, MS)],
        );
        assert_eq!(far.clock.actual_increment, 1.0);
    }

    #[test]
    fn a_reading_is_placed_between_its_own_two_times() {
        // The rate says 1, the host's clock has gone on by far more.
        let later = [reading(1_000, 1_000, 0), reading(2_000, 9_000, 100)];
        let clock = known(reading(0, 0, 0), &later).clock;
        assert_eq!((clock.ticks, clock.host_ns), (2_000, 8_950));
    }
}
