//! A device that fails, against a scripted one: what is refused, what is fatal, and what must be kept.

use crate::scripted::{Call, Scripted};
use std::sync::Arc;
use xu_abi::{Status, TpbIndex};
use xu_device::elementwise::{Dtype, ReduceOp};
use xu_device::memory::DeviceMemory;
use xu_device::region::Region;
use xu_device::tensor_op::{HostBytes, Operation, OperationError, Progress, TensorDma};
use xu_device::{DeviceError, DmaQueue, Place, map};

const CORE: TpbIndex = TpbIndex::new(0);
const QUEUE: DmaQueue = map::transfer_queue(CORE, 1);
const LIMIT: u64 = 1_000;
const CHUNK: u64 = 256 << 10;
const BYTES: u64 = 2 * CHUNK;

struct Bench {
    scripted: Arc<Scripted>,
    dma: TensorDma,
    memory: [DeviceMemory; 3],
    host: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Which {
    Write,
    Read,
    Copy,
    Memset,
    Compute,
}

const ALL: [Which; 5] = [
    Which::Write,
    Which::Read,
    Which::Copy,
    Which::Memset,
    Which::Compute,
];

impl Bench {
    fn open() -> Self {
        let (scripted, device) = Scripted::new(2);
        let dma = TensorDma::open(&device, QUEUE, Some(LIMIT)).unwrap();
        let memory =
            [(); 3].map(|()| DeviceMemory::allocate(&device, Place::Hbm(CORE), BYTES, 64).unwrap());
        scripted.forget();
        Self {
            scripted,
            dma,
            memory,
            host: vec![7; BYTES as usize],
        }
    }

    fn begin(&mut self, which: Which) {
        let [a, b, c] = self.memory.each_ref().map(Region::of);
        let operation = match which {
            Which::Write => Operation::write(a),
            Which::Read => Operation::read(a),
            Which::Copy => Operation::copy(a, b),
            Which::Memset => Operation::memset(a, 1),
            Which::Compute => Operation::compute(ReduceOp::Add, Dtype::Int8, vec![a, b], c, BYTES),
        };
        self.dma.begin(operation.unwrap()).unwrap();
    }

    fn step(&mut self, which: Which, now_ns: u64) -> Progress {
        let host = match which {
            Which::Write => HostBytes::Source(&self.host),
            Which::Read => HostBytes::Target(&mut self.host),
            Which::Copy | Which::Memset | Which::Compute => HostBytes::None,
        };
        self.dma.step(now_ns, host)
    }

    /// The marker of the chunk on its way arrives.
    fn arrive(&self) {
        let marker = self
            .scripted
            .log()
            .into_iter()
            .rev()
            .find_map(|call| match call {
                Call::Load(from) => Some(from),
                _ => None,
            });
        self.scripted
            .poke(marker.unwrap(), &map::COMPLETION_MARKER.to_le_bytes());
    }

    fn started(&self) -> usize {
        self.scripted
            .count(|call| matches!(call, Call::StartDma(..)))
    }

