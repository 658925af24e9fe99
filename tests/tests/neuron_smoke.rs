//! One model over the real driver's backend, opened by the builder, its system calls answered by the emulator.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use lane_tests::DIGITS;
use neuron_emu::config::Identity;
use neuron_emu::seccomp::run_in;
use neuron_emu::{Config, Emulator};
use nrta::{Backend, Builder, Error, Model, Runtime};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use xu_abi::driver::arch::Versions;
use xu_abi::driver::{Arch, Features};

fn emulator(arch: Arch, devices: u32) -> Arc<Emulator> {
    let config = Config {
        arch,
        devices,
        ..Config::default()
    };
    Emulator::start(config).unwrap()
}

/// Runs under the emulator, or says why not. The test is given a builder of runtimes on its devices: in a directory of its own,
/// since the backend shares descriptors by directory.
fn under<T: Send>(emulator: &Arc<Emulator>, test: impl FnOnce(Builder) -> T + Send) -> Option<T> {
    static STARTED: AtomicU32 = AtomicU32::new(0);
    let number = STARTED.fetch_add(1, Ordering::Relaxed);
    let directory = PathBuf::from(format!("/dev/emulated-{number}"));
    let builder = Runtime::builder()
        .backend(Backend::RealDriver)
        .neuron_device_directory(&directory);
    let outcome = run_in(emulator, &directory, || test(builder));
    if let Err(unavailable) = &outcome {
        println!("skipped: {unavailable}");
    }
    assert_eq!(emulator.bugs(), [], "the driver would have crashed");
    outcome.ok()
}

/// The label of the first held-out image, and what the file says it is.
fn first_label(runtime: &Runtime) -> (u8, u8) {
    let bytes = std::fs::read(format!("{DIGITS}/heldout.xud")).unwrap();
    let count = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    let (pixels, labels) = bytes[24..].split_at(count * 64);
    let core = runtime.core(0).unwrap();
    let model = Model::open(format!("{DIGITS}/model.xum")).unwrap();
    let loaded = core.load(&model, 1).unwrap();
    let image = loaded.allocate_input(0).unwrap();
    let outputs = [0, 1].map(|index| loaded.allocate_output(index).unwrap());
    let moves = core.tensor_op(0).unwrap();
    moves
        .write(&image, 0, pixels[..64].to_vec())
        .unwrap()
        .wait()
        .unwrap();
    core.compute()
        .execute(&loaded, &[&image], &[&outputs[0], &outputs[1]])
        .unwrap()
        .wait()
        .unwrap();
    let label = moves.read(&outputs[1], 0, vec![0; 4]).unwrap();
    (label.wait().unwrap()[0], labels[0])
}

#[test]
fn the_real_driver_s_backend_runs_a_model_on_both_architectures() {
    for arch in Arch::ALL {
        let emulator = emulator(*arch, 1);
        let labels = under(&emulator, |builder| {
            let runtime = builder.open().unwrap();
            println!("{}", runtime.settings());
            first_label(&runtime)
        });
        if let Some((label, expected)) = labels {
            assert_eq!(label, expected);
            let remains = emulator.remains();
            assert!(remains.is_empty(), "{remains}");
        }
    }
}

#[test]
fn s2_a_driver_that_is_too_old_or_too_new_is_refused_with_the_versions_that_are_spoken() {
    for (min, max) in [(1, 4), (8, 9), (12, 13)] {
        let identity = Identity {
            versions: Some(Versions { min, max }),
            ..Identity::default()
        };
        let config = Config {
            identity,
            ..Config::default()
        };
        let emulator = Emulator::start(config).unwrap();
        let refused = under(&emulator, |builder| builder.open().unwrap_err().to_string());
        if let Some(refused) = refused {
            let versions = format!("the driver speaks interface versions {min} to {max}");
            assert!(refused.contains(&versions), "{refused}");
            let remains = emulator.remains();
            assert!(remains.is_empty(), "{remains}");
        }
    }
}

#[test]
fn s2_a_driver_without_features_and_one_that_does_not_say_run_a_model() {
    for driver_info in [true, false] {
        let identity = Identity {
            features: Features::NONE,
            driver_info,
            ..Identity::default()
        };
        let config = Config {
            identity,
            ..Config::default()
        };
        let emulator = Emulator::start(config).unwrap();
        let labels = under(&emulator, |builder| first_label(&builder.open().unwrap()));
        if let Some((label, expected)) = labels {
            assert_eq!(label, expected);
        }
    }
}

#[test]
fn d3_a_core_that_is_taken_is_refused_by_its_number_and_owner() {
    let emulator = emulator(Arch::V2, 1);
    under(&emulator, |builder| {
        let first = builder.clone().open().unwrap();
        // Nobody said which: the next one.
        let second = builder.clone().open().unwrap();
        assert_eq!(first.settings().first_core.value, 0);
        assert_eq!(second.settings().first_core.value, 1);
        let Err(Error::Busy(busy)) = builder.clone().first_core(1).open() else {
            panic!("the core is taken")
        };
        assert_eq!((busy.core, busy.machine_cores), (1, 2));
        assert_eq!(busy.candidates, [std::process::id()]);
        second.close();
        assert!(builder.first_core(1).open().is_ok());
    });
}

#[test]
fn cores_of_two_devices_are_refused_and_both_are_named() {
    let emulator = emulator(Arch::V2, 2);
    under(&emulator, |builder| {
        let settings = builder.settings().unwrap();
        assert_eq!((settings.devices.value, settings.tpbs.value), (2, 4));
        let refused = builder.clone().first_core(1).cores(2).open().unwrap_err();
        assert_eq!(
            refused.to_string(),
            "cores 1 to 2 are of devices 0 and 1: a runtime drives one device, which has 2 of them; open one for each"
        );
        let second = builder.first_core(2).cores(2).open().unwrap();
        let (label, expected) = first_label(&second);
        assert_eq!(label, expected);
    });
}
