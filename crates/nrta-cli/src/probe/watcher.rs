//! A device that is watched while the lane uses it: what its notification rings hold, and how far the reader stays behind.
//!
//! Used by [`super::execution`]. It hands every call on, and asks for a tail at each acknowledge.

use super::report::Report;
use nrta::device::{
    Clock, DeviceAddr, DmaQueue, Head, MemoryErrors, MemoryUse, Place, SemIndex, Shape,
};
use nrta::neuron::NeuronDevice;
use nrta::neuron::abi::unverified::{NQ_FIRST_PHASE, NQ_OF_FIRST_ENGINE};
use nrta::{Device, DeviceError, TpbIndex};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Words at the first slot that are kept: of so many laps.
const LAPS: usize = 4;
/// Bytes of a record.
const RECORD: u64 = 16;

/// The device, and what of it has been seen.
#[derive(Debug)]
pub(super) struct Watcher {
    device: Arc<NeuronDevice>,
    tpb: TpbIndex,
    seen: Mutex<Seen>,
}

/// Of the ring of the first engine.
#[derive(Clone, Debug, Default)]
struct Seen {
    base: Option<DeviceAddr>,
    bytes: u64,
    /// The first record.
    first: Option<[u32; 4]>,
    /// The phase of the first slot.
    phase: Option<u32>,
    /// Word 0 of the first slot whenever its phase had changed, of the first laps.
    laps: Vec<u32>,
    /// How often the phase of the first slot has changed.
    changes: u64,
    acknowledges: u64,
    /// Least bytes between head and tail when the head was written.
    closest: Option<u64>,
    /// Heads that were no record boundary of the ring.
    odd_heads: u64,
}

impl Watcher {
    /// Watches one core of a device.
    pub(super) fn new(device: Arc<NeuronDevice>, tpb: TpbIndex) -> Self {
        Self {
            device,
            tpb,
            seen: Mutex::default(),
        }
    }

    /// Says what was seen, opens the ring anew, and says what that did to its tail.
    pub(super) fn report(&self, report: &mut Report) -> Result<(), DeviceError> {
        let seen = self.seen().clone();
        let Some(first) = seen.first else {
            return Ok(());
        };
        let raw = first.map(u64::from);
        let phase = first[0] >> 31;
        let text = format!(
            "the first record begins with {:#010x}: phase {phase}",
            first[0]
        );
        // CAST: 0 or 1.
        let holds = phase == NQ_FIRST_PHASE as u32;
        report.judge("NQ_FIRST_PHASE", holds, text.clone(), &raw);
        report.judge("FIRST_PHASE", holds, text, &raw);
        let laps: Vec<u64> = seen.laps.iter().copied().map(u64::from).collect();
        if seen.changes > 1 {
            let text = format!("the first slot changed its phase {} times", seen.changes);
            report.judge("PHASE_FLIPS", true, text, &laps);
            let text = format!(
                "{} heads in bytes over {} laps, {} no record boundaries",
                seen.acknowledges, seen.changes, seen.odd_heads
            );
            report.judge("NQ_HEAD_UNIT", seen.odd_heads == 0, text, &[]);
            self.judge_distance(&seen, report);
        } else {
            report.leave("PHASE_FLIPS", "the ring has not wrapped".to_owned(), &laps);
        }
        self.open_again(&seen, report)
    }

    /// Executions went on for laps after the head had come so close.
    fn judge_distance(&self, seen: &Seen, report: &mut Report) {
        let Some(closest) = seen.closest else {
            return;
        };
        let text = format!("the head came within {closest} bytes of the tail, and records went on");
        match closest {
            0 => report.judge("HEAD_MAY_REACH_TAIL", true, text, &[closest]),
            _ => report.leave("HEAD_MAY_REACH_TAIL", text, &[closest]),
        }
    }

    fn open_again(&self, seen: &Seen, report: &mut Report) -> Result<(), DeviceError> {
        // CAST: below 10.
        let nq = NQ_OF_FIRST_ENGINE as u8;
        let before = self.device.notification_tail(self.tpb, nq)?;
        let text = format!("{before:#x} after the executions");
        report.judge(
            "NQ_TAIL",
            before.is_multiple_of(RECORD),
            text.clone(),
            &[before],
        );
        if before == 0 {
            report.leave("REINIT_RESETS_TAIL", text, &[before]);
            return Ok(());
        }
        self.device
            .open_notification_queue(self.tpb, nq, seen.bytes)?;
        let after = self.device.notification_tail(self.tpb, nq)?;
        let text = format!("tail {before:#x} before, {after:#x} after");
        report.judge("REINIT_RESETS_TAIL", after == 0, text, &[before, after]);
        Ok(())
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        // What is seen is whole between any two statements.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_watched(&self, tpb: TpbIndex, nq: u8) -> bool {
        tpb == self.tpb && u64::from(nq) == NQ_OF_FIRST_ENGINE
    }

