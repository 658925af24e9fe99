//! What is true once it is told that a program has ended.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

mod program;

use neuron_emu::seccomp::SpawnError;
use neuron_emu::{Config, Emulator, Supervised};

#[test]
fn a_program_that_has_ended_has_nothing_open_however_its_end_was_asked_for() {
    for waits in [true, false] {
        let emulator = Emulator::start(Config::default()).unwrap();
        let mut child = match Supervised::spawn(&emulator, &mut program::command("open-and-exit")) {
            Ok(child) => child,
            Err(SpawnError::Unavailable(why)) => return println!("skipped: {why}"),
            Err(error) => panic!("{error}"),
        };
        let status = loop {
            if waits {
                break child.wait().unwrap();
            }
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            std::thread::yield_now();
        };
        assert!(emulator.remains().is_clean(), "waits: {waits}");
        assert_eq!(status.code(), Some(0));
        // Again, when nobody is there any more.
        assert_eq!(child.wait().unwrap(), status);
        assert_eq!(child.try_wait().unwrap(), Some(status));
    }
}
