//! The control: the same bytes and the same records without stager and harvester, as somebody writes them who knows that
//! there is one model, nothing to check and nothing that fails.
//!
//! In two ways: by the same calls of the device, which leaves the cost of our structure; and straight into memory, which
//! leaves the cost of the seam as well.

mod into_memory;
mod same_calls;

pub(crate) use into_memory::IntoMemory;
pub(crate) use same_calls::SameCalls;

use std::hint::black_box;
use xu_abi::descriptor::META_PLAIN_COPY;
use xu_abi::{DeviceAddr, Engine, TpbIndex};
use xu_device::map;

use super::lane::{DEPTH, TENSORS};
use super::null::Doorbell;

const SLOTS: usize = DEPTH as usize;
const DESCRIPTORS: u32 = 48;
const RECORDS: u32 = 256;
const RECORD: u64 = 16;
const PHASE: u32 = 1 << 31;
const FIRST_AND_LAST: u32 = 3 << 26;
/// An acknowledgement for so many records, as ours.
const ACKNOWLEDGED: u32 = RECORDS / 4;

/// Where the bytes go.
pub(crate) trait Memory {
    fn open(doorbell: Doorbell) -> Self;
    fn reserve(&mut self, bytes: u64) -> u64;
    fn open_notifications(&mut self, tpb: usize, nq: u8) -> u64;
    fn write(&mut self, at: u64, bytes: &[u8]);
    fn word(&mut self, at: u64) -> u32;
    fn record(&mut self, at: u64) -> [u8; 16];
    fn ring_doorbell(&mut self, tpb: usize);
    fn acknowledge(&mut self, tpb: usize, nq: u8, head: u64);
    /// Posts the records of an execution.
    fn run_execution(&mut self, tpb: usize);
    /// Whether nothing has failed.
    fn is_sound(&self) -> bool;
}

/// One core's rings and buffers.
struct Core {
    tx: u64,
    rx: u64,
    next: u32,
    ring_id: u32,
    event: u64,
    increment: u64,
    registers: [u64; 4],
    slots: [Slot; SLOTS],
    status: [Status; 5],
}

#[derive(Clone, Copy)]
struct Slot {
    table: u64,
    request: u64,
    body: [u8; 52],
}

struct Status {
    nq: u8,
    base: u64,
    index: u32,
    phase: u32,
}

/// A lane by hand.
pub(crate) struct ByHand<M> {
    memory: M,
    cores: Vec<Core>,
    executions: usize,
}

impl<M: Memory> ByHand<M> {
    pub(crate) fn open(tpbs: usize, doorbell: Doorbell) -> Self {
        let mut memory = M::open(doorbell);
        let cores = (0..tpbs).map(|tpb| Core::open(&mut memory, tpb)).collect();
        Self {
            memory,
            cores,
            executions: 0,
        }
    }

    #[inline]
    pub(crate) fn stage(&mut self) {
        let slot = self.executions % SLOTS;
        self.executions += 1;
        for core in &mut self.cores {
            core.arm(&mut self.memory, slot);
        }
        for tpb in 0..self.cores.len() {
            self.memory.ring_doorbell(tpb);
        }
    }

    /// Reads two records of each engine; `None` when one is missing or is not what it should be.
    #[inline]
    pub(crate) fn harvest(&mut self) -> Option<()> {
        let (mut first, mut last) = (u64::MAX, 0);
        for (tpb, core) in self.cores.iter_mut().enumerate() {
            for status in &mut core.status {
                for expected in [2, 3] {
                    let (subtype, at) = status.take(&mut self.memory, tpb)?;
                    if subtype != expected {
                        return None;
                    }
                    first = first.min(at);
                    last = last.max(at);
                }
            }
        }
        black_box((first, last));
        Some(())
    }

    /// Looks at every ring once; whether there is anything.
    #[inline]
    pub(crate) fn look(&mut self) -> bool {
        let status = self.cores.iter().flat_map(|core| &core.status);
        let mut found = false;
        for status in status {
            let word = self
                .memory
                .word(status.base + u64::from(status.index) * RECORD);
            found |= word & PHASE == status.phase;
        }
        found
    }

    pub(crate) fn is_sound(&self) -> bool {
        self.memory.is_sound()
    }

    pub(crate) fn run_execution(&mut self) {
        for tpb in 0..self.cores.len() {
            self.memory.run_execution(tpb);
        }
    }
}

