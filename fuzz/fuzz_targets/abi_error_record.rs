//! Any bytes taken for a record of the error ring.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lane_fuzz::abi::error_record(bytes));
