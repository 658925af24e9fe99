//! What an execution costs in system calls, counted by whoever answers them.
//!
//! A submit makes one call for each core. The worker, for its part, gives space of notification rings back, by writing their heads.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use lane_tests::{DIGITS, Emulated, Kind, Parts, Rig};
use neuron_emu::{Event, Traced};
use nrta::Model;
use std::collections::BTreeMap;
use xu_abi::driver::Semaphore;
use xu_abi::driver::ioctl::{BAR_WRITE, SEMAPHORE_INCREMENT};
use xu_device::map::INFERENCE_START;

/// Executions that are counted.
const EXECUTIONS: usize = 10;

/// The core whose doorbell this is, if it is one.
fn doorbell(traced: &Traced) -> Option<u32> {
    let Event::Ioctl { name, argument, .. } = &traced.event else {
        return None;
    };
    let argument: [u8; 12] = argument.get(..12)?.try_into().ok()?;
    let semaphore = Semaphore::from_bytes(argument);
    let is_start = semaphore.semaphore_index == u32::from(INFERENCE_START.get());
    (*name == Some(SEMAPHORE_INCREMENT.name) && is_start).then_some(semaphore.nc_id)
}

/// Whether it is a write to registers: the heads of notification rings, which the harvest returns when it waits.
fn gives_space_back(traced: &Traced) -> bool {
    matches!(&traced.event, Event::Ioctl { name, .. } if *name == Some(BAR_WRITE.name))
}

fn counted(rig: &Rig, tpbs_per_core: u32) {
    let Some(emulator) = rig.emulated().and_then(Emulated::emulator) else {
        println!("skipped: nobody can look into the preloaded library");
        return;
    };
    let builder = rig.builder().tpbs_per_core(tpbs_per_core);
    let runtime = builder.open().unwrap();
    let core = runtime.core(0).unwrap();
    let model = Model::open(format!("{DIGITS}/model.xum")).unwrap();
    let loaded = core.load(&model, tpbs_per_core).unwrap();
    let image = loaded.allocate_input(0).unwrap();
    let outputs = [0, 1].map(|index| loaded.allocate_output(index).unwrap());
    let bound = loaded.bind(&[&image], &[&outputs[0], &outputs[1]]).unwrap();
    let compute = core.compute();
    let execute = || compute.execute_bound(&bound).unwrap().wait().unwrap();
    execute();
    emulator.clear_trace();
    for _ in 0..EXECUTIONS {
        execute();
    }
    let trace = emulator.trace();
    let mut rung = BTreeMap::new();
    for core in trace.iter().filter_map(doorbell) {
        *rung.entry(core).or_insert(0) += 1;
    }
    let expected: BTreeMap<u32, usize> = (0..tpbs_per_core).map(|tpb| (tpb, EXECUTIONS)).collect();
    assert_eq!(rung, expected);
    let others: Vec<_> = trace
        .iter()
        .filter(|traced| doorbell(traced).is_none() && !gives_space_back(traced))
        .collect();
    assert!(others.is_empty(), "{others:#?}");
    runtime.close();
}

#[test]
fn an_execution_is_one_semaphore_increment() {
    let _skipped = Kind::Neuron.with(Parts::default(), |rig| counted(rig, 1));
}

#[test]
fn an_execution_on_two_physical_cores_is_one_semaphore_increment_for_each() {
    let _skipped = Kind::Neuron.with(Parts::default(), |rig| counted(rig, 2));
}
