//! Arithmetic on elements against slow references that share no code with it.
#![allow(clippy::unwrap_used, reason = "functions of tests")]

mod cast;
mod combine;
mod reference;

use xu_device::elementwise::{Dtype, ReduceOp, UnknownDtype, UnknownReduceOp};

#[test]
fn d4_numbers_of_the_c_api_become_types_or_a_typed_error() {
    for raw in (0..300).chain([u32::MAX]) {
        match Dtype::try_from(raw) {
            Ok(dtype) => assert_eq!((dtype.raw(), (1..=15).contains(&raw)), (raw, true)),
            Err(error) => assert_eq!((error, (1..=15).contains(&raw)), (UnknownDtype(raw), false)),
        }
        match ReduceOp::try_from(raw) {
            Ok(op) => assert_eq!((op.raw(), [0, 2, 3].contains(&raw)), (raw, true)),
            Err(error) => assert_eq!(
                (error, [0, 2, 3].contains(&raw)),
                (UnknownReduceOp(raw), false)
            ),
        }
    }
}

#[test]
fn sizes_and_kinds_are_those_of_the_names() {
    for dtype in Dtype::ALL {
        let name = dtype.to_string();
        let bits = ["64", "32", "16"].iter().find(|bits| name.contains(*bits));
        let bytes = bits.map_or(1, |bits| bits.parse::<usize>().unwrap() / 8);
        assert_eq!(dtype.bytes(), bytes, "{name}");
        assert_eq!(dtype.is_float(), name.contains('f'), "{name}");
    }
}
