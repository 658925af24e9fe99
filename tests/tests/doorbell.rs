//! What an execution costs in system calls, counted by whoever answers them.
//!
//! A submit makes one call for each core. The worker that harvests makes others: it gives space of notification rings back, by
//! writing their heads, and reads the clock of the device again when its last reading is old.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use lane_tests::{DIGITS, Emulated, Kind, Parts, Rig};
use neuron_emu::Event;
use nrta::Model;
use std::collections::BTreeMap;
use xu_abi::Engine;
use xu_abi::driver::arch::at;
use xu_abi::driver::ioctl::{BAR_READ, BAR_WRITE, SEMAPHORE_INCREMENT};
use xu_abi::driver::nq_register::{NQ_HEAD, NQ_STRIDE};
use xu_abi::driver::{Arch, BarRw, Semaphore};
use xu_device::map::{INFERENCE_START, NOTIFICATION_QUEUES};

/// Executions that are counted: so many that space of notification rings is given back in between.
const EXECUTIONS: usize = 100;

/// The clock is read in one call: its upper half, its lower half, and the upper one again.
const CLOCK_REGISTERS: u32 = 3;

/// What an execution may have the driver see.
#[derive(Debug, PartialEq)]
enum Seen {
    /// The increment that starts this core.
    Doorbell(u32),
    /// A call that wrote registers; which is seen before.
    Registers,
    /// The harvester gave space of a ring back: the head of a notification queue was written.
    Head,
    /// The harvester read the clock.
    Clock,
    Other(Event),
}

fn seen(event: Event, arch: Arch) -> Seen {
    match &event {
        Event::Ioctl { name, argument, .. } if *name == Some(SEMAPHORE_INCREMENT.name) => {
            let argument: [u8; 12] = argument[..].try_into().unwrap();
            let semaphore = Semaphore::from_bytes(argument);
            if semaphore.semaphore_index == u32::from(INFERENCE_START.get()) {
                return Seen::Doorbell(semaphore.nc_id);
            }
        }
        Event::Ioctl { name, .. } if *name == Some(BAR_WRITE.name) => return Seen::Registers,
        Event::Ioctl { name, argument, .. } if *name == Some(BAR_READ.name) => {
            let argument: [u8; 32] = argument[..].try_into().unwrap();
            if BarRw::from_bytes(argument).count == CLOCK_REGISTERS {
                return Seen::Clock;
            }
        }
        Event::Register { offset, .. } if is_head(*offset, arch) => return Seen::Head,
        _ => {}
    }
    Seen::Other(event)
}

/// Whether a register is the head of a notification queue of a core.
fn is_head(offset: u64, arch: Arch) -> bool {
    let table = arch.table();
    let blocks = (0..u32::from(table.cores)).filter_map(|core| at(table.core_nq, core));
    let mut heads = blocks.flat_map(|block| {
        (0..NOTIFICATION_QUEUES).map(move |nq| block + NQ_STRIDE * u64::from(nq) + NQ_HEAD)
    });
    heads.any(|head| head == offset)
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
    let arch = emulator.config().arch;
    let (mut rung, mut heads, mut writes, mut others) = (BTreeMap::new(), 0, 0, Vec::new());
    let most_heads = Engine::ALL.len() as u64 + 1;
    for traced in emulator.trace() {
        match seen(traced.event, arch) {
            Seen::Doorbell(core) => *rung.entry(core).or_insert(0) += 1,
            Seen::Head => heads += 1,
            Seen::Registers => writes += 1,
            Seen::Clock => {}
            other @ Seen::Other(_) => others.push(other),
        }
    }
    let expected: BTreeMap<u32, usize> = (0..tpbs_per_core).map(|tpb| (tpb, EXECUTIONS)).collect();
    assert_eq!(rung, expected);
    assert_eq!(others, []);
    // A call gives back the space of as many rings as it can. The worker may be in the middle of one at either end.
    let calls = heads / most_heads..heads;
    assert!(calls.contains(&writes), "{heads} heads, {writes} calls");
    println!("{EXECUTIONS} executions, {heads} heads written in {writes} calls");
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
