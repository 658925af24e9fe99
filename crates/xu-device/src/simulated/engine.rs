//! One engine at work on its instruction block: fetch, decode, execute, one instruction at a time.
//!
//! Made for each engine of each execution, which decides when it steps and posts what it reports.
//! Instructions come from HBM only; operands may lie in host memory too.
//! An instruction that takes time is fetched first, and executed by the step that follows when its time has passed:
//! its operands are read and its result is stored then.

use super::compute::{self, Outcome, StateBuffer, Surroundings};
use super::costs::Costs;
use super::memory::Memory;
use super::tpb::Tpb;
use crate::isa::{BINDING_SIZE, Dtype, INSTRUCTION_SIZE, Instruction, Opcode, Operand};
use crate::map;
use xu_abi::{DeviceAddr, Engine, SemIndex};
use zerocopy::IntoBytes;

/// An instruction line has 20 bits.
const LINE_MASK: u64 = 0xF_FFFF;

/// An engine's instruction block in execution.
#[derive(Debug)]
pub(super) struct Block {
    /// The engine.
    pub(super) engine: Engine,
    /// Where the block began: its entry, or where the last jump went.
    base: DeviceAddr,
    pc: DeviceAddr,
    table: Option<DeviceAddr>,
    /// Fetched, and executed when its time has passed.
    fetched: Option<(Opcode, Instruction)>,
}

/// What one instruction did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It was executed.
    Executed,
    /// It was fetched, and takes this many nanoseconds.
    Takes(u64),
    /// It was executed, and its result holds what is not a number.
    NotANumber,
    /// It raised a semaphore.
    Signalled,
    /// It waits for this semaphore and will be fetched again.
    Stalled(SemIndex),
    /// It was the last one.
    Halted,
    /// The core is to stop.
    Interrupted,
}

/// Why an instruction cannot be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The instruction or an operand is not in memory.
    OutOfBounds,
    /// There is no such instruction for this engine.
    Illegal,
}

/// What the engines of a core share.
#[derive(Debug)]
pub(super) struct Surface<'m> {
    /// What instructions cost.
    pub(super) costs: Costs,
    /// Where instructions and operands lie.
    pub(super) memory: &'m Memory,
    /// The core, for its semaphores.
    pub(super) tpb: &'m Tpb,
    /// Where operands lie while they are computed with.
    pub(super) buffer: &'m mut StateBuffer,
}

impl Block {
    pub(super) fn new(engine: Engine, entry: DeviceAddr) -> Self {
        Self {
            engine,
            base: entry,
            pc: entry,
            table: None,
            fetched: None,
        }
    }

    /// Lets the engine begin at `entry`.
    pub(super) fn restart(&mut self, entry: DeviceAddr) {
        self.base = entry;
        self.pc = entry;
        self.table = None;
        self.fetched = None;
    }

    /// Number of the current instruction, counted from the entry or from where the last jump went.
    pub(super) fn line(&self) -> u32 {
        let bytes = self.pc.get().saturating_sub(self.base.get());
        // CAST: masked to 20 bits.
        ((bytes / INSTRUCTION_SIZE) & LINE_MASK) as u32
    }

    /// Fetches or executes the instruction at the program counter. On a fault the counter stays on it.
    pub(super) fn step(&mut self, surface: &mut Surface<'_>) -> Result<Step, Fault> {
        if self.fetched.is_some()
            && let Some((opcode, instruction)) = self.fetched.take()
        {
            return self.execute(opcode, &instruction, surface);
        }
        let mut instruction = Instruction::default();
        surface
            .memory
            .fetch(self.pc, instruction.as_mut_bytes())
            .map_err(|_| Fault::OutOfBounds)?;
        let opcode = self.decode(&instruction)?;
        if !surface.costs.instructions_are_free() {
            let work = compute::work(opcode, &instruction);
            let takes = surface.costs.of_instruction(work.unwrap_or_default());
            if takes > 0 {
                self.fetched = Some((opcode, instruction));
                return Ok(Step::Takes(takes));
            }
        }
        self.execute(opcode, &instruction, surface)
    }

