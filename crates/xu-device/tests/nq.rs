//! The reader of a notification queue against a scripted device: phase, acknowledgement, overflow bits and
//! rings whose contents are hostile.
//!
//! Scripted, since a test writes the ring.
#![allow(clippy::unwrap_used, reason = "functions of tests")]

mod scripted;

use proptest::prelude::*;
use scripted::{Call, Scripted};
use std::sync::Arc;
use xu_abi::record::{RECORD_SIZE, ring_bits};
use xu_abi::{Status, TpbIndex};
use xu_device::nq::{Mode, NqError, NqReader};
use xu_device::{DeviceError, Head};

const CORE: TpbIndex = TpbIndex::new(1);
const NQ: u8 = 6;

const MODES: [Mode; 2] = [Mode::Phase, Mode::Tail];

fn open(entries: u32) -> (Arc<Scripted>, NqReader) {
    open_in(Mode::Phase, entries)
}

fn open_in(mode: Mode, entries: u32) -> (Arc<Scripted>, NqReader) {
    let (scripted, device) = Scripted::new(2);
    let reader = NqReader::open(&device, CORE, NQ, entries, mode).unwrap();
    scripted.forget();
    (scripted, reader)
}

/// A record that carries `number`, with the tag and no ring bits.
fn numbered(number: u64) -> [u8; 16] {
    let mut record = [0; 16];
    record[3] = NQ;
    record[8..].copy_from_slice(&number.to_le_bytes());
    record
}

fn number(record: [u8; 16]) -> u64 {
    u64::from_le_bytes(record[8..].try_into().unwrap())
}

fn acknowledged(scripted: &Scripted) -> Vec<u64> {
    let heads = scripted.log().into_iter().filter_map(|call| match call {
        Call::Acknowledge(CORE, heads) => match heads[..] {
            [Some(Head { nq: NQ, offset }), None, ..] => Some(offset),
            _ => panic!("{heads:?}"),
        },
        _ => None,
    });
    heads.collect()
}

#[test]
fn d1_phase_flips_at_every_wrap_for_five_laps_at_every_batch_size() {
    for (mode, batch) in MODES
        .iter()
        .flat_map(|mode| (1..=6).map(move |batch| (*mode, batch)))
    {
        let (scripted, mut reader) = open_in(mode, 8);
        let (mut posted, mut read) = (0, 0);
        while read < 5 * 8 {
            for _ in 0..batch {
                scripted.post(CORE, NQ, numbered(posted));
                posted += 1;
            }
            while let Some(record) = reader.next_record().unwrap() {
                assert_eq!(number(record), read);
                read += 1;
            }
            assert_eq!(read, posted, "batches of {batch}");
            reader.acknowledge().unwrap();
        }
    }
}

#[test]
fn d1_an_empty_ring_holds_nothing_and_a_record_of_the_last_lap_is_not_fresh() {
    for mode in MODES {
        let (scripted, mut reader) = open_in(mode, 4);
        for lap in 0..3 {
            assert_eq!(reader.next_record(), Ok(None));
            for index in 0..4 {
                scripted.post(CORE, NQ, numbered(4 * lap + index));
                assert!(reader.next_record().unwrap().is_some());
                assert_eq!(reader.next_record(), Ok(None));
            }
        }
    }
}

#[test]
fn d1_a_size_that_is_no_power_of_two_from_four_is_refused_before_the_device_is_asked() {
    let (scripted, device) = Scripted::new(2);
    for entries in [0, 1, 2, 3, 5, 6, 7, 12, 255, 257, u32::MAX] {
        assert_eq!(
            NqReader::open(&device, CORE, NQ, entries, Mode::Phase).err(),
            Some(DeviceError::BadArgument {
                what: "records of a notification queue",
                value: u64::from(entries),
                allowed: "a power of two from 4",
            })
        );
    }
    assert_eq!(scripted.log(), []);
    for entries in [4, 8, 256] {
        NqReader::open(&device, CORE, NQ, entries, Mode::Phase).unwrap();
        let opened = Call::OpenNq(CORE, NQ, u64::from(entries) * RECORD_SIZE);
        assert_eq!(scripted.log(), [opened]);
        scripted.forget();
    }
}

