//! Any bytes taken for the 52-byte request.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lane_fuzz::abi::request(bytes));
