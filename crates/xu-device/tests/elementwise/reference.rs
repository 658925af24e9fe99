//! Slow and obvious arithmetic: numbers are sought in the list of all numbers of a type.

use xu_device::elementwise::Dtype;

/// A number that any element can be, exactly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Int(i128),
    Float(f64),
}

/// What a small float consists of.
pub(crate) struct SmallFloat {
    exponent_bits: u32,
    mantissa_bits: u32,
    /// Whether the highest exponent is for infinity and NaN alone.
    ieee: bool,
    /// Whether what is too large becomes the largest finite number, instead of infinity.
    saturates: bool,
}

pub(crate) fn small_float(dtype: Dtype) -> Option<SmallFloat> {
    let (exponent_bits, mantissa_bits, ieee, saturates) = match dtype {
        Dtype::Bfloat16 => (8, 7, true, false),
        Dtype::Float16 => (5, 10, true, false),
        Dtype::Fp8E3 => (3, 4, true, true),
        Dtype::Fp8E4 => (4, 3, false, true),
        Dtype::Fp8E5 => (5, 2, true, true),
        _ => return None,
    };
    Some(SmallFloat {
        exponent_bits,
        mantissa_bits,
        ieee,
        saturates,
    })
}

impl SmallFloat {
    /// What a code means; the sign is the bit above the exponent.
    pub(crate) fn value(&self, code: u64) -> f64 {
        let bias = (1i32 << (self.exponent_bits - 1)) - 1;
        let sign = code >> (self.exponent_bits + self.mantissa_bits) & 1;
        let highest = (1u64 << self.exponent_bits) - 1;
        let exponent = code >> self.mantissa_bits & highest;
        let mantissa = code & ((1 << self.mantissa_bits) - 1);
        let fraction = mantissa as f64 / f64::from(1u32 << self.mantissa_bits);
        let magnitude = if exponent == highest && self.ieee {
            if mantissa == 0 {
                f64::INFINITY
            } else {
                f64::NAN
            }
        } else if exponent == highest && mantissa + 1 == 1 << self.mantissa_bits {
            f64::NAN
        } else if exponent == 0 {
            fraction * 2f64.powi(1 - bias)
        } else {
            (1.0 + fraction) * 2f64.powi(exponent as i32 - bias)
        };
        if sign == 1 { -magnitude } else { magnitude }
    }

    /// The code of the number nearest to `value`, ties to the even code.
    pub(crate) fn nearest(&self, value: Number) -> u64 {
        let (negative, is_nan) = match value {
            Number::Int(int) => (int < 0, false),
            Number::Float(float) => (float.is_sign_negative(), float.is_nan()),
        };
        let sign = u64::from(negative) << (self.exponent_bits + self.mantissa_bits);
        let codes = 1u64 << (self.exponent_bits + self.mantissa_bits);
        // Codes of finite numbers come first, in order.
        let finite = partition(codes, |code| self.value(code).is_finite());
        if is_nan {
            let nan = (finite..codes).find(|code| self.value(*code).is_nan());
            return sign | nan.unwrap();
        }
        // The first number above, found by bisection.
        let above = partition(finite, |code| compare(self.value(code), value) <= 0);
        let magnitude = if above == finite {
            let largest = finite - 1;
            // One step beyond the largest is where infinity stands for rounding.
            let step = self.value(largest) - self.value(largest - 1);
            let beyond = self.value(largest) + step / 2.0;
            if self.saturates || compare(beyond, value) > 0 {
                largest
            } else {
                finite
            }
        } else {
            let below = above - 1;
            let middle = f64::midpoint(self.value(below), self.value(above));
            match compare(middle, value) {
                1 => below,
                -1 => above,
                _ => below + below % 2,
            }
        };
        sign | magnitude
    }
}

/// How a positive float compares with the magnitude of a number: -1, 0 or 1.
fn compare(float: f64, number: Number) -> i32 {
    match number {
        Number::Float(other) => i32::from(float > other.abs()) - i32::from(float < other.abs()),
        Number::Int(int) => {
            // A float of this size is an integer, or well below any integer that matters.
            let int = int.abs();
            let whole = float.floor() as i128;
            let rest = float > float.floor();
            i32::from(whole > int || whole == int && rest) - i32::from(whole < int)
        }
    }
}

fn partition(count: u64, is_before: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low.midpoint(high);
        if is_before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// The number that these little-endian bytes are.
pub(crate) fn decode(dtype: Dtype, bytes: &[u8]) -> Number {
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    let code = u64::from_le_bytes(wide);
    let unused = 64 - 8 * bytes.len() as u32;
    match dtype {
        Dtype::Uint64 | Dtype::Uint32 | Dtype::Uint16 | Dtype::Uint8 => Number::Int(code.into()),
        Dtype::Int64 | Dtype::Int32 | Dtype::Int16 | Dtype::Int8 => {
            Number::Int(i128::from((code << unused) as i64 >> unused))
        }
        Dtype::Float32 | Dtype::Fp32r => Number::Float(f32::from_bits(code as u32).into()),
        small => Number::Float(small_float(small).unwrap().value(code)),
    }
}

/// The bytes of an element that a number becomes by the rules of a cast.
pub(crate) fn encode(dtype: Dtype, number: Number) -> Vec<u8> {
    let (bits, signed) = match dtype {
        Dtype::Uint64 => (64, false),
        Dtype::Uint32 => (32, false),
        Dtype::Uint16 => (16, false),
        Dtype::Uint8 => (8, false),
        Dtype::Int64 => (64, true),
        Dtype::Int32 => (32, true),
        Dtype::Int16 => (16, true),
        Dtype::Int8 => (8, true),
        Dtype::Float32 | Dtype::Fp32r => {
            return match number {
                Number::Int(int) => int as f32,
                Number::Float(float) => float as f32,
            }
            .to_le_bytes()
            .to_vec();
        }
        small => {
            let code = small_float(small).unwrap().nearest(number);
            return code.to_le_bytes()[..dtype.bytes()].to_vec();
        }
    };
    let (least, most) = if signed {
        (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
    } else {
        (0, (1i128 << bits) - 1)
    };
    let int = match number {
        Number::Int(int) => int,
        Number::Float(float) if float.is_nan() => 0,
        Number::Float(float) if float >= most as f64 => most,
        Number::Float(float) if float <= least as f64 => least,
        Number::Float(float) => float.trunc() as i128,
    };
    int.to_le_bytes()[..dtype.bytes()].to_vec()
}

/// Whether these bytes are a NaN.
pub(crate) fn is_nan(dtype: Dtype, bytes: &[u8]) -> bool {
    matches!(decode(dtype, bytes), Number::Float(float) if float.is_nan())
}
