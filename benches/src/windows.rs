//! Which part of a sample counts: the time in which both threads ran.
//!
//! Both sides write a time stamp after each block of items. Where two stamps are far apart, somebody was not running,
//! and what follows is not the steady state either: a backlog has to drain first. Only what lies between is counted.

use crate::clock::Clock;

/// A longer time without a stamp means that a thread did not run.
const GAP_NS: f64 = 20_000.0;

/// A queue may be so slow that its blocks take that long: then so many times the usual block.
const GAP_BLOCKS: u64 = 4;

/// A longer block holds more than threads that sleep and wake: somebody else had the processor.
const STALL_NS: f64 = 1_000_000.0;

/// Fewer blocks than this in a row say nothing.
const LEAST_BLOCKS: usize = 8;

/// What a sample says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Timing {
    /// Nanoseconds for one item, round trip or step.
    pub(crate) ns: f64,
    /// The part of the sample's blocks that were counted.
    pub(crate) counted: f64,
}

/// The blocks of a sample, and how to read them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocks {
    /// Items between two stamps.
    pub(crate) items: usize,
    /// Blocks at the beginning that do not count: caches and branches are cold.
    pub(crate) warm_up: usize,
    /// Blocks that the queue can hold back.
    pub(crate) backlog: usize,
}

/// Reads the stamps of the sending and of the receiving side.
///
/// Returns `None` when too little of the sample counts.
pub(crate) fn co_running(
    sent: &[u64],
    received: &[u64],
    blocks: Blocks,
    clock: Clock,
) -> Option<Timing> {
    let gap = gap(received, clock);
    let mut gaps: Vec<(u64, u64)> = [sent, received]
        .iter()
        .flat_map(|stamps| stamps.windows(2))
        .filter(|pair| pair[1] - pair[0] > gap)
        .map(|pair| (pair[0], pair[1]))
        .collect();
    gaps.sort_unstable();
    let end = (*sent.last()?).min(*received.last()?);
    gaps.push((end, end));

    let (mut counted, mut ticks) = (0, 0);
    // Both sides run from here on.
    let mut from = *sent.get(blocks.warm_up)?.max(received.get(blocks.warm_up)?);
    for (begin, over) in gaps {
        if begin > from {
            // Everything that was sent before, and a queue full, has been received at the block `first`.
            let sent_before = sent.partition_point(|&stamp| stamp <= from);
            let drained = sent_before + blocks.backlog + 1;
            let first = received.partition_point(|&stamp| stamp < from).max(drained);
            let past = received.partition_point(|&stamp| stamp <= begin);
            if past > first + LEAST_BLOCKS {
                counted += past - 1 - first;
                ticks += received[past - 1] - received[first];
            }
        }
        from = from.max(over);
    }
    (counted > 0).then(|| Timing {
        ns: clock.ns(ticks) / (counted * blocks.items) as f64,
        counted: counted as f64 / received.len() as f64,
    })
}

/// The longest time between two stamps that is no gap.
fn gap(stamps: &[u64], clock: Clock) -> u64 {
    let usual = median_of(stamps.windows(2).map(length).collect());
    clock.ticks(GAP_NS).max(GAP_BLOCKS * usual)
}

/// Reads the stamps of one thread that does everything, or that waits for each answer: the median block.
pub(crate) fn median_block(stamps: &[u64], blocks: Blocks, clock: Clock) -> Option<Timing> {
    let lasted = stamps.get(blocks.warm_up..)?.windows(2);
    let gap = gap(stamps, clock);
    median_without_gaps(lasted.map(length).collect(), gap, blocks.items, clock)
}

/// The median of blocks that are measured one by one.
pub(crate) fn median_block_of(lasted: Vec<u64>, items: usize, clock: Clock) -> Option<Timing> {
    median_without_gaps(lasted, clock.ticks(STALL_NS), items, clock)
}

fn median_without_gaps(
    mut lasted: Vec<u64>,
    gap: u64,
    items: usize,
    clock: Clock,
) -> Option<Timing> {
    let all = lasted.len();
    lasted.retain(|&ticks| ticks <= gap);
    if lasted.len() < LEAST_BLOCKS {
        return None;
    }
    lasted.sort_unstable();
    Some(Timing {
        ns: clock.ns(lasted[lasted.len() / 2]) / items as f64,
        counted: lasted.len() as f64 / all as f64,
    })
}

/// Reads the stamps of one thread whose partners may sleep: the mean of all blocks, short or long, since sleeping and
/// waking belongs to them. Only stalls are left out, which no wake explains.
pub(crate) fn mean_block(stamps: &[u64], blocks: Blocks, clock: Clock) -> Option<Timing> {
    let lasted: Vec<u64> = stamps
        .get(blocks.warm_up..)?
        .windows(2)
        .map(length)
        .collect();
    let stall = clock
        .ticks(STALL_NS)
        .max(GAP_BLOCKS * median_of(lasted.clone()));
    let good: Vec<u64> = lasted
        .iter()
        .copied()
        .filter(|&ticks| ticks <= stall)
        .collect();
    if good.len() < LEAST_BLOCKS {
        return None;
    }
    Some(Timing {
        ns: clock.ns(good.iter().sum()) / (good.len() * blocks.items) as f64,
        counted: good.len() as f64 / lasted.len() as f64,
    })
}