    fn execute(
        &mut self,
        opcode: Opcode,
        instruction: &Instruction,
        surface: &mut Surface<'_>,
    ) -> Result<Step, Fault> {
        let next = self.pc.checked_add(INSTRUCTION_SIZE);
        let mut step = Step::Executed;
        match opcode {
            Opcode::Bind => self.table = Some(fixed(instruction.a.get())?),
            Opcode::Jump => {
                self.base = fixed(instruction.a.get())?;
                self.pc = self.base;
                return Ok(step);
            }
            Opcode::Wait => {
                let semaphore = program_semaphore(instruction)?;
                if !surface.tpb.take(semaphore) {
                    return Ok(Step::Stalled(semaphore));
                }
            }
            Opcode::Signal => {
                let semaphore = program_semaphore(instruction)?;
                surface.tpb.signal(semaphore);
                step = Step::Signalled;
            }
            Opcode::Halt => return Ok(Step::Halted),
            _ => {
                let operands = BoundOperands {
                    table: self.table,
                    memory: surface.memory,
                    tpb: surface.tpb,
                };
                step = match compute::compute(
                    opcode,
                    instruction,
                    &operands,
                    surface.memory,
                    surface.buffer,
                )? {
                    Outcome::Stored => Step::Executed,
                    Outcome::NotANumber => Step::NotANumber,
                    Outcome::Interrupted => return Ok(Step::Interrupted),
                };
            }
        }
        self.pc = next.ok_or(Fault::OutOfBounds)?;
        Ok(step)
    }

    fn decode(&self, instruction: &Instruction) -> Result<Opcode, Fault> {
        let ours = usize::from(instruction.engine) == self.engine.index()
            && Dtype::from_raw(instruction.dtype).is_some();
        Opcode::from_raw(instruction.opcode)
            .filter(|opcode| ours && opcode.runs_on(self.engine))
            .ok_or(Fault::Illegal)
    }
}

/// Resolves operands through the bound table.
struct BoundOperands<'m> {
    table: Option<DeviceAddr>,
    memory: &'m Memory,
    tpb: &'m Tpb,
}

impl Surroundings for BoundOperands<'_> {
    fn locate(&self, operand: u64) -> Result<DeviceAddr, Fault> {
        match Operand::from_raw(operand) {
            Operand::Address(addr) => Ok(addr),
            Operand::Bound { index, offset } => {
                let table = self.table.ok_or(Fault::Illegal)?;
                let entry = table
                    .checked_add(u64::from(index) * BINDING_SIZE)
                    .ok_or(Fault::OutOfBounds)?;
                let mut bound = [0; BINDING_SIZE as usize];
                self.memory
                    .read(entry, &mut bound)
                    .map_err(|_| Fault::OutOfBounds)?;
                DeviceAddr::new(u64::from_le_bytes(bound))
                    .checked_add(offset)
                    .ok_or(Fault::OutOfBounds)
            }
        }
    }

    fn is_stopping(&self) -> bool {
        self.tpb.is_interrupted()
    }
}

/// The operand of `Bind` and `Jump`, which cannot itself be bound.
fn fixed(operand: u64) -> Result<DeviceAddr, Fault> {
    match Operand::from_raw(operand) {
        Operand::Address(addr) => Ok(addr),
        Operand::Bound { .. } => Err(Fault::Illegal),
    }
}

/// Programs keep their hands off the semaphores of the sequencer.
fn program_semaphore(instruction: &Instruction) -> Result<SemIndex, Fault> {
    if instruction.semaphore < map::FIRST_PROGRAM_SEMAPHORE {
        return Err(Fault::Illegal);
    }
    Ok(SemIndex::new(instruction.semaphore))
}
