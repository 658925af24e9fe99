//! A test program that starts itself again, to play a role in a process of its own.
//!
//! For tests of what ends, forks or limits a process. Each has a test `role` that does nothing unless a variable says which role
//! it plays; what it wants to say to who has started it stands on lines that begin with `> `.

use neuron_emu::seccomp::SpawnError;
use neuron_emu::{Config, Emulator, Supervised};
use std::ffi::OsStr;
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// This program, so that it plays a role: the value of `variable`.
///
/// # Panics
/// When this program is not to be found: the test has failed.
#[must_use]
pub fn program(variable: &str, role: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args(["role", "--exact", "--nocapture"])
        .env(variable, role)
        .stdout(Stdio::piped());
    command
}

/// A small device, for roles that look at it from outside.
///
/// # Panics
/// When it cannot be: the test has failed.
#[must_use]
pub fn small_device() -> Arc<Emulator> {
    let config = Config {
        hbm_bytes: 128 << 20,
        host_bytes: 64 << 20,
        ..Config::default()
    };
    Emulator::start(config).expect("a small device")
}

/// Has a role played to its end over the driver's interface: what the program says. `None`, and a line that says so, where system
/// calls cannot be answered.
///
/// # Panics
/// When the program fails, the driver would have crashed, or something is left in it.
#[must_use]
pub fn play(variable: &str, role: &str) -> Option<String> {
    let emulator = small_device();
    let mut program = match Supervised::spawn(&emulator, &mut program(variable, role)) {
        Ok(program) => program,
        Err(SpawnError::Unavailable(why)) => {
            println!("skipped: {why}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let mut text = String::new();
    let output = program.child().stdout.take();
    let mut output = output.expect("its output is piped");
    output.read_to_string(&mut text).expect("text");
    let status = program.wait().expect("an end");
    assert!(status.success(), "{role}: {text}");
    check_clean(&emulator, role);
    let said = text.lines().find_map(|line| line.strip_prefix("> "));
    Some(said.unwrap_or_default().to_owned())
}

/// What the driver cleans is clean: files, attachments, chunks, datastores, locks, marks.
///
/// # Panics
/// When it is not, and when the driver would have crashed.
pub fn check_clean(emulator: &Emulator, what: &str) {
    assert_eq!(emulator.bugs(), [], "{what}");
    let remains = emulator.remains();
    assert!(remains.is_empty(), "{what}: {remains}");
}
