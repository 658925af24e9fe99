//! A machine without hardware: memory, DMA queues, sequencers, engines, notification queues, a clock.
//!
//! Made by whoever opens the lane on a host without a device, used through [`Device`] alone.
//! It is a machine and not a mock: it consumes the bytes that a client wrote (request buffer, descriptors,
//! instructions) and answers with 16-byte records in the client's rings.
//! Whatever it is given, it answers with a [`DeviceError`], an error record or a hung core, never with a panic.
//!
//! ```text
//!                       Device                    real time: a thread per core, "xu-sim-0", ...
//!                                                 virtual time: Machine::step
//!   allocate, read, write ---> memory <------------- compute <- engine x 5
//!   start_dma ---------------> dma -> bus <--------- publish <-+     |
//!   increment_semaphore -----> tpb ----------------> sequencer +-----+ execution
//!   acknowledge -------------> notification <------- records --+
//! ```
//!
//! | module | subject |
//! |---|---|
//! | [`isa`] | the instructions, for whoever compiles a program |
//! | `config`, `costs`, `fault_plan` | what a machine is made of, what its work takes, what is to go wrong |
//! | `heap`, `memory` | allocation; HBM and host memory |
//! | `bus` | memory and registers as DMA sees them |
//! | `dma` | rings and their walker |
//! | `tpb` | a core's semaphores and whether it runs |
//! | `publish` | from a doorbell to a decoded request |
//! | `rendezvous` | where the cores of a collective meet |
//! | `sequencer`, `execution` | a core as a state machine; its five engines and what they owe |
//! | `stepping` | the driver of virtual time |
//! | `engine`, `compute`, `arithmetic` | fetch and decode; operands; numbers |
//! | `records`, `notification` | what a core posts; the writer of the notification queues |
//! | `injector`, `mishaps` | the fault plan at work; the faults of one execution |
//! | `clock`, `random` | nanoseconds and ticks; the seeded generator |

mod arithmetic;
mod bus;
mod clock;
mod compute;
mod config;
mod costs;
mod dma;
mod engine;
mod execution;
mod fault_plan;
mod heap;
mod injector;
pub mod isa;
mod memory;
mod mishaps;
mod notification;
mod publish;
mod random;
mod records;
mod rendezvous;
mod sequencer;
mod stepping;
mod tpb;

pub use clock::{Time, host_ns};
pub use config::MachineConfig;
pub use costs::Costs;
pub use fault_plan::{Fault, FaultPlan, Mark, Rule, When};
pub use injector::Injection;

use crate::device::{Clock, Device, DeviceError, DmaQueue, MemoryErrors, Place, Shape};
use crate::map;
use bus::Bus;
use clock::{HostClock, TickCounter};
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use dma::Queue;
use heap::Holder;
use injector::{Doorbell, Injector, Transfer};
use memory::{Memory, no_such_core};
use parking_lot::Mutex;
use rendezvous::Rendezvous;
use sequencer::Sequencer;
use std::sync::Arc;
use std::thread::JoinHandle;
use stepping::Stepping;
use tpb::Tpb;
use xu_abi::{DeviceAddr, SemIndex, TpbIndex};

/// A running machine. Dropping it stops every core, even a hung one, and joins its thread.
pub struct Machine {
    hardware: Arc<Hardware>,
    stepping: Stepping,
    threads: Vec<JoinHandle<()>>,
    shape: Shape,
    seed: u64,
    time: Time,
}

/// What clients, sequencers and transfer queues share.
#[derive(Debug)]
struct Hardware {
    bus: Bus,
    tpbs: Vec<Tpb>,
    host_clock: HostClock,
    tick_counter: TickCounter,
    costs: Costs,
    rendezvous: Rendezvous,
    injector: Injector,
    /// Whether the device has gone. Relaxed: nothing else is read because of it.
    lost: AtomicBool,
}

