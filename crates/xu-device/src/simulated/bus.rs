//! What a DMA queue can address: memory, and the registers of each core's block.
//!
//! Called by the DMA queues for both ends of every copy; the sequencer reads its memory and the tails here.
//! A register takes exactly one aligned word; sequencer memory takes any range inside it.
//!
//! ```text
//!  core block + EVENT_WINDOW       256 events, 4 bytes each     load and store, one bit
//!             + SEMAPHORE_READ     256 semaphores               load
//!             + SEMAPHORE_SET, _ADD, _SUBTRACT                  store: one of them above zero may be a doorbell
//!             + SEQUENCER_MEMORY   4 KiB                        load and store
//!             + TAIL_INCREMENT     Tx, Rx, 4 bytes each         store: adds to the published tail
//! ```

use super::memory::Memory;
use super::tpb::Tpb;
use crate::map::{self, AddressMap};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use parking_lot::Mutex;
use std::sync::Arc;
use xu_abi::driver::core_window;
use xu_abi::{DeviceAddr, EventIndex, SemIndex, TpbIndex};

const WORD: u64 = 4;
const EVENTS: u64 = 256;

/// One of the two rings of a DMA queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Sources.
    Tx,
    /// Destinations.
    Rx,
}

/// What an address range is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// HBM or host memory.
    Memory,
    /// Memory of a core's sequencer, from this offset.
    SequencerMemory(TpbIndex, usize),
    /// An event register.
    Event(TpbIndex, EventIndex),
    /// One of the four registers of a semaphore.
    Semaphore(TpbIndex, SemIndex, Access),
    /// A tail-increment register of a core's model-exec queue.
    TailIncrement(TpbIndex, Side),
}

/// What a register does with its semaphore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Set,
    Add,
    Subtract,
}

/// Where the registers of semaphores begin in the block of a core, 4 bytes each.
const SEMAPHORES: [(u64, Access); 4] = [
    (core_window::SEMAPHORE_READ, Access::Read),
    (core_window::SEMAPHORE_SET, Access::Set),
    (core_window::SEMAPHORE_ADD, Access::Add),
    (core_window::SEMAPHORE_SUBTRACT, Access::Subtract),
];

/// The registers of one core's block.
#[derive(Debug)]
pub(super) struct Registers {
    /// Relaxed throughout: an event is looked at by the thread that walked the descriptor which set it.
    events: Vec<AtomicU32>,
    sequencer_memory: Mutex<Vec<u8>>,
    /// Descriptors published on the model-exec rings since the queue was opened.
    /// Relaxed throughout, as the events.
    tails: [AtomicU64; 2],
}

/// The address space of the machine as its DMA queues see it.
#[derive(Debug)]
pub(super) struct Bus {
    /// HBM and host memory.
    pub(super) memory: Memory,
    addresses: AddressMap,
    /// For their semaphores. Their locks are taken while that of the DMA queue is held.
    tpbs: Arc<[Tpb]>,
    registers: Vec<Registers>,
}

impl Bus {
    pub(super) fn new(memory: Memory, addresses: AddressMap, tpbs: Arc<[Tpb]>) -> Self {
        Self {
            memory,
            addresses,
            registers: tpbs.iter().map(|_| Registers::new()).collect(),
            tpbs,
        }
    }

    /// The registers of a core. A core that does not exist has none.
    pub(super) fn registers(&self, tpb: TpbIndex) -> Option<&Registers> {
        self.registers.get(usize::from(tpb.get()))
    }

    fn tpb(&self, tpb: TpbIndex) -> Option<&Tpb> {
        self.tpbs.get(usize::from(tpb.get()))
    }

    /// What lies at `addr`, when `bytes` bytes of one thing do.
    pub(super) fn resolve(&self, addr: DeviceAddr, bytes: u64) -> Option<Target> {
        if self.memory.check(addr, bytes).is_ok() {
            return Some(Target::Memory);
        }
        let (tpb, offset) = self.addresses.core_at(addr)?;
        self.registers(tpb)?;
        let is_word = bytes == WORD && offset.is_multiple_of(WORD);
        if let Some(inside) = offset.checked_sub(map::TAIL_INCREMENT) {
            return match inside {
                0 if is_word => Some(Target::TailIncrement(tpb, Side::Tx)),
                WORD if is_word => Some(Target::TailIncrement(tpb, Side::Rx)),
                _ => None,
            };
        }
        if let Some(inside) = offset.checked_sub(map::SEQUENCER_MEMORY) {
            let end = inside.checked_add(bytes)?;
            // CAST: at most the size of the sequencer's memory.
            return (end <= map::SEQUENCER_MEMORY_BYTES)
                .then_some(Target::SequencerMemory(tpb, inside as usize));
        }
        // 256 events, and 256 semaphores in each of their windows.
        let index = |window: u64| u8::try_from(offset.checked_sub(window)? / WORD).ok();
        if !is_word {
            return None;
        }
        if let Some(event) = index(map::EVENT_WINDOW) {
            return Some(Target::Event(tpb, EventIndex::new(event)));
        }
        SEMAPHORES.iter().find_map(|(window, access)| {
            let semaphore = SemIndex::new(index(*window)?);
            Some(Target::Semaphore(tpb, semaphore, *access))
        })
    }

