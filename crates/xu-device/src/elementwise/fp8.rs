//! The three 8-bit floats.
//!
//! ```text
//!           sign | exponent | mantissa    bias   largest   all exponent bits set
//!   E3M4      1  |    3     |    4          3      15.5    infinity, or NaN if the mantissa is not 0
//!   E4M3      1  |    4     |    3          7       448    numbers, but for 1111.111: NaN
//!   E5M2      1  |    5     |    2         15     57344    infinity, or NaN if the mantissa is not 0
//! ```
//!
//! Encoding rounds to nearest even and saturates: what lies beyond the largest finite number becomes it, infinity too.
//! Decoding is exact. Spec: `c-api.md` section 6.6; E4M3 and E5M2 are those of the Open Compute Project.

use super::element::Float;

/// Mantissa bits of a binary32 that are stored.
const F32_MANTISSA: u32 = 23;
const F32_BIAS: i32 = 127;

/// How a code is laid out.
#[derive(Clone, Copy)]
struct Format {
    mantissa_bits: u32,
    bias: i32,
    /// Code of the largest finite number.
    largest: u8,
    /// Code of the NaN that is written.
    nan: u8,
    /// Code of infinity, where there is one.
    infinity: Option<u8>,
}

impl Format {
    const SIGN: u8 = 0x80;

    fn encode(self, value: f32) -> u8 {
        let bits = value.to_bits();
        // CAST: the top byte.
        let sign = (bits >> 24) as u8 & Self::SIGN;
        if value.is_nan() {
            return sign | self.nan;
        }
        // CAST: the largest code fits.
        let code = self.magnitude(bits & !(1 << 31)).min(self.largest.into()) as u8;
        sign | code
    }

    /// The code of a positive number as if there were exponents without end. `bits` is that of the binary32.
    fn magnitude(self, bits: u32) -> u32 {
        let dropped = F32_MANTISSA - self.mantissa_bits;
        // CAST: eight bits.
        let exponent = (bits >> F32_MANTISSA) as i32 - F32_BIAS;
        let least_normal = 1 - self.bias;
        if exponent >= least_normal {
            // The exponents differ by their bias, and a carry out of the mantissa is the next exponent.
            // CAST: both biases are small and positive.
            let rebased = bits - (((F32_BIAS - self.bias) as u32) << F32_MANTISSA);
            shift_to_nearest(rebased, dropped)
        } else {
            // Binary32 numbers without a leading one are far too small to matter here.
            let mantissa = bits & ((1 << F32_MANTISSA) - 1) | 1 << F32_MANTISSA;
            // CAST: positive, since the exponent is below the least.
            let shift = dropped + (least_normal - exponent) as u32;
            shift_to_nearest(mantissa, shift.min(31))
        }
    }

    fn decode(self, code: u8) -> f32 {
        let magnitude = code & !Self::SIGN;
        let exponent = i32::from(magnitude >> self.mantissa_bits);
        let mantissa = magnitude & ((1 << self.mantissa_bits) - 1);
        let value = if Some(magnitude) == self.infinity {
            f32::INFINITY
        } else if magnitude > self.largest {
            f32::NAN
        } else if exponent == 0 {
            f32::from(mantissa) * self.unit(1)
        } else {
            f32::from(mantissa | 1 << self.mantissa_bits) * self.unit(exponent)
        };
        if code & Self::SIGN == 0 {
            value
        } else {
            -value
        }
    }

    /// The weight of the last mantissa bit at this exponent.
    fn unit(self, exponent: i32) -> f32 {
        // CAST: at most 4 mantissa bits; the sum is a positive exponent of a binary32.
        let power = exponent - self.bias - self.mantissa_bits as i32 + F32_BIAS;
        f32::from_bits((power as u32) << F32_MANTISSA)
    }
}

/// `value / 2^shift` to the nearest integer, ties to even. `shift` is 1 to 31, `value` below 2^31.
fn shift_to_nearest(value: u32, shift: u32) -> u32 {
    let below_half = (1 << (shift - 1)) - 1;
    let odd = value >> shift & 1;
    (value + below_half + odd) >> shift
}

macro_rules! fp8 {
    ($(#[$doc:meta])* $name:ident = $format:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(super) struct $name(u8);

        impl $name {
            const FORMAT: Format = $format;

            #[inline]
            pub(super) const fn from_le_bytes([code]: [u8; 1]) -> Self {
                Self(code)
            }

            #[inline]
            pub(super) const fn to_le_bytes(self) -> [u8; 1] {
                [self.0]
            }
        }

        impl Float for $name {
            #[inline]
            fn to_f32(self) -> f32 {
                Self::FORMAT.decode(self.0)
            }

            #[inline]
            fn from_f32(value: f32) -> Self {
                Self(Self::FORMAT.encode(value))
            }
        }
    };
}

fp8! {
    /// Three exponent bits.
    E3M4 = Format { mantissa_bits: 4, bias: 3, largest: 0x6F, nan: 0x78, infinity: Some(0x70) }
}
fp8! {
    /// Four exponent bits, no infinities.
    E4M3 = Format { mantissa_bits: 3, bias: 7, largest: 0x7E, nan: 0x7F, infinity: None }
}
fp8! {
    /// Five exponent bits.
    E5M2 = Format { mantissa_bits: 2, bias: 15, largest: 0x7B, nan: 0x7E, infinity: Some(0x7C) }
}
