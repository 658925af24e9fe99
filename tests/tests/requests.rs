//! Requests through the public interface: order, refusals, ownership, degradation, closing.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use futures::executor::block_on;
use lane_tests::{DIGITS, Meddler, Parts, Rig};
use nrta::{
    Core, Error, Health, LoadedModel, Model, Refusal, Runtime, ScheduleError, Status, Tensor,
};
use std::sync::Arc;
use std::time::Duration;
use xu_abi::DeviceAddr;

lane_tests::on_both! {
    what_is_written_is_read_back_at_every_size,
    one_queue_is_in_order_without_waiting,
    sequences_begin_at_one_and_never_issued_ones_are_refused,
    a_full_queue_is_an_ordinary_answer_that_changes_nothing,
    a_pending_request_can_be_polled_and_waited_for_with_a_deadline,
    dropped_handles_leave_nothing_behind,
    a_timeout_degrades_the_queue_and_what_is_behind_it_completes_with_101,
    a_failing_doorbell_degrades_because_the_device_may_know,
    wrong_arguments_are_named_and_handed_back with Parts::two_devices(),
    executions_with_wrong_tensors_are_refused,
    empty_moves_are_requests_like_any_other,
    builder_values_out_of_range_are_named,
    a_closed_runtime_refuses_everything,
    closing_waits_for_what_is_in_flight,
    f1_what_a_timed_out_execution_may_still_touch_is_not_released,
    d6_a_tensor_move_that_never_arrives_times_out_and_keeps_its_tensor,
    a_request_queue_that_has_stopped_is_the_end_of_its_unit,
    many_threads_share_a_queue,
    w7_a_waker_that_panics_harms_nobody_else,
    f4_a_waker_may_schedule_a_request,
    f7_a_waker_may_drop_the_runtime,
    an_execution_that_fails_says_what_the_device_said,
}

/// A runtime whose doorbells a test can hold back.
struct Bench {
    device: Arc<Meddler>,
    runtime: Runtime,
    core: Core,
    model: LoadedModel,
    input: Tensor,
    outputs: [Tensor; 2],
}

impl Bench {
    fn new(rig: &Rig, timeout: Duration) -> Self {
        let device = rig.meddler();
        let runtime = Runtime::builder()
            .device(Arc::clone(&device) as Arc<dyn nrta::Device>)
            .exec_timeout(Some(timeout))
            .open()
            .unwrap();
        let core = runtime.core(0).unwrap();
        let model = core
            .load(&Model::open(format!("{DIGITS}/model.xum")).unwrap(), 1)
            .unwrap();
        let input = model.allocate_input(0).unwrap();
        let outputs = [
            model.allocate_output(0).unwrap(),
            model.allocate_output(1).unwrap(),
        ];
        core.tensor_op(0)
            .unwrap()
            .write(&input, 0, vec![3; 64])
            .unwrap()
            .wait()
            .unwrap();
        Self {
            device,
            runtime,
            core,
            model,
            input,
            outputs,
        }
    }

    fn execute(&self) -> Result<nrta::Pending<nrta::Execution>, nrta::Refused<()>> {
        let [scores, label] = &self.outputs;
        self.core
            .compute()
            .execute(&self.model, &[&self.input], &[scores, label])
    }
}

const LONG: Duration = Duration::from_secs(600);

fn what_is_written_is_read_back_at_every_size(rig: &Rig) {
    let runtime = rig.builder().open().unwrap();
    let core = runtime.core(0).unwrap();
    let moves = core.tensor_op(1).unwrap();
    // Around one descriptor (64 KiB), around one chunk (256 KiB), and several chunks.
    for size in [
        1,
        63,
        65_535,
        65_536,
        65_537,
        262_143,
        262_144,
        262_145,
        1_000_003usize,
    ] {
        let tensor = core.allocate(size as u64 + 5).unwrap();
        let bytes: Vec<u8> = (0..size).map(|index| (index * 31 % 251) as u8).collect();
        let written = moves
            .write(&tensor, 5, bytes.clone())
            .unwrap()
            .wait()
            .unwrap();
        assert_eq!(written, bytes, "the buffer comes back as it was");
        let read = moves
            .read(&tensor, 5, vec![0; size])
            .unwrap()
            .wait()
            .unwrap();
        assert!(read == bytes, "{size} bytes");
    }
}

