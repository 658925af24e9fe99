//! Processes that are killed while they use a device: the driver gets everything back, and whoever comes next computes right.
//!
//! Spec `driver.md` section 1, close; `driver_emulation.md` section 9. The program that is killed is this one, in a role.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use lane_tests::DIGITS;
use lane_tests::role;
use neuron_emu::seccomp::SpawnError;
use neuron_emu::{Config, Emulator, Supervised};
use nrta::{Backend, Model, Runtime};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::sync::Arc;

const ROLE: &str = "LANE_TESTS_KILLED";
/// Four tests have so many each.
const ROUNDS: u64 = 50;
/// Of so many programs one runs to its end.
const HEALTHY: u64 = 25;
/// Executions until a program that is not killed ends.
const EXECUTIONS: usize = 8;

/// Lines that a program has said before it is killed: none, or up to all but the last.
const MOST_LINES: u64 = EXECUTIONS as u64 + 4;
/// Turns of a loop between the line and the kill, at most.
const MOST_TURNS: u64 = 200_000;

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn say(text: &str) {
    let mut output = std::io::stdout();
    // Who is killed cannot be told that nobody listens.
    let _ = writeln!(output, "\n> {text}");
    let _ = output.flush();
}

/// Opens, loads, executes, closes, and says each: the last line has the labels of the first images.
fn play(backend: Backend, say: impl Fn(&str)) -> String {
    say("begins");
    let runtime = Runtime::builder().backend(backend).open().unwrap();
    say("open");
    let core = runtime.core(0).unwrap();
    let model = Model::open(format!("{DIGITS}/model.xum")).unwrap();
    let loaded = core.load(&model, 1).unwrap();
    let image = loaded.allocate_input(0).unwrap();
    let outputs = [0, 1].map(|index| loaded.allocate_output(index).unwrap());
    let moves = core.tensor_op(0).unwrap();
    let held_out = std::fs::read(format!("{DIGITS}/heldout.xud")).unwrap();
    say("loaded");
    let mut labels = Vec::new();
    for pixels in held_out[24..].chunks(64).take(EXECUTIONS) {
        let pixels = pixels.to_vec();
        moves.write(&image, 0, pixels).unwrap().wait().unwrap();
        core.compute()
            .execute(&loaded, &[&image], &[&outputs[0], &outputs[1]])
            .unwrap()
            .wait()
            .unwrap();
        let label = moves.read(&outputs[1], 0, vec![0; 4]).unwrap();
        labels.push(label.wait().unwrap()[0]);
        say("executed");
    }
    runtime.close();
    let labels = format!("labels {labels:?}");
    say(&labels);
    labels
}

/// Not a test: what the program does. Without the role nothing.
#[test]
fn role() {
    if std::env::var_os(ROLE).is_some() {
        play(Backend::RealDriver, say);
    }
}

/// Runs the program, and kills it after so many of its lines and turns; what it said.
fn run_and_kill(
    emulator: &Arc<Emulator>,
    kill: Option<(u64, u64)>,
) -> Result<Vec<String>, SpawnError> {
    let mut program = Supervised::spawn(emulator, role::program(ROLE, "1").stderr(Stdio::piped()))?;
    let output = program.child().stdout.take().unwrap();
    let mut said = Vec::new();
    let mut lines = BufReader::new(output).lines();
    while kill.is_none_or(|(after, _)| (said.len() as u64) < after) {
        match lines.next() {
            Some(line) => said.extend(line.unwrap().strip_prefix("> ").map(str::to_owned)),
            None => break,
        }
    }
    if let Some((_, turns)) = kill {
        for _ in 0..turns {
            std::hint::spin_loop();
        }
        program.kill().unwrap();
    }
    program.wait().unwrap();
    Ok(said)
}

#[test]
fn a_process_that_is_killed_leaves_the_driver_clean_and_the_next_computes_right() {
    rounds(1);
}

#[test]
fn a_process_that_is_killed_leaves_the_driver_clean_with_another_seed() {
    rounds(2);
}

#[test]
fn a_process_that_is_killed_leaves_the_driver_clean_with_a_third_seed() {
    rounds(3);
}

#[test]
fn a_process_that_is_killed_leaves_the_driver_clean_with_a_fourth_seed() {
    rounds(4);
}

/// Every program is killed but the last of each [`HEALTHY`]. One that does not come as far as it should has not found the
/// device as it should be.
fn rounds(seed: u64) {
    let emulator = Emulator::start(Config {
        hbm_bytes: 128 << 20,
        host_bytes: 64 << 20,
        trace_entries: 256,
        ..Config::default()
    })
    .unwrap();
    let expected = play(Backend::Simulated, |_| ());
    let mut state = 0x5EED_0FC0_FFEE ^ seed << 50;
    for round in 0..ROUNDS {
        let lines = random(&mut state) % MOST_LINES;
        let turns = random(&mut state) % MOST_TURNS;
        let is_healthy = round % HEALTHY == HEALTHY - 1;
        let kill = (!is_healthy).then_some((lines, turns));
        let what = format!("seed {seed}, round {round}, after {lines} lines and {turns} turns");
        match run_and_kill(&emulator, kill) {
            Err(SpawnError::Unavailable(why)) => return println!("skipped: {why}"),
            Err(error) => panic!("{error}"),
            Ok(said) if is_healthy => assert_eq!(said.last(), Some(&expected), "{what}"),
            Ok(said) => assert_eq!(said.len() as u64, lines, "{what}: {said:?}"),
        }
        role::check_clean(&emulator, &what);
    }
}
