//! The notification queues of a core: their registers, and what becomes of a record.
//!
//! Called by the core's sequencer for every record, by clients to open a queue and to return space, and through
//! [`Ports`](super::Ports) by whoever programs the registers.
//! Rules: spec `driver_emulation.md` section 5, `driver.md` section 5. What has no room follows the queue's policy:
//!
//! | queue | a record that finds no room |
//! |---|---|
//! | halted, or not enabled | is dropped without a trace, as every record is |
//! | stalls (back pressure) | waits; the core does nothing more until the client has returned space |
//! | overwrites | takes the place of the oldest one |
//! | neither | is dropped: the overflow cause latches, and the next record that fits carries the overflow bit |

use super::heap::Holder;
use super::memory::Memory;
use super::record_ring::RecordRing;
use crate::device::{DeviceError, Place};
use crate::map;
use xu_abi::DeviceAddr;

/// Smallest ring that a client can open, bytes.
const MIN_BYTES: u64 = 64;

/// All queues of one core. Fresh ones are halted, and not enabled.
#[derive(Debug, Default)]
pub(super) struct NotificationQueues {
    rings: [RecordRing; map::NOTIFICATION_QUEUES as usize],
    /// Rings that were allocated here.
    allocated: [Option<DeviceAddr>; map::NOTIFICATION_QUEUES as usize],
    policy: NotificationPolicy,
    /// Whether records may be waiting.
    waits: bool,
    last_stamp: u64,
}

/// The mask registers of a block of notification queues: a bit for each queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotificationPolicy {
    /// The queue takes records.
    pub enabled: u32,
    /// A record that finds no room waits, and the core with it. Goes before `overwrites`.
    pub stalls: u32,
    /// A record that finds no room takes the place of the oldest one.
    pub overwrites: u32,
}

