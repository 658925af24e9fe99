//! Any bytes taken for calls of the plain queue.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lane_fuzz::ring::spsc(bytes));
