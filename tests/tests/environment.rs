//! What the environment says about opening: each variable at its default, at its limits, beyond them, and not a number.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use nrta::{Builder, Error, Runtime, Status};
use std::ffi::OsString;

fn builder(variables: &[(&str, &str)]) -> Result<Builder, Error> {
    Builder::from_variables(|name| {
        let found = variables.iter().find(|(variable, _)| *variable == name);
        found.map(|(_, value)| OsString::from(value))
    })
}

fn open(variables: &[(&str, &str)]) -> Runtime {
    builder(variables).unwrap().open().unwrap()
}

/// The error names the variable, its value, and what is allowed.
#[track_caller]
fn assert_refused(variables: &[(&str, &str)], name: &str, allowed: &str) {
    let error = builder(variables).unwrap_err();
    let Error::Variable {
        variable, value, ..
    } = &error
    else {
        panic!("{error}");
    };
    assert_eq!(*variable, name);
    let given = variables
        .iter()
        .find(|(variable, _)| *variable == name)
        .unwrap();
    assert_eq!(value, given.1.trim());
    assert!(error.to_string().contains(allowed), "{error}");
    assert_eq!(error.status(), Status::INVALID);
}

const SIM: &str = "NRTA_SIM_CORES";
const VISIBLE: &str = "NEURON_RT_VISIBLE_CORES";
const NUM: &str = "NEURON_RT_NUM_CORES";
const CONFIG: &str = "NEURON_LOGICAL_NC_CONFIG";
const OLDER: &str = "NEURON_RT_VIRTUAL_CORE_SIZE";
const QUEUED: &str = "NEURON_RT_XU_COMPUTE_MAX_QUEUED_REQUESTS";

#[test]
fn without_variables_all_of_a_small_machine_is_there() {
    assert_eq!(open(&[]).cores(), 2);
    assert_eq!(open(&[(SIM, ""), (NUM, " "), (VISIBLE, "")]).cores(), 2);
    assert_eq!(open(&[(SIM, "5")]).cores(), 5);
}

#[test]
fn a_number_of_cores_is_taken_from_the_first() {
    for (value, cores) in [("0", 4), ("1", 1), (" 4 ", 4)] {
        assert_eq!(open(&[(SIM, "4"), (NUM, value)]).cores(), cores);
    }
    for value in ["5", "-1", "two", "1x", "+1", "18446744073709551616"] {
        assert_refused(&[(SIM, "4"), (NUM, value)], NUM, "from 0 to 4");
    }
}

#[test]
fn visible_cores_are_consecutive_and_increasing() {
    for (value, cores) in [("0", 1), ("5", 1), ("0-5", 6), ("3-4,5", 3), ("1, 2 ,3", 3)] {
        assert_eq!(
            open(&[(SIM, "6"), (VISIBLE, value)]).cores(),
            cores,
            "{value}"
        );
    }
    // The number of cores is ignored beside it.
    assert_eq!(open(&[(SIM, "6"), (VISIBLE, "1-2"), (NUM, "5")]).cores(), 2);
    let bad = [
        "6",
        "0-6",
        "3,5,6",
        "2,1",
        "1,1",
        "4-3",
        "1-2-3",
        "a",
        "-1",
        "0-",
        ",",
        "0,",
        "4294967295",
    ];
    for value in bad {
        assert_refused(&[(SIM, "6"), (VISIBLE, value)], VISIBLE, "from 0 to 5");
    }
}

#[test]
fn a_logical_core_has_one_or_two_physical_ones() {
    for (variables, cores) in [
        (&[(SIM, "4"), (CONFIG, "2")][..], 2),
        (&[(SIM, "4"), (CONFIG, "1")], 4),
        (&[(SIM, "4"), (OLDER, "2")], 2),
        // The newer name wins.
        (&[(SIM, "4"), (OLDER, "2"), (CONFIG, "1")], 4),
        (&[(SIM, "5"), (CONFIG, "2"), (VISIBLE, "1")], 1),
        (&[(CONFIG, "2")], 1),
    ] {
        assert_eq!(open(variables).cores(), cores, "{variables:?}");
    }
    for name in [CONFIG, OLDER] {
        for value in ["0", "3", "both"] {
            assert_refused(&[(name, value)], name, "from 1 to 2");
        }
    }
    assert_refused(&[(SIM, "1"), (CONFIG, "2")], SIM, "at least 2");
}

