//! What a core posts: the records of its engines and of its error queue.
//!
//! Called by the execution and the sequencer.
//! A record is stamped and written under one lock, so that the order of stamps is the order of records.

use super::fault_plan::Mark;
use super::hardware::Hardware;
use super::mishaps::Mishaps;
use super::tpb::Tpb;
use xu_abi::device::ERROR_NQ;
use xu_abi::record::{ErrorKind, Subtype};
use xu_abi::{Engine, ErrorRecord, StatusRecord};
use zerocopy::little_endian::U16;
use zerocopy::transmute;

/// A core at work, with the machine around it.
#[derive(Clone, Copy)]
pub(super) struct Core<'m> {
    /// The machine.
    pub(super) hardware: &'m Hardware,
    /// The core.
    pub(super) tpb: &'m Tpb,
}

impl Core<'_> {
    /// Posts START or END of an engine, or what faults make of it.
    pub(super) fn post_mark(self, engine: Engine, mark: Mark, mishaps: &Mishaps) {
        let nq = engine.status_nq();
        let subtype = match mark {
            Mark::Start => Subtype::Start,
            Mark::End => Subtype::End,
        };
        self.post_status(engine, mishaps, |stamp| {
            mishaps.alter(engine, mark, StatusRecord::new(subtype, nq, stamp))
        });
    }

    /// Posts a custom record of an engine that is at instruction `line`.
    pub(super) fn post_custom(self, engine: Engine, line: u32, sub_id: u16, mishaps: &Mishaps) {
        self.post_status(engine, mishaps, |stamp| {
            // CAST: a line has 20 bits, cut into 16 and 4.
            let record = StatusRecord {
                isa_line_lo: U16::new(line as u16),
                hint_and_line_hi: (line >> 16) as u8 & StatusRecord::LINE_HI_MASK,
                custom_sub_id: U16::new(sub_id),
                ..StatusRecord::new(Subtype::Custom, engine.status_nq(), stamp)
            };
            (transmute!(record), 1)
        });
    }

    /// Posts on the error queue. Bit *n* of `mask` is engine *n*; 0 is the core itself.
    pub(super) fn post_error(self, kind: ErrorKind, mask: u16) {
        let mut queues = self.tpb.notifications.lock();
        let stamp = queues.stamp(self.hardware.ticks());
        let record = transmute!(ErrorRecord::new(kind, mask, stamp));
        queues.post(&self.hardware.bus.memory, ERROR_NQ, record);
        self.tpb.note_waiting(&queues);
    }

    /// Posts a record on an engine's queue as often as `record` says, unless the queue is said to be full.
    fn post_status(
        self,
        engine: Engine,
        mishaps: &Mishaps,
        record: impl FnOnce(u64) -> ([u8; 16], u32),
    ) {
        let nq = engine.status_nq();
        let mut queues = self.tpb.notifications.lock();
        let stamp = queues.stamp(self.hardware.ticks());
        let (bytes, copies) = record(stamp);
        for _ in 0..copies {
            match mishaps.overflow(engine) {
                Some(latched) => queues.find_no_room(nq, latched),
                None => queues.post(&self.hardware.bus.memory, nq, bytes),
            }
        }
        self.tpb.note_waiting(&queues);
    }
}
