//! The queues that are measured, each behind the same few calls.
//!
//! A candidate implements [`Queue`] with two ends, and does each call the way its own documentation recommends for
//! speed. The workloads are generic over these traits, so that nothing is called through a pointer while the clock runs.
//!
//! | module | what | batches |
//! |---|---|---|
//! | `spsc` | our queue, `xu_ring::spsc` | slices or iterators |
//! | `three_cursor` | our ring, `xu_ring::queue::ring` | - |
//! | `naive` | the control: what the ring would be without any care | - |
//! | `variants` | ours with one choice made otherwise | - |
//! | the others | peers from the registry | where they have them |

pub(crate) mod crossbeam;
pub(crate) mod disruptor;
#[allow(unsafe_code, reason = "its batches have no safe way to be sent")]
pub(crate) mod gil;
pub(crate) mod naive;
pub(crate) mod omango;
pub(crate) mod oneringbuf;
pub(crate) mod ringbuf;
pub(crate) mod rtrb;
pub(crate) mod spsc;
pub(crate) mod three_cursor;
pub(crate) mod variants;

use crate::item::{Check, Item};

/// How many items a batch has.
pub(crate) const BATCH: usize = 16;

/// What a thread does between two attempts. No queue prescribes it, and it matters, so each is measured with both.
pub(crate) trait Wait: Send {
    fn once();
}

/// Tries again at once.
pub(crate) struct Eager;

/// Tells the processor that it spins, as `std::hint::spin_loop` does.
pub(crate) struct Hinted;

impl Wait for Eager {
    #[inline(always)]
    fn once() {}
}

impl Wait for Hinted {
    #[inline(always)]
    fn once() {
        std::hint::spin_loop();
    }
}

/// A queue between two threads.
pub(crate) trait Queue<T: Item> {
    type Sender: Sender<T>;
    type Receiver: Receiver<T>;

    /// A queue for `capacity` items.
    fn with_capacity(capacity: usize) -> (Self::Sender, Self::Receiver);
}

/// The end that puts items in, one by one.
pub(crate) trait Sender<T>: Send {
    /// Waits while the queue is full.
    fn send<W: Wait>(&mut self, item: T);
}

/// The end that takes items out, one by one.
pub(crate) trait Receiver<T: Item>: Send {
    /// Waits while the queue is empty.
    fn receive<W: Wait>(&mut self) -> T;

    /// Takes `count` items and shows each to `check`. A queue that has a better way to treat them one by one uses it.
    #[inline(always)]
    fn receive_each<W: Wait>(&mut self, count: usize, check: &mut Check) {
        for _ in 0..count {
            check.see(&self.receive::<W>());
        }
    }
}

/// The end that puts items in, in batches.
pub(crate) trait BatchSender<T>: Send {
    /// Sends the items of the numbers `first..first + BATCH`, and waits while there is no room.
    fn send_batch<W: Wait>(&mut self, first: u64);
}

/// The end that takes items out, in batches.
pub(crate) trait BatchReceiver<T>: Send {
    /// Takes [`BATCH`] items, and shows each to `check`. It may take them in several parts.
    fn receive_batch<W: Wait>(&mut self, check: &mut Check);
}

/// The items of a batch, for a queue that copies from a slice.
#[inline(always)]
fn batch<T: Item>(first: u64) -> [T; BATCH] {
    // CAST: an index is less than the size of a batch.
    std::array::from_fn(|index| T::nth(first + index as u64))
}
