//! The computing instructions: load operands into the state buffer, compute, store the result.
//!
//! Called by an engine for every opcode from `0x10`.
//! Operands are loaded and stored under the lock of their memory region and computed outside of any lock.
//! The result may overwrite an operand, because nothing is stored before everything is computed.

use super::arithmetic;
use super::costs::Work;
use super::engine::Fault;
use super::memory::Memory;
use crate::isa::{Dtype, Instruction, Opcode};
use xu_abi::DeviceAddr;
use zerocopy::IntoBytes;

/// Most bytes of one operand.
const OPERAND_LIMIT: u64 = 256 << 20;
const F32: Dtype = Dtype::F32;

// Elements in memory are little-endian, and so are the vectors that hold them here.
const _: () = assert!(cfg!(target_endian = "little"));

/// Where operands lie while they are computed with. Shared by the engines of a core and kept between
/// instructions, so that a program that has run once allocates nothing.
#[derive(Debug, Default)]
pub(super) struct StateBuffer {
    a: Vec<f32>,
    b: Vec<f32>,
    out: Vec<f32>,
    bytes: Vec<u8>,
    indices: Vec<u32>,
}

/// How a computation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Stored.
    Stored,
    /// Stored, and some of it is not a number.
    NotANumber,
    /// Abandoned because the core is to stop; nothing was stored.
    Interrupted,
}

/// What a computation needs of the engine that executes it.
pub(super) trait Surroundings {
    /// The address that an operand's 64 bits mean.
    fn locate(&self, operand: u64) -> Result<DeviceAddr, Fault>;
    /// Whether the core is to stop.
    fn is_stopping(&self) -> bool;
}

/// How much a computing instruction does; `None` for others, and for one that cannot be executed.
pub(super) fn work(opcode: Opcode, instruction: &Instruction) -> Option<Work> {
    let (rows, cols) = (instruction.rows.get(), instruction.cols.get());
    let matrix = elements(rows, cols).ok()? as u64;
    let (rows, cols) = (u64::from(rows), u64::from(cols));
    // Operations, and elements loaded and stored.
    let (operations, moved) = match opcode {
        Opcode::MatMul => {
            let inner = instruction.inner.get();
            let a = elements(instruction.rows.get(), inner).ok()? as u64;
            let b = elements(inner, instruction.cols.get()).ok()? as u64;
            // A multiplication and an addition each. At most 2^26 elements and 2^26 of an inner dimension.
            (2 * matrix * u64::from(inner), a + b + matrix)
        }
        Opcode::Bias => (matrix, 2 * matrix + cols),
        Opcode::Add | Opcode::Mul => (matrix, 3 * matrix),
        Opcode::Relu | Opcode::Scale => (matrix, 2 * matrix),
        // Maximum, exponential, sum, division.
        Opcode::Softmax => (4 * matrix, 2 * matrix),
        Opcode::Sum | Opcode::Max | Opcode::ArgMax => (matrix, matrix + rows),
        Opcode::Bind | Opcode::Jump | Opcode::Wait | Opcode::Signal | Opcode::Halt => return None,
    };
    Some(Work {
        operations,
        bytes: moved * F32.size(),
    })
}

