//! What the hardware does: one device, its memory, its registers, its machine.
//!
//! Called by the driver alone, which has checked what the driver checks: cores, engines, queues and indices exist.
//! Addresses are those that DMA engines see, and offsets in BAR0. Calls may come from any thread.

use crate::config::{Config, ConfigError};
use std::os::fd::OwnedFd;

/// One device.
#[derive(Debug)]
pub(crate) struct Chip {}

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

impl Chip {
    /// Powers a device on.
    pub(crate) fn start(config: &Config, index: u32) -> Result<Self, ConfigError> {
        let _ = (config, index);
        Ok(Self {})
    }

    /// Its memory as a file, in which an offset is an address, opened anew for a program. An error number otherwise.
    pub(crate) fn reopen(&self, readable: bool, writable: bool) -> Result<OwnedFd, i32> {
        let _ = (readable, writable);
        Err(xu_abi::driver::errno::EIO)
    }

    /// Loads memory: HBM or host memory that chunks are made of.
    pub(crate) fn read(&self, from: u64, into: &mut [u8]) -> Result<(), CopyFailed> {
        let _ = (from, into);
        Err(CopyFailed)
    }

    /// Stores to memory.
    pub(crate) fn write(&self, to: u64, bytes: &[u8]) -> Result<(), CopyFailed> {
        let _ = (to, bytes);
        Err(CopyFailed)
    }

    /// Has a range of memory read as zeroes, and gives its pages back.
    pub(crate) fn punch(&self, from: u64, bytes: u64) {
        let _ = (from, bytes);
    }

    /// Copies as the driver's own DMA queues do.
    pub(crate) fn copy(&self, from: u64, to: u64, bytes: u64) -> Result<(), CopyFailed> {
        let _ = (from, to, bytes);
        Err(CopyFailed)
    }

    /// A semaphore.
    pub(crate) fn semaphore(&self, core: u8, index: u8) -> i32 {
        let _ = (core, index);
        0
    }

    /// Sets a semaphore.
    pub(crate) fn set_semaphore(&self, core: u8, index: u8, value: i32) {
        let _ = (core, index, value);
    }

    /// Adds to a semaphore, which may be a doorbell. The plan may have it fail with an error number.
    pub(crate) fn add_to_semaphore(&self, core: u8, index: u8, value: i32) -> Result<(), i32> {
        let _ = (core, index, value);
        Ok(())
    }

    /// An event.
    pub(crate) fn event(&self, core: u8, index: u8) -> bool {
        let _ = (core, index);
        false
    }

    /// Sets an event.
    pub(crate) fn set_event(&self, core: u8, index: u8, set: bool) {
        let _ = (core, index, set);
    }

    /// Gives a DMA queue its rings and resets it.
    pub(crate) fn init_queue(&self, engine: u32, queue: u32, tx: RingSpec, rx: RingSpec) {
        let _ = (engine, queue, tx, rx);
    }

    /// Adds to the tails of a queue, Rx first, and walks. What goes wrong shows in its state.
    pub(crate) fn start_queue(&self, engine: u32, queue: u32, tx: u32, rx: u32) {
        let _ = (engine, queue, tx, rx);
    }

    /// What the registers of a queue say: Tx, then Rx.
    pub(crate) fn queue_state(
        &self,
        engine: u32,
        queue: u32,
    ) -> [xu_abi::driver::DmaQueueState; 2] {
        let _ = (engine, queue);
        [xu_abi::driver::DmaQueueState::ZEROED; 2]
    }

    /// Programs base and size of a notification queue; size 0 halts it. Enable, policy and head are registers.
    pub(crate) fn program_notification(&self, block: NqBlock, queue: u8, base: u64, bytes: u32) {
        let _ = (block, queue, base, bytes);
    }

    /// A register of BAR0. One that nothing is known of reads as it was written, 0 at first.
    pub(crate) fn read_register(&self, offset: u64) -> u32 {
        let _ = offset;
        0
    }

    /// Writes a register of BAR0.
    pub(crate) fn write_register(&self, offset: u64, value: u32) {
        let _ = (offset, value);
    }

    /// Resets a core: what runs is dropped, its notification queues are halted and disabled, its DMA queues have no rings,
    /// its semaphores and events are 0.
    pub(crate) fn reset_core(&self, core: u8) {
        let _ = core;
    }

    /// The device goes away: every core stops.
    pub(crate) fn kill(&self) {}

    /// Whether the fault plan has had the device go away.
    pub(crate) fn is_lost(&self) -> bool {
        false
    }
}
