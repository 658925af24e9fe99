//! The same over the other front end: the library that is preloaded.
//!
//! A process cannot preload itself, so this program is started again, under the library, for one test or one row at a time:
//! each has devices of its own. Nobody can look into those but by their crashes.

use crate::node::Node;
use crate::{crashes, rows, small};
use neuron_emu::{Settings, preload};
use std::process::Command;
use xu_abi::driver::errno::Answer::Errno;
use xu_abi::driver::errno::EIO;

/// Set in the process that the library is in: what it is to do.
const JOB: &str = "NEURON_EMU_CONFORMANCE_JOB";
/// A job that is a test of this program.
const TEST: &str = "test";

/// Modules whose tests are run there.
const MODULES: [&str; 4] = ["copies", "executions", "notifications", "rules"];
/// Tests of them that look into the emulator, or have a plan of faults.
const ONLY_HERE: [&str; 7] = [
    "copies::a_copy_of_nothing_moves_64_kib",
    "copies::a_reset_loses_the_copies_that_nobody_has_waited_for",
    "copies::one_byte_more_than_2032_descriptors_move_is_refused_after_it_was_started",
    "notifications::a_head_is_a_record_inside_the_ring_that_is_not_beyond_the_tail",
    "rules::a_trap_stops_the_device_and_is_told",
    "rules::marks_go_with_the_descriptor_for_writing_only_and_not_with_the_other",
    "rules::semaphores_outlive_who_set_them",
];

/// Whether the library answers the calls of this process.
pub(crate) fn is_here() -> bool {
    std::env::var_os(JOB).is_some()
}

/// What came of a job.
struct Came {
    succeeded: bool,
    said: String,
    /// Of the kernel.
    crashes: String,
}

/// Has a test of this program do a job under the library. `None`, which is said, without it.
fn run(job: &str, test: &str) -> Option<Came> {
    let mut settings = Settings::default();
    for (key, value) in [
        // As much as any test asks for: it costs nothing until it is touched.
        ("hbm-bytes", 8 << 30),
        ("host-bytes", small().host_bytes),
    ] {
        settings.set(key, &value.to_string()).unwrap();
    }
    let name = format!("neuron-emu-crashes-{}-{test}-{job}", std::process::id());
    let crashes = std::env::temp_dir().join(name.replace([':', ' '], "-"));
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", test, "--nocapture"])
        .env(JOB, job)
        .env(preload::BUGS, &crashes);
    if let Err(why) = preload::prepare(&settings, &mut command) {
        println!("skipped: {why}");
        return None;
    }
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let came = Came {
        succeeded: output.status.success(),
        said: text(output.stdout) + &text(output.stderr),
        crashes: std::fs::read_to_string(&crashes).unwrap_or_default(),
    };
    // Not there as a rule.
    let _ = std::fs::remove_file(&crashes);
    Some(came)
}

/// Not a test: one job. Without one nothing.
#[test]
fn job() {
    let Ok(job) = std::env::var(JOB) else { return };
    let words: Vec<&str> = job.split(' ').collect();
    let node = Node::open(0);
    match words[..] {
        ["row", row, kind] => {
            let case = rows::cases().nth(row.parse().unwrap()).unwrap();
            assert_eq!(case.make(&node, kind == "good"), Ok(()));
        }
        ["crash", case] => {
            let (_, _, spring) = crashes::CASES[case.parse::<usize>().unwrap()];
            assert_eq!(spring(&node), Errno(EIO));
        }
        _ => panic!("job {job}"),
    }
}

/// The tests of this program that can be run there.
fn tests() -> Vec<String> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let listed = command.args(["--list", "--format", "terse"]);
    let listed = String::from_utf8(listed.output().unwrap().stdout).unwrap();
    let names = listed
        .lines()
        .filter_map(|line| line.strip_suffix(": test"));
    let names: Vec<String> = names.map(str::to_owned).collect();
    for only in ONLY_HERE {
        assert!(names.iter().any(|name| name == only), "{only} is gone");
    }
    let is_one = |name: &&String| {
        let module = name.split("::").next().unwrap_or_default();
        MODULES.contains(&module) && !ONLY_HERE.contains(&name.as_str())
    };
    names.iter().filter(is_one).cloned().collect()
}

#[test]
fn rules_hold_over_the_preloaded_library() {
    let mut wrong = Vec::new();
    let tests = tests();
    assert!(tests.len() > 20, "{tests:?}");
    for test in tests {
        let Some(came) = run(TEST, &test) else { return };
        if !came.succeeded || !came.crashes.is_empty() || !came.said.contains("1 passed") {
            wrong.push(format!("{test}: {}{}", came.crashes, came.said));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_row_is_answered_as_documented_over_the_preloaded_library() {
    let mut wrong = Vec::new();
    for (number, case) in rows::cases().enumerate() {
        for kind in ["good", "bad"] {
            let job = format!("row {number} {kind}");
            let Some(came) = run(&job, "preloaded::job") else {
                return;
            };
            if !came.succeeded || !came.crashes.is_empty() {
                let name = case.name();
                wrong.push(format!("{name}, {kind}: {}{}", came.crashes, came.said));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_would_crash_the_kernel_is_told_over_the_preloaded_library() {
    let mut wrong = Vec::new();
    for (number, (trap, name, _)) in crashes::CASES.iter().enumerate() {
        let Some(came) = run(&format!("crash {number}"), "preloaded::job") else {
            return;
        };
        // A child has other devices here, and what it does is told as what it is.
        let trap = if name.contains("child") { &12 } else { trap };
        if !came.succeeded || !came.crashes.contains(&format!("trap {trap}:")) {
            wrong.push(format!("{name}: {}{}", came.crashes, came.said));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
