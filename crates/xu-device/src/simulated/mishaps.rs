//! The faults that hit one execution, and what they do to its records.
//!
//! Made by the injector when an execution begins, asked by the execution at every turn.
//! Rules for several faults on the same record, in this order: END and START change places, END changes its subtype,
//! END changes its hint, bytes are altered; then it is dropped, or posted once more for each duplicate.
//! A [`Mark`] names the place of a record, whatever is posted there.

use super::fault_plan::{Fault, Mark};
use xu_abi::record::{ErrorKind, Subtype};
use xu_abi::{Engine, StatusRecord};
use zerocopy::little_endian::U16;
use zerocopy::transmute;

/// The faults of one execution; mostly there are none.
#[derive(Debug, Default)]
pub(super) struct Mishaps(Vec<Fault>);

/// How an engine is kept from going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stuck {
    /// It hangs.
    Hangs,
    /// It cannot read its instructions from HBM.
    CannotRead {
        /// Whether a reset repairs the row.
        repairable: bool,
    },
}

impl Mishaps {
    /// Whether nothing goes wrong.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn add(&mut self, fault: &Fault) {
        self.0.push(fault.clone());
    }

    /// The device goes.
    pub(super) fn device_goes(&self) -> bool {
        self.0.contains(&Fault::DeviceLost)
    }

    /// The queue that brings requests aborts.
    pub(super) fn queue_aborts(&self) -> bool {
        self.0.contains(&Fault::DmaAbort)
    }

    /// Ids of the errors that the core reports.
    pub(super) fn errors(&self) -> impl Iterator<Item = ErrorKind> + '_ {
        self.0.iter().filter_map(|fault| match fault {
            Fault::Numerical => Some(ErrorKind::Numerical),
            Fault::Transient => Some(ErrorKind::Transient),
            Fault::Sequencer => Some(ErrorKind::SoftwareSequencer),
            Fault::EccCorrectable => Some(ErrorKind::EccCorrectable),
            Fault::EccUncorrectable => Some(ErrorKind::EccUncorrectable),
            Fault::UnknownError { id } => Some(ErrorKind::from_raw(*id)),
            _ => None,
        })
    }

    /// How many uncorrectable errors in the core's own memory are counted.
    pub(super) fn sram_errors(&self) -> usize {
        let counted = |fault: &&Fault| **fault == Fault::EccUncorrectable;
        self.0.iter().filter(counted).count()
    }

    /// Whether and how an engine stops after its START. Hanging goes before reading.
    pub(super) fn stuck(&self, ours: Engine) -> Option<Stuck> {
        let mut stuck = None;
        for fault in &self.0 {
            match *fault {
                Fault::HangEngine { engine } if engine == ours => return Some(Stuck::Hangs),
                Fault::HbmUncorrectable { engine, repairable } if engine == ours => {
                    stuck = Some(Stuck::CannotRead { repairable });
                }
                _ => {}
            }
        }
        stuck
    }

    /// How much longer an engine works before its first instruction, nanoseconds.
    pub(super) fn slow_ns(&self, ours: Engine) -> u64 {
        self.0.iter().fold(0, |sum, fault| match fault {
            Fault::SlowEngine { engine, by_ns } if *engine == ours => sum.saturating_add(*by_ns),
            _ => sum,
        })
    }

    /// How much later than its end an engine posts END, nanoseconds.
    pub(super) fn late_ns(&self, ours: Engine) -> u64 {
        self.0.iter().fold(0, |sum, fault| match fault {
            Fault::LateEnd { engine, by_ns } if *engine == ours => sum.saturating_add(*by_ns),
            _ => sum,
        })
    }

    /// Sub-id of the `nth` custom record between an engine's START and END.
    pub(super) fn custom(&self, ours: Engine, nth: usize) -> Option<u16> {
        let custom = |fault: &Fault| match fault {
            Fault::Custom { engine, sub_id } if *engine == ours => Some(*sub_id),
            _ => None,
        };
        self.0.iter().filter_map(custom).nth(nth)
    }

    /// Whether an engine's queue finds no room, and if so whether the cause latches: it does if any rule says so.
    pub(super) fn overflow(&self, ours: Engine) -> Option<bool> {
        let latched = |fault: &Fault| match fault {
            Fault::Overflow { engine, latched } if *engine == ours => Some(*latched),
            _ => None,
        };
        self.0.iter().filter_map(latched).reduce(|a, b| a | b)
    }

    /// What is posted in the place of one of an engine's two records: which bytes, and how often.
    pub(super) fn alter(
        &self,
        engine: Engine,
        mark: Mark,
        record: StatusRecord,
    ) -> ([u8; 16], u32) {
        if self.is_empty() {
            return (transmute!(record), 1);
        }
        let mut record = record;
        for fault in &self.0 {
            if *fault == (Fault::ReorderRecords { engine }) {
                let other = match mark {
                    Mark::Start => Subtype::End,
                    Mark::End => Subtype::Start,
                };
                record.subtype = U16::new(other.raw());
            }
        }
        if mark == Mark::End {
            self.alter_end(engine, &mut record);
        }
        let mut bytes: [u8; 16] = transmute!(record);
        let (mut copies, mut dropped) = (1, false);
        for fault in &self.0 {
            match *fault {
                Fault::CorruptRecord {
                    engine: of,
                    record,
                    byte,
                    with,
                } if (of, record) == (engine, mark) => {
                    if let Some(altered) = bytes.get_mut(usize::from(byte)) {
                        *altered ^= with;
                    }
                }
                Fault::DuplicateRecord { engine: of, record } if (of, record) == (engine, mark) => {
                    copies += 1;
                }
                Fault::DropRecord { engine: of, record } if (of, record) == (engine, mark) => {
                    dropped = true;
                }
                _ => {}
            }
        }
        (bytes, if dropped { 0 } else { copies })
    }

    fn alter_end(&self, ours: Engine, record: &mut StatusRecord) {
        for fault in &self.0 {
            match *fault {
                Fault::UnknownSubtype { engine, subtype } if engine == ours => {
                    record.subtype = U16::new(subtype);
                }
                Fault::BadDebugHint { engine, hint } if engine == ours => {
                    let line = record.hint_and_line_hi & StatusRecord::LINE_HI_MASK;
                    record.hint_and_line_hi = hint << 4 | line;
                }
                _ => {}
            }
        }
    }
}
