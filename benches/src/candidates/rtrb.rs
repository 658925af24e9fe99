//! `rtrb`: cursors with a cached copy of the far one. The peer that most bars refer to.
//!
//! Batches are measured in both ways that its documentation has for them: chunks, filled in place by an iterator and
//! read in place, and slices, copied in and out.

use super::{BATCH, BatchReceiver, BatchSender, Queue, Receiver, Sender, Wait, batch};
use crate::item::{Check, Item};

/// Batches are chunks.
pub(crate) struct Rtrb;

impl<T: Item> Queue<T> for Rtrb {
    type Sender = rtrb::Producer<T>;
    type Receiver = rtrb::Consumer<T>;

    fn with_capacity(capacity: usize) -> (Self::Sender, Self::Receiver) {
        rtrb::RingBuffer::new(capacity)
    }
}

impl<T: Item> Sender<T> for rtrb::Producer<T> {
    #[inline(always)]
    fn send<W: Wait>(&mut self, item: T) {
        while self.push(item).is_err() {
            W::once();
        }
    }
}

impl<T: Item> Receiver<T> for rtrb::Consumer<T> {
    #[inline(always)]
    fn receive<W: Wait>(&mut self) -> T {
        loop {
            if let Ok(item) = self.pop() {
                return item;
            }
            W::once();
        }
    }
}

impl<T: Item> BatchSender<T> for rtrb::Producer<T> {
    #[inline(always)]
    fn send_batch<W: Wait>(&mut self, first: u64) {
        loop {
            if let Ok(chunk) = self.write_chunk_uninit(BATCH) {
                // CAST: the size of a batch is small.
                chunk.fill_from_iter((first..first + BATCH as u64).map(T::nth));
                return;
            }
            W::once();
        }
    }
}

impl<T: Item> BatchReceiver<T> for rtrb::Consumer<T> {
    #[inline(always)]
    fn receive_batch<W: Wait>(&mut self, check: &mut Check) {
        loop {
            if let Ok(chunk) = self.read_chunk(BATCH) {
                let (one, two) = chunk.as_slices();
                for item in one {
                    check.see(item);
                }
                for item in two {
                    check.see(item);
                }
                chunk.commit_all();
                return;
            }
            W::once();
        }
    }
}

/// Batches are slices.
pub(crate) struct Slices;

/// An end whose batches are slices.
pub(crate) struct Copying<E>(E);

impl<T: Item> Queue<T> for Slices {
    type Sender = Copying<rtrb::Producer<T>>;
    type Receiver = Copying<rtrb::Consumer<T>>;

    fn with_capacity(capacity: usize) -> (Self::Sender, Self::Receiver) {
        let (sender, receiver) = rtrb::RingBuffer::new(capacity);
        (Copying(sender), Copying(receiver))
    }
}

impl<T: Item> Sender<T> for Copying<rtrb::Producer<T>> {
    #[inline(always)]
    fn send<W: Wait>(&mut self, item: T) {
        self.0.send::<W>(item);
    }
}

impl<T: Item> Receiver<T> for Copying<rtrb::Consumer<T>> {
    #[inline(always)]
    fn receive<W: Wait>(&mut self) -> T {
        self.0.receive::<W>()
    }
}

impl<T: Item> BatchSender<T> for Copying<rtrb::Producer<T>> {
    #[inline(always)]
    fn send_batch<W: Wait>(&mut self, first: u64) {
        let items = batch::<T>(first);
        while self.0.push_entire_slice(&items).is_err() {
            W::once();
        }
    }
}

impl<T: Item> BatchReceiver<T> for Copying<rtrb::Consumer<T>> {
    #[inline(always)]
    fn receive_batch<W: Wait>(&mut self, check: &mut Check) {
        let mut items = [T::default(); BATCH];
        while self.0.pop_entire_slice(&mut items).is_err() {
            W::once();
        }
        for item in &items {
            check.see(item);
        }
    }
}
