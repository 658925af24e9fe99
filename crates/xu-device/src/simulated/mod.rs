//! A machine without hardware: memory, DMA queues, sequencers, engines, notification queues, a clock.
//!
//! Made by whoever opens the lane on a host without a device, used through [`Device`] alone.
//! It is a machine and not a mock: it consumes the bytes that a client wrote (request buffer, descriptors,
//! instructions) and answers with 16-byte records in the client's rings.
//! Whatever it is given, it answers with a [`DeviceError`], an error record or a hung core, never with a panic.
//!
//! ```text
//!                       Device                    one thread per core, "xu-sim-0", "xu-sim-1", ...
//!   allocate, read, write ---> memory <------------- compute <- engine x 5
//!   start_dma ---------------> dma -> bus <--------- publish <-+     |
//!   increment_semaphore -----> tpb ----------------> sequencer +-----+
//!   acknowledge -------------> notification <------- records --+
//! ```
//!
//! | module | subject |
//! |---|---|
//! | [`isa`] | the instructions, for whoever compiles a program |
//! | `heap`, `memory` | allocation; HBM and host memory |
//! | `bus` | memory and registers as DMA sees them |
//! | `dma` | rings and their walker |
//! | `tpb` | a core's semaphores and whether it runs |
//! | `publish` | from a doorbell to a decoded request |
//! | `sequencer` | the core's thread |
//! | `engine`, `compute`, `arithmetic` | fetch and decode; operands; numbers |
//! | `notification` | the writer of the notification queues |
//! | `clock`, `random` | ticks; the seeded generator |

mod arithmetic;
mod bus;
mod clock;
mod compute;
mod dma;
mod engine;
mod fault_plan;
mod heap;
pub mod isa;
mod memory;
mod notification;
mod publish;
mod random;
mod sequencer;
mod tpb;

pub use clock::host_ns;
pub use fault_plan::{Fault, FaultPlan, Mark, Rule, When};

use crate::device::{Clock, Device, DeviceError, DmaQueue, MemoryErrors, Place, Shape};
use crate::map;
use bus::Bus;
use clock::TickCounter;
use core::fmt;
use core::ops::RangeInclusive;
use dma::Queue;
use heap::Holder;
use memory::{Memory, no_such_core};
use parking_lot::Mutex;
use std::sync::Arc;
use std::thread::JoinHandle;
use tpb::{Loaded, Tpb};
use xu_abi::{DeviceAddr, SemIndex, TpbIndex};

const ARCHS: RangeInclusive<u64> = 2..=3;
const TPBS: RangeInclusive<u64> = 1..=256;
const MEMORY_BYTES: RangeInclusive<u64> = 1 << 20..=4 << 30;
const DRIFTS: RangeInclusive<f64> = 0.5..=2.0;

/// What a machine consists of.
///
/// ```
/// use xu_device::simulated::{Machine, MachineConfig};
/// let two_cores = Machine::start(MachineConfig { tpbs: 2, seed: 7, ..MachineConfig::default() })?;
/// # drop(two_cores);
/// # Ok::<(), xu_device::DeviceError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MachineConfig {
    /// Generation: 2 or 3.
    pub arch: u8,
    /// Number of physical cores, 1 to 256.
    pub tpbs: u16,
    /// Usable HBM of each core, bytes: 1 MiB to 4 GiB. The 16 MiB of firmware below it come in addition and
    /// are not memory. The operating system backs a page when it is first written.
    pub hbm_bytes: u64,
    /// Host memory that the device can reach, bytes: 1 MiB to 4 GiB.
    pub host_bytes: u64,
    /// Decides in which order engines step and where the clock starts.
    pub seed: u64,
    /// Ticks of the device clock per nanosecond, 0.5 to 2; the nominal rate is 1.
    pub clock_drift: f64,
}

impl Default for MachineConfig {
    /// A v2 machine with one core, 64 MiB of HBM and of host memory, and a clock that is 300 ppm fast.
    fn default() -> Self {
        Self {
            arch: 2,
            tpbs: 1,
            hbm_bytes: 64 << 20,
            host_bytes: 64 << 20,
            seed: 0,
            clock_drift: 1.0003,
        }
    }
}

