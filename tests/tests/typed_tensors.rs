//! Tensors with types and shapes: what they refuse, and that a part of one is that part and no other.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use lane_tests::{Parts, Rig};
use nrta::{
    Collective, Dtype, Error, ReduceOp, Runtime, ScheduleError, Shape, Status, Tensor, bf16, f16,
};
use std::sync::Arc;

lane_tests::on_both! {
    a_shape_whose_bytes_do_not_fit_is_refused_and_not_wrapped,
    every_type_comes_back_as_it_was_written,
    a_vector_of_another_length_is_refused_and_comes_back,
    tensors_of_different_shapes_do_not_combine,
    typed_requests_do_what_the_untyped_ones_do,
    a_typed_tensor_takes_every_memory_of_its_elements_and_gives_it_back,
    bytes_are_taken_from_arrays_and_literals,
    typed_requests_can_be_prepared_and_are_checked_then,
    ranks_work_together_on_typed_tensors_of_half_precision,
    rows_and_slices_are_parts_of_the_same_memory,
    parts_that_do_not_exist_are_named,
    types_have_the_names_of_the_device,
    a_failed_request_says_which_call_it_was_where_why_and_what_to_do with aborting(),
}

// Behind the driver other processes have memory, too: what fits is known when it is asked for.
lane_tests::on_simulated! {
    a_part_keeps_the_memory_and_a_freed_tensor_has_none with little_memory(),
    the_memory_of_a_core_is_counted_exactly,
}

fn runtime(rig: &Rig) -> Runtime {
    rig.builder().open().unwrap()
}

#[test]
fn shapes_without_elements_or_with_too_many_are_named() {
    for shape in [&[0u64][..], &[4, 0, 2], &[u64::MAX, 2], &[1 << 32, 1 << 32]] {
        let error = Shape::new(shape).unwrap_err();
        assert!(error.to_string().contains(&format!("{shape:?}")), "{error}");
        assert_eq!(error.status(), Status::INVALID);
    }
    assert_eq!(Shape::new(&[]).unwrap().elements(), 1);
    assert_eq!(Shape::new(&[]).unwrap().rows(), 1);
    assert_eq!(Shape::new(&[3, 5]).unwrap().row_elements(), 5);
}

fn a_shape_whose_bytes_do_not_fit_is_refused_and_not_wrapped(rig: &Rig) {
    let runtime = runtime(rig);
    let core = runtime.core(0).unwrap();
    // 2^62 elements of 4 bytes would be 0 bytes with 64 bits.
    let error = core.tensor::<f32>(&[1 << 62]).unwrap_err();
    assert!(matches!(error, Error::Device(_)), "{error:?}");
    let bytes = core.allocate(64).unwrap();
    let error = bytes.typed::<f32>(&[1 << 62]).unwrap_err();
    assert!(matches!(error, Error::Slice { size: 64, .. }), "{error:?}");
}

fn every_type_comes_back_as_it_was_written(rig: &Rig) {
    let runtime = runtime(rig);
    let core = runtime.core(0).unwrap();
    let moves = core.tensor_op(0).unwrap();
    macro_rules! round_trip {
        ($($element:ty: $values:expr;)*) => {$(
            let values: Vec<$element> = $values.to_vec();
            let tensor = core.tensor::<$element>(&[2, 2]).unwrap();
            assert_eq!(tensor.bytes(), 4 * size_of::<$element>() as u64);
            moves.write_all(&tensor, values.clone()).unwrap().wait().unwrap();
            assert_eq!(moves.read_all(&tensor).unwrap().wait().unwrap(), values);
            let into = vec![<$element>::default(); 4];
            assert_eq!(moves.read_all_into(&tensor, into).unwrap().wait().unwrap(), values);
        )*};
    }
    round_trip! {
        u8: [1, 2, 3, 255];
        i8: [-128, -1, 0, 127];
        u16: [0, 1, 2, u16::MAX];
        i16: [i16::MIN, -1, 0, 1];
        u32: [0, 1, 2, u32::MAX];
        i32: [i32::MIN, -1, 0, 1];
        u64: [0, 1, 2, u64::MAX];
        i64: [i64::MIN, -1, 0, 1];
        f32: [0.5, -1.5, f32::MAX, f32::MIN_POSITIVE];
        f16: [0.5, -1.5, 2.0, 3.0].map(f16::from_f32);
        bf16: [0.5, -1.5, 2.0, 3.0].map(bf16::from_f32);
    }
}

