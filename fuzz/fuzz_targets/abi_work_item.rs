//! Any bytes taken for a work item in both views.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lane_fuzz::abi::work_item(bytes));
