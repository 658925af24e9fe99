//! The tensors of a collective, cut into parts and these into shards.
//!
//! Done once, when a plan is prepared; afterwards every rank reads and writes shards only.
//!
//! ```text
//!   n = 3 ranks          inputs of a part                 outputs of a part
//!   all-gather           | in |                           | from 0 | from 1 | from 2 |    equal shards
//!   reduce-scatter       | for 0 | for 1 | for 2 |        | out |                         equal shards
//!   all-reduce           | a | b | c |                    | a | b | c |                   shards as equal as can be
//! ```
//!
//! A list of k inputs and k outputs is k parts, one after the other. Two shapes of lists are one part: an all-gather of
//! one input into n outputs, and a reduce-scatter of n inputs into one output; there the tensors are the shards.
//!
//! Inputs and outputs of a rank may lie in each other. Where the smaller side is the rank's own shard of the larger one,
//! nothing is read after it was written; elsewhere the smaller side takes a detour through scratch memory.

use super::plan::{Collective, PlanError};
use crate::device::DeviceError;
use crate::elementwise::Dtype;
use crate::region::{OutOfRange, Region};

/// One tensor's worth of a collective, as shards.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// One, or one per rank: what the other ranks read first.
    pub(super) inputs: Vec<Region>,
    /// One, or one per rank.
    pub(super) outputs: Vec<Region>,
    /// Where there is one: a copy is made from the first to the second, before the ranks meet (all-gather) or after the
    /// reductions (reduce-scatter).
    pub(super) detour: Option<(Region, Region)>,
    /// What must be equal among ranks: the bytes of the smaller side.
    pub(super) bytes: u64,
}

impl Part {
    /// Makes sure that a rank never writes what it or another one has yet to read.
    pub(super) fn untangle(
        &mut self,
        collective: Collective,
        rank: u32,
        mut allocate: impl FnMut(u64) -> Result<Region, DeviceError>,
    ) -> Result<(), DeviceError> {
        let own = rank as usize;
        match collective {
            // Input and output are the same or apart: `overlaps` has looked.
            Collective::AllReduce(_) => {}
            // PANIC: one input, and one output per rank; the other way round below.
            Collective::AllGather => {
                let input = self.inputs[0];
                if overlap_elsewhere(input, &self.outputs, own) {
                    let copy = allocate(input.bytes())?;
                    self.detour = Some((input, copy));
                    self.inputs[0] = copy;
                }
            }
            Collective::ReduceScatter(_) => {
                let output = self.outputs[0];
                if overlap_elsewhere(output, &self.inputs, own) {
                    let copy = allocate(output.bytes())?;
                    self.detour = Some((copy, output));
                    self.outputs[0] = copy;
                }
            }
        }
        Ok(())
    }
}

/// Whether `region` has bytes in common with `shards`, other than by being the own one.
fn overlap_elsewhere(region: Region, shards: &[Region], own: usize) -> bool {
    let tangled = |(index, shard): (usize, &Region)| {
        region.overlaps(*shard) && !(index == own && region == *shard)
    };
    shards.iter().enumerate().any(tangled)
}

/// Cuts the lists into parts and these into shards.
pub(super) fn cut(
    collective: Collective,
    dtype: Dtype,
    ranks: u32,
    inputs: &[Region],
    outputs: &[Region],
) -> Result<Vec<Part>, PlanError> {
    for region in inputs.iter().chain(outputs) {
        if !region.bytes().is_multiple_of(dtype.bytes() as u64) {
            return Err(PlanError::Elements {
                bytes: region.bytes(),
                dtype,
            });
        }
    }
    let shards = ranks as usize;
    match collective {
        Collective::AllGather if inputs.len() == 1 && outputs.len() == shards => {
            listed(inputs[0], outputs, |whole, shard| PlanError::Sizes {
                input: whole,
                output: shard,
                ranks,
            })?;
            Ok(vec![Part {
                inputs: inputs.to_vec(),
                outputs: outputs.to_vec(),
                detour: None,
                bytes: inputs[0].bytes(),
            }])
        }
        Collective::ReduceScatter(_) if outputs.len() == 1 && inputs.len() == shards => {
            listed(outputs[0], inputs, |whole, shard| PlanError::Sizes {
                input: shard,
                output: whole,
                ranks,
            })?;
            Ok(vec![Part {
                inputs: inputs.to_vec(),
                outputs: outputs.to_vec(),
                detour: None,
                bytes: outputs[0].bytes(),
            }])
        }
        _ if inputs.len() == outputs.len() => {
            let pairs = inputs.iter().zip(outputs);
            pairs
                .map(|(input, output)| cut_pair(collective, dtype, ranks, *input, *output))
                .collect()
        }
        _ => Err(PlanError::Lists {
            inputs: inputs.len(),
            outputs: outputs.len(),
            ranks,
        }),
    }
}

/// Whether every shard of a list is as long as the one tensor of the other side.
fn listed(
    one: Region,
    shards: &[Region],
    error: impl Fn(u64, u64) -> PlanError,
) -> Result<(), PlanError> {
    match shards.iter().find(|shard| shard.bytes() != one.bytes()) {
        None => Ok(()),
        Some(odd) => Err(error(one.bytes(), odd.bytes())),
    }
}

fn cut_pair(
    collective: Collective,
    dtype: Dtype,
    ranks: u32,
    input: Region,
    output: Region,
) -> Result<Part, PlanError> {
    let times = |bytes: u64| bytes.checked_mul(u64::from(ranks));
    let fits = match collective {
        Collective::AllGather => times(input.bytes()) == Some(output.bytes()),
        Collective::ReduceScatter(_) => times(output.bytes()) == Some(input.bytes()),
        Collective::AllReduce(_) => input.bytes() == output.bytes(),
    };
    if !fits {
        return Err(PlanError::Sizes {
            input: input.bytes(),
            output: output.bytes(),
            ranks,
        });
    }
    let (inputs, outputs) = match collective {
        Collective::AllGather => (vec![input], shards_of(output, dtype, ranks)?),
        Collective::ReduceScatter(_) => (shards_of(input, dtype, ranks)?, vec![output]),
        Collective::AllReduce(_) => (
            shards_of(input, dtype, ranks)?,
            shards_of(output, dtype, ranks)?,
        ),
    };
    Ok(Part {
        inputs,
        outputs,
        detour: None,
        bytes: input.bytes().min(output.bytes()),
    })
}

/// Cuts a tensor into as many shards as there are ranks, whole elements each, as equal as can be.
fn shards_of(whole: Region, dtype: Dtype, ranks: u32) -> Result<Vec<Region>, OutOfRange> {
    let size = dtype.bytes() as u64;
    let elements = whole.bytes() / size;
    // CAST: at most the number of elements.
    let cut =
        |rank: u32| (u128::from(elements) * u128::from(rank) / u128::from(ranks)) as u64 * size;
    (0..ranks)
        .map(|rank| whole.slice(cut(rank), cut(rank + 1) - cut(rank)))
        .collect()
}