#[test]
fn d2_validity_is_loaded_before_the_record_is_read() {
    let (scripted, mut reader) = open(8);
    let base = scripted.ring(CORE, NQ);
    assert_eq!(reader.next_record(), Ok(None));
    assert_eq!(scripted.log(), [Call::Load(base)]);
    scripted.forget();
    scripted.post(CORE, NQ, numbered(7));
    reader.next_record().unwrap().unwrap();
    assert_eq!(scripted.log(), [Call::Load(base), Call::Read(base, 16)]);
}

#[test]
fn d2_the_word_that_was_found_valid_is_the_one_that_is_returned() {
    let (scripted, mut reader) = open(8);
    let base = scripted.ring(CORE, NQ);
    scripted.post(CORE, NQ, numbered(7));
    // The device writes over the record between the two looks.
    let device = Arc::clone(&scripted);
    scripted.interrupt(Call::Read(base, 16), move || device.poke(base, &[0xFF; 4]));
    let record = reader.next_record().unwrap().unwrap();
    assert_eq!(record[..4], [0, 0, 0, NQ | ring_bits::PHASE]);
    assert!(!reader.take_overflow_seen());
}

#[test]
fn d2_the_tail_vouches_for_a_record_and_its_phase_says_that_it_has_arrived() {
    let (scripted, mut reader) = open_in(Mode::Tail, 8);
    let base = scripted.ring(CORE, NQ);
    // Fresh by its phase, and the device has not come there.
    scripted.poke(base, &[0, 0, 0, ring_bits::PHASE]);
    scripted.set_tail(CORE, NQ, 0);
    assert_eq!(reader.next_record(), Ok(None));
    assert_eq!(scripted.log(), [Call::Tail(CORE, NQ)]);
    // The device has come there, and the record has not arrived.
    scripted.poke(base, &[0; 4]);
    scripted.set_tail(CORE, NQ, 2 * RECORD_SIZE);
    for _ in 0..3 {
        assert_eq!(reader.next_record(), Ok(None));
    }
    scripted.forget();
    for index in 0..2 {
        let at = base.checked_add(index * RECORD_SIZE).unwrap();
        scripted.poke(at, &[0, 0, 0, ring_bits::PHASE]);
        assert!(reader.next_record().unwrap().is_some());
    }
    // One look at the tail was enough for both.
    assert_eq!(scripted.count(|call| matches!(call, Call::Tail(..))), 0);
    assert_eq!(reader.next_record(), Ok(None));
}

#[test]
fn d3_space_is_returned_every_quarter_of_the_ring() {
    for mode in MODES {
        let (scripted, mut reader) = open_in(mode, 16);
        for record in 0..40 {
            scripted.post(CORE, NQ, numbered(record));
            reader.next_record().unwrap().unwrap();
        }
        let quarters = [4, 8, 12, 0, 4, 8, 12, 0, 4, 8];
        assert_eq!(
            acknowledged(&scripted),
            quarters.map(|index| index * RECORD_SIZE)
        );
    }
}

#[test]
fn d3_a_ring_of_16_records_takes_ten_thousand_as_long_as_they_are_read() {
    for mode in MODES {
        let (scripted, mut reader) = open_in(mode, 16);
        // A record without room is a panic of the scripted device.
        let mut posted = 0;
        for burst in (1..=12).cycle().take(2_000) {
            (0..burst).for_each(|index| scripted.post(CORE, NQ, numbered(posted + index)));
            for expected in posted..posted + burst {
                assert_eq!(reader.next_record().unwrap().map(number), Some(expected));
            }
            posted += burst;
        }
        assert!(posted > 10_000);
    }
}

#[test]
fn d3_space_is_returned_on_demand_once_and_only_when_there_is_some() {
    let (scripted, mut reader) = open(16);
    reader.acknowledge().unwrap();
    assert_eq!(acknowledged(&scripted), []);
    scripted.post(CORE, NQ, numbered(0));
    reader.next_record().unwrap().unwrap();
    reader.acknowledge().unwrap();
    reader.acknowledge().unwrap();
    assert_eq!(acknowledged(&scripted), [RECORD_SIZE]);
    // The quarter counts from the last acknowledgement.
    for record in 1..5 {
        scripted.post(CORE, NQ, numbered(record));
        reader.next_record().unwrap().unwrap();
    }
    assert_eq!(acknowledged(&scripted), [RECORD_SIZE, 5 * RECORD_SIZE]);
}

