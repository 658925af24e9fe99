//! The rules of `checks.rs` for many patterns of bytes, and numbers near which rules change.

use super::checks::*;
use proptest::collection::vec;
use proptest::prelude::*;

/// Bytes that are often full of zeros or ones, where fields have their borders.
fn bytes(size: usize) -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![3 => any::<u8>(), 1 => Just(0), 1 => Just(0xFF), 1 => 0_u8..12];
    vec(byte, size..size + 4)
}

/// A whole number that is often close to a border.
fn near_a_border() -> impl Strategy<Value = u64> {
    let borders = [0, 16, 48, 63].map(|bit| 1_u64 << bit);
    prop_oneof![
        any::<u64>(),
        0_u64..200_000,
        (prop::sample::select(borders.to_vec()), -2_i64..3)
            .prop_map(|(border, by)| border.wrapping_add_signed(by)),
    ]
}

proptest! {
    #[test]
    fn requests(bytes in bytes(52)) { request(&bytes) }

    #[test]
    fn request_buffers(bytes in bytes(56)) { request_buffer(&bytes) }

    #[test]
    fn status_records(bytes in bytes(16)) { status_record(&bytes) }

    #[test]
    fn error_records(bytes in bytes(16)) { error_record(&bytes) }

    #[test]
    fn descriptors(bytes in bytes(16)) { descriptor(&bytes) }

    #[test]
    fn work_items(bytes in bytes(208)) { work_item(&bytes) }

    #[test]
    fn host_structs(bytes in bytes(576)) { host(&bytes) }

    #[test]
    fn sequences(one in near_a_border(), other in any::<u64>(), same in any::<bool>()) {
        let other = if same { one ^ (other % (1 << 48)) } else { other };
        ids(&[one.to_le_bytes(), other.to_le_bytes()].concat());
    }

    #[test]
    fn statuses(one in prop_oneof![any::<i32>(), 0..1300], other in prop_oneof![any::<i32>(), 0..1300]) {
        status(&[one.to_le_bytes(), other.to_le_bytes()].concat());
    }

    #[test]
    fn chains(
        ends in [near_a_border(), near_a_border()],
        len in prop_oneof![near_a_border(), 0_u64..(70 << 16)],
        descriptors in prop_oneof![0_u32..70, any::<u32>()],
        laps in any::<u32>(),
        options in any::<u8>(),
    ) {
        let mut bytes = [ends[0], ends[1], len].map(u64::to_le_bytes).concat();
        bytes.extend([descriptors, laps].map(u32::to_le_bytes).concat());
        bytes.push(options);
        chain(&bytes);
    }
}
