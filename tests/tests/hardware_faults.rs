//! Faults of the hardware, each kind at every occasion, under a whole life of a runtime over the driver's interface.
//!
//! Spec `driver_emulation.md` section 5. Whatever goes wrong, and whenever: an error with a status, or the right labels; no panic
//! and no hang; the runtime closes and leaves nothing in the driver; and the next one computes right, unless the device itself
//! is gone. Which status it is tests of single faults say.
//!
//! A reservation that fails is not among them: the driver makes them all, and has a fault of its own for it (`driver_faults`).
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use lane_tests::life::{Failed, Means};
use neuron_emu::seccomp::run_in;
use neuron_emu::{Config, Emulator};
use nrta::simulated::{Engine, Fault, FaultPlan, Mark, Rule, When};
use nrta::{Backend, Builder, Runtime, Status};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Occasions that one life has, at most.
const MOST: u64 = 40;
/// Until an execution that hangs is given up.
const LIMIT: Duration = Duration::from_millis(80);
/// The same, where nothing hangs.
const LONG_LIMIT: Duration = Duration::from_secs(20);
const MILLISECOND: u64 = 1_000_000;
const EIO: i32 = 5;
const EINTR: i32 = 4;

/// What a fault may lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum May {
    /// An error, or labels that are right.
    Fail,
    /// The same, and the device is gone.
    LoseTheDevice,
}

struct Bench {
    means: Means,
    expected: Vec<u8>,
    directory: PathBuf,
}

impl Bench {
    /// `name`: the backend shares descriptors of one process by directory.
    fn new(name: &str) -> Self {
        let means = Means::read();
        Self {
            expected: means.expected(),
            means,
            directory: PathBuf::from(format!("/dev/faults-{name}")),
        }
    }

    fn builder(&self) -> Builder {
        Runtime::builder()
            .backend(Backend::RealDriver)
            .neuron_device_directory(&self.directory)
    }

    fn live(&self, emulator: &Arc<Emulator>, builder: Builder) -> Option<Lived> {
        let lived = run_in(emulator, &self.directory, || self.means.live(builder));
        if let Err(why) = &lived {
            println!("skipped: {why}");
        }
        lived.ok()
    }

    /// A life with the fault at each occasion, until there are no more of them, each followed by one without.
    fn at_every_occasion(&self, fault: &Fault, may: May) {
        for occasion in 0..MOST {
            match self.at(occasion, fault, may) {
                Some(true) => {}
                Some(false) => return assert_ne!(occasion, 0, "{fault:?} never happens"),
                None => return,
            }
        }
        panic!("{fault:?} has more than {MOST} occasions");
    }

    /// A life with the fault, and the driver under it. One that failed though nothing went wrong was too slow for the limit, and is
    /// lived again with a longer one.
    fn live_with(&self, fault: &Fault, occasion: u64) -> Option<(Arc<Emulator>, Lived)> {
        let live = |limit| {
            let emulator = Emulator::start(failing(fault, occasion)).unwrap();
            let lived = self.live(&emulator, self.builder().exec_timeout(Some(limit)))?;
            Some((emulator, lived))
        };
        let (emulator, lived) = live(LIMIT)?;
        match lived.is_err() && emulator.injected(0).is_empty() {
            true => live(LONG_LIMIT),
            false => Some((emulator, lived)),
        }
    }

    /// Whether there is such an occasion; `None` where system calls cannot be answered.
    fn at(&self, occasion: u64, fault: &Fault, may: May) -> Option<bool> {
        let what = format!("{fault:?} at occasion {occasion}");
        let (emulator, lived) = self.live_with(fault, occasion)?;
        println!("{what}: {lived:?}");
        check(&emulator, may, &what);
        match &lived {
            Ok(labels) => assert_eq!(*labels, self.expected, "{what}"),
            Err(failed) => assert_ne!(failed.status, Status::SUCCESS, "{what}"),
        }
        if emulator.injected(0).is_empty() {
            assert_eq!(lived.as_ref(), Ok(&self.expected), "without {what}");
            return Some(false);
        }
        let next = self.live(&emulator, self.builder());
        match may {
            May::Fail => assert_eq!(next, Some(Ok(self.expected.clone())), "after {what}"),
            May::LoseTheDevice => assert!(matches!(next, Some(Err(_))), "after {what}"),
        }
        check(&emulator, may, &what);
        Some(true)
    }
}

type Lived = Result<Vec<u8>, Failed>;

