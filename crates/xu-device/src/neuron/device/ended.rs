//! A notification queue that is open, and how often its engine has said END.
//!
//! Kept by [`super::notifications`], asked by [`super::rest`]. What the reader does with the records is its own affair: this
//! counts them when their space is returned, and those that are there now when it is asked.
//!
//! ```text
//!   ring     | . . . . r r r r r r r . . . |       r: written, space not returned
//!                     ^head         ^tail
//!   counted  ---------|- - - - - - -|              always; when asked
//! ```

use crate::device::DeviceError;
use crate::map;
use crate::neuron::NqRing;
use core::sync::atomic::Ordering;
use std::sync::Arc;
use xu_abi::record::{RECORD_SIZE, StatusRecord, Subtype, ring_bits};
use zerocopy::FromBytes;

/// It.
#[derive(Debug)]
pub(super) struct OpenQueue {
    ring: Arc<NqRing>,
    /// Records whose space was returned, ever.
    returned: u64,
    /// How many of them were END.
    ended: u64,
    /// Doorbells of the core before it was opened.
    rung: u64,
}

impl OpenQueue {
    pub(super) fn new(ring: Arc<NqRing>, rung: u64) -> Self {
        Self {
            ring,
            returned: 0,
            ended: 0,
            rung,
        }
    }

    pub(super) fn ring(&self) -> &NqRing {
        &self.ring
    }

    /// Doorbells since it was opened, of `rung` in all.
    pub(super) fn rung_since(&self, rung: u64) -> u64 {
        rung.saturating_sub(self.rung)
    }

    /// A byte offset, if a head can be there.
    ///
    /// # Errors
    /// [`DeviceError::BadArgument`].
    pub(super) fn checked_head(&self, offset: u64) -> Result<u32, DeviceError> {
        match u32::try_from(offset) {
            Ok(head) if head < self.ring.spec().bytes && offset.is_multiple_of(RECORD_SIZE) => {
                Ok(head)
            }
            _ => Err(DeviceError::BadArgument {
                what: "head of a notification queue",
                value: offset,
                allowed: "a record boundary inside the ring",
            }),
        }
    }

    /// The space before byte `head` is being returned.
    pub(super) fn advance(&mut self, head: u32) {
        let records = self.ahead(head);
        self.ended += self.count(records);
        self.returned += records;
    }

    /// How many END there are before byte `tail`.
    ///
    /// Where the tail is at the head, the ring is empty or, with a device that keeps no place free, full to the last record:
    /// then the first one has the phase of this lap.
    pub(super) fn ended_before(&self, tail: u32) -> u64 {
        let records = match self.ahead(tail) {
            0 if self.has_arrived(self.returned) => self.records(),
            records => records,
        };
        self.ended + self.count(records)
    }

    /// Records from the head to a byte offset. One that is not in the ring is taken for one that is.
    fn ahead(&self, offset: u32) -> u64 {
        let all = self.records();
        let index = u64::from(offset) / RECORD_SIZE % all;
        (index + all - self.returned % all) % all
    }

    fn records(&self) -> u64 {
        u64::from(self.ring.spec().bytes) / RECORD_SIZE
    }

    /// How many of the records from the head on are END, and have arrived.
    fn count(&self, records: u64) -> u64 {
        let ended = (self.returned..self.returned + records).filter(|number| self.is_end(*number));
        // CAST: a count of records of one ring.
        ended.count() as u64
    }

    fn is_end(&self, number: u64) -> bool {
        self.arrived(number)
            .is_some_and(|record| record.subtype() == Subtype::End)
    }

    fn has_arrived(&self, number: u64) -> bool {
        self.arrived(number).is_some()
    }

    /// A record, counted from the opening, if its phase is that of its lap. Its time stamp is left out.
    fn arrived(&self, number: u64) -> Option<StatusRecord> {
        let all = self.records();
        // CAST: below the length of a ring.
        let at = (number % all * RECORD_SIZE) as usize;
        let is_odd_lap = number / all % 2 == 1;
        let words = self.ring.mapping().words(at, 8)?;
        let [first, second] = words.first_chunk()?;
        // PAIRS: with the release store of whoever writes the record, whose first word comes last.
        let first = first.load(Ordering::Acquire).to_le_bytes();
        let second = second.load(Ordering::Relaxed).to_le_bytes();
        let mut record = [0; size_of::<StatusRecord>()];
        record[..4].copy_from_slice(&first);
        record[4..8].copy_from_slice(&second);
        let has_arrived = (first[3] & ring_bits::PHASE != 0) == (map::FIRST_PHASE != is_odd_lap);
        StatusRecord::read_from_bytes(&record)
            .ok()
            .filter(|_| has_arrived)
    }
}
