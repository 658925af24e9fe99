//! `schedule().await` in a closed loop, and a design by hand that does the same work, on a device without latency: the round
//! trip at depth 1, the pipelined throughput at 8 and 63. Thin: `cargo xtask bench facade` has the ratios, and leaves out what
//! a shared machine steals.

mod closed_loops;

use criterion::{Criterion, criterion_group, criterion_main};
use lane_benches::ClosedLoop;

fn facade(c: &mut Criterion) {
    closed_loops::run(
        c,
        "executions in a closed loop",
        &ClosedLoop::of_the_facade(),
    );
}

criterion_group! {
    name = benches;
    config = closed_loops::briefly();
    targets = facade
}
criterion_main!(benches);
