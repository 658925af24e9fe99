//! What tensor-op queues do besides writing and reading bytes, through the facade.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use lane_tests::{Parts, Rig};
use nrta::simulated::{Fault, Rule, When};
use nrta::{
    Core, Dtype, Health, ReduceOp, Refused, Runtime, ScheduleError, Status, Tensor, TensorOpQueue,
    bf16, f16,
};
use std::sync::Arc;

lane_tests::on_both! {
    whatever_holds_bytes_comes_back_as_it_went_in,
    elements_are_counted_in_elements,
    the_device_copies_fills_casts_and_computes_in_order,
    what_makes_no_sense_is_refused_by_name_and_changes_nothing,
    d8_a_chunk_that_is_lost_in_flight_ends_the_queue_and_no_other with fourth_aborts(),
}

struct Lane {
    core: Core,
    moves: TensorOpQueue,
    /// Last, so that everything else goes first.
    _runtime: Runtime,
}

impl Lane {
    fn open(rig: &Rig) -> Self {
        let runtime = rig.builder().cores(2).open().unwrap();
        let core = runtime.core(0).unwrap();
        let moves = core.tensor_op(0).unwrap();
        Self {
            core,
            moves,
            _runtime: runtime,
        }
    }

    fn place(&self, elements: &[f32]) -> Tensor {
        let tensor = self.core.allocate(size_of_val(elements) as u64).unwrap();
        let write = self.moves.write_elements(&tensor, 0, elements.to_vec());
        write.unwrap().wait().unwrap();
        tensor
    }

    fn floats(&self, tensor: &Tensor, count: usize) -> Vec<f32> {
        let read = self.moves.read_elements(tensor, 0, vec![0.0; count]);
        read.unwrap().wait().unwrap()
    }
}

fn whatever_holds_bytes_comes_back_as_it_went_in(rig: &Rig) {
    let lane = Lane::open(rig);
    let tensor = lane.core.allocate(8).unwrap();
    let write = |offset, byte: u8| {
        let shared: Arc<[u8]> = vec![byte; 2].into();
        let again = lane
            .moves
            .write(&tensor, offset, Arc::clone(&shared))
            .unwrap()
            .wait()
            .unwrap();
        assert!(Arc::ptr_eq(&shared, &again));
    };
    write(0, 1);
    let boxed: Box<[u8]> = vec![2; 2].into();
    assert_eq!(
        *lane.moves.write(&tensor, 2, boxed).unwrap().wait().unwrap(),
        [2, 2]
    );
    let constant: &'static [u8] = &[3, 3];
    assert_eq!(
        lane.moves
            .write(&tensor, 4, constant)
            .unwrap()
            .wait()
            .unwrap(),
        [3, 3]
    );
    write(6, 4);
    let into: Box<[u8]> = vec![0; 8].into();
    let back = lane.moves.read(&tensor, 0, into).unwrap().wait().unwrap();
    assert_eq!(*back, [1, 1, 2, 2, 3, 3, 4, 4]);
}

fn elements_are_counted_in_elements(rig: &Rig) {
    let lane = Lane::open(rig);
    let tensor = lane.place(&[0.0; 4]);
    lane.moves
        .write_elements(&tensor, 2, vec![f16::ONE])
        .unwrap()
        .wait()
        .unwrap();
    let back = lane
        .moves
        .read_elements(&tensor, 2, vec![f16::ZERO])
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(back, [f16::ONE]);
    let halves = lane
        .moves
        .read_elements(&tensor, 0, vec![9u16; 8])
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(halves, [0, 0, f16::ONE.to_bits(), 0, 0, 0, 0, 0]);
    for first in [5, u64::MAX] {
        let refused = lane
            .moves
            .write_elements(&tensor, first, vec![1i32])
            .unwrap_err();
        assert_eq!(refused.status(), Status::INVALID, "{refused}");
        assert_eq!(refused.args, Some(vec![1]));
    }
}

