//! Lower a model to one instruction stream per engine, and place it on the cores of the simulated machine.
//!
//! Called by `nrta` when a model is loaded. Each layer becomes one instruction on the engine that its
//! operation belongs to, in the order of the manifest.
//!
//! ```text
//!  SP    signal every engine | wait for every engine | halt
//!  PE    wait SP | wait for producers, matmul, signal consumers | ... | signal SP | halt
//!  ACT, POOL, DVE   likewise
//! ```
//!
//! Engines synchronise with one semaphore per ordered pair: the producer signals after an instruction on
//! which the other engine depends, the consumer takes one before the instruction that needs it.
//! Signals and waits of a pair come in the same order, so counts never mix, and every count is zero again
//! when the execution ends.
//! Weights and intermediate values lie in one arena; inputs and outputs are bound per execution.

use crate::model::{Layer, Model, Op};
use crate::tensor::{ValueId, ValueType, WeightId};
use core::ops::Range;
use std::sync::Arc;
use xu_abi::{DeviceAddr, Engine, SemIndex, TpbIndex};
use xu_device::isa::{Dtype, INSTRUCTION_SIZE, Instruction, Opcode, Operand};
use xu_device::memory::DeviceMemory;
use xu_device::program::{BLOCK_ALIGN, Blocks, Entry, Program};
use xu_device::{Device, DeviceError, Place, map};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{F32, U32};

/// Most samples per execution.
pub const MAX_BATCH: u32 = 1 << 16;
/// An entry block binds a table and jumps.
const ENTRY_BYTES: u64 = 2 * INSTRUCTION_SIZE;

/// A validated model could not be compiled or placed. Nothing remains on the device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The batch size is out of range.
    #[error("a batch of {batch} samples is not allowed: 1 to {MAX_BATCH}")]
    Batch {
        /// What was asked for.
        batch: u32,
    },
    /// The model's data for this batch size has no 64-bit size.
    #[error("model {model} with batch {batch} needs more bytes than can be counted")]
    TooLarge {
        /// The model.
        model: String,
        /// The batch size.
        batch: u32,
    },
    /// The device refused memory or a write.
    #[error("model {model} with batch {batch}: {source}")]
    Device {
        /// The model.
        model: String,
        /// The batch size.
        batch: u32,
        /// What the device said.
        source: DeviceError,
    },
}

/// Compiles `model` for `batch` samples per execution and places a part on each of `tpbs`, ready for `slots`
/// outstanding executions. Tensors are bound in the order inputs, then outputs.
///
/// The cores share the batch: each computes consecutive samples, the first ones one more where the batch cannot be divided. A core
/// for which none is left does nothing but start and end.
///
/// # Errors
/// [`LoadError`]; nothing remains on any core.
pub fn load(
    device: &Arc<dyn Device>,
    tpbs: &[TpbIndex],
    slots: u32,
    model: &Model,
    batch: u32,
) -> Result<Vec<Program>, LoadError> {
    if batch == 0 || batch > MAX_BATCH {
        return Err(LoadError::Batch { batch });
    }
    let too_large = || LoadError::TooLarge {
        model: model.name().to_owned(),
        batch,
    };
    let refused = |source| LoadError::Device {
        model: model.name().to_owned(),
        batch,
        source,
    };
    let place = |(tpb, samples): (&TpbIndex, Range<u32>)| {
        let part = Part::new(model, samples).ok_or_else(too_large)?;
        part.place(device, *tpb, slots).map_err(refused)
    };
    tpbs.iter()
        .zip(shares(batch, tpbs.len()))
        .map(place)
        .collect()
}

/// Consecutive ranges of `batch` samples, `cores` of them, as even as can be.
fn shares(batch: u32, cores: usize) -> impl Iterator<Item = Range<u32>> {
    // CAST: a logical core has few physical ones. No core has no ranges.
    let cores = cores as u32;
    let start = move |core: u32| core * (batch / cores) + core.min(batch % cores);
    (0..cores).map(move |core| start(core)..start(core + 1))
}

/// What the sequencer is told about a program: the length of each body, and the number of bound tensors.
fn sequencer_config(bodies: &[Vec<u8>; 5], bindings: u16) -> [u8; 52] {
    let mut config = [0; 52];
    for (field, body) in config.chunks_exact_mut(8).zip(bodies) {
        field.copy_from_slice(&(body.len() as u64).to_le_bytes());
    }
    config[40..42].copy_from_slice(&bindings.to_le_bytes());
    config
}

