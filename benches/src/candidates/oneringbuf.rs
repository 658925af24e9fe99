//! `oneringbuf`: the shared buffer on the heap. It keeps one slot free, so it gets one more than the others.

use oneringbuf::SharedHeapRB;
use oneringbuf::iterators::{ConsIter, ProdIter};

use super::{BATCH, BatchReceiver, BatchSender, Queue, Receiver, Sender, Wait, batch};
use crate::item::{Check, Item};

pub(crate) struct Oneringbuf;

impl<T: Item> Queue<T> for Oneringbuf {
    type Sender = ProdIter<SharedHeapRB<T>>;
    type Receiver = ConsIter<SharedHeapRB<T>>;

    fn with_capacity(capacity: usize) -> (Self::Sender, Self::Receiver) {
        SharedHeapRB::default(capacity + 1).split()
    }
}

impl<T: Item> Sender<T> for ProdIter<SharedHeapRB<T>> {
    #[inline(always)]
    fn send<W: Wait>(&mut self, item: T) {
        while self.push(item).is_err() {
            W::once();
        }
    }
}

impl<T: Item> Receiver<T> for ConsIter<SharedHeapRB<T>> {
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

impl<T: Item> BatchSender<T> for ProdIter<SharedHeapRB<T>> {
    #[inline(always)]
    fn send_batch<W: Wait>(&mut self, first: u64) {
        let items = batch::<T>(first);
        while self.push_slice(&items).is_none() {
            W::once();
        }
    }
}

impl<T: Item> BatchReceiver<T> for ConsIter<SharedHeapRB<T>> {
    #[inline(always)]
    fn receive_batch<W: Wait>(&mut self, check: &mut Check) {
        let mut items = [T::default(); BATCH];
        while self.copy_slice(&mut items).is_none() {
            W::once();
        }
        for item in &items {
            check.see(item);
        }
    }
}
