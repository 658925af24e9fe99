//! `ringbuf`: the caching ends that `HeapRb::split` gives.
//!
//! Batches are measured in two ways: slices, copied in and out as its documentation recommends for many items, and in
//! place, which writes by `push_iter`, reads the slices that it lends, and skips what was read.

use ringbuf::traits::{Consumer, Producer, Split};
use ringbuf::{HeapCons, HeapProd, HeapRb};

use super::{BATCH, BatchReceiver, BatchSender, Queue, Receiver, Sender, Wait, batch};
use crate::item::{Check, Item};

/// Batches are slices.
pub(crate) struct Ringbuf;

impl<T: Item> Queue<T> for Ringbuf {
    type Sender = HeapProd<T>;
    type Receiver = HeapCons<T>;

    fn with_capacity(capacity: usize) -> (Self::Sender, Self::Receiver) {
        HeapRb::new(capacity).split()
    }
}

impl<T: Item> Sender<T> for HeapProd<T> {
    #[inline(always)]
    fn send<W: Wait>(&mut self, item: T) {
        while self.try_push(item).is_err() {
            W::once();
        }
    }
}

impl<T: Item> Receiver<T> for HeapCons<T> {
    #[inline(always)]
    fn receive<W: Wait>(&mut self) -> T {
        loop {
            if let Some(item) = self.try_pop() {
                return item;
            }
            W::once();
        }
    }
}

impl<T: Item> BatchSender<T> for HeapProd<T> {
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

impl<T: Item> BatchReceiver<T> for HeapCons<T> {
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

/// Batches are written and read in place.
pub(crate) struct InPlace;

/// An end whose batches are in place.
pub(crate) struct Lending<E>(E);

impl<T: Item> Queue<T> for InPlace {
    type Sender = Lending<HeapProd<T>>;
    type Receiver = Lending<HeapCons<T>>;

    fn with_capacity(capacity: usize) -> (Self::Sender, Self::Receiver) {
        let (sender, receiver) = HeapRb::new(capacity).split();
        (Lending(sender), Lending(receiver))
    }
}

impl<T: Item> Sender<T> for Lending<HeapProd<T>> {
    #[inline(always)]
    fn send<W: Wait>(&mut self, item: T) {
        self.0.send::<W>(item);
    }
}

impl<T: Item> Receiver<T> for Lending<HeapCons<T>> {
    #[inline(always)]
    fn receive<W: Wait>(&mut self) -> T {
        self.0.receive::<W>()
    }
}

impl<T: Item> BatchSender<T> for Lending<HeapProd<T>> {
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

impl<T: Item> BatchReceiver<T> for Lending<HeapCons<T>> {
    #[inline(always)]
    fn receive_batch<W: Wait>(&mut self, check: &mut Check) {
        let mut left = BATCH;
        loop {
            let (one, two) = self.0.as_slices();
            let from_one = one.len().min(left);
            let from_two = two.len().min(left - from_one);
            for item in &one[..from_one] {
                check.see(item);
            }
            for item in &two[..from_two] {
                check.see(item);
            }
            let count = from_one + from_two;
            if count > 0 {
                self.0.skip(count);
            }
            left -= count;
            if left == 0 {
                return;
            }
            W::once();
        }
    }
}
