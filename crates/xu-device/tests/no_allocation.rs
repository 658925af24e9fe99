//! After opening and preparing, neither a tensor operation nor a collective allocates.
//!
//! Every allocation of the thread that steps is counted, so this binary has a file of its own.
#![allow(clippy::unwrap_used, reason = "functions of tests")]

mod counting;

use counting::allocations_during;
use std::sync::Arc;
use xu_abi::TpbIndex;
use xu_device::collectives::{self, Collective, CollectiveDma, Communicator, Plan};
use xu_device::elementwise::{Dtype, ReduceOp};
use xu_device::memory::DeviceMemory;
use xu_device::region::Region;
use xu_device::simulated::{Machine, MachineConfig};
use xu_device::tensor_op::{HostBytes, Operation, Progress, TensorDma};
use xu_device::{Device, Place, map};

const BYTES: u64 = 600 << 10;

fn machine(tpbs: u16) -> Arc<dyn Device> {
    let config = MachineConfig {
        tpbs,
        ..MachineConfig::default()
    };
    Machine::start(config).unwrap()
}

fn memory(device: &Arc<dyn Device>, core: u16) -> DeviceMemory {
    let place = Place::Hbm(TpbIndex::new(core));
    DeviceMemory::allocate(device, place, BYTES, 64).unwrap()
}

#[test]
fn the_steps_of_a_tensor_operation_do_not_allocate() {
    let device = machine(1);
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

#[test]
fn the_steps_of_a_collective_do_not_allocate() {
    const RANKS: u32 = 3;
    let device = machine(RANKS as u16);
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
