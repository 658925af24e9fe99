//! One sample of a candidate: a closed loop on two cores or on one, or single requests to a thread that sleeps.

use std::time::Duration;

use super::procfs::Thread;
use super::service::{ANSWERING, Caller, Loop, Service};
use super::tally;
use crate::clock::{self, Clock};
use crate::pin;
use crate::windows::{Blocks, Timing, mean_block, median_block_of};
use crate::workload::Rig;

/// For so long the answering thread has slept when a request comes: a core that has just gone idle is still watchful, by
/// default for 200 µs in a virtual machine.
const DEEP: Duration = Duration::from_micros(250);

/// A caller and an answering thread with a processor each.
pub(crate) fn two_cores<L: Loop>(rig: &mut Rig, depth: usize, blocks: usize) -> Option<Timing> {
    closed_loop::<L>(rig, depth, blocks, [0, 1])
}

/// Both threads on one processor.
pub(crate) fn one_core<L: Loop>(rig: &mut Rig, depth: usize, blocks: usize) -> Option<Timing> {
    closed_loop::<L>(rig, depth, blocks, [0, 0])
}

fn closed_loop<L: Loop>(
    rig: &mut Rig,
    depth: usize,
    blocks: usize,
    sides: [usize; 2],
) -> Option<Timing> {
    let processors = sides.map(|side| rig.processors[side]);
    let clock = rig.clock;
    let [stamps, _] = rig.stamps(blocks);
    if !L::drive(processors, depth, stamps) {
        return None;
    }
    let blocks = Blocks {
        items: tally::block(depth),
        warm_up: blocks / 16,
        backlog: 0,
    };
    mean_block(stamps, blocks, clock)
}

/// Single requests, each to a thread that has been asleep for a while.
pub(crate) fn asleep<S: Service>(rig: &mut Rig, _: usize, blocks: usize) -> Option<Timing> {
    let (processors, clock) = (rig.processors, rig.clock);
    let [begins, ends] = rig.stamps(blocks);
    pin::on(processors[0], || {
        let mut caller = S::start(processors)?;
        let trips = ask_the_sleeper(&mut caller, begins, ends, clock);
        caller.stop();
        trips
    })?;
    let lasted = begins.iter().zip(&*ends).map(|(begin, end)| end - begin);
    median_block_of(lasted.collect(), 1, clock)
}

fn ask_the_sleeper(
    caller: &mut impl Caller,
    begins: &mut [u64],
    ends: &mut [u64],
    clock: Clock,
) -> Option<()> {
    let thread = Thread::named(ANSWERING)?;
    for (begin, end) in begins.iter_mut().zip(ends) {
        if !thread.is_asleep_soon(DEEP, clock) {
            return None;
        }
        *begin = clock::now();
        caller.submit();
        caller.wait();
        *end = clock::now();
    }
    Some(())
}
