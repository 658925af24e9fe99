//! `worker-report`: measures the worker against its peers. `--help` says how.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use lane_benches::CountingHeap;

/// Counts between two marks, for one of the bars; else it is the system's.
#[global_allocator]
static HEAP: CountingHeap = CountingHeap;

fn main() -> ExitCode {
    match lane_benches::worker_report(std::env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("worker-report: {fault}");
            ExitCode::FAILURE
        }
    }
}
