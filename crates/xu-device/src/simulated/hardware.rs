//! What clients, sequencers and transfer queues of one machine share.
//!
//! Owned by the machine, reached by its calls, by the threads of its cores and by the driver of virtual time.
//! Rules: once the device has gone, every call is refused here, and every core stops.

use super::bus::Bus;
use super::clock::{HostClock, TickCounter};
use super::config::MachineConfig;
use super::costs::Costs;
use super::dma::Queue;
use super::injector::Injector;
use super::memory::{Memory, no_such_core};
use super::rendezvous::Rendezvous;
use super::tpb::Tpb;
use crate::device::{DeviceError, DmaQueue};
use crate::map;
use core::sync::atomic::{AtomicBool, Ordering};
use parking_lot::Mutex;
use xu_abi::TpbIndex;

/// What clients, sequencers and transfer queues share.
#[derive(Debug)]
pub(super) struct Hardware {
    pub(super) bus: Bus,
    pub(super) tpbs: Vec<Tpb>,
    pub(super) host_clock: HostClock,
    pub(super) tick_counter: TickCounter,
    pub(super) costs: Costs,
    pub(super) rendezvous: Rendezvous,
    pub(super) injector: Injector,
    /// Whether the device has gone. Relaxed: nothing else is read because of it.
    lost: AtomicBool,
}

impl Hardware {
    /// The hardware of a machine whose configuration has been checked.
    pub(super) fn new(config: &MachineConfig) -> Result<Self, DeviceError> {
        let memory = Memory::new(config.tpbs, config.hbm_bytes, config.host_bytes)?;
        let host_clock = HostClock::new(config.time);
        let now = host_clock.now_ns();
        Ok(Self {
            bus: Bus::new(memory, config.tpbs),
            tpbs: (0..config.tpbs).map(TpbIndex::new).map(Tpb::new).collect(),
            host_clock,
            tick_counter: TickCounter::start(config.seed, config.clock_drift, now),
            costs: config.costs,
            rendezvous: Rendezvous::default(),
            injector: Injector::new(config.faults.clone(), config.seed, config.tpbs),
            lost: AtomicBool::new(false),
        })
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
        for tpb in &self.tpbs {
            tpb.lose();
        }
    }

    /// The core, of a device that is still there.
    pub(super) fn alive_tpb(&self, index: TpbIndex) -> Result<&Tpb, DeviceError> {
        self.check_alive()?;
        self.tpb(index)
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
