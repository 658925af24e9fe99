//! Records: their phase over laps, space that is given back and space that is not, what a full ring does.
//!
//! Spec `driver.md` section 5, `driver_emulation.md` section 5. Rings are read by phase alone, as clients do.

use crate::client::{BLOCK, Client, ERRORS, QUEUES, RECORD, RING, halting, queues};
use crate::node::Node;
use crate::{small, under, with_node};
use neuron_emu::{Emulator, Event};
use std::array;
use std::thread;
use xu_abi::StatusRecord;
use xu_abi::driver::unverified::NQ_FULL;
use xu_abi::record::{Subtype, ring_bits};
use zerocopy::FromBytes;

const RECORDS: u32 = RING / RECORD;
const QUARTER: u32 = RECORDS / 4;
/// Each engine posts so many records for an execution: START and END.
const RECORDS_OF_EXECUTION: u32 = 2;
const LAPS: u32 = 5;
/// Those of engines.
const ENGINES: usize = QUEUES - 1;

fn subtype(record: [u8; 16]) -> Subtype {
    StatusRecord::read_from_bytes(&record).unwrap().subtype()
}

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
            for queue in 0..ENGINES {
                for expected in [Subtype::Start, Subtype::End] {
                    let record = client.await_next(queue);
                    assert_eq!(
                        subtype(record),
                        expected,
                        "{queue}, execution {execution}"
                    );
                    assert!(!has_overflowed(record), "{queue}, execution {execution}");
                    let posted = stamp(record);
                    assert!(posted > last[queue], "{queue}, execution {execution}: stale");
                    last[queue] = posted;
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
        drop(client);
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
            while client.queue_state().head_pointer < 8 {
                thread::yield_now();
            }
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
