//! In a steady state no request allocates.
//!
//! Row C2 of the plan: every allocation of the process is counted, on whatever thread, so this binary has one test.
#![cfg(all(not(loom), not(miri)))]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

mod scripted;

use scripted::{Core, Gate, PATIENCE, POLICIES, Plan, Scripted, Work, wait};
use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use xu_worker::{Accepted, Unit};

/// Allocations and reallocations since the program began.
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: it does what the system's allocator does, and counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the promises that this function asks for, which are the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const DEPTHS: [usize; 3] = [1, 8, 63];
const REQUESTS: usize = 2_000;

/// A window of completions that is `depth` wide: each is waited for before another is submitted.
fn submit_and_wait(
    unit: &Unit<Scripted>,
    depth: usize,
    window: &mut VecDeque<xu_worker::Completion<scripted::Outcome>>,
) {
    for id in 0..REQUESTS as u64 {
        if window.len() == depth {
            let oldest = window.pop_front().unwrap();
            wait(unit, oldest).unwrap();
        }
        let accepted = unit.submit(Work::short(id)).unwrap();
        window.push_back(accepted.completion);
    }
    for completion in window.drain(..) {
        wait(unit, completion).unwrap();
    }
}

/// All of the window is submitted, and waited for from the newest to the oldest.
fn submit_and_wait_backwards(
    unit: &Unit<Scripted>,
    depth: usize,
    window: &mut VecDeque<xu_worker::Completion<scripted::Outcome>>,
) {
    for _ in 0..REQUESTS.div_ceil(depth) {
        for id in 0..depth as u64 {
            window.push_back(unit.submit(Work::short(id)).unwrap().completion);
        }
        while let Some(newest) = window.pop_back() {
            wait(unit, newest).unwrap();
        }
    }
}

fn post(unit: &Unit<Scripted>, depth: usize) {
    for id in 0..REQUESTS as u64 {
        if unit.depth() == depth as u64 {
            assert!(unit.wait_room(Some(Instant::now() + PATIENCE)), "{unit:?}");
        }
        unit.post(Work::short(id)).unwrap();
    }
    assert_eq!(unit.drain_until(Instant::now() + PATIENCE), Ok(()));
}

fn post_batch(unit: &Unit<Scripted>, depth: usize) {
    for _ in 0..REQUESTS.div_ceil(depth) {
        unit.post_batch((0..depth as u64).map(Work::short)).unwrap();
        assert_eq!(unit.drain_until(Instant::now() + PATIENCE), Ok(()));
    }
}

/// Every place is reserved, then used.
fn reserve_and_submit(
    unit: &Unit<Scripted>,
    depth: usize,
    window: &mut VecDeque<xu_worker::Completion<scripted::Outcome>>,
) {
    for id in 0..REQUESTS as u64 {
        if window.len() == depth {
            let oldest = window.pop_front().unwrap();
            wait(unit, oldest).unwrap();
        }
        let place = unit.reserve_until(Some(Instant::now() + PATIENCE)).unwrap();
        window.push_back(place.submit(Work::short(id)).unwrap().completion);
    }
    for completion in window.drain(..) {
        wait(unit, completion).unwrap();
    }
}

fn submit_batch(
    unit: &Unit<Scripted>,
    depth: usize,
    items: &mut VecDeque<Work>,
    accepted: &mut Vec<Accepted<scripted::Outcome>>,
) {
    for _ in 0..REQUESTS.div_ceil(depth) {
        items.extend((0..depth as u64).map(Work::short));
        unit.submit_batch(items, accepted).unwrap();
        for one in accepted.drain(..) {
            wait(unit, one.completion).unwrap();
        }
    }
}

/// The fewest allocations of a round. A thread that sleeps for the first time allocates, and who does when is chance; what
/// each request allocates is in every round.
fn fewest_allocations(mut round: impl FnMut()) -> usize {
    let mut count = || {
        let before = ALLOCATIONS.load(Ordering::SeqCst);
        round();
        ALLOCATIONS.load(Ordering::SeqCst) - before
    };
    count();
    (0..3).map(|_| count()).min().unwrap()
}

/// Makes this thread and the worker sleep once.
fn settle_down(unit: &Unit<Scripted>) {
    let gate = Gate::default();
    let held = unit.submit(Work::held(0, &gate)).unwrap().completion;
    let held = held.wait_timeout(Duration::from_millis(2)).unwrap_err();
    gate.open();
    wait(unit, held).unwrap();
}

#[test]
fn c2_no_request_allocates_in_a_steady_state() {
    for policy in POLICIES {
        for depth in DEPTHS {
            let core = Core::new(1, &Plan::new(depth as u64, policy));
            let unit = &*core.units[0];
            settle_down(unit);
            let mut window = VecDeque::with_capacity(depth);
            let (mut items, mut accepted) = (VecDeque::new(), Vec::new());
            let counts = [
                fewest_allocations(|| submit_and_wait(unit, depth, &mut window)),
                fewest_allocations(|| submit_and_wait_backwards(unit, depth, &mut window)),
                fewest_allocations(|| post(unit, depth)),
                fewest_allocations(|| post_batch(unit, depth)),
                fewest_allocations(|| reserve_and_submit(unit, depth, &mut window)),
                fewest_allocations(|| submit_batch(unit, depth, &mut items, &mut accepted)),
            ];
            assert_eq!(
                counts, [0; 6],
                "{policy:?} at depth {depth}: submit, backwards, post, batch, reserve, batch with outcomes"
            );
            drop(core.close().unwrap());
        }
    }
}
