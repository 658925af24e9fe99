//! The polling interface by numbers: queues by their ids, sequences by their own.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use lane_tests::{Parts, Rig};
use nrta::{AnyQueue, Error, SeqId, Status, XuId, XuType};
use std::collections::HashSet;

lane_tests::on_both! {
    a_runtime_names_each_of_its_queues_once with Parts::cores(3),
    r8_what_does_not_exist_is_an_error_that_names_it,
    polling_by_numbers_finds_what_the_queue_itself_says,
}

fn a_runtime_names_each_of_its_queues_once(rig: &Rig) {
    let runtime = rig.builder().cores(3).open().unwrap();
    let ids: Vec<XuId> = runtime.queues().map(|queue| queue.xu()).collect();
    // Two that move tensors, one that computes, one of collectives.
    assert_eq!(ids.len(), 3 * 4);
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
    for id in ids {
        let queue = runtime.queue(id).unwrap();
        assert_eq!(queue.xu(), id);
        let kind = match queue {
            AnyQueue::Compute(_) => XuType::Compute,
            AnyQueue::TensorOp(_) => XuType::TensorOp,
            AnyQueue::Collectives(_) => XuType::Collectives,
            _ => unreachable!("there is no other kind"),
        };
        assert_eq!(id.xu_type(), Some(kind));
    }
}

fn r8_what_does_not_exist_is_an_error_that_names_it(rig: &Rig) {
    let runtime = rig.builder().cores(2).open().unwrap();
    let refused = |error: Error, text: &str| {
        assert_eq!(error.status(), Status::INVALID);
        assert_eq!(error.to_string(), text);
    };
    refused(
        runtime.last_completed(2, XuType::Compute, 0).unwrap_err(),
        "there is no core 2: this runtime has 2, numbered from 0",
    );
    refused(
        runtime.last_completed(0, XuType::Compute, 1).unwrap_err(),
        "there is no compute queue 1: a core has 1, numbered from 0",
    );
    refused(
        runtime
            .last_completed(0, XuType::TensorOp, 255)
            .unwrap_err(),
        "there is no tensor-op queue 255: a core has 2, numbered from 0",
    );
    for raw in [0x0003, 0x000F, 0x0011, 0x0020, 0xFFFF] {
        let error = runtime.queue(XuId::from_raw(raw)).unwrap_err();
        assert!(matches!(error, Error::NoSuchXu(_)), "{error:?}");
    }
    for raw in 0..64u16 {
        // A core that this runtime does not have.
        assert!(runtime.queue(XuId::from_raw(0x0200 | raw)).is_err());
    }
    // Number 0, and one that is to come.
    for number in [0u64, 1] {
        let seq = SeqId::from_raw(number);
        let error = runtime.is_completed(seq).unwrap_err();
        assert!(matches!(error, Error::NeverIssued(_)), "{error:?}");
        assert_eq!(error.status(), Status::INVALID);
    }
    runtime.is_completed(SeqId::from_raw(u64::MAX)).unwrap_err();
}

fn polling_by_numbers_finds_what_the_queue_itself_says(rig: &Rig) {
    let runtime = rig.builder().cores(2).open().unwrap();
    let core = runtime.core(1).unwrap();
    let tensor = core.allocate(8).unwrap();
    let moves = core.tensor_op(1).unwrap();
    let mut last = runtime.last_completed(1, XuType::TensorOp, 1).unwrap();
    assert_eq!(last.cursor().get(), 0);
    for _ in 0..10 {
        let seq = moves.write(&tensor, 0, vec![1; 8]).unwrap().seq();
        runtime.queue(seq.xu()).unwrap().wait(seq, None).unwrap();
        assert!(runtime.is_completed(seq).unwrap());
        let now = runtime.last_completed(1, XuType::TensorOp, 1).unwrap();
        assert_eq!((now, now.since(last)), (seq, Some(1)));
        last = now;
    }
    // Nothing of it shows on another queue, and the two do not compare.
    let other = runtime.last_completed(1, XuType::TensorOp, 0).unwrap();
    assert_eq!(other.cursor().get(), 0);
    assert_eq!(last.since(other), None);
}
