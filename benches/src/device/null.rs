//! A device that costs nothing: flat memory without locks, and records that are there as soon as they are asked for.
//!
//! Under the stager and the harvester while they are measured, so that what is left is their own cost; and under the facade
//! and its peer, where one thread stages and another may harvest.
//! It knows nothing of requests and descriptors; what it is told, it stores.
//! Memory is words, since all that the lane writes is whole words at multiples of four.

use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;
use xu_abi::record::{RECORD_SIZE, Subtype, ring_bits};
use xu_abi::{DeviceAddr, Engine, SemIndex, StatusRecord, TpbIndex};
use xu_device::{Clock, Device, DeviceError, DmaQueue, Head, MemoryErrors, Place, Shape, map};
use zerocopy::transmute;

use super::calls::{Call, Counts};

/// Where memory begins. Everything the lane reserves fits behind it.
const BASE: u64 = 1 << 32;
/// Enough for stager and harvester; a whole runtime needs more.
const BYTES: usize = 1 << 19;
const TPBS: usize = 2;
const QUEUES: usize = map::NOTIFICATION_QUEUES as usize;

/// What happens at a doorbell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doorbell {
    /// The execution is over: START and END of every engine are in their rings.
    Answers,
    /// The execution is over, and START and END of an engine are in its ring when that is asked: whoever looks writes them, so
    /// that no line travels that hardware would not have moved either.
    AnswersWhenAsked,
    /// Nothing.
    IsSilent,
}

/// How often a core's doorbell has rung, in lines of its own: one thread rings, another may look.
#[derive(Default)]
#[repr(align(128))]
struct Rung(AtomicU64);

/// Memory is in blocks of so many bytes; a notification ring is of whole ones.
const BLOCK: u64 = 256;

/// The device. `COUNTED`: whether calls are counted, which costs something.
pub(crate) struct NullDevice<const COUNTED: bool> {
    memory: Box<[AtomicU32]>,
    /// Bytes that are reserved. Nothing is ever given back.
    reserved: AtomicU64,
    rings: [[Ring; QUEUES]; TPBS],
    /// Of each block, 1 and the place of the ring that it is of; 0 of none.
    owners: Box<[AtomicU8]>,
    rung: [Rung; TPBS],
    doorbell: Doorbell,
    counts: Counts,
    /// From when its clock counts.
    epoch: Instant,
}

/// The writer's end of a notification ring.
#[derive(Default)]
struct Ring {
    base: AtomicU64,
    records: AtomicU64,
    written: AtomicU64,
}

impl<const COUNTED: bool> NullDevice<COUNTED> {
    pub(crate) fn new(doorbell: Doorbell) -> Self {
        Self::with_memory(doorbell, BYTES)
    }

