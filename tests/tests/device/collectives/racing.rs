//! Ranks on threads of their own whose queues abort at random: every rank comes to an end, and all tell the same story.

use super::support::{LIMIT, Tensor};
use lane_tests::{Kind, Parts, Rig};
use std::sync::{Arc, Barrier};
use std::thread;
use xu_abi::{Status, TpbIndex};
use xu_device::collectives::{
    Collective, CollectiveDma, CollectiveError, Communicator, Loss, Lost, Plan, Progress, Rank,
    WARN_AFTER_NS,
};
use xu_device::elementwise::{Dtype, ReduceOp};
use xu_device::simulated::{Fault, FaultPlan, Rule, When};
use xu_device::{Device, map};

lane_tests::on_both! {
    d4_ranks_on_threads_whose_queues_mostly_abort_all_end_and_agree_on_who_was_lost with aborting(0.4),
    d4_ranks_on_threads_whose_queues_abort_now_and_then_all_end_and_agree_on_who_was_lost with aborting(0.03),
}

const RANKS: usize = 3;
/// Looks after which a rank waits for ever.
const PATIENCE: usize = 50_000_000;

/// A machine on which a queue that is started aborts with this probability.
fn aborting(probability: f64) -> Parts {
    let when = When {
        probability: Some(probability),
        ..When::default()
    };
    let fault = Fault::TransferAborts;
    Parts {
        tpbs: RANKS as u16,
        // A queue that has aborted never gives its host memory back; pages that nobody writes cost nothing.
        host_bytes: 3 << 30,
        faults: FaultPlan {
            rules: vec![Rule { when, fault }],
        },
        ..Parts::default()
    }
}

/// One rank's collective, begun and stepped until it ends.
fn take_part(device: &Arc<dyn Device>, rank: &Rank, tensor: &Tensor, start: &Barrier) -> Progress {
    let all = [tensor.region()];
    let sum = Collective::AllReduce(ReduceOp::Add);
    let keep = Arc::new(());
    let plan = Plan::prepare(device, rank, sum, Dtype::Uint8, &all, &all, keep).unwrap();
    let queue = map::collectives_queue(TpbIndex::new(rank.index() as u16));
    let mut dma = CollectiveDma::open(device, queue, Some(LIMIT)).unwrap();
    dma.begin(plan).unwrap();
    start.wait();
    for _ in 0..PATIENCE {
        match dma.step(0) {
            Progress::Continue => thread::yield_now(),
            outcome => {
                drop(dma.end());
                return outcome;
            }
        }
    }
    panic!("rank {} waits for ever", rank.index());
}

/// All ranks on threads, with a communicator of their own: what each has come to.
fn round(device: &Arc<dyn Device>, tensors: &[Tensor]) -> (Communicator, Vec<Progress>) {
    let communicator = Communicator::new(RANKS as u32, WARN_AFTER_NS).unwrap();
    let ranks: Vec<Rank> = (0..RANKS as u32)
        .map(|rank| communicator.join(rank).unwrap())
        .collect();
    let start = Barrier::new(RANKS);
    let outcomes = thread::scope(|scope| {
        let start = &start;
        let threads: Vec<_> = ranks
            .iter()
            .zip(tensors)
            .map(|(rank, tensor)| scope.spawn(move || take_part(device, rank, tensor, start)))
            .collect();
        let outcomes = threads.into_iter().map(|thread| thread.join().unwrap());
        outcomes.collect()
    });
    // What counts happened before the ranks left.
    drop(ranks);
    (communicator, outcomes)
}

/// Rounds on a machine whose queues abort; says how many were completed.
fn rounds(rig: &Rig, count: usize) -> usize {
    let device = rig.device();
    let tensors: Vec<Tensor> = (0..RANKS)
        .map(|rank| Tensor::new(&device, rank, &[1; 48]))
        .collect();
    let complete = |turn: &usize| {
        let (communicator, outcomes) = round(&device, &tensors);
        let all_done = outcomes.iter().all(|outcome| *outcome == Progress::Done);
        if !all_done {
            check(*turn, communicator.lost().unwrap(), &outcomes);
        }
        all_done
    };
    (0..count).filter(complete).count()
}

/// Behind the driver's interface a tenth: there a queue costs hundreds of system calls.
fn turns(rig: &Rig, simulated: usize) -> usize {
    match rig.kind() {
        Kind::Simulated => simulated,
        Kind::Neuron => simulated / 10,
    }
}

/// Each rank of a broken round has failed itself, or was told of the first that has.
fn check(turn: usize, lost: Lost, outcomes: &[Progress]) {
    let aborted = Status::EXEC_HW_ERR_DMA_ABORT;
    assert_eq!(
        lost.loss,
        Loss::Failed(aborted),
        "round {turn}: {outcomes:?}"
    );
    for (rank, outcome) in (0..).zip(outcomes) {
        match outcome {
            Progress::Fatal(CollectiveError::Own(own)) => assert_eq!(own.status(), aborted),
            Progress::Fatal(CollectiveError::Lost(told)) => {
                assert_eq!(*told, lost, "round {turn}, rank {rank}");
                assert_ne!(told.rank, rank, "round {turn}");
            }
            other => panic!("round {turn}, rank {rank}: {other:?}"),
        }
    }
}

/// Most fail with their first chunk, while others are about to look at what was shown at the meeting.
fn d4_ranks_on_threads_whose_queues_mostly_abort_all_end_and_agree_on_who_was_lost(rig: &Rig) {
    let count = turns(rig, 1_200);
    assert!(rounds(rig, count) < count);
}

/// Some fail later, some not at all.
fn d4_ranks_on_threads_whose_queues_abort_now_and_then_all_end_and_agree_on_who_was_lost(
    rig: &Rig,
) {
    let count = turns(rig, 500);
    let complete = rounds(rig, count);
    assert!((1..count).contains(&complete), "{complete}");
}
