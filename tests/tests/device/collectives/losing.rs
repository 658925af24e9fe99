//! Ranks that fail, give up or go away: nobody waits for them for ever.

use super::support::{Bench, Random, Tensor};
use lane_tests::{Parts, Rig};
use std::sync::Arc;
use xu_abi::{Status, TpbIndex};
use xu_device::collectives::{
    Collective, CollectiveError, Communicator, Loss, Lost, Plan, Progress,
};
use xu_device::elementwise::{Dtype, ReduceOp};
use xu_device::{DmaQueue, map};

lane_tests::on_both! {
    the_others_learn_of_a_rank_that_gave_up_at_whatever_moment with Parts::cores(3),
    a_queue_that_is_dropped_in_the_middle_is_a_loss with Parts::cores(3),
    a_rank_that_leaves_before_it_has_brought_a_plan_is_a_loss with Parts::cores(3),
    the_plan_of_a_unit_that_has_ended_is_abandoned,
    a_loss_is_noticed_in_the_middle_of_the_work_and_not_only_at_its_end,
    a_seat_that_nobody_can_take_any_more_is_a_loss,
    a_plan_that_is_dropped_unused_and_a_rank_that_leaves_afterwards_are_no_loss,
    d4_an_aborted_queue_ends_the_rank_with_its_own_status_and_the_others_with_1200 with Parts::cores(3),
    whoever_goes_and_whenever_every_other_rank_comes_to_an_end with Parts::cores(5),
    a_plan_that_is_dropped_after_it_was_committed_is_a_loss_and_before_it_is_none,
    a_committed_plan_is_abandoned_with_its_reason_and_a_begun_one_is_no_loss,
}

const ADD: Collective = Collective::AllReduce(ReduceOp::Add);
const RANKS: usize = 3;

fn begin_all(bench: &mut Bench, tensors: &[Tensor]) {
    for (rank, tensor) in tensors.iter().enumerate() {
        let plan = plan(bench, rank, tensor);
        bench.begin(rank, plan);
    }
}

fn plan(bench: &Bench, rank: usize, tensor: &Tensor) -> Plan {
    let all = [tensor.region()];
    bench.plan(rank, ADD, Dtype::Uint8, &all, &all).unwrap()
}

fn lost(rank: u32, loss: Loss) -> Progress {
    Progress::Fatal(CollectiveError::Lost(Lost { rank, loss }))
}

/// Steps some ranks until each has an outcome.
fn settle(bench: &mut Bench, ranks: &[usize]) -> Vec<Progress> {
    let mut outcome = |rank: usize| {
        (0..1_000)
            .map(|_| bench.dmas[rank].step(0))
            .find(|progress| *progress != Progress::Continue)
    };
    // Round after round, since they may depend on each other.
    ranks
        .iter()
        .map(|rank| outcome(*rank).expect("waits for ever"))
        .collect()
}

fn the_others_learn_of_a_rank_that_gave_up_at_whatever_moment(rig: &Rig) {
    let device = rig.device();
    for moment in 0..20 {
        let mut bench = Bench::on(Arc::clone(&device), RANKS as u32);
        let tensors = tensors(&bench);
        begin_all(&mut bench, &tensors);
        let mut random = Random(moment);
        for _ in 0..moment {
            let _ = bench.dmas[random.below(RANKS)].step(0);
        }
        // One step more, to be in the middle of it: rank 1 cannot be done without the others.
        if bench.dmas[1].step(0) == Progress::Done {
            continue;
        }
        let leftover = bench.dmas[1].end();
        assert!(
            leftover.is_none(),
            "no chunk is on its way on this machine after a step"
        );
        let outcomes = settle(&mut bench, &[0, 2]);
        assert_eq!(
            outcomes,
            vec![lost(1, Loss::GaveUp); 2],
            "after {moment} steps"
        );
        let CollectiveError::Lost(lost) = CollectiveError::from(bench.communicator.lost().unwrap())
        else {
            panic!("another error");
        };
        assert_eq!(
            CollectiveError::Lost(lost).status(),
            Status::EXEC_HW_ERR_COLLECTIVES
        );
    }
}

/// A tensor for each rank.
fn tensors(bench: &Bench) -> Vec<Tensor> {
    (0..RANKS)
        .map(|rank| bench.tensor(rank, &[1; 100]))
        .collect()
}

