//! What the environment says of the runtime, to a program of its own: the options of the command line win.
#![allow(clippy::unwrap_used, reason = "tests")]

mod client;

use client::Client;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

#[tokio::test]
async fn the_environment_says_how_the_runtime_is_opened() {
    let variables = [
        ("NRTA_SIM_CORES", "4"),
        ("NEURON_RT_VISIBLE_CORES", "1-2"),
        ("NEURON_RT_XU_COMPUTE_MAX_QUEUED_REQUESTS", "3"),
    ];
    assert_eq!(cores_and_depth(&variables, &[]).await, (2, 3));
}

#[tokio::test]
async fn options_win_over_the_environment() {
    let variables = [
        ("NRTA_SIM_CORES", "4"),
        ("NEURON_RT_NUM_CORES", "2"),
        ("NEURON_RT_XU_COMPUTE_MAX_QUEUED_REQUESTS", "3"),
    ];
    let options = ["--cores", "3", "--depth", "5"];
    assert_eq!(cores_and_depth(&variables, &options).await, (3, 5));
}

#[tokio::test]
async fn one_core_and_eight_requests_are_what_nobody_says() {
    let variables = [("NRTA_SIM_CORES", "4")];
    assert_eq!(cores_and_depth(&variables, &[]).await, (1, 8));
}

#[tokio::test]
async fn a_variable_that_is_not_allowed_is_named_and_nothing_starts() {
    let variables = [("NEURON_RT_VISIBLE_CORES", "two")];
    let output = program(&variables, &[]).output().await.unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("NEURON_RT_VISIBLE_CORES"), "{error}");
}

/// Of a service that is started so: its cores, and the limit of a compute queue.
async fn cores_and_depth(variables: &[(&str, &str)], options: &[&str]) -> (usize, u64) {
    let mut program = program(variables, options).spawn().unwrap();
    let mut output = BufReader::new(program.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).await.unwrap();
    let address = line.trim_end().strip_prefix("listening at http://");
    let mut client = Client::connect(address.unwrap().parse().unwrap())
        .await
        .unwrap();
    let health = client.health().await.unwrap().body;
    program.kill().await.unwrap();
    let limit = health["cores"][0]["queues"][1]["limit"].as_u64();
    (health["cores"].as_array().unwrap().len(), limit.unwrap())
}

fn program(variables: &[(&str, &str)], options: &[&str]) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_digits-service"));
    program
        .args(options)
        .envs(variables.iter().copied())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    program
}
