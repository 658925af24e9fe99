//! What is refused when a collective is prepared, and when plans meet that do not fit together.

use super::support::{Bench, Random, Tensor};
use lane_tests::{Parts, Rig};
use xu_abi::{Status, TpbIndex};
use xu_device::collectives::{
    Collective, CollectiveDma, CollectiveError, Communicator, Difference, Loss, Lost, MAX_RANKS,
    Mismatch, Plan, PlanError, Progress,
};
use xu_device::elementwise::{Dtype, ReduceOp};
use xu_device::region::Region;
use xu_device::tensor_op::OperationError;
use xu_device::{Place, map};

lane_tests::on_both! {
    d4_sizes_and_lists_must_fit_the_collective with Parts::cores(3),
    d4_tensors_are_in_the_device_memory_of_one_core,
    d4_tensors_of_a_plan_overlap_only_where_that_can_be_right,
    plans_that_do_not_fit_together_are_refused_on_every_rank_and_the_ranks_go_on with Parts::cores(3),
    ranks_that_use_the_same_memory_are_refused with Parts::cores(3),
    a_rank_takes_part_in_one_collective_at_a_time,
    d4_overlaps_of_long_lists_are_found_as_if_every_pair_were_compared,
    the_longest_lists_of_the_most_ranks_are_prepared_in_place,
}

const ADD: Collective = Collective::AllReduce(ReduceOp::Add);
const SCATTER: Collective = Collective::ReduceScatter(ReduceOp::Add);
const GATHER: Collective = Collective::AllGather;

fn d4_sizes_and_lists_must_fit_the_collective(rig: &Rig) {
    let bench = Bench::on(rig.device(), 3);
    let tensor = bench.tensor(0, &[0; 4096]);
    let at = |index: u64, bytes| tensor.part(index * 256, bytes);
    let error = |collective, inputs: &[Region], outputs: &[Region]| {
        let refused = bench
            .plan(0, collective, Dtype::Float32, inputs, outputs)
            .unwrap_err();
        assert_eq!(refused.status(), Status::INVALID);
        refused
    };
    let sizes = |input, output| PlanError::Sizes {
        input,
        output,
        ranks: 3,
    };
    assert_eq!(error(ADD, &[at(0, 8)], &[at(1, 12)]), sizes(8, 12));
    assert_eq!(error(GATHER, &[at(0, 8)], &[at(1, 16)]), sizes(8, 16));
    assert_eq!(error(SCATTER, &[at(0, 16)], &[at(1, 8)]), sizes(16, 8));
    assert_eq!(
        error(GATHER, &[at(0, 8)], &[at(1, 8), at(2, 8), at(3, 12)]),
        sizes(8, 12)
    );
    assert_eq!(
        error(SCATTER, &[at(1, 8), at(2, 8), at(3, 12)], &[at(0, 8)]),
        sizes(12, 8)
    );
    let lists = |inputs, outputs| PlanError::Lists {
        inputs,
        outputs,
        ranks: 3,
    };
    assert_eq!(
        error(ADD, &[at(0, 8)], &[at(1, 8), at(2, 8), at(3, 8)]),
        lists(1, 3)
    );
    assert_eq!(
        error(GATHER, &[at(0, 8)], &[at(1, 8), at(2, 8)]),
        lists(1, 2)
    );
    assert_eq!(
        error(SCATTER, &[at(1, 8), at(2, 8)], &[at(0, 8)]),
        lists(2, 1)
    );
    assert_eq!(error(ADD, &[], &[]), PlanError::Tensors { count: 0 });
    assert_eq!(
        error(ADD, &[at(0, 8); 257], &[at(1, 8)]),
        PlanError::Tensors { count: 257 }
    );
    let elements = PlanError::Elements {
        bytes: 10,
        dtype: Dtype::Float32,
    };
    assert_eq!(error(ADD, &[at(0, 10)], &[at(1, 10)]), elements);
    // Sizes whose product does not fit are not equal to anything.
    let huge = Region::new(
        tensor.region().place(),
        xu_abi::DeviceAddr::new(1 << 40),
        1 << 63,
    )
    .unwrap();
    assert_eq!(error(GATHER, &[huge], &[at(1, 8)]), sizes(1 << 63, 8));
}

