//! The commands for devices under the emulated driver: real system calls of an unchanged program.
//!
//! Skipped, with the reason, where the emulation cannot be.
#![cfg(feature = "real-driver")]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use neuron_emu::config::{DriverFault, DriverRule, Identity};
use neuron_emu::seccomp::SpawnError;
use neuron_emu::{Config, Emulator, Supervised};
use nrta::neuron::abi::arch::Versions;
use nrta::neuron::{Claims, Node, System};
use serde_json::Value;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::channel;

/// What a command has said.
#[derive(Debug)]
struct Said {
    code: Option<i32>,
    stdout: String,
    /// For whoever reads a failure.
    #[expect(dead_code, reason = "printed")]
    stderr: String,
}

fn small() -> Config {
    Config {
        hbm_bytes: 256 << 20,
        host_bytes: 64 << 20,
        ..Config::default()
    }
}

/// Runs the command under an emulator that finds nothing wrong with it; `None` where it cannot be.
fn nrta(emulator: &Arc<Emulator>, args: &[&str]) -> Option<Said> {
    run(emulator, env!("CARGO_BIN_EXE_nrta"), args)
}

fn run(emulator: &Arc<Emulator>, program: &str, args: &[&str]) -> Option<Said> {
    let mut command = Command::new(program);
    command
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut running = match Supervised::spawn(emulator, &mut command) {
        Ok(running) => running,
        Err(SpawnError::Unavailable(why)) => {
            eprintln!("skipped: {why}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let (mut stdout, mut stderr) = (String::new(), String::new());
    // Both are short: neither pipe fills up while the other is read.
    let child = running.child();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut stdout)
        .unwrap();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut stderr)
        .unwrap();
    let code = running.wait().unwrap().code();
    assert!(
        emulator.bugs().is_empty(),
        "{:?}\n{stdout}{stderr}",
        emulator.bugs()
    );
    Some(Said {
        code,
        stdout,
        stderr,
    })
}

fn json(said: &Said) -> Value {
    serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:?}"))
}

