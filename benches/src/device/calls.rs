//! How often an execution calls the device, and with what: counted, and so the same in every run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use xu_device::Device;

use super::lane::{Lane, Use};
use super::null::{Doorbell, NullDevice};

const EXECUTIONS: u64 = 1024;
const KINDS: usize = 7;

/// One call, as far as it is told apart.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Call {
    /// Of so many bytes.
    Write(usize),
    Increment,
    Load,
    Read,
    Acknowledge,
    ReadSemaphore,
    Other,
}

impl Call {
    const fn kind(self) -> usize {
        match self {
            Self::Write(_) => 0,
            Self::Increment => 1,
            Self::Load => 2,
            Self::Read => 3,
            Self::Acknowledge => 4,
            Self::ReadSemaphore => 5,
            Self::Other => 6,
        }
    }
}

/// What the kinds are called in the report, in their order.
pub(crate) const NAMES: [&str; KINDS] = [
    "write",
    "semaphore + 1",
    "load with acquire",
    "read",
    "acknowledge",
    "read semaphore",
    "anything else",
];

/// Calls since the beginning.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    calls: [AtomicU64; KINDS],
    written: AtomicU64,
}

impl Counts {
    pub(super) fn add(&self, call: Call) {
        // Relaxed: read by the thread that counted.
        self.calls[call.kind()].fetch_add(1, Ordering::Relaxed);
        if let Call::Write(bytes) = call {
            self.written.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }

    fn all(&self) -> ([u64; KINDS], u64) {
        let calls = self
            .calls
            .each_ref()
            .map(|count| count.load(Ordering::Relaxed));
        (calls, self.written.load(Ordering::Relaxed))
    }
}

/// What one execution calls, on an average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Calls {
    pub(crate) of_kind: [f64; KINDS],
    pub(crate) bytes_written: f64,
}

/// Calls of one way to use so many cores: of staging, and of harvesting what was staged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    pub(crate) tpbs: usize,
    pub(crate) used: Use,
    pub(crate) staging: Calls,
    pub(crate) harvesting: Calls,
}

/// Counts every way to use one core and two.
pub(crate) fn count() -> Vec<Counted> {
    let ways = |tpbs| Use::ALL.map(|used| (tpbs, used));
    [1, 2]
        .into_iter()
        .flat_map(ways)
        .filter_map(|(tpbs, used)| count_one(tpbs, used))
        .collect()
}

fn count_one(tpbs: usize, used: Use) -> Option<Counted> {
    let null = Arc::new(NullDevice::<true>::new(Doorbell::Answers));
    let device: Arc<dyn Device> = Arc::clone(&null) as _;
    let mut lane = Lane::open(&device, tpbs, used)?;
    // The first execution loads what later ones may keep.
    lane.round_trip()?;
    let mut sums = [([0; KINDS], 0); 2];
    for _ in 0..EXECUTIONS {
        let before = null.counts().all();
        let staged = lane.stage()?;
        let between = null.counts().all();
        lane.harvest(staged)?;
        let after = null.counts().all();
        add(&mut sums[0], before, between);
        add(&mut sums[1], between, after);
    }
    let [staging, harvesting] = sums.map(per_execution);
    Some(Counted {
        tpbs,
        used,
        staging,
        harvesting,
    })
}

fn add(sum: &mut ([u64; KINDS], u64), before: ([u64; KINDS], u64), after: ([u64; KINDS], u64)) {
    for ((sum, before), after) in sum.0.iter_mut().zip(before.0).zip(after.0) {
        *sum += after - before;
    }
    sum.1 += after.1 - before.1;
}

fn per_execution((calls, written): ([u64; KINDS], u64)) -> Calls {
    let mean = |count: u64| count as f64 / EXECUTIONS as f64;
    Calls {
        of_kind: calls.map(mean),
        bytes_written: mean(written),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the specification asks for and no more: two bindings, body, trailer, four pairs, one doorbell per core.
    #[test]
    fn staging_makes_the_calls_that_the_bytes_need() {
        let counted = count();
        assert_eq!(counted.len(), 6);
        for counted in counted {
            let cores = counted.tpbs as f64;
            let chain = if counted.used == Use::Switching {
                1.0
            } else {
                0.0
            };
            let staging = counted.staging;
            assert_eq!(staging.of_kind[0], 12.0 * cores + 2.0 * chain);
            assert_eq!(staging.of_kind[1], cores);
            assert_eq!(staging.of_kind[2..], [0.0; 5]);
            let bytes = (16.0 + 52.0 + 4.0 + 8.0 * 16.0) * cores + 32.0 * chain;
            assert_eq!(staging.bytes_written, bytes);
            assert_eq!(counted.harvesting.of_kind[0..2], [0.0; 2]);
            assert_eq!(counted.harvesting.of_kind[3], 10.0 * cores);
        }
    }
}
