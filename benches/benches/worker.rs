//! A request and its answer in a closed loop: the lane, its peers, and the ring alone. Thin: `cargo xtask bench worker` has
//! the ratios, and leaves out what a shared machine steals.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use lane_benches::{ClosedLoop, LoopClock};
use std::time::Duration;

fn closed_loops(c: &mut Criterion) {
    let clock = match LoopClock::new() {
        Ok(clock) => clock,
        Err(fault) => {
            eprintln!("skipped: {fault}");
            return;
        }
    };
    for depth in ClosedLoop::depths() {
        let mut group = c.benchmark_group(format!("closed loop, depth {depth}"));
        group.throughput(Throughput::Elements(1));
        for candidate in ClosedLoop::all() {
            if candidate.time(&clock, depth, 1).is_none() {
                eprintln!("skipped: {:?} cannot run here", candidate.name);
                continue;
            }
            let [name, way] = candidate.name;
            group.bench_function(BenchmarkId::new(name, way), |b| {
                b.iter_custom(|requests| {
                    let time = candidate.time(&clock, depth, requests);
                    time.unwrap_or(Duration::MAX)
                });
            });
        }
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1))
        .sample_size(20);
    targets = closed_loops
}
criterion_main!(benches);