fn d4_tensors_are_in_the_device_memory_of_one_core(rig: &Rig) {
    let bench = Bench::on(rig.device(), 2);
    let (here, there) = (bench.tensor(0, &[0; 64]), bench.tensor(1, &[0; 64]));
    let host = Region::new(Place::Host, here.region().addr(), 64).unwrap();
    for (input, output) in [(here.region(), host), (host, here.region())] {
        let refused = bench
            .plan(0, ADD, Dtype::Int8, &[input], &[output])
            .unwrap_err();
        assert_eq!(refused, PlanError::NotDeviceMemory { region: host });
    }
    let refused = bench
        .plan(0, ADD, Dtype::Int8, &[here.region()], &[there.region()])
        .unwrap_err();
    let [place, other] = [0, 1].map(|core| Place::Hbm(TpbIndex::new(core)));
    assert_eq!(refused, PlanError::Apart { place, other });
}

fn d4_tensors_of_a_plan_overlap_only_where_that_can_be_right(rig: &Rig) {
    let bench = Bench::on(rig.device(), 2);
    let tensor = bench.tensor(0, &[0; 256]);
    let at = |offset, bytes| tensor.part(offset, bytes);
    let overlap = |one, other| PlanError::Overlap { one, other };
    let plan = |collective, inputs: &[Region], outputs: &[Region]| {
        bench
            .plan(0, collective, Dtype::Int8, inputs, outputs)
            .map(drop)
    };
    // Shifted against itself.
    assert_eq!(
        plan(ADD, &[at(0, 64)], &[at(8, 64)]),
        Err(overlap(at(0, 64), at(8, 64)))
    );
    // Two outputs.
    assert_eq!(
        plan(ADD, &[at(0, 8), at(8, 8)], &[at(64, 8), at(68, 8)]),
        Err(overlap(at(64, 8), at(68, 8)))
    );
    // One part would write what another one reads.
    assert!(matches!(
        plan(ADD, &[at(0, 8), at(8, 8)], &[at(8, 8), at(0, 8)]),
        Err(PlanError::Overlap { .. })
    ));
    assert!(matches!(
        plan(GATHER, &[at(0, 8), at(8, 8)], &[at(64, 16), at(0, 16)]),
        Err(PlanError::Overlap { .. })
    ));
    // The same inputs twice, and in place.
    assert_eq!(
        plan(ADD, &[at(0, 8), at(0, 8)], &[at(64, 8), at(128, 8)]),
        Ok(())
    );
    assert_eq!(
        plan(ADD, &[at(0, 8), at(8, 8)], &[at(0, 8), at(8, 8)]),
        Ok(())
    );
}

/// Three ranks, of which the last has another plan.
fn meet(
    bench: &mut Bench,
    plans: [(Collective, Dtype, &[Region], &[Region]); 3],
    seed: u64,
) -> Vec<Progress> {
    for (rank, (collective, dtype, inputs, outputs)) in plans.into_iter().enumerate() {
        let plan = bench
            .plan(rank, collective, dtype, inputs, outputs)
            .unwrap();
        bench.begin(rank, plan);
    }
    bench.run(seed)
}