/// Values of all findings on a topic.
fn values(report: &Value, topic: &str) -> Vec<String> {
    let findings = report["findings"].as_array().unwrap();
    findings
        .iter()
        .filter(|finding| finding["topic"] == topic)
        .map(|finding| finding["value"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn the_doctor_describes_the_devices() {
    let emulator = Emulator::start(Config {
        devices: 2,
        ..small()
    })
    .unwrap();
    let sysfs = emulator.sysfs_root().unwrap();
    let sysfs = sysfs.to_str().unwrap();
    let options = ["doctor", "--device", "neuron", "--json", "--sys", sysfs];
    let Some(said) = nrta(&emulator, &options) else {
        return;
    };
    assert_eq!(said.code, Some(0), "{said:?}");
    let report = json(&said);
    assert_eq!(
        values(&report, "device nodes"),
        ["neuron0, neuron1 in /dev"]
    );
    assert_eq!(
        values(&report, "interface version"),
        [
            "neuron0: 7, supported: 5 to 7",
            "neuron1: 7, supported: 5 to 7"
        ]
    );
    assert_eq!(
        values(&report, "cores"),
        ["neuron0: free: 0, 1", "neuron1: free: 2, 3"]
    );
    assert!(values(&report, "attached").is_empty());
    assert_eq!(
        values(&report, "kernel module"),
        ["neuron 2.24.7.0 (written against 2.24.7.0)"]
    );
    assert_eq!(
        values(&report, "device")[1],
        "neuron1: Trainium1 (Trn1, v2), revision 0, at 0000:11:00.0"
    );
}

#[test]
fn the_doctor_attaches_only_when_it_is_to_look_deep() {
    let emulator = Emulator::start(small()).unwrap();
    let Some(said) = nrta(&emulator, &["doctor", "--deep", "--json"]) else {
        return;
    };
    assert_eq!(said.code, Some(0), "{said:?}");
    let report = json(&said);
    assert_eq!(values(&report, "attached"), ["neuron0: no other process"]);
    assert_eq!(
        values(&report, "contiguous memory")[0],
        "neuron0: 4 MiB of the host can be had"
    );
}

/// Core 1 and the device are held by this process meanwhile, through the same driver.
#[test]
fn the_doctor_says_which_cores_are_taken_and_who_is_attached() {
    let emulator = Emulator::start(small()).unwrap();
    let (holds, held) = channel();
    let (go, may_go) = channel::<()>();
    let dev = Path::new("/dev");
    std::thread::scope(|scope| {
        let holder = scope.spawn(|| {
            neuron_emu::run(&emulator, move || {
                let claims = Claims::open(Arc::new(System), dev, 0).unwrap();
                let claim = claims.claim(1..2, &[]).unwrap();
                let node = Node::open(Arc::new(System), dev, 0).unwrap();
                holds.send(()).unwrap();
                // Ends when the other end goes, whatever became of it.
                let _ = may_go.recv();
                drop((node, claim));
            })
        });
        if held.recv().is_err() {
            eprintln!("skipped: {}", holder.join().unwrap().unwrap_err());
            return;
        }
        let said = nrta(&emulator, &["doctor", "--deep", "--json"]);
        drop(go);
        holder.join().unwrap().unwrap();
        let Some(said) = said else { return };
        assert_eq!(said.code, Some(0), "{said:?}");
        let report = json(&said);
        assert_eq!(
            values(&report, "cores"),
            ["neuron0: free: 0", "neuron0: claimed by other processes: 1"]
        );
        let attached = values(&report, "attached");
        let this = format!("neuron0: {} (", std::process::id());
        assert_eq!(attached.len(), 1, "{attached:?}");
        assert!(attached[0].starts_with(&this), "{attached:?}");
    });
}

#[test]
fn s2_the_doctor_tells_a_driver_that_is_too_new() {
    let emulator = Emulator::start(Config {
        identity: Identity {
            versions: Some(Versions { min: 12, max: 13 }),
            ..Identity::default()
        },
        ..small()
    })
    .unwrap();
    let Some(said) = nrta(&emulator, &["doctor", "--json"]) else {
        return;
    };
    assert_eq!(said.code, Some(1), "{said:?}");
    let report = json(&said);
    assert_eq!(
        values(&report, "interface version"),
        [
            "neuron0: the driver speaks interface versions 12 to 13, this library 5 to 7 and 10 to 11"
        ]
    );
    let Some(said) = nrta(&emulator, &["probe"]) else {
        return;
    };
    assert_eq!(said.code, Some(1), "{said:?}");
}

#[test]
fn the_doctor_tells_a_device_that_is_gone() {
    let emulator = Emulator::start(Config {
        driver_faults: vec![DriverRule::always(DriverFault::Removed)],
        ..small()
    })
    .unwrap();
    let Some(said) = nrta(&emulator, &["doctor", "--json"]) else {
        return;
    };
    assert_eq!(said.code, Some(1), "{said:?}");
    let found = values(&json(&said), "device");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("ENODEV (19)"), "{found:?}");
}

#[test]
fn the_probe_refutes_nothing_that_the_emulation_implements() {
    for arch in [xu_abi_arch(2), xu_abi_arch(3)] {
        let emulator = Emulator::start(Config { arch, ..small() }).unwrap();
        let Some(said) = nrta(&emulator, &["probe", "--json"]) else {
            return;
        };
        let report = json(&said);
        let with = |verdict: &str| -> Vec<String> {
            let facts = report["facts"].as_object().unwrap();
            facts
                .iter()
                .filter(|(_, fact)| fact["verdict"] == verdict)
                .map(|(name, fact)| format!("{name}: {} {}", fact["seen"], fact["raw"]))
                .collect()
        };
        assert_eq!(with("REFUTED"), [""; 0], "{said:?}");
        assert_eq!(said.code, Some(0), "{said:?}");
        for fact in [
            "DMA_ROUND_TRIP",
            "RING_IDS",
            "EVENT_BY_DMA",
            "HANDLES_REUSED_LAST_FIRST",
            "HOST_CHUNKS_ZEROED",
            "EXTENDED_INFO_OVERWRITES",
            "LOGICAL_NC_MAP",
            "SEMAPHORE_REGISTERS",
            "NQ_ENABLE",
            "TIMESTAMP_RATE",
        ] {
            let verdict = &report["facts"][fact];
            assert_eq!(verdict["verdict"], "CONFIRMED", "{fact}: {verdict}");
        }
    }
}

#[test]
fn the_probe_says_that_a_reset_failed_and_that_nothing_but_an_emulation_answered() {
    let emulator = Emulator::start(small()).unwrap();
    emulator.inject(DriverRule::once(DriverFault::ResetFails, 0));
    let Some(said) = nrta(&emulator, &["probe"]) else {
        return;
    };
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.stdout.contains("; a reset of the core failed\n"));
    assert!(said.stdout.contains("what answers is an emulation"));
}

/// The digits on one core: predictions are those of the script that made the model, whatever the device.
#[test]
fn the_digits_are_the_same_on_a_device() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/digits");
    for arch in [xu_abi_arch(2), xu_abi_arch(3)] {
        let emulator = Emulator::start(Config { arch, ..small() }).unwrap();
        let sysfs = emulator.sysfs_root().unwrap();
        let options = [
            "run", dir, "--device", "neuron", "--cores", "2", "--repeat", "2", "--json", "--sys",
        ];
        let options = [&options[..], &[sysfs.to_str().unwrap()]].concat();
        let Some(said) = nrta(&emulator, &options) else {
            return;
        };
        assert_eq!(said.code, Some(0), "{said:?}");
        let result = json(&said);
        assert_eq!(result["device"], "real-driver");
        assert_eq!(result["as_expected"], true);
        assert_eq!(result["correct"], 491);
    }
}

