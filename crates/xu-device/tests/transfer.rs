//! The transfer queue against a scripted device: which descriptors a chunk becomes, and how it ends.
//!
//! Scripted, since its log has the descriptors, and a test says when a chunk arrives; that bytes do is tested on both machines in
//! `tests/tests/device`.
#![allow(clippy::unwrap_used, reason = "functions of tests")]

mod scripted;

use scripted::{Call, Scripted};
use std::sync::Arc;
use xu_abi::descriptor::{Descriptor, MAX_TRANSFER, META_PLAIN_COPY, META_WRITE_BARRIER};
use xu_abi::{DeviceAddr, TpbIndex};
use xu_device::transfer::{CHUNK, TransferQueue};
use xu_device::{DeviceError, DmaQueue, Place, map};

const CORE: TpbIndex = TpbIndex::new(0);
const QUEUE: DmaQueue = map::transfer_queue(CORE, 1);
const TARGET: DeviceAddr = DeviceAddr::new(0x10_0000_0000);
const MARKER_BYTES: u64 = 64;
const DESCRIPTORS: usize = 32;

struct Bench {
    scripted: Arc<Scripted>,
    queue: TransferQueue,
    bounce: DeviceAddr,
    marker: DeviceAddr,
    /// Pairs that earlier chunks have written.
    written: usize,
}

impl Bench {
    fn open() -> Self {
        let (scripted, device) = Scripted::new(2);
        let queue = TransferQueue::open(&device, QUEUE).unwrap();
        // The marker's source is the only word of this value.
        let marker = scripted
            .log()
            .into_iter()
            .rev()
            .find_map(|call| match call {
                Call::Write(to, bytes) if bytes == map::COMPLETION_MARKER.to_le_bytes() => Some(to),
                _ => None,
            });
        let allocated = |bytes| {
            let wanted = Call::Allocate(Place::Host, bytes);
            assert_eq!(scripted.count(|call| *call == wanted), 1);
        };
        allocated(CHUNK as u64);
        allocated(MARKER_BYTES);
        scripted.forget();
        Self {
            marker: marker.unwrap(),
            bounce: DeviceAddr::new(0),
            scripted,
            queue,
            written: 0,
        }
    }

    /// The pairs written since the last call: source, destination, length, whether the barrier is set.
    fn pairs(&mut self) -> Vec<(DeviceAddr, DeviceAddr, u32, bool)> {
        let (tx_ring, rx_ring) = self.scripted.dma_rings(QUEUE);
        let log = self.scripted.log();
        let descriptors = |ring: DeviceAddr| -> Vec<Descriptor> {
            let end = ring.get() + DESCRIPTORS as u64 * 16;
            let written = log.iter().filter_map(|call| match call {
                Call::Write(to, bytes) if (ring.get()..end).contains(&to.get()) => {
                    let bytes: [u8; 16] = bytes.as_slice().try_into().unwrap();
                    Some::<(u64, Descriptor)>((to.get() - ring.get(), zerocopy::transmute!(bytes)))
                }
                _ => None,
            });
            let (offsets, descriptors): (Vec<u64>, Vec<Descriptor>) = written.unzip();
            for (index, offset) in offsets.iter().enumerate() {
                assert_eq!(*offset, ((self.written + index) % DESCRIPTORS * 16) as u64);
            }
            descriptors
        };
        let (tx, rx) = (descriptors(tx_ring), descriptors(rx_ring));
        assert_eq!(tx.len(), rx.len());
        let pairs = tx.iter().zip(&rx).enumerate().map(|(index, (tx, rx))| {
            let lap = (self.written + index) / DESCRIPTORS;
            let ring_id = ((1 + lap) % 4) as u8;
            assert_eq!((tx.ring_id().get(), rx.ring_id().get()), (ring_id, ring_id));
            assert_eq!(tx.transfer_len(), rx.transfer_len());
            assert_eq!(rx.meta_ctrl.get(), 0);
            let barrier = tx.meta_ctrl.get() & META_WRITE_BARRIER != 0;
            assert_eq!(tx.meta_ctrl.get() & !META_WRITE_BARRIER, META_PLAIN_COPY);
            (tx.addr(), rx.addr(), tx.transfer_len(), barrier)
        });
        let pairs: Vec<_> = pairs.collect();
        self.written += pairs.len();
        pairs
    }

    fn marker_target(&self) -> DeviceAddr {
        at(self.marker, 4)
    }

    fn arrive(&self) {
        self.scripted
            .poke(self.marker_target(), &map::COMPLETION_MARKER.to_le_bytes());
    }
}

fn at(addr: DeviceAddr, offset: u64) -> DeviceAddr {
    addr.checked_add(offset).unwrap()
}

