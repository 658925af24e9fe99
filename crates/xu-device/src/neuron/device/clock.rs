//! The device's clock: a counter of ticks, read together with the host's clock, and how fast it runs.
//!
//! Used by [`super::NeuronDevice`]. The counter is that of the notification block, which stamps records.
//!
//! ```text
//!   host     |-- read --|   ....................   |-- read --|
//!                 first                                now          rate = ticks / nanoseconds between the two
//! ```
//!
//! The first reading is made when the device is opened, and again a moment later, so that there is a rate at once; it gets
//! better with every later reading, since the two are further apart. The one that was expected is not known: it is taken
//! for 1, and the whole rate is in the one that was measured.

use super::notifications::block;
use crate::device::Clock;
use crate::host_time::host_ns;
use crate::neuron::{DriverError, Node};
use core::time::Duration;
use parking_lot::Mutex;
use std::sync::Arc;
use xu_abi::driver::unverified::{NQ_TIMESTAMP_HIGH, NQ_TIMESTAMP_LOW};

/// Between the first two readings. Reading takes microseconds, so the rate is good to a few per mille.
const FIRST_INTERVAL: Duration = Duration::from_millis(2);
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
    /// The last one, for when the device does not answer.
    last: Mutex<Clock>,
}

#[derive(Clone, Copy, Debug)]
struct Reading {
    ticks: u64,
    host_ns: u64,
    /// How long reading took.
    width_ns: u64,
}

impl DeviceClock {
    /// Reads it twice. Takes a few milliseconds.
    pub(super) fn start(node: &Arc<Node>, core: u8) -> Result<Self, DriverError> {
        let first = best(node, core)?;
        std::thread::sleep(FIRST_INTERVAL);
        let last = Mutex::new(first.until(best(node, core)?));
        Ok(Self {
            node: Arc::clone(node),
            core,
            first,
            last,
        })
    }

    /// Both clocks now; when the device does not answer, as they went on from the last answer.
    pub(super) fn read(&self) -> Clock {
        let mut last = self.last.lock();
        match read(&self.node, self.core) {
            Ok(now) => *last = self.first.until(now),
            Err(_) => {
                let host = host_ns();
                let elapsed = host.saturating_sub(last.host_ns) as f64;
                // CAST: not negative; `as` saturates.
                let ticks = (elapsed * last.actual_increment) as u64;
                last.ticks = last.ticks.saturating_add(ticks);
                last.host_ns = host;
            }
        }
        *last
    }
}

impl Reading {
    /// The clock at a later reading.
    fn until(self, now: Self) -> Clock {
        // CAST: differences of a run are far below 2^53.
        let ticks = now.ticks.saturating_sub(self.ticks) as f64;
        let elapsed = now.host_ns.saturating_sub(self.host_ns) as f64;
        // A counter that stands still, or is not there, has no rate.
        let stands = ticks <= 0.0 || elapsed <= 0.0;
        Clock {
            ticks: now.ticks,
            host_ns: now.host_ns,
            expected_increment: 1.0,
            actual_increment: if stands { 1.0 } else { ticks / elapsed },
        }
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

    const fn reading(ticks: u64, host_ns: u64) -> Reading {
        Reading {
            ticks,
            host_ns,
            width_ns: 0,
        }
    }

    #[test]
    fn a_stamp_converts_to_the_time_at_which_it_was_taken() {
        // 1.4 ticks in a nanosecond.
        let clock = reading(1_000_000, 500).until(reading(1_000_000 + 2_800, 2_500));
        assert_eq!(clock.to_host_ns(1_000_000 + 1_400), 1_500);
        assert_eq!(clock.to_host_ns(1_000_000 + 4_200), 3_500);
    }

    #[test]
    fn a_counter_that_stands_still_converts_all_the_same() {
        for later in [
            reading(7, 900),
            reading(7, 500),
            reading(3, 900),
            reading(9, 500),
        ] {
            let clock = reading(7, 500).until(later);
            assert_eq!(clock.to_host_ns(later.ticks), later.host_ns);
            assert_eq!(clock.to_host_ns(later.ticks + 10), later.host_ns + 10);
        }
    }
}
