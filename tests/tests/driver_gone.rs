//! The driver goes away while a program uses it, with the devices: every call fails from then on, and nothing comes any more.
//!
//! Emulated by killing the process that emulates them. The program is refused with a status, closes, and ends. The processes are
//! this program, in roles.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use lane_tests::life::Means;
use lane_tests::role;
use neuron_emu::{Config, Emulator, Supervised};
use nrta::{Backend, Builder, Runtime, Status};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::Duration;

const ROLE: &str = "LANE_TESTS_DRIVER_GONE";
/// Until an execution that nobody answers is given up. One that is answered takes less, however busy the machine is.
const LIMIT: Duration = Duration::from_secs(4);

fn say(text: &str) {
    let mut output = std::io::stdout();
    writeln!(output, "\n> {text}").unwrap();
    output.flush().unwrap();
}

fn builder() -> Builder {
    Runtime::builder()
        .backend(Backend::RealDriver)
        .exec_timeout(Some(LIMIT))
}

/// Not a test: what the processes do. Without a role nothing.
#[test]
fn role() {
    match std::env::var(ROLE).ok().as_deref() {
        Some("driver") => {
            let config = Config {
                hbm_bytes: 128 << 20,
                host_bytes: 64 << 20,
                ..Config::default()
            };
            let emulator = Emulator::start(config).unwrap();
            match Supervised::spawn(
                &emulator,
                role::program(ROLE, "program").stdout(Stdio::inherit()),
            ) {
                // It is killed here.
                Ok(mut program) => drop(program.wait()),
                Err(why) => say(&format!("skipped: {why}")),
            }
        }
        Some("program") => {
            let means = Means::read();
            let runtime = builder().open().unwrap();
            means.compute(&runtime).unwrap();
            say("computes");
            let failed = loop {
                if let Err(failed) = means.compute(&runtime) {
                    break failed;
                }
            };
            assert_ne!(failed.status, Status::SUCCESS);
            say(&format!("failed: {failed}"));
            let again = means.compute(&runtime).unwrap_err();
            say(&format!("again: {again}"));
            runtime.close();
            let next = builder().open().unwrap_err();
            assert_ne!(next.status(), Status::SUCCESS);
            say(&format!("next: {next}"));
            say("ends");
        }
        _ => {}
    }
}

#[test]
fn a_program_whose_driver_goes_away_is_refused_closes_and_ends() {
    let mut driver = role::program(ROLE, "driver").spawn().unwrap();
    let lines = BufReader::new(driver.stdout.take().unwrap()).lines();
    let mut said = lines.filter_map(|line| Some(line.unwrap().strip_prefix("> ")?.to_owned()));
    let first = said.next().unwrap();
    driver.kill().unwrap();
    driver.wait().unwrap();
    if first.starts_with("skipped") {
        return println!("{first}");
    }
    assert_eq!(first, "computes");
    // Until the program has ended, and with it the last that can say anything.
    let rest: Vec<_> = said.collect();
    println!("{rest:#?}");
    assert_eq!(rest.last().map(String::as_str), Some("ends"), "{rest:#?}");
}