fn one_queue_is_in_order_without_waiting(rig: &Rig) {
    let runtime = rig.builder().open().unwrap();
    let core = runtime.core(0).unwrap();
    let (moves, tensor) = (core.tensor_op(0).unwrap(), core.allocate(4).unwrap());
    let mut reads = Vec::new();
    for value in 0..200u32 {
        drop(
            moves
                .write(&tensor, 0, value.to_le_bytes().to_vec())
                .unwrap(),
        );
        reads.push(moves.read(&tensor, 0, vec![0; 4]).unwrap());
    }
    let mut last = 0;
    for (value, read) in (0..200u32).zip(reads) {
        assert!(read.seq().cursor().get() > last);
        last = read.seq().cursor().get();
        assert_eq!(read.wait().unwrap(), value.to_le_bytes());
    }
    assert_eq!(moves.last_completed().cursor().get(), 400);
}

fn sequences_begin_at_one_and_never_issued_ones_are_refused(rig: &Rig) {
    let runtime = rig.builder().cores(2).open().unwrap();
    let core = runtime.core(1).unwrap();
    let (moves, tensor) = (core.tensor_op(1).unwrap(), core.allocate(4).unwrap());
    let none = moves.last_completed();
    assert_eq!((none.cursor().get(), none.xu().vnc()), (0, 1));
    assert!(moves.is_completed(none).is_err());
    let pending = moves.write(&tensor, 0, vec![1; 4]).unwrap();
    let seq = pending.seq();
    assert_eq!(seq.raw(), 0x0110_0000_0000_0001);
    pending.wait().unwrap();
    assert_eq!(moves.is_completed(seq), Ok(true));
    assert!(core.tensor_op(0).unwrap().is_completed(seq).is_err());
}

fn a_full_queue_is_an_ordinary_answer_that_changes_nothing(rig: &Rig) {
    let bench = Bench::new(rig, LONG);
    let compute = bench.core.compute();
    bench.device.hold_doorbells();
    let accepted: Vec<_> = (0..8).map(|_| bench.execute().unwrap()).collect();
    for _ in 0..100 {
        let refused = bench.execute().unwrap_err();
        assert!(refused.reason.is_queue_full());
        assert_eq!(refused.reason.status(), Status::QUEUE_FULL);
        assert_eq!(compute.depth(), 8);
    }
    assert_eq!(bench.execute().unwrap_err().into_retry().ok(), Some(()));
    bench.device.release_doorbells();
    let [scores, label] = &bench.outputs;
    let (inputs, outputs) = ([&bench.input], [scores, label]);
    let waiting = compute.execute_when_room(&bench.model, &inputs, &outputs);
    let next = block_on(waiting).unwrap();
    assert_eq!(
        next.seq().cursor().get(),
        9,
        "refusals use no sequence number"
    );
    for pending in accepted {
        pending.wait().unwrap();
    }
    next.wait().unwrap();
}

fn a_pending_request_can_be_polled_and_waited_for_with_a_deadline(rig: &Rig) {
    let bench = Bench::new(rig, LONG);
    bench.device.hold_doorbells();
    let pending = bench.execute().unwrap();
    assert!(!pending.is_done());
    let pending = pending.try_take().expect_err("in flight");
    let pending = pending.wait_timeout(Duration::ZERO).expect_err("in flight");
    let pending = pending
        .wait_timeout(Duration::from_nanos(1))
        .expect_err("in flight");
    bench.device.release_doorbells();
    // The largest duration means for ever.
    let execution = pending
        .wait_timeout(Duration::MAX)
        .expect("complete")
        .unwrap();
    assert!(execution.device_time.is_some());
}

