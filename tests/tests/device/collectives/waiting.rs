//! Ranks that are late, and how the others wait.

use super::support::{Bench, Tensor};
use lane_tests::{Parts, Rig};
use std::sync::{Arc, Weak};
use xu_device::collectives::{Collective, Communicator, Late, Plan, Progress, WARN_AFTER_NS};
use xu_device::elementwise::{Dtype, ReduceOp};

lane_tests::on_both! {
    a_late_rank_is_waited_for_and_the_warnings_double with Parts::cores(4),
    each_barrier_has_a_patience_of_its_own_and_time_may_stand_still_or_go_back,
    a_rank_that_has_not_joined_yet_is_late_like_any_other,
    nobody_is_done_before_all_have_read_and_memory_is_kept_until_then with Parts::cores(3),
}

const ADD: Collective = Collective::AllReduce(ReduceOp::Add);
const HOUR: u64 = 3_600_000_000_000;

fn begin(bench: &mut Bench, rank: usize, tensors: &[Tensor]) {
    let all = [tensors[rank].region()];
    let plan = bench.plan(rank, ADD, Dtype::Uint8, &all, &all).unwrap();
    bench.begin(rank, plan);
}

fn a_late_rank_is_waited_for_and_the_warnings_double(rig: &Rig) {
    let mut bench = Bench::on(rig.device(), 4);
    let tensors: Vec<_> = (0..4).map(|rank| bench.tensor(rank, &[1; 100])).collect();
    begin(&mut bench, 0, &tensors);
    begin(&mut bench, 2, &tensors);
    assert_eq!(bench.dmas[2].step(HOUR), Progress::Continue);
    assert_eq!(bench.dmas[0].step(HOUR), Progress::Continue);
    let late = |waited_ns, missing, first_missing| {
        Progress::Late(Late {
            waited_ns,
            missing,
            first_missing,
        })
    };
    let mut at = |after| bench.dmas[0].step(HOUR + after);
    assert_eq!(at(WARN_AFTER_NS - 1), Progress::Continue);
    assert_eq!(at(WARN_AFTER_NS), late(WARN_AFTER_NS, 2, 1));
    assert_eq!(at(WARN_AFTER_NS), Progress::Continue);
    assert_eq!(at(2 * WARN_AFTER_NS - 1), Progress::Continue);
    assert_eq!(at(2 * WARN_AFTER_NS), late(2 * WARN_AFTER_NS, 2, 1));
    assert_eq!(at(4 * WARN_AFTER_NS - 1), Progress::Continue);
    assert_eq!(at(HOUR), late(HOUR, 2, 1));
    assert_eq!(bench.dmas[0].warnings(), 3);
    begin(&mut bench, 1, &tensors);
    assert_eq!(bench.dmas[1].step(0), Progress::Continue);
    assert_eq!(bench.dmas[0].step(HOUR + 20 * HOUR), late(20 * HOUR, 1, 3));
    // No wait has a limit, and a late rank is no error.
    begin(&mut bench, 3, &tensors);
    assert_eq!(bench.run(1), vec![Progress::Done; 4]);
    for tensor in tensors {
        assert_eq!(tensor.bytes(), [4; 100]);
    }
}

fn each_barrier_has_a_patience_of_its_own_and_time_may_stand_still_or_go_back(rig: &Rig) {
    let mut bench = Bench::on(rig.device(), 2);
    let tensors: Vec<_> = (0..2).map(|rank| bench.tensor(rank, &[1; 100])).collect();
    begin(&mut bench, 0, &tensors);
    assert_eq!(bench.dmas[0].step(HOUR), Progress::Continue);
    assert_eq!(bench.dmas[0].step(0), Progress::Continue);
    assert!(matches!(bench.dmas[0].step(2 * HOUR), Progress::Late(_)));
    begin(&mut bench, 1, &tensors);
    assert_eq!(bench.dmas[1].step(0), Progress::Continue);
    // Rank 0 does its part and waits at the next barrier, from then on.
    for _ in 0..10 {
        assert_eq!(bench.dmas[0].step(3 * HOUR), Progress::Continue);
    }
    assert!(matches!(
        bench.dmas[0].step(3 * HOUR + WARN_AFTER_NS),
        Progress::Late(_)
    ));
    assert_eq!(bench.run(1), vec![Progress::Done; 2]);
}

fn a_rank_that_has_not_joined_yet_is_late_like_any_other(rig: &Rig) {
    let mut bench = Bench::on(rig.device(), 2);
    let communicator = Communicator::new(2, 5).unwrap();
    bench.ranks[0] = communicator.join(0).unwrap();
    let tensors: Vec<_> = (0..2).map(|rank| bench.tensor(rank, &[1; 100])).collect();
    begin(&mut bench, 0, &tensors);
    assert_eq!(bench.dmas[0].step(0), Progress::Continue);
    assert_eq!(bench.dmas[0].step(4), Progress::Continue);
    let late = Late {
        waited_ns: 5,
        missing: 1,
        first_missing: 1,
    };
    assert_eq!(bench.dmas[0].step(5), Progress::Late(late));
    bench.ranks[1] = communicator.join(1).unwrap();
    begin(&mut bench, 1, &tensors);
    assert_eq!(bench.run(7), vec![Progress::Done; 2]);
}

fn nobody_is_done_before_all_have_read_and_memory_is_kept_until_then(rig: &Rig) {
    let mut bench = Bench::on(rig.device(), 3);
    let tensors: Vec<_> = (0..3).map(|rank| bench.tensor(rank, &[1; 300])).collect();
    let mut kept: Vec<Weak<()>> = Vec::new();
    for (rank, tensor) in tensors.iter().enumerate() {
        let keep = Arc::new(());
        kept.push(Arc::downgrade(&keep));
        let all = [tensor.region()];
        let plan = Plan::prepare(
            &bench.device,
            &bench.ranks[rank],
            ADD,
            Dtype::Uint8,
            &all,
            &all,
            keep,
        );
        bench.begin(rank, plan.unwrap());
    }
    // Ranks 0 and 1 go as far as they can while rank 2 makes one step at a time.
    let mut others_done = false;
    for _ in 0..100 {
        let last = bench.dmas[2].step(0);
        for _ in 0..30 {
            let progress = [bench.dmas[0].step(0), bench.dmas[1].step(0)];
            others_done = progress.iter().all(|progress| *progress == Progress::Done);
        }
        assert!(kept.iter().all(|kept| kept.strong_count() > 0));
        if others_done {
            break;
        }
        assert_eq!(last, Progress::Continue);
    }
    assert!(others_done);
    // Rank 2 has read everything: its own result is there before it knows that it is done.
    assert_eq!(tensors[2].bytes(), [3; 300]);
    assert_eq!(bench.run(0), vec![Progress::Done; 3]);
    assert!(kept.iter().all(|kept| kept.strong_count() == 0));
}
