//! Casts: every type to every type.

use crate::reference::{Number, decode, encode, is_nan, small_float};
use proptest::prelude::*;
use xu_device::elementwise::{Dtype, cast};

/// The element that the cast makes.
fn one(from: Dtype, to: Dtype, bytes: &[u8]) -> Vec<u8> {
    let mut target = vec![0xEE; to.bytes()];
    cast(from, to, &bytes[..from.bytes()], &mut target);
    target
}

/// What is wrong with the cast of one element, if anything.
fn fault(from: Dtype, to: Dtype, bytes: &[u8]) -> Option<String> {
    let bytes = &bytes[..from.bytes()];
    let number = decode(from, bytes);
    let found = one(from, to, bytes);
    let wanted = if from == to {
        bytes.to_vec()
    } else {
        encode(to, number)
    };
    let same = found == wanted || (is_nan(to, &found) && is_nan(to, &wanted));
    (!same).then(|| format!("{from} {bytes:x?} ({number:?}) to {to}: {found:x?}, not {wanted:x?}"))
}

#[test]
fn every_16_bit_and_8_bit_element_casts_to_every_type_as_the_reference_says() {
    for from in Dtype::ALL.into_iter().filter(|dtype| dtype.bytes() <= 2) {
        for to in Dtype::ALL {
            // The reference is slow: a part of the 16-bit codes, always other ones, for the types that it seeks.
            let step = if from.bytes() == 2 { 61 } else { 1 };
            for code in (0..1u32 << (8 * from.bytes())).step_by(step) {
                assert_eq!(fault(from, to, &code.to_le_bytes()), None);
            }
        }
    }
}

#[test]
fn every_number_of_a_small_float_survives_a_round_trip_and_its_neighbourhood_rounds_to_it() {
    for dtype in Dtype::ALL
        .into_iter()
        .filter(|dtype| small_float(*dtype).is_some())
    {
        let float = small_float(dtype).unwrap();
        for code in 0..1u64 << (8 * dtype.bytes() - 1) {
            let (here, next) = (float.value(code), float.value(code + 1));
            if !here.is_finite() || !next.is_finite() {
                continue;
            }
            let to_code = |value: f32| {
                let mut wide = [0; 8];
                wide[..dtype.bytes()].copy_from_slice(&one(
                    Dtype::Float32,
                    dtype,
                    &value.to_le_bytes(),
                ));
                u64::from_le_bytes(wide)
            };
            let middle = f64::midpoint(here, next) as f32;
            assert_eq!(to_code(here as f32), code, "{dtype}");
            assert_eq!(
                to_code(middle),
                code + code % 2,
                "{dtype}: tie above {here}"
            );
            assert_eq!(to_code(middle.next_down()), code, "{dtype}");
            assert_eq!(to_code(middle.next_up()), code + 1, "{dtype}");
        }
    }
}

#[test]
fn fp8_saturates_to_the_largest_finite_value_and_infinity_too() {
    for (dtype, largest) in [
        (Dtype::Fp8E3, 15.5),
        (Dtype::Fp8E4, 448.0),
        (Dtype::Fp8E5, 57344.0),
    ] {
        for value in [largest, largest * 1.03, 1e30, f32::MAX, f32::INFINITY] {
            for value in [value, -value] {
                let code = one(Dtype::Float32, dtype, &value.to_le_bytes());
                assert_eq!(
                    decode(dtype, &code),
                    Number::Float(f64::from(largest.copysign(value)))
                );
            }
        }
    }
}

#[test]
fn an_integer_rounds_once_on_its_way_to_a_small_float() {
    // 2^24 + 2^16 + 1 is just above the middle between two bfloat16; in binary32 it would become that middle.
    let value = (1i64 << 40) + (1 << 32) + 1;
    let rounded_once = one(Dtype::Int64, Dtype::Bfloat16, &value.to_le_bytes());
    assert_eq!(
        decode(Dtype::Bfloat16, &rounded_once),
        Number::Float(((1i64 << 40) + (1 << 33)) as f64)
    );
}

#[test]
fn floats_truncate_and_saturate_on_their_way_to_integers_and_nan_is_0() {
    let to_i8 = |value: f32| one(Dtype::Float32, Dtype::Int8, &value.to_le_bytes())[0] as i8;
    let cases = [
        (1.9, 1),
        (-1.9, -1),
        (127.9, 127),
        (128.0, 127),
        (-129.0, -128),
        (f32::NAN, 0),
    ];
    for (value, wanted) in cases {
        assert_eq!(to_i8(value), wanted, "{value}");
    }
    assert_eq!(
        one(Dtype::Float32, Dtype::Uint64, &f32::INFINITY.to_le_bytes()),
        [0xFF; 8]
    );
    assert_eq!(
        one(Dtype::Float32, Dtype::Uint8, &(-5f32).to_le_bytes()),
        [0]
    );
}

#[test]
fn integers_wrap_on_their_way_to_narrower_ones() {
    assert_eq!(one(Dtype::Int32, Dtype::Int8, &300i32.to_le_bytes()), [44]);
    assert_eq!(
        one(Dtype::Int64, Dtype::Uint32, &(-1i64).to_le_bytes()),
        [0xFF; 4]
    );
    assert_eq!(
        one(Dtype::Int8, Dtype::Uint64, &[0x80]),
        (-128i64).to_le_bytes()
    );
    assert_eq!(
        one(Dtype::Uint8, Dtype::Int64, &[0x80]),
        128i64.to_le_bytes()
    );
}

#[test]
fn a_cast_to_the_same_type_keeps_every_bit() {
    for dtype in Dtype::ALL {
        let bytes: Vec<u8> = (0..=255)
            .cycle()
            .take(4096)
            .map(|byte: u8| byte ^ 0x7F)
            .collect();
        let mut target = vec![0; bytes.len()];
        cast(dtype, dtype, &bytes, &mut target);
        assert_eq!(target, bytes, "{dtype}");
    }
}

#[test]
fn d4_slices_that_do_not_fit_are_used_as_far_as_they_go() {
    for from in Dtype::ALL {
        for to in Dtype::ALL {
            for (source, target) in [(0, 0), (1, 7), (17, 3), (23, 100), (100, 23)] {
                let mut target = vec![0xEE; target];
                cast(from, to, &vec![0; source], &mut target);
                let whole = (source / from.bytes()).min(target.len() / to.bytes()) * to.bytes();
                assert!(target[..whole].iter().all(|byte| *byte == 0));
                assert!(
                    target[whole..].iter().all(|byte| *byte == 0xEE),
                    "{from} to {to}"
                );
            }
        }
    }
}

fn dtypes() -> impl Strategy<Value = Dtype> {
    proptest::sample::select(&Dtype::ALL[..])
}

/// Bits whose magnitude, as an integer, is of any order; half of them near the middle of two 8-bit floats.
fn bits() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        (any::<u64>(), 0..64u32).prop_map(|(bits, shift)| bits >> shift),
        (0..16u64, 0..60u32, -1..=1i64)
            .prop_map(|(top, shift, off)| ((16 + top) << shift).wrapping_add_signed(off)),
        any::<f32>().prop_map(|value| u64::from(value.to_bits())),
        (-20f32..20.0).prop_map(|power| u64::from(power.exp2().to_bits())),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn any_element_casts_to_any_type_as_the_reference_says(from in dtypes(), to in dtypes(), bits in bits()) {
        prop_assume!(!(from != to && from.to_string().starts_with('f') && from.bytes() == 4 && to.bytes() == 4 && to.is_float()));
        prop_assert_eq!(fault(from, to, &bits.to_le_bytes()), None);
    }
}
