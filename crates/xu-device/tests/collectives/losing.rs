//! Ranks that fail, give up or go away: nobody waits for them for ever.

use crate::scripted::{Call, Scripted};
use crate::support::{Bench, LIMIT, Random, Tensor};
use std::sync::Arc;
use xu_abi::{Status, TpbIndex};
use xu_device::collectives::{
    Collective, CollectiveError, Communicator, Loss, Lost, Plan, Progress,
};
use xu_device::elementwise::{Dtype, ReduceOp};
use xu_device::tensor_op::OperationError;
use xu_device::{DeviceError, DmaQueue, map};

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

#[test]
fn the_others_learn_of_a_rank_that_gave_up_at_whatever_moment() {
    for moment in 0..20 {
        let mut bench = Bench::open(RANKS as u32);
        let tensors: Vec<_> = (0..RANKS)
            .map(|rank| bench.tensor(rank, &[1; 100]))
            .collect();
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

#[test]
fn a_queue_that_is_dropped_in_the_middle_and_a_rank_that_leaves_are_losses() {
    let tensors = |bench: &Bench| -> Vec<Tensor> {
        (0..RANKS)
            .map(|rank| bench.tensor(rank, &[1; 100]))
            .collect()
    };
    // The queue goes, with the plan under way.
    let mut bench = Bench::open(RANKS as u32);
    let held = tensors(&bench);
    begin_all(&mut bench, &held);
    let _ = bench.dmas[2].step(0);
    drop(bench.dmas.pop());
    assert_eq!(settle(&mut bench, &[0, 1]), vec![lost(2, Loss::GaveUp); 2]);
    // The rank goes, before it has brought a plan.
    let mut bench = Bench::open(RANKS as u32);
    let held = tensors(&bench);
    for rank in [0, 1] {
        let plan = plan(&bench, rank, &held[rank]);
        bench.begin(rank, plan);
    }
    assert_eq!(bench.dmas[0].step(0), Progress::Continue);
    drop(bench.ranks.pop());
    assert_eq!(settle(&mut bench, &[0, 1]), vec![lost(2, Loss::Left); 2]);
    // The plan of a unit that has ended is abandoned.
    let mut bench = Bench::open(2);
    let held = [bench.tensor(0, &[1; 8]), bench.tensor(1, &[1; 8])];
    let (first, second) = (plan(&bench, 0, &held[0]), plan(&bench, 1, &held[1]));
    bench.begin(0, first);
    second.abandon(Status::EXEC_UNIT_UNRECOVERABLE);
    assert_eq!(
        settle(&mut bench, &[0]),
        [lost(1, Loss::Failed(Status::EXEC_UNIT_UNRECOVERABLE))]
    );
}

#[test]
fn a_loss_is_noticed_in_the_middle_of_the_work_and_not_only_at_its_end() {
    let mut bench = Bench::open(2);
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

#[test]
fn a_seat_that_nobody_can_take_any_more_is_a_loss() {
    let mut bench = Bench::open(1);
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

#[test]
fn a_plan_that_is_dropped_unused_and_a_rank_that_leaves_afterwards_are_no_loss() {
    let mut bench = Bench::open(2);
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

/// Ranks on a scripted device, on which every chunk arrives at once unless a script says otherwise.
fn scripted_bench() -> (Arc<Scripted>, Bench, Vec<Tensor>) {
    let (scripted, device) = Scripted::new(2);
    let bench = Bench::on(device, 2);
    let tensors = (0..2).map(|rank| bench.tensor(rank, &[1; 64])).collect();
    scripted.forget();
    (scripted, bench, tensors)
}

/// The chunk that was looked at last arrives.
fn arrive(scripted: &Scripted) {
    let looked_at = scripted
        .log()
        .into_iter()
        .rev()
        .find_map(|call| match call {
            Call::Load(from) => Some(from),
            _ => None,
        });
    scripted.poke(looked_at.unwrap(), &map::COMPLETION_MARKER.to_le_bytes());
}

fn queue(rank: u16) -> DmaQueue {
    map::collectives_queue(TpbIndex::new(rank))
}

#[test]
fn d8_a_rank_whose_descriptors_fail_is_fatal_itself_and_a_loss_to_the_others() {
    // The marker, and the four descriptors of its first operand.
    for failing in 0..5 {
        let (scripted, mut bench, tensors) = scripted_bench();
        begin_all(&mut bench, &tensors);
        let (mut steps, mut writes) = (0, 0);
        while steps < 2 {
            let _ = bench.dmas[steps].step(0);
            steps += 1;
        }
        let busy = DeviceError::Os {
            what: "room",
            reason: "none".into(),
        };
        let error = busy.clone();
        scripted.fail(move |call| {
            let write = matches!(call, Call::Write(..));
            writes += usize::from(write);
            (write && writes == failing + 1).then(|| error.clone())
        });
        let own = if failing == 0 {
            // Nothing was posted; but the others have met this rank.
            OperationError::Before(busy)
        } else {
            OperationError::InFlight(busy)
        };
        assert_eq!(
            bench.dmas[0].step(0),
            Progress::Fatal(own.clone().into()),
            "{failing}"
        );
        assert_eq!(bench.dmas[0].step(0), Progress::Fatal(own.clone().into()));
        assert_eq!(bench.dmas[0].end().is_some(), failing > 0);
        scripted.fail(|_| None);
        let first = Lost {
            rank: 0,
            loss: Loss::Failed(own.status()),
        };
        // The other one does its own part, and learns at the barrier.
        let other = loop {
            match bench.dmas[1].step(0) {
                Progress::Continue => arrive(&scripted),
                outcome => break outcome,
            }
        };
        assert_eq!(other, Progress::Fatal(first.into()));
        assert!(bench.dmas[1].end().is_none());
        assert_eq!(bench.communicator.lost(), Some(first));
    }
}

#[test]
fn d4_an_aborted_queue_ends_the_rank_with_its_own_status_and_the_others_with_1200() {
    let mut bench = Bench::open(RANKS as u32);
    let tensors: Vec<_> = (0..RANKS)
        .map(|rank| bench.tensor(rank, &[1; 100]))
        .collect();
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

#[test]
fn d6_a_chunk_that_does_not_arrive_ends_the_rank_and_what_the_device_may_touch_is_given_back() {
    let (_scripted, mut bench, tensors) = scripted_bench();
    let keeps: Vec<Arc<()>> = vec![Arc::new(()), Arc::new(())];
    for rank in 0..2 {
        let all = [tensors[rank].region()];
        let keep = Arc::clone(&keeps[rank]);
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
    let kept = |rank: usize| Arc::strong_count(&keeps[rank]) > 1;
    for rank in [0, 1, 0, 1] {
        assert_eq!(bench.dmas[rank].step(10), Progress::Continue);
    }
    assert_eq!(bench.dmas[0].step(10 + LIMIT - 1), Progress::Continue);
    let bytes = 32;
    let timeout = OperationError::Timeout {
        bytes,
        limit_ns: LIMIT,
    };
    assert_eq!(
        bench.dmas[0].step(10 + LIMIT),
        Progress::Fatal(timeout.into())
    );
    let leftover = bench.dmas[0].end();
    assert!(leftover.is_some());
    // The other rank's chunk is on its way, too, until it times out itself.
    assert_eq!(bench.dmas[1].step(10), Progress::Continue);
    let other = bench.dmas[1].end();
    assert!(other.is_some());
    assert!(kept(0) && kept(1));
    // Each keeps what its own queue may touch, which is memory of both.
    drop(other);
    assert!(kept(0) && kept(1));
    drop(leftover);
    assert!(!kept(0) && !kept(1));
    // A queue that has failed takes nothing, and says so to the ranks of another communicator.
    let communicator = Communicator::new(2, 1).unwrap();
    bench.ranks[0] = communicator.join(0).unwrap();
    let refused = plan(&bench, 0, &tensors[0]);
    assert_eq!(
        bench.dmas[0].begin(refused),
        Err(OperationError::QueueFailed.into())
    );
    let loss = Loss::Failed(Status::EXEC_UNIT_UNRECOVERABLE);
    assert_eq!(communicator.lost(), Some(Lost { rank: 0, loss }));
}

#[test]
fn d6_a_rank_that_gives_up_with_a_chunk_on_its_way_is_a_loss_at_once_though_its_memory_is_kept() {
    let (_scripted, mut bench, tensors) = scripted_bench();
    begin_all(&mut bench, &tensors);
    for rank in [0, 1, 0] {
        assert_eq!(bench.dmas[rank].step(0), Progress::Continue);
    }
    let leftover = bench.dmas[0].end();
    assert!(leftover.is_some());
    let given_up = Lost {
        rank: 0,
        loss: Loss::GaveUp,
    };
    assert_eq!(bench.communicator.lost(), Some(given_up));
}

#[test]
fn whoever_goes_and_whenever_every_other_rank_comes_to_an_end() {
    for seed in 0..150 {
        let mut random = Random(seed);
        let ranks = 2 + random.below(4);
        let mut bench = Bench::open(ranks as u32);
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