impl NotificationQueues {
    /// Opens queue `nq` on a fresh zeroed ring of `bytes`, enables it, and frees the ring that was opened before.
    pub(super) fn open(
        &mut self,
        memory: &Memory,
        nq: u8,
        bytes: u64,
    ) -> Result<DeviceAddr, DeviceError> {
        let Some(slot) = self.allocated.get_mut(usize::from(nq)) else {
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
        let old = slot.replace(base);
        self.program(nq, base, bytes)?;
        self.policy.enabled |= bit(nq);
        match old {
            Some(old) => memory.release(old, Holder::Machine).map(|()| base),
            None => Ok(base),
        }
    }

    /// Programs base and size of queue `nq`, which is empty then and in its first lap. A size of 0 halts it.
    pub(super) fn program(
        &mut self,
        nq: u8,
        base: DeviceAddr,
        bytes: u64,
    ) -> Result<(), DeviceError> {
        let ring = self.rings.get_mut(usize::from(nq));
        *ring.ok_or(no_such_queue(nq))? = RecordRing::new(base, bytes);
        Ok(())
    }

    /// The mask registers.
    pub(super) fn policy(&self) -> NotificationPolicy {
        self.policy
    }

    /// Changes the mask registers. Records that wait go on as they now say.
    pub(super) fn change_policy(
        &mut self,
        memory: &Memory,
        change: impl FnOnce(&mut NotificationPolicy),
    ) {
        change(&mut self.policy);
        self.settle(memory);
    }

    /// Takes note that the client has read up to byte offset `head`.
    pub(super) fn acknowledge(
        &mut self,
        memory: &Memory,
        nq: u8,
        head: u64,
    ) -> Result<(), DeviceError> {
        let overwrites = self.policy.overwrites & bit(nq) != 0;
        if !self.programmed_mut(nq)?.move_head(head, overwrites) {
            return Err(DeviceError::BadArgument {
                what: "head of a notification queue",
                value: head,
                allowed: "a multiple of 16 inside the ring, not beyond the tail",
            });
        }
        self.settle(memory);
        Ok(())
    }

    /// Byte offset of the next record of queue `nq`.
    pub(super) fn tail(&self, nq: u8) -> Result<u64, DeviceError> {
        self.programmed(nq).map(RecordRing::tail)
    }

    /// Byte offset up to which queue `nq` was read.
    pub(super) fn head(&self, nq: u8) -> Result<u64, DeviceError> {
        self.programmed(nq).map(RecordRing::head)
    }

    /// Bit *n*: queue *n* has dropped a record since it was programmed.
    pub(super) fn overflowed(&self) -> u32 {
        let queues = (0..).zip(&self.rings);
        let overflowed = queues.filter(|(_, ring)| ring.overflowed());
        overflowed.fold(0, |mask, (nq, _)| mask | bit(nq))
    }

    /// A time stamp later than every earlier one of this core, `now` if possible.
    pub(super) fn stamp(&mut self, now: u64) -> u64 {
        self.last_stamp = now.max(self.last_stamp.saturating_add(1));
        self.last_stamp
    }

    /// Drops a record of queue `nq` as if there were no room for it. The overflow cause latches if `latched`.
    pub(super) fn find_no_room(&mut self, nq: u8, latched: bool) {
        if let Some(ring) = self.taking(nq) {
            ring.drop_record(latched);
        }
    }

    /// Writes a record, or does with it what the policy of its queue says.
    pub(super) fn post(&mut self, memory: &Memory, nq: u8, record: [u8; 16]) {
        let NotificationPolicy {
            stalls, overwrites, ..
        } = self.policy;
        let Some(ring) = self.taking(nq) else {
            return;
        };
        if ring.has_room() && !ring.has_waiting() {
            ring.write(memory, record);
        } else if stalls & bit(nq) != 0 {
            ring.delay(record);
            self.waits = true;
        } else if overwrites & bit(nq) != 0 {
            ring.lose_oldest();
            ring.write(memory, record);
        } else {
            ring.drop_record(true);
        }
    }

    /// Whether records wait for room.
    pub(super) fn has_waiting(&self) -> bool {
        self.waits && self.rings.iter().any(RecordRing::has_waiting)
    }

    /// Halts and disables all queues, and forgets what waits. Rings that were allocated here are freed.
    pub(super) fn reset(&mut self, memory: &Memory) {
        self.rings = Default::default();
        self.policy = NotificationPolicy::default();
        for ring in self.allocated.iter_mut().filter_map(Option::take) {
            // Nobody else can have freed it.
            let freed = memory.release(ring, Holder::Machine);
            debug_assert_eq!(freed, Ok(()));
        }
    }

    /// Writes records that wait, as far as there is room or the policy has changed.
    fn settle(&mut self, memory: &Memory) {
        if !self.waits {
            return;
        }
        let NotificationPolicy {
            enabled, stalls, ..
        } = self.policy;
        for nq in 0..map::NOTIFICATION_QUEUES {
            // PANIC: as many rings, here and below.
            if !self.rings[usize::from(nq)].has_waiting() {
                continue;
            }
            if enabled & bit(nq) == 0 {
                self.rings[usize::from(nq)].take_waiting();
            } else if stalls & bit(nq) == 0 {
                for record in self.rings[usize::from(nq)].take_waiting() {
                    self.post(memory, nq, record);
                }
            } else {
                let ring = &mut self.rings[usize::from(nq)];
                while ring.has_room()
                    && let Some(record) = ring.next_waiting()
                {
                    ring.write(memory, record);
                }
            }
        }
        self.waits = self.has_waiting();
    }

    /// The ring of a queue that takes records.
    fn taking(&mut self, nq: u8) -> Option<&mut RecordRing> {
        let enabled = self.policy.enabled & bit(nq) != 0;
        self.programmed_mut(nq).ok().filter(|_| enabled)
    }

    fn programmed(&self, nq: u8) -> Result<&RecordRing, DeviceError> {
        let ring = self.rings.get(usize::from(nq));
        ring.filter(|ring| !ring.is_halted())
            .ok_or(no_such_queue(nq))
    }

    fn programmed_mut(&mut self, nq: u8) -> Result<&mut RecordRing, DeviceError> {
        let ring = self.rings.get_mut(usize::from(nq));
        ring.filter(|ring| !ring.is_halted())
            .ok_or(no_such_queue(nq))
    }
}

/// The bit of a queue in a mask.
fn bit(nq: u8) -> u32 {
    1u32.checked_shl(nq.into()).unwrap_or(0)
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
    use xu_abi::record::{RECORD_SIZE, ring_bits};

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

        fn acknowledge(&mut self, nq: u8, head: u64) -> Result<(), DeviceError> {
            self.queues.acknowledge(&self.memory, nq, head)
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
                .acknowledge(&bench.memory, 4, (written + 1) % 4 * RECORD_SIZE)
                .unwrap();
        }
        assert_eq!(bench.queues.overflowed(), 0);
    }

    #[test]
    fn one_slot_stays_free_and_the_next_record_that_fits_says_so() {
        let mut bench = Bench::new(64);
        for mark in 1..=5 {
            bench.post(mark);
        }
        assert!(bench.queues.overflowed() != 0);
        assert_eq!(
            [0, 1, 2, 3].map(|index| bench.record(index)[0]),
            [1, 2, 3, 0]
        );
        bench.acknowledge(4, 2 * RECORD_SIZE).unwrap();
        bench.post(6);
        bench.post(7);
        assert_eq!((bench.record(3)[0], bench.record(3)[3]), (6, 0xA0));
        assert_eq!((bench.record(0)[0], bench.record(0)[3]), (7, 0));
        bench.base = bench.queues.open(&bench.memory, 4, 64).unwrap();
        assert_eq!(bench.queues.overflowed(), 0);
        assert_eq!(bench.record(0), [0; 16]);
    }

    #[test]
    fn acknowledging_what_was_not_written_is_refused() {
        let mut bench = Bench::new(64);
        bench.post(1);
        bench.post(2);
        for head in [8, 48, 64, u64::MAX] {
            assert!(bench.acknowledge(4, head).is_err(), "{head}");
        }
        assert!(bench.acknowledge(4, 16).is_ok());
        // Backwards is a whole lap forwards, beyond the tail.
        assert!(bench.acknowledge(4, 0).is_err());
        assert!(bench.acknowledge(5, 0).is_err());
        assert!(bench.acknowledge(10, 0).is_err());
    }

    #[test]
    fn stamps_of_a_core_never_repeat() {
        let mut queues = NotificationQueues::default();
        assert_eq!([5, 5, 4, 9].map(|now| queues.stamp(now)), [5, 6, 7, 9]);
    }
}