    /// Word 0 of the first slot was looked at.
    fn look(&self, word: u32) -> Result<(), DeviceError> {
        let mut seen = self.seen();
        let Some(base) = seen.base.filter(|_| word != 0) else {
            return Ok(());
        };
        if seen.first.is_none() {
            let mut bytes = [0; 16];
            self.device.read(base, &mut bytes)?;
            // PANIC: four words of four bytes.
            seen.first = Some(std::array::from_fn(|at| {
                u32::from_le_bytes(std::array::from_fn(|byte| bytes[4 * at + byte]))
            }));
        }
        let phase = word >> 31;
        let last = seen.phase.replace(phase);
        if last == Some(phase) {
            return Ok(());
        }
        seen.changes += u64::from(last.is_some());
        if seen.laps.len() < LAPS {
            seen.laps.push(word);
        }
        Ok(())
    }
}

impl Device for Watcher {
    fn shape(&self) -> Shape {
        self.device.shape()
    }

    fn allocate(&self, place: Place, bytes: u64, align: u64) -> Result<DeviceAddr, DeviceError> {
        self.device.allocate(place, bytes, align)
    }

    fn release(&self, addr: DeviceAddr) -> Result<(), DeviceError> {
        self.device.release(addr)
    }

    fn memory_use(&self, place: Place) -> Option<MemoryUse> {
        self.device.memory_use(place)
    }

    fn write(&self, to: DeviceAddr, bytes: &[u8]) -> Result<(), DeviceError> {
        self.device.write(to, bytes)
    }

    fn read(&self, from: DeviceAddr, into: &mut [u8]) -> Result<(), DeviceError> {
        self.device.read(from, into)
    }

    fn load_acquire(&self, from: DeviceAddr) -> Result<u32, DeviceError> {
        let word = self.device.load_acquire(from)?;
        if self.seen().base == Some(from) {
            self.look(word)?;
        }
        Ok(word)
    }

    fn open_dma_queue(
        &self,
        queue: DmaQueue,
        tx_ring: DeviceAddr,
        rx_ring: DeviceAddr,
        descriptors: u32,
    ) -> Result<(), DeviceError> {
        self.device
            .open_dma_queue(queue, tx_ring, rx_ring, descriptors)
    }

    fn start_dma(&self, queue: DmaQueue, descriptors: u32) -> Result<(), DeviceError> {
        self.device.start_dma(queue, descriptors)
    }

    fn check_dma(&self, queue: DmaQueue) -> Result<(), DeviceError> {
        self.device.check_dma(queue)
    }

    fn increment_semaphore(&self, tpb: TpbIndex, index: SemIndex) -> Result<(), DeviceError> {
        self.device.increment_semaphore(tpb, index)
    }

    fn read_semaphore(&self, tpb: TpbIndex, index: SemIndex) -> Result<i32, DeviceError> {
        self.device.read_semaphore(tpb, index)
    }

    fn open_notification_queue(
        &self,
        tpb: TpbIndex,
        nq: u8,
        bytes: u64,
    ) -> Result<DeviceAddr, DeviceError> {
        let base = self.device.open_notification_queue(tpb, nq, bytes)?;
        if self.is_watched(tpb, nq) {
            *self.seen() = Seen {
                base: Some(base),
                bytes,
                ..Seen::default()
            };
        }
        Ok(base)
    }

    fn acknowledge(&self, tpb: TpbIndex, heads: &[Head]) -> Result<(), DeviceError> {
        self.device.acknowledge(tpb, heads)?;
        for &Head { nq, offset: head } in heads {
            if !self.is_watched(tpb, nq) {
                continue;
            }
            let tail = self.device.notification_tail(tpb, nq)?;
            let mut seen = self.seen();
            // The size is a power of two.
            let distance = tail.wrapping_sub(head) & (seen.bytes - 1);
            seen.closest = Some(seen.closest.map_or(distance, |least| least.min(distance)));
            seen.acknowledges += 1;
            let is_boundary = head.is_multiple_of(RECORD) && head < seen.bytes;
            seen.odd_heads += u64::from(!is_boundary);
        }
        Ok(())
    }

    fn notification_tail(&self, tpb: TpbIndex, nq: u8) -> Result<u64, DeviceError> {
        self.device.notification_tail(tpb, nq)
    }

    fn overflow_latched(&self, tpb: TpbIndex) -> Result<bool, DeviceError> {
        self.device.overflow_latched(tpb)
    }

    fn memory_errors(&self, tpb: TpbIndex) -> Result<MemoryErrors, DeviceError> {
        self.device.memory_errors(tpb)
    }

    fn now_ns(&self) -> u64 {
        self.device.now_ns()
    }

    fn clock(&self) -> Clock {
        self.device.clock()
    }

    fn quiesce(&self, tpb: TpbIndex, limit: Duration) -> Result<(), DeviceError> {
        self.device.quiesce(tpb, limit)
    }
}
