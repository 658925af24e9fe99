//! A process ends with requests in flight: with the status it was given, quickly and quietly.
//!
//! Failure kind P2. The test starts itself again as the process that ends.
#![cfg(not(any(loom, miri)))]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

mod steered;

use std::process::{Command, Stdio, exit};
use std::thread;
use std::time::{Duration, Instant};
use steered::{Bench, request};
use xu_worker::{PollPolicy, WorkerThread};

/// Tells this program to be the process that ends, and how.
const END: &str = "XU_WORKER_END";

const POLICIES: [PollPolicy; 3] = [
    PollPolicy::Reference,
    PollPolicy::Adaptive,
    PollPolicy::Busy,
];

/// Eight requests that never end, somebody who waits for one, and an end. Does nothing in the test itself.
fn end_if_told() {
    let Ok(end) = std::env::var(END) else {
        return;
    };
    let mut lanes = Vec::new();
    for policy in POLICIES {
        let Bench { unit, runner, .. } = Bench::with_policy(8, policy);
        let worker = WorkerThread::spawn("ending", vec![Box::new(runner)]).unwrap();
        let accepted: Vec<_> = (0..8).map(|id| unit.submit(request(id)).unwrap()).collect();
        lanes.push((unit, worker, accepted));
    }
    let (_, _, mut waited) = lanes.pop().unwrap();
    let waiter = thread::spawn(move || waited.pop().unwrap().completion.wait());
    match end.as_str() {
        "exit" => exit(7),
        "exit on another thread" => {
            let _ = thread::spawn(|| exit(7)).join();
        }
        _ => {
            // As a program that forgets to close: nothing is dropped, and main returns.
            std::mem::forget((lanes, waiter));
            exit(7);
        }
    }
}

#[test]
fn p2_a_process_ends_with_requests_in_flight() {
    end_if_told();
    for end in ["exit", "exit on another thread", "forget"] {
        let began = Instant::now();
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "p2_a_process_ends_with_requests_in_flight"])
            .env(END, end)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(7), "{end}: {output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{end}");
        assert!(began.elapsed() < Duration::from_secs(2), "{end}");
    }
}
