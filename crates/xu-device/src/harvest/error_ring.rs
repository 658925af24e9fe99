//! The error ring of one core: which of its records belong to an execution, and each kind of error once.
//!
//! Swept by the harvester at the end of every execution, and never before. Spec `xu.md` section 6, finalise.
//!
//! ```text
//!   record  record  record | record          executions of a core do not overlap, so a record
//!   --------- this one's ---+-- held back     later than the last END belongs to the next one
//!                        last END
//! ```
//!
//! A stamp that lies in the future cannot be true: such a record is charged to the execution at hand, so that it hides
//! neither itself nor what comes behind it.

use super::verdict::Fault;
use crate::device::{Device, DeviceError};
use crate::nq::{Mode, NqReader};
use std::sync::Arc;
use xu_abi::device::ERROR_NQ;
use xu_abi::record::ErrorKind;
use xu_abi::{ErrorRecord, TpbIndex};

/// Records of the error ring, which is read at the end of an execution only: five for each of the most
/// executions that a queue takes, with room for those that are not acknowledged yet.
const ENTRIES: u32 = 512;

/// The reader of a core's error ring.
#[derive(Debug)]
pub(super) struct ErrorRing {
    tpb: TpbIndex,
    reader: NqReader,
    /// A record that belongs to a later execution.
    held_back: Option<ErrorRecord>,
}

/// Which error ids a sweep has met: one bit each.
#[derive(Default)]
struct Seen([u64; 4]);

impl Seen {
    /// Whether `kind` is new.
    fn insert(&mut self, kind: ErrorKind) -> bool {
        let id = kind.raw();
        // PANIC: an id has 8 bits, so the index is below 4.
        let word = &mut self.0[usize::from(id >> 6)];
        let bit = 1 << (id & 63);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }
}

impl ErrorRing {
    pub(super) fn open(
        mode: Mode,
        device: &Arc<dyn Device>,
        tpb: TpbIndex,
    ) -> Result<Self, DeviceError> {
        Ok(Self {
            tpb,
            reader: NqReader::open(device, tpb, ERROR_NQ, ENTRIES, mode)?,
            held_back: None,
        })
    }

    /// Calls `found` once for each kind of error of this execution: with `last_end` those up to that stamp, without
    /// it all. `is_future` says whether a stamp cannot have been taken yet. Reads at most a ring of records, so that a device that never stops reporting does not hold the step.
    ///
    /// # Errors
    /// [`Fault`] when the ring cannot be read, or has lost records: a lost error would turn a failure into a success.
    pub(super) fn sweep(
        &mut self,
        last_end: Option<u64>,
        is_future: impl Fn(u64) -> bool,
        mut found: impl FnMut(ErrorKind, u16),
    ) -> Result<(), Fault> {
        let mut seen = Seen::default();
        for _ in 0..ENTRIES {
            let Some(record) = self.next()? else {
                break;
            };
            let stamp = record.device_ts.get();
            if last_end.is_some_and(|end| stamp > end) && !is_future(stamp) {
                self.held_back = Some(record);
                break;
            }
            if seen.insert(record.kind()) {
                found(record.kind(), record.mask.get());
            }
        }
        if self.reader.take_overflow_seen() {
            return Err(Fault::Overflow { tpb: self.tpb });
        }
        Ok(())
    }

    /// For giving back what was read.
    pub(super) fn reader(&mut self) -> &mut NqReader {
        &mut self.reader
    }

    fn next(&mut self) -> Result<Option<ErrorRecord>, Fault> {
        if let Some(record) = self.held_back.take() {
            return Ok(Some(record));
        }
        let bytes = self.reader.next_record()?;
        Ok(bytes.map(|bytes| zerocopy::transmute!(bytes)))
    }
}
