//! Any bytes taken for ring header, slot, unit and worker.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lane_fuzz::abi::host(bytes));