/// Which tables ACT and DVE need: a bit for each of 256 opcodes, first ACT's, then DVE's. Two programs that use the
/// same operations need the same tables.
fn tables(bodies: &[Vec<u8>; 5]) -> [u8; 64] {
    let mut tables = [0; 64];
    for (bits, engine) in tables.chunks_exact_mut(32).zip([Engine::Act, Engine::Dve]) {
        for instruction in bodies[engine.index()].chunks_exact(INSTRUCTION_SIZE as usize) {
            // The opcode is an instruction's first byte.
            bits[usize::from(instruction[0] / 8)] |= 1 << (instruction[0] % 8);
        }
    }
    tables
}

fn entry_block(engine: Engine, entry: Entry) -> Vec<u8> {
    let bind = Instruction::bind(engine, entry.table);
    let jump = Instruction::jump(engine, entry.body);
    [bind.as_bytes(), jump.as_bytes()].concat()
}

/// One core's part of a model: which samples, and where everything lies in the arena.
struct Part<'a> {
    model: &'a Model,
    samples: Range<u32>,
    arena_bytes: u64,
    /// Offset of each weight.
    weights: Vec<u64>,
    /// Where each value lies.
    values: Vec<Home>,
}

#[derive(Clone, Copy)]
enum Home {
    Arena {
        offset: u64,
    },
    /// In a bound tensor, from this byte on.
    Bound {
        index: u16,
        offset: u64,
    },
}

impl<'a> Part<'a> {
    /// `None` when the sizes overflow.
    fn new(model: &'a Model, samples: Range<u32>) -> Option<Self> {
        let mut arena_bytes = 0u64;
        let mut reserve = |bytes: u64| {
            let offset = arena_bytes;
            arena_bytes = arena_bytes.checked_add(bytes.checked_next_multiple_of(BLOCK_ALIGN)?)?;
            Some(offset)
        };
        let weights = model
            .weights()
            .iter()
            .map(|weight| reserve(size_of_val(weight.data()) as u64))
            .collect::<Option<Vec<_>>>()?;
        let bound: Vec<ValueId> = model
            .input_values()
            .chain(model.output_values().iter().copied())
            .collect();
        let mut values = Vec::with_capacity(model.values().len());
        for (index, value) in model.values().iter().enumerate() {
            let bytes_of =
                |samples: u32| (value.bytes_per_sample() as u64).checked_mul(u64::from(samples));
            let home = match bound.iter().position(|id| id.index() == index) {
                // CAST: see `place`.
                Some(binding) => Home::Bound {
                    index: binding as u16,
                    offset: bytes_of(samples.start)?,
                },
                None => Home::Arena {
                    offset: reserve(bytes_of(samples.end - samples.start)?)?,
                },
            };
            values.push(home);
        }
        // A model of which everything is bound still needs a place.
        let arena_bytes = arena_bytes.max(BLOCK_ALIGN);
        Some(Self {
            model,
            samples,
            arena_bytes,
            weights,
            values,
        })
    }

    fn place(
        &self,
        device: &Arc<dyn Device>,
        tpb: TpbIndex,
        slots: u32,
    ) -> Result<Program, DeviceError> {
        let place = Place::Hbm(tpb);
        let arena = DeviceMemory::allocate(device, place, self.arena_bytes, BLOCK_ALIGN)?;
        for (weight, offset) in self.model.weights().iter().zip(&self.weights) {
            arena.write(*offset, bytemuck::cast_slice(weight.data()))?;
        }
        let bodies = self.assemble(arena.addr());
        // CAST: a model has at most MAX_TENSORS inputs and outputs.
        let bindings = (self.model.inputs().len() + self.model.outputs().len()) as u16;
        let blocks = Blocks {
            sequencer_config: sequencer_config(&bodies, bindings),
            table_hash: tables(&bodies),
            bodies,
            arena,
            bindings,
            entry_bytes: ENTRY_BYTES,
            entry: entry_block,
            collectives: None,
        };
        Program::load(device, tpb, slots, blocks)
    }

    fn assemble(&self, base: DeviceAddr) -> [Vec<u8>; 5] {
        let mut streams = Streams::new(self.model.values().len());
        // A matrix without rows is illegal, so a core without samples has no layers.
        let layers = self.model.layers();
        for layer in layers.filter(|_| !self.samples.is_empty()) {
            let engine = engine_of(layer.op());
            for input in layer.inputs() {
                streams.await_value(engine, *input);
            }
            streams.emit(engine, self.lower(layer, engine, base));
            streams.define(engine, layer.output());
        }
        streams.finish()
    }