impl Machine {
    /// Builds a machine; in real time, starts its cores.
    ///
    /// # Errors
    /// [`DeviceError::BadArgument`] when a number of `config` is out of range, [`DeviceError::BadPlan`] when one of its
    /// fault plan is; [`DeviceError::Os`] when a thread cannot be started.
    pub fn start(config: MachineConfig) -> Result<Arc<Self>, DeviceError> {
        config.check()?;
        let memory = Memory::new(config.tpbs, config.hbm_bytes, config.host_bytes)?;
        let host_clock = HostClock::new(config.time);
        let now = host_clock.now_ns();
        let hardware = Arc::new(Hardware {
            bus: Bus::new(memory, config.tpbs),
            tpbs: (0..config.tpbs).map(TpbIndex::new).map(Tpb::new).collect(),
            host_clock,
            tick_counter: TickCounter::start(config.seed, config.clock_drift, now),
            costs: config.costs,
            rendezvous: Rendezvous::default(),
            injector: Injector::new(config.faults, config.seed, config.tpbs),
            lost: AtomicBool::new(false),
        });
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
    /// one record posted.
    pub fn step(&self) -> bool {
        self.stepping.step(&self.hardware)
    }

    /// In virtual time: moves the clock. Nothing runs. In real time: nothing.
    pub fn advance(&self, by: Duration) {
        self.hardware.host_clock.advance(by);
    }

    /// In virtual time: the earliest moment after the present one at which something that waits for time goes on, on
    /// the scale of [`Device::now_ns`]. What can act at present is not asked. `None` in real time.
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

    /// Which faults of the plan have been injected, oldest first: the first million of them.
    #[must_use]
    pub fn injected(&self) -> Vec<Injection> {
        self.hardware.injector.injected()
    }
}

impl Hardware {
    /// Nanoseconds of the host's clock, as the machine sees it.
    fn now_ns(&self) -> u64 {
        self.host_clock.now_ns()
    }

    /// The moment `ns` nanoseconds from now; 0, which is any time, for 0.
    fn after(&self, ns: u64) -> u64 {
        match ns {
            0 => 0,
            ns => self.now_ns().saturating_add(ns),
        }
    }

    /// Ticks of the device clock now.
    fn ticks(&self) -> u64 {
        self.tick_counter.at(self.now_ns()).ticks
    }

    fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    fn check_alive(&self) -> Result<(), DeviceError> {
        if self.is_lost() {
            Err(DeviceError::Lost)
        } else {
            Ok(())
        }
    }

    /// The device goes: every core stops, and every call fails from now on.
    fn lose(&self) {
        self.lost.store(true, Ordering::Relaxed);
        for tpb in &self.tpbs {
            tpb.lose();
        }
    }

    /// The core, of a device that is still there.
    fn alive_tpb(&self, index: TpbIndex) -> Result<&Tpb, DeviceError> {
        self.check_alive()?;
        self.tpb(index)
    }

    /// Stops the queue that brings a core its requests.
    fn abort_model_exec(&self, tpb: &Tpb) {
        tpb.dma[usize::from(map::MODEL_EXEC_QUEUE)].lock().abort();
    }

    fn tpb(&self, index: TpbIndex) -> Result<&Tpb, DeviceError> {
        self.tpbs
            .get(usize::from(index.get()))
            .ok_or_else(|| no_such_core(index))
    }

    fn dma_queue(&self, queue: DmaQueue) -> Result<&Mutex<Queue>, DeviceError> {
        self.tpb(queue.tpb)?
            .dma
            .get(usize::from(queue.index))
            .ok_or(DeviceError::BadArgument {
                what: "dma queue",
                value: u64::from(queue.index),
                allowed: "0 to 2",
            })
    }
}

impl Device for Machine {
    fn shape(&self) -> Shape {
        self.shape
    }

