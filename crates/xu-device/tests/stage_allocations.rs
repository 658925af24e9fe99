//! Neither staging an execution nor counting a finished one takes anything from the heap. That staging reserves no
//! device memory either is seen in the logs of `tests/stage`.
//!
//! The heap of this binary counts on each thread by itself, so that the machine's own threads do not matter.
#![cfg(feature = "simulated")]
#![allow(clippy::unwrap_used, reason = "functions of tests")]

mod counting;

use counting::allocations_during;
use std::sync::Arc;
use std::time::Duration;
use xu_abi::metric::ErrorFlag;
use xu_abi::{DeviceAddr, Engine, Status, TpbIndex};
use xu_device::memory::DeviceMemory;
use xu_device::metrics::{Finished, Metrics};
use xu_device::program::{Blocks, Membership, Program};
use xu_device::simulated::isa::{INSTRUCTION_SIZE, Instruction};
use xu_device::simulated::{Machine, MachineConfig};
use xu_device::stage::{SkipConfig, Stager};
use xu_device::{Device, Place};
use zerocopy::IntoBytes;

const EXECUTIONS: usize = 500;

/// A program of five `Halt`s. A collective of one rank waits for nobody.
fn null_program(device: &Arc<dyn Device>, tpb: TpbIndex, group: Option<u32>) -> Arc<Program> {
    let place = Place::Hbm(tpb);
    let blocks = Blocks {
        bodies: Engine::ALL.map(|engine| Instruction::halt(engine).as_bytes().to_vec()),
        arena: DeviceMemory::allocate(device, place, 64, 64).unwrap(),
        bindings: 2,
        entry_bytes: INSTRUCTION_SIZE,
        entry: |engine, entry| Instruction::jump(engine, entry.body).as_bytes().to_vec(),
        sequencer_config: [1; 52],
        table_hash: [1; 64],
        collectives: group.map(|group| Membership {
            group,
            rank: 0,
            ranks: 1,
        }),
    };
    Arc::new(Program::load(device, tpb, 2, blocks).unwrap())
}

#[test]
fn the_heap_of_this_binary_counts() {
    assert_eq!(
        allocations_during(|| drop(std::hint::black_box(Box::new(1)))),
        1
    );
    assert_eq!(allocations_during(|| ()), 0);
}

#[test]
fn no_record_of_a_finished_execution_allocates() {
    let metrics = Metrics::new(17);
    let finished = Finished {
        status: Status::EXEC_OOB,
        flags: ErrorFlag::all().collect(),
        device: Some(Duration::from_micros(1)),
        total: Some(Duration::from_micros(2)),
        core: Some(Duration::from_micros(3)),
        cc: Some(Duration::from_micros(4)),
    };
    for tpb in [0, 3, 15, 16].map(TpbIndex::new) {
        let record = || metrics.record(tpb, &finished).unwrap();
        assert_eq!(allocations_during(record), 0, "core {tpb}");
    }
}

/// The fewest of three rounds: a lock that is contended for the first time on a thread may allocate; what each
/// execution allocates is in every round.
#[test]
fn no_execution_allocates_on_one_core_or_two_on_a_switch_or_not() {
    for tpbs in [1, 2] {
        for skip in [SkipConfig::Never, SkipConfig::WhenEqual] {
            let config = MachineConfig {
                tpbs,
                hbm_bytes: 1 << 20,
                host_bytes: 1 << 20,
                ..MachineConfig::default()
            };
            let machine = Machine::start(config).unwrap();
            let device: Arc<dyn Device> = Arc::clone(&machine) as _;
            let cores: Vec<TpbIndex> = (0..tpbs).map(TpbIndex::new).collect();
            let mut stager = Stager::open(&device, &cores, 2, skip).unwrap();
            let tensors = [DeviceAddr::new(1), DeviceAddr::new(2)];
            let models: Vec<Vec<Arc<Program>>> = [None, Some(1), Some(2)]
                .into_iter()
                .map(|group| {
                    let program = |tpb: &TpbIndex| null_program(&device, *tpb, group);
                    cores.iter().map(program).collect()
                })
                .collect();
            // One model for a while, then a switch each time.
            let mut round = |switching: bool| {
                let mut allocations = 0;
                for execution in 0..EXECUTIONS {
                    let programs = &models[if switching { execution % 3 } else { 0 }];
                    allocations += allocations_during(|| {
                        let prepared = stager.prepare(programs, &tensors).unwrap();
                        stager.commit(programs, &tensors, &prepared).unwrap();
                    });
                    for tpb in &cores {
                        machine
                            .quiesce(*tpb, core::time::Duration::from_secs(2))
                            .unwrap();
                    }
                }
                allocations
            };
            for switching in [false, true] {
                let fewest = (0..3).map(|_| round(switching)).min();
                assert_eq!(fewest, Some(0), "{tpbs} cores, {skip:?}, {switching}");
            }
        }
    }
}
