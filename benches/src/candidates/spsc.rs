//! Our queue, `xu_ring::spsc`.
//!
//! Batches are measured in two ways, as those of the peers: slices, copied in and out, and iterators.

use xu_ring::spsc::{Consumer, Producer, channel};

use super::{BATCH, BatchReceiver, BatchSender, Queue, Receiver, Sender, Wait, batch};
use crate::item::{Check, Item};

/// Batches are slices.
pub(crate) struct Spsc;

impl<T: Item> Queue<T> for Spsc {
    type Sender = Producer<T>;
    type Receiver = Consumer<T>;

    fn with_capacity(capacity: usize) -> (Self::Sender, Self::Receiver) {
        channel(capacity).expect("there is memory")
    }
}

impl<T: Item> Sender<T> for Producer<T> {
    #[inline(always)]
    fn send<W: Wait>(&mut self, item: T) {
        while self.push(item).is_err() {
            W::once();
        }
    }
}

impl<T: Item> Receiver<T> for Consumer<T> {
    #[inline(always)]
    fn receive<W: Wait>(&mut self) -> T {
        loop {
            if let Some(item) = self.pop() {
                return item;
            }
            W::once();
        }
    }
}

impl<T: Item> BatchSender<T> for Producer<T> {
    #[inline(always)]
    fn send_batch<W: Wait>(&mut self, first: u64) {
        let items = batch(first);
        let mut left = &items[..];
        loop {
            left = &left[self.push_slice(left)..];
            if left.is_empty() {
                return;
            }
            W::once();
        }
    }
}

impl<T: Item> BatchReceiver<T> for Consumer<T> {
    #[inline(always)]
    fn receive_batch<W: Wait>(&mut self, check: &mut Check) {
        let mut items = [T::default(); BATCH];
        let mut received = 0;
        loop {
            let count = self.pop_slice(&mut items[received..]);
            for item in &items[received..received + count] {
                check.see(item);
            }
            received += count;
            if received == BATCH {
                return;
            }
            W::once();
        }
    }
}

/// From one slot to the next, in bytes, as its addresses say. For capacities above 1.
pub(crate) fn stride<T: Item>(capacity: usize) -> usize {
    let (mut producer, mut consumer) = channel(capacity).expect("there is memory");
    producer.push_slice(&[T::default(); 2]);
    let mut address = || {
        let item = consumer.peek().map(|item| std::ptr::from_ref(item).addr());
        consumer.pop();
        item.unwrap_or_default()
    };
    let first = address();
    address().abs_diff(first)
}

/// Batches are iterators.
pub(crate) struct Iterators;

/// An end whose batches are iterators.
pub(crate) struct Iterating<E>(E);

impl<T: Item> Queue<T> for Iterators {
    type Sender = Iterating<Producer<T>>;
    type Receiver = Iterating<Consumer<T>>;

    fn with_capacity(capacity: usize) -> (Self::Sender, Self::Receiver) {
        let (producer, consumer) = Spsc::with_capacity(capacity);
        (Iterating(producer), Iterating(consumer))
    }
}

impl<T: Item> Sender<T> for Iterating<Producer<T>> {
    #[inline(always)]
    fn send<W: Wait>(&mut self, item: T) {
        self.0.send::<W>(item);
    }
}

impl<T: Item> Receiver<T> for Iterating<Consumer<T>> {
    #[inline(always)]
    fn receive<W: Wait>(&mut self) -> T {
        self.0.receive::<W>()
    }
}

impl<T: Item> BatchSender<T> for Iterating<Producer<T>> {
    #[inline(always)]
    fn send_batch<W: Wait>(&mut self, first: u64) {
        // CAST: the size of a batch is small.
        let past = first + BATCH as u64;
        let mut next = first;
        loop {
            // CAST: as above.
            next += self.0.push_iter((next..past).map(T::nth)) as u64;
            if next == past {
                return;
            }
            W::once();
        }
    }
}

impl<T: Item> BatchReceiver<T> for Iterating<Consumer<T>> {
    #[inline(always)]
    fn receive_batch<W: Wait>(&mut self, check: &mut Check) {
        let mut left = BATCH;
        loop {
            for item in self.0.pop_iter(left) {
                check.see(&item);
                left -= 1;
            }
            if left == 0 {
                return;
            }
            W::once();
        }
    }
}