/// The lengths of the data pairs of a chunk.
fn parts(len: usize) -> Vec<u32> {
    let whole = len / MAX_TRANSFER as usize;
    let rest = (len % MAX_TRANSFER as usize) as u32;
    let mut parts = vec![MAX_TRANSFER; whole];
    parts.extend((rest > 0).then_some(rest));
    parts
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index % 251) as u8).collect()
}

#[test]
fn d4_a_chunk_of_no_bytes_or_too_many_is_refused_and_nothing_reaches_the_device() {
    let mut bench = Bench::open();
    for len in [0, CHUNK + 1, usize::MAX] {
        let refused = Err(DeviceError::BadArgument {
            what: "length of a transfer chunk",
            value: len as u64,
            allowed: "1 to 262144 bytes",
        });
        assert_eq!(bench.queue.begin_read(TARGET, len), refused);
        assert_eq!(bench.queue.begin_fill(TARGET, len), refused);
        assert_eq!(bench.queue.begin_copy(TARGET, TARGET, len), refused);
        if len <= CHUNK + 1 {
            assert_eq!(bench.queue.begin_write(TARGET, &vec![0; len]), refused);
            assert_eq!(bench.queue.fill(&vec![0; len]), refused);
        }
    }
    assert_eq!(bench.scripted.log(), []);
}

#[test]
fn the_last_data_pair_alone_has_the_write_barrier_and_the_marker_follows() {
    let mut bench = Bench::open();
    for len in [1, 65_535, 65_536, 65_537, CHUNK - 1, CHUNK] {
        bench.scripted.forget();
        bench.queue.begin_write(TARGET, &pattern(len)).unwrap();
        let mut pairs = bench.pairs();
        let marker = pairs.pop().unwrap();
        assert_eq!(marker, (bench.marker, bench.marker_target(), 4, false));
        let lengths: Vec<u32> = pairs.iter().map(|pair| pair.2).collect();
        assert_eq!(lengths, parts(len));
        let last = pairs.len() - 1;
        bench.bounce = pairs[0].0;
        for (index, (from, to, _, barrier)) in pairs.iter().enumerate() {
            let done = index as u64 * u64::from(MAX_TRANSFER);
            assert_eq!((*from, *to), (at(bench.bounce, done), at(TARGET, done)));
            assert_eq!(*barrier, index == last, "{len}: pair {index}");
        }
        assert_eq!(bench.scripted.peek(bench.bounce, len), pattern(len));
        let started = Call::StartDma(QUEUE, pairs.len() as u32 + 1);
        assert_eq!(bench.scripted.log().last(), Some(&started));
        assert_eq!(
            bench
                .scripted
                .count(|call| matches!(call, Call::StartDma(..))),
            1
        );
    }
}

#[test]
fn a_read_goes_from_the_device_into_the_bounce_buffer_and_is_collected_there() {
    let mut bench = Bench::open();
    for len in [1, 65_536, 65_537, CHUNK] {
        bench.scripted.forget();
        bench.queue.begin_read(TARGET, len).unwrap();
        let pairs = bench.pairs();
        let lengths: Vec<u32> = pairs[..pairs.len() - 1].iter().map(|pair| pair.2).collect();
        assert_eq!(lengths, parts(len));
        bench.bounce = pairs[0].1;
        assert_eq!(pairs[0].0, TARGET);
        assert!(pairs[pairs.len() - 2].3);
        bench.scripted.poke(bench.bounce, &pattern(len));
        let mut back = vec![0; len];
        bench.queue.collect(&mut back).unwrap();
        assert_eq!(back, pattern(len));
    }
    bench.scripted.forget();
    let mut too_much = vec![0; CHUNK + 1];
    assert!(matches!(
        bench.queue.collect(&mut too_much),
        Err(DeviceError::BadAddress { .. })
    ));
    assert_eq!(bench.scripted.log(), []);
}

#[test]
fn d2_data_marker_reset_and_descriptors_are_written_before_the_queue_is_started() {
    let mut bench = Bench::open();
    bench.queue.begin_write(TARGET, &pattern(10)).unwrap();
    let log = bench.scripted.log();
    assert!(matches!(&log[0], Call::Write(_, bytes) if *bytes == pattern(10)));
    assert_eq!(log[1], Call::Write(bench.marker_target(), vec![0; 4]));
    let (tx, rx) = bench.scripted.dma_rings(QUEUE);
    let targets: Vec<DeviceAddr> = log[2..6]
        .iter()
        .map(|call| match call {
            Call::Write(to, _) => *to,
            other => panic!("{other:?}"),
        })
        .collect();
    // A source without a destination is never seen.
    assert_eq!(targets, [rx, tx, at(rx, 16), at(tx, 16)]);
    assert_eq!(log[6..], [Call::StartDma(QUEUE, 2)]);
}