fn the_device_copies_fills_casts_and_computes_in_order(rig: &Rig) {
    let lane = Lane::open(rig);
    let moves = &lane.moves;
    let (a, b) = (
        lane.place(&[1.0, -2.0, 3.5, f32::NAN]),
        lane.place(&[2.0, 4.0, -1.0, 0.0]),
    );
    let out = lane.place(&[0.0; 4]);
    let narrow = lane.core.allocate(8).unwrap();

    moves
        .compute(ReduceOp::Max, Dtype::Float32, &[&a, &b], &out, 3)
        .unwrap()
        .detach();
    assert_eq!(lane.floats(&out, 3), [2.0, 4.0, 3.5]);
    moves
        .compute(ReduceOp::Min, Dtype::Float32, &[&a, &b, &out], &out, 4)
        .unwrap()
        .detach();
    let least = lane.floats(&out, 4);
    assert_eq!(least[..3], [1.0, -2.0, -1.0]);
    assert!(least[3].is_nan());
    moves
        .fma(Dtype::Float32, [&a, &b, &b], &out, 3)
        .unwrap()
        .detach();
    assert_eq!(lane.floats(&out, 3), [4.0, -4.0, -4.5]);
    moves
        .cast(&out, Dtype::Float32, &narrow, Dtype::Bfloat16, 3)
        .unwrap()
        .detach();
    let back = moves
        .read_elements(&narrow, 0, vec![bf16::ZERO; 3])
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(back, [4.0, -4.0, -4.5].map(bf16::from_f32));
    moves.memset(&out, 4, 8, 0).unwrap().detach();
    moves.copy(&b, 0, &out, 0, 4).unwrap().detach();
    assert_eq!(lane.floats(&out, 3), [2.0, 0.0, 0.0]);
    // Within one tensor; and nothing at all.
    moves.copy(&out, 0, &out, 8, 4).unwrap().detach();
    moves.copy(&out, 0, &out, 0, 12).unwrap().detach();
    moves.copy(&out, 16, &out, 0, 0).unwrap().wait().unwrap();
    assert_eq!(lane.floats(&out, 3), [2.0, 0.0, 2.0]);
}

fn what_makes_no_sense_is_refused_by_name_and_changes_nothing(rig: &Rig) {
    let lane = Lane::open(rig);
    let moves = &lane.moves;
    let (a, b) = (lane.place(&[1.0; 4]), lane.place(&[2.0; 4]));
    let elsewhere = lane._runtime.core(1).unwrap().allocate(16).unwrap();
    let freed = lane.place(&[0.0]);
    freed.clone().free();
    let issued = moves.last_completed();
    let refuse = |refused: Result<_, Refused<()>>, what: &str| {
        let refused = refused.map(drop).unwrap_err();
        assert!(refused.to_string().contains(what), "{refused}");
        refused
    };
    let f32s = Dtype::Float32;
    refuse(moves.copy(&a, 0, &b, 4, 16), "16 bytes at 4");
    refuse(moves.copy(&a, u64::MAX, &b, 0, 2), "18446744073709551615");
    refuse(moves.copy(&a, 0, &a, 4, 8), "overlap");
    refuse(moves.memset(&a, 9, 8, 0), "9");
    refuse(moves.cast(&a, f32s, &b, Dtype::Uint64, 4), "4 elements");
    refuse(
        moves.compute(ReduceOp::Add, f32s, &[], &b, 1),
        "at least one source",
    );
    refuse(
        moves.compute(ReduceOp::Add, f32s, &[&a], &b, u64::MAX),
        "elements",
    );
    refuse(moves.fma(Dtype::Int32, [&a, &a, &a], &b, 1), "not for");
    let wrong_core = refuse(moves.copy(&elsewhere, 0, &b, 0, 4), "core");
    assert!(matches!(wrong_core.reason, ScheduleError::WrongCore { .. }));
    let gone = refuse(moves.memset(&freed, 0, 1, 0), "freed");
    assert_eq!(gone.status(), Status::INVALID_HANDLE);
    assert_eq!(moves.last_completed(), issued);
    assert_eq!(lane.floats(&b, 4), [2.0; 4]);
}

/// The first three transfers of core 0 pass, the fourth aborts.
fn fourth_aborts() -> Parts {
    let when = When {
        core: Some(0),
        from: 3,
        times: Some(1),
        probability: None,
    };
    let fault = Fault::TransferAborts;
    Parts::failing(vec![Rule { when, fault }])
}

fn d8_a_chunk_that_is_lost_in_flight_ends_the_queue_and_no_other(rig: &Rig) {
    let lane = Lane::open(rig);
    let (a, b) = (lane.place(&[1.0; 4]), lane.place(&[2.0; 4]));
    let out = lane.place(&[0.0; 4]);
    let sum = lane
        .moves
        .compute(ReduceOp::Add, Dtype::Float32, &[&a, &b], &out, 4);
    let failed = sum.unwrap().wait().unwrap_err();
    assert_eq!(failed.status, Status::EXEC_HW_ERR_DMA_ABORT);
    assert_eq!(lane.moves.health(), Health::Degraded);
    let refused = lane.moves.write(&a, 0, vec![1]).unwrap_err();
    assert_eq!(refused.status(), Status::EXEC_UNIT_UNRECOVERABLE);
    assert_eq!(refused.args, Some(vec![1]));
    // The other queue of the core goes on, and the tensors are as they were.
    let other = lane.core.tensor_op(1).unwrap();
    let back = other
        .read_elements(&out, 0, vec![9.0f32; 4])
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(back, [0.0; 4]);
}
