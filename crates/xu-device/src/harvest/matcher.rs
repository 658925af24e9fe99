//! What one record means for the engine that posted it: the matcher table of spec `xu.md` section 6.
//!
//! Called by the sweep of a core for every record of a status ring. Pure: no device, no time, no memory.
//!
//! ```text
//!   state  x  record  x  generation   ->   next state and effect  |  mismatch
//!
//!   START_PENDING -- START --> END_PENDING -- END --> COMPLETE
//!      any other START or END is out of order; everything else leaves the state alone
//! ```

use crate::map;
use xu_abi::record::{Custom, Subtype, ring_bits};
use xu_abi::{Engine, StatusRecord};

/// From this generation on, custom records of one engine carry another tag: arch > 2.
const RETAGGING_ARCH: u8 = 3;

/// How far an engine is with the execution at hand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineState {
    /// It has not said that it began.
    StartPending,
    /// It has begun and not said that it ended.
    EndPending,
    /// It has ended, or there is no execution.
    #[default]
    Complete,
}

/// What a record that is in order says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The engine began.
    Started,
    /// The engine ended.
    Ended,
    /// Collectives began.
    CollectivesStarted,
    /// Collectives ended.
    CollectivesEnded,
    /// An access was out of bounds.
    OutOfBounds {
        /// The instruction, 20 bits.
        line: u32,
    },
    /// A debug value, 20 bits.
    DebugValue {
        /// The value.
        value: u32,
    },
    /// A tensor is complete.
    TensorDone {
        /// Which, 20 bits.
        id: u32,
    },
    /// A debug read of a tensor.
    TensorRead {
        /// Which, 20 bits.
        id: u32,
    },
}

/// Why a record ends the unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// START or END in a state where it does not belong: records were lost, or the device is confused. The overflow
    /// bit of the core's error-trigger cause tells which.
    OutOfOrder(Subtype),
    /// A custom record that means nothing.
    UnknownCustom {
        /// Its sub-id.
        sub_id: u16,
    },
    /// A record that does not belong on a status ring, or whose debug hint is not 0 or 1.
    Unexpected {
        /// Its subtype.
        subtype: Subtype,
        /// Its custom sub-id.
        sub_id: u16,
        /// Its debug hint.
        hint: u8,
        /// Its queue tag, after [`retagged`].
        tag: u8,
    },
}

/// What `record` of `engine` means in `state` on a device of generation `arch`.
///
/// # Errors
/// [`Mismatch`]: the record is not one that may come now.
pub fn match_record(
    state: EngineState,
    engine: Engine,
    arch: u8,
    record: StatusRecord,
) -> Result<(EngineState, Effect), Mismatch> {
    let record = retagged(record, engine, arch);
    if record.debug_hint() > StatusRecord::MAX_DEBUG_HINT {
        return Err(unexpected(&record));
    }
    match (record.subtype(), state) {
        (Subtype::Start, EngineState::StartPending) => {
            Ok((EngineState::EndPending, Effect::Started))
        }
        (Subtype::End, EngineState::EndPending) => Ok((EngineState::Complete, Effect::Ended)),
        (subtype @ (Subtype::Start | Subtype::End), _) => Err(Mismatch::OutOfOrder(subtype)),
        (Subtype::CcStart, _) => Ok((state, Effect::CollectivesStarted)),
        (Subtype::CcEnd, _) => Ok((state, Effect::CollectivesEnded)),
        (Subtype::Custom, _) => custom(&record).map(|effect| (state, effect)),
        (Subtype::Unexpected(_), _) => Err(unexpected(&record)),
    }
}

/// The record as it is decoded: on later generations the custom records of one engine carry another tag.
#[must_use]
pub fn retagged(record: StatusRecord, engine: Engine, arch: u8) -> StatusRecord {
    if arch < RETAGGING_ARCH
        || engine != map::RETAGGED_ENGINE
        || record.subtype() != Subtype::Custom
    {
        return record;
    }
    StatusRecord {
        ring_and_tag: record.ring_and_tag & !ring_bits::TAG | map::RETAGGED_NQ_ID,
        ..record
    }
}

/// Only out-of-bounds records are said to carry a line; the others carry their number in the same field.
fn custom(record: &StatusRecord) -> Result<Effect, Mismatch> {
    let payload = record.isa_line();
    match record.custom() {
        Custom::OutOfBounds(_) => Ok(Effect::OutOfBounds { line: payload }),
        Custom::DebugValue => Ok(Effect::DebugValue { value: payload }),
        Custom::TensorDone => Ok(Effect::TensorDone { id: payload }),
        Custom::TensorRead => Ok(Effect::TensorRead { id: payload }),
        Custom::Unknown(sub_id) => Err(Mismatch::UnknownCustom { sub_id }),
    }
}

fn unexpected(record: &StatusRecord) -> Mismatch {
    Mismatch::Unexpected {
        subtype: record.subtype(),
        sub_id: record.custom_sub_id.get(),
        hint: record.debug_hint(),
        tag: record.nq_id_tag(),
    }
}