    /// Loads the source of a copy; `None` when it cannot be read.
    pub(super) fn load(&self, from: DeviceAddr, into: &mut [u8]) -> Option<Target> {
        let target = self.resolve(from, into.len() as u64)?;
        match target {
            Target::Memory => self.memory.read(from, into).ok()?,
            Target::SequencerMemory(tpb, offset) => {
                self.registers(tpb)?.load_request_bytes(offset, into);
            }
            Target::Event(tpb, event) => {
                let value = u32::from(self.registers(tpb)?.event(event));
                into.copy_from_slice(&value.to_le_bytes());
            }
            Target::Semaphore(tpb, index, Access::Read) => {
                let value = self.tpb(tpb)?.value(index).ok()?;
                into.copy_from_slice(&value.to_le_bytes());
            }
            Target::Semaphore(..) | Target::TailIncrement(..) => return None,
        }
        Some(target)
    }

    /// Stores at the destination of a copy; `None` when it cannot be written.
    pub(super) fn store(&self, to: DeviceAddr, bytes: &[u8]) -> Option<Target> {
        let target = self.resolve(to, bytes.len() as u64)?;
        match target {
            Target::Memory => self.memory.write(to, bytes).ok()?,
            Target::SequencerMemory(tpb, offset) => {
                self.registers(tpb)?.sequencer_memory.lock()[offset..offset + bytes.len()]
                    .copy_from_slice(bytes);
            }
            Target::Event(tpb, event) => {
                let value = u32::from_le_bytes(bytes.try_into().ok()?);
                self.registers(tpb)?.set_event(event, value & 1 != 0);
            }
            Target::Semaphore(tpb, index, access) => {
                let value = i32::from_le_bytes(bytes.try_into().ok()?);
                let core = self.tpb(tpb)?;
                match access {
                    Access::Read => return None,
                    Access::Set => core.set(index, value),
                    Access::Add => core.add(index, value),
                    Access::Subtract => core.add(index, value.saturating_neg()),
                }
                .ok()?;
            }
            Target::TailIncrement(tpb, side) => {
                let value = u32::from_le_bytes(bytes.try_into().ok()?);
                let tail = &self.registers(tpb)?.tails[side as usize];
                tail.fetch_add(u64::from(value), Ordering::Relaxed);
            }
        }
        Some(target)
    }
}

impl Registers {
    fn new() -> Self {
        Self {
            events: (0..EVENTS).map(|_| AtomicU32::new(0)).collect(),
            // CAST: 4 KiB.
            sequencer_memory: Mutex::new(vec![0; map::SEQUENCER_MEMORY_BYTES as usize]),
            tails: [AtomicU64::new(0), AtomicU64::new(0)],
        }
    }

    /// Loads bytes of the sequencer's memory; the range lies inside it.
    pub(super) fn load_request_bytes(&self, offset: usize, into: &mut [u8]) {
        into.copy_from_slice(&self.sequencer_memory.lock()[offset..offset + into.len()]);
    }

    /// Whether an event is set.
    pub(super) fn event(&self, event: EventIndex) -> bool {
        // PANIC: 256 events, here and below.
        self.events[usize::from(event.get())].load(Ordering::Relaxed) != 0
    }

    /// Sets or clears an event.
    pub(super) fn set_event(&self, event: EventIndex, set: bool) {
        self.events[usize::from(event.get())].store(u32::from(set), Ordering::Relaxed);
    }

    /// Descriptors published on one ring of the model-exec queue since it was opened.
    pub(super) fn tail(&self, side: Side) -> u64 {
        self.tails[side as usize].load(Ordering::Relaxed)
    }

    /// Both published tails: Tx, then Rx.
    pub(super) fn tails(&self) -> [u64; 2] {
        [self.tail(Side::Tx), self.tail(Side::Rx)]
    }