#[test]
fn the_limit_of_the_compute_queue_is_clamped() {
    for (value, limit) in [
        ("", 8),
        ("1", 1),
        ("63", 63),
        ("0", 8),
        ("64", 63),
        ("18446744073709551615", 63),
        ("many", 8),
        ("-3", 8),
    ] {
        let runtime = open(&[(QUEUED, value)]);
        let queue = runtime.core(0).unwrap().compute();
        assert_eq!(queue.limit(), limit, "{value:?}");
    }
}

#[test]
fn the_shape_of_the_machine_is_strict() {
    for value in ["0", "257", "none"] {
        assert_refused(&[(SIM, value)], SIM, "from 1 to 256");
    }
    for value in ["0", "4097", "1.5"] {
        assert_refused(
            &[("NRTA_SIM_HBM_MB", value)],
            "NRTA_SIM_HBM_MB",
            "from 1 to 4096",
        );
    }
    let runtime = open(&[("NRTA_SIM_HBM_MB", "1")]);
    let core = runtime.core(0).unwrap();
    assert!(core.allocate(1 << 20).is_ok());
    assert!(core.allocate(2 << 20).is_err());
    assert_refused(
        &[("NRTA_BACKEND", "real-driver")],
        "NRTA_BACKEND",
        "simulated",
    );
    assert!(builder(&[("NRTA_BACKEND", "simulated")]).is_ok());
}

#[test]
fn a_fault_plan_stands_in_the_variable_or_in_a_file() {
    const FAULTS: &str = "NRTA_SIM_FAULTS";
    let plan = r#"{ "rules": [{ "fault": "allocation_fails", "when": { "core": 0 } }] }"#;
    let path = std::env::temp_dir().join(format!("nrta-plan-{}.json", std::process::id()));
    std::fs::write(&path, plan).unwrap();
    for value in [plan, path.to_str().unwrap()] {
        // Opening reserves memory on core 0.
        let refused = builder(&[(FAULTS, value)]).unwrap().open();
        assert!(matches!(refused, Ok(_) | Err(Error::Device(_))));
        let core = refused
            .ok()
            .map(|runtime| runtime.core(0).unwrap().allocate(64).map(drop));
        assert!(core.is_none_or(|allocated| allocated.is_err()));
    }
    std::fs::remove_file(&path).unwrap();
    assert_refused(&[(FAULTS, "{ \"rules\": 7 }")], FAULTS, "fault plan");
    assert_refused(&[(FAULTS, "/does/not/exist.json")], FAULTS, "No such file");
}

#[test]
fn times_and_policies_are_tuning() {
    for value in ["0", "1", "2147483647", "99999999999999999999", "soon", "-1"] {
        assert!(
            builder(&[("NEURON_RT_EXEC_TIMEOUT", value)])
                .unwrap()
                .open()
                .is_ok()
        );
    }
    for value in ["adaptive", "reference", "busy", "eager"] {
        assert!(
            builder(&[("NRTA_POLL_POLICY", value)])
                .unwrap()
                .open()
                .is_ok()
        );
    }
}

#[test]
fn what_the_builder_is_told_afterwards_wins() {
    let runtime = builder(&[(SIM, "4"), (NUM, "3")])
        .unwrap()
        .cores(1)
        .open()
        .unwrap();
    assert_eq!(runtime.cores(), 1);
}

#[test]
fn cores_beyond_the_machine_are_refused_by_the_builder() {
    for (first, cores) in [(4, 1), (0, 5), (3, 2), (u32::MAX, 1)] {
        let opened = Runtime::builder()
            .simulated_tpbs(4)
            .first_core(first)
            .cores(cores)
            .open();
        assert!(
            matches!(opened, Err(Error::Config { .. })),
            "{first} {cores}"
        );
    }
    assert!(
        Runtime::builder()
            .simulated_tpbs(4)
            .first_core(3)
            .open()
            .is_ok()
    );
    assert!(Runtime::builder().simulated_tpbs(257).open().is_err());
    assert!(
        Runtime::builder()
            .first_core(u32::MAX)
            .tpbs_per_core(2)
            .open()
            .is_err()
    );
}