fn a_vector_of_another_length_is_refused_and_comes_back(rig: &Rig) {
    let runtime = runtime(rig);
    let core = runtime.core(0).unwrap();
    let moves = core.tensor_op(0).unwrap();
    let tensor = core.tensor::<f32>(&[2, 3]).unwrap();
    for length in [0, 5, 7] {
        let refused = moves.write_all(&tensor, vec![1.0; length]).unwrap_err();
        assert_eq!(refused.status(), Status::INVALID);
        assert_eq!(
            refused.reason.to_string(),
            format!("{length} elements for a tensor of 6, of shape [2, 3]")
        );
        assert_eq!(refused.args, Some(vec![1.0; length]));
        let refused = moves.read_all_into(&tensor, vec![2.0; length]).unwrap_err();
        assert_eq!(refused.args, Some(vec![2.0; length]));
    }
    assert_eq!(moves.last_issued().cursor().get(), 0);
}

fn tensors_of_different_shapes_do_not_combine(rig: &Rig) {
    let runtime = runtime(rig);
    let core = runtime.core(0).unwrap();
    let moves = core.tensor_op(0).unwrap();
    let [a, b, flat] = [&[2, 3][..], &[2, 3], &[6]].map(|shape| core.tensor::<f32>(shape).unwrap());
    let half = core.tensor::<bf16>(&[6]).unwrap();
    let refusals = [
        moves.copy_all(&a, &flat).unwrap_err(),
        moves.cast_all(&a, &half).unwrap_err(),
        moves
            .compute_all(ReduceOp::Add, &[&a, &flat], &b)
            .unwrap_err(),
        moves.fma_all([&a, &b, &flat], &b).unwrap_err(),
    ];
    for refused in refusals {
        assert!(
            matches!(refused.reason, ScheduleError::WrongShape { .. }),
            "{refused:?}"
        );
    }
    // Other numbers of elements would have been refused below; equal ones have to be refused here.
    assert_eq!(moves.last_issued().cursor().get(), 0);
}

fn typed_requests_do_what_the_untyped_ones_do(rig: &Rig) {
    let runtime = runtime(rig);
    let core = runtime.core(0).unwrap();
    let moves = core.tensor_op(0).unwrap();
    let [a, b, c, d] = [(); 4].map(|()| core.tensor::<f32>(&[4]).unwrap());
    moves
        .write_all(&a, vec![1.0, 2.0, 3.0, 4.0])
        .unwrap()
        .detach();
    moves.write_all(&b, vec![10.0; 4]).unwrap().detach();
    moves.write_all(&c, vec![0.5; 4]).unwrap().detach();
    moves.fma_all([&a, &b, &c], &d).unwrap().detach();
    assert_eq!(
        moves.read_all(&d).unwrap().wait().unwrap(),
        [10.5, 20.5, 30.5, 40.5]
    );
    moves
        .compute_all(ReduceOp::Max, &[&a, &c, &a], &d)
        .unwrap()
        .detach();
    moves.copy_all(&d, &b).unwrap().detach();
    assert_eq!(
        moves.read_all(&b).unwrap().wait().unwrap(),
        [1.0, 2.0, 3.0, 4.0]
    );
}

