//! Latency: one item there and back over two queues.
//!
//! The way over our one ring, whose completion is the answer, is in `three_stage`.

use std::hint::black_box;

use super::{Rig, warm_up};
use crate::candidates::{Queue, Receiver, Sender, Wait};
use crate::clock;
use crate::item::{Check, Item};
use crate::pair;
use crate::windows::{Blocks, Timing, median_block};

/// Round trips between two time stamps.
pub(super) const TRIPS: usize = 16;

/// There over one queue, back over another.
pub(crate) fn over_two<Q: Queue<T>, T: Item, W: Wait>(
    rig: &mut Rig,
    capacity: usize,
    blocks: usize,
) -> Option<Timing> {
    let (processors, clock) = (rig.processors, rig.clock);
    let [stamps, _] = rig.stamps(blocks);
    let (there, at) = Q::with_capacity(capacity);
    let (back, home) = Q::with_capacity(capacity);
    let trips = blocks * TRIPS;
    let ends = pair::run(
        processors,
        || ask::<_, _, T, W>(there, home, stamps),
        || answer::<_, _, T, W>(at, back, trips),
    );
    drop(ends);
    median_block(stamps, blocks_of(blocks, capacity), clock)
}

pub(super) fn blocks_of(blocks: usize, capacity: usize) -> Blocks {
    Blocks {
        items: TRIPS,
        warm_up: warm_up(blocks, capacity, TRIPS),
        backlog: 0,
    }
}

#[inline(never)]
fn ask<S: Sender<T>, R: Receiver<T>, T: Item, W: Wait>(
    mut there: S,
    mut home: R,
    stamps: &mut [u64],
) -> (S, R) {
    let mut check = Check::default();
    let mut number = 0;
    for stamp in stamps {
        for _ in 0..TRIPS {
            there.send::<W>(T::nth(number));
            number += 1;
            home.receive_each::<W>(1, &mut check);
        }
        *stamp = clock::now();
    }
    check.finish();
    black_box((there, home))
}

#[inline(never)]
fn answer<R: Receiver<T>, S: Sender<T>, T: Item, W: Wait>(
    mut at: R,
    mut back: S,
    trips: usize,
) -> (R, S) {
    for _ in 0..trips {
        let item = at.receive::<W>();
        back.send::<W>(item);
    }
    black_box((at, back))
}