fn plans_that_do_not_fit_together_are_refused_on_every_rank_and_the_ranks_go_on(rig: &Rig) {
    let mut bench = Bench::on(rig.device(), 3);
    let ins: Vec<Tensor> = (0..3).map(|rank| bench.tensor(rank, &[1; 24])).collect();
    let outs: Vec<Tensor> = (0..3).map(|rank| bench.tensor(rank, &[9; 72])).collect();
    let input = |rank: usize| [ins[rank].region()];
    let output = |rank: usize, bytes| [outs[rank].part(0, bytes)];
    let reduce = |rank: usize| (ADD, Dtype::Int8, input(rank), output(rank, 24));
    let odd = [
        (
            Difference::Collective,
            (GATHER, Dtype::Int8, input(2), output(2, 72)),
        ),
        (
            Difference::Reduction,
            (
                Collective::AllReduce(ReduceOp::Max),
                Dtype::Int8,
                input(2),
                output(2, 24),
            ),
        ),
        (
            Difference::Dtype,
            (ADD, Dtype::Uint8, input(2), output(2, 24)),
        ),
        (
            Difference::Sizes,
            (ADD, Dtype::Int8, [ins[2].part(0, 23)], output(2, 23)),
        ),
    ];
    for (seed, (difference, odd)) in odd.into_iter().enumerate() {
        let (a, b) = (reduce(0), reduce(1));
        let plans = [
            (a.0, a.1, &a.2[..], &a.3[..]),
            (b.0, b.1, &b.2[..], &b.3[..]),
            (odd.0, odd.1, &odd.2[..], &odd.3[..]),
        ];
        let mismatch = CollectiveError::Mismatch(Mismatch {
            one: 0,
            other: 2,
            difference,
        });
        assert_eq!(mismatch.status(), Status::INVALID);
        let outcomes = meet(&mut bench, plans, seed as u64);
        assert_eq!(outcomes, vec![Progress::Refused(mismatch); 3]);
        for tensor in &outs {
            assert_eq!(tensor.bytes(), [9; 72]);
        }
    }
    let all = [0, 1, 2].map(reduce);
    let plans = all
        .each_ref()
        .map(|plan| (plan.0, plan.1, &plan.2[..], &plan.3[..]));
    assert_eq!(meet(&mut bench, plans, 1), vec![Progress::Done; 3]);
    assert_eq!(outs[0].bytes()[..24], [3; 24]);
    assert_eq!(bench.communicator.lost(), None);
}

fn ranks_that_use_the_same_memory_are_refused(rig: &Rig) {
    let mut bench = Bench::on(rig.device(), 3);
    // All in the memory of one core; rank 2 writes what rank 1 reads.
    let tensor = bench.tensor(0, &[1; 256]);
    let at = |offset| [tensor.part(offset, 8)];
    let regions = [(at(0), at(64)), (at(8), at(72)), (at(100), at(12))];
    let plans = regions
        .each_ref()
        .map(|(input, output)| (ADD, Dtype::Int8, &input[..], &output[..]));
    let mismatch = Mismatch {
        one: 1,
        other: 2,
        difference: Difference::Overlap,
    };
    assert_eq!(
        meet(&mut bench, plans, 3),
        vec![Progress::Refused(mismatch.into()); 3]
    );
    assert_eq!(tensor.bytes(), [1; 256]);
    // What several only read is shared.
    let regions = [(at(0), at(64)), (at(0), at(72)), (at(0), at(80))];
    let plans = regions
        .each_ref()
        .map(|(input, output)| (ADD, Dtype::Int8, &input[..], &output[..]));
    assert_eq!(meet(&mut bench, plans, 3), vec![Progress::Done; 3]);
    assert_eq!(tensor.bytes()[64..88], [3; 24]);
}

fn a_rank_takes_part_in_one_collective_at_a_time(rig: &Rig) {
    let mut bench = Bench::on(rig.device(), 2);
    let tensor = bench.tensor(0, &[1; 8]);
    let plan = |bench: &Bench| -> Plan {
        let all = [tensor.region()];
        bench.plan(0, ADD, Dtype::Int8, &all, &all).unwrap()
    };
    for other_queue in [false, true] {
        let (first, second) = (plan(&bench), plan(&bench));
        bench.begin(0, first);
        if other_queue {
            let queue = map::transfer_queue(TpbIndex::new(1), 0);
            let mut another = CollectiveDma::open(&bench.device, queue, None).unwrap();
            let busy = CollectiveError::RankBusy { rank: 0 };
            assert_eq!(another.begin(second), Err(busy));
        } else {
            let under_way = CollectiveError::Own(OperationError::UnderWay);
            assert_eq!(bench.dmas[0].begin(second), Err(under_way));
        }
        // The others may be waiting for the second one, and it is gone.
        let loss = Loss::Failed(Status::INVALID);
        let lost = Lost { rank: 0, loss };
        assert_eq!(bench.communicator.lost(), Some(lost));
        assert!(bench.dmas[0].end().is_none());
        bench.communicator = Communicator::new(2, 1).unwrap();
        bench.ranks[0] = bench.communicator.join(0).unwrap();
    }
}

