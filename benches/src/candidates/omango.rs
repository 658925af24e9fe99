//! `omango`: a number in each slot says whose turn it is. It has no batches.

use omango::queue::spsc::{BReceiver, BSender, bounded};

use super::{Queue, Receiver, Sender, Wait};
use crate::item::Item;

pub(crate) struct Omango;

impl<T: Item> Queue<T> for Omango {
    type Sender = BSender<T>;
    type Receiver = BReceiver<T>;

    fn with_capacity(capacity: usize) -> (Self::Sender, Self::Receiver) {
        bounded(u32::try_from(capacity).expect("capacities here are small"))
    }
}

impl<T: Item> Sender<T> for BSender<T> {
    #[inline(always)]
    fn send<W: Wait>(&mut self, item: T) {
        while self.try_send(item).is_err() {
            W::once();
        }
    }
}

impl<T: Item> Receiver<T> for BReceiver<T> {
    #[inline(always)]
    fn receive<W: Wait>(&mut self) -> T {
        loop {
            if let Ok(item) = self.try_recv() {
                return item;
            }
            W::once();
        }
    }
}
