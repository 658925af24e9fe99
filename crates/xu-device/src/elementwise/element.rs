//! What each element type can do: load, store, widen, narrow, combine.
//!
//! Used by the loops of [`super`]. Every element widens without loss into a [`Wide`] and narrows from one with a
//! single rounding; that pair of functions per type makes every cast.

use super::fp8::{E3M4, E4M3, E5M2};
use half::{bf16, f16};

/// Any element, without loss.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wide {
    Signed(i64),
    Unsigned(u64),
    Float(f32),
}

/// One element of a tensor.
pub(super) trait Element: Copy {
    /// From exactly `size_of::<Self>()` little-endian bytes.
    fn load(bytes: &[u8]) -> Self;
    /// To exactly `size_of::<Self>()` little-endian bytes.
    fn store(self, bytes: &mut [u8]);
    fn widen(self) -> Wide;
    fn narrow(wide: Wide) -> Self;
    fn add(self, other: Self) -> Self;
    /// One of the two, bit by bit; so is the smaller one.
    fn larger(self, other: Self) -> Self;
    fn smaller(self, other: Self) -> Self;
}

/// An element that is a floating-point number, computed in 32 bits.
pub(super) trait Float: Element {
    fn to_f32(self) -> f32;
    /// Nearest, ties to even.
    fn from_f32(value: f32) -> Self;
}

macro_rules! load_and_store {
    ($type:ty) => {
        #[inline]
        fn load(bytes: &[u8]) -> Self {
            let mut raw = [0; size_of::<Self>()];
            // PANIC: the caller cuts slices into pieces of this size, here and below.
            raw.copy_from_slice(bytes);
            Self::from_le_bytes(raw)
        }

        #[inline]
        fn store(self, bytes: &mut [u8]) {
            bytes.copy_from_slice(&self.to_le_bytes());
        }
    };
}

macro_rules! integer {
    ($type:ty, $wide:ident) => {
        impl Element for $type {
            load_and_store!($type);

            #[inline]
            fn widen(self) -> Wide {
                Wide::$wide(self.into())
            }

            #[inline]
            fn narrow(wide: Wide) -> Self {
                match wide {
                    // CAST: `as` between integers wraps, from a float it truncates, saturates and makes NaN 0.
                    Wide::Signed(value) => value as Self,
                    Wide::Unsigned(value) => value as Self,
                    Wide::Float(value) => value as Self,
                }
            }

            #[inline]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline]
            fn larger(self, other: Self) -> Self {
                self.max(other)
            }

            #[inline]
            fn smaller(self, other: Self) -> Self {
                self.min(other)
            }
        }
    };
}

integer!(u8, Unsigned);
integer!(u16, Unsigned);
integer!(u32, Unsigned);
integer!(u64, Unsigned);
integer!(i8, Signed);
integer!(i16, Signed);
integer!(i32, Signed);
integer!(i64, Signed);

macro_rules! float {
    ($type:ty, $from_int:ident) => {
        impl Element for $type {
            load_and_store!($type);

            #[inline]
            fn widen(self) -> Wide {
                Wide::Float(self.to_f32())
            }

            #[inline]
            fn narrow(wide: Wide) -> Self {
                Self::from_f32(match wide {
                    Wide::Signed(value) => {
                        let magnitude = $from_int(value.unsigned_abs());
                        if value < 0 { -magnitude } else { magnitude }
                    }
                    Wide::Unsigned(value) => $from_int(value),
                    Wide::Float(value) => value,
                })
            }

            #[inline]
            fn add(self, other: Self) -> Self {
                Self::from_f32(self.to_f32() + other.to_f32())
            }

            #[inline]
            fn larger(self, other: Self) -> Self {
                if first_is_larger(self.to_f32(), other.to_f32()) {
                    self
                } else {
                    other
                }
            }

            #[inline]
            fn smaller(self, other: Self) -> Self {
                if first_is_larger(-self.to_f32(), -other.to_f32()) {
                    self
                } else {
                    other
                }
            }
        }
    };
}

float!(f32, nearest);
float!(bf16, to_odd);
float!(f16, to_odd);
float!(E3M4, to_odd);
float!(E4M3, to_odd);
float!(E5M2, to_odd);

impl Float for f32 {
    #[inline]
    fn to_f32(self) -> f32 {
        self
    }

    #[inline]
    fn from_f32(value: f32) -> Self {
        value
    }
}

macro_rules! half_float {
    ($type:ty) => {
        impl Float for $type {
            #[inline]
            fn to_f32(self) -> f32 {
                Self::to_f32(self)
            }

            #[inline]
            fn from_f32(value: f32) -> Self {
                Self::from_f32(value)
            }
        }
    };
}

half_float!(bf16);
half_float!(f16);

/// Whether the first one is the larger one; a NaN wins, the first of two, and +0 is larger than -0.
#[inline]
fn first_is_larger(a: f32, b: f32) -> bool {
    // Equal numbers have equal bits, but for the zeros.
    a.is_nan() || a > b || (a == b && a.is_sign_positive())
}

/// The nearest number, ties to even.
#[inline]
fn nearest(value: u64) -> f32 {
    // CAST: `as` rounds to nearest even.
    value as f32
}

/// The number itself if 24 bits hold it, else the neighbour whose last bit is 1.
///
/// Rounding that again to a type with at most 22 bits gives what rounding once would: the odd bit says that the number
/// was not exactly in the middle. (Rounding to nearest twice would not.)
#[inline]
fn to_odd(value: u64) -> f32 {
    const KEPT: u32 = f32::MANTISSA_DIGITS;
    let surplus = (u64::BITS - value.leading_zeros()).saturating_sub(KEPT);
    let kept = value >> surplus;
    let lost = value & ((1 << surplus) - 1);
    let odd = kept | u64::from(lost != 0);
    // CAST: at most 24 bits, then a multiplication by a power of two: both exact.
    odd as f32 * (1u64 << surplus) as f32
}
