//! The bodies of the fuzz targets: functions that take any bytes and panic when something does not hold.
//!
//! Called by the programs in `fuzz_targets`. Those of `xu-abi` and of `xu-device` are the functions that the property
//! tests of these crates call, too.

#[path = "../../crates/xu-abi/tests/decoders/checks.rs"]
pub mod abi;
pub mod device;
#[path = "../../crates/xu-device/tests/harvest/hostile.rs"]
mod hostile;
pub mod ring;
#[path = "../../crates/xu-device/tests/scripted/mod.rs"]
mod scripted;
