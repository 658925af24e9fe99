//! Opening and closing leaves nothing behind, however often, and whether or not it succeeds.
//!
//! Failure kind P3. The descriptors and threads of the process are counted, so this binary has one test.
#![cfg(all(not(loom), not(miri)))]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

mod scripted;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use scripted::{Core, POLICIES, Plan, Work, until, wait};
use std::fs::{read_dir, symlink_metadata};
use xu_abi::Status;
use xu_worker::{Runner, WorkerError, WorkerThread};

/// The process's descriptors and threads.
fn held() -> (usize, usize) {
    let count = |directory| read_dir(directory).unwrap().count();
    (count("/proc/self/fd"), count("/proc/self/task"))
}

/// Opens, works and closes; every tenth request degrades its unit.
fn cycle(number: u64) {
    let core = Core::new(2, &Plan::new(4, POLICIES[number as usize % 3]));
    for unit in &core.units {
        let work = Work::short(number);
        let work = if number.is_multiple_of(10) {
            work.fatal(Status::HW_ERROR)
        } else {
            work
        };
        let pending = unit.submit(work).unwrap().completion;
        assert_eq!(wait(unit, pending).unwrap().id, number);
    }
    // Half of them are dropped instead.
    if number.is_multiple_of(2) {
        drop(core.close().unwrap());
    }
}

/// Opens that are refused: too many units, and units that do not belong together.
fn failing_cycle() {
    let runner = |policy| Box::new(scripted::lane(0, &Plan::new(1, policy)).1) as Box<dyn Runner>;
    let nine = (0..9).map(|_| runner(POLICIES[1])).collect();
    let refused = WorkerThread::spawn("nine", nine);
    assert!(matches!(
        refused,
        Err(WorkerError::TooManyUnits { units: 9 })
    ));
    let mixed = WorkerThread::spawn("mixed", POLICIES.map(runner).into());
    assert!(matches!(mixed, Err(WorkerError::MixedPolicies { .. })));
}

/// A limit below which `spare` descriptors are free.
fn limit_with(spare: usize) -> u64 {
    let is_free = |number: &u64| symlink_metadata(format!("/proc/self/fd/{number}")).is_err();
    (0..).filter(is_free).nth(spare).unwrap()
}

/// Spawns a worker with `spare` descriptors to be had. Whether that was enough.
fn spawn_with(spare: usize) -> bool {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let runner = Box::new(scripted::lane(0, &Plan::new(1, POLICIES[1])).1);
    setrlimit(Resource::RLIMIT_NOFILE, limit_with(spare), hard).unwrap();
    let spawned = WorkerThread::spawn("poor", vec![runner]);
    setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
    match spawned {
        Ok(_) => true,
        Err(WorkerError::System(_)) => false,
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn p3_a_thousand_cycles_leave_descriptors_and_threads_as_they_were() {
    (0..10).for_each(cycle);
    let before = held();
    for number in 0..1_000 {
        cycle(number);
        if number.is_multiple_of(100) {
            failing_cycle();
        }
    }
    // A thread that was joined may be listed for a moment.
    until("descriptors and threads are as before", || held() == before);

    let enough = (0..8).position(spawn_with).expect("eight descriptors do");
    assert!(enough > 0, "a worker without descriptors");
    until("nothing is left of those that failed", || held() == before);
}
