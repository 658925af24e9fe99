//! The hand-over by a swap, for ends that may sleep: `xu_ring::spsc::parking`, whose ends here never do.

use xu_ring::spsc::parking::{Receiver as Receiving, Sender as Sending, channel};

use crate::candidates::{Queue, Receiver, Sender, Wait};
use crate::item::Item;

pub(crate) struct Parking;

impl<T: Item> Queue<T> for Parking {
    type Sender = Sending<T>;
    type Receiver = Receiving<T>;

    fn with_capacity(capacity: usize) -> (Self::Sender, Self::Receiver) {
        channel(capacity).expect("there is memory")
    }
}

impl<T: Item> Sender<T> for Sending<T> {
    #[inline(always)]
    fn send<W: Wait>(&mut self, item: T) {
        while self.try_send(item).is_err() {
            W::once();
        }
    }
}

impl<T: Item> Receiver<T> for Receiving<T> {
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

#[cfg(test)]
mod tests {
    use super::super::tests::keeps_the_order;
    use super::*;

    #[test]
    fn in_order() {
        keeps_the_order::<Parking>();
    }
}