fn dropped_handles_leave_nothing_behind(rig: &Rig) {
    let bench = Bench::new(rig, LONG);
    bench.device.hold_doorbells();
    drop(bench.execute().unwrap());
    let Bench {
        device,
        runtime,
        core,
        model,
        input,
        outputs,
    } = bench;
    input.free();
    drop((model, outputs));
    assert_eq!(core.compute().depth(), 1);
    device.release_doorbells();
    runtime.close();
    assert_eq!(core.compute().depth(), 0);
    assert_eq!(core.compute().health(), Health::Closing);
}

fn a_timeout_degrades_the_queue_and_what_is_behind_it_completes_with_101(rig: &Rig) {
    let bench = Bench::new(rig, Duration::from_millis(30));
    let (compute, moves) = (bench.core.compute(), bench.core.tensor_op(0).unwrap());
    bench.device.hold_doorbells();
    let (first, second) = (bench.execute().unwrap(), bench.execute().unwrap());
    let error = first.wait().unwrap_err();
    assert_eq!(error.status, Status::TIMEOUT);
    assert!(error.to_string().contains("core 0 compute #1"), "{error}");
    assert_eq!(
        second.wait().unwrap_err().status,
        Status::EXEC_UNIT_UNRECOVERABLE
    );
    assert_eq!((compute.health(), compute.depth()), (Health::Degraded, 0));
    assert_eq!(compute.cause().unwrap().status, Status::TIMEOUT);
    for _ in 0..3 {
        let refused = bench.execute().unwrap_err();
        assert_eq!(refused.reason.status(), Status::EXEC_UNIT_UNRECOVERABLE);
    }
    // Health is per queue.
    assert_eq!(moves.health(), Health::Healthy);
    moves
        .write(&bench.input, 0, vec![1; 64])
        .unwrap()
        .wait()
        .unwrap();
}

fn a_failing_doorbell_degrades_because_the_device_may_know(rig: &Rig) {
    let bench = Bench::new(rig, LONG);
    bench.device.fail_doorbells();
    let refused = bench.execute().unwrap_err();
    assert!(
        matches!(refused.reason, ScheduleError::Unit(Refusal::Commit { .. })),
        "{refused}"
    );
    assert_eq!(bench.core.compute().health(), Health::Degraded);
    assert_eq!(bench.core.compute().last_completed().cursor().get(), 0);
}

fn wrong_arguments_are_named_and_handed_back(rig: &Rig) {
    let runtime = rig.builder().cores(2).open().unwrap();
    let (core, other) = (runtime.core(0).unwrap(), runtime.core(1).unwrap());
    let (moves, tensor) = (core.tensor_op(0).unwrap(), core.allocate(4096).unwrap());
    for (offset, len) in [
        (4096, 1),
        (4095, 2),
        (u64::MAX, 8),
        (u64::MAX - 3, 8),
        (1 << 63, 8),
    ] {
        let refused = moves.write(&tensor, offset, vec![7; len]).unwrap_err();
        let bytes = len as u64;
        assert_eq!(
            refused.reason,
            ScheduleError::OutOfRange {
                offset,
                bytes,
                size: 4096
            }
        );
        assert_eq!(refused.reason.status(), Status::INVALID);
        assert_eq!(refused.args, Some(vec![7; len]));
    }
    let away = other.allocate(16).unwrap();
    let refused = moves.read(&away, 0, vec![0; 16]).unwrap_err();
    assert_eq!(
        refused.reason,
        ScheduleError::WrongCore {
            what: "tensor",
            on: 1,
            queue: 0
        }
    );
    let elsewhere = rig.builder_on(1).open().unwrap();
    let foreign = elsewhere.core(0).unwrap().allocate(16).unwrap();
    let refused = moves.read(&foreign, 0, vec![0; 16]).unwrap_err();
    assert_eq!(
        refused.reason,
        ScheduleError::WrongRuntime { what: "tensor" }
    );
    tensor.clone().free();
    let refused = moves.write(&tensor, 0, vec![1]).unwrap_err();
    assert_eq!(refused.reason, ScheduleError::TensorFreed);
    assert_eq!(
        moves.last_completed().cursor().get(),
        0,
        "nothing was accepted"
    );
}

