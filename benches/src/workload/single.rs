//! What push and pop cost one thread, with all memory in its own cache.

use std::hint::black_box;

use super::{Rig, warm_up};
use crate::candidates::{Eager, Queue, Receiver, Sender};
use crate::clock;
use crate::item::{Check, Item};
use crate::pin;
use crate::windows::{Blocks, Timing, median_block};

/// Pushes and pops between two time stamps.
const TURNS: usize = 64;

/// One push, one pop, in turn.
pub(crate) fn push_and_pop<Q: Queue<T>, T: Item>(
    rig: &mut Rig,
    capacity: usize,
    blocks: usize,
) -> Option<Timing> {
    let (processor, clock) = (rig.processors[0], rig.clock);
    let [stamps, _] = rig.stamps(blocks);
    let (sender, receiver) = Q::with_capacity(capacity);
    let alone = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            pin::pin(processor);
            turns(sender, receiver, stamps)
        });
        thread.join()
    });
    if let Err(panic) = alone {
        std::panic::resume_unwind(panic);
    }
    let read = Blocks {
        items: TURNS,
        warm_up: warm_up(blocks, capacity, TURNS),
        backlog: 0,
    };
    median_block(stamps, read, clock)
}

#[inline(never)]
fn turns<S: Sender<T>, R: Receiver<T>, T: Item>(
    mut sender: S,
    mut receiver: R,
    stamps: &mut [u64],
) -> (S, R) {
    let mut check = Check::default();
    let mut number = 0;
    for stamp in stamps {
        for _ in 0..TURNS {
            // The compiler knows both ends here, and must not carry the item past the queue.
            sender.send::<Eager>(black_box(T::nth(number)));
            number += 1;
            receiver.receive_each::<Eager>(1, &mut check);
        }
        *stamp = clock::now();
    }
    check.finish();
    black_box((sender, receiver))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidates::ringbuf::Ringbuf;

    #[test]
    fn what_is_pushed_is_popped() {
        let (sender, receiver) = <Ringbuf as Queue<[u64; 4]>>::with_capacity(4);
        turns(sender, receiver, &mut [0; 3]);
    }
}
