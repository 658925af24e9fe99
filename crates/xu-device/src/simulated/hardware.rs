//! What clients, sequencers and transfer queues of one machine share.
//!
//! Owned by the machine, reached by its calls, by the threads of its cores and by the driver of virtual time.
//! Rules: once the device has gone, every call is refused here, and every core stops.

use super::bus::{Bus, Registers};
use super::clock::{HostClock, TickCounter};
use super::config::MachineConfig;
use super::costs::Costs;
use super::dma::Queue;
use super::injector::{Doorbell, Injector, Transfer};
use super::memory::{Memory, no_such_core};
use super::rendezvous::Rendezvous;
use super::tpb::Tpb;
use crate::device::{DeviceError, DmaQueue};
use crate::map::{self, AddressMap};
use core::sync::atomic::{AtomicBool, Ordering};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use xu_abi::{SemIndex, TpbIndex};

/// DMA queues by engine and queue.
type OtherQueues = BTreeMap<(u32, u32), Arc<Mutex<Queue>>>;

/// What clients, sequencers and transfer queues share.
#[derive(Debug)]
pub(super) struct Hardware {
    pub(super) bus: Bus,
    pub(super) tpbs: Arc<[Tpb]>,
    pub(super) host_clock: HostClock,
    pub(super) tick_counter: TickCounter,
    pub(super) costs: Costs,
    pub(super) rendezvous: Rendezvous,
    pub(super) injector: Injector,
    /// Those that belong to no core: there once they are initialised.
    pub(super) other_queues: Mutex<OtherQueues>,
    /// DMA engines that are stopped.
    pub(super) held_engines: Mutex<BTreeSet<u32>>,
    /// Whether the device has gone. Relaxed: nothing else is read because of it.
    lost: AtomicBool,
}

impl Hardware {
    /// The hardware of a machine whose configuration has been checked.
    pub(super) fn new(config: &MachineConfig, addresses: AddressMap, memory: Memory) -> Self {
        let host_clock = HostClock::new(config.time);
        let now = host_clock.now_ns();
        let cores = (0..config.tpbs).map(TpbIndex::new);
        let tpbs: Arc<[Tpb]> = cores.map(Tpb::new).collect();
        Self {
            bus: Bus::new(memory, addresses, Arc::clone(&tpbs)),
            tpbs,
            host_clock,
            tick_counter: TickCounter::start(config.seed, config.clock_drift, now),
            costs: config.costs,
            rendezvous: Rendezvous::default(),
            injector: Injector::new(config.faults.clone(), config.seed, config.tpbs),
            other_queues: Mutex::default(),
            held_engines: Mutex::default(),
            lost: AtomicBool::new(false),
        }
    }

    /// Nanoseconds of the host's clock, as the machine sees it.
    pub(super) fn now_ns(&self) -> u64 {
        self.host_clock.now_ns()
    }

    /// The moment `ns` nanoseconds from now; 0, which is any time, for 0.
    pub(super) fn after(&self, ns: u64) -> u64 {
        match ns {
            0 => 0,
            ns => self.now_ns().saturating_add(ns),
        }
    }

    /// Ticks of the device clock now.
    pub(super) fn ticks(&self) -> u64 {
        self.tick_counter.at(self.now_ns()).ticks
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    pub(super) fn check_alive(&self) -> Result<(), DeviceError> {
        if self.is_lost() {
            Err(DeviceError::Lost)
        } else {
            Ok(())
        }
    }

    /// The device goes: every core stops, and every call fails from now on.
    pub(super) fn lose(&self) {
        self.lost.store(true, Ordering::Relaxed);
        for tpb in &*self.tpbs {
            tpb.lose();
        }
    }

    /// The core, of a device that is still there.
    pub(super) fn alive_tpb(&self, index: TpbIndex) -> Result<&Tpb, DeviceError> {
        self.check_alive()?;
        self.tpb(index)
    }

    /// Adds to a semaphore of a core. To add something to the start semaphore is to ring: the fault plan is asked.
    pub(super) fn add_to_semaphore(
        &self,
        tpb: &Tpb,
        index: SemIndex,
        value: i32,
    ) -> Result<Doorbell, DeviceError> {
        if index != map::INFERENCE_START || value <= 0 {
            return tpb.add(index, value).map(|()| Doorbell::Rings);
        }
        let now = || self.now_ns();
        tpb.ring(value, |number| {
            self.injector.doorbell(tpb.index, number, now)
        })
    }

    /// A DMA queue, whose lock the caller holds, was opened or closed. When it is the one that brings requests, the
    /// sequencer forgets what it has loaded, leaves the group that it waits for, and counts barriers from 0.
    pub(super) fn take_note_of_opening(&self, queue: DmaQueue) -> Result<(), DeviceError> {
        if queue.index == map::MODEL_EXEC_QUEUE {
            let tpb = self.tpb(queue.tpb)?;
            tpb.forget();
            self.rendezvous.leave(queue.tpb);
            tpb.nudge();
            self.registers(queue.tpb)?.set_tails(0);
        }
        Ok(())
    }

    /// Adds to the tails of a transfer queue, whose lock the caller holds, unless the fault plan has it stop. In real
    /// time it is walked at once, in virtual time it only takes note.
    pub(super) fn start_transfer(&self, of: DmaQueue, queue: &mut Queue, tx: u32, rx: u32) {
        match self.injector.transfer(of.tpb, || self.now_ns()) {
            Transfer::Moves => {}
            Transfer::Aborts => queue.abort(),
            Transfer::Hangs => queue.hang(),
        }
        match self.host_clock {
            HostClock::Real => queue.walk(&self.bus, tx, rx),
            HostClock::Virtual(_) => queue.start(tx, rx, self.after(self.costs.per_descriptor_ns)),
        }
    }

    /// The registers of a core's block.
    pub(super) fn registers(&self, index: TpbIndex) -> Result<&Registers, DeviceError> {
        self.bus.registers(index).ok_or_else(|| no_such_core(index))
    }

    /// Stops the queue that brings a core its requests.
    pub(super) fn abort_model_exec(&self, tpb: &Tpb) {
        tpb.dma[usize::from(map::MODEL_EXEC_QUEUE)].lock().abort();
    }

    pub(super) fn tpb(&self, index: TpbIndex) -> Result<&Tpb, DeviceError> {
        self.tpbs
            .get(usize::from(index.get()))
            .ok_or_else(|| no_such_core(index))
    }

    pub(super) fn dma_queue(&self, queue: DmaQueue) -> Result<&Mutex<Queue>, DeviceError> {
        self.tpb(queue.tpb)?
            .dma
            .get(usize::from(queue.index))
            .ok_or(DeviceError::BadArgument {
                what: "dma queue",
                value: u64::from(queue.index),
                allowed: "0 to 3",
            })
    }
}