#[test]
fn d3_overflow_bits_are_seen_once_and_no_other_bit_is_taken_for_one() {
    for (bits, expected) in [
        (ring_bits::RING_OVERFLOW, true),
        (ring_bits::BUFFER_OVERFLOW, true),
        (ring_bits::RING_OVERFLOW | ring_bits::BUFFER_OVERFLOW, true),
        (ring_bits::TAG, false),
        (0, false),
    ] {
        let (scripted, mut reader) = open(8);
        let mut record = numbered(0);
        record[3] = bits;
        scripted.post(CORE, NQ, record);
        assert!(!reader.take_overflow_seen());
        reader.next_record().unwrap().unwrap();
        scripted.post(CORE, NQ, numbered(1));
        reader.next_record().unwrap().unwrap();
        assert_eq!(reader.take_overflow_seen(), expected, "{bits:#x}");
        assert!(!reader.take_overflow_seen());
    }
}

#[test]
fn d3_the_overflow_bit_of_a_record_that_is_not_fresh_does_not_count() {
    let (scripted, mut reader) = open(8);
    scripted.poke(
        scripted.ring(CORE, NQ),
        &[0, 0, 0, ring_bits::RING_OVERFLOW],
    );
    assert_eq!(reader.next_record(), Ok(None));
    assert!(!reader.take_overflow_seen());
}

#[test]
fn d4_a_read_that_fails_is_passed_on() {
    for fails in [
        (|call: &Call| matches!(call, Call::Load(_))) as fn(&Call) -> bool,
        |call| matches!(call, Call::Read(..)),
        |call| matches!(call, Call::Acknowledge(..)),
    ] {
        let (scripted, mut reader) = open(4);
        scripted.post(CORE, NQ, numbered(0));
        scripted.fail(move |call| fails(call).then_some(DeviceError::Lost));
        assert_eq!(
            reader.next_record(),
            Err(NqError::Device(DeviceError::Lost))
        );
    }
}

/// What a reader that has read `read` records says about `tail`, and how many records it has looked at since.
fn with_tail(entries: u32, read: u32, tail: u64) -> (Result<Option<[u8; 16]>, NqError>, usize) {
    let (scripted, mut reader) = open_in(Mode::Tail, entries);
    for record in 0..read {
        scripted.post(CORE, NQ, numbered(record.into()));
        reader.next_record().unwrap().unwrap();
    }
    scripted.forget();
    scripted.set_tail(CORE, NQ, tail);
    let answer = reader.next_record();
    let looked = scripted.count(|call| matches!(call, Call::Load(_) | Call::Read(..)));
    (answer, looked)
}

#[test]
fn d4_a_tail_1000_records_ahead_of_a_ring_of_128_is_a_protocol_fault_and_no_record_is_looked_at() {
    let (answer, looked) = with_tail(128, 0, 1_000 * RECORD_SIZE);
    let fault = NqError::TailOutsideRing {
        tpb: CORE,
        nq: NQ,
        tail: 16_000,
        bytes: 2_048,
    };
    assert_eq!(answer, Err(fault.clone()));
    assert_eq!(looked, 0);
    assert_eq!(fault.status(), Status::HW_ERROR);
    assert_eq!(
        fault.to_string(),
        "core 1: the tail of queue 6 is 16000, the ring ends at 2048"
    );
}

#[test]
fn d4_a_tail_outside_of_the_ring_or_between_two_records_is_a_protocol_fault() {
    for read in [0, 1, 3] {
        for tail in [2_048, 2_049, 4_096, u64::MAX - 15, u64::MAX] {
            let (answer, looked) = with_tail(128, read, tail);
            let named =
                matches!(answer, Err(NqError::TailOutsideRing { tail: t, .. }) if t == tail);
            assert!(named && looked == 0, "{answer:?}");
        }
        for tail in [1, 8, 15, 17, 2_047] {
            let (answer, looked) = with_tail(128, read, tail);
            let named =
                matches!(answer, Err(NqError::TailBetweenRecords { tail: t, .. }) if t == tail);
            assert!(named && looked == 0, "{answer:?}");
        }
    }
}

