//! The calls of [`Device`] on a machine: what a client can do.
//!
//! Called by stager, harvester and transfer queues, from any thread. Each call asks first whether the device is still
//! there, and those that can be made to fail ask the fault plan.

use super::clock::Time;
use super::heap::Holder;
use super::machine::Machine;
use crate::device::{
    Clock, Device, DeviceError, DmaQueue, Head, MemoryErrors, MemoryUse, Place, Shape,
};
use crate::map;
use core::time::Duration;
use xu_abi::{DeviceAddr, SemIndex, TpbIndex};

impl Device for Machine {
    fn shape(&self) -> Shape {
        self.shape
    }

    /// HBM is filled with `0xA5` (the first MiB of the block), host memory with zeroes.
    fn allocate(&self, place: Place, bytes: u64, align: u64) -> Result<DeviceAddr, DeviceError> {
        let hardware = &self.hardware;
        hardware.check_alive()?;
        if self.ports().allocation_fails(place) {
            return Err(DeviceError::OutOfMemory {
                place,
                asked: bytes,
                free: 0,
                largest: 0,
            });
        }
        let memory = &hardware.bus.memory;
        memory.allocate(place, bytes, align, Holder::Client)
    }

    fn release(&self, addr: DeviceAddr) -> Result<(), DeviceError> {
        self.hardware.check_alive()?;
        self.hardware.bus.memory.release(addr, Holder::Client)
    }

    fn memory_use(&self, place: Place) -> Option<MemoryUse> {
        self.hardware.bus.memory.use_of(place)
    }

    fn write(&self, to: DeviceAddr, bytes: &[u8]) -> Result<(), DeviceError> {
        self.hardware.check_alive()?;
        self.hardware.bus.memory.write(to, bytes)
    }

    fn read(&self, from: DeviceAddr, into: &mut [u8]) -> Result<(), DeviceError> {
        self.hardware.check_alive()?;
        self.hardware.bus.memory.read(from, into)
    }

    fn load_acquire(&self, from: DeviceAddr) -> Result<u32, DeviceError> {
        self.hardware.check_alive()?;
        self.hardware.bus.memory.load_acquire(from)
    }

    /// Opening the model-exec queue also makes the sequencer forget what it has loaded, leave the collectives group
    /// that it waits for, and count barriers from 0.
    fn open_dma_queue(
        &self,
        queue: DmaQueue,
        tx_ring: DeviceAddr,
        rx_ring: DeviceAddr,
        descriptors: u32,
    ) -> Result<(), DeviceError> {
        self.hardware.check_alive()?;
        let mut opened = self.hardware.dma_queue(queue)?.lock();
        opened.open(&self.hardware.bus, tx_ring, rx_ring, descriptors)?;
        self.hardware.take_note_of_opening(queue)
    }

    /// In real time a transfer queue is walked before this returns; in virtual time each pair is a micro-step. The
    /// doorbell is posted: a descriptor that aborts the queue shows in the next call.
    /// The model-exec queue is only checked; its sequencer walks it on the start semaphore.
    fn start_dma(&self, queue: DmaQueue, descriptors: u32) -> Result<(), DeviceError> {
        let hardware = &self.hardware;
        hardware.check_alive()?;
        let mut started = hardware.dma_queue(queue)?.lock();
        started
            .check_start(descriptors)
            .map_err(|error| error.of(queue))?;
        if queue.index == map::MODEL_EXEC_QUEUE || descriptors == 0 {
            return Ok(());
        }
        hardware.start_transfer(queue, &mut started, descriptors, descriptors);
        Ok(())
    }

    fn check_dma(&self, queue: DmaQueue) -> Result<(), DeviceError> {
        self.hardware.check_alive()?;
        // Starting nothing has no effect but the check.
        let checked = self.hardware.dma_queue(queue)?.lock().check_start(0);
        checked.map_err(|error| error.of(queue))
    }

    fn increment_semaphore(&self, tpb: TpbIndex, index: SemIndex) -> Result<(), DeviceError> {
        self.ports().add_to_semaphore(tpb, index, 1)
    }

    fn read_semaphore(&self, tpb: TpbIndex, index: SemIndex) -> Result<i32, DeviceError> {
        self.hardware.alive_tpb(tpb)?.value(index)
    }

    /// The ring lies in host memory. A ring that the queue had before is freed.
    fn open_notification_queue(
        &self,
        tpb: TpbIndex,
        nq: u8,
        bytes: u64,
    ) -> Result<DeviceAddr, DeviceError> {
        let mut queues = self.hardware.alive_tpb(tpb)?.notifications.lock();
        queues.open(&self.hardware.bus.memory, nq, bytes)
    }

    fn acknowledge(&self, tpb: TpbIndex, heads: &[Head]) -> Result<(), DeviceError> {
        let core = self.hardware.alive_tpb(tpb)?;
        let memory = &self.hardware.bus.memory;
        core.with_notifications(|queues| {
            let mut heads = heads.iter();
            heads.try_for_each(|head| queues.acknowledge(memory, head.nq, head.offset))
        })
    }

    fn notification_tail(&self, tpb: TpbIndex, nq: u8) -> Result<u64, DeviceError> {
        self.hardware.alive_tpb(tpb)?.notifications.lock().tail(nq)
    }

    /// The bit stays until the queue that overflowed is opened again.
    fn overflow_latched(&self, tpb: TpbIndex) -> Result<bool, DeviceError> {
        let tpb = self.hardware.alive_tpb(tpb)?;
        let overflowed = tpb.notifications.lock().overflowed();
        Ok(overflowed != 0)
    }

    fn memory_errors(&self, tpb: TpbIndex) -> Result<MemoryErrors, DeviceError> {
        Ok(self.hardware.alive_tpb(tpb)?.memory_errors())
    }

    /// As [`host_ns`](super::host_ns) in real time; the virtual clock starts at one second.
    fn now_ns(&self) -> u64 {
        self.hardware.now_ns()
    }

    fn clock(&self) -> Clock {
        self.hardware.tick_counter.at(self.hardware.now_ns())
    }

    /// A hung core is busy at once, and so is one that waits for other ranks of its collective. In virtual time this only looks: whatever is not at rest is busy, and nothing is stepped.
    /// A DMA queue with pairs that are not walked yet, or one that hangs, is busy in either.
    fn quiesce(&self, tpb: TpbIndex, limit: Duration) -> Result<(), DeviceError> {
        let core = self.hardware.alive_tpb(tpb)?;
        match self.time {
            Time::Realtime => core.quiesce(limit)?,
            Time::Virtual => core.is_at_rest()?,
        }
        if core.dma.iter().all(|queue| queue.lock().is_at_rest()) {
            Ok(())
        } else {
            Err(DeviceError::Busy { tpb })
        }
    }
}
