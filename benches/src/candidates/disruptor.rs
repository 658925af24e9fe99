//! `disruptor`: one producer, one event poller. It takes powers of two only.
//!
//! An item is published by writing it in place. The poller hands out all that is there and gives the slots back
//! together, also where items are sent one by one: that is the one way its documentation shows.

use ::disruptor::{
    BusySpin, EventPoller, Producer, SingleConsumerBarrier, SingleProducer, SingleProducerBarrier,
    build_single_producer,
};

use super::{BATCH, BatchReceiver, BatchSender, Queue, Receiver, Sender, Wait};
use crate::item::{Check, Item};

pub(crate) struct Disruptor;

type Poller<T> = EventPoller<T, SingleProducerBarrier>;
type Publisher<T> = SingleProducer<T, SingleConsumerBarrier>;

impl<T: Item> Queue<T> for Disruptor {
    type Sender = Publisher<T>;
    type Receiver = Poller<T>;

    fn with_capacity(capacity: usize) -> (Self::Sender, Self::Receiver) {
        let builder = build_single_producer(capacity, T::default, BusySpin);
        let (poller, builder) = builder.new_event_poller();
        (builder.build(), poller)
    }
}

impl<T: Item> Sender<T> for Publisher<T> {
    #[inline(always)]
    fn send<W: Wait>(&mut self, item: T) {
        while self.try_publish(|event| *event = item).is_err() {
            W::once();
        }
    }
}

impl<T: Item> Receiver<T> for Poller<T> {
    #[inline(always)]
    fn receive<W: Wait>(&mut self) -> T {
        loop {
            if let Ok(mut events) = self.take(1)
                && let Some(event) = (&mut events).next()
            {
                return *event;
            }
            W::once();
        }
    }

    #[inline(always)]
    fn receive_each<W: Wait>(&mut self, count: usize, check: &mut Check) {
        let mut left = count;
        while left > 0 {
            // CAST: counts here are small.
            if let Ok(mut events) = self.take(left as u64) {
                for event in &mut events {
                    check.see(event);
                    left -= 1;
                }
            } else {
                W::once();
            }
        }
    }
}

impl<T: Item> BatchSender<T> for Publisher<T> {
    #[inline(always)]
    fn send_batch<W: Wait>(&mut self, first: u64) {
        loop {
            let published = self.try_batch_publish(BATCH, |events| {
                for (number, event) in (first..).zip(events) {
                    *event = T::nth(number);
                }
            });
            if published.is_ok() {
                return;
            }
            W::once();
        }
    }
}

impl<T: Item> BatchReceiver<T> for Poller<T> {
    #[inline(always)]
    fn receive_batch<W: Wait>(&mut self, check: &mut Check) {
        self.receive_each::<W>(BATCH, check);
    }
}
