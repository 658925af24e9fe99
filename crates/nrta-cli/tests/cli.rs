//! The `nrta` command as a user meets it: results, exit codes, one-line errors.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn digits() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/digits")
}

fn nrta(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nrta"))
        .args(args)
        .output()
        .unwrap()
}

fn run_digits(options: &[&str]) -> Output {
    let dir = digits();
    nrta(&[&["run", dir.to_str().unwrap()], options].concat())
}

/// Exit code 2, nothing on standard output, one line on standard error that says `what`.
fn assert_refused(output: &Output, what: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(output.stdout.is_empty());
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(
        stderr.starts_with("nrta: ") && stderr.contains(what),
        "{stderr}"
    );
}

#[test]
fn the_digits_are_classified_as_the_script_does() {
    let output = run_digits(&["--repeat", "2"]);
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        stdout.contains("predictions equal the independent forward pass"),
        "{stdout}"
    );
    for part in [
        "accuracy",
        "images/s",
        "queue full",
        "p99",
        "depth over time",
        "confusion",
    ] {
        assert!(stdout.contains(part), "{part} in\n{stdout}");
    }
    assert!(
        output.stderr.is_empty(),
        "no progress bar where there is no terminal"
    );
}

#[test]
fn json_is_one_object_with_the_same_result_for_every_shape_of_run() {
    let mut checksums = Vec::new();
    for options in [
        [
            "--cores", "1", "--depth", "1", "--batch", "1", "--repeat", "1",
        ],
        [
            "--cores", "3", "--depth", "5", "--batch", "33", "--repeat", "2",
        ],
        [
            "--cores", "2", "--depth", "40", "--batch", "4", "--repeat", "3",
        ],
    ] {
        let output = run_digits(&[&options[..], &["--json"]].concat());
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(value["as_expected"], true);
        assert_eq!(value["changed_predictions"], 0);
        let repeat: u64 = options[7].parse().unwrap();
        let images = value["held_out_images"].as_u64().unwrap();
        assert_eq!(value["images"].as_u64().unwrap(), images * repeat);
        assert!(value["latency_us"]["total"]["p99"].as_f64().unwrap() > 0.0);
        checksums.push(value["predictions_crc32"].clone());
    }
    assert!(
        checksums.iter().all(|checksum| *checksum == checksums[0]),
        "{checksums:?}"
    );
}

#[test]
fn bad_command_lines_are_refused() {
    assert_refused(&nrta(&[]), "no command");
    assert_refused(&nrta(&["fly"]), "fly");
    assert_refused(&nrta(&["run"]), "directory");
    assert_refused(
        &run_digits(&["--cores", "0"]),
        "--cores \"0\" is not a number from 1 to 256",
    );
    assert_refused(&run_digits(&["--cores", "257"]), "257");
    assert_refused(&run_digits(&["--cores"]), "--cores");
    assert_refused(&run_digits(&["--depth", "-1"]), "--depth");
    assert_refused(&run_digits(&["--batch", "99999999999999999999"]), "--batch");
    assert_refused(&run_digits(&["--speed"]), "--speed");
    assert_refused(&run_digits(&["--json=yes"]), "--json");
    assert_refused(&run_digits(&["--policy", "lazy"]), "lazy");
    assert_refused(&run_digits(&["again"]), "again");
}

#[test]
fn exit_codes_do_not_depend_on_anybody_reading() {
    let full = || {
        std::fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap()
    };
    let status = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nrta"));
        command
            .args(args)
            .stdout(full())
            .stderr(full())
            .status()
            .unwrap()
            .code()
    };
    assert_eq!(status(&["bogus"]), Some(2));
    let dir = digits();
    assert_eq!(
        status(&["run", dir.to_str().unwrap(), "--repeat", "1"]),
        Some(1)
    );
}

#[test]
fn help_and_version_succeed() {
    for flag in ["--help", "-h", "--version", "-V"] {
        let output = nrta(&[flag]);
        assert!(output.status.success() && !output.stdout.is_empty());
    }
}