    fn lower(&self, layer: &Layer, engine: Engine, base: DeviceAddr) -> Instruction {
        let value = |id: ValueId| self.operand(self.values[id.index()], base);
        let weight = |id: WeightId| Operand::Address(offset(base, self.weights[id.index()]));
        let none = Operand::Address(DeviceAddr::new(0));
        let input = layer.inputs()[0];
        let (a, out) = (value(input), value(layer.output()));
        let source = self.model.value(input);
        // CAST: a width is at most MAX_ELEMENTS.
        let (inner, cols) = (
            source.width() as u32,
            self.model.value(layer.output()).width() as u32,
        );
        let rows = self.samples.end - self.samples.start;
        let instruction = |opcode| Instruction::new(engine, opcode);
        // Reductions are described by what they read, everything else by what it writes.
        let same = |opcode, b| instruction(opcode).shape(rows, cols).operands(a, b, out);
        let reduce = |opcode| {
            instruction(opcode)
                .shape(rows, inner)
                .operands(a, none, out)
        };
        match layer.op() {
            Op::MatMul { weight: id } => Instruction {
                inner: U32::new(inner),
                ..same(Opcode::MatMul, weight(id))
            },
            Op::Bias { bias } => same(Opcode::Bias, weight(bias)),
            Op::Relu => same(Opcode::Relu, none),
            Op::Softmax => same(Opcode::Softmax, none),
            Op::Scale { factor } => Instruction {
                dtype: dtype_of(source.dtype()) as u8,
                immediate: F32::new(factor),
                ..same(Opcode::Scale, none)
            },
            Op::Add => same(Opcode::Add, value(layer.inputs()[1])),
            Op::Mul => same(Opcode::Mul, value(layer.inputs()[1])),
            Op::ArgMax => reduce(Opcode::ArgMax),
            Op::Sum => reduce(Opcode::Sum),
            Op::Max => reduce(Opcode::Max),
        }
    }

    fn operand(&self, home: Home, base: DeviceAddr) -> Operand {
        match home {
            Home::Arena { offset: at } => Operand::Address(offset(base, at)),
            Home::Bound { index, offset } => Operand::Bound { index, offset },
        }
    }
}

fn offset(base: DeviceAddr, bytes: u64) -> DeviceAddr {
    // The arena was allocated, so it ends inside the 64-bit space.
    DeviceAddr::new(base.get().saturating_add(bytes))
}

fn engine_of(op: Op) -> Engine {
    match op {
        Op::MatMul { .. } => Engine::Pe,
        Op::Bias { .. } | Op::Relu | Op::Softmax => Engine::Act,
        Op::Scale { .. } | Op::Add | Op::Mul => Engine::Dve,
        Op::ArgMax | Op::Sum | Op::Max => Engine::Pool,
    }
}

fn dtype_of(dtype: ValueType) -> Dtype {
    match dtype {
        ValueType::U8 => Dtype::U8,
        ValueType::U32 => Dtype::U32,
        ValueType::F32 => Dtype::F32,
    }
}

/// The semaphore by which `from` tells `to`.
fn semaphore(from: Engine, to: Engine) -> SemIndex {
    // CAST: 25 pairs.
    SemIndex::new(map::FIRST_PROGRAM_SEMAPHORE + (from.index() * 5 + to.index()) as u8)
}

/// The streams under construction.
struct Streams {
    code: [Vec<Instruction>; 5],
    /// Where each value was defined: the engine and the length of its stream after that instruction.
    defined: Vec<Option<(Engine, usize)>>,
    /// `synced[consumer][producer]`: how much of the producer's stream the consumer has waited for.
    synced: [[usize; 5]; 5],
    /// `signals[producer]`: after which length of the stream to signal whom; ascending for each pair.
    signals: [Vec<(usize, Engine)>; 5],
}

impl Streams {
    fn new(values: usize) -> Self {
        let mut streams = Self {
            code: [const { Vec::new() }; 5],
            defined: vec![None; values],
            synced: [[0; 5]; 5],
            signals: [const { Vec::new() }; 5],
        };
        for engine in Engine::ALL
            .into_iter()
            .filter(|engine| *engine != Engine::Sp)
        {
            streams.emit(
                Engine::Sp,
                Instruction::signal(Engine::Sp, semaphore(Engine::Sp, engine)),
            );
            streams.emit(
                engine,
                Instruction::wait(engine, semaphore(Engine::Sp, engine)),
            );
        }
        streams
    }

