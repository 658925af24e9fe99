//! Any bytes taken for a status.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lane_fuzz::abi::status(bytes));