fn a_typed_tensor_takes_every_memory_of_its_elements_and_gives_it_back(rig: &Rig) {
    static CONSTANT: [u16; 3] = [10, 11, 12];
    let runtime = runtime(rig);
    let core = runtime.core(0).unwrap();
    let moves = core.tensor_op(0).unwrap();
    let tensor = core.tensor::<u16>(&[3]).unwrap();
    let contents = || moves.read_all(&tensor).unwrap().wait().unwrap();

    let boxed: Box<[u16]> = Box::new([1, 2, 3]);
    let boxed = moves.write_all(&tensor, boxed).unwrap().wait().unwrap();
    assert_eq!((contents(), &*boxed), (vec![1, 2, 3], &[1, 2, 3][..]));
    let shared: Arc<[u16]> = Arc::from([4, 5, 6]);
    let back = moves.write_all(&tensor, Arc::clone(&shared)).unwrap();
    assert!(Arc::ptr_eq(&back.wait().unwrap(), &shared));
    assert_eq!(contents(), [4, 5, 6]);
    let array = moves.write_all(&tensor, [7, 8, 9]).unwrap().wait().unwrap();
    assert_eq!((contents(), array), (vec![7, 8, 9], [7, 8, 9]));
    let constant = moves.write_all(&tensor, &CONSTANT).unwrap().wait().unwrap();
    assert!(core::ptr::eq(constant, &raw const CONSTANT));
    let slice: &'static [u16] = &CONSTANT;
    moves.write_all(&tensor, slice).unwrap().wait().unwrap();
    assert_eq!(contents(), [10, 11, 12]);

    let into = moves.read_all_into(&tensor, [0; 3]).unwrap();
    assert_eq!(into.wait().unwrap(), [10, 11, 12]);
    let into: Box<[u16]> = Box::new([0; 3]);
    let into = moves.read_all_into(&tensor, into).unwrap().wait().unwrap();
    assert_eq!(*into, [10, 11, 12]);
    // What does not fit comes back, too.
    assert_eq!(
        moves.write_all(&tensor, [1; 4]).unwrap_err().args,
        Some([1; 4])
    );
    assert_eq!(
        moves.read_all_into(&tensor, [2; 2]).unwrap_err().args,
        Some([2; 2])
    );
}

fn bytes_are_taken_from_arrays_and_literals(rig: &Rig) {
    let runtime = runtime(rig);
    let core = runtime.core(0).unwrap();
    let (moves, tensor) = (core.tensor_op(0).unwrap(), core.allocate(4).unwrap());
    moves.write(&tensor, 0, b"text").unwrap().detach();
    let back = moves.read(&tensor, 0, [0; 4]).unwrap().wait().unwrap();
    assert_eq!(back, *b"text");
    moves.write(&tensor, 1, [0; 2]).unwrap().detach();
    let back = moves.read(&tensor, 0, [9; 3]).unwrap().wait().unwrap();
    assert_eq!(back, [b't', 0, 0]);
}

fn typed_requests_can_be_prepared_and_are_checked_then(rig: &Rig) {
    let runtime = runtime(rig);
    let core = runtime.core(0).unwrap();
    let moves = core.tensor_op(0).unwrap();
    let [a, b, flat] = [&[2, 2][..], &[2, 2], &[4]].map(|shape| core.tensor::<f32>(shape).unwrap());
    let half = core.tensor::<f16>(&[2, 2]).unwrap();
    let prepare = moves.prepare();
    let refused = prepare.write_all(&a, [1.0; 5]).unwrap_err();
    assert_eq!(refused.args, Some([1.0; 5]));
    for refused in [
        prepare.copy_all(&a, &flat).unwrap_err(),
        prepare.fma_all([&a, &flat, &a], &b).unwrap_err(),
    ] {
        assert!(matches!(refused.reason, ScheduleError::WrongShape { .. }));
    }

    let write = prepare.write_all(&a, [1.0, 2.0, 3.0, 4.0]).unwrap();
    let silent = [
        prepare.copy_all(&a, &b).unwrap(),
        prepare.compute_all(ReduceOp::Add, &[&a, &b], &b).unwrap(),
        prepare.fma_all([&a, &b, &a], &b).unwrap(),
        prepare.cast_all(&b, &half).unwrap(),
    ];
    let all = prepare.read_all(&half).unwrap();
    let into = prepare.read_all_into(&b, [0.0; 4]).unwrap();
    assert_eq!(moves.last_issued().cursor().get(), 0);
    moves.schedule(write).unwrap().detach();
    for request in silent {
        moves.schedule(request).unwrap().detach();
    }
    let expected = [3.0, 10.0, 21.0, 36.0];
    let all = moves.schedule(all).unwrap().wait().unwrap();
    assert_eq!(all, expected.map(f16::from_f32));
    assert_eq!(moves.schedule(into).unwrap().wait().unwrap(), expected);
}