    /// As after a reset.
    pub(super) fn clear(&self) {
        for event in &self.events {
            event.store(0, Ordering::Relaxed);
        }
        self.sequencer_memory.lock().fill(0);
        self.set_tails(0);
    }

    /// Moves both published tails to `position`.
    pub(super) fn set_tails(&self, position: u64) {
        for tail in &self.tails {
            tail.store(position, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bus(tpbs: u16) -> Bus {
        let memory = Memory::new(1, 1 << 20, 1 << 20).unwrap();
        let tpbs = (0..tpbs).map(TpbIndex::new).map(Tpb::new).collect();
        Bus::new(memory, AddressMap::Simulated, tpbs)
    }

    #[test]
    fn registers_take_one_aligned_word() {
        let bus = bus(2);
        let tpb = TpbIndex::new(1);
        let event = EventIndex::new(255);
        let at = AddressMap::Simulated.event_register(tpb, event);
        assert_eq!(bus.resolve(at, 4), Some(Target::Event(tpb, event)));
        let tail = AddressMap::Simulated.rx_tail_increment(tpb);
        assert_eq!(
            bus.resolve(tail, 4),
            Some(Target::TailIncrement(tpb, Side::Rx))
        );
        for base in [at, tail] {
            for (offset, bytes) in [(0, 8), (0, 2), (1, 4), (4, 4)] {
                let addr = DeviceAddr::new(base.get() + offset);
                assert_eq!(bus.resolve(addr, bytes), None, "{addr} {bytes}");
            }
        }
        let absent = AddressMap::Simulated.event_register(TpbIndex::new(2), event);
        assert_eq!(bus.resolve(absent, 4), None);
        let memory = AddressMap::Simulated.sequencer_memory(tpb);
        assert!(bus.resolve(memory, map::SEQUENCER_MEMORY_BYTES).is_some());
        assert!(
            bus.resolve(memory, map::SEQUENCER_MEMORY_BYTES + 1)
                .is_none()
        );
    }

    #[test]
    fn stores_act_on_registers() {
        let bus = bus(1);
        let tpb = TpbIndex::new(0);
        let registers = bus.registers(tpb).unwrap();
        for _ in 0..2 {
            bus.store(
                AddressMap::Simulated.tx_tail_increment(tpb),
                &4u32.to_le_bytes(),
            );
        }
        assert_eq!((registers.tail(Side::Tx), registers.tail(Side::Rx)), (8, 0));
        assert!(
            bus.load(AddressMap::Simulated.tx_tail_increment(tpb), &mut [0; 4])
                .is_none()
        );
        bus.store(
            AddressMap::Simulated.event_register(tpb, map::REQUEST_LOADED),
            &1u32.to_le_bytes(),
        );
        assert!(registers.event(map::REQUEST_LOADED));
        let mut back = [0; 3];
        bus.store(AddressMap::Simulated.sequencer_memory(tpb), b"abc");
        bus.load(AddressMap::Simulated.sequencer_memory(tpb), &mut back);
        assert_eq!(&back, b"abc");
    }

    #[test]
    fn a_semaphore_is_four_registers() {
        let bus = bus(2);
        let tpb = TpbIndex::new(1);
        let at = |window: u64, index: u64| {
            DeviceAddr::new(AddressMap::Simulated.core_block(tpb) + window + 4 * index)
        };
        let store = |window, value: i32| bus.store(at(window, 255), &value.to_le_bytes());
        let value = || bus.tpb(tpb).unwrap().value(SemIndex::new(255)).unwrap();
        for (window, operand, then) in [
            (core_window::SEMAPHORE_SET, 7, 7),
            (core_window::SEMAPHORE_ADD, 3, 10),
            (core_window::SEMAPHORE_SUBTRACT, 12, -2),
            (core_window::SEMAPHORE_SUBTRACT, i32::MIN, i32::MAX - 2),
        ] {
            assert!(store(window, operand).is_some());
            assert_eq!(value(), then);
        }
        assert_eq!(store(core_window::SEMAPHORE_READ, 1), None);
        let mut read = [0; 4];
        assert!(
            bus.load(at(core_window::SEMAPHORE_READ, 255), &mut read)
                .is_some()
        );
        assert_eq!(i32::from_le_bytes(read), i32::MAX - 2);
        assert!(
            bus.load(at(core_window::SEMAPHORE_ADD, 0), &mut read)
                .is_none()
        );
        // Behind the last window, and between events and semaphores.
        for nothing in [
            at(core_window::SEMAPHORE_SUBTRACT, 256),
            at(map::EVENT_WINDOW, 256),
        ] {
            assert_eq!(bus.resolve(nothing, 4), None);
        }
    }
}
