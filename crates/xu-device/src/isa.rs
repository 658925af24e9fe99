//! The instructions that the simulated engines execute: 64 bytes each, little-endian, in device memory.
//!
//! Written by the model compiler, fetched and decoded by the machine's engines.
//! This instruction set is ours: the real one is not public.
//!
//! ```text
//!  0x00 opcode u8 | 0x01 engine u8 | 0x02 dtype u8 | 0x03 semaphore u8
//!  0x04 rows u32  | 0x08 cols u32  | 0x0C inner u32
//!  0x10 a: operand u64 | 0x18 b: operand u64 | 0x20 out: operand u64
//!  0x28 immediate f32  | 0x2C reserved, zero
//! ```
//!
//! An operand is a device address, or (bit 63 set) an entry of the bound table: index in bits 62:48, byte
//! offset in bits 47:0. [`Opcode::Bind`] loads the table's address, so that one program serves every
//! execution and only the table differs.
//! `Wait` takes one from a semaphore and stalls while it is zero; `Signal` adds one.
//! Zeroed memory is no program: opcode 0 is illegal.

use xu_abi::{DeviceAddr, Engine, SemIndex};
use zerocopy::little_endian::{F32, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Size of an instruction in bytes.
pub const INSTRUCTION_SIZE: u64 = 64;

/// Size of one entry of a bound table: a device address.
pub const BINDING_SIZE: u64 = 8;

/// Type of a matrix element in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Dtype {
    /// 32-bit float.
    F32 = 0,
    /// Unsigned byte.
    U8 = 1,
    /// Unsigned 32-bit integer.
    U32 = 2,
}

impl Dtype {
    /// The type with this value.
    #[must_use]
    pub const fn from_raw(raw: u8) -> Option<Self> {
        match raw {
            0 => Some(Self::F32),
            1 => Some(Self::U8),
            2 => Some(Self::U32),
            _ => None,
        }
    }

    /// Size of an element in bytes.
    #[must_use]
    pub const fn size(self) -> u64 {
        match self {
            Self::F32 | Self::U32 => 4,
            Self::U8 => 1,
        }
    }
}

