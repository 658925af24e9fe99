//! `ring-report`: measures the ring against its peers. `--help` says how.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    match lane_benches::ring_report(std::env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("ring-report: {fault}");
            ExitCode::FAILURE
        }
    }
}
