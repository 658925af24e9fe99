//! What the environment says about opening: each variable at its default, at its limits, beyond them, and not a number.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use nrta::{Backend, Builder, Error, Instance, NumericalErrors, Origin, Runtime, Settings, Status};
use std::ffi::OsString;

fn builder(variables: &[(&str, &str)]) -> Result<Builder, Error> {
    Builder::from_variables(|name| {
        let found = variables.iter().find(|(variable, _)| *variable == name);
        found.map(|(_, value)| OsString::from(value))
    })
}

fn settings(variables: &[(&str, &str)]) -> Result<Settings, Error> {
    builder(variables)?.settings()
}

fn open(variables: &[(&str, &str)]) -> Runtime {
    builder(variables).unwrap().open().unwrap()
}

/// The error names the variable, its value, and what is allowed.
#[track_caller]
fn assert_refused(variables: &[(&str, &str)], name: &str, allowed: &str) {
    let error = settings(variables).unwrap_err();
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
    assert_refused(&[(SIM, "4"), (NUM, "5")], NUM, "from 0 to 4");
    for value in ["-1", "two", "1x", "+1", "18446744073709551616"] {
        assert_refused(&[(SIM, "4"), (NUM, value)], NUM, "from 0 to");
    }
}

/// All of them are those that are left.
#[test]
fn all_cores_are_counted_from_the_first() {
    for variables in [&[(SIM, "4")][..], &[(SIM, "4"), (NUM, "0")]] {
        let settings = builder(variables).unwrap().first_core(1).settings();
        assert_eq!(settings.unwrap().cores.value, 3, "{variables:?}");
        let none = builder(variables).unwrap().first_core(4).settings();
        let error = none.unwrap_err();
        assert!(error.to_string().contains("first_core"), "{error}");
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
    for value in ["6", "0-6", "3,4-6", "4294967294"] {
        assert_refused(&[(SIM, "6"), (VISIBLE, value)], VISIBLE, "from 0 to 5");
    }
    let bad = [
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
        assert_refused(
            &[(SIM, "6"), (VISIBLE, value)],
            VISIBLE,
            "consecutive cores",
        );
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
    assert_refused(&[("NRTA_BACKEND", "gpu")], "NRTA_BACKEND", "simulated");
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

/// Rows that are supported in full and concern this crate: default, lowest, highest, below, above, not a number, empty.
/// `=` is the default. For those that are strict the others are in tests of their own, above.
#[test]
fn every_tuned_row_at_its_limits_and_beyond() {
    const TIMEOUT: &str = "NEURON_RT_EXEC_TIMEOUT";
    const WARN: &str = "NRTA_CLOSE_WARN_SECS";
    const POLICY: &str = "NRTA_POLL_POLICY";
    const MEMORY: &str = "NEURON_RT_ENABLE_DEVICE_MEMORY_OOM_LOG";
    // Variable, field, given, used, whether that is an adjustment.
    let rows = [
        (QUEUED, "compute_limit", "1", "1", false),
        (QUEUED, "compute_limit", "63", "63", false),
        (QUEUED, "compute_limit", "0", "=", true),
        (QUEUED, "compute_limit", "64", "63", true),
        (QUEUED, "compute_limit", "many", "=", true),
        (TIMEOUT, "exec_timeout", "0", "none", false),
        (TIMEOUT, "exec_timeout", "1", "1s", false),
        (TIMEOUT, "exec_timeout", "2147483647", "2147483647s", false),
        (TIMEOUT, "exec_timeout", "2147483648", "2147483647s", true),
        (TIMEOUT, "exec_timeout", "-1", "=", true),
        (TIMEOUT, "exec_timeout", "30s", "=", true),
        (TIMEOUT, "exec_timeout", "99999999999999999999", "=", true),
        (WARN, "close_warn_every", "1", "1s", false),
        (
            WARN,
            "close_warn_every",
            "18446744073709551615",
            "18446744073709551615s",
            false,
        ),
        (WARN, "close_warn_every", "0", "=", true),
        (WARN, "close_warn_every", "18446744073709551616", "=", true),
        (WARN, "close_warn_every", "soon", "=", true),
        (POLICY, "poll_policy", "adaptive", "adaptive", false),
        (POLICY, "poll_policy", "reference", "reference", false),
        (POLICY, "poll_policy", "busy", "busy", false),
        (POLICY, "poll_policy", "eager", "=", true),
        (MEMORY, "log_out_of_memory", "0", "false", false),
        (MEMORY, "log_out_of_memory", "Off", "false", false),
        (MEMORY, "log_out_of_memory", "YES", "true", false),
        (MEMORY, "log_out_of_memory", "2", "=", true),
    ];
    let defaults = settings(&[]).unwrap();
    for (variable, field, given, used, is_adjusted) in rows {
        let default = row(&defaults, field).0;
        for blank in ["", "  "] {
            let empty = settings(&[(variable, blank)]).unwrap();
            assert_eq!(row(&empty, field), (default.clone(), Origin::Default));
        }
        let found = settings(&[(variable, &format!(" {given} "))]).unwrap();
        let used = if used == "=" {
            default
        } else {
            used.to_owned()
        };
        let origin = Origin::Environment {
            variable,
            given: given.to_owned(),
            adjusted: is_adjusted,
        };
        assert_eq!(row(&found, field), (used, origin), "{variable} {given}");
    }
}

fn row(settings: &Settings, field: &str) -> (String, Origin) {
    let rows = settings.rows();
    let row = rows.iter().find(|row| row.name == field).unwrap();
    (row.value.clone(), row.origin.clone())
}

#[test]
fn booleans_are_four_words_each_in_any_case() {
    let value = |text: &str| {
        let settings = settings(&[("NEURON_FAIL_ON_NAN", text), (NAN, "none")]).unwrap();
        settings.numerical_errors.value
    };
    for text in ["1", "true", "TRUE", "yes", "On"] {
        assert_eq!(value(text), NumericalErrors::Critical, "{text}");
    }
    for text in ["0", "false", "no", "OFF", "maybe", ""] {
        assert_eq!(value(text), NumericalErrors::None, "{text}");
    }
}

const NAN: &str = "NEURON_RT_NUMERICAL_ERRORS_VERBOSITY";

#[test]
fn nan_is_an_error_for_who_wants_it_to_be_one() {
    for (value, status) in [
        ("none", Status::SUCCESS),
        ("warning", Status::SUCCESS),
        ("critical", Status::EXEC_COMPLETED_WITH_NUM_ERR),
        ("shout", Status::EXEC_COMPLETED_WITH_NUM_ERR),
    ] {
        let faults = r#"{ "rules": [{ "fault": "numerical", "when": {} }] }"#;
        let runtime = open(&[(NAN, value), ("NRTA_SIM_FAULTS", faults)]);
        let core = runtime.core(0).unwrap();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/digits/model.xum");
        let model = core.load(&nrta::Model::open(path).unwrap(), 1).unwrap();
        let image = model.allocate_input(0).unwrap();
        let outputs = [0, 1].map(|index| model.allocate_output(index).unwrap());
        let queue = core.compute();
        let pending = queue.execute(&model, &[&image], &[&outputs[0], &outputs[1]]);
        let ended = pending.unwrap().wait();
        let ended = ended.map_or_else(|error| error.status, |_| Status::SUCCESS);
        assert_eq!(ended, status, "{value}");
        assert_eq!(runtime.simulated_faults_fired().len(), 1);
    }
}

#[test]
fn an_instance_gives_the_machine_its_shape() {
    const INSTANCE: &str = "NEURON_RT_FAKE_INSTANCE_TYPE";
    for instance in Instance::all() {
        let name = instance.name().to_uppercase();
        let found = settings(&[(INSTANCE, &name)]).unwrap();
        assert_eq!(found.tpbs.value, instance.tpbs());
        assert_eq!(found.devices.value, instance.devices());
        assert_eq!(found.tpbs_per_core.value, u32::from(instance.arch()) - 1);
        let cores = instance.tpbs() / found.tpbs_per_core.value;
        assert_eq!((found.first_core.value, found.cores.value), (0, cores));
    }
    let trn2 = (INSTANCE, "trn2.3xlarge");
    assert_eq!(open(&[trn2]).cores(), 4);
    assert_eq!(open(&[trn2, (CONFIG, "1")]).cores(), 8);
    assert_eq!(open(&[trn2, (SIM, "6")]).cores(), 3);
    assert_refused(&[(INSTANCE, "trn9.huge")], INSTANCE, "trn2.48xlarge");
}

#[test]
fn devices_share_the_cores_evenly() {
    const DEVICES: &str = "NRTA_SIM_DEVICES";
    for (devices, ok) in [("1", true), ("2", true), ("6", true)] {
        let found = settings(&[(SIM, "6"), (DEVICES, devices)]);
        assert_eq!(found.is_ok(), ok);
    }
    assert_refused(&[(SIM, "6"), (DEVICES, "4")], DEVICES, "evenly");
    for value in ["0", "257", "two", "-1"] {
        assert_refused(&[(SIM, "6"), (DEVICES, value)], DEVICES, "from 1 to 256");
    }
}

/// Whoever reads it knows how large the machine is, and who has said so.
#[test]
fn what_does_not_fit_the_machine_is_refused_with_its_size() {
    let text =
        |builder: Result<Builder, Error>| builder.unwrap().settings().unwrap_err().to_string();
    let visible = text(builder(&[(VISIBLE, "0-9")]));
    assert!(
        visible.contains("the machine has 2 logical cores"),
        "{visible}"
    );
    assert!(
        visible.contains("from 0 to 1") && visible.contains(SIM),
        "{visible}"
    );
    let number = text(builder(&[(NUM, "5")]));
    assert!(
        number.contains("from 0 to 2: ") && number.contains(SIM),
        "{number}"
    );
    let both = text(builder(&[(SIM, "3"), (VISIBLE, "2")]).map(|builder| builder.cores(2)));
    assert!(
        both.starts_with("first_core + cores = 4 is not allowed: at most 3"),
        "{both}"
    );
    assert!(
        both.ends_with("first_core = 2 is of NEURON_RT_VISIBLE_CORES=\"2\""),
        "{both}"
    );
    let first = text(Ok(Runtime::builder().simulated_tpbs(4).first_core(4)));
    assert!(
        first.starts_with("first_core = 4 is not allowed: 0 to 3"),
        "{first}"
    );
    let devices = text(Ok(Runtime::builder()
        .simulated_tpbs(6)
        .simulated_devices(4)));
    assert!(devices.contains("6 physical cores evenly"), "{devices}");
    let memory = text(Ok(Runtime::builder().simulated_hbm_bytes(7)));
    assert!(memory.starts_with("simulated_hbm_bytes = 7"), "{memory}");
}

#[test]
fn closing_cannot_be_told_to_speak_without_a_pause() {
    use std::time::Duration;
    let every = |every| Runtime::builder().close_warn_every(every).settings();
    for short in [Duration::ZERO, Duration::from_micros(999)] {
        let error = every(short).unwrap_err();
        assert!(error.to_string().contains("close_warn_every"), "{error}");
        assert_eq!(error.status(), Status::INVALID);
    }
    let settings = every(Duration::from_millis(1)).unwrap();
    assert_eq!(settings.close_warn_every.value, Duration::from_millis(1));
}

#[test]
fn a_device_of_the_callers_has_its_own_shape() {
    use xu_device::simulated::{Machine, MachineConfig};
    let config = MachineConfig {
        arch: 3,
        tpbs: 4,
        ..MachineConfig::default()
    };
    let machine = Machine::start(config).unwrap();
    // What is said of a simulated machine has no effect; what is said of cores has.
    let given = [(SIM, "64"), (VISIBLE, "1")];
    let runtime = builder(&given)
        .unwrap()
        .device(machine.clone())
        .open()
        .unwrap();
    let settings = runtime.settings();
    assert_eq!((settings.tpbs.value, settings.tpbs_per_core.value), (4, 2));
    assert_eq!((settings.first_core.value, settings.cores.value), (1, 1));
    runtime.close();
    let beyond = builder(&[(VISIBLE, "2")]).unwrap().device(machine);
    assert!(matches!(beyond.settings(), Err(Error::Variable { .. })));
}

#[test]
fn a_backend_without_a_device_is_an_error_that_names_the_node() {
    for builder in [
        builder(&[("NRTA_BACKEND", "real-driver")]).unwrap(),
        Runtime::builder().backend(Backend::RealDriver),
    ] {
        let builder = builder.neuron_device_directory("/no/such/directory");
        let error = builder.settings().unwrap_err();
        assert!(matches!(error, Error::Driver(_)), "{error:?}");
        let text = error.to_string();
        assert!(
            text.starts_with("/no/such/directory/neuron0 cannot be opened, ENOENT"),
            "{text}"
        );
        assert_eq!(builder.open().unwrap_err().to_string(), text);
    }
    let overruled = builder(&[("NRTA_BACKEND", "real-driver")]).unwrap();
    assert!(overruled.backend(Backend::Simulated).open().is_ok());
}

/// Rule P2.
#[test]
fn the_builder_wins_over_the_environment_and_that_over_the_default() {
    let by_environment = settings(&[(QUEUED, "5")]).unwrap();
    let given = Origin::Environment {
        variable: QUEUED,
        given: "5".to_owned(),
        adjusted: false,
    };
    assert_eq!(by_environment.compute_limit.origin, given);
    let runtime = builder(&[(QUEUED, "5")])
        .unwrap()
        .compute_limit(6)
        .open()
        .unwrap();
    assert_eq!(runtime.core(0).unwrap().compute().limit(), 6);
    let opened = runtime.settings();
    assert_eq!(
        (opened.compute_limit.value, &opened.compute_limit.origin),
        (6, &Origin::Builder)
    );
    assert_eq!(opened.exec_timeout.origin, Origin::Default);
    // A bad value of the environment is refused even where the builder would win.
    assert!(builder(&[(NUM, "x")]).is_err());
    // One that does not fit is not, once the builder has another.
    let tight = builder(&[(SIM, "2"), (NUM, "4")]).unwrap();
    assert!(tight.settings().is_err());
    assert!(tight.simulated_tpbs(4).settings().is_ok());
}

#[test]
fn settings_are_a_table_for_people_and_json_for_programs() {
    let settings = builder(&[(QUEUED, "99"), ("NEURON_PROCESS_TAG", "blue\n")])
        .unwrap()
        .cores(1)
        .settings()
        .unwrap();
    let table = settings.to_string();
    assert_eq!(table.lines().count(), settings.rows().len());
    for line in [
        format!("{QUEUED}=\"99\", adjusted"),
        "builder".to_owned(),
        "\"blue\"".to_owned(),
    ] {
        assert!(table.contains(&line), "{table}");
    }
    let json = settings.to_json();
    assert!(
        json.contains(r#""cores":{"origin":"builder","value":"1"}"#),
        "{json}"
    );
    assert!(json.contains(r#""given":"99""#), "{json}");
}

/// Rule P1.
#[test]
fn the_environment_is_read_while_opening_and_again_by_the_next() {
    let value = std::cell::Cell::new("3");
    let read = |name: &str| (name == QUEUED).then(|| OsString::from(value.get()));
    let builder = Builder::from_variables(read).unwrap();
    value.set("4");
    let runtime = builder.open().unwrap();
    value.set("5");
    let limit = |runtime: &Runtime| runtime.core(0).unwrap().compute().limit();
    assert_eq!(limit(&runtime), 3);
    runtime.close();
    let again = Builder::from_variables(read).unwrap().open().unwrap();
    assert_eq!(limit(&again), 5);
}