    /// From now on the call number `failing`, of those that `wanted` says, fails once with `error`.
    fn fail_nth(
        &self,
        failing: usize,
        error: DeviceError,
        wanted: impl Fn(&Call) -> bool + Send + 'static,
    ) {
        let mut seen = 0;
        self.scripted.fail(move |call| {
            let counts = wanted(call);
            let fails = counts && seen == failing;
            seen += usize::from(counts);
            fails.then(|| error.clone())
        });
    }
}

/// What a driver says that has no room just now: harmless, as long as nothing was posted.
fn no_room() -> DeviceError {
    DeviceError::Os {
        what: "room",
        reason: "none".into(),
    }
}

fn bad_argument() -> DeviceError {
    DeviceError::BadArgument {
        what: "a thing",
        value: 1,
        allowed: "another",
    }
}

/// Writes before the first descriptor: the host's bytes or the pattern, if any, and the marker.
fn writes_before(which: Which) -> usize {
    match which {
        Which::Write | Which::Memset => 2,
        Which::Read | Which::Copy | Which::Compute => 1,
    }
}

#[test]
fn d8_what_fails_before_the_first_descriptor_is_a_clean_refusal() {
    for which in ALL {
        for failing in 0..writes_before(which) {
            for error in [no_room(), bad_argument()] {
                let mut bench = Bench::open();
                bench.fail_nth(failing, error.clone(), |call| {
                    matches!(call, Call::Write(..))
                });
                bench.begin(which);
                let refused = bench.step(which, 0);
                assert_eq!(
                    refused,
                    Progress::Refused(OperationError::Before(error.clone()))
                );
                assert_eq!(
                    OperationError::Before(error.clone()).status(),
                    error.status()
                );
                assert_eq!(bench.started(), 0);
                assert!(!bench.dma.end(), "{which:?}: nothing to keep");
                // The queue goes on.
                bench.begin(which);
                assert_eq!(bench.step(which, 0), Progress::Continue);
                assert_eq!(bench.started(), 1);
            }
        }
    }
}

#[test]
fn d8_what_fails_from_the_first_descriptor_on_is_fatal_and_the_memory_is_kept() {
    for which in ALL {
        // Ten descriptors: four pairs of data and one of the marker; arithmetic has one pair of data.
        let descriptors = if which == Which::Compute { 4 } else { 10 };
        for failing in 0..descriptors {
            let mut bench = Bench::open();
            let failing = writes_before(which) + failing;
            bench.fail_nth(failing, bad_argument(), |call| {
                matches!(call, Call::Write(..))
            });
            bench.begin(which);
            let error = OperationError::InFlight(bad_argument());
            assert_eq!(
                bench.step(which, 0),
                Progress::Fatal(error.clone()),
                "{which:?} {failing}"
            );
            assert_eq!(error.status(), Status::HW_ERROR);
            assert_eq!(bench.started(), 0);
            assert!(bench.dma.end(), "{which:?}: to be kept");
            let memory = Region::of(&bench.memory[0]);
            let again = bench.dma.begin(Operation::memset(memory, 0).unwrap());
            assert_eq!(again, Err(OperationError::QueueFailed));
            assert!(!bench.dma.end());
        }
    }
}

#[test]
fn d8_a_start_that_fails_is_fatal() {
    for which in ALL {
        let mut bench = Bench::open();
        bench.fail_nth(0, no_room(), |call| matches!(call, Call::StartDma(..)));
        bench.begin(which);
        assert_eq!(
            bench.step(which, 0),
            Progress::Fatal(OperationError::InFlight(no_room()))
        );
        assert!(bench.dma.end());
    }
}

#[test]
fn d8_a_later_chunk_that_cannot_be_posted_is_fatal_though_nothing_of_it_was_written() {
    for which in ALL {
        let mut bench = Bench::open();
        bench.begin(which);
        assert_eq!(bench.step(which, 0), Progress::Continue);
        bench.arrive();
        assert_eq!(bench.step(which, 0), Progress::Continue);
        bench.fail_nth(0, no_room(), |call| matches!(call, Call::Write(..)));
        assert_eq!(
            bench.step(which, 0),
            Progress::Fatal(OperationError::InFlight(no_room()))
        );
        // All that was posted has arrived.
        assert!(!bench.dma.end(), "{which:?}");
    }
}

#[test]
fn d8_a_device_in_trouble_ends_the_queue_even_before_the_first_descriptor() {
    for error in [
        DeviceError::Lost,
        DeviceError::Driver {
            call: "write",
            errno: 5,
        },
    ] {
        let mut bench = Bench::open();
        bench.fail_nth(0, error.clone(), |call| matches!(call, Call::Write(..)));
        bench.begin(Which::Write);
        let fatal = OperationError::Before(error);
        assert_eq!(bench.step(Which::Write, 0), Progress::Fatal(fatal.clone()));
        assert_eq!(fatal.status(), Status::HW_ERROR);
        assert!(!bench.dma.end());
    }
}

#[test]
fn d4_an_aborted_queue_is_the_end_of_the_operation_with_its_own_status() {
    for which in ALL {
        let mut bench = Bench::open();
        let aborted = DeviceError::DmaAborted {
            tpb: CORE,
            index: QUEUE.index,
        };
        bench.fail_nth(0, aborted.clone(), |call| matches!(call, Call::CheckDma(_)));
        bench.begin(which);
        let error = OperationError::InFlight(aborted);
        assert_eq!(error.status(), Status::EXEC_HW_ERR_DMA_ABORT);
        assert_eq!(bench.step(which, 0), Progress::Fatal(error));
        assert!(bench.dma.end());
    }
}

#[test]
fn d6_a_chunk_times_out_by_its_own_clock_and_only_after_a_look_that_found_nothing() {
    for which in ALL {
        let mut bench = Bench::open();
        bench.begin(which);
        assert_eq!(bench.step(which, 50), Progress::Continue);
        assert_eq!(bench.step(which, 50 + LIMIT - 1), Progress::Continue);
        // Late, but there.
        bench.arrive();
        assert_eq!(bench.step(which, 50 + 9 * LIMIT), Progress::Continue);
        // The next chunk has a clock of its own, and a clock that goes backwards ends nothing.
        assert_eq!(bench.step(which, 100 * LIMIT), Progress::Continue);
        assert_eq!(bench.step(which, 99 * LIMIT), Progress::Continue);
        assert_eq!(bench.step(which, 101 * LIMIT - 1), Progress::Continue);
        let bytes = if which == Which::Compute {
            64 << 10
        } else {
            CHUNK as usize
        };
        let timeout = OperationError::Timeout {
            bytes,
            limit_ns: LIMIT,
        };
        assert_eq!(
            bench.step(which, 101 * LIMIT),
            Progress::Fatal(timeout.clone())
        );
        assert_eq!(timeout.status(), Status::TIMEOUT);
        // What comes later changes nothing.
        bench.arrive();
        assert!(matches!(bench.step(which, 0), Progress::Fatal(_)));
        assert!(bench.dma.end());
    }
}

#[test]
fn d5_an_operation_given_up_with_a_chunk_on_its_way_leaves_nothing_for_the_next() {
    let mut bench = Bench::open();
    bench.begin(Which::Read);
    assert_eq!(bench.step(Which::Read, 0), Progress::Continue);
    assert!(bench.dma.end());
    let memory = Region::of(&bench.memory[0]);
    let again = bench.dma.begin(Operation::read(memory).unwrap());
    assert_eq!(again, Err(OperationError::QueueFailed));
}

#[test]
fn d4_bytes_that_cannot_be_collected_are_fatal() {
    for which in [Which::Read, Which::Compute] {
        let mut bench = Bench::open();
        bench.begin(which);
        assert_eq!(bench.step(which, 0), Progress::Continue);
        bench.arrive();
        bench.fail_nth(0, DeviceError::Lost, |call| matches!(call, Call::Read(..)));
        assert_eq!(
            bench.step(which, 0),
            Progress::Fatal(OperationError::InFlight(DeviceError::Lost))
        );
        assert!(!bench.dma.end());
    }
}

#[test]
fn d8_a_step_that_is_lent_the_wrong_bytes_while_a_chunk_is_on_its_way_is_fatal() {
    let mut bench = Bench::open();
    bench.begin(Which::Write);
    assert_eq!(bench.step(Which::Write, 0), Progress::Continue);
    let error = OperationError::HostBytes {
        needed: BYTES,
        lent: 0,
    };
    assert_eq!(bench.step(Which::Copy, 0), Progress::Fatal(error));
    assert!(bench.dma.end());
}

#[test]
fn a_copy_goes_straight_from_device_to_device() {
    let mut bench = Bench::open();
    bench.begin(Which::Copy);
    assert_eq!(bench.step(Which::Copy, 0), Progress::Continue);
    bench.arrive();
    assert_eq!(bench.step(Which::Copy, 0), Progress::Continue);
    assert_eq!(
        bench.scripted.count(|call| matches!(call, Call::Read(..))),
        0
    );
    // The marker's reset and ten descriptors; no data.
    let written = bench
        .scripted
        .log()
        .into_iter()
        .filter_map(|call| match call {
            Call::Write(_, bytes) => Some(bytes.len()),
            _ => None,
        });
    assert_eq!(
        written.collect::<Vec<_>>(),
        [vec![4], vec![16; 10]].concat()
    );
}

#[test]
fn a_memset_writes_its_pattern_once() {
    let mut bench = Bench::open();
    bench.begin(Which::Memset);
    while bench.step(Which::Memset, 0) == Progress::Continue {
        bench.arrive();
    }
    let patterns = bench
        .scripted
        .count(|call| matches!(call, Call::Write(_, bytes) if bytes.len() > 16));
    assert_eq!((patterns, bench.started()), (1, 2));
}
