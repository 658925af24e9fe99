//! Slots on the heap: one block, freed by the end that goes last.
//!
//! ```text
//!   Producer ──┐    0x00 control, number of slots
//!   Consumer ──┴──▶ 0x80 slot, slot, ...
//! ```
//!
//! No slot shares a pair of lines with the control words: a push or pop moves the line with the value, and no other.

use alloc::alloc::{Layout, alloc_zeroed, dealloc};
use core::fmt;
use core::marker::PhantomData;
use core::ptr::{self, NonNull};

use super::control::{Control, End};
use super::error::CapacityError;
use super::slot::Slot;
use super::storage::{Run, drop_values, sealed};

/// A line of cache, in bytes.
const LINE: usize = 64;

/// Up to so many slots none lies across two lines; more stand close together.
///
/// In a short queue the two ends are always near each other, and a slot across two lines makes each of them wait twice. In a
/// long one that is rare, and what counts is how many lines there are to move.
const FEW: usize = 64;

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
    /// From one slot to the next, in bytes: in a short queue a power of two up to a line, or whole lines.
    const fn stride(capacity: usize) -> usize {
        let size = size_of::<Slot<T>>();
        if capacity > FEW {
            size
        } else if size <= LINE {
            size.next_power_of_two()
        } else {
            size.next_multiple_of(LINE)
        }
    }

    /// Where slots begin, and the layout of the whole block.
    fn layout(capacity: usize) -> Option<(usize, Layout)> {
        let align = align_of::<Slot<T>>();
        let bytes = Self::stride(capacity).checked_mul(capacity)?;
        let slots = Layout::from_size_align(bytes, align.max(align_of::<Header>())).ok()?;
        let (block, offset) = Layout::new::<Header>().extend(slots).ok()?;
        Some((offset, block))
    }

    /// Makes the memory of an empty queue, for the two ends that the caller makes.
    pub(crate) fn pair(capacity: usize) -> Result<(Self, Self), CapacityError> {
        if capacity == 0 {
            return Err(CapacityError::Zero);
        }
        let no_memory = CapacityError::NoMemory {
            capacity,
            slot_size: Self::stride(capacity),
        };
        let (_, layout) = Self::layout(capacity).ok_or(no_memory)?;
        // SAFETY: the layout is not of size zero, the header alone is bigger.
        let block = unsafe { alloc_zeroed(layout) };
        let header = NonNull::new(block).ok_or(no_memory)?.cast::<Header>();
        // SAFETY: the header is the first field of the block.
        unsafe {
            header.write(Header {
                control: Control::claimed(),
                count: capacity,
            });
        }
        let handle = || Self {
            header,
            owns: PhantomData,
        };
        // Zeroes are empty slots, so the system need not even touch the memory. Loom's slots are not made of bytes.
        #[cfg(loom)]
        for_each(&sealed::Storage::run(&handle()), |slot| {
            // SAFETY: there is room for a slot, and nothing in it yet.
            unsafe { slot.write(Slot::empty()) };
        });
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

// SAFETY: the block stays where it is until `release`, and holds what `pair` has put there.
unsafe impl<T> sealed::Storage<T> for Heap<T> {
    fn run(&self) -> Run<T> {
        let count = self.header().count;
        // PANIC: the same layout was computed when the block was made.
        let (offset, _) = Self::layout(count).expect("it has been allocated");
        // SAFETY: inside the block.
        let first = unsafe { self.header.byte_add(offset) }.cast();
        Run {
            first,
            count,
            stride: Self::stride(count),
        }
    }

    fn control(&self) -> &Control {
        &self.header().control
    }

    unsafe fn release(&self) {
        // Declared first, so that the memory is freed last, and also when a destructor panics.
        let _block = Block::<T>(self.header, PhantomData);
        let oldest = self.control().left_at(End::Consumer);
        // SAFETY: the caller is the last end.
        unsafe { drop_values(self.run(), oldest) };
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
        let run = sealed::Storage::run(&heap);
        // A slot has a destructor in models only.
        if core::mem::needs_drop::<Slot<T>>() {
            for_each(&run, |slot| {
                // SAFETY: initialised, and nobody else has it.
                unsafe { ptr::drop_in_place(slot.as_ptr()) };
            });
        }
        // PANIC: the same layout was computed when the block was made.
        let (_, layout) = Heap::<T>::layout(run.count).expect("it has been allocated");
        // SAFETY: as above.
        unsafe { ptr::drop_in_place(self.0.as_ptr()) };
        // SAFETY: allocated by `pair` with this layout; nobody uses it any more.
        unsafe { dealloc(self.0.as_ptr().cast(), layout) };
    }
}

/// Calls `act` with each slot's address.
fn for_each<T>(run: &Run<T>, mut act: impl FnMut(NonNull<Slot<T>>)) {
    for index in 0..run.count {
        // SAFETY: one of the slots.
        act(unsafe { run.first.byte_add(index * run.stride) });
    }
}
