//! In a steady state no request takes memory from the heap: not the caller's thread, not the runtime's.
//!
//! One test in a binary of its own: the whole process is counted, but for the threads of the simulated machine, which stand
//! for hardware.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use futures::executor::block_on;
use lane_tests::DIGITS;
use nrta::{Model, Runtime};
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

#[test]
fn c2_a_steady_state_allocates_nothing() {
    let runtime = Runtime::builder().open().unwrap();
    let core = runtime.core(0).unwrap();
    let model = Model::open(format!("{DIGITS}/model.xum")).unwrap();
    let digits = core.load(&model, 1).unwrap();
    let image = digits.input::<u8>("image").unwrap();
    let (scores, label) = (
        digits.output::<f32>("scores").unwrap(),
        digits.output::<u32>("label").unwrap(),
    );
    let bound = digits.bind(&[&image], &[&scores, &label]).unwrap();
    let (moves, compute) = (core.tensor_op(0).unwrap(), core.compute());
    let (mut pixels, mut labels) = (vec![5u8; 64], vec![0u32; 1]);
    let mut round = |rounds: u32| {
        for round in 0..rounds {
            let buffer = std::mem::take(&mut pixels);
            pixels = moves.write_all(&image, buffer).unwrap().wait().unwrap();
            let run = compute.execute_bound(&bound).unwrap();
            if round % 2 == 0 {
                run.detach();
            } else {
                run.wait().unwrap();
            }
            // Several in flight, on a thread that polls and on one that sleeps.
            let buffer = std::mem::take(&mut labels);
            moves.memset(&scores, 0, 4, 0).unwrap().detach();
            labels = moves.read_all_into(&label, buffer).unwrap().wait().unwrap();
            // Reserved and prepared; several at once.
            let place = block_on(moves.reserve()).unwrap();
            let clear = moves.prepare().memset(&scores, 0, 4, 0).unwrap();
            place.schedule(clear).unwrap().wait().unwrap();
            let place = compute.reserve_until(None).unwrap();
            let run = compute.prepare(&bound).unwrap();
            block_on(place.schedule(run).unwrap()).unwrap();
            let mut batch = moves.batch();
            for value in 0..3 {
                let set = moves.prepare().memset(&scores, 0, 4, value).unwrap();
                batch.schedule(set).unwrap().detach();
            }
            let last = moves.prepare().memset(&scores, 0, 4, 3).unwrap();
            let last = batch.schedule(last).unwrap();
            batch.publish();
            last.wait().unwrap();
        }
        compute.wait(compute.last_issued(), None).unwrap();
    };
    // Whatever is taken once, is taken here: boxes, cells, room in vectors.
    round(2_000);
    let mut taken = || {
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        round(1_000);
        ALLOCATIONS.load(Ordering::Relaxed) - before
    };
    // A thread that sleeps for the first time allocates, and when it does is chance; what each request allocates is in every
    // round.
    let fewest = (0..3).map(|_| taken()).min();
    assert_eq!(fewest, Some(0), "allocations in 10,000 requests");
}
