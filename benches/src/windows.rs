//! Which part of a sample counts: the time in which both threads ran.
//!
//! Both sides write a time stamp after each block of items. Where two stamps are far apart, somebody was not running,
//! and what follows is not the steady state either: a backlog has to drain first. Only what lies between is counted.

use crate::clock::Clock;

/// A longer time without a stamp means that a thread did not run.
const GAP_NS: f64 = 20_000.0;

/// A queue may be so slow that its blocks take that long: then so many times the usual block.
const GAP_BLOCKS: u64 = 4;

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
    let mut lasted: Vec<u64> = stamps.windows(2).map(|pair| pair[1] - pair[0]).collect();
    lasted.sort_unstable();
    let usual = lasted.get(lasted.len() / 2).copied().unwrap_or(0);
    clock.ticks(GAP_NS).max(GAP_BLOCKS * usual)
}

/// Reads the stamps of one thread that does everything, or that waits for each answer: the median block.
pub(crate) fn median_block(stamps: &[u64], blocks: Blocks, clock: Clock) -> Option<Timing> {
    let gap = gap(stamps, clock);
    let lasted = stamps.get(blocks.warm_up..)?.windows(2);
    let all = lasted.len();
    let mut good: Vec<u64> = lasted
        .map(|pair| pair[1] - pair[0])
        .filter(|&ticks| ticks <= gap)
        .collect();
    if good.len() < LEAST_BLOCKS {
        return None;
    }
    good.sort_unstable();
    Some(Timing {
        ns: clock.ns(good[good.len() / 2]) / blocks.items as f64,
        counted: good.len() as f64 / all as f64,
    })
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
}
