//! What the hardware does: one device, its memory, its registers, its machine.
//!
//! Called by the driver alone, which has checked what the driver checks: cores, engines, queues and indices exist.
//! Addresses are those that DMA engines see, and offsets in BAR0. Calls may come from any thread.
//! What the machine refuses, because the device has gone or there is no such block, has no effect here, as a write to a
//! register has none.
//!
//! ```text
//!   driver --> Chip --+-- store       memory: one sparse file        <--- mapped by the program
//!                     +-- machine     cores, DMA queues, notification queues of cores: through its ports
//!                     +-- registers   whatever else was written
//! ```

mod decode;
mod mapping;
mod registers;
mod store;
#[cfg(test)]
mod tests;

use crate::choices::{MOST_CLIENT_BUGS, STATUS_ABORTED, STATUS_IDLE, STATUS_RUNNING};
use crate::config::{Config, ConfigError};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use store::Store;
use xu_abi::driver::dma::QueueState;
use xu_abi::driver::{Arch, DmaQueueState, EngineState, errno};
use xu_abi::{DeviceAddr, EventIndex, SemIndex, TpbIndex};
use xu_device::map::AddressMap;
use xu_device::simulated::{self, Backing, Injection, Machine, MachineConfig, QueueStatus};
use xu_device::{Device, DeviceError, MemoryErrors, Place};

/// One device.
#[derive(Debug)]
pub(crate) struct Chip {
    arch: Arch,
    machine: Arc<Machine>,
    store: Arc<Store>,
    /// What was written to registers without a life of their own, by offset in BAR0.
    written: Mutex<BTreeMap<u64, u32>>,
    client_bugs: Mutex<Vec<String>>,
}

/// A ring of descriptors; base 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RingSpec {
    pub(crate) base: u64,
    pub(crate) descriptors: u32,
}

/// A block of notification queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum NqBlock {
    Core(u8),
    Topsp(u8),
    /// DMA engine, 0 to 15, of a core.
    Sdma(u8, u8),
}

/// A copy did not come through: an address at which nothing is, or a fault of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CopyFailed;

impl From<DeviceError> for CopyFailed {
    fn from(_: DeviceError) -> Self {
        Self
    }
}

/// The device as a whole.
impl Chip {
    /// Powers a device on.
    pub(crate) fn start(config: &Config, index: u32) -> Result<Self, ConfigError> {
        let table = config.arch.table();
        let store = Store::new(config, index).map_err(|error| ConfigError {
            what: "memory of a device",
            value: error.to_string(),
            allowed: "what this process can map: a file in memory and twice its HBM of address space",
        })?;
        let store = Arc::new(store);
        let machine = MachineConfig {
            arch: match config.arch {
                Arch::V2 => 2,
                Arch::V3 => 3,
            },
            tpbs: table.cores.into(),
            hbm_bytes: config.hbm_bytes,
            host_bytes: config.host_bytes,
            // Devices of one emulation do not march in step.
            seed: config.seed.wrapping_add(index.into()),
            faults: config.faults.clone(),
            ..MachineConfig::default()
        };
        let backing = Arc::clone(&store) as Arc<dyn Backing>;
        let machine = Machine::start_on(machine, AddressMap::Chip(config.arch), backing);
        Ok(Self {
            arch: config.arch,
            machine: machine.map_err(|error| ConfigError {
                what: "machine",
                value: error.to_string(),
                allowed: "what the simulated machine accepts",
            })?,
            store,
            written: Mutex::default(),
            client_bugs: Mutex::default(),
        })
    }

    /// Lets the engines of each of these chips reach the host memory of the others.
    pub(crate) fn introduce(chips: &[&Self]) {
        for (index, chip) in chips.iter().enumerate() {
            let others = chips
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != index);
            chip.store.meet(
                others
                    .map(|(_, other)| Arc::downgrade(&other.store))
                    .collect(),
            );
        }
    }

    /// The device goes away: every core stops.
    pub(crate) fn kill(&self) {
        self.machine.ports().lose();
    }

    /// Whether the fault plan has had the device go away.
    pub(crate) fn is_lost(&self) -> bool {
        self.machine.ports().is_lost()
    }

    /// Resets a core: what runs is dropped, its notification queues are halted and disabled, its DMA queues have no rings,
    /// its semaphores and events are 0. Waits until the core has noticed.
    pub(crate) fn reset_core(&self, core: u8) {
        let _ = self.machine.ports().reset(tpb(core));
        self.forget_registers(core);
    }

    /// What clients did that a device would not take, since this was asked last.
    pub(crate) fn client_bugs(&self) -> Vec<String> {
        core::mem::take(&mut self.client_bugs.lock())
    }

    fn report(&self, bug: String) {
        let mut bugs = self.client_bugs.lock();
        if bugs.len() < MOST_CLIENT_BUGS {
            bugs.push(bug);
        }
    }

    /// Which faults of the plan have happened, oldest first.
    pub(crate) fn injected(&self) -> Vec<Injection> {
        self.machine.injected()
    }

    /// Whether the plan has a reservation of memory fail: near a core, or of host memory. Asked once for each.
    pub(crate) fn allocation_fails(&self, near: Option<u8>) -> bool {
        let place = near.map_or(Place::Host, |core| Place::Hbm(tpb(core)));
        self.machine.ports().allocation_fails(place)
    }

    /// Uncorrectable memory errors that a core has counted.
    pub(crate) fn memory_errors(&self, core: u8) -> MemoryErrors {
        self.machine.memory_errors(tpb(core)).unwrap_or_default()
    }
}

