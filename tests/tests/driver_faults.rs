//! Faults of the driver and of the hardware, at every occasion there is, under a whole life of a runtime.
//!
//! Spec `driver_emulation.md` section 5, faults. Whatever goes wrong, and whenever: an error with a type or a status, no
//! panic and no hang; nothing of the runtime is left in the driver; and the next one that is opened computes right, unless
//! the device itself is gone.
//!
//! A copy of the driver's that times out is not among them: a life like this one makes none, since what it writes is mapped. Tests
//! of `xu-device` have it.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use lane_tests::DIGITS;
use neuron_emu::config::{DriverFault, DriverRule};
use neuron_emu::seccomp::run_in;
use neuron_emu::{Config, Emulator, Event};
use nrta::{Backend, Model, Runtime};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

/// Occasions that one life has, at most: a fault that still comes after so many has no end.
const MOST: u64 = 400;
/// Executions of a life.
const EXECUTIONS: usize = 2;

fn config() -> Config {
    Config {
        hbm_bytes: 128 << 20,
        host_bytes: 64 << 20,
        ..Config::default()
    }
}

/// Opens, loads, executes and closes; the labels, or what was refused, and where.
fn live(builder: nrta::Builder) -> Result<Vec<u8>, Box<dyn Error>> {
    let runtime = builder.backend(Backend::RealDriver).open()?;
    let result = compute(&runtime);
    runtime.close();
    result
}

fn compute(runtime: &Runtime) -> Result<Vec<u8>, Box<dyn Error>> {
    let core = runtime.core(0)?;
    let model = Model::open(format!("{DIGITS}/model.xum"))?;
    let loaded = core.load(&model, 1)?;
    let image = loaded.allocate_input(0)?;
    let outputs = [loaded.allocate_output(0)?, loaded.allocate_output(1)?];
    let moves = core.tensor_op(0)?;
    let held_out = std::fs::read(format!("{DIGITS}/heldout.xud"))?;
    let mut labels = Vec::new();
    for pixels in held_out[24..].chunks(64).take(EXECUTIONS) {
        moves.write(&image, 0, pixels.to_vec())?.wait()?;
        let outputs = [&outputs[0], &outputs[1]];
        core.compute()
            .execute(&loaded, &[&image], &outputs)?
            .wait()?;
        labels.push(moves.read(outputs[1], 0, vec![0; 4])?.wait()?[0]);
    }
    Ok(labels)
}

/// Nothing of the process is left, and the driver did not crash. `gone`: a device may be.
fn check(emulator: &Emulator, what: &str) {
    assert_eq!(emulator.bugs(), [], "{what}");
    let mut remains = emulator.remains();
    for node in &mut remains.nodes {
        node.gone = None;
    }
    assert!(remains.is_empty(), "{what}: {remains}");
}

/// How often a fault of the driver has happened.
fn happened(emulator: &Emulator, fault: DriverFault) -> usize {
    let is_it = |event: &Event| matches!(event, Event::Fault(other) if *other == fault);
    let trace = emulator.trace();
    trace.iter().filter(|traced| is_it(&traced.event)).count()
}

/// A life with the fault at each occasion, one after the other, until there are no more of them; then one without.
/// `lasts`: the device does not come back from it, and each life has one of its own.
fn at_every_occasion(fault: DriverFault, lasts: bool) {
    let expected = labels();
    // One for each test: the backend shares descriptors of one process by directory.
    let directory = format!("/dev/{}", fault.name());
    let directory = Path::new(&directory);
    let whole_life = || {
        let builder = Runtime::builder().neuron_device_directory(directory);
        live(builder).map_err(|error| error.to_string())
    };
    let mut emulator = Emulator::start(config()).unwrap();
    for occasion in 0..MOST {
        if lasts && occasion > 0 {
            emulator = Emulator::start(config()).unwrap();
        }
        let what = format!("{} at occasion {occasion}", fault.name());
        emulator.clear_trace();
        emulator.inject(DriverRule::once(fault, occasion));
        let Some(lived) = under(&emulator, directory, whole_life) else {
            return;
        };
        check(&emulator, &what);
        if let Ok(labels) = &lived {
            assert_eq!(*labels, expected, "{what}");
        }
        println!("{what}: {lived:?}");
        let came = happened(&emulator, fault);
        if came == 0 {
            assert!(lived.is_ok(), "{what}: {lived:?}");
            assert_ne!(occasion, 0, "{} never happens", fault.name());
            return;
        }
        if !lasts {
            let next = under(&emulator, directory, whole_life);
            assert_eq!(next, Some(Ok(expected.clone())), "after {what}");
            check(&emulator, &what);
        }
    }
    panic!("{} has more than {MOST} occasions", fault.name());
}

fn under<T: Send>(
    emulator: &Arc<Emulator>,
    directory: &Path,
    test: impl FnOnce() -> T + Send,
) -> Option<T> {
    let outcome = run_in(emulator, directory, test);
    if let Err(why) = &outcome {
        println!("skipped: {why}");
    }
    outcome.ok()
}

/// The right ones.
fn labels() -> Vec<u8> {
    let runtime = Runtime::builder()
        .backend(Backend::Simulated)
        .open()
        .unwrap();
    compute(&runtime).unwrap()
}

#[test]
fn no_memory_at_every_allocation() {
    at_every_occasion(DriverFault::NoMemory, false);
}

#[test]
fn busy_at_every_open() {
    at_every_occasion(DriverFault::BusyOpen, false);
}

#[test]
fn busy_at_every_mark() {
    at_every_occasion(DriverFault::BusyMark, false);
}

#[test]
fn a_signal_in_every_wait() {
    at_every_occasion(DriverFault::Interrupted, false);
}

#[test]
fn every_reset_fails() {
    at_every_occasion(DriverFault::ResetFails, true);
}

#[test]
fn somebody_else_initialises_the_core() {
    at_every_occasion(DriverFault::InitElsewhere, false);
}

#[test]
fn old_bytes_in_every_chunk_of_the_host() {
    at_every_occasion(DriverFault::ReservePool, false);
}

#[test]
fn the_device_is_pulled_out_before_every_call() {
    at_every_occasion(DriverFault::Removed, true);
}
