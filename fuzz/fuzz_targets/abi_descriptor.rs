//! Any bytes taken for a DMA descriptor.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lane_fuzz::abi::descriptor(bytes));
