//! Every decoder takes every pattern of bytes, and gives back the bytes that it was given.
//!
//! The rules are in `checks.rs`, which the fuzz targets use as well.
//! Here a few patterns by hand, which run under miri too, and many by chance, which do not.
#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests may panic as tests may"
)]

#[cfg(not(miri))]
mod by_chance;
#[expect(unreachable_pub, reason = "the fuzz targets include this file, too")]
mod checks;

use checks::*;
use xu_abi::descriptor::CopyPair;
use xu_abi::record::{Subtype, ring_bits};
use xu_abi::work_item::{WorkItem, WorkKind};
use xu_abi::{DeviceAddr, Engine, ErrorRecord, ExecRequest, RequestBuffer, RingId, StatusRecord};

type Decoder = fn(&[u8]);

/// Each decoder with the number of bytes that it reads.
const DECODERS: [(Decoder, usize); 10] = [
    (request, 52),
    (request_buffer, 56),
    (status_record, 16),
    (error_record, 16),
    (descriptor, 16),
    (ids, 16),
    (status, 8),
    (work_item, 208),
    (host, 576),
    (chain, 33),
];

#[test]
fn zeros_ones_and_counted_bytes_are_values() {
    for (decoder, size) in DECODERS {
        decoder(&vec![0x00; size]);
        decoder(&vec![0xFF; size]);
        decoder(&(0..size).map(|at| at as u8).collect::<Vec<_>>());
        decoder(&(0..size).map(|at| !at as u8).collect::<Vec<_>>());
    }
}

#[test]
fn too_few_bytes_are_refused_and_more_are_ignored() {
    for (decoder, size) in DECODERS {
        for len in [0, 1, size / 2, size - 1, size + 1, size + 64] {
            decoder(&vec![0xA5; len]);
        }
    }
    let refused = StatusRecord::read(&[0; 15]).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "number of bytes of StatusRecord is 15, allowed: 16 or more"
    );
}

/// Byte patterns at which ids, statuses and chains change their meaning.
#[test]
fn borders_of_number_spaces() {
    for seq in [
        0x0301_0000_0000_0000_u64,
        0x0301_0000_0000_0001,
        0x0301_FFFF_FFFF_FFFE,
        0x0301_FFFF_FFFF_FFFF,
        0x0310_0000_0000_0001,
        0x0320_0000_0000_0001,
        0x0303_0000_0000_0001,
        u64::from(u32::MAX),
    ] {
        ids(&seq.to_le_bytes());
    }
    for code in [
        -1_i32, 0, 1, 5, 1003, 1004, 1199, 1200, 1204, 1205, 1206, 1207,
    ] {
        for other in [0_i32, 5, 1004, i32::MIN] {
            status(&[code.to_le_bytes(), other.to_le_bytes()].concat());
        }
    }
    let lengths: &[u64] = if cfg!(miri) {
        &[1, 65_537]
    } else {
        &[
            1,
            65_535,
            65_536,
            65_537,
            64 << 16,
            (64 << 16) + 1,
            1 << 40,
            u64::MAX,
        ]
    };
    for (from, len) in lengths
        .iter()
        .flat_map(|len| [(0, *len), (len.wrapping_neg(), *len)])
    {
        for options in 0..4 {
            let (to, descriptors, laps) = (0x1000_u64, 32_u32, 31_u32);
            let mut bytes = [from, to, len].map(u64::to_le_bytes).concat();
            bytes.extend([descriptors, laps].map(u32::to_le_bytes).concat());
            bytes.push(options);
            chain(&bytes);
        }
    }
}

#[test]
fn what_the_builders_make_is_what_the_decoders_read() {
    let mut buffer = RequestBuffer::default();
    for (index, engine) in (1..).zip(Engine::ALL) {
        let addr = DeviceAddr::new(0x0123_4567_89AB_CDEF * index);
        buffer.body.set_engine_address(engine, addr);
    }
    request(&buffer.body.to_bytes());
    request_buffer(&buffer.to_bytes());
    assert_eq!(ExecRequest::read(&buffer.to_bytes()), Ok(buffer.body));

    let mut end = StatusRecord::new(Subtype::End, 0xFF, 99);
    end.ring_and_tag |= ring_bits::PHASE;
    status_record(&end.to_bytes());
    assert_eq!(
        end.to_bytes(),
        [0, 0, 0, 0x9F, 0, 0, 3, 0, 99, 0, 0, 0, 0, 0, 0, 0]
    );
    error_record(&ErrorRecord::default().to_bytes());

    let ends = (DeviceAddr::new(0x1000), DeviceAddr::new(0x2000));
    let pair = CopyPair::new(ends.0, ends.1, 0x1_0000, RingId::FIRST).unwrap();
    let pair = pair.with_write_barrier();
    let expected = [0, 0, 0, 0x0D, 3, 0, 8, 5, 0, 0x10, 0, 0, 0, 0, 0, 0];
    assert_eq!(pair.tx.to_bytes(), expected);
    let expected = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0, 0];
    assert_eq!(pair.rx.to_bytes(), expected);
    descriptor(&pair.tx.to_bytes());

    work_item(&WorkItem::new(WorkKind::Stop).to_bytes());
    assert_eq!(WorkItem::new(WorkKind::Stop).to_bytes()[..4], [1, 0, 0, 0]);
}

/// A linked chain as one of its packets lies in the ring: FIRST, CONCAT, CONCAT and LAST.
#[test]
fn a_linked_copy_says_where_it_begins_and_ends() {
    use xu_abi::chain::{CopyChain, Framing};

    let mut chain = CopyChain::new(
        DeviceAddr::new(0),
        DeviceAddr::new(1 << 40),
        0x2_0034,
        Framing::Linked,
    )
    .unwrap()
    .with_write_barrier();
    let words: Vec<_> = std::iter::from_fn(|| chain.next_pair(RingId::FIRST))
        .map(|pair| {
            [
                pair.tx.len_ctrl.get(),
                pair.tx.meta_ctrl.get(),
                pair.rx.len_ctrl.get(),
            ]
        })
        .collect();
    assert_eq!(
        words,
        [
            [0x0500_0000, 0x0108_0003, 0x0100_0000],
            [0x8100_0000, 0x0108_0003, 0x0100_0000],
            [0x8900_0034, 0x0508_0003, 0x0100_0034],
        ]
    );
    assert_eq!((chain.pairs_left(), chain.bytes_left()), (0, 0));
}