impl MachineConfig {
    fn check(&self) -> Result<(), DeviceError> {
        let refuse = |what, value, allowed| DeviceError::BadArgument {
            what,
            value,
            allowed,
        };
        let numbers = [
            ("generation", u64::from(self.arch), ARCHS, "2 or 3"),
            ("number of cores", u64::from(self.tpbs), TPBS, "1 to 256"),
            ("hbm_bytes", self.hbm_bytes, MEMORY_BYTES, "1 MiB to 4 GiB"),
            (
                "host_bytes",
                self.host_bytes,
                MEMORY_BYTES,
                "1 MiB to 4 GiB",
            ),
        ];
        for (what, value, range, allowed) in numbers {
            if !range.contains(&value) {
                return Err(refuse(what, value, allowed));
            }
        }
        if !DRIFTS.contains(&self.clock_drift) {
            // CAST: for the message only; `as` saturates.
            return Err(refuse("clock_drift", self.clock_drift as u64, "0.5 to 2.0"));
        }
        Ok(())
    }
}

/// A running machine. Dropping it stops every core, even a hung one, and joins its thread.
pub struct Machine {
    hardware: Arc<Hardware>,
    threads: Vec<JoinHandle<()>>,
    shape: Shape,
}

/// What clients and the threads of the cores share.
struct Hardware {
    bus: Bus,
    tpbs: Vec<Tpb>,
    ticks: TickCounter,
}

impl Machine {
    /// Builds a machine and starts its cores.
    ///
    /// # Errors
    /// [`DeviceError::BadArgument`] when a number of `config` is out of range; [`DeviceError::Os`] when a
    /// thread cannot be started.
    pub fn start(config: MachineConfig) -> Result<Arc<Self>, DeviceError> {
        config.check()?;
        let memory = Memory::new(config.tpbs, config.hbm_bytes, config.host_bytes)?;
        let tpb = |index| Tpb::new(TpbIndex::new(index));
        let mut machine = Self {
            hardware: Arc::new(Hardware {
                bus: Bus::new(memory, config.tpbs),
                tpbs: (0..config.tpbs).map(tpb).collect(),
                ticks: TickCounter::start(config.seed, config.clock_drift),
            }),
            threads: Vec::with_capacity(usize::from(config.tpbs)),
            shape: Shape {
                arch: config.arch,
                tpbs: config.tpbs,
                hbm_bytes: config.hbm_bytes,
            },
        };
        for index in 0..config.tpbs {
            // On failure the machine is dropped here, and with it the threads that run already.
            machine.start_core(TpbIndex::new(index), config.seed)?;
        }
        Ok(Arc::new(machine))
    }

    fn start_core(&mut self, index: TpbIndex, seed: u64) -> Result<(), DeviceError> {
        let hardware = Arc::clone(&self.hardware);
        // Cores of one machine draw different orders; the generator mixes neighbouring seeds well.
        let seed = seed ^ (u64::from(index.get()) << 32);
        let thread = std::thread::Builder::new()
            .name(format!("xu-sim-{index}"))
            .spawn(move || {
                if let Ok(tpb) = hardware.tpb(index) {
                    sequencer::run(&hardware, tpb, seed);
                }
            })
            .map_err(|error| DeviceError::Os {
                what: "a thread for a core",
                reason: error.to_string(),
            })?;
        self.threads.push(thread);
        Ok(())
    }
}

