//! Results, against a reference over host bytes, for every order of steps that a seed decides.

use super::support::{Bench, Random, Tensor};
use crate::cases;
use lane_tests::{Parts, Rig};
use proptest::prelude::*;
use std::sync::Arc;
use xu_device::collectives::{Collective, Plan, Progress};
use xu_device::elementwise::{Dtype, ReduceOp, accumulate};
use xu_device::region::Region;

lane_tests::on_both! {
    every_rank_gets_what_the_reference_says_in_any_order_of_steps_in_place_or_not with Parts::cores(8),
    the_result_of_an_all_reduce_is_the_same_bits_on_every_rank_and_every_time with Parts::cores(8),
    a_rank_may_begin_its_next_collective_before_the_others_know_that_the_last_one_is_over with Parts::cores(3),
    lists_are_collectives_one_after_the_other with Parts::cores(3),
    shards_may_be_tensors_of_their_own with Parts::cores(3),
    one_rank_alone_makes_a_copy,
    ranks_on_threads_of_their_own_get_the_same_results with Parts::cores(4),
}

/// All inputs combined, from rank 0 to the last.
fn reduced(op: ReduceOp, dtype: Dtype, inputs: &[Vec<u8>]) -> Vec<u8> {
    let mut result = inputs[0].clone();
    for input in &inputs[1..] {
        accumulate(op, dtype, &mut result, input);
    }
    result
}

/// What each rank should get.
fn reference(collective: Collective, dtype: Dtype, inputs: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let ranks = inputs.len();
    match collective {
        Collective::AllGather => vec![inputs.concat(); ranks],
        Collective::AllReduce(op) => vec![reduced(op, dtype, inputs); ranks],
        Collective::ReduceScatter(op) => {
            let all = reduced(op, dtype, inputs);
            let shard = all.len() / ranks;
            (0..ranks)
                .map(|rank| all[rank * shard..(rank + 1) * shard].to_vec())
                .collect()
        }
    }
}

/// Where input and output of a rank lie.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Layout {
    /// In two tensors.
    Apart,
    /// In one, the smaller one where the rank's own shard is.
    OwnShard,
    /// In one, the smaller one somewhere else.
    Shifted(usize),
}

/// Input and output of one rank, and the tensors that hold them.
struct Buffers {
    input: Region,
    output: Region,
    tensors: Vec<Tensor>,
}

impl Buffers {
    fn new(
        bench: &Bench,
        rank: usize,
        input: &[u8],
        output: usize,
        layout: Layout,
        step: usize,
    ) -> Self {
        let small = input.len().min(output);
        let large = input.len().max(output);
        let offset = match layout {
            Layout::Apart => {
                let tensors = vec![
                    bench.tensor(rank, input),
                    bench.tensor(rank, &vec![0xEE; output]),
                ];
                let (input, output) = (tensors[0].region(), tensors[1].region());
                return Self {
                    input,
                    output,
                    tensors,
                };
            }
            Layout::OwnShard if small == large => 0,
            Layout::OwnShard => rank * small,
            Layout::Shifted(offset) => offset % (large - small + 1) / step * step,
        };
        let mut bytes = vec![0xEE; large];
        let start = if input.len() == small { offset } else { 0 };
        bytes[start..start + input.len()].copy_from_slice(input);
        let tensor = bench.tensor(rank, &bytes);
        let (whole, part) = (tensor.region(), tensor.part(offset as u64, small as u64));
        let (input, output) = if input.len() == small {
            (part, whole)
        } else {
            (whole, part)
        };
        Self {
            input,
            output,
            tensors: vec![tensor],
        }
    }

    fn output(&self) -> Vec<u8> {
        let holder = self.tensors.last().unwrap();
        let start = (self.output.addr().get() - holder.region().addr().get()) as usize;
        holder.bytes()[start..start + self.output.bytes() as usize].to_vec()
    }
}

