//! The device under the execution-unit lane: what is written to it, what it answers, and a machine
//! that does both without hardware.
//!
//! Called by the engines of `nrta`: [`stage`] on the submitting thread, [`harvest`] and [`transfer`] on the worker
//! thread.
//! Stager, transfer queues and harvester stand above the [`Device`] trait and see only addresses, descriptors,
//! semaphores and records, so every backend shares them; [`simulated`] consumes exactly the bytes that
//! they write.
//!
//! ```
//! use xu_device::simulated::{Machine, MachineConfig};
//! use xu_device::{Device, Place, TpbIndex};
//!
//! let machine = Machine::start(MachineConfig::default())?;
//! let tensor = machine.allocate(Place::Hbm(TpbIndex::new(0)), 4096, 64)?;
//! machine.write(tensor, b"hello")?;
//! let mut back = [0; 5];
//! machine.read(tensor, &mut back)?;
//! assert_eq!(&back, b"hello");
//! # Ok::<(), xu_device::DeviceError>(())
//! ```
//!
//! ```text
//!  submitting thread                              worker thread
//!  stage::Stager ── request, descriptors ────┐   ┌── harvest::Harvester, over nq::NqReader
//!                                            │   ├── transfer::TransferQueue
//!                                            v   v
//!                                    Device (trait)
//!                                            │
//!              simulated::Machine: memory, DMA walkers, sequencer, five engines, NQ writer
//! ```
//!
//! | module | subject | spec |
//! |---|---|---|
//! | [`device`] | the [`Device`] trait and its errors | `driver.md` |
//! | [`memory`] | device memory that is returned on drop | `driver.md` 8 |
//! | [`map`] | every chosen or unverified constant of the hardware, in one table | `driver.md` |
//! | [`ring`] | a DMA ring pair and its ring ids | `xu.md` 2.10 |
//! | [`program`] | a compiled model placed in device memory | `xu.md` 5 |
//! | [`stage`] | arm and fire one execution | `xu.md` 5 |
//! | [`nq`] | read a notification queue | `xu.md` 6 |
//! | [`harvest`] | from records to a status | `xu.md` 6 |
//! | [`metrics`] | counters of finished executions | `xu.md` 7 |
//! | [`transfer`] | move a chunk of bytes over DMA | `driver.md` 6 |
//! | [`region`] | a range of memory that a request uses | - |
//! | [`tensor_op`] | the operations of a tensor-op queue | `c-api.md` 6.1, 6.6 |
//! | [`collectives`] | all-gather, all-reduce and reduce-scatter between cores | `c-api.md` 6.3 |
//! | [`elementwise`] | arithmetic on elements | `c-api.md` 6.6 |
//! | [`isa`] | the instructions of the engines: ours, since the real ones are not public | - |
//! | [`host_time`] | the host's clock | - |
//! | [`simulated`] | the machine | - |
//! | `neuron`, with the feature `real-driver` | system calls of the kernel driver | `driver.md` |
#![cfg_attr(not(feature = "real-driver"), forbid(unsafe_code))]
// System calls need it: the file `neuron/sys.rs` allows it for itself, and no other file may.
#![cfg_attr(feature = "real-driver", deny(unsafe_code))]

pub mod collectives;
pub mod device;
pub mod elementwise;
pub mod harvest;
pub mod host_time;
pub mod isa;
pub mod map;
pub mod memory;
pub mod metrics;
#[cfg(feature = "real-driver")]
pub mod neuron;
pub mod nq;
pub mod program;
pub mod region;
pub mod ring;
#[cfg(feature = "simulated")]
pub mod simulated;
pub mod stage;
pub mod tensor_op;
pub mod transfer;

pub use xu_abi::{DeviceAddr, Engine, EventIndex, SemIndex, Status, TpbIndex};

pub use device::{
    Clock, Device, DeviceError, DmaQueue, Head, MemoryErrors, MemoryUse, Place, Shape,
};
