//! What a model that takes part in a collective has staged on each switch to it.
//!
//! Built by [`super::Program::load`], once; read by the stager, which appends it to an execution of the first core.
//! Spec `xu.md` section 5, step 3.
//!
//! ```text
//!   memory:  0x00 group, rank, ranks, zeroes ---- 64 bytes ---> collectives context of the core
//!            0x40 pairs of an execution with chain -- 4 bytes -> both tail increments
//! ```

use super::BLOCK_ALIGN;
use crate::device::{Device, DeviceError, Place};
use crate::memory::DeviceMemory;
use std::sync::Arc;
use xu_abi::{DeviceAddr, TpbIndex};

/// A model's part in a collective: the sequencer holds the model back until every rank of the group has switched
/// to its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Which group; unique on the device.
    pub group: u32,
    /// Which of its ranks, from 0.
    pub rank: u32,
    /// How many ranks it has.
    pub ranks: u32,
}

impl Membership {
    /// Size of the context block, bytes.
    pub const CONTEXT_BYTES: u32 = 64;

    /// The context block that the sequencer reads: group, rank, ranks, then zeroes; little-endian words.
    #[must_use]
    pub fn context(self) -> [u8; Self::CONTEXT_BYTES as usize] {
        let mut block = [0; Self::CONTEXT_BYTES as usize];
        for (place, word) in block
            .chunks_exact_mut(4)
            .zip([self.group, self.rank, self.ranks])
        {
            place.copy_from_slice(&word.to_le_bytes());
        }
        block
    }
}

/// The descriptor pairs that prepare a core for a model's collectives: built when the model is loaded, staged on
/// each switch to it.
#[derive(Debug)]
pub(crate) struct CollectivesChain {
    memory: DeviceMemory,
    /// Source, destination, length.
    pub(crate) copies: [(DeviceAddr, DeviceAddr, u32); CollectivesChain::PAIRS as usize],
}

impl CollectivesChain {
    /// Number of descriptor pairs.
    pub(crate) const PAIRS: u32 = 1;
    const INCREMENT: u64 = Membership::CONTEXT_BYTES as u64;

    pub(super) fn build(
        device: &Arc<dyn Device>,
        tpb: TpbIndex,
        membership: Membership,
        pairs_in_all: u32,
    ) -> Result<Self, DeviceError> {
        let bytes = Self::INCREMENT + BLOCK_ALIGN;
        let memory = DeviceMemory::allocate(device, Place::Hbm(tpb), bytes, BLOCK_ALIGN)?;
        memory.write(0, &membership.context())?;
        memory.write(Self::INCREMENT, &pairs_in_all.to_le_bytes())?;
        let context = device.shape().addresses.collectives_context(tpb);
        Ok(Self {
            copies: [(memory.addr(), context, Membership::CONTEXT_BYTES)],
            memory,
        })
    }

    /// Where the number lies that an execution with this chain adds to both tails.
    pub(crate) fn increment(&self) -> DeviceAddr {
        self.memory.at(Self::INCREMENT)
    }
}