fn collectives() -> impl Strategy<Value = Collective> {
    let op = proptest::sample::select(&ReduceOp::ALL[..]);
    prop_oneof![
        Just(Collective::AllGather),
        op.clone().prop_map(Collective::AllReduce),
        op.prop_map(Collective::ReduceScatter),
    ]
}

fn layouts() -> impl Strategy<Value = Layout> {
    prop_oneof![
        Just(Layout::Apart),
        Just(Layout::OwnShard),
        (0..100_000usize).prop_map(Layout::Shifted)
    ]
}

/// Elements of the smaller side.
fn elements() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 0..50usize, 1 => 5_000..40_000usize]
}

/// One collective of all ranks, each with a layout of its own; returns inputs and buffers.
fn begin(
    bench: &mut Bench,
    random: &mut Random,
    collective: Collective,
    dtype: Dtype,
    elements: usize,
    layouts: &[Layout],
) -> (Vec<Vec<u8>>, Vec<Buffers>) {
    let ranks = bench.ranks.len();
    let small = elements * dtype.bytes();
    let (input, output) = match collective {
        Collective::AllGather => (small, small * ranks),
        Collective::AllReduce(_) => (small, small),
        Collective::ReduceScatter(_) => (small * ranks, small),
    };
    let inputs: Vec<Vec<u8>> = (0..ranks).map(|_| random.bytes(input)).collect();
    let mut buffers = Vec::new();
    for (rank, bytes) in inputs.iter().enumerate() {
        let made = Buffers::new(bench, rank, bytes, output, layouts[rank], dtype.bytes());
        let plan = bench.plan(rank, collective, dtype, &[made.input], &[made.output]);
        bench.begin(rank, plan.unwrap());
        buffers.push(made);
    }
    (inputs, buffers)
}

fn every_rank_gets_what_the_reference_says_in_any_order_of_steps_in_place_or_not(rig: &Rig) {
    let device = rig.device();
    proptest!(cases(80), |(
        ranks in 1..=8u32,
        collective in collectives(),
        dtype in proptest::sample::select(&Dtype::ALL[..]),
        elements in elements(),
        layouts in proptest::collection::vec(layouts(), 8),
        seed: u64,
    )| {
        let mut bench = Bench::on(Arc::clone(&device), ranks);
        let mut random = Random(seed);
        // Two in a row over the same queues.
        for _ in 0..2 {
            let (inputs, buffers) = begin(&mut bench, &mut random, collective, dtype, elements, &layouts);
            let outcomes = bench.run(random.next());
            prop_assert_eq!(outcomes, vec![Progress::Done; ranks as usize]);
            let wanted = reference(collective, dtype, &inputs);
            for (rank, (buffers, wanted)) in buffers.iter().zip(&wanted).enumerate() {
                prop_assert_eq!(&buffers.output(), wanted, "rank {}", rank);
                if layouts[rank] == Layout::Apart {
                    prop_assert_eq!(&buffers.tensors[0].bytes(), &inputs[rank], "input of rank {}", rank);
                }
            }
        }
    });
}

fn the_result_of_an_all_reduce_is_the_same_bits_on_every_rank_and_every_time(rig: &Rig) {
    let values = [1e8f32, 1.0, -1e8, 1.0, 3.0, -0.5, 1e-8, 7.0];
    let device = rig.device();
    for seed in 0..40 {
        let mut bench = Bench::on(Arc::clone(&device), 8);
        let mut outputs = Vec::new();
        for (rank, value) in values.iter().enumerate() {
            let tensor = bench.tensor(rank, &value.to_le_bytes().repeat(100));
            let all = [tensor.region()];
            let plan = bench.plan(
                rank,
                Collective::AllReduce(ReduceOp::Add),
                Dtype::Float32,
                &all,
                &all,
            );
            bench.begin(rank, plan.unwrap());
            outputs.push(tensor);
        }
        assert_eq!(bench.run(seed), vec![Progress::Done; 8]);
        let wanted = values.into_iter().reduce(|sum, value| sum + value).unwrap();
        for tensor in outputs {
            assert_eq!(tensor.bytes(), wanted.to_le_bytes().repeat(100));
        }
    }
}

