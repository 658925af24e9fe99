//! The system's heap, with a count of what is taken from it between two marks.
//!
//! `worker-report` and `facade-report` install it; the library works without, and then counts nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static COUNTING: AtomicBool = AtomicBool::new(false);
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// For `#[global_allocator]`.
#[derive(Debug)]
pub struct CountingHeap;

// SAFETY: every call is passed on to the system's heap as it came, and what that answers is returned.
unsafe impl GlobalAlloc for CountingHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[inline]
fn count() {
    if COUNTING.load(Ordering::Relaxed) {
        TAKEN.fetch_add(1, Ordering::Relaxed);
    }
}

/// How often any thread took memory meanwhile.
pub(crate) fn taken_during(run: impl FnOnce()) -> u64 {
    let before = TAKEN.load(Ordering::Relaxed);
    COUNTING.store(true, Ordering::Relaxed);
    run();
    COUNTING.store(false, Ordering::Relaxed);
    TAKEN.load(Ordering::Relaxed) - before
}

/// Whether this heap is the one of the program.
pub(crate) fn is_installed() -> bool {
    taken_during(|| drop(std::hint::black_box(Box::new(1)))) > 0
}
