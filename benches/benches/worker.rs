//! A request and its answer in a closed loop: the lane, its peers, and the ring alone. Thin: `cargo xtask bench worker` has
//! the ratios, and leaves out what a shared machine steals.

mod closed_loops;

use criterion::{Criterion, criterion_group, criterion_main};
use lane_benches::ClosedLoop;

fn worker(c: &mut Criterion) {
    closed_loops::run(c, "closed loop", &ClosedLoop::of_the_worker());
}

criterion_group! {
    name = benches;
    config = closed_loops::briefly();
    targets = worker
}
criterion_main!(benches);
