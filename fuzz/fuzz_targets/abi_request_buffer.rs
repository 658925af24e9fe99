//! Any bytes taken for the 56-byte request buffer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lane_fuzz::abi::request_buffer(bytes));
