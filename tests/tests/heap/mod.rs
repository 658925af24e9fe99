//! A heap that counts how often the process takes memory, but for the threads of the simulated machine, which stand for
//! hardware. Included by test binaries with a single test each.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Whether this thread counts; unknown until it is asked. Without a destructor, so that asking never allocates.
    static COUNTS: Cell<Option<bool>> = const { Cell::new(None) };
}

fn count() {
    let counts = COUNTS.try_with(|counts| {
        counts.get().unwrap_or_else(|| {
            // The name is asked for once, and asking may allocate.
            counts.set(Some(true));
            let machine = std::thread::current()
                .name()
                .is_some_and(|name| name.starts_with("xu-sim"));
            counts.set(Some(!machine));
            !machine
        })
    });
    if counts.unwrap_or(true) {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: every call is passed on to the system's allocator unchanged; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(block, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often memory is taken meanwhile: the fewest of three times. A thread that sleeps for the first time allocates, and when
/// it does is chance; what each request allocates is in every one of them.
pub(crate) fn fewest_allocations(mut run: impl FnMut()) -> u64 {
    let mut taken = || {
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        run();
        ALLOCATIONS.load(Ordering::Relaxed) - before
    };
    (0..3).map(|_| taken()).min().unwrap_or_default()
}