/// Memory.
impl Chip {
    /// Its memory as a file, in which an offset is an address, opened anew for a program. An error number otherwise.
    pub(crate) fn reopen(&self, readable: bool, writable: bool) -> Result<OwnedFd, i32> {
        let opened = self.store.reopen(readable, writable);
        opened.map_err(|error| error as i32)
    }

    /// Loads memory: HBM or host memory that chunks are made of.
    pub(crate) fn read(&self, from: u64, into: &mut [u8]) -> Result<(), CopyFailed> {
        Ok(self.store.read(DeviceAddr::new(from), into)?)
    }

    /// Stores to memory.
    pub(crate) fn write(&self, to: u64, bytes: &[u8]) -> Result<(), CopyFailed> {
        Ok(self.store.write(DeviceAddr::new(to), bytes)?)
    }

    /// Has a range of memory read as zeroes, and gives its pages back.
    pub(crate) fn punch(&self, from: u64, bytes: u64) {
        self.store.punch(from, bytes);
    }

    /// Copies as the driver's own DMA queues do.
    pub(crate) fn copy(&self, from: u64, to: u64, bytes: u64) -> Result<(), CopyFailed> {
        let [from, to] = [from, to].map(DeviceAddr::new);
        Ok(self.machine.ports().copy(from, to, bytes)?)
    }
}

/// Semaphores and events.
impl Chip {
    /// A semaphore.
    pub(crate) fn semaphore(&self, core: u8, index: u8) -> i32 {
        let ports = self.machine.ports();
        ports
            .semaphore(tpb(core), SemIndex::new(index))
            .unwrap_or(0)
    }

    /// Sets a semaphore.
    pub(crate) fn set_semaphore(&self, core: u8, index: u8, value: i32) {
        let ports = self.machine.ports();
        let _ = ports.set_semaphore(tpb(core), SemIndex::new(index), value);
    }

    /// Adds to a semaphore, which may be a doorbell. The plan may have it fail with an error number.
    pub(crate) fn add_to_semaphore(&self, core: u8, index: u8, value: i32) -> Result<(), i32> {
        let ports = self.machine.ports();
        let added = ports.add_to_semaphore(tpb(core), SemIndex::new(index), value);
        added.map_err(|error| match error {
            DeviceError::Driver { errno, .. } => errno,
            _ => errno::EIO,
        })
    }

    /// An event.
    pub(crate) fn event(&self, core: u8, index: u8) -> bool {
        let ports = self.machine.ports();
        ports
            .event(tpb(core), EventIndex::new(index))
            .unwrap_or(false)
    }

    /// Sets an event.
    pub(crate) fn set_event(&self, core: u8, index: u8, set: bool) {
        let ports = self.machine.ports();
        let _ = ports.set_event(tpb(core), EventIndex::new(index), set);
    }
}

/// DMA queues.
impl Chip {
    /// Gives a DMA queue its rings and resets it.
    pub(crate) fn init_queue(&self, engine: u32, queue: u32, tx: RingSpec, rx: RingSpec) {
        let _ = self
            .machine
            .ports()
            .init_queue(engine, queue, tx.into(), rx.into());
    }

    /// Adds to the tails of a queue, Rx first, and walks. What goes wrong shows in its state.
    pub(crate) fn start_queue(&self, engine: u32, queue: u32, tx: u32, rx: u32) {
        let _ = self.machine.ports().start_queue(engine, queue, tx, rx);
    }

    /// Tells an engine what to do. Queues that have given up stay so until they are initialised again.
    pub(crate) fn set_engine(&self, engine: u32, state: EngineState) {
        let ports = self.machine.ports();
        let _ = match state {
            EngineState::Normal => ports.hold_engine(engine, false),
            EngineState::Disable => ports.hold_engine(engine, true),
            EngineState::Abort => ports
                .hold_engine(engine, true)
                .and_then(|()| ports.abort_engine(engine)),
        };
    }

    /// What the registers of a queue say: Tx, then Rx.
    pub(crate) fn queue_state(&self, engine: u32, queue: u32) -> [DmaQueueState; 2] {
        let (status, rings) = self.machine.ports().queue_state(engine, queue);
        rings.map(|ring| DmaQueueState {
            hw_status: status_register(status),
            sw_status: match status {
                QueueStatus::Closed => QueueState::Disabled,
                QueueStatus::Running | QueueStatus::Hung => QueueState::Enabled,
                QueueStatus::Aborted => QueueState::Aborted,
            }
            .raw(),
            base_addr: ring.ring.base.get(),
            length: ring.ring.descriptors,
            head_pointer: ring.head,
            tail_pointer: ring.tail,
            ..DmaQueueState::ZEROED
        })
    }
}

fn status_register(status: QueueStatus) -> u32 {
    match status {
        QueueStatus::Closed => STATUS_IDLE,
        QueueStatus::Running | QueueStatus::Hung => STATUS_RUNNING,
        QueueStatus::Aborted => STATUS_ABORTED,
    }
}

fn tpb(core: u8) -> TpbIndex {
    TpbIndex::new(core.into())
}

impl From<RingSpec> for simulated::RingSpec {
    fn from(RingSpec { base, descriptors }: RingSpec) -> Self {
        Self {
            base: DeviceAddr::new(base),
            // The driver has no ring at base 0, whatever it was told of its length.
            descriptors: if base == 0 { 0 } else { descriptors },
        }
    }
}
