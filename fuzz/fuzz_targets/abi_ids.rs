//! Any bytes taken for ids and indices.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lane_fuzz::abi::ids(bytes));