#[test]
fn d4_a_tail_that_has_passed_space_that_was_not_given_back_is_a_protocol_fault() {
    // 35 records read, 32 of them acknowledged: the device may be at 35 to 31, one slot stays free.
    for tail in 0..128 {
        let (answer, _) = with_tail(128, 35, tail * RECORD_SIZE);
        if (32..35).contains(&tail) {
            let fault = NqError::TailTooFarAhead {
                tpb: CORE,
                nq: NQ,
                tail: tail * RECORD_SIZE,
                ahead: tail as u32 + 128 - 35,
                room: 124,
            };
            assert_eq!(answer, Err(fault));
        } else {
            // Nothing has arrived there.
            assert_eq!(answer, Ok(None), "{tail}");
        }
    }
}

#[test]
fn d4_a_tail_vouches_for_less_than_a_ring_however_often_it_is_asked() {
    let (scripted, mut reader) = open_in(Mode::Tail, 128);
    // Everything is fresh on this lap, and the tail is as far ahead as can be.
    for index in 0..128 {
        let at = scripted
            .ring(CORE, NQ)
            .checked_add(index * RECORD_SIZE)
            .unwrap();
        scripted.poke(at, &[0, 0, 0, ring_bits::PHASE]);
    }
    scripted.set_tail(CORE, NQ, 127 * RECORD_SIZE);
    let mut read = 0;
    for _ in 0..1_000 {
        read += usize::from(reader.next_record().unwrap().is_some());
    }
    assert_eq!(read, 127);
}

#[test]
fn d4_a_tail_register_that_cannot_be_read_is_passed_on() {
    let (scripted, mut reader) = open_in(Mode::Tail, 4);
    scripted.fail(|call| matches!(call, Call::Tail(..)).then_some(DeviceError::Lost));
    let refused = reader.next_record();
    assert_eq!(refused, Err(NqError::Device(DeviceError::Lost)));
    assert_eq!(refused.unwrap_err().status(), Status::HW_ERROR);
}

#[test]
fn d4_acknowledgements_that_are_refused_for_ever_lead_to_no_panic() {
    for mode in MODES {
        let (scripted, mut reader) = open_in(mode, 4);
        scripted.fail(|call| matches!(call, Call::Acknowledge(..)).then_some(DeviceError::Lost));
        scripted.write_without_end(CORE, NQ);
        for tail in (0..100).map(|index| index % 4 * RECORD_SIZE) {
            scripted.set_tail(CORE, NQ, tail);
            let _ = reader.next_record();
        }
    }
}

#[test]
fn d4_a_ring_that_leaves_the_address_space_is_a_bad_address() {
    let (scripted, device) = Scripted::new(2);
    // Room for one record.
    scripted.place_next_ring(u64::MAX - 15);
    let mut reader = NqReader::open(&device, CORE, NQ, 4, Mode::Phase).unwrap();
    scripted.post(CORE, NQ, numbered(0));
    reader.next_record().unwrap().unwrap();
    let refused = reader.next_record();
    assert!(
        matches!(
            refused,
            Err(NqError::Device(DeviceError::BadAddress { .. }))
        ),
        "{refused:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a ring holds, one call looks at one record, inside the ring, and a lap of calls ends.
    #[test]
    fn d4_hostile_ring_contents_are_never_read_beyond_what_was_asked(
        contents in prop::collection::vec(any::<u8>(), 16 * 16),
        calls in 1usize..100,
    ) {
        let (scripted, mut reader) = open(16);
        let base = scripted.ring(CORE, NQ);
        scripted.poke(base, &contents);
        let mut read = 0;
        for _ in 0..calls {
            scripted.forget();
            let record = reader.next_record().unwrap();
            let at = base.checked_add(read % 16 * RECORD_SIZE).unwrap();
            let log = scripted.log();
            prop_assert_eq!(&log[0], &Call::Load(at));
            match record {
                None => prop_assert_eq!(log.len(), 1),
                Some(bytes) => {
                    prop_assert_eq!(&log[1], &Call::Read(at, 16));
                    prop_assert!(log[2..].iter().all(|call| matches!(call, Call::Acknowledge(..))));
                    let start = (read % 16 * RECORD_SIZE) as usize;
                    prop_assert_eq!(&bytes[..], &contents[start..start + 16]);
                    read += 1;
                }
            }
        }
        // No record is fresh on two laps, so without a writer at most the first lap is read.
        prop_assert!(read <= 16);
    }
}