    fn emit(&mut self, engine: Engine, instruction: Instruction) {
        self.code[engine.index()].push(instruction);
    }

    /// Makes `consumer` wait until `value` is there, unless it has waited for something later already.
    fn await_value(&mut self, consumer: Engine, value: ValueId) {
        let Some((producer, at)) = self.defined[value.index()] else {
            // An input: bound before the execution starts.
            return;
        };
        let synced = &mut self.synced[consumer.index()][producer.index()];
        if producer == consumer || *synced >= at {
            return;
        }
        *synced = at;
        self.signals[producer.index()].push((at, consumer));
        self.emit(
            consumer,
            Instruction::wait(consumer, semaphore(producer, consumer)),
        );
    }

    fn define(&mut self, engine: Engine, value: ValueId) {
        self.defined[value.index()] = Some((engine, self.code[engine.index()].len()));
    }

    /// Inserts the signals, ends every stream, and encodes.
    fn finish(mut self) -> [Vec<u8>; 5] {
        for engine in Engine::ALL
            .into_iter()
            .filter(|engine| *engine != Engine::Sp)
        {
            let code = core::mem::take(&mut self.code[engine.index()]);
            let mut signals = core::mem::take(&mut self.signals[engine.index()]);
            signals.sort_by_key(|(at, _)| *at);
            let mut signals = signals.into_iter().peekable();
            let stream = &mut self.code[engine.index()];
            for (index, instruction) in code.into_iter().enumerate() {
                stream.push(instruction);
                while let Some((_, consumer)) = signals.next_if(|(at, _)| *at == index + 1) {
                    stream.push(Instruction::signal(engine, semaphore(engine, consumer)));
                }
            }
            stream.push(Instruction::signal(engine, semaphore(engine, Engine::Sp)));
            stream.push(Instruction::halt(engine));
            self.emit(
                Engine::Sp,
                Instruction::wait(Engine::Sp, semaphore(engine, Engine::Sp)),
            );
        }
        self.emit(Engine::Sp, Instruction::halt(Engine::Sp));
        self.code.map(|stream| {
            stream
                .iter()
                .flat_map(|one| one.as_bytes().to_vec())
                .collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(engine: Engine, opcodes: &[Opcode]) -> Vec<u8> {
        let encode = |opcode: &Opcode| Instruction::new(engine, *opcode).as_bytes().to_vec();
        opcodes.iter().flat_map(encode).collect()
    }

    #[test]
    fn cores_share_a_batch() {
        let shared = |batch, cores| {
            let ends = shares(batch, cores).map(|samples| (samples.start, samples.end));
            ends.collect::<Vec<_>>()
        };
        assert_eq!(shared(5, 2), [(0, 3), (3, 5)]);
        assert_eq!(shared(1, 2), [(0, 1), (1, 1)]);
        assert_eq!(shared(7, 1), [(0, 7)]);
        assert_eq!(shared(7, 0), []);
    }

    #[test]
    fn tables_tell_operations_apart_and_nothing_else() {
        let bodies = |act: &[Opcode], dve: &[Opcode]| {
            let mut bodies = [const { Vec::new() }; 5];
            bodies[Engine::Act.index()] = body(Engine::Act, act);
            bodies[Engine::Dve.index()] = body(Engine::Dve, dve);
            bodies
        };
        let (relu, softmax, scale) = (Opcode::Relu, Opcode::Softmax, Opcode::Scale);
        let reference = bodies(&[relu, softmax], &[scale]);
        assert_eq!(
            tables(&reference),
            tables(&bodies(&[softmax, relu, relu], &[scale, scale]))
        );
        assert_ne!(tables(&reference), tables(&bodies(&[relu], &[scale])));
        assert_ne!(
            tables(&reference),
            tables(&bodies(&[relu, softmax], &[Opcode::Mul]))
        );
    }

    #[test]
    fn the_configuration_tells_programs_apart_by_their_shape() {
        let mut bodies = [const { Vec::new() }; 5];
        let empty = sequencer_config(&bodies, 2);
        assert_ne!(empty, sequencer_config(&bodies, 3));
        bodies[Engine::Sp.index()] = body(Engine::Sp, &[Opcode::Halt]);
        assert_ne!(empty, sequencer_config(&bodies, 2));
    }
}
