//! `facade-report`: measures the facade against a service's own design with tokio. `--help` says how.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use lane_benches::CountingHeap;

/// Counts between two marks, for one of the bars; else it is the system's.
#[global_allocator]
static HEAP: CountingHeap = CountingHeap;

fn main() -> ExitCode {
    match lane_benches::facade_report(std::env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("facade-report: {fault}");
            ExitCode::FAILURE
        }
    }
}
