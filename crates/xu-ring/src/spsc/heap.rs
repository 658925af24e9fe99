//! Slots on the heap: one block, freed by the end that goes last.
//!
//! ```text
//!   Producer ──┐    0x00 control, number of slots
//!   Consumer ──┴──▶ 0x80 slot, slot, ...  a power of two of bytes apart, or a multiple of 64
//! ```
//!
//! No slot lies across the border of a cache line, and no small slot shares a line with the control words: a push or pop
//! moves one line between the cores, the one with the value.

use alloc::alloc::{Layout, alloc, dealloc};
use core::fmt;
use core::marker::PhantomData;
use core::ptr::{self, NonNull};

use super::control::{Control, End};
use super::error::CapacityError;
use super::slot::Slot;
use super::storage::{Run, drop_values, sealed};

/// A line of cache, in bytes.
const LINE: usize = 64;

/// Two lines: hardware fetches them in pairs.
#[repr(C, align(128))]
struct Header {
    control: Control,
    count: usize,
}

/// The memory of a queue whose capacity is chosen at run time.
pub struct Heap<T> {
    header: NonNull<Header>,
    owns: PhantomData<T>,
}

// SAFETY: a handle, used through `Track`, which answers for the values. The header is atomic or never changes.
unsafe impl<T: Send> Send for Heap<T> {}

impl<T> Heap<T> {
    /// Distance of two slots: at most one line each, or whole lines.
    const STRIDE: usize = {
        let size = size_of::<Slot<T>>();
        if size <= LINE {
            size.next_power_of_two()
        } else {
            size.next_multiple_of(LINE)
        }
    };

    /// Where slots begin, and the layout of the whole block.
    fn layout(capacity: usize) -> Option<(usize, Layout)> {
        let align = align_of::<Slot<T>>();
        let bytes = Self::STRIDE.checked_mul(capacity)?;
        let slots = Layout::from_size_align(bytes, align.max(align_of::<Header>())).ok()?;
        let (block, offset) = Layout::new::<Header>().extend(slots).ok()?;
        Some((offset, block))
    }

    /// Makes the memory of an empty queue, for the two ends that the caller makes.
    pub(crate) fn pair(capacity: usize) -> Result<(Self, Self), CapacityError> {
        let no_memory = CapacityError::NoMemory {
            capacity,
            slot_size: Self::STRIDE,
        };
        if capacity == 0 {
            return Err(CapacityError::Zero);
        }
        let (offset, layout) = Self::layout(capacity).ok_or(no_memory)?;
        // SAFETY: the layout is not of size zero, the header alone is bigger.
        let block = unsafe { alloc(layout) };
        let header = NonNull::new(block).ok_or(no_memory)?.cast::<Header>();
        // SAFETY: the header is the first field of the block.
        unsafe {
            header.write(Header {
                control: Control::claimed(),
                count: capacity,
            });
        }
        for index in 0..capacity {
            // SAFETY: the layout has room for `capacity` slots from `offset` on.
            let slot = unsafe { header.byte_add(offset + index * Self::STRIDE) };
            // SAFETY: as above, and the distance is a multiple of the alignment, as is the offset.
            unsafe { slot.cast::<Slot<T>>().write(Slot::empty()) };
        }
        let handle = || Self {
            header,
            owns: PhantomData,
        };
        Ok((handle(), handle()))
    }

    fn header(&self) -> &Header {
        // SAFETY: initialised by `pair`, freed only by `release`, and never borrowed mutably before that.
        unsafe { self.header.as_ref() }
    }
}

impl<T> fmt::Debug for Heap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heap")
            .field("capacity", &self.header().count)
            .finish_non_exhaustive()
    }
}

impl<T> sealed::Storage<T> for Heap<T> {
    const STRIDE: usize = Self::STRIDE;

    fn run(&self) -> Run<T> {
        let count = self.header().count;
        // PANIC: the same layout was computed when the block was made.
        let (offset, _) = Self::layout(count).expect("it has been allocated");
        // SAFETY: inside the block.
        let first = unsafe { self.header.byte_add(offset) }.cast();
        Run { first, count }
    }

    fn control(&self) -> &Control {
        &self.header().control
    }

    unsafe fn release(&self) {
        // Declared first, so that the memory is freed last, and also when a destructor panics.
        let _block = Block::<T>(self.header, PhantomData);
        let oldest = self.control().left_at(End::Consumer);
        // SAFETY: the caller is the last end.
        unsafe { drop_values(self.run(), Self::STRIDE, oldest) };
    }
}

/// The block of a queue that has no ends and no values any more.
struct Block<T>(NonNull<Header>, PhantomData<T>);

impl<T> Drop for Block<T> {
    fn drop(&mut self) {
        let heap = Heap::<T> {
            header: self.0,
            owns: PhantomData,
        };
        let Run { first, count } = sealed::Storage::run(&heap);
        for index in 0..count {
            // SAFETY: one of the slots.
            let slot = unsafe { first.byte_add(index * Heap::<T>::STRIDE) };
            // SAFETY: initialised, and nobody else has it. It has a destructor in models only.
            unsafe { ptr::drop_in_place(slot.as_ptr()) };
        }
        // PANIC: the same layout was computed when the block was made.
        let (_, layout) = Heap::<T>::layout(count).expect("it has been allocated");
        // SAFETY: as above.
        unsafe { ptr::drop_in_place(self.0.as_ptr()) };
        // SAFETY: allocated by `pair` with this layout; nobody uses it any more.
        unsafe { dealloc(self.0.as_ptr().cast(), layout) };
    }
}
