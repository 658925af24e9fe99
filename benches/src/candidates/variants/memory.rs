//! What all variants share: slots in a row, and the way of an end through them, as in ours.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;

use super::{Choice, LINE};

/// Room for a value, which one end at a time may touch.
#[repr(transparent)]
pub(super) struct Value<T>(UnsafeCell<MaybeUninit<T>>);

impl<T: Copy> Value<T> {
    /// # Safety
    /// The other end does not touch the value meanwhile.
    #[inline(always)]
    pub(super) unsafe fn write(&self, value: T) {
        // SAFETY: nobody else touches it, says the caller.
        unsafe { self.0.get().cast::<T>().write(value) };
    }

    /// # Safety
    /// The other end does not touch the value meanwhile, and has written it.
    #[inline(always)]
    pub(super) unsafe fn read(&self) -> T {
        // SAFETY: it is written and nobody else touches it, says the caller.
        unsafe { self.0.get().cast::<T>().read() }
    }
}

/// Owns the memory of slots.
struct Block<S> {
    first: NonNull<S>,
    layout: Layout,
}

impl<S> Drop for Block<S> {
    fn drop(&mut self) {
        // SAFETY: allocated in `pair` with this layout; no end is left.
        unsafe { dealloc(self.first.as_ptr().cast(), self.layout) };
    }
}

/// One end's place among the slots.
pub(super) struct Walk<S, C> {
    first: NonNull<S>,
    stride: usize,
    count: usize,
    /// The place after the last slot, in bytes.
    end: usize,
    /// The place in bytes; or the number of steps so far, where places are found by division.
    at: usize,
    /// Shared by both ends, and only kept.
    _block: Arc<Block<S>>,
    choice: PhantomData<C>,
}

// SAFETY: it gives out shared references to slots, and both ends have all of them: that needs `S: Sync`, which holds but
//   for the values in them; who touches a value answers for it, and for that `S: Send` is enough.
unsafe impl<S: Send, C> Send for Walk<S, C> {}

/// The places of both ends of a new queue.
///
/// # Safety
/// Zeroes are a slot, slots have no destructor, and what changes in them is atomic or a [`Value`]. `stride` is at least the
/// size of a slot, and a multiple of its alignment.
pub(super) unsafe fn pair<S, C: Choice>(
    capacity: usize,
    stride: usize,
) -> (Walk<S, C>, Walk<S, C>) {
    let layout = Layout::from_size_align(capacity * stride, 2 * LINE).expect("it is small");
    // SAFETY: no queue here has no slots, so the size is not zero.
    let memory = unsafe { alloc_zeroed(layout) };
    let Some(first) = NonNull::new(memory.cast::<S>()) else {
        handle_alloc_error(layout)
    };
    let block = Arc::new(Block { first, layout });
    let walk = |block| Walk {
        first,
        stride,
        count: capacity,
        end: capacity * stride,
        at: 0,
        _block: block,
        choice: PhantomData,
    };
    (walk(Arc::clone(&block)), walk(block))
}

impl<S, C: Choice> Walk<S, C> {
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The slot at this place.
    #[inline(always)]
    pub(super) fn slot(&self) -> &S {
        let place = if C::DIVIDES {
            self.at % self.count * self.stride
        } else {
            self.at
        };
        // SAFETY: a multiple of the stride before the end, so inside the block.
        let slot = unsafe { self.first.byte_add(place) };
        // SAFETY: a slot from the beginning, by the contract of `pair`, and there as long as the block.
        unsafe { slot.as_ref() }
    }

    /// Goes to the next slot.
    #[inline(always)]
    pub(super) fn advance(&mut self) {
        if C::DIVIDES {
            self.at += 1;
        } else {
            let next = self.at + self.stride;
            self.at = if next == self.end { 0 } else { next };
        }
    }

    /// Asks for the line that is two lines further on, to write to it.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(super) fn prefetch(&self) {
        let further = self.at + 2 * LINE;
        let place = if further < self.end {
            further
        } else {
            further - self.end
        };
        // Wrapping: beyond the end of a queue that is shorter than two lines, where the hint does no harm.
        let address = self.first.as_ptr().wrapping_byte_add(place);
        #[cfg(not(miri))]
        // SAFETY: a hint, for any address whatsoever; it changes nothing that a program can see.
        unsafe {
            core::arch::asm!("prefetchw [{}]", in(reg) address, options(nostack, preserves_flags));
        }
        #[cfg(miri)]
        let _ = address;
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub(super) fn prefetch(&self) {}
}
