//! Limits of descriptors that leave no room for those of devices. The program that has them is this one, in a role.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use neuron_emu::seccomp::{SpawnError, available};
use neuron_emu::{Config, Emulator, Supervised, run};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::libc;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::stat::Mode;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

const ROLE: &str = "NEURON_EMU_LIMITS_ROLE";

/// A header and two sets of 32 capabilities: effective, permitted, inheritable.
#[repr(C)]
struct Capabilities {
    version: u32,
    pid: i32,
    sets: [[u32; 3]; 2],
}

/// This process may no longer raise limits, if it could.
fn give_up_raising_limits() {
    const VERSION_3: u32 = 0x2008_0522;
    const SYS_RESOURCE: u32 = 24;
    let mut all = Capabilities {
        version: VERSION_3,
        pid: 0,
        sets: [[0; 3]; 2],
    };
    let (header, sets) = (&raw mut all.version, &raw mut all.sets);
    // SAFETY: the kernel reads the header and writes two sets of three words.
    let got = unsafe { libc::syscall(libc::SYS_capget, header, sets) };
    assert_eq!(got, 0);
    for kind in &mut all.sets[0] {
        *kind &= !(1 << SYS_RESOURCE);
    }
    let (header, sets) = (&raw mut all.version, &raw const all.sets);
    // SAFETY: the kernel reads both.
    let set = unsafe { libc::syscall(libc::SYS_capset, header, sets) };
    assert_eq!(set, 0);
}

/// Not a test: what the program does. Without the role nothing.
#[test]
fn role() {
    match std::env::var(ROLE).ok().as_deref() {
        Some("low-hard-limit") => {
            give_up_raising_limits();
            setrlimit(Resource::RLIMIT_NOFILE, 256, 512).unwrap();
            let emulator = Emulator::start(Config::default()).unwrap();
            println!("\n> {}", available().unwrap_err());
            println!("> {}", run(&emulator, || ()).unwrap_err());
            let mut command = Command::new("true");
            match Supervised::spawn(&emulator, &mut command).unwrap_err() {
                SpawnError::Unavailable(why) => println!("> {why}"),
                other => println!("> other: {other}"),
            }
            assert_eq!(getrlimit(Resource::RLIMIT_NOFILE), Ok((256, 512)));
        }
        Some("no-number-left") => {
            let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
            setrlimit(Resource::RLIMIT_NOFILE, 64, hard).unwrap();
            let refused = open_node().unwrap_err();
            setrlimit(Resource::RLIMIT_NOFILE, 962, hard).unwrap();
            let nodes = [open_node(), open_node(), open_node()];
            let numbers = nodes.map(|node| node.map(drop));
            println!("\n> {refused:?} {numbers:?}");
        }
        _ => {}
    }
}

fn open_node() -> Result<OwnedFd, Errno> {
    open("/dev/neuron0", OFlag::O_WRONLY, Mode::empty())
}

fn program(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["role", "--exact", "--nocapture"])
        .env(ROLE, role)
        .stdout(Stdio::piped());
    command
}

fn said(output: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(output);
    let lines = text.lines().filter_map(|line| line.strip_prefix("> "));
    lines.map(str::to_owned).collect()
}

#[test]
fn a_hard_limit_that_is_too_low_is_named_with_its_value() {
    if let Err(why) = available() {
        println!("skipped: {why}");
        return;
    }
    let output = program("low-hard-limit").output().unwrap();
    assert!(output.status.success());
    // All three ways to ask say the same, and with the values.
    let said = said(&output.stdout);
    assert_eq!(said.len(), 3);
    for line in &said {
        assert!(line.contains("1024") && line.contains("512"), "{line}");
        assert_eq!(*line, said[0]);
    }
}

/// As the kernel has it, and not what the call says that puts the descriptor in place.
#[test]
fn an_open_without_a_number_left_fails_with_emfile_and_leaves_nothing_open() {
    let emulator = Emulator::start(Config::default()).unwrap();
    let mut child = match Supervised::spawn(&emulator, &mut program("no-number-left")) {
        Ok(child) => child,
        Err(SpawnError::Unavailable(why)) => return println!("skipped: {why}"),
        Err(error) => panic!("{error}"),
    };
    let mut output = child.child().stdout.take().unwrap();
    let mut text = Vec::new();
    std::io::Read::read_to_end(&mut output, &mut text).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(said(&text), ["EMFILE [Ok(()), Ok(()), Err(EMFILE)]"]);
    assert!(emulator.remains().is_clean());
}