fn length(pair: &[u64]) -> u64 {
    pair[1] - pair[0]
}

fn median_of(mut ticks: Vec<u64>) -> u64 {
    ticks.sort_unstable();
    ticks.get(ticks.len() / 2).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOCK: fn() -> Clock = Clock::with_one_tick_per_ns;
    const BLOCKS: Blocks = Blocks {
        items: 10,
        warm_up: 0,
        backlog: 2,
    };

    /// Stamps that are `step` apart.
    fn steady(count: u64, step: u64) -> Vec<u64> {
        (0..count).map(|index| index * step).collect()
    }

    fn later(stamps: &mut [u64], from: usize, by: u64) {
        for stamp in &mut stamps[from..] {
            *stamp += by;
        }
    }

    #[test]
    fn a_steady_sample_counts_almost_whole() {
        let stamps = steady(100, 1000);
        let timing = co_running(&stamps, &stamps, BLOCKS, CLOCK()).expect("is long enough");
        assert_eq!(timing.ns, 100.0);
        assert!(timing.counted > 0.9, "{timing:?}");
    }

    #[test]
    fn a_gap_on_either_side_is_left_out() {
        for side in 0..2 {
            let mut stamps = [steady(200, 1000), steady(200, 1000)];
            later(&mut stamps[side], 50, 1_000_000);
            let other = 1 - side;
            later(&mut stamps[other], 53, 1_000_000);
            let timing = co_running(&stamps[0], &stamps[1], BLOCKS, CLOCK()).expect("long enough");
            assert_eq!(timing.ns, 100.0);
        }
    }

    #[test]
    fn the_backlog_of_a_gap_is_not_throughput() {
        // The receiver was away for a hundred blocks, and takes those faster than they could be sent.
        let sent = steady(300, 1000);
        let mut received = sent.clone();
        for (index, stamp) in received.iter_mut().enumerate().take(150).skip(50) {
            *stamp = 150_000 - (150 - index as u64);
        }
        let blocks = Blocks {
            backlog: 100,
            ..BLOCKS
        };
        let timing = co_running(&sent, &received, blocks, CLOCK()).expect("long enough");
        assert_eq!(timing.ns, 100.0);
    }

    #[test]
    fn the_warm_up_is_left_out() {
        let mut stamps: Vec<u64> = steady(20, 9000);
        let warm = stamps[19];
        stamps.extend(steady(100, 1000).iter().map(|stamp| warm + 1000 + stamp));
        let blocks = Blocks {
            warm_up: 20,
            ..BLOCKS
        };
        let timing = co_running(&stamps, &stamps, blocks, CLOCK()).expect("long enough");
        assert_eq!(timing.ns, 100.0);
    }

    #[test]
    fn nothing_counts_when_nobody_ran_long_enough() {
        let mut stamps = steady(100, 1000);
        for index in (0..100).step_by(6) {
            later(&mut stamps, index, 30_000);
        }
        assert_eq!(co_running(&stamps, &stamps, BLOCKS, CLOCK()), None);
        let few = steady(6, 1000);
        assert_eq!(median_block(&few, BLOCKS, CLOCK()), None);
        assert_eq!(co_running(&[], &[], BLOCKS, CLOCK()), None);
        assert_eq!(median_block(&[], BLOCKS, CLOCK()), None);
    }

    #[test]
    fn a_slow_queue_is_no_gap() {
        let stamps = steady(100, 30_000);
        let timing = co_running(&stamps, &stamps, BLOCKS, CLOCK()).expect("long enough");
        assert_eq!(timing.ns, 3000.0);
    }

    #[test]
    fn one_slow_block_does_not_move_the_median() {
        let mut stamps = steady(100, 1000);
        later(&mut stamps, 40, 15_000);
        later(&mut stamps, 60, 500_000);
        let timing = median_block(&stamps, BLOCKS, CLOCK()).expect("long enough");
        assert_eq!(timing.ns, 100.0);
    }

    #[test]
    fn sleeping_counts_in_a_mean_and_a_stall_does_not() {
        let mut stamps = steady(100, 1000);
        later(&mut stamps, 40, 99_000);
        later(&mut stamps, 60, 5_000_000);
        let timing = mean_block(&stamps, BLOCKS, CLOCK()).expect("long enough");
        assert_eq!(timing.ns, (97.0 * 1000.0 + 100_000.0) / 980.0);
        assert_eq!(mean_block(&steady(6, 1000), BLOCKS, CLOCK()), None);
    }
}
