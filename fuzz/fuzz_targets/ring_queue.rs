//! Any bytes taken for calls of the ring of an execution unit.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lane_fuzz::ring::queue(bytes));