/// Executes one computing instruction.
pub(super) fn compute(
    opcode: Opcode,
    instruction: &Instruction,
    engine: &impl Surroundings,
    memory: &Memory,
    buffer: &mut StateBuffer,
) -> Result<Outcome, Fault> {
    let dtype = Dtype::from_raw(instruction.dtype).ok_or(Fault::Illegal)?;
    if dtype != F32 && !(dtype == Dtype::U8 && opcode == Opcode::Scale) {
        return Err(Fault::Illegal);
    }
    let (rows, cols) = (instruction.rows.get(), instruction.cols.get());
    let matrix = elements(rows, cols)?;
    let StateBuffer {
        a,
        b,
        out,
        bytes,
        indices,
    } = buffer;
    let operands = Operands {
        instruction,
        engine,
        memory,
    };
    // CAST: a dimension of a matrix that is at most `OPERAND_LIMIT` bytes long.
    let (row_len, row_count) = (cols as usize, rows as usize);
    match opcode {
        Opcode::MatMul => {
            let inner = instruction.inner.get();
            operands.load_a(a, elements(rows, inner)?)?;
            operands.load_b(b, elements(inner, cols)?)?;
            let to = operands.destination(matrix)?;
            out.clear();
            out.resize(matrix, 0.0);
            let rows = a.chunks_exact(inner as usize);
            for (row, sums) in rows.zip(out.chunks_exact_mut(row_len)) {
                if engine.is_stopping() {
                    return Ok(Outcome::Interrupted);
                }
                arithmetic::multiply_row(row, b, sums);
            }
            operands.store(to, out)
        }
        Opcode::Bias | Opcode::Add | Opcode::Mul => {
            operands.load_a(a, matrix)?;
            let per_row = opcode == Opcode::Bias;
            operands.load_b(b, if per_row { row_len } else { matrix })?;
            let to = operands.destination(matrix)?;
            match opcode {
                Opcode::Mul => arithmetic::multiply(a, b),
                Opcode::Add => arithmetic::add(a, b),
                _ => a
                    .chunks_exact_mut(row_len)
                    .for_each(|row| arithmetic::add(row, b)),
            }
            operands.store(to, a)
        }
        Opcode::Relu | Opcode::Softmax | Opcode::Scale => {
            if dtype == Dtype::U8 {
                operands.load_a(bytes, matrix)?;
                a.clear();
                a.extend(bytes.iter().copied().map(f32::from));
            } else {
                operands.load_a(a, matrix)?;
            }
            let to = operands.destination(matrix)?;
            match opcode {
                Opcode::Relu => arithmetic::relu(a),
                Opcode::Scale => arithmetic::scale(a, instruction.immediate.get()),
                _ => a.chunks_exact_mut(row_len).for_each(arithmetic::softmax),
            }
            operands.store(to, a)
        }
        Opcode::Sum | Opcode::Max => {
            operands.load_a(a, matrix)?;
            let to = operands.destination(row_count)?;
            let reduce = if opcode == Opcode::Sum {
                arithmetic::sum
            } else {
                arithmetic::max
            };
            out.clear();
            out.extend(a.chunks_exact(row_len).map(reduce));
            operands.store(to, out)
        }
        Opcode::ArgMax => {
            operands.load_a(a, matrix)?;
            let to = operands.destination(row_count)?;
            indices.clear();
            indices.extend(a.chunks_exact(row_len).map(arithmetic::argmax));
            operands.write(to, indices.as_bytes())?;
            Ok(Outcome::Stored)
        }
        // The engine executes these itself.
        Opcode::Bind | Opcode::Jump | Opcode::Wait | Opcode::Signal | Opcode::Halt => {
            Err(Fault::Illegal)
        }
    }
}

/// The operands of one instruction.
struct Operands<'i, E> {
    instruction: &'i Instruction,
    engine: &'i E,
    memory: &'i Memory,
}

impl<E: Surroundings> Operands<'_, E> {
    fn load_a<T: Element>(&self, into: &mut Vec<T>, count: usize) -> Result<(), Fault> {
        self.load(self.instruction.a.get(), into, count)
    }

    fn load_b(&self, into: &mut Vec<f32>, count: usize) -> Result<(), Fault> {
        self.load(self.instruction.b.get(), into, count)
    }

    fn load<T: Element>(&self, operand: u64, into: &mut Vec<T>, count: usize) -> Result<(), Fault> {
        let from = self.engine.locate(operand)?;
        // Before the vector grows: an operand outside memory costs nothing.
        self.check(from, count * size_of::<T>())?;
        into.resize(count, T::default());
        self.memory
            .read(from, into.as_mut_slice().as_mut_bytes())
            .map_err(|_| Fault::OutOfBounds)
    }

    /// Where the result of `count` elements of four bytes goes. Asked before anything is computed.
    fn destination(&self, count: usize) -> Result<DeviceAddr, Fault> {
        let to = self.engine.locate(self.instruction.out.get())?;
        self.check(to, count * size_of::<f32>())?;
        Ok(to)
    }

    fn store(&self, to: DeviceAddr, elements: &[f32]) -> Result<Outcome, Fault> {
        self.write(to, elements.as_bytes())?;
        Ok(if arithmetic::any_nan(elements) {
            Outcome::NotANumber
        } else {
            Outcome::Stored
        })
    }

    fn write(&self, to: DeviceAddr, bytes: &[u8]) -> Result<(), Fault> {
        self.memory.write(to, bytes).map_err(|_| Fault::OutOfBounds)
    }

    fn check(&self, addr: DeviceAddr, bytes: usize) -> Result<(), Fault> {
        self.memory
            .check(addr, bytes as u64)
            .map_err(|_| Fault::OutOfBounds)
    }
}

/// An element that operands are loaded as.
trait Element: Copy + Default + zerocopy::FromBytes + IntoBytes {}
impl Element for f32 {}
impl Element for u8 {}

/// Number of elements of a matrix. A dimension of zero, or more bytes of f32 than [`OPERAND_LIMIT`], is illegal.
fn elements(rows: u32, cols: u32) -> Result<usize, Fault> {
    let count = u64::from(rows) * u64::from(cols);
    if count == 0 || count > OPERAND_LIMIT / F32.size() {
        return Err(Fault::Illegal);
    }
    usize::try_from(count).map_err(|_| Fault::Illegal)
}
