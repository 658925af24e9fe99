//! The examples of `nrta`, each run to its end.
#![allow(
    clippy::unwrap_used,
    reason = "an example that fails has failed the test"
)]
#![allow(unreachable_pub, reason = "the examples are programs of their own")]

#[path = "../examples/all_reduce.rs"]
mod all_reduce;
#[path = "../examples/epoll.rs"]
mod epoll;
#[path = "../examples/overlap.rs"]
mod overlap;
#[path = "../examples/recovery.rs"]
mod recovery;

#[test]
fn two_cores_add_their_numbers() {
    all_reduce::main().unwrap();
}

#[test]
fn an_event_loop_without_an_async_runtime_drives_three_queues() {
    epoll::main().unwrap();
}

#[test]
fn batches_overlap() {
    overlap::main().unwrap();
}

#[test]
fn f6_a_degraded_queue_is_left_behind_by_opening_again() {
    recovery::main().unwrap();
}
