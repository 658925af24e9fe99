//! The emulator answers as the driver is documented to, through real system calls.
//!
//! Spec `driver.md` sections 1 to 9, `driver_emulation.md` section 9. Where system calls cannot be answered every test
//! says `skipped`, with the reason.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

mod client;
mod copies;
mod crashes;
mod executions;
mod node;
mod notifications;
mod preloaded;
mod processes;
mod rows;
mod rules;

use neuron_emu::{Config, Emulator, run};
use node::Node;
use std::sync::Arc;

/// One device with little memory.
fn small() -> Config {
    Config {
        hbm_bytes: 64 << 20,
        host_bytes: 64 << 20,
        ..Config::default()
    }
}

/// Runs a test under an emulator; `None` where that is not permitted.
fn under<T: Send>(emulator: &Arc<Emulator>, test: impl FnOnce() -> T + Send) -> Option<T> {
    match run(emulator, test) {
        Ok(value) => Some(value),
        Err(why) => {
            println!("skipped: {why}");
            None
        }
    }
}

/// Runs a test with the first node open, and sees that the driver did not crash.
fn with_node<T: Send>(config: Config, test: impl FnOnce(&Node) -> T + Send) -> Option<T> {
    if preloaded::is_here() {
        return Some(test(&Node::open(0)));
    }
    let emulator = Emulator::start(config).unwrap();
    let value = under(&emulator, || test(&Node::open(0)))?;
    assert_eq!(emulator.bugs(), []);
    Some(value)
}
