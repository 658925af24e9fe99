//! Where slots live, and the position of an end among them.

use core::marker::PhantomData;
use core::ptr::NonNull;

use super::control::{Control, End, let_go};
use super::slot::Slot;

/// Memory for the slots of a queue: on the heap, or inline in an [`Inline`](super::Inline).
///
/// Sealed: only this crate implements it.
pub trait Storage<T>: sealed::Storage<T> {}

impl<T, S: sealed::Storage<T>> Storage<T> for S {}

pub(crate) mod sealed {
    use super::{Control, Run};

    /// What both ends need of the memory.
    ///
    /// # Safety
    /// What the methods say of the slots and of the control words is true.
    pub unsafe trait Storage<T> {
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

/// Slots in a row.
#[derive(Debug)]
pub struct Run<T> {
    pub(crate) first: NonNull<Slot<T>>,
    /// At least 1.
    pub(crate) count: usize,
    /// From one slot to the next, in bytes: a multiple of the alignment, and at least the size.
    pub(crate) stride: usize,
}

/// One end's place among the slots.
///
/// A place is the distance from the first slot, in bytes, so that finding a slot takes an addition and going on takes a
/// comparison: neither multiplies or divides.
pub(crate) struct Track<T, S: sealed::Storage<T>> {
    first: NonNull<Slot<T>>,
    stride: usize,
    /// The place after the last slot.
    end: usize,
    /// A multiple of `stride`, less than `end`.
    at: usize,
    storage: S,
    owns: PhantomData<T>,
}

// SAFETY: by the hand-over rule a value is touched by one end at a time, and its ownership may pass to the thread of the
//   other end or of the last end: that needs `T: Send`. All else that the ends share is atomic.
unsafe impl<T: Send, S: sealed::Storage<T> + Send> Send for Track<T, S> {}

impl<T, S: sealed::Storage<T>> Track<T, S> {
    /// The place of an end that stood at `at` before, or of a new one, at 0.
    ///
    /// # Safety
    /// It is for the one producer or the one consumer of these slots, and `at` is where the last one of its kind stood.
    pub(crate) unsafe fn new(storage: S, at: usize) -> Self {
        let run = storage.run();
        Self {
            first: run.first,
            stride: run.stride,
            end: run.count * run.stride,
            at,
            storage,
            owns: PhantomData,
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.end / self.stride
    }

    #[inline(always)]
    pub(crate) fn control(&self) -> &Control {
        self.storage.control()
    }

    /// The slot at this place.
    #[inline(always)]
    pub(crate) fn slot(&self) -> &Slot<T> {
        self.slot_at(self.at)
    }

    /// Goes to the next slot.
    #[inline(always)]
    pub(crate) fn advance(&mut self) {
        self.at = self.after(self.at);
    }

    /// Visits slots from here on, and stops at the first that `visit` is not done with.
    ///
    /// The place is kept in a register meanwhile: a hand-over is a release, before which a field would have to be stored.
    #[inline(always)]
    pub(crate) fn visit(&mut self, mut visit: impl FnMut(&Slot<T>) -> bool) {
        let mut walk = Walk {
            at: self.at,
            track: self,
        };
        while visit(walk.track.slot_at(walk.at)) {
            walk.at = walk.track.after(walk.at);
        }
    }

    /// How many slots from here on fulfil `is_mine`, if those that do come first: a binary search.
    pub(crate) fn count_mine(&self, is_mine: impl Fn(&Slot<T>) -> bool) -> usize {
        let (mut mine, mut end) = (0, self.count());
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
        // Closing rings for the other end, which is foreign code: the memory is let go however that ends.
        let _leaving = Leaving(&self.storage, end, PhantomData);
        self.storage.control().close(end, self.at);
    }

    /// The place after `place`.
    #[inline(always)]
    fn after(&self, place: usize) -> usize {
        let next = place + self.stride;
        if next == self.end { 0 } else { next }
    }

    /// The slot `steps` after this place; `steps` is less than the number of slots.
    fn slot_after(&self, steps: usize) -> &Slot<T> {
        let place = self.at + steps * self.stride;
        self.slot_at(if place < self.end {
            place
        } else {
            place - self.end
        })
    }

    #[inline(always)]
    fn slot_at(&self, place: usize) -> &Slot<T> {
        debug_assert!(place < self.end && place.is_multiple_of(self.stride));
        // SAFETY: `place` is that of a slot, so this stays inside their allocation.
        let slot = unsafe { self.first.byte_add(place) };
        // SAFETY: it is one of the slots, which live until the last end has left. Shared references only are made of
        //   slots while ends exist; what changes in them is atomic or in a cell.
        unsafe { slot.as_ref() }
    }
}

/// An end that goes: lets the memory go when dropped.
struct Leaving<'a, T, S: sealed::Storage<T>>(&'a S, End, PhantomData<T>);

impl<T, S: sealed::Storage<T>> Drop for Leaving<'_, T, S> {
    fn drop(&mut self) {
        if let_go(self.0.control().ends(), self.1) {
            // SAFETY: `let_go` is `true` at the last end only, and an end leaves when it is dropped, so it does it once.
            unsafe { self.0.release() };
        }
    }
}

/// An end on its way; it stands where it came to, also when a panic ends the walk.
struct Walk<'a, T, S: sealed::Storage<T>> {
    track: &'a mut Track<T, S>,
    at: usize,
}

impl<T, S: sealed::Storage<T>> Drop for Walk<'_, T, S> {
    #[inline(always)]
    fn drop(&mut self) {
        self.track.at = self.at;
    }
}

/// Drops every value that is left in the slots, oldest first, also when a destructor panics.
///
/// # Safety
/// No end is left, and `oldest` is the place where the consumer stood.
pub(crate) unsafe fn drop_values<T>(slots: Run<T>, oldest: usize) {
    let mut rest = Rest {
        left: slots.count,
        at: oldest,
        slots,
    };
    rest.drop_all();
}

/// What is still to be dropped.
struct Rest<T> {
    slots: Run<T>,
    at: usize,
    left: usize,
}

impl<T> Rest<T> {
    fn drop_all(&mut self) {
        while self.left > 0 {
            // SAFETY: `at` is the place of a slot.
            let slot = unsafe { self.slots.first.byte_add(self.at) };
            self.left -= 1;
            self.at += self.slots.stride;
            if self.at == self.slots.count * self.slots.stride {
                self.at = 0;
            }
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