    /// HBM is filled with `0xA5` (the first MiB of the block), host memory with zeroes.
    fn allocate(&self, place: Place, bytes: u64, align: u64) -> Result<DeviceAddr, DeviceError> {
        let hardware = &self.hardware;
        hardware.check_alive()?;
        let tpb = match place {
            Place::Hbm(tpb) => Some(tpb),
            Place::Host => None,
        };
        if hardware.injector.allocation(tpb, || hardware.now_ns()) {
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
        let bus = &self.hardware.bus;
        let mut opened = self.hardware.dma_queue(queue)?.lock();
        opened.open(bus, tx_ring, rx_ring, descriptors)?;
        if queue.index == map::MODEL_EXEC_QUEUE {
            let tpb = self.hardware.tpb(queue.tpb)?;
            tpb.forget();
            self.hardware.rendezvous.leave(queue.tpb);
            tpb.nudge();
            if let Some(registers) = bus.registers(queue.tpb) {
                registers.set_tails(0);
            }
        }
        Ok(())
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
        match hardware.injector.transfer(queue.tpb, || hardware.now_ns()) {
            Transfer::Moves => {}
            Transfer::Aborts => started.abort(),
            Transfer::Hangs => started.hang(),
        }
        match self.time {
            Time::Realtime => started.walk(&hardware.bus, descriptors),
            Time::Virtual => {
                let due = hardware.after(hardware.costs.per_descriptor_ns);
                started.start(descriptors, due);
            }
        }
        Ok(())
    }

    fn check_dma(&self, queue: DmaQueue) -> Result<(), DeviceError> {
        self.hardware.check_alive()?;
        // Starting nothing has no effect but the check.
        let checked = self.hardware.dma_queue(queue)?.lock().check_start(0);
        checked.map_err(|error| error.of(queue))
    }

    fn increment_semaphore(&self, tpb: TpbIndex, index: SemIndex) -> Result<(), DeviceError> {
        let hardware = &self.hardware;
        let core = hardware.alive_tpb(tpb)?;
        if index != map::INFERENCE_START {
            return core.increment(index);
        }
        let now = || hardware.now_ns();
        match core.ring(|number| hardware.injector.doorbell(tpb, number, now))? {
            Doorbell::Rings | Doorbell::Lost => Ok(()),
            Doorbell::Fails(errno) => Err(DeviceError::Driver {
                call: "SEMAPHORE_INCREMENT",
                errno,
            }),
        }
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

    fn acknowledge(&self, tpb: TpbIndex, nq: u8, head: u64) -> Result<(), DeviceError> {
        let mut queues = self.hardware.alive_tpb(tpb)?.notifications.lock();
        queues.acknowledge(nq, head)
    }

    fn notification_tail(&self, tpb: TpbIndex, nq: u8) -> Result<u64, DeviceError> {
        self.hardware.alive_tpb(tpb)?.notifications.lock().tail(nq)
    }

    /// The bit stays until the queue that overflowed is opened again.
    fn overflow_latched(&self, tpb: TpbIndex) -> Result<bool, DeviceError> {
        let tpb = self.hardware.alive_tpb(tpb)?;
        let latched = tpb.notifications.lock().overflow_latched();
        Ok(latched)
    }

    fn memory_errors(&self, tpb: TpbIndex) -> Result<MemoryErrors, DeviceError> {
        Ok(self.hardware.alive_tpb(tpb)?.memory_errors())
    }

    /// As [`host_ns`] in real time; the virtual clock starts at one second.
    fn now_ns(&self) -> u64 {
        self.hardware.now_ns()
    }

    fn clock(&self) -> Clock {
        self.hardware.tick_counter.at(self.hardware.now_ns())
    }

    /// A hung core is busy at once, and so is one that waits for other ranks of its collective; a running one after
    /// two seconds. In virtual time this only looks: whatever is not at rest is busy, and nothing is stepped.
    fn quiesce(&self, tpb: TpbIndex) -> Result<(), DeviceError> {
        let tpb = self.hardware.alive_tpb(tpb)?;
        match self.time {
            Time::Realtime => tpb.quiesce(),
            Time::Virtual => tpb.is_at_rest(),
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        for tpb in &self.hardware.tpbs {
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
