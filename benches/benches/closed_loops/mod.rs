//! Closed loops under criterion: what the benches of the worker and of the facade have in common.

use criterion::{BenchmarkId, Criterion, Throughput};
use lane_benches::{ClosedLoop, LoopClock};
use std::time::Duration;

/// Short runs: the reports have the care.
pub(crate) fn briefly() -> Criterion {
    Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1))
        .sample_size(20)
}

/// Every candidate at every depth.
pub(crate) fn run(c: &mut Criterion, title: &str, candidates: &[ClosedLoop]) {
    let clock = match LoopClock::new() {
        Ok(clock) => clock,
        Err(fault) => {
            eprintln!("skipped: {fault}");
            return;
        }
    };
    for depth in ClosedLoop::depths() {
        let mut group = c.benchmark_group(format!("{title}, depth {depth}"));
        group.throughput(Throughput::Elements(1));
        for candidate in candidates {
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
