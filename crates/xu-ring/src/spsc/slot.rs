//! One slot: a value, and the byte that says whose it is.
//!
//! # The hand-over rule
//!
//! Every `unsafe` block of this module tree rests on this rule, and calls it by this name.
//!
//! * A slot is *empty* or *full*. A full slot holds a value; an empty one does not.
//! * An empty slot belongs to the producer, a full slot to the consumer: its value, and the change of its state.
//! * Whoever changes the state gives the slot away. The change is a release that the other end acquires when it looks, so
//!   all that one end did with a slot happens before anything that the other does with it.
//! * There is one producer and one consumer per queue, and neither can be cloned.
//!
//! The bit [`WAITED`] is no part of it: the end that does *not* own the slot sets it, to be told when the state changes.

use core::mem::MaybeUninit;

use super::order;
use crate::mutant::Mutant;
use crate::sync::{AtomicU8, UnsafeCell};

/// The producer's; no value. Memory of zeroes is empty slots.
pub(crate) const EMPTY: u8 = 0;
/// The consumer's; a value. This bit decides.
pub(crate) const FULL: u8 = 1;
/// The end that does not own the slot sleeps until it does.
#[cfg(feature = "async")]
pub(crate) const WAITED: u8 = 2;

/// State and value.
#[repr(C)]
pub(crate) struct Slot<T> {
    state: AtomicU8,
    value: UnsafeCell<MaybeUninit<T>>,
}

impl<T> Slot<T> {
    /// An empty slot.
    #[cfg(not(loom))]
    pub(crate) const fn empty() -> Self {
        Self {
            state: AtomicU8::new(EMPTY),
            value: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// An empty slot that loom can watch.
    #[cfg(loom)]
    pub(crate) fn empty() -> Self {
        Self {
            state: AtomicU8::new(EMPTY),
            value: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// Whether the producer finds it full: if not, the slot is the producer's.
    #[inline(always)]
    pub(crate) fn is_full_for_producer(&self) -> bool {
        // PAIRS: with the release of `vacate`; orders the consumer's reading of a value before the writing of the next.
        self.state.load(order::room_load()) & FULL != 0
    }

    /// Whether the consumer finds it full: if so, slot and value are the consumer's.
    #[inline(always)]
    pub(crate) fn is_full_for_consumer(&self) -> bool {
        // PAIRS: with the release of `fill`; orders the producer's writing of a value before its reading.
        self.state.load(order::value_load()) & FULL != 0
    }

    /// Puts a value in and gives the slot to the consumer.
    ///
    /// # Safety
    /// The caller is the producer, and the slot is empty.
    #[inline(always)]
    pub(crate) unsafe fn fill(&self, value: T) {
        if Mutant::SpscPublishBeforeBody.is_seeded() {
            // PAIRS: with nothing: a fault on purpose.
            self.state.store(FULL, order::publish_store());
        }
        // SAFETY: by the hand-over rule the slot is ours, and nothing is in it that would need dropping.
        self.value
            .with_mut(|cell| unsafe { cell.cast::<T>().write(value) });
        // PAIRS: with the acquire load in `is_full_for_consumer`.
        self.state.store(FULL, order::publish_store());
    }

    /// Takes the value out and gives the slot to the producer.
    ///
    /// # Safety
    /// The caller is the consumer, and the slot is full.
    #[inline(always)]
    pub(crate) unsafe fn vacate(&self) -> T {
        if Mutant::SpscFreeBeforeRead.is_seeded() {
            // PAIRS: with nothing: a fault on purpose.
            self.state.store(EMPTY, order::free_store());
        }
        // SAFETY: by the hand-over rule the slot is ours and holds a value, which nobody reads again: it is empty next.
        let value = self.value.with(|cell| unsafe { cell.cast::<T>().read() });
        // PAIRS: with the acquire load in `is_full_for_producer`.
        self.state.store(EMPTY, order::free_store());
        value
    }

    /// The value in a full slot.
    ///
    /// # Safety
    /// The caller is the consumer, the slot is full, and stays so while the reference lives.
    #[inline(always)]
    pub(crate) unsafe fn value(&self) -> &T {
        // SAFETY: by the hand-over rule the slot is ours and holds a value.
        self.value.with(|cell| unsafe { &*cell.cast::<T>() })
    }

    /// The value in a full slot, to be changed in place.
    ///
    /// # Safety
    /// As [`Slot::value`], and there is no other reference to it.
    #[inline(always)]
    #[expect(
        clippy::mut_from_ref,
        reason = "the slot is the consumer's alone, by the hand-over rule"
    )]
    pub(crate) unsafe fn value_mut(&self) -> &mut T {
        // SAFETY: by the hand-over rule the slot is ours and holds a value.
        self.value
            .with_mut(|cell| unsafe { &mut *cell.cast::<T>() })
    }
}

/// Freeing a slot is a write to all of it, which loom must see to notice that somebody still uses it.
#[cfg(loom)]
impl<T> Drop for Slot<T> {
    fn drop(&mut self) {
        self.state.with_mut(|_| ());
        self.value.with_mut(|_| ());
    }
}

/// The same hand-over for ends that may sleep: each change also tells whether the other end waits for it.
///
/// The state is changed by a swap where a store would do otherwise. Announcing and changing are then two read-modify-write
/// operations on one byte, so one of them sees the other: a wake-up cannot be lost, and no fence is needed.
#[cfg(feature = "async")]
impl<T> Slot<T> {
    /// As [`Slot::fill`]; says whether the consumer waits for it.
    ///
    /// # Safety
    /// As [`Slot::fill`].
    #[inline]
    pub(crate) unsafe fn fill_and_look(&self, value: T) -> bool {
        // SAFETY: by the hand-over rule the slot is ours, and nothing is in it that would need dropping.
        self.value
            .with_mut(|cell| unsafe { cell.cast::<T>().write(value) });
        self.change(FULL)
    }

    /// As [`Slot::vacate`]; says also whether the producer waits for it.
    ///
    /// # Safety
    /// As [`Slot::vacate`].
    #[inline]
    pub(crate) unsafe fn vacate_and_look(&self) -> (T, bool) {
        // SAFETY: by the hand-over rule the slot is ours and holds a value, which nobody reads again: it is empty next.
        let value = self.value.with(|cell| unsafe { cell.cast::<T>().read() });
        (value, self.change(EMPTY))
    }

    #[inline]
    fn change(&self, to: u8) -> bool {
        if Mutant::SpscStoreInsteadOfSwap.is_seeded() {
            // PAIRS: with nothing: a fault on purpose.
            let waited = self.state.load(order::value_load()) & WAITED != 0;
            self.state.store(to, order::publish_store());
            return waited;
        }
        // PAIRS: with the acquire loads of both ends, and with the announcement in `wait_until_not`, either way round.
        self.state.swap(to, order::swap()) & WAITED != 0
    }

    /// Announces that the caller, who does not own the slot, waits until its state is not `state` any more.
    /// `false`: it is not `state` already, and nothing was announced.
    pub(crate) fn wait_until_not(&self, state: u8) -> bool {
        // PAIRS: with the swap in `change`: whoever finds the mark finds the waker that was left before it. A refusal
        //   because the slot has changed orders nothing, since the caller looks again. A mark that stands already is older
        //   than the waker: see `parking`, on the second waker.
        let (mark, refusal) = order::mark();
        let announced = self
            .state
            .compare_exchange(state, state | WAITED, mark, refusal);
        // It may have been announced before, by a wait that was given up.
        announced.is_ok() || announced == Err(state | WAITED)
    }
}
