//! The hand-over of ours: a byte beside the value says whose the slot is, and both ends store it.

use std::sync::atomic::{AtomicU8, Ordering};

use super::Choice;
use super::memory::{Value, Walk, pair};
use crate::candidates::{Queue, Receiver, Sender, Wait};
use crate::item::Item;

const EMPTY: u8 = 0;
const FULL: u8 = 1;

#[repr(C)]
pub(crate) struct Slot<T> {
    state: AtomicU8,
    value: Value<T>,
}

pub(super) const fn slot_size<T>() -> usize {
    size_of::<Slot<T>>()
}

/// A queue that makes one choice otherwise.
pub(crate) struct State<C>(std::marker::PhantomData<C>);

pub(crate) struct Pushing<T, C>(Walk<Slot<T>, C>);
pub(crate) struct Popping<T, C>(Walk<Slot<T>, C>);

impl<T: Item, C: Choice> Queue<T> for State<C> {
    type Sender = Pushing<T, C>;
    type Receiver = Popping<T, C>;

    fn with_capacity(capacity: usize) -> (Self::Sender, Self::Receiver) {
        let stride = C::SPACING.stride::<T>(slot_size::<T>(), capacity);
        // SAFETY: zeroes are an empty slot, nothing in it has a destructor, and the stride is one of its alignment.
        let (one, other) = unsafe { pair(capacity, stride) };
        (Pushing(one), Popping(other))
    }
}

impl<T: Item, C: Choice> Sender<T> for Pushing<T, C> {
    #[inline(always)]
    fn send<W: Wait>(&mut self, item: T) {
        while !self.push(item) {
            W::once();
        }
    }
}

impl<T: Item, C: Choice> Receiver<T> for Popping<T, C> {
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

impl<T: Copy, C: Choice> Pushing<T, C> {
    /// False when there is no room.
    #[inline(always)]
    fn push(&mut self, value: T) -> bool {
        let slot = self.0.slot();
        // PAIRS: with the release store in `pop`.
        if slot.state.load(Ordering::Acquire) != EMPTY {
            return false;
        }
        // SAFETY: an empty slot is the producer's, and this is the one producer.
        unsafe { slot.value.write(value) };
        // PAIRS: with the acquire load in `pop`.
        slot.state.store(FULL, Ordering::Release);
        self.0.advance();
        true
    }
}

impl<T: Copy, C: Choice> Popping<T, C> {
    #[inline(always)]
    fn pop(&mut self) -> Option<T> {
        let slot = self.0.slot();
        // PAIRS: with the release store in `push`.
        if slot.state.load(Ordering::Acquire) != FULL {
            return None;
        }
        // SAFETY: a full slot is the consumer's, and this is the one consumer.
        let value = unsafe { slot.value.read() };
        // PAIRS: with the acquire load in `push`.
        slot.state.store(EMPTY, Ordering::Release);
        if C::PREFETCHES {
            self.0.prefetch();
        }
        self.0.advance();
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::keeps_the_order;
    use super::super::{Close, Divided, LineEach, Prefetching, Same};
    use super::*;

    #[test]
    fn in_order_whatever_the_choice() {
        keeps_the_order::<State<Same>>();
        keeps_the_order::<State<Divided>>();
        keeps_the_order::<State<Close>>();
        keeps_the_order::<State<LineEach>>();
        keeps_the_order::<State<Prefetching>>();
    }
}
