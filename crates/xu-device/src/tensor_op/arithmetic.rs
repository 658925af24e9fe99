//! The buffers in which the stepping thread computes, one chunk at a time.
//!
//! Owned by [`TensorDma`](super::TensorDma), which collects each operand of a chunk into the buffer that
//! [`Scratch::operand`] names and calls [`Scratch::combine`]; after the last one the result is in
//! [`Scratch::result`].
//!
//! ```text
//!   cast        operand 0 -> spare, converted to result
//!   compute     operand 0 -> result;  each other -> spare, combined into result
//!   fma         operand 0 -> result;  1 -> spare;  2 -> third, then result = result * spare + third
//! ```

use super::operation::{ARITHMETIC_CHUNK, Rule};
use crate::elementwise;
use crate::transfer::CHUNK;

/// Three operands, or a pattern. Allocated once; the operating system backs what is used.
#[derive(Debug)]
pub(super) struct Scratch {
    /// As long as a chunk of the DMA queue, for patterns; arithmetic uses the beginning.
    result: Vec<u8>,
    spare: Vec<u8>,
    third: Vec<u8>,
}

impl Scratch {
    pub(super) fn new() -> Self {
        Self {
            result: vec![0; CHUNK],
            spare: vec![0; ARITHMETIC_CHUNK],
            third: vec![0; ARITHMETIC_CHUNK],
        }
    }

    /// `len` bytes (at most [`CHUNK`]) of this value.
    pub(super) fn pattern(&mut self, value: u8, len: usize) -> &[u8] {
        // PANIC: callers ask for at most a chunk, here and below.
        let pattern = &mut self.result[..len];
        pattern.fill(value);
        pattern
    }

    /// The first `len` bytes of the result.
    pub(super) fn result(&self, len: usize) -> &[u8] {
        &self.result[..len]
    }

    /// Where `count` elements of operand number `index` go.
    pub(super) fn operand(&mut self, rule: Rule, index: usize, count: usize) -> &mut [u8] {
        let len = count * rule.source_bytes();
        let buffer = match (rule, index) {
            (Rule::Reduce { .. } | Rule::Fma { .. }, 0) => &mut self.result,
            (Rule::Fma { .. }, 2) => &mut self.third,
            (Rule::Cast { .. } | Rule::Reduce { .. } | Rule::Fma { .. }, _) => &mut self.spare,
        };
        &mut buffer[..len]
    }

    /// Computes what can be computed now that operand number `index` is there.
    pub(super) fn combine(&mut self, rule: Rule, index: usize, count: usize) {
        let source = count * rule.source_bytes();
        let target = count * rule.target_bytes();
        let result = &mut self.result[..target];
        match (rule, index) {
            (Rule::Cast { from, to }, _) => {
                elementwise::cast(from, to, &self.spare[..source], result);
            }
            (Rule::Reduce { op, dtype }, 1..) => {
                elementwise::accumulate(op, dtype, result, &self.spare[..source]);
            }
            (Rule::Fma { dtype }, 2) => {
                elementwise::fma(dtype, result, &self.spare[..source], &self.third[..source]);
            }
            (Rule::Reduce { .. } | Rule::Fma { .. }, _) => {}
        }
    }
}
