//! Ranks whose chunk cannot be posted, or does not arrive: nobody waits for them for ever.
//!
//! On a scripted device, which fails at a chosen call and keeps a chunk on its way; ranks that fail, give up or go away on a machine are in
//! `tests/tests/device`.

use crate::scripted::{Call, Scripted};
use crate::support::{Bench, LIMIT, Tensor};
use std::sync::Arc;
use xu_abi::Status;
use xu_device::collectives::{Collective, Communicator, Loss, Lost, Plan, Progress};
use xu_device::elementwise::{Dtype, ReduceOp};
use xu_device::tensor_op::OperationError;
use xu_device::{DeviceError, map};

const ADD: Collective = Collective::AllReduce(ReduceOp::Add);

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
