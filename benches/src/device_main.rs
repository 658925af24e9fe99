//! `device-report`: measures stager and harvester against the same work by hand. `--help` says how.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    match lane_benches::device_report(std::env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("device-report: {fault}");
            ExitCode::FAILURE
        }
    }
}
