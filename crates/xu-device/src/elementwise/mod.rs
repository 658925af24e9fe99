//! Arithmetic on elements: convert, reduce, multiply and add, over little-endian bytes.
//!
//! Called by [`tensor_op`](crate::tensor_op) with a chunk at a time, and by nobody who knows a device: these are
//! functions from bytes to bytes that never fail on a value.
//! A slice that does not end with a whole element is used up to its last whole one; of two slices of different
//! lengths the shorter one counts.
//!
//! Rules (spec `c-api.md` section 6.6):
//!
//! | operation | rule |
//! |---|---|
//! | cast to a float | nearest, ties to even, once; FP8 saturates to the largest finite value, as sums do |
//! | cast of a float to an integer | towards zero, saturates, NaN becomes 0 |
//! | cast of an integer to a narrower one | wraps |
//! | ADD of integers | wraps |
//! | MIN and MAX | one of the operands, bit by bit: infinities stay what they are |
//! | MIN and MAX of floats | a NaN wins, the first of two; the zeros are ordered, -0 below +0 |
//! | any arithmetic of floats narrower than 32 bits | in 32 bits, rounded once per step |
//! | multiply and add | floats only, in 32 bits with one rounding, then to the type |
//!
//! | module | subject |
//! |---|---|
//! | `dtype` | the element types and their numbers in the C API |
//! | `element` | what each type can do |
//! | `fp8` | the three 8-bit floats |

mod dtype;
mod element;
mod fp8;

pub use dtype::{Dtype, ReduceOp, UnknownDtype, UnknownReduceOp};

use element::{Element, Float};
use half::{bf16, f16};

/// Evaluates `$body` with `$T` standing for the type that holds elements of `$dtype`.
macro_rules! with_element {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            Dtype::Uint64 => with_element!(@ u64, $T, $body),
            Dtype::Int8 => with_element!(@ i8, $T, $body),
            Dtype::Uint8 => with_element!(@ u8, $T, $body),
            Dtype::Int16 => with_element!(@ i16, $T, $body),
            Dtype::Uint16 => with_element!(@ u16, $T, $body),
            Dtype::Bfloat16 => with_element!(@ bf16, $T, $body),
            Dtype::Float16 => with_element!(@ f16, $T, $body),
            Dtype::Int32 => with_element!(@ i32, $T, $body),
            Dtype::Uint32 => with_element!(@ u32, $T, $body),
            Dtype::Float32 | Dtype::Fp32r => with_element!(@ f32, $T, $body),
            Dtype::Int64 => with_element!(@ i64, $T, $body),
            Dtype::Fp8E3 => with_element!(@ fp8::E3M4, $T, $body),
            Dtype::Fp8E4 => with_element!(@ fp8::E4M3, $T, $body),
            Dtype::Fp8E5 => with_element!(@ fp8::E5M2, $T, $body),
        }
    };
    (@ $element:ty, $T:ident, $body:expr) => {{
        type $T = $element;
        $body
    }};
}

/// Converts elements of `from` in `source` to elements of `to` in `target`. Equal types are copied bit by bit.
pub fn cast(from: Dtype, to: Dtype, source: &[u8], target: &mut [u8]) {
    if from.same_bits(to) {
        let whole = source.len().min(target.len()) / from.bytes() * from.bytes();
        // PANIC: `whole` is at most either length.
        target[..whole].copy_from_slice(&source[..whole]);
        return;
    }
    with_element!(from, S => with_element!(to, T => cast_elements::<S, T>(source, target)));
}

/// Combines each element of `source` into the one at its place in `into`: `into = into op source`.
pub fn accumulate(op: ReduceOp, dtype: Dtype, into: &mut [u8], source: &[u8]) {
    with_element!(dtype, T => match op {
        ReduceOp::Add => combine::<T>(into, source, T::add),
        ReduceOp::Max => combine::<T>(into, source, T::larger),
        ReduceOp::Min => combine::<T>(into, source, T::smaller),
    });
}

/// Multiplies and adds: `into = into * factor + term`.
///
/// Integers are not changed: whoever builds the operation refuses them.
pub fn fma(dtype: Dtype, into: &mut [u8], factor: &[u8], term: &[u8]) {
    match dtype {
        Dtype::Bfloat16 => fma_elements::<bf16>(into, factor, term),
        Dtype::Float16 => fma_elements::<f16>(into, factor, term),
        Dtype::Float32 | Dtype::Fp32r => fma_elements::<f32>(into, factor, term),
        Dtype::Fp8E3 => fma_elements::<fp8::E3M4>(into, factor, term),
        Dtype::Fp8E4 => fma_elements::<fp8::E4M3>(into, factor, term),
        Dtype::Fp8E5 => fma_elements::<fp8::E5M2>(into, factor, term),
        Dtype::Uint64
        | Dtype::Int8
        | Dtype::Uint8
        | Dtype::Int16
        | Dtype::Uint16
        | Dtype::Int32
        | Dtype::Uint32
        | Dtype::Int64 => {}
    }
}

fn cast_elements<S: Element, T: Element>(source: &[u8], target: &mut [u8]) {
    let sources = source.chunks_exact(size_of::<S>());
    let targets = target.chunks_exact_mut(size_of::<T>());
    for (source, target) in sources.zip(targets) {
        T::narrow(S::load(source).widen()).store(target);
    }
}

fn combine<T: Element>(into: &mut [u8], source: &[u8], op: impl Fn(T, T) -> T) {
    let intos = into.chunks_exact_mut(size_of::<T>());
    let sources = source.chunks_exact(size_of::<T>());
    for (into, source) in intos.zip(sources) {
        op(T::load(into), T::load(source)).store(into);
    }
}

fn fma_elements<T: Float>(into: &mut [u8], factor: &[u8], term: &[u8]) {
    let intos = into.chunks_exact_mut(size_of::<T>());
    let factors = factor.chunks_exact(size_of::<T>());
    let terms = term.chunks_exact(size_of::<T>());
    for ((into, factor), term) in intos.zip(factors).zip(terms) {
        let [a, b, c] = [T::load(into), T::load(factor), T::load(term)].map(T::to_f32);
        T::from_f32(a.mul_add(b, c)).store(into);
    }
}