fn executions_with_wrong_tensors_are_refused(rig: &Rig) {
    let bench = Bench::new(rig, LONG);
    let compute = bench.core.compute();
    let [scores, label] = &bench.outputs;
    let small = bench.core.allocate(63).unwrap();
    let refused = compute
        .execute(&bench.model, &[&small], &[scores, label])
        .unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("input image of model digits takes 64 bytes, the tensor has 63")
    );
    let refused = compute
        .execute(&bench.model, &[], &[scores, label])
        .unwrap_err();
    assert!(matches!(
        refused.reason,
        ScheduleError::TensorCount {
            expected: 1,
            given: 0,
            ..
        }
    ));
    bench.input.clone().free();
    let refused = bench.execute().unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("input image of model digits: the tensor was freed")
    );
    assert_eq!(refused.status(), Status::INVALID_HANDLE);
    let freed = ScheduleError::TensorFreed;
    assert!(matches!(refused.reason, ScheduleError::CannotBind { why, .. } if *why == freed));
    assert_eq!(compute.health(), Health::Healthy);
}

fn empty_moves_are_requests_like_any_other(rig: &Rig) {
    let runtime = rig.builder().open().unwrap();
    let core = runtime.core(0).unwrap();
    let (moves, tensor) = (core.tensor_op(0).unwrap(), core.allocate(1).unwrap());
    let pending = moves.write(&tensor, 1, Vec::new()).unwrap();
    assert_eq!(pending.seq().cursor().get(), 1);
    assert!(pending.wait().unwrap().is_empty());
}

fn builder_values_out_of_range_are_named(rig: &Rig) {
    for (builder, what) in [
        (rig.builder().cores(0), "cores"),
        (rig.builder().cores(257), "cores"),
        (rig.builder().compute_limit(0), "compute_limit"),
        (rig.builder().compute_limit(64), "compute_limit"),
    ] {
        let error = builder.open().unwrap_err();
        assert_eq!(error.status(), Status::INVALID);
        assert!(error.to_string().starts_with(what), "{error}");
    }
    let runtime = rig.builder().open().unwrap();
    assert!(matches!(
        runtime.core(1),
        Err(Error::NoSuchCore { core: 1, cores: 1 })
    ));
    let core = runtime.core(0).unwrap();
    assert!(matches!(
        core.tensor_op(2),
        Err(Error::NoSuchQueue {
            queue: 2,
            queues: 2,
            ..
        })
    ));
    assert!(matches!(
        core.allocate(0),
        Err(Error::EmptyTensor { bytes: 0 })
    ));
    let error = core.allocate(u64::MAX).unwrap_err();
    assert_eq!(error.status(), Status::RESOURCE);
}

fn a_closed_runtime_refuses_everything(rig: &Rig) {
    let runtime = rig.builder().open().unwrap();
    let core = runtime.core(0).unwrap();
    let (moves, tensor) = (core.tensor_op(0).unwrap(), core.allocate(4).unwrap());
    runtime.close();
    let refused = moves.write(&tensor, 0, vec![1; 4]).unwrap_err();
    assert_eq!(refused.reason.status(), Status::CLOSED);
    assert!(refused.to_string().contains("is closed"), "{refused}");
    assert!(
        refused.into_retry().is_err(),
        "scheduling again would not help"
    );
    let waiting = moves.read_when_room(&tensor, 0, vec![1; 4]);
    assert_eq!(block_on(waiting).unwrap_err().args, Some(vec![1; 4]));
    assert_eq!(core.allocate(4).unwrap_err().status(), Status::CLOSED);
    block_on(moves.room());
}

fn closing_waits_for_what_is_in_flight(rig: &Rig) {
    let bench = Bench::new(rig, LONG);
    bench.device.hold_doorbells();
    // A full queue: a stop that did not wait would find no room.
    let pending: Vec<_> = (0..8).map(|_| bench.execute().unwrap()).collect();
    let Bench {
        device,
        runtime,
        core,
        ..
    } = bench;
    let closing = std::thread::spawn(move || runtime.close());
    while core.allocate(1).is_ok() {
        std::thread::yield_now();
    }
    assert!(!closing.is_finished(), "eight executions are in flight");
    assert_eq!(core.compute().depth(), 8);
    device.release_doorbells();
    closing.join().unwrap();
    for pending in pending {
        assert!(pending.is_done());
        pending.wait().unwrap();
    }
}

