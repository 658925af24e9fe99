//! A number in each slot tells the consumer; a cursor that the consumer publishes now and then tells the producer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::memory::{Value, Walk, pair};
use super::{Same, Spacing};
use crate::candidates::{Queue, Receiver, Sender, Wait};
use crate::item::Item;

/// The consumer's cursor is published every eighth of the capacity, but at least so often.
const LONGEST_SILENCE: usize = 64;

pub(crate) struct Sequence;

#[repr(C)]
pub(crate) struct Slot<T> {
    /// The number of the value, from 1.
    number: AtomicUsize,
    value: Value<T>,
}

/// How many items were popped, as far as the consumer says. Alone on its pair of lines.
#[derive(Default)]
#[repr(align(128))]
struct Popped(AtomicUsize);

pub(crate) struct Pushing<T> {
    walk: Walk<Slot<T>, Same>,
    published: Arc<Popped>,
    pushed: usize,
    /// A copy.
    popped: usize,
}

pub(crate) struct Popping<T> {
    walk: Walk<Slot<T>, Same>,
    published: Arc<Popped>,
    popped: usize,
    /// What the producer knows.
    told: usize,
    silence: usize,
}

impl<T: Item> Queue<T> for Sequence {
    type Sender = Pushing<T>;
    type Receiver = Popping<T>;

    fn with_capacity(capacity: usize) -> (Self::Sender, Self::Receiver) {
        let published = Arc::<Popped>::default();
        let stride = Spacing::AsOurs.stride::<T>(size_of::<Slot<T>>(), capacity);
        // SAFETY: zeroes are a slot that was never used, nothing in it has a destructor, and the stride is one of its
        //   alignment.
        let (one, other) = unsafe { pair(capacity, stride) };
        let pushing = Pushing {
            walk: one,
            published: Arc::clone(&published),
            pushed: 0,
            popped: 0,
        };
        let popping = Popping {
            walk: other,
            published,
            popped: 0,
            told: 0,
            silence: (capacity / 8).clamp(1, LONGEST_SILENCE),
        };
        (pushing, popping)
    }
}

impl<T: Item> Sender<T> for Pushing<T> {
    #[inline(always)]
    fn send<W: Wait>(&mut self, item: T) {
        while !self.push(item) {
            W::once();
        }
    }
}

impl<T: Item> Receiver<T> for Popping<T> {
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

impl<T: Copy> Pushing<T> {
    /// False when there is no room that the consumer has told of.
    #[inline(always)]
    fn push(&mut self, value: T) -> bool {
        let is_full = |popped| self.pushed - popped == self.walk.count();
        if is_full(self.popped) {
            // PAIRS: with the release store in `tell`.
            self.popped = self.published.0.load(Ordering::Acquire);
            if is_full(self.popped) {
                return false;
            }
        }
        let slot = self.walk.slot();
        // SAFETY: the consumer is past the slot's last value, and does not touch the next before its number is there.
        unsafe { slot.value.write(value) };
        self.pushed += 1;
        // PAIRS: with the acquire load in `pop`.
        slot.number.store(self.pushed, Ordering::Release);
        self.walk.advance();
        true
    }
}

impl<T: Copy> Popping<T> {
    #[inline(always)]
    fn pop(&mut self) -> Option<T> {
        let slot = self.walk.slot();
        // PAIRS: with the release store in `push`.
        if slot.number.load(Ordering::Acquire) != self.popped + 1 {
            if self.told != self.popped {
                self.tell();
            }
            return None;
        }
        // SAFETY: the value is there, and the producer does not touch it before the cursor is published.
        let value = unsafe { slot.value.read() };
        self.walk.advance();
        self.popped += 1;
        if self.popped - self.told >= self.silence {
            self.tell();
        }
        Some(value)
    }

    #[inline(always)]
    fn tell(&mut self) {
        self.told = self.popped;
        // PAIRS: with the acquire load in `push`.
        self.published.0.store(self.popped, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::keeps_the_order;
    use super::*;

    #[test]
    fn in_order_and_never_stuck() {
        keeps_the_order::<Sequence>();
    }

    #[test]
    fn room_is_told_of_when_nothing_is_left() {
        let (mut sender, mut receiver) = <Sequence as Queue<u64>>::with_capacity(16);
        assert!((0..16).all(|number| sender.push(number)) && !sender.push(0));
        assert_eq!((receiver.pop(), sender.push(16)), (Some(0), false));
        assert_eq!((receiver.pop(), sender.push(16)), (Some(1), true));
        let rest: Vec<u64> = std::iter::from_fn(|| receiver.pop()).collect();
        assert_eq!(rest, (2..=16).collect::<Vec<_>>());
        assert!((0..16).all(|number| sender.push(number)));
    }
}