fn ranks_work_together_on_typed_tensors_of_half_precision(rig: &Rig) {
    let runtime = rig.builder().cores(2).open().unwrap();
    let group = runtime.group(&[0, 1]).unwrap();
    let halves = |values: [f32; 2]| values.map(f16::from_f32);
    let mut parts = Vec::new();
    let mut results = Vec::new();
    for rank in 0..2 {
        let core = runtime.core(rank).unwrap();
        let (moves, queue) = (core.tensor_op(0).unwrap(), core.collectives());
        let tensor = |shape: &[u64]| core.tensor::<f16>(shape).unwrap();
        let (input, sum, all, share) = (tensor(&[2]), tensor(&[2]), tensor(&[2, 2]), tensor(&[1]));
        let values = halves([0.5 + rank as f32, -2.0]);
        moves.write_all(&input, values).unwrap().wait().unwrap();

        let refused = queue.all_reduce_of(&group, ReduceOp::Add, &input, &tensor(&[2, 1]));
        let reason = refused.unwrap_err().reason;
        assert!(
            matches!(reason, ScheduleError::WrongShape { .. }),
            "{reason:?}"
        );
        let refused = queue.all_gather_of(&group, &input, &sum).unwrap_err();
        assert!(
            matches!(refused.reason, ScheduleError::Collective(_)),
            "{refused:?}"
        );

        parts.push(
            queue
                .all_reduce_of(&group, ReduceOp::Add, &input, &sum)
                .unwrap(),
        );
        parts.push(queue.all_gather_of(&group, &input, &all).unwrap());
        let scatter = queue.reduce_scatter_of(&group, ReduceOp::Max, &input, &share);
        parts.push(scatter.unwrap());
        let in_place = Collective::AllReduce(ReduceOp::Min);
        let in_place = queue.prepare_of(&group, in_place, &[&input], &[&input]);
        parts.push(queue.schedule(in_place.unwrap()).unwrap());
        results.push((moves, [sum, all, share, input]));
    }
    for part in parts {
        part.wait().unwrap();
    }
    for (rank, (moves, tensors)) in results.into_iter().enumerate() {
        let [sum, all, share, smallest] =
            tensors.map(|tensor| moves.read_all(&tensor).unwrap().wait().unwrap());
        assert_eq!(sum, halves([2.0, -4.0]));
        assert_eq!(all, [halves([0.5, -2.0]), halves([1.5, -2.0])].concat());
        assert_eq!(share, [halves([1.5, -2.0])[rank]]);
        assert_eq!(smallest, halves([0.5, -2.0]));
    }
}

fn rows_and_slices_are_parts_of_the_same_memory(rig: &Rig) {
    let runtime = runtime(rig);
    let core = runtime.core(0).unwrap();
    let moves = core.tensor_op(0).unwrap();
    let matrix = core.tensor::<u16>(&[4, 3]).unwrap();
    moves.write_all(&matrix, vec![0; 12]).unwrap().detach();
    let middle = matrix.rows(1..3).unwrap();
    assert_eq!(middle.shape().dimensions(), [2, 3]);
    moves.write_all(&middle, vec![7; 6]).unwrap().detach();
    // A row of the rows, and a slice of a slice.
    let last = middle.rows(1..=1).unwrap();
    moves.write_all(&last, vec![8; 3]).unwrap().detach();
    let inner = matrix.slice(2, 20).unwrap().slice(2, 2).unwrap();
    moves.write(&inner, 0, vec![9u8, 0]).unwrap().detach();
    assert_eq!(
        moves.read_all(&matrix).unwrap().wait().unwrap(),
        [0, 0, 9, 7, 7, 7, 8, 8, 8, 0, 0, 0]
    );
    // What lies behind the part is not to be reached through it.
    let refused = moves.write(&last, 4, vec![1; 4]).unwrap_err();
    assert!(matches!(
        refused.reason,
        ScheduleError::OutOfRange { size: 6, .. }
    ));
    let refused = moves.copy(&inner, 0, &matrix, 4, 4).unwrap_err();
    assert_eq!(refused.status(), Status::INVALID);
}

