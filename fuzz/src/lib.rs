//! The bodies of the fuzz targets: functions that take any bytes and panic when something does not hold.
//!
//! Called by the programs in `fuzz_targets`. Those of `xu-abi` are the functions that its property tests call, too.

#[path = "../../crates/xu-abi/tests/decoders/checks.rs"]
pub mod abi;
pub mod ring;
