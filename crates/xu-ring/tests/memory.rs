//! When memory is short, making a ring is an error, never an abort, and nothing leaks.
#![cfg(not(loom))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use xu_abi::XuId;
use xu_ring::queue::{Header, RingError};

thread_local! {
    /// How many allocations of this thread still succeed; `None`: all of them.
    static ALLOWED: Cell<Option<u32>> = const { Cell::new(None) };
    /// Bytes that this thread has allocated and not freed.
    static HELD: Cell<isize> = const { Cell::new(0) };
}

/// The system's allocator, which fails when it is told to.
struct Failing;

fn may_allocate() -> bool {
    ALLOWED.with(|allowed| match allowed.get() {
        None => true,
        Some(0) => false,
        Some(left) => {
            allowed.set(Some(left - 1));
            true
        }
    })
}

fn hold(bytes: isize) {
    HELD.with(|held| held.set(held.get() + bytes));
}

// SAFETY: every block comes from `System` and goes back to it with the caller's own layout; a null is a failure.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !may_allocate() {
            return std::ptr::null_mut();
        }
        hold(layout.size().cast_signed());
        // SAFETY: passed on as received.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !may_allocate() {
            return std::ptr::null_mut();
        }
        hold(layout.size().cast_signed());
        // SAFETY: passed on as received.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        hold(-layout.size().cast_signed());
        // SAFETY: passed on as received.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Failing = Failing;

#[test]
fn r3_each_failing_allocation_is_an_error() {
    let xu = XuId::from_raw(0x0301);
    let before = HELD.with(Cell::get);
    let mut allowed = 0;
    let ends = loop {
        ALLOWED.with(|left| left.set(Some(allowed)));
        let made = xu_ring::queue::ring::<u64>(xu, 8);
        ALLOWED.with(|left| left.set(None));
        match made {
            Ok(ends) => break ends,
            Err(error) => assert_eq!(error, RingError::NoMemory { xu, capacity: 8 }),
        }
        assert_eq!(
            HELD.with(Cell::get),
            before,
            "leaked after {allowed} allocations"
        );
        allowed += 1;
    };
    assert_eq!(allowed, 2, "slots, and the block of header and count");
    // 8 slots of 32 bytes, which begin at a pair of cache lines; the header in two such pairs, the count in a third.
    assert_eq!(HELD.with(Cell::get) - before, (8 * 32 + 128 - 8) + 3 * 128);
    drop(ends);
    assert_eq!(HELD.with(Cell::get), before);
}

#[test]
fn r3_each_failing_allocation_leaves_the_home_as_it_was() {
    let xu = XuId::from_raw(0x0301);
    let home = Arc::new(Header::new());
    let before = HELD.with(Cell::get);
    for allowed in 0..2 {
        let owner = home.clone();
        ALLOWED.with(|left| left.set(Some(allowed)));
        let made = xu_ring::queue::ring_in::<u64, _>(xu, 8, owner, |home| home);
        ALLOWED.with(|left| left.set(None));
        assert_eq!(made.err(), Some(RingError::NoMemory { xu, capacity: 8 }));
        assert_eq!(HELD.with(Cell::get), before);
        assert!(!home.is_in_use());
        assert_eq!(Arc::strong_count(&home), 1);
    }
    let owner = home.clone();
    drop(xu_ring::queue::ring_in::<u64, _>(xu, 8, owner, |home| home));
    assert_eq!(HELD.with(Cell::get), before);
}
