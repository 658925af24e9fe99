//! The usual design: dense items, and a cursor for each end, which the other end reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Same;
use super::memory::{Value, Walk, pair};
use crate::candidates::{Queue, Receiver, Sender, Wait};
use crate::item::Item;

/// Each end keeps a copy of the far cursor if `CACHED`, and reads it again when there seems to be nothing to do.
pub(crate) struct Cursors<const CACHED: bool>;

/// Alone on its pair of lines.
#[derive(Default)]
#[repr(align(128))]
struct Cursor(AtomicUsize);

/// How many items ever were pushed and popped.
#[derive(Default)]
struct Both {
    pushed: Cursor,
    popped: Cursor,
}

pub(crate) struct Pushing<T, const CACHED: bool> {
    walk: Walk<Value<T>, Same>,
    both: Arc<Both>,
    pushed: usize,
    /// A copy.
    popped: usize,
}

pub(crate) struct Popping<T, const CACHED: bool> {
    walk: Walk<Value<T>, Same>,
    both: Arc<Both>,
    popped: usize,
    /// A copy.
    pushed: usize,
}

impl<T: Item, const CACHED: bool> Queue<T> for Cursors<CACHED> {
    type Sender = Pushing<T, CACHED>;
    type Receiver = Popping<T, CACHED>;

    fn with_capacity(capacity: usize) -> (Self::Sender, Self::Receiver) {
        let both = Arc::<Both>::default();
        // SAFETY: a value may be any bytes until it is read, and has no destructor; the stride is its size.
        let (one, other) = unsafe { pair(capacity, size_of::<Value<T>>()) };
        let pushing = Pushing {
            walk: one,
            both: Arc::clone(&both),
            pushed: 0,
            popped: 0,
        };
        let popping = Popping {
            walk: other,
            both,
            popped: 0,
            pushed: 0,
        };
        (pushing, popping)
    }
}

impl<T: Item, const CACHED: bool> Sender<T> for Pushing<T, CACHED> {
    #[inline(always)]
    fn send<W: Wait>(&mut self, item: T) {
        while !self.push(item) {
            W::once();
        }
    }
}

impl<T: Item, const CACHED: bool> Receiver<T> for Popping<T, CACHED> {
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

impl<T: Copy, const CACHED: bool> Pushing<T, CACHED> {
    /// False when there is no room.
    #[inline(always)]
    fn push(&mut self, value: T) -> bool {
        let is_full = |popped| self.pushed - popped == self.walk.count();
        if !CACHED || is_full(self.popped) {
            // PAIRS: with the release store in `pop`.
            self.popped = self.both.popped.0.load(Ordering::Acquire);
            if is_full(self.popped) {
                return false;
            }
        }
        // SAFETY: the consumer is past the slot's last value, and does not touch the next before `pushed` moves.
        unsafe { self.walk.slot().write(value) };
        self.walk.advance();
        self.pushed += 1;
        // PAIRS: with the acquire load in `pop`.
        self.both.pushed.0.store(self.pushed, Ordering::Release);
        true
    }
}

impl<T: Copy, const CACHED: bool> Popping<T, CACHED> {
    #[inline(always)]
    fn pop(&mut self) -> Option<T> {
        if !CACHED || self.pushed == self.popped {
            // PAIRS: with the release store in `push`.
            self.pushed = self.both.pushed.0.load(Ordering::Acquire);
            if self.pushed == self.popped {
                return None;
            }
        }
        // SAFETY: the producer is past the slot, and does not touch it again before `popped` moves.
        let value = unsafe { self.walk.slot().read() };
        self.walk.advance();
        self.popped += 1;
        // PAIRS: with the acquire load in `push`.
        self.both.popped.0.store(self.popped, Ordering::Release);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::keeps_the_order;
    use super::*;

    #[test]
    fn in_order_with_and_without_copies() {
        keeps_the_order::<Cursors<true>>();
        keeps_the_order::<Cursors<false>>();
    }
}
