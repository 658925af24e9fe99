//! Requests that are skipped before they begin: who decides, and what becomes of them.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

mod held;

use held::Held;
use lane_tests::{Meddler, Parts, Rig};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nrta::simulated::{Fault, Rule, When};
use nrta::{
    Device, Dtype, Health, Pending, ReduceOp, Runtime, Skip, Status, Tensor, TensorOpQueue,
};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

lane_tests::on_both! {
    f1_a_skipped_request_moves_no_byte_and_gives_its_buffer_back,
    f2_a_request_that_has_begun_cannot_be_skipped,
    f2_the_answer_never_changes_and_the_outcome_says_the_same,
    f8_a_skipped_request_completes_in_order_and_its_events_fire,
    what_was_skipped_is_counted_and_is_no_failure,
    f1_a_skipped_host_buffer_goes_back_to_the_pool,
    f6_a_request_that_was_skipped_says_so_on_a_queue_that_breaks with first_aborts(),
    f2_an_execution_cannot_be_skipped,
    f2_the_part_of_a_collective_cannot_be_skipped,
    f2_a_thousand_answers_are_true,
}

/// Where the worker stands still before it touches the device.
#[derive(Default)]
struct Gate {
    /// Whether it is shut, and whether somebody stands there.
    state: Mutex<(bool, bool)>,
    changed: Condvar,
}

impl Gate {
    fn set(&self, change: impl FnOnce(&mut (bool, bool))) {
        change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
    }

    fn wait(&self, until: impl Fn(&(bool, bool)) -> bool) {
        let mut state = self.state.lock().unwrap();
        while !until(&state) {
            state = self.changed.wait(state).unwrap();
        }
    }

    /// The worker is here: it waits while the gate is shut.
    fn pass(&self) {
        if self.state.lock().unwrap().0 {
            self.set(|state| state.1 = true);
            self.wait(|state| !state.0);
            self.set(|state| state.1 = false);
        }
    }
}

/// Opens the gate when a test ends, however it does: the runtime waits for the worker.
struct Opens(Arc<Gate>);

impl Drop for Opens {
    fn drop(&mut self) {
        self.0.set(|state| state.0 = false);
    }
}

/// A queue whose worker stands still when a test says so.
struct Bench {
    gate: Opens,
    moves: TensorOpQueue,
    tensor: Tensor,
    device: Arc<Meddler>,
    runtime: Runtime,
}

const BYTES: usize = 8;

impl Bench {
    fn new(rig: &Rig) -> Self {
        let device = rig.meddler();
        let runtime = Runtime::builder()
            .device(Arc::clone(&device) as Arc<dyn Device>)
            .exec_timeout(Some(Duration::from_secs(2)))
            .open()
            .unwrap();
        let core = runtime.core(0).unwrap();
        let bench = Self {
            gate: Opens(Arc::default()),
            moves: core.tensor_op(0).unwrap(),
            tensor: core.allocate(BYTES as u64).unwrap(),
            device,
            runtime,
        };
        let gate = Arc::clone(&bench.gate.0);
        bench.device.alter_writes(Box::new(move |_, _| gate.pass()));
        bench
    }

    fn write(&self, byte: u8) -> Pending<Vec<u8>> {
        let bytes = vec![byte; BYTES];
        self.moves.write(&self.tensor, 0, bytes).unwrap()
    }

    /// A write at which the worker stands: it has begun.
    fn hold(&self, byte: u8) -> Pending<Vec<u8>> {
        self.gate.0.set(|state| state.0 = true);
        let head = self.write(byte);
        self.gate.0.wait(|state| state.1);
        head
    }

    fn let_go(&self) {
        self.gate.0.set(|state| state.0 = false);
    }

    fn content(&self) -> Vec<u8> {
        let into = vec![0; BYTES];
        let read = self.moves.read(&self.tensor, 0, into).unwrap();
        read.wait().unwrap()
    }
}