fn parts_that_do_not_exist_are_named(rig: &Rig) {
    let runtime = runtime(rig);
    let core = runtime.core(0).unwrap();
    let matrix = core.tensor::<f32>(&[4, 2]).unwrap();
    #[allow(
        clippy::reversed_empty_ranges,
        reason = "what is refused is what is tested"
    )]
    let refused = [
        matrix.rows(4..).unwrap_err(),
        matrix.rows(2..2).unwrap_err(),
        matrix.rows(3..1).unwrap_err(),
        matrix.rows(0..5).unwrap_err(),
        matrix.rows(..=u64::MAX).unwrap_err(),
        matrix.rows(u64::MAX..).unwrap_err(),
    ];
    for error in refused {
        assert!(matches!(error, Error::Rows { all: 4, .. }), "{error:?}");
    }
    for (offset, bytes) in [(0, 0), (0, 33), (32, 1), (u64::MAX, 2), (2, u64::MAX)] {
        let error = matrix.slice(offset, bytes).unwrap_err();
        assert!(matches!(error, Error::Slice { size: 32, .. }), "{error:?}");
    }
}

/// Memory in which two large tensors do not fit.
fn little_memory() -> Parts {
    Parts {
        hbm_bytes: 1 << 20,
        ..Parts::default()
    }
}

fn a_part_keeps_the_memory_and_a_freed_tensor_has_none(rig: &Rig) {
    let runtime = runtime(rig);
    let core = runtime.core(0).unwrap();
    let moves = core.tensor_op(0).unwrap();
    let whole: Tensor<u8> = core.tensor(&[512 << 10]).unwrap();
    let part = whole.rows(..16).unwrap();
    let clone = whole.clone();
    whole.free();
    assert!(matches!(clone.rows(..1), Err(Error::TensorFreed)));
    assert!(matches!(
        clone.untyped().typed::<u8>(&[1]),
        Err(Error::TensorFreed)
    ));
    let refused = moves.read_all(&clone).unwrap_err();
    assert_eq!(refused.reason, ScheduleError::TensorFreed);
    // The part is there, and so is its memory: there is no room for another tensor of this size.
    moves.write_all(&part, vec![1; 16]).unwrap().wait().unwrap();
    assert!(core.allocate(600 << 10).is_err());
    part.free();
    core.allocate(600 << 10).unwrap();
}

fn types_have_the_names_of_the_device(rig: &Rig) {
    let runtime = runtime(rig);
    let tensor = runtime.core(0).unwrap().tensor::<bf16>(&[8]).unwrap();
    assert_eq!(<bf16 as nrta::Element>::DTYPE, Dtype::Bfloat16);
    assert!(format!("{tensor:?}").contains("Bfloat16"), "{tensor:?}");
}

fn the_memory_of_a_core_is_counted_exactly(rig: &Rig) {
    let runtime = runtime(rig);
    let core = runtime.core(0).unwrap();
    let before = core.memory().unwrap();
    let tensors = [core.allocate(4096).unwrap(), core.allocate(8192).unwrap()];
    let with_tensors = core.memory().unwrap();
    assert_eq!(with_tensors.used, before.used + 12_288);
    assert_eq!(with_tensors.limit, before.limit);
    drop(tensors);
    assert_eq!(core.memory().unwrap(), before);
    // What is said to fit, fits, and no more.
    let largest = core.memory().unwrap().largest_free;
    assert!(core.allocate(largest + 1).is_err());
    let all = core.allocate(largest).unwrap();
    assert!(core.memory().unwrap().largest_free < largest);
    drop(all);
    assert_eq!(core.memory().unwrap(), before);
}

/// Every transfer aborts.
fn aborting() -> Parts {
    use nrta::simulated::{Fault, Rule, When};
    Parts::failing(vec![Rule {
        when: When::default(),
        fault: Fault::TransferAborts,
    }])
}

fn a_failed_request_says_which_call_it_was_where_why_and_what_to_do(rig: &Rig) {
    let runtime = runtime(rig);
    let core = runtime.core(0).unwrap();
    let tensor = core.tensor::<u8>(&[64]).unwrap();
    let moves = core.tensor_op(1).unwrap();
    let error = moves.write_all(&tensor, vec![0; 64]).unwrap().wait();
    let error = error.unwrap_err();
    assert_eq!((error.call, error.core()), ("write", 0));
    let text = error.to_string();
    for part in [
        "write on core 0 tensor-op queue 1 #1",
        "EXEC_HW_ERR_DMA_ABORT (1203)",
        "to do: close the runtime and open it again",
    ] {
        assert!(text.contains(part), "{text}");
    }
}
