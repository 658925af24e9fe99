//! After opening and preparing, neither a tensor operation, nor a collective, nor staging an execution takes anything from the heap. That
//! staging reserves no device memory either is seen in the logs of the stager's tests in xu-device.
//!
//! The heap of this binary counts on each thread by itself: what others do, the machine's or the driver's, does not matter.
#![allow(clippy::unwrap_used, reason = "functions of tests")]

#[path = "../../crates/xu-device/tests/counting/mod.rs"]
mod counting;

use core::time::Duration;
use counting::allocations_during;
use lane_tests::{Kind, Parts, Rig};
use std::sync::Arc;
use xu_abi::{DeviceAddr, Engine, TpbIndex};
use xu_device::collectives::{self, Collective, CollectiveDma, Communicator, Plan};
use xu_device::elementwise::{Dtype, ReduceOp};
use xu_device::memory::DeviceMemory;
use xu_device::program::{Blocks, Membership, Program};
use xu_device::region::Region;
use xu_device::simulated::isa::{INSTRUCTION_SIZE, Instruction};
use xu_device::stage::{SkipConfig, Stager};
use xu_device::tensor_op::{HostBytes, Operation, Progress, TensorDma};
use xu_device::{Device, Place, map};
use zerocopy::IntoBytes;

lane_tests::on_both! {
    the_steps_of_a_tensor_operation_do_not_allocate,
    the_steps_of_a_collective_do_not_allocate with Parts::cores(3),
    no_execution_allocates_on_one_core_or_two_on_a_switch_or_not,
}

const BYTES: u64 = 600 << 10;

fn memory(device: &Arc<dyn Device>, core: u16) -> DeviceMemory {
    let place = Place::Hbm(TpbIndex::new(core));
    DeviceMemory::allocate(device, place, BYTES, 64).unwrap()
}

fn the_steps_of_a_tensor_operation_do_not_allocate(rig: &Rig) {
    let device = rig.device();
    let queue = map::transfer_queue(TpbIndex::new(0), 0);
    let mut dma = TensorDma::open(&device, queue, Some(1)).unwrap();
    let held = [(); 4].map(|()| memory(&device, 0));
    let [a, b, c, d] = held.each_ref().map(Region::of);
    let elements = BYTES / 4;
    let operations = [
        Operation::write(a),
        Operation::read(a),
        Operation::copy(a, b),
        Operation::memset(a, 3),
        Operation::cast(a, Dtype::Float32, b, Dtype::Fp8E4, elements),
        Operation::compute(ReduceOp::Add, Dtype::Bfloat16, vec![a, b, c], d, BYTES / 2),
        Operation::fma(Dtype::Float32, [a, b, c], d, elements),
    ];
    let mut host = vec![0; BYTES as usize];
    // The machine itself grows a buffer when it moves for the first time.
    for round in 0..2 {
        for operation in &operations {
            let operation = operation.clone().unwrap();
            let writes = operation == *operations[0].as_ref().unwrap();
            let reads = operation == *operations[1].as_ref().unwrap();
            let kind = format!("{operation:?}");
            let counted = allocations_during(|| {
                dma.begin(operation).unwrap();
                let look = |dma: &mut TensorDma, host: &mut [u8]| {
                    let host = match (writes, reads) {
                        (true, _) => HostBytes::Source(host),
                        (_, true) => HostBytes::Target(host),
                        _ => HostBytes::None,
                    };
                    dma.step(0, host)
                };
                while look(&mut dma, &mut host) == Progress::Continue {}
                assert!(!dma.end());
            });
            assert!(round == 0 || counted == 0, "{counted} for {kind}");
        }
    }
}

fn the_steps_of_a_collective_do_not_allocate(rig: &Rig) {
    const RANKS: u32 = 3;
    let device = rig.device();
    let communicator = Communicator::new(RANKS, 1).unwrap();
    let core = |rank: u32| TpbIndex::new(rank as u16);
    let open =
        |rank| CollectiveDma::open(&device, map::collectives_queue(core(rank)), Some(1)).unwrap();
    let mut dmas: Vec<_> = (0..RANKS).map(open).collect();
    let ranks: Vec<_> = (0..RANKS)
        .map(|rank| communicator.join(rank).unwrap())
        .collect();
    let held: Vec<_> = (0..RANKS as u16)
        .map(|core| memory(&device, core))
        .collect();
    let all = |rank: usize| Region::of(&held[rank]);
    let third = |rank: usize, index: u64| all(rank).slice(index * (BYTES / 3), BYTES / 3).unwrap();
    let sum = ReduceOp::Add;
    for round in 0..2 {
        for collective in [
            Collective::AllGather,
            Collective::AllReduce(sum),
            Collective::ReduceScatter(sum),
        ] {
            let plan = |rank: usize| {
                // With scratch where that can be, and with several reductions.
                let (inputs, outputs) = match collective {
                    Collective::AllGather => (vec![third(rank, 0)], vec![all(rank)]),
                    Collective::AllReduce(_) => {
                        let thirds = [0, 1, 2].map(|index| third(rank, index)).to_vec();
                        (thirds.clone(), thirds)
                    }
                    Collective::ReduceScatter(_) => (vec![all(rank)], vec![third(rank, 0)]),
                };
                let keep = Arc::new(());
                Plan::prepare(
                    &device,
                    &ranks[rank],
                    collective,
                    Dtype::Float16,
                    &inputs,
                    &outputs,
                    keep,
                )
                .unwrap()
            };
            let mut plans: Vec<_> = (0..RANKS as usize).map(plan).collect();
            let mut done = [false; RANKS as usize];
            let counted = allocations_during(|| {
                for dma in dmas.iter_mut().rev() {
                    dma.begin(plans.pop().unwrap()).unwrap();
                }
                while done != [true; RANKS as usize] {
                    for (dma, done) in dmas.iter_mut().zip(&mut done) {
                        *done = dma.step(0) == collectives::Progress::Done;
                    }
                }
                for dma in &mut dmas {
                    assert!(dma.end().is_none());
                }
            });
            assert!(round == 0 || counted == 0, "{counted} for {collective:?}");
        }
    }
}

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

/// The fewest of three rounds: a lock that is contended for the first time on a thread may allocate; what each
/// execution allocates is in every round.
fn no_execution_allocates_on_one_core_or_two_on_a_switch_or_not(rig: &Rig) {
    let device = rig.device();
    let executions = match rig.kind() {
        Kind::Simulated => 500,
        // Each waits by several system calls.
        Kind::Neuron => 100,
    };
    for tpbs in [1, 2] {
        for skip in [SkipConfig::Never, SkipConfig::WhenEqual] {
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
                for execution in 0..executions {
                    let programs = &models[if switching { execution % 3 } else { 0 }];
                    allocations += allocations_during(|| {
                        let prepared = stager.prepare(programs, &tensors).unwrap();
                        stager.commit(programs, &tensors, &prepared).unwrap();
                    });
                    for tpb in &cores {
                        device.quiesce(*tpb, Duration::from_secs(60)).unwrap();
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
