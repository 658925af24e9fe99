//! The writer of a core's notification queues.
//!
//! Called by the core's sequencer for every record, and by clients to open a queue and to return space.
//! Rules: spec `driver_emulation.md` section 5. One slot stays free, so that head = tail means empty.
//! A record that finds no space is dropped: the overflow cause latches, and the next record that fits
//! carries the overflow bit. A queue that is not open drops its records without a trace.
//!
//! ```text
//!   head: how far the client has read            tail: where the next record goes
//!      v                                            v
//!   |  | record | record | record | record | record |  free ...            phase flips at each wrap
//! ```

use super::heap::Holder;
use super::memory::Memory;
use crate::device::{DeviceError, Place};
use crate::map;
use xu_abi::DeviceAddr;
use xu_abi::record::{RECORD_SIZE, ring_bits};

/// Smallest ring, bytes.
const MIN_BYTES: u64 = 64;
/// Byte of a record that holds the ring's bits, the last one of word 0.
const RING_BYTE: usize = 3;
/// Bytes of word 0, which is written last.
const FIRST_WORD: usize = 4;

/// All queues of one core. Fresh ones are not open.
#[derive(Debug, Default)]
pub(super) struct NotificationQueues {
    rings: [Option<Ring>; map::NOTIFICATION_QUEUES as usize],
    last_stamp: u64,
}

#[derive(Debug)]
struct Ring {
    base: DeviceAddr,
    bytes: u64,
    /// Byte offset up to which the client has read.
    head: u64,
    /// Byte offset of the next record.
    tail: u64,
    phase: bool,
    /// A record was dropped since the last one that fitted.
    dropped: bool,
    /// A record was dropped since the ring was opened.
    overflowed: bool,
}

impl NotificationQueues {
    /// Opens queue `nq` on a fresh zeroed ring of `bytes`, and frees the ring that it had.
    pub(super) fn open(
        &mut self,
        memory: &Memory,
        nq: u8,
        bytes: u64,
    ) -> Result<DeviceAddr, DeviceError> {
        let Some(slot) = self.rings.get_mut(usize::from(nq)) else {
            return Err(no_such_queue(nq));
        };
        if !bytes.is_power_of_two() || bytes < MIN_BYTES {
            return Err(DeviceError::BadArgument {
                what: "bytes of a notification queue",
                value: bytes,
                allowed: "a power of two from 64",
            });
        }
        let base = memory.allocate(Place::Host, bytes, MIN_BYTES, Holder::Machine)?;
        let old = slot.replace(Ring {
            base,
            bytes,
            head: 0,
            tail: 0,
            phase: map::FIRST_PHASE,
            dropped: false,
            overflowed: false,
        });
        match old {
            Some(old) => memory.release(old.base, Holder::Machine).map(|()| base),
            None => Ok(base),
        }
    }

    /// Takes note that the client has read up to byte offset `head`.
    pub(super) fn acknowledge(&mut self, nq: u8, head: u64) -> Result<(), DeviceError> {
        let ring = match self.rings.get_mut(usize::from(nq)) {
            Some(Some(ring)) => ring,
            _ => return Err(no_such_queue(nq)),
        };
        let is_boundary = head.is_multiple_of(RECORD_SIZE) && head < ring.bytes;
        if !is_boundary || ring.distance_from_head(head) > ring.distance_from_head(ring.tail) {
            return Err(DeviceError::BadArgument {
                what: "head of a notification queue",
                value: head,
                allowed: "a multiple of 16 inside the ring, not beyond the tail",
            });
        }
        ring.head = head;
        Ok(())
    }

    /// Byte offset of the next record of queue `nq`.
    pub(super) fn tail(&self, nq: u8) -> Result<u64, DeviceError> {
        match self.rings.get(usize::from(nq)) {
            Some(Some(ring)) => Ok(ring.tail),
            _ => Err(no_such_queue(nq)),
        }
    }

    /// Whether a ring of this core has dropped a record since it was opened.
    pub(super) fn overflow_latched(&self) -> bool {
        self.rings.iter().flatten().any(|ring| ring.overflowed)
    }

    /// A time stamp later than every earlier one of this core, `now` if possible.
    pub(super) fn stamp(&mut self, now: u64) -> u64 {
        self.last_stamp = now.max(self.last_stamp.saturating_add(1));
        self.last_stamp
    }

    /// Drops a record of queue `nq` as if there were no room for it. The overflow cause latches if `latched`.
    pub(super) fn find_no_room(&mut self, nq: u8, latched: bool) {
        if let Some(Some(ring)) = self.rings.get_mut(usize::from(nq)) {
            ring.dropped = true;
            ring.overflowed |= latched;
        }
    }

