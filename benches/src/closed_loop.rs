//! Closed loops for benches that bring their own statistics: those of the worker's report, and those of the facade's.

use std::time::Duration;

use crate::clock::Clock;
use crate::pin;
use crate::worker::tally;
use crate::{facade, worker};

/// A closed loop: who asks, and who answers.
#[derive(Clone, Copy, Debug)]
pub struct ClosedLoop {
    /// Who answers, and how it is used where there is a choice.
    pub name: [&'static str; 2],
    drive: fn(pin::Pair, usize, &mut [u64]) -> bool,
}

impl ClosedLoop {
    /// Every candidate of the worker's report.
    #[must_use]
    pub fn of_the_worker() -> Vec<Self> {
        let of = |entry: worker::Entry| Self {
            name: [entry.name, entry.way],
            drive: entry.drive,
        };
        worker::loops().into_iter().map(of).collect()
    }

    /// Every candidate of the facade's report, on a device without latency.
    #[must_use]
    pub fn of_the_facade() -> Vec<Self> {
        let of = |entry: facade::Entry| Self {
            name: [entry.name, entry.way],
            drive: entry.drive,
        };
        facade::loops().into_iter().map(of).collect()
    }

    /// The depths that the reports have.
    #[must_use]
    pub fn depths() -> [usize; 3] {
        worker::DEPTHS
    }

    /// The time that so many requests take, `depth` of them outstanding, without starting and stopping.
    ///
    /// `None` where there are no two processors, or the system lacks what is needed.
    #[must_use]
    pub fn time(&self, clock: &LoopClock, depth: usize, requests: u64) -> Option<Duration> {
        let block = tally::block(depth) as u64;
        // CAST: as many as fit into memory.
        let blocks = requests.div_ceil(block) as usize + 1;
        let mut stamps = vec![1; blocks];
        if !(self.drive)(clock.processors, depth, &mut stamps) {
            return None;
        }
        let ticks = stamps[blocks - 1] - stamps[0];
        let measured = (blocks - 1) as f64 * block as f64;
        let ns = clock.clock.ns(ticks) * requests as f64 / measured;
        Some(Duration::from_secs_f64(ns / 1e9))
    }
}

/// Two processors and a clock for [`ClosedLoop::time`].
#[derive(Debug)]
pub struct LoopClock {
    processors: pin::Pair,
    clock: Clock,
}

impl LoopClock {
    /// # Errors
    /// There are no two processors.
    pub fn new() -> Result<Self, String> {
        Ok(Self {
            processors: pin::choose()?,
            clock: Clock::calibrated(),
        })
    }
}