#[test]
fn d5_the_marker_of_the_last_chunk_does_not_count_for_the_next() {
    let mut bench = Bench::open();
    for _ in 0..40 {
        bench.queue.begin_write(TARGET, &[1]).unwrap();
        assert_eq!(bench.queue.poll(), Ok(false));
        bench.scripted.poke(
            bench.marker_target(),
            &(map::COMPLETION_MARKER ^ 1).to_le_bytes(),
        );
        assert_eq!(bench.queue.poll(), Ok(false));
        assert!(bench.queue.is_in_flight());
        bench.arrive();
        assert_eq!(bench.queue.poll(), Ok(true));
        assert!(!bench.queue.is_in_flight());
        assert_eq!(bench.pairs().len(), 2);
        bench.scripted.forget();
    }
}

#[test]
fn d4_an_aborted_queue_shows_when_it_is_polled_unless_the_chunk_has_arrived() {
    let mut bench = Bench::open();
    bench.queue.begin_read(TARGET, 100).unwrap();
    let aborted = DeviceError::DmaAborted {
        tpb: CORE,
        index: QUEUE.index,
    };
    let error = aborted.clone();
    bench.scripted.fail(move |call| match call {
        Call::CheckDma(QUEUE) => Some(error.clone()),
        _ => None,
    });
    assert_eq!(bench.queue.poll(), Err(aborted));
    bench.arrive();
    assert_eq!(bench.queue.poll(), Ok(true));
}

#[test]
fn d8_a_chunk_whose_descriptors_cannot_be_written_is_not_started() {
    // The bounce buffer, the marker, and the four descriptors of the two pairs; from these on it may be seen.
    for failing in 0..6 {
        let mut bench = Bench::open();
        let mut writes = 0;
        bench.scripted.fail(move |call| {
            let write = matches!(call, Call::Write(..));
            let fails = write && writes == failing;
            writes += i32::from(write);
            fails.then_some(DeviceError::Lost)
        });
        assert_eq!(
            bench.queue.begin_write(TARGET, &[1]),
            Err(DeviceError::Lost)
        );
        let started = bench
            .scripted
            .count(|call| matches!(call, Call::StartDma(..)));
        assert_eq!(started, 0, "write {failing}");
        assert_eq!(bench.queue.is_in_flight(), failing >= 2);
    }
}

#[test]
fn a_transfer_near_the_end_of_the_address_space_does_not_panic() {
    let mut bench = Bench::open();
    let end = DeviceAddr::new(u64::MAX);
    bench.queue.begin_write(end, &pattern(CHUNK)).unwrap();
    let pairs = bench.pairs();
    assert_eq!(pairs[3].1, end);
}

#[test]
fn a_copy_passes_no_bounce_buffer_and_a_fill_uses_what_is_in_it() {
    let mut bench = Bench::open();
    let from = at(TARGET, 1 << 20);
    bench.queue.begin_copy(from, TARGET, 70_000).unwrap();
    let pairs = bench.pairs();
    assert_eq!(
        (pairs[0].0, pairs[0].1, pairs[0].2),
        (from, TARGET, MAX_TRANSFER)
    );
    assert_eq!((pairs[1].0, pairs[1].3), (at(from, 65_536), true));
    bench.arrive();
    assert_eq!(bench.queue.poll(), Ok(true));
    bench.scripted.forget();
    bench.queue.fill(&pattern(100)).unwrap();
    bench.queue.begin_fill(TARGET, 60).unwrap();
    let pairs = bench.pairs();
    assert_eq!((pairs[0].1, pairs[0].2), (TARGET, 60));
    assert_eq!(bench.scripted.peek(pairs[0].0, 100), pattern(100));
}

#[test]
fn d6_a_queue_dropped_with_a_chunk_on_its_way_releases_nothing_that_the_device_may_touch() {
    for arrives in [false, true] {
        let mut bench = Bench::open();
        bench.queue.begin_write(TARGET, &[1]).unwrap();
        if arrives {
            bench.arrive();
        }
        assert_eq!(bench.queue.poll(), Ok(arrives));
        drop(bench.queue);
        let released = bench
            .scripted
            .count(|call| matches!(call, Call::Release(_)));
        // Both rings, bounce buffer and marker.
        assert_eq!(released, if arrives { 4 } else { 0 });
    }
}

#[test]
fn d8_the_device_learns_of_the_rings_when_everything_else_is_there() {
    for failing in 0..4 {
        let (scripted, device) = Scripted::new(2);
        let mut reserved = 0;
        scripted.fail(move |call| {
            let fails = matches!(call, Call::Allocate(..)) && reserved == failing;
            reserved += i32::from(matches!(call, Call::Allocate(..)));
            fails.then_some(DeviceError::Lost)
        });
        let refused = TransferQueue::open(&device, QUEUE).map(drop);
        assert_eq!(refused, Err(DeviceError::Lost));
        assert_eq!(scripted.count(|call| matches!(call, Call::OpenDma(..))), 0);
    }
}
