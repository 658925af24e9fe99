//! Where slots live, and the position of an end among them.

use core::marker::PhantomData;
use core::ptr::NonNull;

use super::control::{Control, End};
use super::slot::Slot;

/// Memory for the slots of a queue: on the heap, or inline in an [`Inline`](super::Inline).
///
/// Sealed: only this crate implements it.
pub trait Storage<T>: sealed::Storage<T> {}

impl<T, S: sealed::Storage<T>> Storage<T> for S {}

pub(crate) mod sealed {
    use super::{Control, Run};

    /// What both ends need of the memory.
    pub trait Storage<T> {
        /// Distance between two slots, in bytes.
        const STRIDE: usize;

        /// The slots. They stay where they are, and stay initialised, until [`Storage::release`].
        fn run(&self) -> Run<T>;

        /// The shared words.
        fn control(&self) -> &Control;

        /// Both ends are gone: frees what is to be freed.
        ///
        /// # Safety
        /// The last end calls it, once, as the last thing that it does.
        unsafe fn release(&self);
    }
}

/// Consecutive slots, [`Storage::STRIDE`](sealed::Storage::STRIDE) bytes apart.
#[derive(Debug)]
pub struct Run<T> {
    pub(crate) first: NonNull<Slot<T>>,
    /// At least 1.
    pub(crate) count: usize,
}

/// One end's place among the slots.
pub(crate) struct Track<T, S: sealed::Storage<T>> {
    first: NonNull<Slot<T>>,
    /// At least 1.
    count: usize,
    /// Less than `count`.
    at: usize,
    storage: S,
    owns: PhantomData<T>,
}

// SAFETY: by the hand-over rule a value is touched by one end at a time, and its ownership may pass to the thread of the
//   other end or of the last end: that needs `T: Send`. All else that the ends share is atomic.
unsafe impl<T: Send, S: sealed::Storage<T> + Send> Send for Track<T, S> {}

impl<T, S: sealed::Storage<T>> Track<T, S> {
    /// The place of an end that stood at `at` before, or of a new one, at 0.
    pub(crate) fn new(storage: S, at: usize) -> Self {
        let Run { first, count } = storage.run();
        Self {
            first,
            count,
            at,
            storage,
            owns: PhantomData,
        }
    }

    #[inline(always)]
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    #[inline(always)]
    pub(crate) fn control(&self) -> &Control {
        self.storage.control()
    }

    /// The slot at this place.
    #[inline(always)]
    pub(crate) fn slot(&self) -> &Slot<T> {
        self.nth(self.at)
    }

    /// The slot `steps` after this place; `steps` is less than the number of slots.
    #[inline]
    pub(crate) fn slot_after(&self, steps: usize) -> &Slot<T> {
        self.nth(self.index_after(steps))
    }

    /// Goes to the next slot. A comparison and not a division: it is a fifth of the price.
    #[inline(always)]
    pub(crate) fn advance(&mut self) {
        let next = self.at + 1;
        self.at = if next == self.count { 0 } else { next };
    }

    /// How many slots from here on fulfil `is_mine`, if those that do come first: a binary search.
    pub(crate) fn count_mine(&self, is_mine: impl Fn(&Slot<T>) -> bool) -> usize {
        let (mut mine, mut end) = (0, self.count);
        while mine < end {
            let middle = mine + (end - mine) / 2;
            if is_mine(self.slot_after(middle)) {
                mine = middle + 1;
            } else {
                end = middle;
            }
        }
        mine
    }

    /// The end goes, and frees the memory if it is the last.
    pub(crate) fn leave(&self, end: End) {
        if self.storage.control().leave(end, self.at) {
            // SAFETY: `leave` is `true` at the last end only, and an end leaves when it is dropped, so it does it once.
            unsafe { self.storage.release() };
        }
    }

    /// `steps` is at most the number of slots.
    #[inline(always)]
    fn index_after(&self, steps: usize) -> usize {
        let index = self.at + steps;
        if index >= self.count {
            index - self.count
        } else {
            index
        }
    }

    #[inline(always)]
    fn address(&self, index: usize) -> NonNull<Slot<T>> {
        debug_assert!(index < self.count);
        // SAFETY: `index` is less than the number of slots, so this stays inside their allocation.
        unsafe { self.first.byte_add(index * S::STRIDE) }
    }

    #[inline(always)]
    fn nth(&self, index: usize) -> &Slot<T> {
        // SAFETY: it is one of the slots, which live until the last end has left. Shared references only are made of
        //   slots while ends exist; what changes in them is atomic or in a cell.
        unsafe { self.address(index).as_ref() }
    }
}

/// Drops every value that is left in the slots, oldest first, also when a destructor panics.
///
/// # Safety
/// No end is left, and `stride` is the distance of the slots.
pub(crate) unsafe fn drop_values<T>(slots: Run<T>, stride: usize, oldest: usize) {
    let mut rest = Rest {
        left: slots.count,
        at: oldest,
        slots,
        stride,
    };
    rest.drop_all();
}

/// What is still to be dropped.
struct Rest<T> {
    slots: Run<T>,
    stride: usize,
    at: usize,
    left: usize,
}

impl<T> Rest<T> {
    fn drop_all(&mut self) {
        while self.left > 0 {
            let offset = self.at * self.stride;
            self.left -= 1;
            self.at = (self.at + 1) % self.slots.count;
            // SAFETY: `at` was less than the number of slots.
            let slot = unsafe { self.slots.first.byte_add(offset) };
            // SAFETY: a slot, which nobody else can touch since no end is left.
            let slot = unsafe { slot.as_ref() };
            if slot.is_full_for_consumer() {
                // SAFETY: no end is left, so we may act for the consumer; the slot is full. It is empty before the
                //   destructor runs, so no destructor runs twice.
                drop(unsafe { slot.vacate() });
            }
        }
    }
}

/// Goes on after a destructor has panicked.
impl<T> Drop for Rest<T> {
    fn drop(&mut self) {
        self.drop_all();
    }
}
