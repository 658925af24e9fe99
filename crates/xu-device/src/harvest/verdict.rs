//! From what was found to the status of an execution, and whether its unit can go on.
//!
//! Called at the end of an execution. Pure. Rules: spec `xu.md` sections 2.11 and 6.
//!
//! ```text
//!   what ended the wait       fault  ─┐                   ┌─> Done(status)          results may be bad, the unit is good
//!   error ring, per core      status ─┤   strongest one,  │
//!   memory counters, per core status ─┼─> first of equals ┤
//!   request queue, per core   fault  ─┘   stands          └─> Fatal(status, fault)  something that ends the unit was found
//! ```
//!
//! Two competitions by the priorities of section 2.11: among all statuses, and among those that end the unit.
//! If the second has a winner, it is the status of the execution, so that nothing mild can rename what is fatal.

use super::matcher::Mismatch;
use crate::device::{DeviceError, MemoryErrors};
use crate::nq::NqError;
use core::time::Duration;
use xu_abi::record::{ErrorKind, Subtype};
use xu_abi::{Engine, Status, TpbIndex};

/// Why an execution ended its unit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// Not every engine finished in time.
    #[error(
        "core {tpb} did not finish within {limit:?}: {}",
        unfinished(started, not_started)
    )]
    Timeout {
        /// The first core with a pending engine.
        tpb: TpbIndex,
        /// The limit.
        limit: Duration,
        /// Engines that have started and not ended. One that hangs keeps those from ending that wait for it, so which of
        /// them it is cannot be said.
        started: Vec<Engine>,
        /// Engines that have not even started: all of them in an execution that the device has never heard of.
        not_started: Vec<Engine>,
    },
    /// Notification records were lost.
    #[error("core {tpb} lost notification records: a queue overflowed")]
    Overflow {
        /// The core.
        tpb: TpbIndex,
    },
    /// START or END came where it does not belong.
    #[error("core {tpb} {engine}: {subtype:?} out of order")]
    OutOfOrder {
        /// The core.
        tpb: TpbIndex,
        /// The engine.
        engine: Engine,
        /// What came.
        subtype: Subtype,
    },
    /// A record that means nothing on a status ring.
    #[error(
        "core {tpb} {engine}: unexpected record {subtype:?}, sub-id {sub_id}, debug hint {hint}, tag {tag}"
    )]
    Unexpected {
        /// The core.
        tpb: TpbIndex,
        /// The engine.
        engine: Engine,
        /// Its subtype.
        subtype: Subtype,
        /// Its custom sub-id.
        sub_id: u16,
        /// Its debug hint.
        hint: u8,
        /// Its queue tag.
        tag: u8,
    },
    /// A custom record that means nothing.
    #[error("core {tpb} {engine}: custom record with unknown sub-id {sub_id}")]
    UnknownCustom {
        /// The core.
        tpb: TpbIndex,
        /// The engine.
        engine: Engine,
        /// Its sub-id.
        sub_id: u16,
    },
    /// The hardware reported an error that ends the unit.
    #[error("core {tpb} reported {status}")]
    Hardware {
        /// The core.
        tpb: TpbIndex,
        /// What the error means.
        status: Status,
    },
    /// A notification queue said what cannot be.
    #[error(transparent)]
    Protocol(NqError),
    /// The device did not answer a call.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// An earlier execution has ended the unit.
    #[error("an earlier execution has ended the unit")]
    UnitEnded,
}

/// Which engines have not ended, those apart that have not begun.
fn unfinished(started: &[Engine], not_started: &[Engine]) -> String {
    let names = |engines: &[Engine]| {
        let names: Vec<_> = engines.iter().map(|engine| engine.name()).collect();
        names.join(", ")
    };
    match (started, not_started) {
        ([], []) => "no engine is pending".to_owned(),
        ([], waiting) => format!("not started: {}", names(waiting)),
        ([one], []) => format!("started and not ended: {one}"),
        (some, []) => format!(
            "started and not ended, because one hangs or waits for another: {}",
            names(some)
        ),
        (some, waiting) => format!(
            "started and not ended: {}; not started: {}",
            names(some),
            names(waiting)
        ),
    }
}

impl From<NqError> for Fault {
    fn from(error: NqError) -> Self {
        match error {
            NqError::Device(error) => Self::Device(error),
            error => Self::Protocol(error),
        }
    }
}

