//! A collective as one rank asks for it: checked, cut into shards, its scratch memory reserved.
//!
//! Made by the facade at prepare time, performed by [`CollectiveDma`](super::CollectiveDma).
//! Spec: `c-api.md` section 6.3.

use super::communicator::{Loss, Rank};
use super::overlaps::{self, Written};
use super::shards::{self, Part};
use crate::device::{Device, DeviceError, Place};
use crate::elementwise::{Dtype, ReduceOp, UnknownReduceOp};
use crate::memory::DeviceMemory;
use crate::region::{OutOfRange, Region};
use core::any::Any;
use core::fmt;
use std::sync::{Arc, OnceLock};
use xu_abi::Status;

/// Most tensors in a list.
pub const MAX_TENSORS: usize = 256;
const SCRATCH_ALIGN: u64 = 64;

/// Keeps the memory behind a plan's regions alive: as long as this rank or any other may touch it.
pub type Keep = Arc<dyn Any + Send + Sync>;

/// What the ranks do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// Every rank gets the inputs of all, one after the other.
    AllGather,
    /// Every rank gets the inputs of all, combined.
    AllReduce(ReduceOp),
    /// The inputs of all are combined, and every rank gets its part of the result.
    ReduceScatter(ReduceOp),
}

impl Collective {
    /// The collective with this `nrt_cc_op_type_t`; an all-gather ignores the `nrt_op_type_t`.
    ///
    /// # Errors
    /// [`UnknownCollective`] with the number that is unknown.
    pub fn from_raw(collective: u32, op: u32) -> Result<Self, UnknownCollective> {
        match collective {
            0 => Ok(Self::AllGather),
            1 => Ok(Self::AllReduce(ReduceOp::try_from(op)?)),
            2 => Ok(Self::ReduceScatter(ReduceOp::try_from(op)?)),
            other => Err(UnknownCollective::Collective(other)),
        }
    }

    /// The reduction, where there is one.
    pub(super) fn reduction(self) -> Option<ReduceOp> {
        match self {
            Self::AllGather => None,
            Self::AllReduce(op) | Self::ReduceScatter(op) => Some(op),
        }
    }
}

/// A number that names no collective, or no reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownCollective {
    /// The collective.
    #[error("collective {0} is not all-gather (0), all-reduce (1) or reduce-scatter (2)")]
    Collective(u32),
    /// Its reduction.
    #[error(transparent)]
    Reduction(#[from] UnknownReduceOp),
}

impl UnknownCollective {
    /// [`Status::INVALID`].
    #[must_use]
    pub const fn status(self) -> Status {
        Status::INVALID
    }
}

/// A checked collective of one rank.
///
/// Dropping it unused is no loss to the others before [`Plan::commit`]. Afterwards they count on it: dropping it ends the
/// communicator, as [`Plan::abandon`] does.
#[derive(Debug)]
pub struct Plan {
    /// The others may wait for it, and nothing else tells them if it goes.
    pub(super) promised: bool,
    pub(super) rank: Rank,
    pub(super) offer: Arc<Offer>,
    /// Room for everybody's offers, so that none is needed later.
    pub(super) peers: Vec<Arc<Offer>>,
    /// Room for the inputs of one reduction.
    pub(super) sources: Vec<Region>,
}

/// What the other ranks have to know of a plan, and what they keep while they read its memory.
pub(super) struct Offer {
    pub(super) collective: Collective,
    pub(super) dtype: Dtype,
    pub(super) parts: Vec<Part>,
    /// The tensors as they were given.
    pub(super) inputs: Vec<Region>,
    pub(super) place: Place,
    pub(super) written: Written,
    /// Why this rank comes without taking part. Set before the offer is shown, if at all.
    pub(super) withdrawn: OnceLock<Status>,
    /// Held, not used.
    _scratch: Vec<DeviceMemory>,
    _keep: Keep,
}

impl fmt::Debug for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Offer")
            .field("collective", &self.collective)
            .field("dtype", &self.dtype)
            .field("parts", &self.parts)
            .finish_non_exhaustive()
    }
}