    /// Writes a record, with the ring's bits in the place of its own.
    pub(super) fn post(&mut self, memory: &Memory, nq: u8, mut record: [u8; 16]) {
        let Some(Some(ring)) = self.rings.get_mut(usize::from(nq)) else {
            return;
        };
        if ring.free() < RECORD_SIZE {
            ring.dropped = true;
            ring.overflowed = true;
            return;
        }
        record[RING_BYTE] &= ring_bits::TAG;
        if ring.phase {
            record[RING_BYTE] |= ring_bits::PHASE;
        }
        if core::mem::take(&mut ring.dropped) {
            record[RING_BYTE] |= ring_bits::RING_OVERFLOW;
        }
        // The word with the phase bit last: it makes the record valid. The ring's memory is the machine's own
        // for as long as the ring is open, so neither write can fail.
        let at = |offset: u64| DeviceAddr::new(ring.base.get() + ring.tail + offset);
        let (first_word, rest) = record.split_at(FIRST_WORD);
        let written = memory
            .write(at(FIRST_WORD as u64), rest)
            .and_then(|()| memory.write(at(0), first_word));
        debug_assert_eq!(written, Ok(()));
        ring.tail += RECORD_SIZE;
        if ring.tail == ring.bytes {
            ring.tail = 0;
            ring.phase = !ring.phase;
        }
    }
}

impl Ring {
    /// Distance of an offset from the head, in the direction of writing.
    fn distance_from_head(&self, offset: u64) -> u64 {
        // The size is a power of two, so wrapping in 64 bits is wrapping in the ring.
        offset.wrapping_sub(self.head) & (self.bytes - 1)
    }

    fn free(&self) -> u64 {
        self.bytes - self.distance_from_head(self.tail) - RECORD_SIZE
    }
}

fn no_such_queue(nq: u8) -> DeviceError {
    DeviceError::BadArgument {
        what: "notification queue",
        value: u64::from(nq),
        allowed: "an open queue, 0 to 9",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bench {
        memory: Memory,
        queues: NotificationQueues,
        base: DeviceAddr,
    }

    impl Bench {
        fn new(bytes: u64) -> Self {
            let memory = Memory::new(1, 1 << 20, 1 << 20).unwrap();
            let mut queues = NotificationQueues::default();
            let base = queues.open(&memory, 4, bytes).unwrap();
            Self {
                memory,
                queues,
                base,
            }
        }

        fn post(&mut self, mark: u8) {
            let mut record = [0; 16];
            record[0] = mark;
            self.queues.post(&self.memory, 4, record);
        }

        fn record(&self, index: u64) -> [u8; 16] {
            let mut record = [0; 16];
            let at = DeviceAddr::new(self.base.get() + index * RECORD_SIZE);
            self.memory.read(at, &mut record).unwrap();
            record
        }
    }

    #[test]
    fn phase_flips_at_each_wrap_for_five_laps() {
        let mut bench = Bench::new(64);
        for written in 0u64..20 {
            // CAST: below 20.
            bench.post(written as u8);
            let record = bench.record(written % 4);
            assert_eq!(u64::from(record[0]), written);
            assert_eq!(
                record[3] & ring_bits::PHASE != 0,
                (written / 4) % 2 == 0,
                "{written}"
            );
            bench
                .queues
                .acknowledge(4, (written + 1) % 4 * RECORD_SIZE)
                .unwrap();
        }
        assert!(!bench.queues.overflow_latched());
    }

    #[test]
    fn one_slot_stays_free_and_the_next_record_that_fits_says_so() {
        let mut bench = Bench::new(64);
        for mark in 1..=5 {
            bench.post(mark);
        }
        assert!(bench.queues.overflow_latched());
        assert_eq!(
            [0, 1, 2, 3].map(|index| bench.record(index)[0]),
            [1, 2, 3, 0]
        );
        bench.queues.acknowledge(4, 2 * RECORD_SIZE).unwrap();
        bench.post(6);
        bench.post(7);
        assert_eq!((bench.record(3)[0], bench.record(3)[3]), (6, 0xA0));
        assert_eq!((bench.record(0)[0], bench.record(0)[3]), (7, 0));
        bench.base = bench.queues.open(&bench.memory, 4, 64).unwrap();
        assert!(!bench.queues.overflow_latched());
        assert_eq!(bench.record(0), [0; 16]);
    }

    #[test]
    fn acknowledging_what_was_not_written_is_refused() {
        let mut bench = Bench::new(64);
        bench.post(1);
        bench.post(2);
        for head in [8, 48, 64, u64::MAX] {
            assert!(bench.queues.acknowledge(4, head).is_err(), "{head}");
        }
        assert!(bench.queues.acknowledge(4, 16).is_ok());
        // Backwards is a whole lap forwards, beyond the tail.
        assert!(bench.queues.acknowledge(4, 0).is_err());
        assert!(bench.queues.acknowledge(5, 0).is_err());
        assert!(bench.queues.acknowledge(10, 0).is_err());
    }

    #[test]
    fn stamps_of_a_core_never_repeat() {
        let mut queues = NotificationQueues::default();
        assert_eq!([5, 5, 4, 9].map(|now| queues.stamp(now)), [5, 6, 7, 9]);
    }
}
