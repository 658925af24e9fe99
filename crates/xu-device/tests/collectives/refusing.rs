//! Ranks whose own queue refuses before anything has moved: they come to the meeting all the same.
//!
//! On a scripted device, which refuses a chosen call.

use crate::scripted::{Call, Scripted};
use crate::support::{Bench, Tensor};
use xu_device::DeviceError;
use xu_device::collectives::{Collective, CollectiveError, Loss, Lost, Plan, Progress, Withdrawn};
use xu_device::elementwise::Dtype;
use xu_device::map;
use xu_device::tensor_op::OperationError;

const BUSY: DeviceError = DeviceError::Driver {
    call: "write",
    errno: 16,
};

/// An all-gather whose input lies in another rank's shard: it is saved before the ranks meet.
fn tangled(bench: &Bench, rank: usize, out: &Tensor) -> Plan {
    let input = out.part(32 * (1 - rank as u64), 32);
    let plan = bench.plan(
        rank,
        Collective::AllGather,
        Dtype::Uint8,
        &[input],
        &[out.region()],
    );
    plan.unwrap()
}

fn plain(bench: &Bench, rank: usize, input: &Tensor, out: &Tensor) -> Plan {
    let (input, output) = ([input.region()], [out.region()]);
    let plan = bench.plan(rank, Collective::AllGather, Dtype::Uint8, &input, &output);
    plan.unwrap()
}

/// Every chunk that is looked at arrives.
fn step(scripted: &Scripted, bench: &mut Bench, rank: usize) -> Progress {
    scripted.forget();
    let progress = bench.dmas[rank].step(0);
    for call in scripted.log() {
        if let Call::Load(from) = call {
            scripted.poke(from, &map::COMPLETION_MARKER.to_le_bytes());
        }
    }
    progress
}

/// Steps the ranks in turn until both have an outcome, and ends their collectives.
fn settle(scripted: &Scripted, bench: &mut Bench) -> [Progress; 2] {
    let mut outcomes = [const { None }; 2];
    for turn in 0..200 {
        match step(scripted, bench, turn % 2) {
            Progress::Continue => {}
            outcome => drop(outcomes[turn % 2].get_or_insert(outcome)),
        }
    }
    for dma in &mut bench.dmas {
        assert!(dma.end().is_none());
    }
    outcomes.map(|outcome| outcome.expect("waits for ever"))
}

#[test]
fn d8_a_rank_that_is_refused_before_the_meeting_withdraws_and_the_next_collective_is_the_same_for_all()
 {
    // The first rank, the second, or both are refused.
    for refused in [[true, false], [false, true], [true, true]] {
        let (scripted, device) = Scripted::new(2);
        let mut bench = Bench::on(device, 2);
        let outs = [0, 1].map(|rank| bench.tensor(rank, &[9; 64]));
        let inputs = [0, 1].map(|rank| bench.tensor(rank, &[rank as u8; 32]));
        for rank in [0, 1] {
            let plan = if refused[rank] {
                tangled(&bench, rank, &outs[rank])
            } else {
                plain(&bench, rank, &inputs[rank], &outs[rank])
            };
            bench.begin(rank, plan);
        }
        scripted.fail(|call| {
            let marker = matches!(call, Call::Write(_, bytes) if bytes.len() == 4);
            marker.then_some(BUSY)
        });
        for rank in [0, 1] {
            assert_eq!(step(&scripted, &mut bench, rank), Progress::Continue);
        }
        scripted.fail(|_| None);
        let own = CollectiveError::from(OperationError::Before(BUSY));
        let status = own.status();
        let first = refused.iter().position(|refused| *refused).unwrap() as u32;
        let others = CollectiveError::from(Withdrawn {
            rank: first,
            status,
        });
        assert_eq!(others.status(), status);
        let wanted = refused.map(|refused| {
            let error = if refused { &own } else { &others };
            Progress::Refused(error.clone())
        });
        assert_eq!(settle(&scripted, &mut bench), wanted);
        assert_eq!(bench.communicator.lost(), None);
        for out in &outs {
            assert_eq!(out.bytes(), [9; 64]);
        }
        // The ranks are in step: the next ones meet, and all end.
        for rank in [0, 1] {
            let plan = plain(&bench, rank, &inputs[rank], &outs[rank]);
            bench.begin(rank, plan);
        }
        let done = settle(&scripted, &mut bench);
        assert_eq!(done, [Progress::Done, Progress::Done]);
    }
}

#[test]
fn a_refused_rank_waits_for_the_others_as_any_other_does() {
    let (scripted, device) = Scripted::new(2);
    let mut bench = Bench::on(device, 2);
    let outs = [0, 1].map(|rank| bench.tensor(rank, &[9; 64]));
    let plan = tangled(&bench, 0, &outs[0]);
    bench.begin(0, plan);
    scripted.fail(|call| matches!(call, Call::Write(..)).then_some(BUSY));
    for _ in 0..10 {
        assert_eq!(step(&scripted, &mut bench, 0), Progress::Continue);
    }
    drop(bench.ranks.pop());
    let loss = Loss::Left;
    let lost = Lost { rank: 1, loss };
    assert_eq!(step(&scripted, &mut bench, 0), Progress::Fatal(lost.into()));
}
