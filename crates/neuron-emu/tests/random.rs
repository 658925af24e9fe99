//! Programs that call the driver at random: every request, with arguments, pointers and descriptors that no program should
//! pass, through real system calls.
//!
//! Spec `driver_emulation.md` section 4: nothing stops the emulator, and nothing is called a crash of the kernel but what
//! `driver.md` section 11 lists. [`ROUNDS_VARIABLE`] and [`SEED_VARIABLE`] make it longer, or another one.
//!
//! ```text
//!   test ── emulator ── program (this binary, in a role) ── client: calls, forks, and perhaps an exec
//!              |            two of them share the devices; every fourth is killed
//!              +── afterwards: no thread has panicked, nothing of a process is left, a healthy program is served
//! ```

#![allow(clippy::unwrap_used, reason = "a test ends there, and says where")]

#[path = "random/client.rs"]
mod client;

use client::Client;
use neuron_emu::config::Waits;
use neuron_emu::preload::{self, BUGS};
use neuron_emu::seccomp::SpawnError;
use neuron_emu::{Config, Emulator, Settings, Supervised, run};
use nix::fcntl::OFlag;
use nix::libc;
use nix::sys::stat::Mode;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use xu_abi::driver::Arch;

const ROLE: &str = "NEURON_EMU_RANDOM_ROLE";
/// Set for a program that is to have no children: those of one that is killed outlive it.
const CHILDLESS: &str = "NEURON_EMU_RANDOM_CHILDLESS";
/// Rounds of each test.
const ROUNDS_VARIABLE: &str = "NEURON_EMU_RANDOM_ROUNDS";
/// The first seed.
const SEED_VARIABLE: &str = "NEURON_EMU_RANDOM_SEED";
const ROUNDS: u64 = 6;

/// Devices: one that crashes is left for the next.
const DEVICES: u32 = 6;
/// Traps that a call can step into. The others are none, or are none of the kernel's.
const TRAPS: [u8; 12] = [11, 12, 14, 16, 17, 18, 19, 20, 21, 22, 24, 25];

/// Not a test: what the program does. Without the role nothing.
#[test]
fn role() {
    if let Ok(seed) = std::env::var(ROLE) {
        let forks = std::env::var_os(CHILDLESS).is_none();
        Client::new(seed.parse().unwrap(), DEVICES, forks).play();
    }
}

/// Threads of the emulator that have panicked in this process.
static PANICS: AtomicUsize = AtomicUsize::new(0);

fn count_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // Relaxed: a count.
        PANICS.fetch_add(1, Ordering::Relaxed);
        usual(panic);
    }));
}

fn number(variable: &str, otherwise: u64) -> u64 {
    let value = std::env::var(variable);
    value.map_or(otherwise, |value| value.parse().unwrap())
}

fn seeds() -> std::ops::Range<u64> {
    let first = number(SEED_VARIABLE, 1);
    first..first + number(ROUNDS_VARIABLE, ROUNDS)
}

fn config(seed: u64) -> Config {
    let short = Duration::from_millis(1);
    Config {
        arch: Arch::ALL[seed as usize % Arch::ALL.len()],
        devices: DEVICES,
        hbm_bytes: 64 << 20,
        host_bytes: 64 << 20,
        waits: Waits {
            reset: short,
            core_init: short,
            elsewhere: short,
            reader: short,
            writer: short,
        },
        trace_entries: 64,
        ..Config::default()
    }
}

fn program(seed: u64) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["role", "--exact", "--nocapture"])
        .env(ROLE, seed.to_string())
        .stdout(Stdio::null());
    command
}

/// It went to its end, or was killed by us.
fn check_end(status: ExitStatus, is_killed: bool, seed: u64) {
    let is_ours = is_killed && status.signal() == Some(libc::SIGKILL);
    assert!(status.success() || is_ours, "seed {seed}: {status}");
}

#[test]
fn nothing_that_programs_do_at_random_stops_the_emulator() {
    count_panics();
    for seed in seeds() {
        let emulator = Emulator::start(config(seed)).unwrap();
        let mut programs = Vec::new();
        let is_killed = seed % 2 == 0;
        for part in 0..2 {
            let mut program = program(seed * 2 + part);
            if is_killed && part == 1 {
                program.env(CHILDLESS, "1");
            }
            match Supervised::spawn(&emulator, &mut program) {
                Ok(program) => programs.push(program),
                Err(SpawnError::Unavailable(why)) => return println!("skipped: {why}"),
                Err(error) => panic!("{error}"),
            }
        }
        let mut last = programs.pop().unwrap();
        check_end(programs[0].wait().unwrap(), false, seed);
        if is_killed {
            last.kill().unwrap();
        }
        check_end(last.wait().unwrap(), is_killed, seed);
        check(&emulator, seed);
    }
}

fn check(emulator: &std::sync::Arc<Emulator>, seed: u64) {
    assert_eq!(PANICS.load(Ordering::Relaxed), 0, "seed {seed}");
    for bug in emulator.bugs() {
        assert!(TRAPS.contains(&bug.trap), "seed {seed}: {bug}");
    }
    for (node, mut remains) in emulator.remains().nodes.into_iter().enumerate() {
        let gone = remains.gone.take();
        // Only the last close of an attached process gives these back: one that is not attached leaves them for ever.
        remains.locked.clear();
        remains.resets.clear();
        assert!(remains.is_clean(), "seed {seed}, neuron{node}: {remains}");
        let path = format!("/dev/neuron{node}");
        let open = || nix::fcntl::open(path.as_str(), OFlag::O_RDWR, Mode::empty()).is_ok();
        assert_eq!(run(emulator, open).unwrap(), gone.is_none(), "seed {seed}");
    }
}

#[test]
fn nothing_that_a_program_does_at_random_stops_the_preloaded_library() {
    if let Err(why) = preload::library() {
        return println!("skipped: {why}");
    }
    let bugs = std::env::temp_dir().join(format!("neuron-emu-random-{}", std::process::id()));
    for seed in seeds() {
        let mut settings = Settings::default();
        let devices = DEVICES.to_string();
        for (key, value) in [
            ("devices", devices.as_str()),
            ("hbm-bytes", "64MiB"),
            ("host-bytes", "64MiB"),
        ] {
            settings.set(key, value).unwrap();
        }
        let mut command = program(seed);
        preload::prepare(&settings, &mut command).unwrap();
        let status = command.env(BUGS, &bugs).status().unwrap();
        check_end(status, false, seed);
        let text = std::fs::read_to_string(&bugs).unwrap_or_default();
        for line in text.lines() {
            let is_known = |trap: &u8| line.contains(&format!("trap {trap}:"));
            assert!(TRAPS.iter().any(is_known), "seed {seed}: {line}");
        }
        let _there_were_none = std::fs::remove_file(&bugs);
    }
}