impl Plan {
    /// Checks what one rank asks for and reserves what it needs.
    ///
    /// `inputs` and `outputs` are in the device memory of one core. The memory behind them is kept alive by `keep`, which
    /// the plan shares with every rank that reads it.
    ///
    /// # Errors
    /// [`PlanError`]; nothing has been reserved then.
    pub fn prepare(
        device: &Arc<dyn Device>,
        rank: &Rank,
        collective: Collective,
        dtype: Dtype,
        inputs: &[Region],
        outputs: &[Region],
        keep: Keep,
    ) -> Result<Self, PlanError> {
        let place = one_place(inputs, outputs)?;
        let ranks = rank.ranks();
        let mut parts = shards::cut(collective, dtype, ranks, inputs, outputs)?;
        let written = overlaps::check(collective, inputs, outputs)?;
        let mut scratch = Vec::new();
        for part in &mut parts {
            part.untangle(collective, rank.index(), |bytes| {
                let memory = DeviceMemory::allocate(device, place, bytes, SCRATCH_ALIGN)?;
                let region = Region::of(&memory);
                scratch.push(memory);
                Ok(region)
            })?;
        }
        let offer = Offer {
            collective,
            dtype,
            parts,
            inputs: inputs.to_vec(),
            written,
            place,
            withdrawn: OnceLock::new(),
            _scratch: scratch,
            _keep: keep,
        };
        Ok(Self {
            promised: false,
            rank: rank.clone(),
            offer: Arc::new(offer),
            peers: Vec::with_capacity(ranks as usize),
            sources: Vec::with_capacity(ranks as usize),
        })
    }

    /// Whose plan it is.
    #[must_use]
    pub fn rank(&self) -> &Rank {
        &self.rank
    }

    /// From now on the others count on it: its request has been accepted, in the order in which it will be begun.
    pub fn commit(&mut self) {
        self.promised = true;
    }

    /// Tells the other ranks that this one will not come, because of `status`.
    pub fn abandon(self, status: Status) {
        self.lose(Loss::Failed(status));
    }

    fn lose(&self, loss: Loss) {
        self.rank.table().lose(self.rank.index(), loss);
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        if self.promised {
            self.lose(Loss::GaveUp);
        }
    }
}

fn one_place(inputs: &[Region], outputs: &[Region]) -> Result<Place, PlanError> {
    for count in [inputs.len(), outputs.len()] {
        if !(1..=MAX_TENSORS).contains(&count) {
            return Err(PlanError::Tensors { count });
        }
    }
    // PANIC: there is at least one, as was just checked.
    let place = inputs[0].place();
    for region in inputs.iter().chain(outputs) {
        match region.place() {
            Place::Host => return Err(PlanError::NotDeviceMemory { region: *region }),
            other if other != place => return Err(PlanError::Apart { place, other }),
            Place::Hbm(_) => {}
        }
    }
    Ok(place)
}

/// Why there is no such plan. Nothing has been touched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A list is empty or too long.
    #[error("a list of {count} tensors is not allowed (1 to 256)")]
    Tensors {
        /// Its length.
        count: usize,
    },
    /// The lengths of the two lists do not fit the collective.
    #[error("{inputs} inputs and {outputs} outputs do not fit this collective of {ranks} ranks")]
    Lists {
        /// How many inputs.
        inputs: usize,
        /// How many outputs.
        outputs: usize,
        /// How many ranks.
        ranks: u32,
    },
    /// The sizes of an input and its output do not fit the collective.
    #[error(
        "an input of {input} bytes and an output of {output} bytes do not fit this collective of {ranks} ranks"
    )]
    Sizes {
        /// Size of the input, bytes.
        input: u64,
        /// Size of the output, bytes.
        output: u64,
        /// How many ranks.
        ranks: u32,
    },
    /// A tensor does not consist of whole elements.
    #[error("{bytes} bytes are no whole number of elements of {dtype}")]
    Elements {
        /// Its size, bytes.
        bytes: u64,
        /// The type.
        dtype: Dtype,
    },
    /// A tensor is not in device memory.
    #[error("{region} is in host memory, not in device memory")]
    NotDeviceMemory {
        /// The tensor.
        region: Region,
    },
    /// Two tensors are in the memory of different cores.
    #[error("one tensor is in {place}, another in {other}")]
    Apart {
        /// Where the first is.
        place: Place,
        /// Where another one is.
        other: Place,
    },
    /// Two tensors have bytes in common that may not.
    #[error("two tensors overlap: {one}, and {other}")]
    Overlap {
        /// One of them.
        one: Region,
        /// The other.
        other: Region,
    },
    /// A shard is not inside its tensor.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
    /// Scratch memory could not be reserved.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl PlanError {
    /// The status of the call.
    #[must_use]
    pub fn status(&self) -> Status {
        match self {
            Self::Device(error) => error.status(),
            Self::Tensors { .. }
            | Self::Lists { .. }
            | Self::Sizes { .. }
            | Self::Elements { .. }
            | Self::NotDeviceMemory { .. }
            | Self::Apart { .. }
            | Self::Overlap { .. }
            | Self::OutOfRange(_) => Status::INVALID,
        }
    }
}