fn failing(fault: &Fault, occasion: u64) -> Config {
    let when = When {
        from: occasion,
        times: Some(1),
        ..When::default()
    };
    Config {
        hbm_bytes: 128 << 20,
        host_bytes: 64 << 20,
        faults: FaultPlan {
            rules: vec![Rule {
                when,
                fault: fault.clone(),
            }],
        },
        ..Config::default()
    }
}

/// Nothing of the process is left, and the driver did not crash.
fn check(emulator: &Emulator, may: May, what: &str) {
    assert_eq!(emulator.bugs(), [], "{what}");
    let mut remains = emulator.remains();
    if may == May::LoseTheDevice {
        for node in &mut remains.nodes {
            node.gone = None;
        }
    }
    assert!(remains.is_empty(), "{what}: {remains}");
}

fn all(name: &str, faults: &[Fault]) {
    let bench = Bench::new(name);
    for fault in faults {
        bench.at_every_occasion(fault, May::Fail);
    }
}

const ENGINES: [Engine; 2] = [Engine::Pe, Engine::Sp];

/// The same of several engines.
fn of_engines(name: &str, fault: impl Fn(Engine) -> Vec<Fault>) {
    let faults: Vec<Fault> = ENGINES.into_iter().flat_map(fault).collect();
    all(name, &faults);
}

#[test]
fn engines_that_hang_are_slow_or_end_late() {
    of_engines("engines", |engine| {
        vec![
            Fault::HangEngine { engine },
            Fault::SlowEngine {
                engine,
                by_ns: MILLISECOND,
            },
            Fault::LateEnd {
                engine,
                by_ns: MILLISECOND,
            },
        ]
    });
}

#[test]
fn records_that_are_lost_or_come_twice() {
    of_engines("lost", |engine| {
        let both = [Mark::Start, Mark::End].into_iter();
        both.flat_map(|record| {
            [
                Fault::DropRecord { engine, record },
                Fault::DuplicateRecord { engine, record },
            ]
        })
        .collect()
    });
}

#[test]
fn records_that_are_out_of_order_or_of_another_kind() {
    of_engines("kind", |engine| {
        vec![
            Fault::ReorderRecords { engine },
            Fault::UnknownSubtype {
                engine,
                subtype: 0x7777,
            },
            Fault::BadDebugHint { engine, hint: 15 },
            Fault::Custom { engine, sub_id: 3 },
            Fault::Custom {
                engine,
                sub_id: 0xFFFF,
            },
        ]
    });
}

#[test]
fn records_with_any_byte_altered() {
    let faults: Vec<Fault> = (0..16)
        .map(|byte| Fault::CorruptRecord {
            engine: Engine::Act,
            record: [Mark::Start, Mark::End][usize::from(byte % 2)],
            byte,
            with: 0xFF,
        })
        .collect();
    all("bytes", &faults);
}

#[test]
fn queues_that_are_full() {
    of_engines("full", |engine| {
        let both = [true, false].into_iter();
        both.map(|latched| Fault::Overflow { engine, latched })
            .collect()
    });
}

#[test]
fn errors_that_the_core_reports() {
    all(
        "errors",
        &[
            Fault::Numerical,
            Fault::Transient,
            Fault::Sequencer,
            Fault::EccCorrectable,
            Fault::EccUncorrectable,
            Fault::UnknownError { id: 0 },
            Fault::UnknownError { id: 255 },
        ],
    );
}

#[test]
fn memory_that_cannot_be_corrected() {
    of_engines("memory", |engine| {
        let both = [true, false].into_iter();
        both.map(|repairable| Fault::HbmUncorrectable { engine, repairable })
            .collect()
    });
}

#[test]
fn queues_and_doorbells_that_fail() {
    all(
        "queues",
        &[
            Fault::DmaAbort,
            Fault::DoorbellLost,
            Fault::DoorbellFails { errno: EIO },
            Fault::DoorbellFails { errno: EINTR },
            Fault::TransferAborts,
        ],
    );
}

#[test]
fn transfers_that_never_arrive() {
    let bench = Bench::new("transfers");
    // The first write and the first read: closing waits two seconds for a queue that is not done.
    for occasion in 0..2 {
        assert_ne!(
            bench.at(occasion, &Fault::TransferHangs, May::Fail),
            Some(false)
        );
    }
}

#[test]
fn the_device_goes_at_every_execution() {
    Bench::new("gone").at_every_occasion(&Fault::DeviceLost, May::LoseTheDevice);
}
