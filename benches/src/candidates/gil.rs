//! `gil`: the spin-only queue. One by one by `try_send` and `try_recv`, and also by `send` and `recv`, which wait in its
//! own way. Batches by the buffers that it lends, written and read in place.
//!
//! Without its feature `std`, which adds queues that park and a wait that yields after 128 turns.

use std::num::NonZeroUsize;

use super::{BATCH, BatchReceiver, BatchSender, Queue, Receiver, Sender, Wait};
use crate::item::{Check, Item};

pub(crate) struct Gil;

impl<T: Item> Queue<T> for Gil {
    type Sender = gil::spsc::Sender<T>;
    type Receiver = gil::spsc::Receiver<T>;

    fn with_capacity(capacity: usize) -> (Self::Sender, Self::Receiver) {
        gil::spsc::channel(NonZeroUsize::new(capacity).expect("no queue here has no slots"))
    }
}

/// The same, waiting in its own way.
pub(crate) struct OwnWait;

/// An end that waits in its own way.
pub(crate) struct Blocking<E>(E);

impl<T: Item> Queue<T> for OwnWait {
    type Sender = Blocking<gil::spsc::Sender<T>>;
    type Receiver = Blocking<gil::spsc::Receiver<T>>;

    fn with_capacity(capacity: usize) -> (Self::Sender, Self::Receiver) {
        let (sender, receiver) = Gil::with_capacity(capacity);
        (Blocking(sender), Blocking(receiver))
    }
}

impl<T: Item> Sender<T> for Blocking<gil::spsc::Sender<T>> {
    #[inline(always)]
    fn send<W: Wait>(&mut self, item: T) {
        self.0.send(item);
    }
}

impl<T: Item> Receiver<T> for Blocking<gil::spsc::Receiver<T>> {
    #[inline(always)]
    fn receive<W: Wait>(&mut self) -> T {
        self.0.recv()
    }
}

impl<T: Item> Sender<T> for gil::spsc::Sender<T> {
    #[inline(always)]
    fn send<W: Wait>(&mut self, item: T) {
        while self.try_send(item).is_err() {
            W::once();
        }
    }
}

impl<T: Item> Receiver<T> for gil::spsc::Receiver<T> {
    #[inline(always)]
    fn receive<W: Wait>(&mut self) -> T {
        loop {
            if let Some(item) = self.try_recv() {
                return item;
            }
            W::once();
        }
    }
}

impl<T: Item> BatchSender<T> for gil::spsc::Sender<T> {
    #[inline(always)]
    fn send_batch<W: Wait>(&mut self, first: u64) {
        let mut sent = 0;
        while sent < BATCH {
            let room = self.write_buffer();
            let count = room.len().min(BATCH - sent);
            if count == 0 {
                W::once();
                continue;
            }
            for (index, slot) in room[..count].iter_mut().enumerate() {
                // CAST: an index is less than the size of a batch.
                slot.write(T::nth(first + (sent + index) as u64));
            }
            // SAFETY: the first `count` slots of the room that it gave are written.
            unsafe { self.commit(count) };
            sent += count;
        }
    }
}

impl<T: Item> BatchReceiver<T> for gil::spsc::Receiver<T> {
    #[inline(always)]
    fn receive_batch<W: Wait>(&mut self, check: &mut Check) {
        let mut received = 0;
        while received < BATCH {
            let mut there = self.read_guard();
            let count = there.len().min(BATCH - received);
            if count == 0 {
                W::once();
                continue;
            }
            for item in &there.as_slice()[..count] {
                check.see(item);
            }
            there.advance(count);
            received += count;
        }
    }
}
