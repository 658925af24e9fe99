//! Reductions, and multiply and add.

use crate::reference::{Number, decode, encode, is_nan, small_float};
use proptest::prelude::*;
use xu_device::elementwise::{Dtype, ReduceOp, accumulate, fma};

fn reduced(op: ReduceOp, dtype: Dtype, a: &[u8], b: &[u8]) -> Vec<u8> {
    let mut into = a[..dtype.bytes()].to_vec();
    accumulate(op, dtype, &mut into, &b[..dtype.bytes()]);
    into
}

/// The bytes that `a op b` should be.
fn reference(op: ReduceOp, dtype: Dtype, a: &[u8], b: &[u8]) -> Vec<u8> {
    if op != ReduceOp::Add && dtype.is_float() {
        return if takes_first(op, dtype, a, b) { a } else { b }[..dtype.bytes()].to_vec();
    }
    let (a, b) = (
        decode(dtype, &a[..dtype.bytes()]),
        decode(dtype, &b[..dtype.bytes()]),
    );
    let number = match (a, b) {
        (Number::Int(a), Number::Int(b)) => Number::Int(match op {
            ReduceOp::Add => a + b,
            ReduceOp::Max => a.max(b),
            ReduceOp::Min => a.min(b),
        }),
        (Number::Float(a), Number::Float(b)) => Number::Float(match op {
            // In 32 bits, then once to the type.
            ReduceOp::Add => f64::from(a as f32 + b as f32),
            ReduceOp::Max | ReduceOp::Min => panic!("{op} takes one of the operands"),
        }),
        mixed => panic!("{mixed:?}"),
    };
    encode(dtype, number)
}

/// Which of two floats MAX or MIN takes: by class of number first, then by the order of the real numbers.
fn takes_first(op: ReduceOp, dtype: Dtype, a: &[u8], b: &[u8]) -> bool {
    let [a, b] = [a, b].map(|bytes| match decode(dtype, &bytes[..dtype.bytes()]) {
        Number::Float(value) => value,
        int @ Number::Int(_) => panic!("{int:?}"),
    });
    match (a.is_nan(), b.is_nan()) {
        (true, _) => true,
        (false, true) => false,
        (false, false) if op == ReduceOp::Max => a.total_cmp(&b).is_ge(),
        (false, false) => a.total_cmp(&b).is_le(),
    }
}

fn same(op: ReduceOp, dtype: Dtype, found: &[u8], wanted: &[u8]) -> bool {
    // A NaN that is computed may be any; one that is taken is the operand.
    found == wanted || (op == ReduceOp::Add && is_nan(dtype, found) && is_nan(dtype, wanted))
}

