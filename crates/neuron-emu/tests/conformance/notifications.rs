//! Records: their phase over laps, space that is given back and space that is not, what a full ring does.
//!
//! Spec `driver.md` section 5, `driver_emulation.md` section 5. Rings are read by phase alone, as clients do.

use crate::client::{
    BLOCK, Client, ENGINES, ERRORS, PATIENCE, QUEUES, RECORD, RING, halting, queues, subtype,
};
use crate::node::Node;
use crate::{small, under, with_node};
use neuron_emu::{Emulator, Event};
use std::array;
use std::thread;
use xu_abi::StatusRecord;
use xu_abi::driver::errno::Answer::Done;
use xu_abi::driver::unverified::NQ_FULL;
use xu_abi::driver::{NotificationsInitWithReallocV2, NqType, ioctl as row};
use xu_abi::record::{Subtype, ring_bits};
use zerocopy::FromBytes;

const RECORDS: u32 = RING / RECORD;
const QUARTER: u32 = RECORDS / 4;
/// Each engine posts so many records for an execution: START and END.
const RECORDS_OF_EXECUTION: u32 = 2;
const LAPS: u32 = 5;

fn stamp(record: [u8; 16]) -> u64 {
    StatusRecord::read_from_bytes(&record)
        .unwrap()
        .device_ts
        .get()
}

fn has_overflowed(record: [u8; 16]) -> bool {
    record[3] & ring_bits::RING_OVERFLOW != 0
}

#[test]
fn over_five_laps_with_the_head_written_each_quarter_every_record_comes_with_its_phase() {
    with_node(small(), |node| {
        let mut client = Client::open(node);
        client.load(&halting());
        let mut last = [0; ENGINES];
        for execution in 0..LAPS * RECORDS / RECORDS_OF_EXECUTION {
            client.execute();
            for (queue, last) in last.iter_mut().enumerate() {
                for expected in [Subtype::Start, Subtype::End] {
                    let record = client.await_next(queue);
                    assert_eq!(subtype(record), expected, "{queue}, execution {execution}");
                    assert!(!has_overflowed(record), "{queue}, execution {execution}");
                    let posted = stamp(record);
                    assert!(posted > *last, "{queue}, execution {execution}: stale");
                    *last = posted;
                }
                if client.read(queue).is_multiple_of(QUARTER) {
                    client.give_back(queue);
                    let at = client.read(queue) % RECORDS * RECORD;
                    assert_eq!(client.registers(queue), [at; 2], "head = tail: empty");
                }
            }
        }
        for queue in 0..QUEUES {
            assert_eq!(client.next(queue), None, "nothing that nobody has posted");
        }
        assert_eq!(client.read(0), LAPS * RECORDS);
        assert_eq!(client.read(ERRORS), 0);
        assert_eq!(client.register(BLOCK + NQ_FULL), 0);
    });
}

#[test]
fn what_finds_no_room_is_lost_and_the_next_record_that_fits_says_so() {
    with_node(small(), |node| {
        let mut client = Client::open(node);
        client.load(&halting());
        // The last END finds no room: one slot stays free, so that an empty ring is not a full one.
        for _ in 0..RECORDS / RECORDS_OF_EXECUTION {
            client.execute();
        }
        let all: u32 = queues()[..ENGINES].iter().map(|nq| 1 << nq).sum();
        client.await_register(BLOCK + NQ_FULL, all);
        for queue in 0..ENGINES {
            let records: [_; RECORDS as usize - 1] = array::from_fn(|_| client.await_next(queue));
            assert!(!records.into_iter().any(has_overflowed));
            assert_eq!(subtype(records[RECORDS as usize - 2]), Subtype::Start);
            assert_eq!(client.next(queue), None, "the END is lost");
            client.give_back(queue);
        }
        // Nothing is marked until something fits: then that one, in its last place on the lap, and not the one behind it.
        client.execute();
        for queue in 0..ENGINES {
            let [start, end] = array::from_fn(|_| client.await_next(queue));
            assert_eq!([start, end].map(subtype), [Subtype::Start, Subtype::End]);
            assert_eq!([start, end].map(has_overflowed), [true, false], "{queue}");
        }
        // The cause stays until the ring is programmed anew.
        assert_eq!(client.register(BLOCK + NQ_FULL), all);
        assert_eq!(Client::open(node).register(BLOCK + NQ_FULL), 0);
    });
}