    /// With memory for so many bytes.
    pub(crate) fn with_memory(doorbell: Doorbell, bytes: usize) -> Self {
        Self {
            memory: (0..bytes / 4).map(|_| AtomicU32::new(0)).collect(),
            reserved: AtomicU64::new(0),
            rings: Default::default(),
            owners: (0..bytes / BLOCK as usize)
                .map(|_| AtomicU8::new(0))
                .collect(),
            rung: Default::default(),
            doorbell,
            counts: Counts::default(),
            epoch: Instant::now(),
        }
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Posts START and END of each engine of a core, as an execution without trouble does.
    pub(crate) fn run_execution(&self, tpb: TpbIndex) {
        for engine in Engine::ALL {
            self.post(tpb, engine.status_nq(), Subtype::Start);
            self.post(tpb, engine.status_nq(), Subtype::End);
        }
    }

    fn post(&self, tpb: TpbIndex, nq: u8, subtype: Subtype) {
        let Some(ring) = self.ring(tpb, nq) else {
            return;
        };
        // Relaxed: one thread posts, the one that rings or the one that looks.
        let written = ring.written.load(Ordering::Relaxed);
        let records = ring.records.load(Ordering::Relaxed).max(1);
        let at = ring.base.load(Ordering::Relaxed) + written % records * RECORD_SIZE;
        let mut record = StatusRecord::new(subtype, nq, written);
        if (written / records).is_multiple_of(2) == map::FIRST_PHASE {
            record.ring_and_tag |= ring_bits::PHASE;
        }
        self.publish(DeviceAddr::new(at), transmute!(record));
        ring.written.store(written + 1, Ordering::Relaxed);
    }

    /// Posts what is due in the ring that this address is of. Only the thread that looks calls it.
    #[inline]
    fn post_what_is_due(&self, at: DeviceAddr) {
        // CAST: a block of the memory that there is; a ring's place fits a byte.
        let block = (at.get().wrapping_sub(BASE) / BLOCK) as usize;
        let owner = self
            .owners
            .get(block)
            .map_or(0, |owner| owner.load(Ordering::Relaxed));
        let Some(place) = usize::from(owner).checked_sub(1) else {
            return;
        };
        let (tpb, nq) = (place / QUEUES, place % QUEUES);
        let status_queues = Engine::ALL.map(|engine| usize::from(engine.status_nq()));
        if !status_queues.contains(&nq) {
            return;
        }
        // PAIRS: with the release in `increment_semaphore`: what was staged is there.
        let due = 2 * self.rung[tpb].0.load(Ordering::Acquire);
        let written = || self.rings[tpb][nq].written.load(Ordering::Relaxed);
        while written() < due {
            self.post(TpbIndex::new(tpb as u16), nq as u8, Subtype::Start);
            self.post(TpbIndex::new(tpb as u16), nq as u8, Subtype::End);
        }
    }

    /// Writes a record as a device does: what makes it valid, its phase, comes last.
    fn publish(&self, at: DeviceAddr, record: [u8; 16]) {
        let [first, rest @ ..] = record.as_chunks::<4>().0 else {
            return;
        };
        let Ok([to, others @ ..]) = self.words(at, record.len()) else {
            return;
        };
        for (word, bytes) in others.iter().zip(rest) {
            word.store(u32::from_le_bytes(*bytes), Ordering::Relaxed);
        }
        // PAIRS: with the acquire load in `load_acquire`, on the thread that harvests.
        to.store(u32::from_le_bytes(*first), Ordering::Release);
    }

    fn ring(&self, tpb: TpbIndex, nq: u8) -> Option<&Ring> {
        self.rings.get(usize::from(tpb.get()))?.get(usize::from(nq))
    }

    fn words(&self, at: DeviceAddr, bytes: usize) -> Result<&[AtomicU32], DeviceError> {
        let words = || {
            let offset = usize::try_from(at.get().checked_sub(BASE)?).ok()?;
            let whole = offset.is_multiple_of(4) && bytes.is_multiple_of(4);
            self.memory
                .get(offset / 4..(offset + bytes) / 4)
                .filter(|_| whole)
        };
        words().ok_or(DeviceError::BadAddress {
            addr: at,
            bytes: bytes as u64,
        })
    }

    #[inline]
    fn store(&self, to: DeviceAddr, bytes: &[u8]) -> Result<(), DeviceError> {
        let words = self.words(to, bytes.len())?;
        for (word, bytes) in words.iter().zip(bytes.as_chunks().0) {
            word.store(u32::from_le_bytes(*bytes), Ordering::Relaxed);
        }
        Ok(())
    }

    fn bytes(&self) -> u64 {
        4 * self.memory.len() as u64
    }

    #[inline]
    fn count(&self, call: Call) {
        if COUNTED {
            self.counts.add(call);
        }
    }
}

impl<const COUNTED: bool> Device for NullDevice<COUNTED> {
    fn shape(&self) -> Shape {
        Shape {
            arch: 2,
            // CAST: two.
            tpbs: TPBS as u16,
            hbm_bytes: self.bytes(),
            addresses: xu_device::map::AddressMap::Simulated,
        }
    }

    fn allocate(&self, place: Place, bytes: u64, align: u64) -> Result<DeviceAddr, DeviceError> {
        self.count(Call::Other);
        let reserved = self.reserved.load(Ordering::Relaxed);
        let at = reserved.next_multiple_of(align);
        let free = self.bytes().saturating_sub(at);
        if bytes > free {
            return Err(DeviceError::OutOfMemory {
                place,
                asked: bytes,
                free,
                largest: free,
            });
        }
        self.reserved.store(at + bytes, Ordering::Relaxed);
        Ok(DeviceAddr::new(BASE + at))
    }

    fn release(&self, _: DeviceAddr) -> Result<(), DeviceError> {
        Ok(())
    }

    fn write(&self, to: DeviceAddr, bytes: &[u8]) -> Result<(), DeviceError> {
        self.count(Call::Write(bytes.len()));
        self.store(to, bytes)
    }

    fn read(&self, from: DeviceAddr, into: &mut [u8]) -> Result<(), DeviceError> {
        self.count(Call::Read);
        let words = self.words(from, into.len())?;
        for (bytes, word) in into.as_chunks_mut().0.iter_mut().zip(words) {
            *bytes = word.load(Ordering::Relaxed).to_le_bytes();
        }
        Ok(())
    }