#[test]
fn unreadable_and_broken_files_are_refused() {
    let dir = std::env::temp_dir().join(format!("nrta-cli-test-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.to_str().unwrap();
    assert_refused(&nrta(&["run", path]), "model.xum");
    assert_refused(&nrta(&["run", "/nonexistent/directory"]), "model.xum");

    let model = std::fs::read(digits().join("model.xum")).unwrap();
    std::fs::write(dir.join("model.xum"), &model[..model.len() / 2]).unwrap();
    assert_refused(&nrta(&["run", path]), "");
    std::fs::write(dir.join("model.xum"), &model).unwrap();
    assert_refused(&nrta(&["run", path]), "heldout.xud");

    let images = std::fs::read(digits().join("heldout.xud")).unwrap();
    std::fs::write(dir.join("heldout.xud"), &images[..images.len() - 1]).unwrap();
    assert_refused(&nrta(&["run", path]), "heldout.xud");
    std::fs::write(dir.join("heldout.xud"), &images).unwrap();
    std::fs::write(dir.join("expected.json"), "{\"images\": ").unwrap();
    assert_refused(&nrta(&["run", path]), "expected.json");

    let pipe = dir.join("expected.json");
    std::fs::remove_file(&pipe).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    assert_refused(&nrta(&["run", path]), "not a regular file");

    // Without an expected result the run succeeds; with a wrong one it fails, but not as bad input.
    std::fs::remove_file(dir.join("expected.json")).unwrap();
    assert!(nrta(&["run", path, "--repeat", "1"]).status.success());
    let wrong = "{\"images\": 497, \"correct\": 1, \"predictions_crc32\": \"00000000\"}";
    std::fs::write(dir.join("expected.json"), wrong).unwrap();
    assert_eq!(nrta(&["run", path, "--repeat", "1"]).status.code(), Some(1));
    std::fs::remove_dir_all(&dir).unwrap();
}

/// A plan in a file of its own, which goes with the test.
struct PlanFile(PathBuf);

impl PlanFile {
    fn new(name: &str, json: &str) -> Self {
        let path = std::env::temp_dir().join(format!("nrta-{}-{name}.json", std::process::id()));
        std::fs::write(&path, json).unwrap();
        Self(path)
    }

    fn run(&self, options: &[&str]) -> Output {
        let plan = ["--faults", self.0.to_str().unwrap(), "--repeat", "2"];
        run_digits(&[&plan, options].concat())
    }
}

impl Drop for PlanFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_fault_that_ends_a_queue_ends_the_run_and_says_why() {
    let plan = PlanFile::new(
        "fatal",
        r#"{ "rules": [{ "when": { "core": 0, "from": 3 }, "fault": { "custom": { "engine": "pe", "sub_id": 99 } } }] }"#,
    );
    let output = plan.run(&["--cores", "1"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("HW_ERROR") && stderr.contains("99"),
        "{stderr}"
    );
}

#[test]
fn a_corrected_error_of_memory_changes_nothing() {
    let plan = PlanFile::new(
        "corrected",
        r#"{ "rules": [{ "fault": "ecc_correctable" }] }"#,
    );
    assert!(plan.run(&["--tpbs", "2", "--seed", "7"]).status.success());
}

#[test]
fn a_plan_that_makes_no_sense_is_refused_by_name() {
    for (json, what) in [
        ("{", "EOF"),
        (r#"{ "rules": [{ "fault": "gremlins" }] }"#, "gremlins"),
        (
            r#"{ "rules": [{ "when": { "probability": 1.5 }, "fault": "transient" }] }"#,
            "1.5",
        ),
        (
            r#"{ "rules": [{ "when": { "core": 9 }, "fault": "transient" }] }"#,
            "9",
        ),
    ] {
        assert_refused(&PlanFile::new("refused", json).run(&[]), what);
    }
    assert_refused(
        &run_digits(&["--faults", "/does/not/exist"]),
        "/does/not/exist",
    );
    assert_refused(&run_digits(&["--faults", "/dev/zero"]), "longer than");
    assert_refused(&run_digits(&["--seed", "-1"]), "-1");
    assert_refused(&run_digits(&["--cores", "200", "--tpbs", "2"]), "--tpbs 2");
}

#[test]
fn config_says_what_the_environment_asks_for_and_who_said_so() {
    let config = |variables: &[(&str, &str)], options: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_nrta"))
            .arg("config")
            .args(options)
            .env_clear()
            .envs(variables.iter().copied())
            .output()
            .unwrap()
    };
    let variables = [("NEURON_RT_NUM_CORES", "1"), ("NRTA_SIM_CORES", "4")];
    let output = config(&variables, &[]);
    assert!(output.status.success());
    let table = String::from_utf8(output.stdout).unwrap();
    let line = table
        .lines()
        .find(|line| line.starts_with("cores "))
        .unwrap();
    let words: Vec<_> = line.split_whitespace().collect();
    assert_eq!(words, ["cores", "1", r#"NEURON_RT_NUM_CORES="1""#]);
    let json = config(&variables, &["--json"]).stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["tpbs"]["variable"], "NRTA_SIM_CORES");
    assert_eq!(json["exec_timeout"]["origin"], "default");
    assert_refused(
        &config(&[("NRTA_SIM_CORES", "none")], &[]),
        "NRTA_SIM_CORES",
    );
    assert_refused(&config(&[], &["--depth"]), "--depth");
}

#[test]
fn a_run_shows_what_it_is_opened_with_when_asked() {
    let output = run_digits(&["--repeat", "1", "--quiet", "--cores", "1", "--show-config"]);
    assert!(output.status.success());
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        stderr.contains("first_core") && stderr.contains("builder"),
        "{stderr}"
    );
}

/// Directories that stand for those of the kernel, which go with the test.
#[cfg(feature = "real-driver")]
struct Tree(PathBuf);

#[cfg(feature = "real-driver")]
impl Tree {
    fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let tree = std::env::temp_dir().join(format!("nrta-{}-{name}", std::process::id()));
        for (path, text) in [("dev/null", ""), ("sys/class/none", ""), ("proc/none", "")]
            .iter()
            .chain(files)
        {
            let path = tree.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Self(tree)
    }

    fn doctor(&self, options: &[&str]) -> Output {
        let path = |name: &str| self.0.join(name).to_str().unwrap().to_owned();
        let (dev, sys, proc) = (path("dev"), path("sys"), path("proc"));
        let roots = ["doctor", "--dev", &dev, "--sys", &sys, "--proc", &proc];
        nrta(&[&roots, options].concat())
    }
}

#[cfg(feature = "real-driver")]
impl Drop for Tree {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(feature = "real-driver")]
#[test]
fn the_doctor_is_useful_without_a_device() {
    let tree = Tree::new("bare", &[]);
    let output = tree.doctor(&[]);
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stdout}");
    for part in [
        "no Neuron device",
        "nrta run examples/digits",
        "the simulated machine works",
    ] {
        assert!(stdout.contains(part), "{part} in\n{stdout}");
    }
    // A host that is meant to have one.
    for name in ["neuron", "real-driver"] {
        let output = tree.doctor(&["--device", name, "--json"]);
        assert_eq!(output.status.code(), Some(1));
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(value["problems"], 1);
    }
}

#[cfg(feature = "real-driver")]
#[test]
fn the_doctor_tells_hardware_without_a_module_and_a_node_that_is_none() {
    let pci = "sys/bus/pci/devices/0000:00:1e.0";
    let (vendor, device) = (format!("{pci}/vendor"), format!("{pci}/device"));
    let tree = Tree::new(
        "odd",
        &[
            (&vendor, "0x1d0f"),
            (&device, "0x7364"),
            ("dev/neuron0", ""),
        ],
    );
    let output = tree.doctor(&[]);
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stdout}");
    for part in [
        "Trn2 (1d0f:7364, v3)",
        "modprobe neuron",
        "no character device",
        "ENOTTY",
    ] {
        assert!(stdout.contains(part), "{part} in\n{stdout}");
    }
}

#[cfg(feature = "real-driver")]
#[test]
fn options_of_a_device_are_checked() {
    assert_refused(&nrta(&["doctor", "--device", "gpu"]), "gpu");
    assert_refused(&nrta(&["doctor", "--depth", "1"]), "--depth");
    assert_refused(&nrta(&["doctor", "--dev"]), "--dev");
    assert_refused(
        &run_digits(&["--device", "neuron", "--seed", "1"]),
        "--seed is of the simulated machine",
    );
    assert_refused(
        &run_digits(&["--dev", "/dev"]),
        "--dev is of devices, and --device is simulated",
    );
}

#[cfg(feature = "real-driver")]
#[test]
fn a_run_without_a_device_says_which_node_is_missing() {
    let tree = Tree::new("run", &[]);
    let dev = tree.0.join("dev");
    let dev = dev.to_str().unwrap();
    let output = run_digits(&["--device", "neuron", "--cores", "1", "--dev", dev]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains(dev), "{stderr}");
    assert!(stderr.contains("nrta doctor"), "{stderr}");
}
