//! The example of `xu-device`, run to its end.
#![allow(
    clippy::unwrap_used,
    reason = "an example that fails has failed the test"
)]
#![allow(unreachable_pub, reason = "the example is a program of its own")]

#[path = "../examples/execution.rs"]
mod execution;

#[test]
fn three_executions_of_which_one_hangs() {
    execution::main().unwrap();
}
