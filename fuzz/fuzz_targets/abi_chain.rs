//! Any bytes taken for a chain of descriptor pairs.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lane_fuzz::abi::chain(bytes));