fn f1_a_skipped_request_moves_no_byte_and_gives_its_buffer_back(rig: &Rig) {
    let bench = Bench::new(rig);
    let head = bench.hold(1);
    let bytes = vec![2; BYTES];
    let at = bytes.as_ptr();
    let skipped = bench.moves.write(&bench.tensor, 0, bytes).unwrap();
    assert_eq!(skipped.skip(), Skip::WillNotRun);
    // It is not its turn.
    assert!(!skipped.is_done());
    bench.let_go();

    let error = skipped.wait().unwrap_err();
    assert!(error.skipped, "{error:?}");
    assert_eq!(error.status, Status::FAILURE);
    assert!(error.to_string().ends_with("was skipped"), "{error}");
    assert_eq!(error.failure(), nrta::Failure::Skipped);
    let bytes = error.value.unwrap();
    assert_eq!(bytes.as_ptr(), at);
    head.wait().unwrap();
    assert_eq!(bench.content(), [1; BYTES]);
    assert_eq!(bench.moves.health(), Health::Healthy);
}

fn f2_a_request_that_has_begun_cannot_be_skipped(rig: &Rig) {
    let bench = Bench::new(rig);
    let head = bench.hold(3);
    assert_eq!(head.skip(), Skip::TooLate);
    bench.let_go();
    assert_eq!(head.wait().unwrap(), [3; BYTES]);

    let complete = bench.write(4);
    bench.moves.wait(complete.seq(), None).unwrap();
    assert_eq!(complete.skip(), Skip::TooLate);
    assert!(complete.wait().is_ok());
    assert_eq!(bench.content(), [4; BYTES]);
}

fn f2_the_answer_never_changes_and_the_outcome_says_the_same(rig: &Rig) {
    let bench = Bench::new(rig);
    let head = bench.hold(1);
    let mut skipped = bench.write(2);
    let answers = |pending: &Pending<Vec<u8>>| [0; 3].map(|_| pending.skip());
    assert_eq!(answers(&skipped), [Skip::WillNotRun; 3]);
    assert_eq!(answers(&head), [Skip::TooLate; 3]);
    bench.let_go();
    bench.moves.wait(skipped.seq(), None).unwrap();
    assert_eq!(answers(&skipped), [Skip::WillNotRun; 3]);
    assert_eq!(answers(&head), [Skip::TooLate; 3]);
    let outcome = futures::executor::block_on(&mut skipped);
    assert!(outcome.unwrap_err().skipped);
    assert_eq!(answers(&skipped), [Skip::WillNotRun; 3], "taken");
    assert!(head.wait().is_ok());
}

fn f8_a_skipped_request_completes_in_order_and_its_events_fire(rig: &Rig) {
    let bench = Bench::new(rig);
    let head = bench.hold(1);
    let (skipped, behind) = (bench.write(2), bench.write(3));
    let flags = EfdFlags::EFD_NONBLOCK;
    let fds = [0; 2].map(|_| EventFd::from_flags(flags).unwrap());
    let (of_skipped, of_each) = (&fds[0], &fds[1]);
    bench.moves.notify(skipped.seq(), of_skipped).unwrap();
    bench.moves.notify_each(of_each).unwrap();

    assert_eq!(skipped.skip(), Skip::WillNotRun);
    assert_eq!(bench.moves.is_completed(skipped.seq()), Ok(false));
    assert!(of_skipped.read().is_err(), "it completes in its turn");
    bench.let_go();
    bench.moves.wait(behind.seq(), None).unwrap();
    assert_eq!(bench.moves.is_completed(skipped.seq()), Ok(true));
    // Who waits may be told before the descriptors are.
    assert!(head.wait().is_ok() && behind.wait().is_ok());
    assert_eq!(bench.content(), [3; BYTES]);
    assert_eq!(of_skipped.read().unwrap(), 1);
    assert!(of_each.read().unwrap() >= 3);
    assert_eq!(skipped.status(), Some(Status::FAILURE));
}

fn what_was_skipped_is_counted_and_is_no_failure(rig: &Rig) {
    let bench = Bench::new(rig);
    bench.moves.measure(true);
    let head = bench.hold(1);
    let skipped = [2, 3].map(|byte| bench.write(byte));
    for pending in &skipped {
        assert_eq!(pending.skip(), Skip::WillNotRun);
    }
    bench.let_go();
    bench.moves.wait(skipped[1].seq(), None).unwrap();
    head.wait().unwrap();
    let seen = bench.moves.snapshot();
    assert_eq!((seen.completed, seen.failed, seen.skipped), (3, 0, 2));
    assert_eq!(seen.latency.total(), 1);
}