fn a_rank_may_begin_its_next_collective_before_the_others_know_that_the_last_one_is_over(
    rig: &Rig,
) {
    const ROUNDS: u32 = 20;
    let device = rig.device();
    for seed in 0..30 {
        let mut bench = Bench::on(Arc::clone(&device), 3);
        let tensors: Vec<_> = (0..3).map(|rank| bench.tensor(rank, &[1; 1000])).collect();
        let mut random = Random(seed);
        let mut begun = [0; 3];
        let mut done = [0; 3];
        while done != [ROUNDS; 3] {
            let rank = random.below(3);
            if begun[rank] == done[rank] && done[rank] < ROUNDS {
                let all = [tensors[rank].region()];
                let sum = Collective::AllReduce(ReduceOp::Add);
                let plan = bench.plan(rank, sum, Dtype::Uint8, &all, &all);
                bench.begin(rank, plan.unwrap());
                begun[rank] += 1;
            }
            for _ in 0..random.below(20) {
                match bench.dmas[rank].step(0) {
                    Progress::Continue => {}
                    Progress::Done if begun[rank] > done[rank] => {
                        assert!(bench.dmas[rank].end().is_none());
                        done[rank] += 1;
                    }
                    Progress::Done => break,
                    other => panic!("{other:?}"),
                }
            }
        }
        for tensor in &tensors {
            assert_eq!(tensor.bytes(), [3u8.wrapping_pow(ROUNDS); 1000]);
        }
    }
}

fn lists_are_collectives_one_after_the_other(rig: &Rig) {
    let device = rig.device();
    for collective in [
        Collective::AllGather,
        Collective::AllReduce(ReduceOp::Max),
        Collective::ReduceScatter(ReduceOp::Min),
    ] {
        let mut bench = Bench::on(Arc::clone(&device), 3);
        let mut random = Random(5);
        let sizes = [40usize, 8, 1200];
        let mut inputs = vec![Vec::new(); sizes.len()];
        let mut outputs = Vec::new();
        let mut held = Vec::new();
        for rank in 0..3 {
            let mut regions = (Vec::new(), Vec::new());
            let mut own = Vec::new();
            for (part, size) in sizes.into_iter().enumerate() {
                let (input, output) = match collective {
                    Collective::AllGather => (size, 3 * size),
                    Collective::AllReduce(_) => (size, size),
                    Collective::ReduceScatter(_) => (3 * size, size),
                };
                let bytes = random.bytes(input);
                let (from, to) = (
                    bench.tensor(rank, &bytes),
                    bench.tensor(rank, &vec![0; output]),
                );
                regions.0.push(from.region());
                regions.1.push(to.region());
                inputs[part].push(bytes);
                own.push(to);
                held.push(from);
            }
            let plan = bench.plan(rank, collective, Dtype::Int32, &regions.0, &regions.1);
            bench.begin(rank, plan.unwrap());
            outputs.push(own);
        }
        assert_eq!(bench.run(9), vec![Progress::Done; 3]);
        for (part, inputs) in inputs.iter().enumerate() {
            let wanted = reference(collective, Dtype::Int32, inputs);
            for rank in 0..3 {
                assert_eq!(
                    outputs[rank][part].bytes(),
                    wanted[rank],
                    "{collective:?} {part} {rank}"
                );
            }
        }
    }
}

