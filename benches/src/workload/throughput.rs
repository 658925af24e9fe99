//! Items per second from one thread to the other, item by item or in batches of [`BATCH`].

use std::hint::black_box;

use super::{Rig, warm_up};
use crate::candidates::{BATCH, BatchReceiver, BatchSender, Queue, Receiver, Sender, Wait};
use crate::clock;
use crate::item::{Check, Item};
use crate::pair;
use crate::windows::{Blocks, Timing, co_running};

/// Items between two time stamps.
const BLOCK: usize = 64;

/// Item by item.
pub(crate) fn one_by_one<Q: Queue<T>, T: Item, W: Wait>(
    rig: &mut Rig,
    capacity: usize,
    blocks: usize,
) -> Option<Timing> {
    over::<Q, T>(
        rig,
        capacity,
        blocks,
        send_each::<_, T, W>,
        receive_each::<_, T, W>,
    )
}

/// In batches.
pub(crate) fn in_batches<Q, T: Item, W: Wait>(
    rig: &mut Rig,
    capacity: usize,
    blocks: usize,
) -> Option<Timing>
where
    Q: Queue<T>,
    Q::Sender: BatchSender<T>,
    Q::Receiver: BatchReceiver<T>,
{
    over::<Q, T>(
        rig,
        capacity,
        blocks,
        send_batches::<_, T, W>,
        receive_batches::<_, T, W>,
    )
}

fn over<Q: Queue<T>, T: Item>(
    rig: &mut Rig,
    capacity: usize,
    blocks: usize,
    send: fn(Q::Sender, &mut [u64]) -> Q::Sender,
    receive: fn(Q::Receiver, &mut [u64]) -> Q::Receiver,
) -> Option<Timing> {
    let (processors, clock) = (rig.processors, rig.clock);
    let [sent, received] = rig.stamps(blocks);
    let (sender, receiver) = Q::with_capacity(capacity);
    let ends = pair::run(
        processors,
        || send(sender, sent),
        || receive(receiver, received),
    );
    drop(ends);
    let blocks = Blocks {
        items: BLOCK,
        warm_up: warm_up(blocks, capacity, BLOCK),
        backlog: capacity.div_ceil(BLOCK),
    };
    co_running(sent, received, blocks, clock)
}

// The ends come by value and go back: they live in registers where they can, and are dropped after the clock stopped.

#[inline(never)]
fn send_each<S: Sender<T>, T: Item, W: Wait>(mut sender: S, stamps: &mut [u64]) -> S {
    let mut number = 0;
    for stamp in stamps {
        for _ in 0..BLOCK {
            sender.send::<W>(T::nth(number));
            number += 1;
        }
        *stamp = clock::now();
    }
    black_box(sender)
}

#[inline(never)]
fn receive_each<R: Receiver<T>, T: Item, W: Wait>(mut receiver: R, stamps: &mut [u64]) -> R {
    let mut check = Check::default();
    for stamp in stamps {
        receiver.receive_each::<W>(BLOCK, &mut check);
        *stamp = clock::now();
    }
    check.finish();
    black_box(receiver)
}

#[inline(never)]
fn send_batches<S: BatchSender<T>, T: Item, W: Wait>(mut sender: S, stamps: &mut [u64]) -> S {
    let mut first = 0;
    for stamp in stamps {
        for _ in 0..BLOCK / BATCH {
            sender.send_batch::<W>(first);
            // CAST: the size of a batch is small.
            first += BATCH as u64;
        }
        *stamp = clock::now();
    }
    black_box(sender)
}

#[inline(never)]
fn receive_batches<R: BatchReceiver<T>, T: Item, W: Wait>(
    mut receiver: R,
    stamps: &mut [u64],
) -> R {
    let mut check = Check::default();
    for stamp in stamps {
        for _ in 0..BLOCK / BATCH {
            receiver.receive_batch::<W>(&mut check);
        }
        *stamp = clock::now();
    }
    check.finish();
    black_box(receiver)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidates::Eager;
    use crate::candidates::rtrb::Rtrb;

    #[test]
    fn every_item_arrives_on_one_thread_too() {
        let (sender, receiver) = <Rtrb as Queue<u64>>::with_capacity(2 * BLOCK);
        send_each::<_, _, Eager>(sender, &mut [0; 2]);
        receive_each::<_, _, Eager>(receiver, &mut [0; 2]);
        let (sender, receiver) = <Rtrb as Queue<[u64; 4]>>::with_capacity(2 * BLOCK);
        send_batches::<_, _, Eager>(sender, &mut [0; 2]);
        receive_batches::<_, _, Eager>(receiver, &mut [0; 2]);
    }
}
