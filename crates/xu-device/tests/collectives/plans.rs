//! Collectives and seats by number, and the scratch memory of a plan.
//!
//! On a scripted device, whose log has what was reserved and released; what else is refused when a collective is prepared, and when plans
//! meet that do not fit together, is tested on both machines in `tests/tests/device`.

use crate::scripted::{Call, Scripted};
use crate::support::Bench;
use xu_abi::{Status, TpbIndex};
use xu_device::collectives::{
    Collective, Communicator, CommunicatorError, MAX_RANKS, PlanError, UnknownCollective,
};
use xu_device::elementwise::{Dtype, ReduceOp, UnknownReduceOp};
use xu_device::{DeviceError, Place};

const ADD: Collective = Collective::AllReduce(ReduceOp::Add);
const SCATTER: Collective = Collective::ReduceScatter(ReduceOp::Add);
const GATHER: Collective = Collective::AllGather;

#[test]
fn d4_numbers_of_the_c_api_become_collectives_or_a_typed_error() {
    assert_eq!(Collective::from_raw(0, 77), Ok(GATHER));
    assert_eq!(
        Collective::from_raw(1, 2),
        Ok(Collective::AllReduce(ReduceOp::Max))
    );
    assert_eq!(Collective::from_raw(2, 0), Ok(SCATTER));
    let fma = UnknownCollective::Reduction(UnknownReduceOp(1));
    assert_eq!(Collective::from_raw(1, 1), Err(fma));
    assert_eq!(
        Collective::from_raw(2, 0xF),
        Err(UnknownCollective::Reduction(UnknownReduceOp(0xF)))
    );
    assert_eq!(
        Collective::from_raw(3, 0),
        Err(UnknownCollective::Collective(3))
    );
    assert_eq!(fma.status(), Status::INVALID);
}

#[test]
fn d4_seats_exist_and_are_taken_once() {
    for ranks in [0, MAX_RANKS + 1, u32::MAX] {
        assert_eq!(
            Communicator::new(ranks, 1).unwrap_err(),
            CommunicatorError::Ranks { ranks }
        );
    }
    let communicator = Communicator::new(2, 1).unwrap();
    for rank in [2, u32::MAX] {
        let missing = CommunicatorError::NoSuchRank { rank, ranks: 2 };
        assert_eq!(communicator.join(rank).unwrap_err(), missing);
    }
    let first = communicator.join(1).unwrap();
    assert_eq!((first.index(), first.ranks()), (1, 2));
    assert_eq!(
        communicator.join(1).unwrap_err(),
        CommunicatorError::Taken { rank: 1 }
    );
}

#[test]
fn scratch_is_reserved_only_where_input_and_output_are_tangled_and_given_back() {
    let (scripted, device) = Scripted::new(2);
    let bench = Bench::on(device, 2);
    let tensor = bench.tensor(1, &[0; 256]);
    let at = |offset, bytes| tensor.part(offset, bytes);
    let place = Place::Hbm(TpbIndex::new(1));
    for (collective, input, output, scratch) in [
        (GATHER, at(128, 32), at(0, 64), None),
        (GATHER, at(32, 32), at(0, 64), None),
        (GATHER, at(0, 32), at(0, 64), Some(32)),
        (GATHER, at(50, 32), at(0, 64), Some(32)),
        (SCATTER, at(0, 64), at(32, 32), None),
        (SCATTER, at(0, 64), at(0, 32), Some(32)),
        (SCATTER, at(0, 64), at(33, 32), Some(32)),
        (ADD, at(0, 64), at(0, 64), None),
    ] {
        scripted.forget();
        drop(
            bench
                .plan(1, collective, Dtype::Int8, &[input], &[output])
                .unwrap(),
        );
        let log = scripted.log();
        let wanted: Vec<Call> = scratch
            .map(|bytes| Call::Allocate(place, bytes))
            .into_iter()
            .collect();
        assert_eq!(log[..wanted.len()], wanted, "{collective:?}");
        // What was reserved is released, and nothing else was done.
        assert_eq!(log.len(), 2 * wanted.len());
    }
    scripted.fail(|call| matches!(call, Call::Allocate(..)).then_some(DeviceError::Lost));
    let refused = bench
        .plan(1, SCATTER, Dtype::Int8, &[at(0, 64)], &[at(0, 32)])
        .unwrap_err();
    assert_eq!(refused, PlanError::Device(DeviceError::Lost));
    assert_eq!(refused.status(), Status::HW_ERROR);
}
