//! What a command that was killed has left is removed by the next one.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::fs::read_link;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

fn neuron_emu() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_neuron-emu"));
    command.args(["--front", "seccomp"]);
    command
}

#[test]
fn a_command_that_was_killed_has_its_directory_removed_by_the_next() {
    if let Err(why) = neuron_emu::seccomp::available() {
        println!("skipped: {why}");
        return;
    }
    let link = std::env::temp_dir().join(format!("neuron-emu-killed-{}", std::process::id()));
    let mut command = neuron_emu();
    command.arg("--sysfs").arg(&link);
    command.args(["--", "sh", "-c", "echo runs; read line"]);
    let mut killed = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let output = killed.stdout.take().unwrap();
    BufReader::new(output).read_line(&mut said).unwrap();
    assert_eq!(said, "runs\n");
    let directory = read_link(&link).unwrap();
    // Another command does not take it from one that runs.
    assert!(
        neuron_emu()
            .args(["--", "true"])
            .status()
            .unwrap()
            .success()
    );
    assert!(directory.join("module/neuron/version").exists());
    killed.kill().unwrap();
    // Its number is its own until it is waited for, so that no other command removes it yet.
    assert!(directory.exists(), "it had no chance");
    killed.wait().unwrap();
    assert!(
        neuron_emu()
            .args(["--", "true"])
            .status()
            .unwrap()
            .success()
    );
    assert!(!directory.exists(), "{}", directory.display());
    std::fs::remove_file(&link).unwrap();
}
