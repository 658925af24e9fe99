//! What the device does for those right above it, without a runtime, on the simulated machine, and behind the driver's interface.
//!
//! Every test takes a [`Rig`](lane_tests::Rig) and drives its [`Device`](xu_device::Device). What needs a device that fails at a
//! chosen call, or a machine whose clock the test turns, is in the tests of xu-device.
//!
//! | module | subject |
//! |---|---|
//! | `client` | one that writes its own bytes, so that no mistake of stager or harvester can hide one of the device |
//! | `execution` | what executions compute |
//! | `hanging` | executions that do not end by themselves |
//! | `faults` | wrong requests and wrong programs |
//! | `hostile` | random programs, requests and descriptors |
//! | `dma` | transfer queues, descriptor by descriptor |
//! | `notification` | notification rings |
//! | `lane` | stager and harvester together |
//! | `collectives` | ranks that step in any order, wait, race and are lost |
//! | `operations` | what operations of a transfer queue do |
#![allow(clippy::unwrap_used, reason = "functions of tests")]

#[path = "../../../crates/xu-device/tests/machine/client.rs"]
mod client;
mod collectives;
mod dma;
mod execution;
mod faults;
mod hanging;
mod hostile;
mod lane;
mod notification;
mod operations;

use client::{CORE, Client};
use lane_tests::Rig;
use proptest::prelude::ProptestConfig;
use xu_device::Device;

/// A client of the first core of a device of its own.
fn client(rig: &Rig) -> Client<dyn Device> {
    Client::open(&rig.device(), CORE, 4096)
}

/// So many cases of a property. One that fails is shrunk and belongs here as a test of its own, not in a file of seeds.
fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}
