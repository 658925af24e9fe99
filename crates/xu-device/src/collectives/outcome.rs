//! How a step, or a whole collective, comes out.
//!
//! Answered by [`CollectiveDma`](super::CollectiveDma), turned into a status by the engine that owns it.

use super::agreement::{Mismatch, Withdrawn};
use super::communicator::{Late, Lost};
use crate::tensor_op::{InvalidOperation, OperationError};
use xu_abi::Status;

/// What one step found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Progress {
    /// There is more to do, or to wait for.
    Continue,
    /// As [`Progress::Continue`], and the wait has become long enough to tell somebody.
    Late(Late),
    /// The collective is complete: no rank uses this rank's buffers any more.
    Done,
    /// The collective failed on every rank before anything moved between them. All have met; queue and communicator go on.
    Refused(CollectiveError),
    /// The collective failed, and the communicator is at its end. The queue is, too, if it has failed itself.
    Fatal(CollectiveError),
}

/// Why a collective failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CollectiveError {
    /// This rank's own DMA queue failed.
    #[error(transparent)]
    Own(#[from] OperationError),
    /// Another rank will not come.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// The ranks have met with plans that do not fit together.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    /// Another rank's queue refused its part.
    #[error(transparent)]
    Withdrawn(#[from] Withdrawn),
    /// A part of the plan is no valid operation; plans are checked, so this should not occur.
    #[error(transparent)]
    Invalid(#[from] InvalidOperation),
    /// The rank takes part in a collective on another queue.
    #[error("rank {rank} has a collective under way")]
    RankBusy {
        /// Which one.
        rank: u32,
    },
}

impl CollectiveError {
    /// The status of the request. Where a rank has withdrawn, the others get its status: it tells all of them alike whether
    /// to try again.
    #[must_use]
    pub fn status(&self) -> Status {
        match self {
            Self::Own(error) => error.status(),
            Self::Lost(_) => Status::EXEC_HW_ERR_COLLECTIVES,
            Self::Withdrawn(withdrawn) => withdrawn.status,
            Self::Mismatch(_) | Self::Invalid(_) | Self::RankBusy { .. } => Status::INVALID,
        }
    }
}
