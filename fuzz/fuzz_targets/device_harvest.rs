//! Any bytes taken for what a device says to a harvester.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lane_fuzz::device::harvest(bytes));