/// With the plan under way.
fn a_queue_that_is_dropped_in_the_middle_is_a_loss(rig: &Rig) {
    let mut bench = Bench::on(rig.device(), RANKS as u32);
    let held = tensors(&bench);
    begin_all(&mut bench, &held);
    let _ = bench.dmas[2].step(0);
    drop(bench.dmas.pop());
    assert_eq!(settle(&mut bench, &[0, 1]), vec![lost(2, Loss::GaveUp); 2]);
}

fn a_rank_that_leaves_before_it_has_brought_a_plan_is_a_loss(rig: &Rig) {
    let mut bench = Bench::on(rig.device(), RANKS as u32);
    let held = tensors(&bench);
    for rank in [0, 1] {
        let plan = plan(&bench, rank, &held[rank]);
        bench.begin(rank, plan);
    }
    assert_eq!(bench.dmas[0].step(0), Progress::Continue);
    drop(bench.ranks.pop());
    assert_eq!(settle(&mut bench, &[0, 1]), vec![lost(2, Loss::Left); 2]);
}

fn the_plan_of_a_unit_that_has_ended_is_abandoned(rig: &Rig) {
    let mut bench = Bench::on(rig.device(), 2);
    let held = [bench.tensor(0, &[1; 8]), bench.tensor(1, &[1; 8])];
    let (first, second) = (plan(&bench, 0, &held[0]), plan(&bench, 1, &held[1]));
    bench.begin(0, first);
    second.abandon(Status::EXEC_UNIT_UNRECOVERABLE);
    assert_eq!(
        settle(&mut bench, &[0]),
        [lost(1, Loss::Failed(Status::EXEC_UNIT_UNRECOVERABLE))]
    );
}

fn a_loss_is_noticed_in_the_middle_of_the_work_and_not_only_at_its_end(rig: &Rig) {
    let mut bench = Bench::on(rig.device(), 2);
    let bytes = vec![1; 600 << 10];
    let tensors = [bench.tensor(0, &bytes), bench.tensor(1, &bytes)];
    // Three tensors each: three reductions, of which the first has many chunks.
    for (rank, tensor) in tensors.iter().enumerate() {
        let parts = [0, 200 << 10, 400 << 10].map(|offset| tensor.part(offset, 200 << 10));
        let plan = bench.plan(rank, ADD, Dtype::Uint8, &parts, &parts);
        bench.begin(rank, plan.unwrap());
    }
    for rank in [0, 1, 0] {
        assert_eq!(bench.dmas[rank].step(0), Progress::Continue);
    }
    assert!(bench.dmas[1].end().is_none());
    assert_eq!(settle(&mut bench, &[0]), [lost(1, Loss::GaveUp)]);
    // The last reduction of rank 0 was never made.
    let third = tensors[0].bytes().split_off(400 << 10);
    assert!(third.iter().all(|byte| *byte == 1));
}

fn a_seat_that_nobody_can_take_any_more_is_a_loss(rig: &Rig) {
    let mut bench = Bench::on(rig.device(), 1);
    let communicator = Communicator::new(2, 1_000).unwrap();
    bench.ranks[0] = communicator.join(0).unwrap();
    let tensor = bench.tensor(0, &[1; 8]);
    let plan = plan(&bench, 0, &tensor);
    bench.begin(0, plan);
    assert_eq!(bench.dmas[0].step(0), Progress::Continue);
    let another = communicator.clone();
    drop(communicator);
    assert_eq!(bench.dmas[0].step(0), Progress::Continue);
    drop(another);
    assert_eq!(bench.dmas[0].step(0), lost(1, Loss::NeverJoined));
}

fn a_plan_that_is_dropped_unused_and_a_rank_that_leaves_afterwards_are_no_loss(rig: &Rig) {
    let mut bench = Bench::on(rig.device(), 2);
    let tensors = [bench.tensor(0, &[1; 8]), bench.tensor(1, &[1; 8])];
    drop(plan(&bench, 0, &tensors[0]));
    begin_all(&mut bench, &tensors);
    // Rank 0 is done and leaves while rank 1 has not looked yet: it comes last to every barrier.
    loop {
        for _ in 0..30 {
            assert_eq!(bench.dmas[1].step(0), Progress::Continue);
        }
        if bench.dmas[0].step(0) == Progress::Done {
            break;
        }
    }
    assert!(bench.dmas[0].end().is_none());
    drop(bench.ranks.remove(0));
    assert_eq!(
        bench.communicator.lost(),
        Some(Lost {
            rank: 0,
            loss: Loss::Left
        })
    );
    assert_eq!(bench.dmas[1].step(0), Progress::Done);
    assert_eq!(tensors[1].bytes(), [2; 8]);
}

