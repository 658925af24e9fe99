//! The element types and reductions of the C API, as closed enums.
//!
//! Numbers from a client become one of these or a typed error. Spec: `c-api.md` section 4.1.

use core::fmt;
use xu_abi::Status;

/// Type of an element; the discriminant is its `nrt_dtype_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Dtype {
    /// Unsigned, 64 bits.
    Uint64 = 1,
    /// Signed, 8 bits.
    Int8 = 2,
    /// Unsigned, 8 bits.
    Uint8 = 3,
    /// Signed, 16 bits.
    Int16 = 4,
    /// Unsigned, 16 bits.
    Uint16 = 5,
    /// The upper half of a binary32.
    Bfloat16 = 6,
    /// IEEE 754 binary16.
    Float16 = 7,
    /// Signed, 32 bits.
    Int32 = 8,
    /// Unsigned, 32 bits.
    Uint32 = 9,
    /// IEEE 754 binary32.
    Float32 = 0xA,
    /// Stored and computed as [`Dtype::Float32`]; hardware may compute with less precision.
    Fp32r = 0xB,
    /// Signed, 64 bits.
    Int64 = 0xC,
    /// 8-bit float: 3 exponent bits, 4 mantissa bits, infinities.
    Fp8E3 = 0xD,
    /// 8-bit float: 4 exponent bits, 3 mantissa bits, no infinities, one NaN of each sign.
    Fp8E4 = 0xE,
    /// 8-bit float: 5 exponent bits, 2 mantissa bits, infinities.
    Fp8E5 = 0xF,
}

impl Dtype {
    /// All of them, by number.
    pub const ALL: [Self; 15] = [
        Self::Uint64,
        Self::Int8,
        Self::Uint8,
        Self::Int16,
        Self::Uint16,
        Self::Bfloat16,
        Self::Float16,
        Self::Int32,
        Self::Uint32,
        Self::Float32,
        Self::Fp32r,
        Self::Int64,
        Self::Fp8E3,
        Self::Fp8E4,
        Self::Fp8E5,
    ];

    /// Its `nrt_dtype_t`.
    #[must_use]
    pub const fn raw(self) -> u32 {
        // CAST: the discriminant.
        self as u32
    }

    /// Size of an element, bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Int8 | Self::Uint8 | Self::Fp8E3 | Self::Fp8E4 | Self::Fp8E5 => 1,
            Self::Int16 | Self::Uint16 | Self::Bfloat16 | Self::Float16 => 2,
            Self::Int32 | Self::Uint32 | Self::Float32 | Self::Fp32r => 4,
            Self::Uint64 | Self::Int64 => 8,
        }
    }

    /// Whether elements are floating-point numbers.
    #[must_use]
    pub const fn is_float(self) -> bool {
        match self {
            Self::Bfloat16
            | Self::Float16
            | Self::Float32
            | Self::Fp32r
            | Self::Fp8E3
            | Self::Fp8E4
            | Self::Fp8E5 => true,
            Self::Uint64
            | Self::Int8
            | Self::Uint8
            | Self::Int16
            | Self::Uint16
            | Self::Int32
            | Self::Uint32
            | Self::Int64 => false,
        }
    }

    /// Whether the same bits mean the same element in `other`.
    pub(super) fn same_bits(self, other: Self) -> bool {
        let stored = |dtype| match dtype {
            Self::Fp32r => Self::Float32,
            dtype => dtype,
        };
        stored(self) == stored(other)
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Uint64 => "uint64",
            Self::Int8 => "int8",
            Self::Uint8 => "uint8",
            Self::Int16 => "int16",
            Self::Uint16 => "uint16",
            Self::Bfloat16 => "bfloat16",
            Self::Float16 => "float16",
            Self::Int32 => "int32",
            Self::Uint32 => "uint32",
            Self::Float32 => "float32",
            Self::Fp32r => "fp32r",
            Self::Int64 => "int64",
            Self::Fp8E3 => "fp8_e3",
            Self::Fp8E4 => "fp8_e4",
            Self::Fp8E5 => "fp8_e5",
        })
    }
}

/// A number that is no element type; 0 is `NRT_DTYPE_UNKNOWN`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("element type {0} is not one of 1 to 15")]
pub struct UnknownDtype(pub u32);

impl UnknownDtype {
    /// [`Status::INVALID`].
    #[must_use]
    pub const fn status(self) -> Status {
        Status::INVALID
    }
}

impl TryFrom<u32> for Dtype {
    type Error = UnknownDtype;

    /// The type with this `nrt_dtype_t`.
    fn try_from(raw: u32) -> Result<Self, UnknownDtype> {
        let found = Self::ALL.into_iter().find(|dtype| dtype.raw() == raw);
        found.ok_or(UnknownDtype(raw))
    }
}

/// How two elements become one; the discriminant is its `nrt_op_type_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ReduceOp {
    /// The sum.
    Add = 0,
    /// The larger one.
    Max = 2,
    /// The smaller one.
    Min = 3,
}

impl ReduceOp {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Add, Self::Max, Self::Min];

    /// Its `nrt_op_type_t`.
    #[must_use]
    pub const fn raw(self) -> u32 {
        // CAST: the discriminant.
        self as u32
    }
}

impl fmt::Display for ReduceOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Add => "ADD",
            Self::Max => "MAX",
            Self::Min => "MIN",
        })
    }
}

/// A number that is no reduction; 1 is FMA, which takes three operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("operation {0} is not ADD (0), MAX (2) or MIN (3)")]
pub struct UnknownReduceOp(pub u32);

impl UnknownReduceOp {
    /// [`Status::INVALID`].
    #[must_use]
    pub const fn status(self) -> Status {
        Status::INVALID
    }
}

impl TryFrom<u32> for ReduceOp {
    type Error = UnknownReduceOp;

    /// The reduction with this `nrt_op_type_t`.
    fn try_from(raw: u32) -> Result<Self, UnknownReduceOp> {
        let found = Self::ALL.into_iter().find(|op| op.raw() == raw);
        found.ok_or(UnknownReduceOp(raw))
    }
}
