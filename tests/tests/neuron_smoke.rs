//! One model over the real driver's backend, opened by the builder, its system calls answered by the emulator.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use lane_tests::DIGITS;
use neuron_emu::{Config, Emulator};
use nrta::{Backend, Error, Model, Runtime};
use std::sync::Arc;
use xu_abi::driver::Arch;

fn emulator(arch: Arch, devices: u32) -> Arc<Emulator> {
    let config = Config {
        arch,
        devices,
        ..Config::default()
    };
    Emulator::start(config).unwrap()
}

/// Runs under the emulator, or says why not.
fn under<T: Send>(emulator: &Arc<Emulator>, test: impl FnOnce() -> T + Send) -> Option<T> {
    let outcome = neuron_emu::run(emulator, test);
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
        let labels = under(&emulator, || {
            let builder = Runtime::builder().backend(Backend::RealDriver);
            let runtime = builder.open().unwrap();
            println!("{}", runtime.settings());
            first_label(&runtime)
        });
        if let Some((label, expected)) = labels {
            assert_eq!(label, expected);
            let remains = emulator.remains();
            assert!(remains.is_clean() && remains.marks.is_empty(), "{remains}");
        }
    }
}

#[test]
fn d3_a_core_that_is_taken_is_refused_by_its_number_and_owner() {
    let emulator = emulator(Arch::V2, 1);
    under(&emulator, || {
        let builder = Runtime::builder().backend(Backend::RealDriver);
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
    under(&emulator, || {
        let builder = Runtime::builder().backend(Backend::RealDriver);
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
