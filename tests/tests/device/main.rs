//! What the device does for those right above it, without a runtime: on the simulated machine, and behind the driver's interface.
//!
//! Every test takes a [`Rig`](lane_tests::Rig) and drives its [`Device`](xu_device::Device). What needs a device that fails at a
//! chosen call, or a machine whose clock the test turns, is in the tests of xu-device.
//!
//! | module | subject |
//! |---|---|
//! | `collectives` | ranks that step in any order, wait, race and are lost |
//! | `operations` | what operations of a transfer queue do |
#![allow(clippy::unwrap_used, reason = "functions of tests")]

mod collectives;
mod operations;

use proptest::prelude::ProptestConfig;

/// So many cases of a property. One that fails is shrunk and belongs here as a test of its own, not in a file of seeds.
fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}