#[test]
fn every_pair_of_8_bit_elements_reduces_as_the_reference_says() {
    for dtype in Dtype::ALL.into_iter().filter(|dtype| dtype.bytes() == 1) {
        for op in ReduceOp::ALL {
            // Each of one side with a part of the other, since the reference is slow.
            for a in 0..=255u8 {
                for b in (0..=255u8).step_by(7) {
                    let (found, wanted) = (
                        reduced(op, dtype, &[a], &[b]),
                        reference(op, dtype, &[a], &[b]),
                    );
                    assert!(
                        same(op, dtype, &found, &wanted),
                        "{a:#x} {op} {b:#x}, {dtype}: {found:x?} {wanted:x?}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_nan_wins_on_either_side_and_zeros_are_ordered() {
    let bytes = f32::to_le_bytes;
    for op in [ReduceOp::Max, ReduceOp::Min] {
        for (a, b) in [(f32::NAN, 1.0), (1.0, f32::NAN), (f32::NAN, f32::INFINITY)] {
            let found = reduced(op, Dtype::Float32, &bytes(a), &bytes(b));
            assert!(is_nan(Dtype::Float32, &found), "{a} {op} {b}");
        }
    }
    for (a, b) in [(0.0, -0.0), (-0.0, 0.0)] {
        assert_eq!(
            reduced(ReduceOp::Max, Dtype::Float32, &bytes(a), &bytes(b)),
            bytes(0.0)
        );
        assert_eq!(
            reduced(ReduceOp::Min, Dtype::Float32, &bytes(a), &bytes(b)),
            bytes(-0.0)
        );
    }
}

#[test]
fn the_larger_and_the_smaller_are_operands_bit_by_bit_and_only_sums_saturate() {
    // Format, infinity, largest finite number, a NaN that no arithmetic makes.
    for (dtype, infinity, largest, nan) in [
        (Dtype::Fp8E3, 0x70, 0x6F, 0x7F),
        (Dtype::Fp8E5, 0x7C, 0x7B, 0x7D),
    ] {
        for (a, b) in [(infinity, largest), (largest, infinity)] {
            assert_eq!(reduced(ReduceOp::Max, dtype, &[a], &[b]), [infinity]);
            let minus = |code: u8| [code | 0x80];
            assert_eq!(
                reduced(ReduceOp::Min, dtype, &minus(a), &minus(b)),
                minus(infinity)
            );
        }
        assert_eq!(reduced(ReduceOp::Add, dtype, &[infinity], &[0]), [largest]);
        assert_eq!(reduced(ReduceOp::Max, dtype, &[nan], &[infinity]), [nan]);
        assert_eq!(reduced(ReduceOp::Min, dtype, &[infinity], &[nan]), [nan]);
    }
}

#[test]
fn the_larger_and_the_smaller_of_one_and_the_same_element_is_that_element() {
    for dtype in Dtype::ALL {
        for op in [ReduceOp::Max, ReduceOp::Min] {
            for high in 0..=u16::MAX {
                let mut bytes = [0x81; 8];
                // The bytes with sign and exponent take every value.
                bytes[dtype.bytes().saturating_sub(2)..][..2].copy_from_slice(&high.to_le_bytes());
                let wanted = &bytes[..dtype.bytes()];
                assert_eq!(reduced(op, dtype, &bytes, &bytes), wanted, "{op} {dtype}");
            }
        }
    }
}

#[test]
fn multiply_and_add_rounds_once() {
    // The product needs 48 bits; rounding it before the addition would leave nothing.
    let a = 1.0 + f32::EPSILON;
    let mut into = a.to_le_bytes();
    let minus_rounded = -(a * a);
    fma(
        Dtype::Float32,
        &mut into,
        &a.to_le_bytes(),
        &minus_rounded.to_le_bytes(),
    );
    assert_eq!(f32::from_le_bytes(into), f32::EPSILON * f32::EPSILON);
}

#[test]
fn d4_multiply_and_add_leaves_integers_alone() {
    for dtype in Dtype::ALL.into_iter().filter(|dtype| !dtype.is_float()) {
        let mut into = [3; 16];
        fma(dtype, &mut into, &[2; 16], &[1; 16]);
        assert_eq!(into, [3; 16]);
    }
}

fn floats() -> impl Strategy<Value = Dtype> {
    let floats: Vec<Dtype> = Dtype::ALL
        .into_iter()
        .filter(|dtype| dtype.is_float())
        .collect();
    proptest::sample::select(floats)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_two_elements_reduce_as_the_reference_says(
        dtype in proptest::sample::select(&Dtype::ALL[..]),
        op in proptest::sample::select(&ReduceOp::ALL[..]),
        a in any::<[u8; 8]>(),
        b in any::<[u8; 8]>(),
    ) {
        let (found, wanted) = (reduced(op, dtype, &a, &b), reference(op, dtype, &a, &b));
        prop_assert!(same(op, dtype, &found, &wanted), "{:x?} {} {:x?}, {}: {:x?} {:x?}", a, op, b, dtype, found, wanted);
    }

    #[test]
    fn multiply_and_add_is_computed_in_32_bits_and_rounded_to_the_type(
        dtype in floats(), a in any::<[u8; 4]>(), b in any::<[u8; 4]>(), c in any::<[u8; 4]>(),
    ) {
        let size = dtype.bytes();
        let value = |bytes: &[u8]| match decode(dtype, &bytes[..size]) {
            Number::Float(value) => value as f32,
            int @ Number::Int(_) => panic!("{int:?}"),
        };
        let exact = value(&a).mul_add(value(&b), value(&c));
        let wanted = if small_float(dtype).is_some() {
            encode(dtype, Number::Float(exact.into()))
        } else {
            exact.to_le_bytes().to_vec()
        };
        let mut into = a[..size].to_vec();
        fma(dtype, &mut into, &b[..size], &c[..size]);
        prop_assert!(same(ReduceOp::Add, dtype, &into, &wanted), "{}: {:x?} {:x?}", dtype, into, wanted);
    }
}
