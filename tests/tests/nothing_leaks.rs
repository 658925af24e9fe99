//! Ten thousand requests leave no descriptor, no thread and no allocation behind.
//!
//! One test in a binary of its own: descriptors, threads and allocations are counted per process.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use lane_tests::DIGITS;
use nrta::{Model, Runtime};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, Ordering};

struct Counting;

static BYTES: AtomicI64 = AtomicI64::new(0);
static BLOCKS: AtomicI64 = AtomicI64::new(0);

// SAFETY: every call is passed on to the system's allocator unchanged; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size() as i64, Ordering::Relaxed);
        BLOCKS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        BLOCKS.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(block, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[derive(Debug, PartialEq, Eq)]
struct Held {
    descriptors: usize,
    threads: usize,
    blocks: i64,
    bytes: i64,
}

fn held() -> Held {
    let entries = |path: &str| std::fs::read_dir(path).map_or(0, Iterator::count);
    Held {
        descriptors: entries("/proc/self/fd"),
        threads: entries("/proc/self/task"),
        blocks: BLOCKS.load(Ordering::Relaxed),
        bytes: BYTES.load(Ordering::Relaxed),
    }
}

/// Opens a runtime, sends `rounds` times a write, an execution and a read through it, and closes it.
fn run(rounds: u32) {
    let runtime = Runtime::builder().cores(2).open().unwrap();
    let model = Model::open(format!("{DIGITS}/model.xum")).unwrap();
    for index in 0..2 {
        let core = runtime.core(index).unwrap();
        let loaded = core.load(&model, 1).unwrap();
        let image = loaded.allocate_input(0).unwrap();
        let (scores, label) = (
            loaded.allocate_output(0).unwrap(),
            loaded.allocate_output(1).unwrap(),
        );
        let moves = core.tensor_op(0).unwrap();
        let (mut pixels, mut labels) = (vec![5; 64], vec![0; 4]);
        for round in 0..rounds {
            pixels = moves.write(&image, 0, pixels).unwrap().wait().unwrap();
            let run = core
                .compute()
                .execute(&loaded, &[&image], &[&scores, &label])
                .unwrap();
            if round % 3 == 0 {
                // Detached: the next execution waits for it.
                drop(run);
            } else {
                run.wait().unwrap();
            }
            labels = moves.read(&label, 0, labels).unwrap().wait().unwrap();
        }
    }
}

#[test]
fn ten_thousand_requests_leave_nothing_behind() {
    // Whatever is set up once, is set up here.
    run(10);
    let before = held();
    run(1_667);
    // A joined thread may still show for a moment in the list of the kernel.
    for _ in 0..10_000 {
        if held() == before {
            break;
        }
        std::thread::yield_now();
    }
    assert_eq!(held(), before);
}