fn queue(rank: u16) -> DmaQueue {
    map::collectives_queue(TpbIndex::new(rank))
}

fn d4_an_aborted_queue_ends_the_rank_with_its_own_status_and_the_others_with_1200(rig: &Rig) {
    let mut bench = Bench::on(rig.device(), RANKS as u32);
    let tensors = tensors(&bench);
    begin_all(&mut bench, &tensors);
    // More descriptors than were written: the queue meets a stale one and aborts.
    bench.device.start_dma(queue(1), 1).unwrap();
    for rank in [1, 0, 2, 0, 2, 0, 2] {
        assert_eq!(bench.dmas[rank].step(0), Progress::Continue);
    }
    let own = loop {
        match bench.dmas[1].step(0) {
            Progress::Continue => {}
            outcome => break outcome,
        }
    };
    let Progress::Fatal(CollectiveError::Own(error)) = own else {
        panic!("{own:?}");
    };
    assert_eq!(error.status(), Status::EXEC_HW_ERR_DMA_ABORT);
    assert!(bench.dmas[1].end().is_some());
    let loss = Loss::Failed(Status::EXEC_HW_ERR_DMA_ABORT);
    assert_eq!(settle(&mut bench, &[0, 2]), vec![lost(1, loss); 2]);
}

fn whoever_goes_and_whenever_every_other_rank_comes_to_an_end(rig: &Rig) {
    let device = rig.device();
    for seed in 0..150 {
        let mut random = Random(seed);
        let ranks = 2 + random.below(4);
        let mut bench = Bench::on(Arc::clone(&device), ranks as u32);
        let tensors: Vec<_> = (0..ranks)
            .map(|rank| bench.tensor(rank, &[1; 40]))
            .collect();
        begin_all(&mut bench, &tensors);
        let mut outcomes: Vec<Option<Progress>> = vec![None; ranks];
        let (goes, moment) = (random.below(ranks), random.below(60));
        for step in 0..3_000 {
            let rank = random.below(ranks);
            if step == moment {
                // What it has come to by then stands.
                assert!(bench.dmas[goes].end().is_none());
                outcomes[goes].get_or_insert(lost(goes as u32, Loss::GaveUp));
            }
            match bench.dmas[rank].step(0) {
                Progress::Continue => {}
                outcome => drop(outcomes[rank].get_or_insert(outcome)),
            }
        }
        for (rank, outcome) in outcomes.into_iter().enumerate() {
            match outcome.unwrap() {
                Progress::Done => {
                    assert_eq!(tensors[rank].bytes(), vec![ranks as u8; 40], "seed {seed}")
                }
                other => assert_eq!(other, lost(goes as u32, Loss::GaveUp), "seed {seed}"),
            }
        }
    }
}

fn a_plan_that_is_dropped_after_it_was_committed_is_a_loss_and_before_it_is_none(rig: &Rig) {
    let bench = Bench::on(rig.device(), 2);
    let tensor = bench.tensor(0, &[1; 8]);
    let all = [tensor.region()];
    let gather = Collective::AllReduce(ReduceOp::Add);
    let plan = || bench.plan(0, gather, Dtype::Uint8, &all, &all).unwrap();
    drop(plan());
    assert_eq!(bench.communicator.lost(), None);
    let mut committed = plan();
    committed.commit();
    assert_eq!(bench.communicator.lost(), None);
    drop(committed);
    let lost = |loss| Some(Lost { rank: 0, loss });
    assert_eq!(bench.communicator.lost(), lost(Loss::GaveUp));
}

fn a_committed_plan_is_abandoned_with_its_reason_and_a_begun_one_is_no_loss(rig: &Rig) {
    let mut bench = Bench::on(rig.device(), 1);
    let tensor = bench.tensor(0, &[1; 8]);
    let plan = |bench: &Bench| {
        let all = [tensor.region()];
        let max = Collective::AllReduce(ReduceOp::Max);
        let mut plan = bench.plan(0, max, Dtype::Uint8, &all, &all).unwrap();
        plan.commit();
        plan
    };
    let begun = plan(&bench);
    bench.begin(0, begun);
    assert_eq!(bench.run(1), [Progress::Done]);
    assert_eq!(bench.communicator.lost(), None);
    plan(&bench).abandon(Status::CLOSED);
    let loss = Loss::Failed(Status::CLOSED);
    assert_eq!(bench.communicator.lost(), Some(Lost { rank: 0, loss }));
}
