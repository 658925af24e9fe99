//! Processes that fight for the cores of one device, and are killed at any moment.
//!
//! Never do two have a core; who is refused learns of a process that was there; and when all are gone every core is free. Failure kind
//! P4 over the driver's interface. The processes are this program, in a role.
//!
//! Who has a core holds a lock of the file system on its name, from after it was opened until before it is closed. The kernel lets
//! go of such a lock when a process dies, before the driver hears of it: who has got a core, and not its lock, has got it with
//! another.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use lane_tests::life::Means;
use lane_tests::role;
use neuron_emu::seccomp::SpawnError;
use neuron_emu::{Config, Emulator, Supervised};
use nix::fcntl::{Flock, FlockArg};
use nrta::{Backend, Builder, Error, Runtime};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::ChildStdout;
use std::sync::Arc;

const ROLE: &str = "LANE_TESTS_FIGHTS";
const SEED: &str = "LANE_TESTS_FIGHTS_SEED";
/// Says another number of kills.
const MORE: &str = "LANE_TESTS_KILLS";
const KILLS: u64 = 24;
const FIGHTERS: usize = 3;
const CORES: u32 = 2;
/// Lines that a process has said before it is killed, at most.
const MOST_LINES: u64 = 12;
/// Turns of a loop between the line and the kill, at most.
const MOST_TURNS: u64 = 300_000;

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn builder() -> Builder {
    Runtime::builder().backend(Backend::RealDriver)
}

fn say(text: &str) {
    let mut output = std::io::stdout();
    // Who is killed cannot be told that nobody listens.
    let _ = writeln!(output, "\n> {text}");
    let _ = output.flush();
}

/// The lock on the name of a core; none when somebody has it.
fn witness(directory: &Path, core: u32) -> Option<Flock<File>> {
    let file = File::create(directory.join(format!("core-{core}"))).unwrap();
    Flock::lock(file, FlockArg::LockExclusiveNonblock).ok()
}

/// Not a test: what a process does until it is killed. Without the role nothing.
#[test]
fn role() {
    let (Some(directory), Ok(seed)) = (std::env::var_os(ROLE), std::env::var(SEED)) else {
        return;
    };
    let directory = PathBuf::from(directory);
    let mut state: u64 = seed.parse().unwrap();
    let means = Means::read();
    loop {
        let choice = match random(&mut state) % 4 {
            0 => builder().cores(CORES),
            1 => builder().cores(1),
            // CAST: 0 or 1.
            core => builder().cores(1).first_core(core as u32 - 2),
        };
        match choice.open() {
            Ok(runtime) => fight(runtime, &directory, &means, random(&mut state)),
            Err(Error::Busy(busy)) => {
                let holder = busy.holder.as_ref().and_then(|holder| holder.pid);
                let named: Vec<_> = busy.candidates.iter().copied().chain(holder).collect();
                say(&format!("refused {named:?}"));
            }
            Err(error) => say(&format!("wrong: {error}")),
        }
    }
}

fn fight(runtime: Runtime, directory: &Path, means: &Means, random: u64) {
    let settings = runtime.settings();
    let (first, cores) = (settings.first_core.value, settings.cores.value);
    let all: Vec<_> = (first..first + cores)
        .map(|core| witness(directory, core))
        .collect();
    if all.iter().any(Option::is_none) {
        say(&format!("wrong: two have one of the cores {first}+{cores}"));
    }
    say(&format!("has {first}+{cores}"));
    if random.is_multiple_of(2)
        && let Err(failed) = means.compute(&runtime)
    {
        say(&format!("wrong: {failed}"));
    }
    drop(all);
    runtime.close();
}

struct Fighter {
    program: Supervised,
    lines: Lines<BufReader<ChildStdout>>,
    said: Vec<String>,
}

impl Fighter {
    fn start(emulator: &Arc<Emulator>, directory: &Path, seed: u64) -> Result<Self, SpawnError> {
        let mut command = role::program(ROLE, directory);
        command.env(SEED, seed.to_string());
        let mut program = Supervised::spawn(emulator, &mut command)?;
        let output = program.child().stdout.take().unwrap();
        Ok(Self {
            program,
            lines: BufReader::new(output).lines(),
            said: Vec::new(),
        })
    }