fn f1_what_a_timed_out_execution_may_still_touch_is_not_released(rig: &Rig) {
    let bench = Bench::new(rig, Duration::from_millis(30));
    let bound = Arc::new(std::sync::Mutex::new(Vec::new()));
    bench.device.alter_writes({
        let bound = Arc::clone(&bound);
        // The stager writes the address of each bound tensor.
        Box::new(move |_, bytes| {
            if let Ok(addr) = <[u8; 8]>::try_from(bytes.as_slice()) {
                bound
                    .lock()
                    .unwrap()
                    .push(DeviceAddr::new(u64::from_le_bytes(addr)));
            }
        })
    });
    bench.device.hold_doorbells();
    let (first, second) = (bench.execute().unwrap(), bench.execute().unwrap());
    assert_eq!(first.wait().unwrap_err().status, Status::TIMEOUT);
    assert!(second.wait().is_err());
    let Bench {
        device,
        runtime,
        model,
        input,
        outputs,
        ..
    } = bench;
    drop((model, input, outputs));
    let bound = bound.lock().unwrap().clone();
    assert_eq!(bound.len(), 6, "three tensors, two executions");
    let released = device.released();
    assert!(
        bound.iter().all(|addr| !released.contains(addr)),
        "{bound:?}, {released:?}"
    );
    drop(runtime);
}

fn d6_a_tensor_move_that_never_arrives_times_out_and_keeps_its_tensor(rig: &Rig) {
    let bench = Bench::new(rig, Duration::from_millis(30));
    // The marker's destination: a 4-byte Rx descriptor. It arrives 64 bytes beside where it is awaited.
    bench.device.alter_writes(Box::new(|_, bytes| {
        if bytes.len() == 16 && bytes[..2] == [4, 0] && bytes[4..8] == [0; 4] {
            bytes[8] ^= 0x40;
        }
    }));
    let moves = bench.core.tensor_op(0).unwrap();
    let tensor = bench.core.allocate(64).unwrap();
    let error = moves
        .write(&tensor, 0, vec![1; 64])
        .unwrap()
        .wait()
        .unwrap_err();
    assert_eq!(error.status, Status::TIMEOUT);
    assert_eq!(error.value, Some(vec![1; 64]), "the buffer comes back");
    assert_eq!(moves.health(), Health::Degraded);
    let before = bench.device.released().len();
    drop(tensor);
    assert_eq!(
        bench.device.released().len(),
        before,
        "the device may still write it"
    );
}

fn a_request_queue_that_has_stopped_is_the_end_of_its_unit(rig: &Rig) {
    let bench = Bench::new(rig, LONG);
    // The ring id of the request copy is that of another lap.
    let mut spoilt = false;
    bench.device.alter_writes(Box::new(move |_, bytes| {
        if !spoilt && bytes.len() == 16 && bytes[..2] == [52, 0] {
            bytes[3] ^= 1;
            spoilt = true;
        }
    }));
    let error = bench.execute().unwrap().wait().unwrap_err();
    assert_eq!(error.status, Status::EXEC_HW_ERR_DMA_ABORT);
    assert_eq!(bench.core.compute().health(), Health::Degraded);
}

// 256 cores: no chip has so many.
#[test]
fn every_documented_number_of_cores_opens() {
    let runtime = Runtime::builder()
        .cores(256)
        .simulated_hbm_bytes(1 << 20)
        .open()
        .unwrap();
    let core = runtime.core(255).unwrap();
    let (moves, tensor) = (core.tensor_op(1).unwrap(), core.allocate(8).unwrap());
    let writing = moves.write_when_room(&tensor, 0, vec![1; 8]);
    block_on(writing).unwrap().wait().unwrap();
    assert_eq!(moves.last_completed().xu().vnc(), 255);
}

