//! Any bytes taken for a notification ring and its tail register.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lane_fuzz::device::nq(bytes));