#[test]
fn a_head_is_a_record_inside_the_ring_that_is_not_beyond_the_tail() {
    let emulator = Emulator::start(small()).unwrap();
    let ran = under(&emulator, || {
        let node = Node::open(0);
        let mut client = Client::open(&node);
        client.load(&halting());
        client.execute();
        for queue in 0..ENGINES {
            client.await_next(queue);
            client.await_next(queue);
        }
        // Two records are there.
        assert_eq!(client.registers(0), [0, 2 * RECORD]);
        for bad in [8, 3 * RECORD, RING - RECORD, RING, u32::MAX] {
            client.set_head(0, bad);
            assert_eq!(client.registers(0), [0, 2 * RECORD], "{bad} is not taken");
        }
        for good in [0, RECORD, 2 * RECORD] {
            client.set_head(0, good);
            assert_eq!(client.registers(0), [good, 2 * RECORD]);
        }
        // Back again would be beyond the tail, a lap later.
        client.set_head(0, RECORD);
        assert_eq!(client.registers(0), [2 * RECORD; 2]);
    });
    if ran.is_some() {
        let is_warning = |event: &Event| matches!(event, Event::Warning(_));
        let trace = emulator.trace();
        let warnings = trace.iter().filter(|traced| is_warning(&traced.event));
        assert_eq!(warnings.count(), 6, "each is told");
    }
}

#[test]
fn queues_that_are_not_enabled_drop_without_a_trace() {
    for (mask, enabled) in [(0, 0..0), (!(1 << queues()[0]), 1..ENGINES)] {
        with_node(small(), |node| {
            let client = &mut Client::open(node);
            client.load(&halting());
            client.enable(mask);
            client.execute();
            client.execute();
            // Executions do not overlap: the first is over when the descriptors of the second are taken.
            let taken = (0..PATIENCE).any(|_| {
                thread::yield_now();
                client.queue_state().head_pointer >= 8
            });
            assert!(taken, "the second execution has not begun");
            for queue in enabled.clone() {
                assert_eq!(subtype(client.await_next(queue)), Subtype::Start);
            }
            for queue in (0..ENGINES).filter(|queue| !enabled.contains(queue)) {
                assert_eq!(client.registers(queue), [0; 2]);
                assert_eq!(client.next(queue), None);
            }
            assert_eq!(client.register(BLOCK + NQ_FULL), 0);
        });
    }
}

#[test]
fn a_ring_that_is_asked_for_again_keeps_its_records_and_a_forced_one_has_none() {
    with_node(small(), |node| {
        let mut client = Client::open(node);
        client.load(&halting());
        client.execute();
        client.await_next(0);
        let queue = u32::from(queues()[0]);
        let first = |force_alloc_mem| {
            let mut ring = ring_of(NqType::Notify, queue);
            ring.force_alloc_mem = force_alloc_mem;
            let made = node.ask(row::NOTIFICATIONS_INIT_WITH_REALLOC_V2, &mut ring);
            assert_eq!(made, Done);
            let mut record = [0; 16];
            assert_eq!(node.copy(ring.mem_handle, 0, &mut record, false), Done);
            record
        };
        let stale = first(0);
        assert_eq!(
            subtype(stale),
            Subtype::Start,
            "as if it had just been posted"
        );
        assert_ne!(stale[3] & ring_bits::PHASE, 0);
        assert_eq!(first(1), [0; 16]);
    });
}

#[test]
fn two_types_with_one_engine_index_fight_over_one_queue_of_the_hardware() {
    with_node(small(), |node| {
        let mut client = Client::open(node);
        client.load(&halting());
        let mut other = ring_of(NqType::Error, queues()[0].into());
        let made = node.ask(row::NOTIFICATIONS_INIT_WITH_REALLOC_V2, &mut other);
        assert_eq!(made, Done);
        client.execute();
        for queue in 1..ENGINES {
            client.await_next(queue);
            client.await_next(queue);
        }
        client.execute();
        client.await_next(1);
        // The first execution is over.
        let mut record = [0; 16];
        assert_eq!(node.copy(other.mem_handle, 0, &mut record, false), Done);
        assert_eq!(subtype(record), Subtype::Start, "who came last has them");
        assert_eq!(client.next(0), None);
    });
}

/// Asks for a ring of host memory.
fn ring_of(nq_type: NqType, engine_index: u32) -> NotificationsInitWithReallocV2 {
    NotificationsInitWithReallocV2 {
        nq_type: nq_type.raw(),
        engine_index,
        size: RING,
        on_host_memory: 1,
        ..NotificationsInitWithReallocV2::ZEROED
    }
}