#[test]
fn an_execution_confirms_what_the_lane_rests_on() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/digits");
    let emulator = Emulator::start(small()).unwrap();
    let Some(said) = nrta(&emulator, &["probe", "--execute", dir, "--json"]) else {
        return;
    };
    assert_eq!(said.code, Some(0), "{said:?}");
    let report = json(&said);
    for fact in [
        "NQ_FIRST_PHASE",
        "PHASE_FLIPS",
        "TAIL_INCREMENT",
        "NQ_TAIL",
        "NQ_HEAD_UNIT",
        "HEAD_MAY_REACH_TAIL",
        "REINIT_RESETS_TAIL",
    ] {
        let verdict = &report["facts"][fact];
        assert_eq!(verdict["verdict"], "CONFIRMED", "{fact}: {verdict}");
    }
}

#[test]
fn the_script_writes_a_report_to_send_back() {
    let out = std::env::temp_dir().join(format!("nrta-emulated-{}", std::process::id()));
    std::fs::create_dir_all(&out).unwrap();
    let emulator = Emulator::start(small()).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/hardware-report");
    let nrta = env!("CARGO_BIN_EXE_nrta");
    let args = [
        "--nrta",
        nrta,
        "--out",
        out.to_str().unwrap(),
        "--core",
        "0",
    ];
    let said = run(&emulator, script, &args);
    let read = |extension: &str| {
        let mut files = std::fs::read_dir(&out).unwrap();
        let file = files.find_map(|file| {
            let path = file.unwrap().path();
            (path.extension()? == extension).then_some(path)
        });
        std::fs::read_to_string(file.unwrap()).unwrap()
    };
    if let Some(said) = said {
        assert_eq!(said.code, Some(0), "{said:?}");
        assert!(said.stdout.contains("send back"), "{said:?}");
        let report: Value = serde_json::from_str(&read("json")).unwrap();
        assert_eq!(report["facts"]["RING_IDS"]["verdict"], "CONFIRMED");
        let text = read("txt");
        for part in ["== doctor", "free: 0, 1", "== probe", "CONFIRMED  RING_IDS"] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }
    std::fs::remove_dir_all(&out).unwrap();
}

fn xu_abi_arch(number: u32) -> nrta::neuron::abi::Arch {
    nrta::neuron::abi::Arch::from_raw(number).unwrap()
}