/// Whether a plan of pairs may be: the rules as they are said, every pair of tensors compared.
fn may_be(collective: Collective, inputs: &[Region], outputs: &[Region]) -> bool {
    let pairs = |of: usize| (0..of).flat_map(move |one| (0..of).map(move |other| (one, other)));
    let apart = pairs(outputs.len())
        .filter(|(one, other)| one != other)
        .all(|(one, other)| !outputs[one].overlaps(outputs[other]));
    let in_order = pairs(inputs.len()).all(|(input, output)| {
        let (one, other) = (inputs[input], outputs[output]);
        let own =
            input == output && (one == other || !matches!(collective, Collective::AllReduce(_)));
        own || !one.overlaps(other)
    });
    apart && in_order
}

fn d4_overlaps_of_long_lists_are_found_as_if_every_pair_were_compared(rig: &Rig) {
    let bench = Bench::on(rig.device(), 2);
    let tensor = bench.tensor(0, &[0; 512]);
    let mut random = Random(7);
    let (mut right, mut wrong) = (0, 0);
    for _ in 0..20_000 {
        let collective = [ADD, GATHER, SCATTER][random.below(3)];
        let (input, output) = match collective {
            ADD => (8, 8),
            GATHER => (8, 16),
            _ => (16, 8),
        };
        let pairs = 1 + random.below(4);
        let mut list = |bytes: u64| -> Vec<Region> {
            let mut one = |bytes| tensor.part(4 * random.below(124) as u64, bytes);
            (0..pairs).map(|_| one(bytes)).collect()
        };
        let (mut inputs, mut outputs) = (list(input), list(output));
        if random.below(4) == 0 {
            // Empty ones have no bytes in common with anything.
            let empty = random.below(pairs);
            inputs[empty] = inputs[empty].slice(0, 0).unwrap();
            outputs[empty] = outputs[empty].slice(0, 0).unwrap();
        }
        if random.below(2) == 0 && collective == ADD {
            inputs[0] = outputs[0];
        }
        match bench.plan(0, collective, Dtype::Int8, &inputs, &outputs) {
            Ok(_) => {
                right += 1;
                assert!(
                    may_be(collective, &inputs, &outputs),
                    "{collective:?} {inputs:?} {outputs:?}"
                );
            }
            Err(PlanError::Overlap { one, other }) => {
                wrong += 1;
                assert!(one.overlaps(other), "{one} {other}");
                assert!(
                    !may_be(collective, &inputs, &outputs),
                    "{collective:?} {inputs:?} {outputs:?}"
                );
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(right > 2_000 && wrong > 2_000, "{right} {wrong}");
}

fn the_longest_lists_of_the_most_ranks_are_prepared_in_place(rig: &Rig) {
    let mut bench = Bench::on(rig.device(), 1);
    let communicator = Communicator::new(MAX_RANKS, 1).unwrap();
    bench.ranks[0] = communicator.join(0).unwrap();
    let tensor = bench.tensor(0, &[0; 256 * 512]);
    let regions: Vec<Region> = (0..256)
        .rev()
        .map(|index| tensor.part(index * 512, 512))
        .collect();
    // Every shard with every other one would be four thousand million comparisons.
    bench
        .plan(0, ADD, Dtype::Uint16, &regions, &regions)
        .unwrap();
    let turned: Vec<Region> = regions.iter().rev().copied().collect();
    let refused = bench.plan(0, ADD, Dtype::Uint16, &regions, &turned);
    assert!(matches!(refused, Err(PlanError::Overlap { .. })));
}