    fn load_acquire(&self, from: DeviceAddr) -> Result<u32, DeviceError> {
        self.count(Call::Load);
        if self.doorbell == Doorbell::AnswersWhenAsked {
            self.post_what_is_due(from);
        }
        Ok(self.words(from, 4)?[0].load(Ordering::Acquire))
    }

    fn open_dma_queue(
        &self,
        _: DmaQueue,
        _: DeviceAddr,
        _: DeviceAddr,
        _: u32,
    ) -> Result<(), DeviceError> {
        self.count(Call::Other);
        Ok(())
    }

    fn start_dma(&self, _: DmaQueue, _: u32) -> Result<(), DeviceError> {
        self.count(Call::Other);
        Ok(())
    }

    fn check_dma(&self, _: DmaQueue) -> Result<(), DeviceError> {
        self.count(Call::Other);
        Ok(())
    }

    fn increment_semaphore(&self, tpb: TpbIndex, index: SemIndex) -> Result<(), DeviceError> {
        self.count(Call::Increment);
        if index == map::INFERENCE_START {
            match self.doorbell {
                Doorbell::Answers => self.run_execution(tpb),
                Doorbell::AnswersWhenAsked => {
                    if let Some(rung) = self.rung.get(usize::from(tpb.get())) {
                        // PAIRS: with the acquire load in `post_what_is_due`. One thread rings.
                        let before = rung.0.load(Ordering::Relaxed);
                        rung.0.store(before + 1, Ordering::Release);
                    }
                }
                Doorbell::IsSilent => {}
            }
        }
        Ok(())
    }

    /// As if every execution had passed a barrier: no less than any that it waits for.
    fn read_semaphore(&self, tpb: TpbIndex, _: SemIndex) -> Result<i32, DeviceError> {
        self.count(Call::ReadSemaphore);
        let records = |ring: &Ring| ring.written.load(Ordering::Relaxed);
        let written = self.ring(tpb, Engine::Pe.status_nq()).map_or(0, records);
        // CAST: wraps, as the counter does. Two records each.
        Ok((written / 2) as i32)
    }

    fn open_notification_queue(
        &self,
        tpb: TpbIndex,
        nq: u8,
        bytes: u64,
    ) -> Result<DeviceAddr, DeviceError> {
        let base = self.allocate(Place::Host, bytes, bytes)?;
        if let Some(ring) = self.ring(tpb, nq) {
            ring.base.store(base.get(), Ordering::Relaxed);
            ring.records.store(bytes / RECORD_SIZE, Ordering::Relaxed);
        }
        let place = usize::from(tpb.get()) * QUEUES + usize::from(nq);
        // CAST: in the memory that there is; a ring's place fits a byte.
        let first = ((base.get() - BASE) / BLOCK) as usize;
        let blocks = self.owners.iter().skip(first);
        for owner in blocks.take((bytes / BLOCK) as usize) {
            owner.store(place as u8 + 1, Ordering::Relaxed);
        }
        Ok(base)
    }

    fn acknowledge(&self, _: TpbIndex, _: &[Head]) -> Result<(), DeviceError> {
        self.count(Call::Acknowledge);
        Ok(())
    }

    fn notification_tail(&self, tpb: TpbIndex, nq: u8) -> Result<u64, DeviceError> {
        self.count(Call::Other);
        Ok(self.ring(tpb, nq).map_or(0, |ring| {
            let records = ring.records.load(Ordering::Relaxed).max(1);
            ring.written.load(Ordering::Relaxed) % records * RECORD_SIZE
        }))
    }

    fn overflow_latched(&self, _: TpbIndex) -> Result<bool, DeviceError> {
        self.count(Call::Other);
        Ok(false)
    }

    fn memory_errors(&self, _: TpbIndex) -> Result<MemoryErrors, DeviceError> {
        self.count(Call::Other);
        Ok(MemoryErrors::default())
    }

    /// Costs what the host's clock costs.
    fn now_ns(&self) -> u64 {
        // CAST: 584 years fit.
        self.epoch.elapsed().as_nanos() as u64
    }

    fn clock(&self) -> Clock {
        Clock {
            ticks: 0,
            host_ns: self.now_ns(),
            expected_increment: 1.0,
            actual_increment: 1.0,
        }
    }

    fn quiesce(&self, _: TpbIndex, _: core::time::Duration) -> Result<(), DeviceError> {
        self.count(Call::Other);
        Ok(())
    }
}

impl<const COUNTED: bool> fmt::Debug for NullDevice<COUNTED> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NullDevice")
            .field("doorbell", &self.doorbell)
            .finish_non_exhaustive()
    }
}
