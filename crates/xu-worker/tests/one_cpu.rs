//! A worker and its submitter on one CPU: spins give way, so nobody waits for who cannot run.
//!
//! Failure kind W6. Affinity is inherited by threads, so the whole measurement runs on a thread that is pinned.
#![cfg(all(not(loom), not(miri)))]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

mod scripted;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use scripted::{Core, POLICIES, Plan, Script, Work, wait};
use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};
use xu_worker::PollPolicy;

/// How long the device takes for a request.
const TIME: Duration = Duration::from_micros(10);

/// Requests at a time.
const DEPTHS: [usize; 2] = [1, 8];

/// This thread, and those it starts, run on the first CPU that it may use.
fn pin() {
    let this = Pid::from_raw(0);
    let allowed = sched_getaffinity(this).unwrap();
    let first = (0..CpuSet::count()).find(|cpu| allowed.is_set(*cpu).unwrap());
    let mut one = CpuSet::new();
    one.set(first.unwrap()).unwrap();
    sched_setaffinity(this, &one).unwrap();
}

/// How long a thousand requests take.
fn thousand(policy: PollPolicy, depth: usize) -> Duration {
    let core = Core::new(1, &Plan::new(8, policy));
    let unit = &core.units[0];
    core.run(0, Work::short(0)).unwrap();
    let start = Instant::now();
    let mut window = VecDeque::new();
    for id in 0..1_000 {
        if window.len() == depth {
            wait(unit, window.pop_front().unwrap()).unwrap();
        }
        let accepted = unit.submit(Work::new(id, Script::Lasts(TIME))).unwrap();
        window.push_back(accepted.completion);
    }
    for completion in window {
        wait(unit, completion).unwrap();
    }
    let took = start.elapsed();
    drop(core.close().unwrap());
    took
}

/// The best of several, since others use the machine, too.
fn best(pinned: bool, policy: PollPolicy, depth: usize) -> Duration {
    let measure = move || {
        if pinned {
            pin();
        }
        (0..7).map(|_| thousand(policy, depth)).min().unwrap()
    };
    thread::spawn(measure).join().unwrap()
}

#[test]
fn w6_on_one_cpu_throughput_falls_at_most_threefold() {
    for policy in POLICIES {
        for depth in DEPTHS {
            let (free, pinned) = (best(false, policy, depth), best(true, policy, depth));
            println!("{policy:?}, depth {depth}: {free:?} free, {pinned:?} on one CPU, per 1000");
            assert!(
                pinned < free * 3,
                "{policy:?} at depth {depth}: {free:?}, {pinned:?}"
            );
        }
    }
}