macro_rules! opcodes {
    ($($(#[$doc:meta])* $name:ident = $value:literal on $($engine:ident)|+;)*) => {
        /// What an instruction does. Matrices are row-major, `rows` by `cols`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Opcode {
            $($(#[$doc])* $name = $value,)*
        }

        impl Opcode {
            /// Every opcode.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The opcode with this value.
            #[must_use]
            pub const fn from_raw(raw: u8) -> Option<Self> {
                match raw {
                    $($value => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// Whether `engine` can execute it.
            #[must_use]
            pub const fn runs_on(self, engine: Engine) -> bool {
                match self {
                    $(Self::$name => matches!(engine, $(Engine::$engine)|+),)*
                }
            }
        }
    };
}

opcodes! {
    /// Load the address of the bound table from `a`.
    Bind = 0x01 on Pe | Act | Pool | Dve | Sp;
    /// Continue at `a`.
    Jump = 0x02 on Pe | Act | Pool | Dve | Sp;
    /// Take one from `semaphore`; stall while it is zero.
    Wait = 0x03 on Pe | Act | Pool | Dve | Sp;
    /// Add one to `semaphore`.
    Signal = 0x04 on Pe | Act | Pool | Dve | Sp;
    /// End of the block.
    Halt = 0x0F on Pe | Act | Pool | Dve | Sp;
    /// `out[rows, cols] = a[rows, inner] x b[inner, cols]`, f32.
    MatMul = 0x10 on Pe;
    /// `out = a + b` with `b[cols]` added to every row, f32.
    Bias = 0x20 on Act;
    /// `out = max(a, 0)`, f32; NaN stays NaN.
    Relu = 0x21 on Act;
    /// Softmax of each row, f32.
    Softmax = 0x22 on Act;
    /// `out = a * immediate`; `a` is of `dtype` (f32 or u8), `out` is f32.
    Scale = 0x30 on Dve;
    /// `out = a + b`, f32.
    Add = 0x31 on Dve;
    /// `out = a * b`, f32.
    Mul = 0x32 on Dve;
    /// `out[rows]: u32` = index of the first largest element of each row of `a`.
    ArgMax = 0x40 on Pool;
    /// `out[rows]` = sum of each row of `a`, f32.
    Sum = 0x41 on Pool;
    /// `out[rows]` = largest element of each row of `a`, f32.
    Max = 0x42 on Pool;
}

/// Where an instruction finds or leaves a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A fixed device address.
    Address(DeviceAddr),
    /// `offset` bytes into the buffer that entry `index` of the bound table names.
    Bound {
        /// Entry of the table, below 2^15.
        index: u16,
        /// Byte offset, below 2^48.
        offset: u64,
    },
}

impl Operand {
    const BOUND: u64 = 1 << 63;
    const INDEX_SHIFT: u32 = 48;
    const OFFSET: u64 = (1 << Self::INDEX_SHIFT) - 1;

    /// The 64 bits in an instruction. Bits that do not fit their field are dropped.
    #[must_use]
    pub const fn to_raw(self) -> u64 {
        match self {
            Self::Address(addr) => addr.get() & !Self::BOUND,
            Self::Bound { index, offset } => {
                Self::BOUND | ((index & 0x7FFF) as u64) << Self::INDEX_SHIFT | offset & Self::OFFSET
            }
        }
    }

    /// Reads the 64 bits of an instruction: total.
    #[must_use]
    pub const fn from_raw(raw: u64) -> Self {
        if raw & Self::BOUND == 0 {
            Self::Address(DeviceAddr::new(raw))
        } else {
            // CAST: masked to 15 bits.
            let index = (raw >> Self::INDEX_SHIFT & 0x7FFF) as u16;
            Self::Bound {
                index,
                offset: raw & Self::OFFSET,
            }
        }
    }
}

/// One instruction as it lies in device memory.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Instruction {
    /// [`Opcode`] value.
    pub opcode: u8,
    /// Position of the engine for which this was written ([`Engine::index`]).
    pub engine: u8,
    /// [`Dtype`] value of `a`.
    pub dtype: u8,
    /// Semaphore of `Wait` and `Signal`.
    pub semaphore: u8,
    /// Number of rows.
    pub rows: U32,
    /// Number of columns.
    pub cols: U32,
    /// Inner dimension of a matrix product.
    pub inner: U32,
    /// First input.
    pub a: U64,
    /// Second input.
    pub b: U64,
    /// Output.
    pub out: U64,
    /// Constant factor.
    pub immediate: F32,
    /// Zero.
    pub reserved: [u8; 20],
}

const _: () = assert!(size_of::<Instruction>() as u64 == INSTRUCTION_SIZE);

impl Instruction {
    /// An instruction with every operand zero.
    #[must_use]
    pub fn new(engine: Engine, opcode: Opcode) -> Self {
        // CAST: five engines.
        Self {
            opcode: opcode as u8,
            engine: engine.index() as u8,
            ..Self::default()
        }
    }

    /// Loads the bound table at `table`.
    #[must_use]
    pub fn bind(engine: Engine, table: DeviceAddr) -> Self {
        Self {
            a: U64::new(table.get()),
            ..Self::new(engine, Opcode::Bind)
        }
    }

    /// Continues at `target`.
    #[must_use]
    pub fn jump(engine: Engine, target: DeviceAddr) -> Self {
        Self {
            a: U64::new(target.get()),
            ..Self::new(engine, Opcode::Jump)
        }
    }

    /// Stalls until `semaphore` is above zero, and takes one.
    #[must_use]
    pub fn wait(engine: Engine, semaphore: SemIndex) -> Self {
        Self {
            semaphore: semaphore.get(),
            ..Self::new(engine, Opcode::Wait)
        }
    }

    /// Adds one to `semaphore`.
    #[must_use]
    pub fn signal(engine: Engine, semaphore: SemIndex) -> Self {
        Self {
            semaphore: semaphore.get(),
            ..Self::new(engine, Opcode::Signal)
        }
    }

    /// Ends the block.
    #[must_use]
    pub fn halt(engine: Engine) -> Self {
        Self::new(engine, Opcode::Halt)
    }

    /// The instruction as it lies in device memory.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; INSTRUCTION_SIZE as usize] {
        zerocopy::transmute!(*self)
    }

    /// Sets the matrix dimensions.
    #[must_use]
    pub fn shape(mut self, rows: u32, cols: u32) -> Self {
        self.rows = U32::new(rows);
        self.cols = U32::new(cols);
        self
    }

    /// Sets inputs and output.
    #[must_use]
    pub fn operands(mut self, a: Operand, b: Operand, out: Operand) -> Self {
        self.a = U64::new(a.to_raw());
        self.b = U64::new(b.to_raw());
        self.out = U64::new(out.to_raw());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_survive_a_round_trip() {
        for operand in [
            Operand::Address(DeviceAddr::new(0x1234)),
            Operand::Bound {
                index: 0x7FFF,
                offset: (1 << 48) - 1,
            },
            Operand::Bound {
                index: 0,
                offset: 0,
            },
        ] {
            assert_eq!(Operand::from_raw(operand.to_raw()), operand);
        }
    }

    #[test]
    fn zeroed_memory_is_no_program() {
        assert_eq!(Opcode::from_raw(Instruction::default().opcode), None);
    }

    #[test]
    fn each_computing_opcode_belongs_to_one_engine() {
        for opcode in Opcode::ALL.iter().filter(|opcode| **opcode as u8 >= 0x10) {
            let engines = Engine::ALL
                .iter()
                .filter(|engine| opcode.runs_on(**engine))
                .count();
            assert_eq!(engines, 1, "{opcode:?}");
        }
    }
}