impl Hardware {
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
        self.hardware
            .bus
            .memory
            .allocate(place, bytes, align, Holder::Client)
    }

    fn release(&self, addr: DeviceAddr) -> Result<(), DeviceError> {
        self.hardware.bus.memory.release(addr, Holder::Client)
    }

    fn write(&self, to: DeviceAddr, bytes: &[u8]) -> Result<(), DeviceError> {
        self.hardware.bus.memory.write(to, bytes)
    }

    fn read(&self, from: DeviceAddr, into: &mut [u8]) -> Result<(), DeviceError> {
        self.hardware.bus.memory.read(from, into)
    }

    fn load_acquire(&self, from: DeviceAddr) -> Result<u32, DeviceError> {
        self.hardware.bus.memory.load_acquire(from)
    }

    /// Opening the model-exec queue also makes the sequencer forget what it has loaded.
    fn open_dma_queue(
        &self,
        queue: DmaQueue,
        tx_ring: DeviceAddr,
        rx_ring: DeviceAddr,
        descriptors: u32,
    ) -> Result<(), DeviceError> {
        let bus = &self.hardware.bus;
        let mut opened = self.hardware.dma_queue(queue)?.lock();
        opened.open(bus, tx_ring, rx_ring, descriptors)?;
        if queue.index == map::MODEL_EXEC_QUEUE {
            *self.hardware.tpb(queue.tpb)?.loaded.lock() = Loaded::default();
            if let Some(registers) = bus.registers(queue.tpb) {
                registers.set_tails(0);
            }
        }
        Ok(())
    }

    /// A transfer queue is walked before this returns. The doorbell is posted: a descriptor that aborts the
    /// queue shows in the next call, for which `descriptors` of 0 is enough.
    /// The model-exec queue is only checked; its sequencer walks it on the start semaphore.
    fn start_dma(&self, queue: DmaQueue, descriptors: u32) -> Result<(), DeviceError> {
        let mut started = self.hardware.dma_queue(queue)?.lock();
        let result = if queue.index == map::MODEL_EXEC_QUEUE {
            started.check_start(descriptors)
        } else {
            started.start(&self.hardware.bus, descriptors)
        };
        result.map_err(|error| error.of(queue))
    }

    fn check_dma(&self, queue: DmaQueue) -> Result<(), DeviceError> {
        // Starting nothing has no effect but the check.
        let checked = self.hardware.dma_queue(queue)?.lock().check_start(0);
        checked.map_err(|error| error.of(queue))
    }

    fn increment_semaphore(&self, tpb: TpbIndex, index: SemIndex) -> Result<(), DeviceError> {
        self.hardware.tpb(tpb)?.increment(index)
    }

    fn read_semaphore(&self, tpb: TpbIndex, index: SemIndex) -> Result<i32, DeviceError> {
        self.hardware.tpb(tpb)?.value(index)
    }

    /// The ring lies in host memory. A ring that the queue had before is freed.
    fn open_notification_queue(
        &self,
        tpb: TpbIndex,
        nq: u8,
        bytes: u64,
    ) -> Result<DeviceAddr, DeviceError> {
        let mut queues = self.hardware.tpb(tpb)?.notifications.lock();
        queues.open(&self.hardware.bus.memory, nq, bytes)
    }

    fn acknowledge(&self, tpb: TpbIndex, nq: u8, head: u64) -> Result<(), DeviceError> {
        let mut queues = self.hardware.tpb(tpb)?.notifications.lock();
        queues.acknowledge(nq, head)
    }

    fn notification_tail(&self, tpb: TpbIndex, nq: u8) -> Result<u64, DeviceError> {
        self.hardware.tpb(tpb)?.notifications.lock().tail(nq)
    }

    /// The bit stays until the queue that overflowed is opened again.
    fn overflow_latched(&self, tpb: TpbIndex) -> Result<bool, DeviceError> {
        Ok(self
            .hardware
            .tpb(tpb)?
            .notifications
            .lock()
            .overflow_latched())
    }

    fn memory_errors(&self, tpb: TpbIndex) -> Result<MemoryErrors, DeviceError> {
        self.hardware.tpb(tpb).map(|_| MemoryErrors::default())
    }

    /// As [`host_ns`].
    fn now_ns(&self) -> u64 {
        host_ns()
    }

    fn clock(&self) -> Clock {
        self.hardware.ticks.clock()
    }

    /// A hung core is busy at once, a running one after two seconds.
    fn quiesce(&self, tpb: TpbIndex) -> Result<(), DeviceError> {
        self.hardware.tpb(tpb)?.quiesce()
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
            .finish_non_exhaustive()
    }
}
