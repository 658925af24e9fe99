//! A heap that counts what the calling thread takes from it.
//!
//! Included by the test binaries that show that something allocates nothing; each has this as its allocator. Other threads,
//! the test runner's and the machine's, may do as they like.

#![allow(
    dead_code,
    reason = "every test crate includes this file and uses a part of it"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Allocations and reallocations of this thread. Without a destructor, so that counting never allocates.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: it does what the system's allocator does, and counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the promises that this function asks for, which are the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn count() {
    // A thread that ends may have none left to count with.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

/// How often this thread has taken memory.
pub(crate) fn allocations() -> u64 {
    ALLOCATIONS.get()
}

/// How often this thread takes memory meanwhile.
pub(crate) fn allocations_during(run: impl FnOnce()) -> u64 {
    let before = allocations();
    run();
    allocations() - before
}
