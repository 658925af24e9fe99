//! Counting a finished execution takes nothing from the heap.
//!
//! The heap of this binary counts on each thread by itself.
#![allow(clippy::unwrap_used, reason = "functions of tests")]

mod counting;

use counting::allocations_during;
use std::time::Duration;
use xu_abi::metric::ErrorFlag;
use xu_abi::{Status, TpbIndex};
use xu_device::metrics::{Finished, Metrics};

#[test]
fn the_heap_of_this_binary_counts() {
    assert_eq!(
        allocations_during(|| drop(std::hint::black_box(Box::new(1)))),
        1
    );
    assert_eq!(allocations_during(|| ()), 0);
}

#[test]
fn no_record_of_a_finished_execution_allocates() {
    let metrics = Metrics::new(17);
    let finished = Finished {
        status: Status::EXEC_OOB,
        flags: ErrorFlag::all().collect(),
        device: Some(Duration::from_micros(1)),
        total: Some(Duration::from_micros(2)),
        core: Some(Duration::from_micros(3)),
        cc: Some(Duration::from_micros(4)),
    };
    for tpb in [0, 3, 15, 16].map(TpbIndex::new) {
        let record = || metrics.record(tpb, &finished).unwrap();
        assert_eq!(allocations_during(record), 0, "core {tpb}");
    }
}