fn f1_a_skipped_host_buffer_goes_back_to_the_pool(rig: &Rig) {
    let bench = Bench::new(rig);
    let core = bench.runtime.core(0).unwrap();
    let buffer = core.host_buffer(BYTES as u64).unwrap();
    let allocated = bench.device.allocated().len();
    let head = bench.hold(1);
    let skipped = bench.moves.write_from(&bench.tensor, 0, buffer).unwrap();
    let second = bench.write(2);
    assert_eq!(skipped.skip(), Skip::WillNotRun);
    // Nobody will take it.
    drop(skipped);
    bench.let_go();
    second.wait().unwrap();
    drop(core.host_buffer(BYTES as u64).unwrap());
    assert_eq!(bench.device.allocated().len(), allocated);
    head.wait().unwrap();
}

/// The first transfer aborts.
fn first_aborts() -> Parts {
    let when = When {
        times: Some(1),
        ..When::default()
    };
    let fault = Fault::TransferAborts;
    Parts::failing(vec![Rule { when, fault }])
}

fn f6_a_request_that_was_skipped_says_so_on_a_queue_that_breaks(rig: &Rig) {
    let bench = Bench::new(rig);
    let head = bench.hold(1);
    let (skipped, wanted) = (bench.write(2), bench.write(3));
    assert_eq!(skipped.skip(), Skip::WillNotRun);
    bench.let_go();
    assert_eq!(
        head.wait().unwrap_err().status,
        Status::EXEC_HW_ERR_DMA_ABORT
    );
    let [skipped, wanted] = [skipped, wanted].map(|pending| pending.wait().unwrap_err());
    assert_eq!(skipped.status, Status::EXEC_UNIT_UNRECOVERABLE);
    assert_eq!(wanted.status, Status::EXEC_UNIT_UNRECOVERABLE);
    assert_eq!((skipped.skipped, wanted.skipped), (true, false));
    let seen = bench.moves.snapshot();
    // It completed because the queue broke.
    assert_eq!((seen.failed, seen.skipped), (3, 0));
}

fn f2_an_execution_cannot_be_skipped(rig: &Rig) {
    let held = Held::new(rig);
    let (first, second) = (held.execute().unwrap(), held.execute().unwrap());
    assert_eq!(second.skip(), Skip::TooLate, "the device knows of it");
    held.device.release_doorbells();
    first.wait().unwrap();
    assert_eq!(second.skip(), Skip::TooLate);
    second.wait().unwrap();
    assert_eq!(held.compute.snapshot().skipped, 0);
}

fn f2_the_part_of_a_collective_cannot_be_skipped(rig: &Rig) {
    let runtime = rig.builder().cores(2).open().unwrap();
    let group = runtime.group(&[0, 1]).unwrap();
    let part = |rank| {
        let core = runtime.core(rank).unwrap();
        let (input, sum) = (core.allocate(4).unwrap(), core.allocate(4).unwrap());
        core.collectives()
            .all_reduce(&group, ReduceOp::Add, Dtype::Float32, &input, &sum)
            .unwrap()
    };
    let first = part(0);
    assert_eq!(first.skip(), Skip::TooLate, "the other rank awaits it");
    let second = part(1);
    first.wait().unwrap();
    second.wait().unwrap();
}

/// Callers and worker race: whatever the answer was, it was true.
fn f2_a_thousand_answers_are_true(rig: &Rig) {
    let bench = Bench::new(rig);
    let (mut expected, mut skipped) = (u32::MAX, 0);
    for round in 0..1_000u32 {
        // One ahead, so that the worker is awake.
        let ahead = expected.to_le_bytes().to_vec();
        bench.moves.write(&bench.tensor, 0, ahead).unwrap().detach();
        let bytes = round.to_le_bytes().to_vec();
        let write = bench.moves.write(&bench.tensor, 0, bytes).unwrap();
        // From at once to late.
        for _ in 0..(round % 64) * 64 {
            std::hint::spin_loop();
        }
        match (write.skip(), write.wait()) {
            (Skip::WillNotRun, Err(error)) if error.skipped => skipped += 1,
            (Skip::TooLate, Ok(_)) => expected = round,
            (answer, outcome) => panic!("{answer:?}, {outcome:?}"),
        }
    }
    let content = bench.content();
    assert_eq!(content[..4], expected.to_le_bytes());
    assert_eq!(bench.moves.snapshot().skipped, skipped);
    assert_eq!(bench.moves.depth(), 0);
}
