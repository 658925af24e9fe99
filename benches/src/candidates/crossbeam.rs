//! `crossbeam_queue::ArrayQueue`: for many threads on both sides, so a bystander here. It has no batches.

use std::sync::Arc;

use crossbeam_queue::ArrayQueue;

use super::{Queue, Receiver, Sender, Wait};
use crate::item::Item;

pub(crate) struct Crossbeam;

impl<T: Item> Queue<T> for Crossbeam {
    type Sender = Arc<ArrayQueue<T>>;
    type Receiver = Arc<ArrayQueue<T>>;

    fn with_capacity(capacity: usize) -> (Self::Sender, Self::Receiver) {
        let queue = Arc::new(ArrayQueue::new(capacity));
        (Arc::clone(&queue), queue)
    }
}

impl<T: Item> Sender<T> for Arc<ArrayQueue<T>> {
    #[inline(always)]
    fn send<W: Wait>(&mut self, item: T) {
        while self.push(item).is_err() {
            W::once();
        }
    }
}

impl<T: Item> Receiver<T> for Arc<ArrayQueue<T>> {
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