impl Core {
    fn open(memory: &mut impl Memory, tpb: usize) -> Self {
        // CAST: one or two cores.
        let index = TpbIndex::new(tpb as u16);
        let slot = |memory: &mut _, slot: usize| Slot {
            table: Memory::reserve(memory, 64),
            request: Memory::reserve(memory, 64),
            body: body(slot as u64),
        };
        let (event, increment) = (memory.reserve(64), memory.reserve(64));
        memory.write(event, &1u32.to_le_bytes());
        memory.write(increment, &4u32.to_le_bytes());
        Self {
            tx: memory.reserve(u64::from(DESCRIPTORS) * 16),
            rx: memory.reserve(u64::from(DESCRIPTORS) * 16),
            next: 0,
            ring_id: 1,
            event,
            increment,
            registers: [
                map::AddressMap::Simulated.sequencer_memory(index),
                map::AddressMap::Simulated.event_register(index, map::REQUEST_LOADED),
                map::AddressMap::Simulated.tx_tail_increment(index),
                map::AddressMap::Simulated.rx_tail_increment(index),
            ]
            .map(DeviceAddr::get),
            slots: std::array::from_fn(|index| slot(memory, index)),
            status: Engine::ALL.map(|engine| Status {
                nq: engine.status_nq(),
                base: memory.open_notifications(tpb, engine.status_nq()),
                index: 0,
                phase: PHASE,
            }),
        }
    }

    #[inline]
    fn arm(&mut self, memory: &mut impl Memory, slot: usize) {
        let slot = self.slots[slot];
        for (place, tensor) in (0..).zip(TENSORS) {
            memory.write(slot.table + 8 * place, &tensor.get().to_le_bytes());
        }
        memory.write(slot.request, &slot.body);
        memory.write(slot.request + 0x34, &[0; 4]);
        let from = [slot.request, self.event, self.increment, self.increment];
        for ((from, to), len) in from.into_iter().zip(self.registers).zip([52, 4, 4, 4]) {
            let at = u64::from(self.next) * 16;
            let len_ctrl = len | self.ring_id << 24;
            memory.write(self.rx + at, &descriptor(len_ctrl, 0, to));
            let len_ctrl = len_ctrl | FIRST_AND_LAST;
            memory.write(self.tx + at, &descriptor(len_ctrl, META_PLAIN_COPY, from));
            self.next += 1;
            if self.next == DESCRIPTORS {
                self.next = 0;
                self.ring_id = (self.ring_id + 1) & 3;
            }
        }
    }
}

impl Status {
    #[inline]
    fn take(&mut self, memory: &mut impl Memory, tpb: usize) -> Option<(u16, u64)> {
        let at = self.base + u64::from(self.index) * RECORD;
        if memory.word(at) & PHASE != self.phase {
            return None;
        }
        let record = memory.record(at);
        self.index += 1;
        if self.index == RECORDS {
            self.index = 0;
            self.phase ^= PHASE;
        }
        if self.index.is_multiple_of(ACKNOWLEDGED) {
            memory.acknowledge(tpb, self.nq, u64::from(self.index) * RECORD);
        }
        let subtype = u16::from_le_bytes([record[6], record[7]]);
        let stamp = u64::from_le_bytes(*record.last_chunk()?);
        Some((subtype, stamp))
    }
}

fn body(slot: u64) -> [u8; 52] {
    let mut body = [0; 52];
    for (engine, words) in body[4..44].as_chunks_mut().0.iter_mut().enumerate() {
        // CAST: any address will do.
        *words = (0x1000 + 64 * (5 * slot as u32 + engine as u32)).to_le_bytes();
    }
    body
}

fn descriptor(len_ctrl: u32, meta_ctrl: u32, addr: u64) -> [u8; 16] {
    let words = u128::from(len_ctrl) | u128::from(meta_ctrl) << 32 | u128::from(addr) << 64;
    words.to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn laps<M: Memory>() {
        for tpbs in [1, 2] {
            let mut hand = ByHand::<M>::open(tpbs, Doorbell::Answers);
            for execution in 0..1000 {
                assert!(!hand.look());
                hand.stage();
                assert!(hand.look());
                assert!(hand.harvest().is_some(), "{execution}");
            }
            assert!(hand.is_sound());
            assert!(hand.harvest().is_none(), "nothing is left");
        }
    }

    #[test]
    fn a_thousand_executions_by_hand() {
        laps::<SameCalls>();
        laps::<IntoMemory>();
    }
}