impl Fault {
    /// The status of an execution that ended with this: never success.
    #[must_use]
    pub fn status(&self) -> Status {
        match self {
            Self::Timeout { .. } => Status::TIMEOUT,
            Self::Overflow { .. } => Status::EXEC_SW_NQ_OVERFLOW,
            Self::OutOfOrder { .. } | Self::Unexpected { .. } => Status::FAILURE,
            Self::UnknownCustom { .. } => Status::HW_ERROR,
            Self::Hardware { status, .. } => *status,
            Self::Protocol(error) => error.status(),
            Self::Device(error) => error.status_in_flight(),
            Self::UnitEnded => Status::EXEC_UNIT_UNRECOVERABLE,
        }
    }

    /// What a mismatch is called, once the overflow bit is known.
    pub(super) fn of_mismatch(
        tpb: TpbIndex,
        engine: Engine,
        mismatch: Mismatch,
        overflow: bool,
    ) -> Self {
        match mismatch {
            Mismatch::OutOfOrder(_) if overflow => Self::Overflow { tpb },
            Mismatch::OutOfOrder(subtype) => Self::OutOfOrder {
                tpb,
                engine,
                subtype,
            },
            Mismatch::UnknownCustom { sub_id } => Self::UnknownCustom {
                tpb,
                engine,
                sub_id,
            },
            Mismatch::Unexpected {
                subtype,
                sub_id,
                hint,
                tag,
            } => Self::Unexpected {
                tpb,
                engine,
                subtype,
                sub_id,
                hint,
                tag,
            },
        }
    }
}

/// What has been found about an execution so far. The default is success.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    status: Status,
    fault: Option<Fault>,
}

impl Verdict {
    /// Takes a status that a core reported, in the order of finding.
    pub fn note(&mut self, tpb: TpbIndex, status: Status) {
        self.status = self.status.resolve(status);
        if ends_the_unit(status) {
            self.end(Fault::Hardware { tpb, status });
        }
    }

    /// Takes something that ends the unit, in the order of finding.
    pub fn end(&mut self, fault: Fault) {
        let stronger = |first: &Fault| fault.status().priority() > first.status().priority();
        if self.fault.as_ref().is_none_or(stronger) {
            self.fault = Some(fault);
        }
    }

    /// Whether nothing but success was found.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.status.is_success() && self.fault.is_none()
    }

    /// The status of the execution.
    #[must_use]
    pub fn status(&self) -> Status {
        self.fault.as_ref().map_or(self.status, Fault::status)
    }

    /// What ends the unit, if anything does.
    #[must_use]
    pub fn into_fault(self) -> Option<Fault> {
        self.fault
    }
}

/// Spec `xu.md` section 6, ruling: completed-with-error results leave the unit usable.
#[must_use]
pub fn ends_the_unit(status: Status) -> bool {
    !matches!(
        status,
        Status::SUCCESS
            | Status::EXEC_COMPLETED_WITH_NUM_ERR
            | Status::EXEC_COMPLETED_WITH_ERR
            | Status::EXEC_OOB
    )
}

/// What a record of the error ring amounts to.
#[must_use]
pub fn error_status(kind: ErrorKind) -> Status {
    match kind {
        ErrorKind::Transient | ErrorKind::SoftwareSequencer => Status::EXEC_COMPLETED_WITH_ERR,
        ErrorKind::Numerical => Status::EXEC_COMPLETED_WITH_NUM_ERR,
        ErrorKind::EccUncorrectable => Status::EXEC_HW_ERR_NC_UE,
        ErrorKind::EccCorrectable => Status::SUCCESS,
        // An error that we cannot name is an error of the hardware all the same.
        ErrorKind::Unknown(_) => Status::HW_ERROR,
    }
}

/// What counters of memory errors amount to that stood at `before` and stand at `now`: the worst that has risen.
///
/// A counter that has fallen was reset, which is no error.
#[must_use]
pub fn memory_status(before: MemoryErrors, now: MemoryErrors) -> Status {
    if now.hbm > before.hbm {
        Status::EXEC_HW_ERR_HBM_UE
    } else if now.sram > before.sram {
        Status::EXEC_HW_ERR_NC_UE
    } else if now.hbm_repairable > before.hbm_repairable {
        Status::EXEC_HW_ERR_REPAIRABLE_HBM_UE
    } else {
        Status::SUCCESS
    }
}