    fn listen(&mut self) -> bool {
        let Some(Ok(line)) = self.lines.next() else {
            return false;
        };
        self.said.extend(line.strip_prefix("> ").map(str::to_owned));
        true
    }

    /// Its process id, and all that it has said.
    fn kill(mut self) -> (u32, Vec<String>) {
        self.program.kill().unwrap();
        self.program.wait().unwrap();
        while self.listen() {}
        (self.program.id(), self.said)
    }
}

/// What was said in a fight.
#[derive(Debug, Default)]
struct Fight {
    pids: BTreeSet<u32>,
    had: u64,
    refused: u64,
    /// Refusals by process, and whom they named.
    named: Vec<(u32, Vec<u32>)>,
}

impl Fight {
    fn note(&mut self, pid: u32, said: &[String]) {
        self.pids.insert(pid);
        for line in said {
            assert!(!line.starts_with("wrong"), "process {pid}: {line}");
            self.had += u64::from(line.starts_with("has"));
            if let Some(named) = line.strip_prefix("refused [") {
                let pids = named.trim_end_matches(']').split(", ");
                let pids = pids.filter_map(|pid| pid.parse().ok()).collect();
                self.refused += 1;
                self.named.push((pid, pids));
            }
        }
    }

    fn check(&self) {
        for (refused, named) in &self.named {
            for pid in named {
                assert!(
                    self.pids.contains(pid),
                    "{refused} was told of {pid}, which never was"
                );
                assert_ne!(pid, refused, "it has nothing itself");
            }
        }
        assert!(self.had > 0 && self.refused > 0, "no fight: {self:?}");
        let known = self.named.iter().filter(|(_, named)| !named.is_empty());
        assert!(known.count() > 0, "nobody was told of anybody: {self:?}");
    }
}

struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn p4_no_core_has_two_owners_however_they_are_killed() {
    fight_it_out(1);
}

#[test]
fn p4_no_core_has_two_owners_with_another_seed() {
    fight_it_out(2);
}

fn fight_it_out(seed: u64) {
    println!("seed {seed}");
    let more = std::env::var(MORE)
        .ok()
        .and_then(|kills| kills.parse().ok());
    let name = format!("nrta-fights-{}-{seed}", std::process::id());
    let directory = Removed(std::env::temp_dir().join(name));
    std::fs::create_dir(&directory.0).unwrap();
    let emulator = Emulator::start(Config {
        hbm_bytes: 128 << 20,
        host_bytes: 64 << 20,
        trace_entries: 256,
        ..Config::default()
    })
    .unwrap();
    let mut state = 0x000F_1687_C0FE ^ seed << 40;
    let start = |state: &mut u64| Fighter::start(&emulator, &directory.0, random(state));
    let mut fighters = Vec::new();
    for _ in 0..FIGHTERS {
        match start(&mut state) {
            Ok(fighter) => fighters.push(fighter),
            Err(SpawnError::Unavailable(why)) => return println!("skipped: {why}"),
            Err(error) => panic!("{error}"),
        }
    }
    let mut fight = Fight::default();
    for _ in 0..more.unwrap_or(KILLS) {
        // CAST: a small number.
        let victim = (random(&mut state) % FIGHTERS as u64) as usize;
        for _ in 0..random(&mut state) % MOST_LINES {
            fighters[victim].listen();
        }
        for _ in 0..random(&mut state) % MOST_TURNS {
            std::hint::spin_loop();
        }
        let (pid, said) = fighters.swap_remove(victim).kill();
        fight.note(pid, &said);
        fighters.push(start(&mut state).unwrap());
    }
    for fighter in fighters {
        let (pid, said) = fighter.kill();
        fight.note(pid, &said);
    }
    fight.check();
    println!(
        "{} times somebody had cores, {} refusals",
        fight.had, fight.refused
    );
    assert_eq!(emulator.bugs(), []);
    let remains = emulator.remains();
    assert!(remains.is_empty(), "{remains}");
    let means = Means::read();
    let whole = || means.live(builder().cores(CORES));
    assert_eq!(
        neuron_emu::run(&emulator, whole).unwrap(),
        Ok(means.expected())
    );
}
