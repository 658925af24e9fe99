//! Any bytes taken for a record of a status ring.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lane_fuzz::abi::status_record(bytes));