fn many_threads_share_a_queue(rig: &Rig) {
    let runtime = rig.builder().open().unwrap();
    let core = runtime.core(0).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let core = core.clone();
            scope.spawn(move || {
                let (moves, tensor) = (core.tensor_op(0).unwrap(), core.allocate(16).unwrap());
                for round in 0..100u8 {
                    let bytes = vec![thread ^ round; 16];
                    moves
                        .write(&tensor, 0, bytes.clone())
                        .unwrap()
                        .wait()
                        .unwrap();
                    assert_eq!(
                        moves.read(&tensor, 0, vec![0; 16]).unwrap().wait().unwrap(),
                        bytes
                    );
                }
            });
        }
    });
    let last = core.tensor_op(0).unwrap().last_completed();
    assert_eq!(last.cursor().get(), 4 * 100 * 2);
}

/// Calls a function when it is woken, once.
struct CallingWaker(std::sync::Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl std::task::Wake for CallingWaker {
    fn wake(self: Arc<Self>) {
        let call = self.0.lock().unwrap().take();
        if let Some(call) = call {
            call();
        }
    }
}

/// Polls `pending` once, so that `call` runs on the worker's thread when it completes.
fn when_woken(pending: &mut nrta::Pending<nrta::Execution>, call: impl FnOnce() + Send + 'static) {
    let waker = CallingWaker(std::sync::Mutex::new(Some(Box::new(call))));
    let waker = std::task::Waker::from(Arc::new(waker));
    let mut cx = std::task::Context::from_waker(&waker);
    assert!(std::future::Future::poll(std::pin::Pin::new(pending), &mut cx).is_pending());
}

fn w7_a_waker_that_panics_harms_nobody_else(rig: &Rig) {
    let bench = Bench::new(rig, LONG);
    bench.device.hold_doorbells();
    let mut first = bench.execute().unwrap();
    when_woken(&mut first, || panic!("a waker of the application's"));
    let second = bench.execute().unwrap();
    bench.device.release_doorbells();
    second.wait().unwrap();
    first.wait().unwrap();
    bench.execute().unwrap().wait().unwrap();
    assert_eq!(bench.core.compute().health(), Health::Healthy);
}

fn f4_a_waker_may_schedule_a_request(rig: &Rig) {
    let bench = Bench::new(rig, LONG);
    bench.device.hold_doorbells();
    let mut first = bench.execute().unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    let (moves, tensor) = (bench.core.tensor_op(0).unwrap(), bench.input.clone());
    when_woken(&mut first, move || {
        sender
            .send(moves.write(&tensor, 0, vec![9; 64]).unwrap())
            .unwrap();
    });
    bench.device.release_doorbells();
    receiver.recv().unwrap().wait().unwrap();
}

fn f7_a_waker_may_drop_the_runtime(rig: &Rig) {
    let bench = Bench::new(rig, LONG);
    bench.device.hold_doorbells();
    let mut first = bench.execute().unwrap();
    let second = bench.execute().unwrap();
    let Bench {
        device,
        runtime,
        core,
        model,
        input,
        outputs,
    } = bench;
    let (sender, receiver) = std::sync::mpsc::channel();
    when_woken(&mut first, move || {
        drop(runtime);
        sender.send(()).unwrap();
    });
    device.release_doorbells();
    receiver.recv().unwrap();
    second.wait().unwrap();
    first.wait().unwrap();
    // Closing goes on elsewhere, and ends: nothing holds the device then but this test.
    drop((core, model, input, outputs));
    while Arc::strong_count(&device) > 1 {
        std::thread::yield_now();
    }
}

fn an_execution_that_fails_says_what_the_device_said(rig: &Rig) {
    let bench = Bench::new(rig, LONG);
    // The PE entry block jumps to where no memory is.
    bench.device.alter_writes(Box::new(|_, bytes| {
        if bytes.len() == 52 {
            bytes[0x18 + 3] = 0x7F;
        }
    }));
    let error = bench.execute().unwrap().wait().unwrap_err();
    assert_eq!(error.status, Status::EXEC_OOB);
    let detail = error.detail.as_deref().unwrap();
    assert!(detail.contains("core 0 PE: out of bounds"), "{detail}");
    assert!(error.value.is_some(), "the timings are there all the same");
    assert_eq!(bench.core.compute().health(), Health::Healthy);
}