fn shards_may_be_tensors_of_their_own(rig: &Rig) {
    // Rank 1 has its shards in one tensor, the others in a list: they meet all the same.
    let device = rig.device();
    for collective in [
        Collective::AllGather,
        Collective::ReduceScatter(ReduceOp::Add),
    ] {
        let mut bench = Bench::on(Arc::clone(&device), 3);
        let mut random = Random(1);
        let inputs: Vec<Vec<Vec<u8>>> = (0..3)
            .map(|_| (0..3).map(|_| random.bytes(20)).collect())
            .collect();
        let mut outputs = Vec::new();
        let mut held = Vec::new();
        for (rank, shards) in inputs.iter().enumerate() {
            let gathers = collective == Collective::AllGather;
            let one = if gathers {
                shards[0].clone()
            } else {
                vec![0; 20]
            };
            let many: Vec<Vec<u8>> = if gathers {
                vec![vec![0; 20]; 3]
            } else {
                shards.clone()
            };
            let many = if rank == 1 { vec![many.concat()] } else { many };
            let one = vec![bench.tensor(rank, &one)];
            let many: Vec<Tensor> = many.iter().map(|bytes| bench.tensor(rank, bytes)).collect();
            let regions =
                |tensors: &[Tensor]| tensors.iter().map(Tensor::region).collect::<Vec<_>>();
            let (ins, outs) = if gathers { (one, many) } else { (many, one) };
            let plan = bench.plan(
                rank,
                collective,
                Dtype::Uint16,
                &regions(&ins),
                &regions(&outs),
            );
            bench.begin(rank, plan.unwrap());
            held.push(ins);
            outputs.push(outs);
        }
        assert_eq!(bench.run(3), vec![Progress::Done; 3]);
        let flat: Vec<Vec<u8>> = inputs
            .iter()
            .map(|shards| {
                if collective == Collective::AllGather {
                    shards[0].clone()
                } else {
                    shards.concat()
                }
            })
            .collect();
        let wanted = reference(collective, Dtype::Uint16, &flat);
        for (outputs, wanted) in outputs.iter().zip(wanted) {
            let found: Vec<u8> = outputs.iter().flat_map(Tensor::bytes).collect();
            assert_eq!(found, wanted, "{collective:?}");
        }
    }
}

fn one_rank_alone_makes_a_copy(rig: &Rig) {
    let device = rig.device();
    for collective in [
        Collective::AllGather,
        Collective::AllReduce(ReduceOp::Add),
        Collective::ReduceScatter(ReduceOp::Max),
    ] {
        let mut bench = Bench::on(Arc::clone(&device), 1);
        // Signalling NaN included.
        let bytes: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        let (from, to) = (
            bench.tensor(0, &bytes),
            bench.tensor(0, &vec![0; bytes.len()]),
        );
        let plan = bench.plan(
            0,
            collective,
            Dtype::Float16,
            &[from.region()],
            &[to.region()],
        );
        bench.begin(0, plan.unwrap());
        assert_eq!(bench.run(0), [Progress::Done]);
        assert_eq!(to.bytes(), bytes);
    }
}

fn ranks_on_threads_of_their_own_get_the_same_results(rig: &Rig) {
    const ROUNDS: u32 = 15;
    let Bench {
        device,
        ranks,
        dmas,
        communicator: _communicator,
    } = Bench::on(rig.device(), 4);
    std::thread::scope(|scope| {
        for (index, (rank, mut dma)) in ranks.into_iter().zip(dmas).enumerate() {
            let device = &device;
            scope.spawn(move || {
                let tensor = Tensor::new(device, index, &1u32.to_le_bytes().repeat(1_250));
                let all = [tensor.region()];
                for round in 1..=ROUNDS {
                    let sum = Collective::AllReduce(ReduceOp::Add);
                    let keep = Arc::new(());
                    let plan = Plan::prepare(device, &rank, sum, Dtype::Uint32, &all, &all, keep);
                    dma.begin(plan.unwrap()).unwrap();
                    loop {
                        match dma.step(0) {
                            Progress::Continue => std::thread::yield_now(),
                            outcome => break assert_eq!(outcome, Progress::Done),
                        }
                    }
                    assert!(dma.end().is_none());
                    assert_eq!(
                        tensor.bytes(),
                        4u32.wrapping_pow(round).to_le_bytes().repeat(1_250)
                    );
                }
                // Rank and queue go here, while others may still be about to look at the last barrier.
            });
        }
    });
}
