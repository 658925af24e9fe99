//! One ring of records: where the next one goes, what is free, which phase it gets.
//!
//! Owned by the notification queues of a core. One slot stays free, so that head = tail means empty.
//!
//! ```text
//!   head: how far the client has read            tail: where the next record goes
//!      v                                            v
//!   |  | record | record | record | record | record |  free ...            phase flips at each wrap
//! ```

use super::memory::Memory;
use crate::map;
use std::collections::VecDeque;
use xu_abi::DeviceAddr;
use xu_abi::record::{RECORD_SIZE, ring_bits};

/// Byte of a record that holds the ring's bits, the last one of word 0.
const RING_BYTE: usize = 3;
/// Bytes of word 0, which is written last.
const FIRST_WORD: usize = 4;

/// A ring. A fresh one is halted.
#[derive(Debug)]
pub(super) struct RecordRing {
    base: DeviceAddr,
    /// 0: halted.
    bytes: u64,
    /// Byte offset up to which the client has read.
    head: u64,
    /// Byte offset of the next record.
    tail: u64,
    phase: bool,
    /// A record was dropped since the last one that fitted.
    dropped: bool,
    /// A record was dropped since the ring was programmed.
    overflowed: bool,
    /// Records that wait for room, of a queue that stalls.
    waiting: VecDeque<[u8; 16]>,
}

impl Default for RecordRing {
    fn default() -> Self {
        Self::new(DeviceAddr::new(0), 0)
    }
}

impl RecordRing {
    /// An empty ring of `bytes`, a multiple of the size of a record; what is over counts for nothing.
    pub(super) fn new(base: DeviceAddr, bytes: u64) -> Self {
        Self {
            base,
            bytes: bytes - bytes % RECORD_SIZE,
            head: 0,
            tail: 0,
            phase: map::FIRST_PHASE,
            dropped: false,
            overflowed: false,
            waiting: VecDeque::new(),
        }
    }

    pub(super) fn is_halted(&self) -> bool {
        self.bytes == 0
    }

    pub(super) fn head(&self) -> u64 {
        self.head
    }

    pub(super) fn tail(&self) -> u64 {
        self.tail
    }

    /// Whether a record was dropped since the ring was programmed.
    pub(super) fn overflowed(&self) -> bool {
        self.overflowed
    }

    /// Moves the head; `false`, and nothing happens, when it is no record boundary inside the ring, or beyond the tail.
    /// With `overwrites` nobody knows how far the client may have come.
    pub(super) fn move_head(&mut self, head: u64, overwrites: bool) -> bool {
        let is_boundary = head.is_multiple_of(RECORD_SIZE) && head < self.bytes;
        if !is_boundary {
            return false;
        }
        let beyond = self.distance_from_head(head) > self.distance_from_head(self.tail);
        if beyond && !overwrites {
            return false;
        }
        self.head = head;
        true
    }

    /// Whether a record can be written.
    pub(super) fn has_room(&self) -> bool {
        // One slot stays free.
        self.bytes > self.distance_from_head(self.tail) + RECORD_SIZE
    }

    /// Takes note of a record that is not written. The cause latches if `latched`.
    pub(super) fn drop_record(&mut self, latched: bool) {
        self.dropped = true;
        self.overflowed |= latched;
    }

    /// Has a record wait for room.
    pub(super) fn delay(&mut self, record: [u8; 16]) {
        self.waiting.push_back(record);
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The first of the records that wait.
    pub(super) fn next_waiting(&mut self) -> Option<[u8; 16]> {
        self.waiting.pop_front()
    }

    /// All records that wait: none does then.
    pub(super) fn take_waiting(&mut self) -> VecDeque<[u8; 16]> {
        core::mem::take(&mut self.waiting)
    }

    /// Loses the oldest record.
    pub(super) fn lose_oldest(&mut self) {
        self.head = self.after(self.head);
    }

    /// Writes a record, with the ring's bits in the place of its own. There is room.
    pub(super) fn write(&mut self, memory: &Memory, mut record: [u8; 16]) {
        record[RING_BYTE] &= ring_bits::TAG;
        if self.phase {
            record[RING_BYTE] |= ring_bits::PHASE;
        }
        if core::mem::take(&mut self.dropped) {
            record[RING_BYTE] |= ring_bits::RING_OVERFLOW;
        }
        let [w0, w1, w2, w3, rest @ ..] = record;
        // A record that lies nowhere, in a ring that somebody has programmed badly, is lost.
        if let Some(at) = self.base.checked_add(self.tail)
            && let Some(behind) = at.checked_add(FIRST_WORD as u64)
            && memory.write(behind, &rest).is_ok()
        {
            // The word with the phase bit last: it makes the record valid.
            let first_word = u32::from_le_bytes([w0, w1, w2, w3]);
            let stored = memory.store_release(at, first_word);
            debug_assert!(stored.is_ok(), "the rest of the record was stored");
        }
        self.tail = self.after(self.tail);
        if self.tail == 0 {
            self.phase = !self.phase;
        }
    }

    fn after(&self, offset: u64) -> u64 {
        let next = offset + RECORD_SIZE;
        if next >= self.bytes { 0 } else { next }
    }

    /// Distance of an offset inside the ring from the head, in the direction of writing.
    fn distance_from_head(&self, offset: u64) -> u64 {
        match offset.checked_sub(self.head) {
            Some(ahead) => ahead,
            None => self.bytes - self.head + offset,
        }
    }
}
