//! What the candidates have to do while the clock runs.
//!
//! Each workload is a function that is generic over the queue and compiled once for each; a cell of the report holds
//! pointers to them. All have the type [`Measure`].
//!
//! | module | subject | bars |
//! |---|---|---|
//! | `throughput` | two threads, item by item and in batches | R1-R6, R9 |
//! | `round_trip` | one item over two queues and back; one request to its completion | T1, T2 |
//! | `three_stage` | submit, trigger and pop of the three-cursor ring | R8 |
//! | `single` | push and pop on one thread | S1 |
//! | `word` | a word there and back, without a queue | - |

pub(crate) mod round_trip;
pub(crate) mod single;
pub(crate) mod three_stage;
pub(crate) mod throughput;
pub(crate) mod word;

use crate::clock::Clock;
use crate::pin::Pair;
use crate::windows::Timing;

/// Takes one sample: so many blocks over a new queue of this capacity.
pub(crate) type Measure = fn(&mut Rig, capacity: usize, blocks: usize) -> Option<Timing>;

/// What a sample needs: processors, a clock, and memory for time stamps that is there already.
#[derive(Debug)]
pub(crate) struct Rig {
    pub(crate) processors: Pair,
    pub(crate) clock: Clock,
    stamps: [Vec<u64>; 2],
}

impl Rig {
    pub(crate) fn new(processors: Pair, clock: Clock) -> Self {
        Self {
            processors,
            clock,
            stamps: [Vec::new(), Vec::new()],
        }
    }

    /// Room for the stamps of both sides, with every page touched.
    pub(crate) fn stamps(&mut self, blocks: usize) -> [&mut [u64]; 2] {
        self.stamps.each_mut().map(|stamps| {
            stamps.clear();
            stamps.resize(blocks, 1);
            &mut stamps[..]
        })
    }
}

/// Blocks that are cold: a sixteenth, and until every slot was used twice.
fn warm_up(blocks: usize, capacity: usize, items: usize) -> usize {
    (blocks / 16).max((2 * capacity).div_ceil(items))
}
