//! The machine as a whole: built from a configuration, run by threads or stepped by its owner, dropped.
//!
//! Called by whoever opens the lane on a host without a device. Its work is done by what it owns:
//!
//! ```text
//!   Machine --- hardware  shared with the threads of the cores
//!          |--- threads   one per core, in real time
//!          '--- stepping  the sequencers of all cores, in virtual time
//! ```

use super::backing::Backing;
use super::clock::Time;
use super::config::MachineConfig;
use super::hardware::Hardware;
use super::injector::Injection;
use super::memory::Memory;
use super::sequencer::{self, Sequencer};
use super::stepping::Stepping;
use super::tpb::Tpb;
use crate::device::{DeviceError, Shape};
use crate::map::AddressMap;
use core::fmt;
use core::time::Duration;
use std::sync::Arc;
use std::thread::JoinHandle;
use xu_abi::TpbIndex;

/// A running machine. Dropping it stops every core, even a hung one, and joins its thread.
pub struct Machine {
    pub(super) hardware: Arc<Hardware>,
    stepping: Stepping,
    threads: Vec<JoinHandle<()>>,
    pub(super) shape: Shape,
    seed: u64,
    pub(super) time: Time,
}

impl Machine {
    /// Builds a machine; in real time, starts its cores.
    ///
    /// # Errors
    /// [`DeviceError::BadArgument`] when a number of `config` is out of range, [`DeviceError::BadPlan`] when one of its
    /// fault plan is; [`DeviceError::Os`] when a thread cannot be started.
    pub fn start(config: MachineConfig) -> Result<Arc<Self>, DeviceError> {
        config.check()?;
        config.check_memory()?;
        let memory = Memory::new(config.tpbs, config.hbm_bytes, config.host_bytes)?;
        Self::build(&config, AddressMap::Simulated, memory)
    }

    /// Builds a machine over memory that somebody else keeps, whose cores are where `addresses` says; in real time,
    /// starts its cores. `hbm_bytes` of the configuration is only what [`Device::shape`](crate::Device::shape) says, and
    /// `host_bytes` nothing.
    ///
    /// On such a machine [`Device::allocate`](crate::Device::allocate) finds no room, and so
    /// [`Device::open_notification_queue`](crate::Device::open_notification_queue) fails: [`Machine::ports`] has what a
    /// driver needs.
    ///
    /// # Errors
    /// As [`Machine::start`]; [`DeviceError::BadArgument`] also when `addresses` does not have so many cores.
    pub fn start_on(
        config: MachineConfig,
        addresses: AddressMap,
        backing: Arc<dyn Backing>,
    ) -> Result<Arc<Self>, DeviceError> {
        config.check()?;
        if let AddressMap::Chip(arch) = addresses
            && config.tpbs > u16::from(arch.table().cores)
        {
            return Err(DeviceError::BadArgument {
                what: "number of cores",
                value: u64::from(config.tpbs),
                allowed: "at most what the architecture has",
            });
        }
        Self::build(&config, addresses, Memory::Foreign(backing))
    }

    fn build(
        config: &MachineConfig,
        addresses: AddressMap,
        memory: Memory,
    ) -> Result<Arc<Self>, DeviceError> {
        let hardware = Arc::new(Hardware::new(config, addresses, memory));
        let cores = (0..config.tpbs).map(TpbIndex::new);
        let sequencers = cores.map(|tpb| Sequencer::new(config.seed, tpb)).collect();
        let (stepped, threaded) = match config.time {
            Time::Realtime => (Vec::new(), sequencers),
            Time::Virtual => (sequencers, Vec::new()),
        };
        let mut machine = Self {
            hardware,
            stepping: Stepping::new(config.seed, stepped),
            threads: Vec::with_capacity(threaded.len()),
            shape: Shape {
                arch: config.arch,
                tpbs: config.tpbs,
                hbm_bytes: config.hbm_bytes,
                addresses,
            },
            seed: config.seed,
            time: config.time,
        };
        for (index, sequencer) in (0..).map(TpbIndex::new).zip(threaded) {
            // On failure the machine is dropped here, and with it the threads that run already.
            machine.start_core(index, sequencer)?;
        }
        Ok(Arc::new(machine))
    }

    fn start_core(&mut self, index: TpbIndex, sequencer: Sequencer) -> Result<(), DeviceError> {
        let hardware = Arc::clone(&self.hardware);
        let thread = std::thread::Builder::new()
            .name(format!("xu-sim-{index}"))
            .spawn(move || {
                if let Ok(tpb) = hardware.tpb(index) {
                    sequencer::run(&hardware, tpb, sequencer);
                }
            })
            .map_err(|error| DeviceError::Os {
                what: "a thread for a core",
                reason: error.to_string(),
            })?;
        self.threads.push(thread);
        Ok(())
    }

    /// In virtual time: one micro-step of one actor, drawn from the seed among all cores and transfer queues that can
    /// act at the present time. `false` when none can; always `false` in real time.
    ///
    /// A micro-step is one doorbell consumed, one pair of descriptors walked, one instruction fetched or executed, or
    /// one record posted. START comes with the first instruction, END with the last, unless a fault or an abort has
    /// something come between.
    pub fn step(&self) -> bool {
        self.stepping.step(&self.hardware)
    }

    /// In virtual time: moves the clock. Nothing runs. In real time: nothing.
    pub fn advance(&self, by: Duration) {
        self.hardware.host_clock.advance(by);
    }

    /// In virtual time: the earliest moment after the present one at which something that waits for time goes on, on
    /// the scale of [`Device::now_ns`](crate::Device::now_ns). What can act at present is not asked. `None` in real time.
    #[must_use]
    pub fn next_due(&self) -> Option<u64> {
        self.stepping.next_due(&self.hardware)
    }

    /// In virtual time: steps, and moves the clock from one due moment to the next, until nothing is due. Then `true`:
    /// what still goes on is hung. In real time `true` at once.
    ///
    /// `false` when fifty million micro-steps were not enough, as for a program without an end.
    pub fn run_until_idle(&self) -> bool {
        self.stepping.run_until_idle(&self.hardware)
    }

    /// Has a core drop what it does, and waits until it has.
    pub(super) fn drop_execution(&self, core: &Tpb) {
        core.reset(self.time == Time::Realtime);
        self.stepping.let_notice(&self.hardware, core);
    }

    /// Which faults of the plan have been injected, oldest first: the first million of them.
    #[must_use]
    pub fn injected(&self) -> Vec<Injection> {
        self.hardware.injector.injected()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        for tpb in &*self.hardware.tpbs {
            tpb.stop();
        }
        for thread in self.threads.drain(..) {
            // A thread that has panicked has ended too.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine")
            .field("shape", &self.shape)
            .field("seed", &self.seed)
            .field("time", &self.time)
            .finish_non_exhaustive()
    }
}
