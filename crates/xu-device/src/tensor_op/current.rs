//! The operation at the head of a queue, chunk by chunk: what is posted next, and what is done with what arrives.
//!
//! ```text
//!   write, read, copy, memset     | chunk | chunk | ... | rest |
//!   arithmetic                    | operand 0 | operand 1 | ... | result |  once per piece of all operands
//! ```

use super::OperationError;
use super::arithmetic::Scratch;
use super::host::HostPiece;
use super::operation::{Kind, Operation};
use crate::device::DeviceError;
use crate::transfer::{CHUNK, TransferQueue};

/// An operation under way.
#[derive(Debug)]
pub(super) struct Current {
    pub(super) operation: Operation,
    /// How much of the operation's count is done.
    pub(super) done: u64,
    /// Arithmetic only: how many operands of this chunk have arrived.
    pub(super) operands: usize,
    /// The chunk that is on its way.
    pub(super) posted: Option<Posted>,
    /// A descriptor of this operation has been written: from here on every failure is fatal.
    pub(super) may_be_known: bool,
}

/// A chunk on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Posted {
    pub(super) at_ns: u64,
    pub(super) bytes: usize,
}

/// The piece of an operation that one chunk moves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// Where it begins, in units of the operation's count.
    pub(super) start: u64,
    /// How long it is, in the same units.
    pub(super) count: usize,
}

impl Current {
    pub(super) fn new(operation: Operation) -> Self {
        Self {
            operation,
            done: 0,
            operands: 0,
            posted: None,
            may_be_known: false,
        }
    }

    /// What is to be moved next; `None` when everything has been.
    pub(super) fn piece(&self) -> Option<Piece> {
        let left = self.operation.count - self.done;
        let per_chunk = self.operation.per_chunk();
        // CAST: the smaller of the two fits both types.
        let count = left.min(per_chunk as u64) as usize;
        (count > 0).then_some(Piece {
            start: self.done,
            count,
        })
    }

    /// Hands the piece's next chunk to the device; returns its length in bytes.
    pub(super) fn post(
        &self,
        queue: &mut TransferQueue,
        scratch: &mut Scratch,
        piece: Piece,
        host: &HostPiece<'_>,
    ) -> Result<usize, DeviceError> {
        let Piece { start, count } = piece;
        match &self.operation.kind {
            Kind::Write { to } => queue.begin_write(to.at(start), host.source())?,
            Kind::Read { from } => queue.begin_read(from.at(start), count)?,
            Kind::Copy { from, to } => queue.begin_copy(from.at(start), to.at(start), count)?,
            Kind::Memset { to, value } => {
                if start == 0 {
                    queue.fill(scratch.pattern(*value, count.min(CHUNK)))?;
                }
                queue.begin_fill(to.at(start), count)?;
            }
            Kind::Arithmetic { rule, sources, to } => {
                return if let Some(source) = sources.get(self.operands) {
                    let size = rule.source_bytes();
                    queue.begin_read(source.at(start * size as u64), count * size)?;
                    Ok(count * size)
                } else {
                    let size = rule.target_bytes();
                    let result = scratch.result(count * size);
                    queue.begin_write(to.at(start * size as u64), result)?;
                    Ok(count * size)
                };
            }
        }
        Ok(count)
    }

    /// Takes in what has arrived.
    pub(super) fn land(
        &mut self,
        queue: &TransferQueue,
        scratch: &mut Scratch,
        piece: Piece,
        host: HostPiece<'_>,
    ) -> Result<(), DeviceError> {
        match &self.operation.kind {
            Kind::Arithmetic { rule, sources, .. } if self.operands < sources.len() => {
                let operand = scratch.operand(*rule, self.operands, piece.count);
                queue.collect(operand)?;
                scratch.combine(*rule, self.operands, piece.count);
                self.operands += 1;
                return Ok(());
            }
            Kind::Read { .. } => queue.collect(host.into_target())?,
            Kind::Write { .. }
            | Kind::Copy { .. }
            | Kind::Memset { .. }
            | Kind::Arithmetic { .. } => {}
        }
        self.operands = 0;
        self.done += piece.count as u64;
        Ok(())
    }

    pub(super) fn explain(&self, error: DeviceError) -> OperationError {
        if self.may_be_known {
            OperationError::InFlight(error)
        } else {
            OperationError::Before(error)
        }
    }
}
