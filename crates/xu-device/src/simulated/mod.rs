//! A machine without hardware: memory, DMA queues, sequencers, engines, notification queues, a clock.
//!
//! Made by whoever opens the lane on a host without a device, used through [`Device`](crate::Device) alone.
//! It is a machine and not a mock: it consumes the bytes that a client wrote (request buffer, descriptors,
//! instructions) and answers with 16-byte records in the client's rings.
//! Whatever it is given, it answers with a [`DeviceError`](crate::DeviceError), an error record or a hung core, never with a panic.
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
//! | `machine`, `calls`, `hardware` | the machine as a whole; the calls of [`Device`](crate::Device); what everybody shares |
//! | `config`, `costs`, `fault_plan` | what a machine is made of, what its work takes, what is to go wrong |
//! | `backing`, `memory` | memory that somebody else keeps; where the machine's bytes are |
//! | `heap`, `regions` | allocation; HBM and host memory of its own |
//! | `ports` | the machine as a driver sees it |
//! | `bus` | memory and registers as DMA sees them |
//! | `rings`, `dma` | the rings of a DMA queue; its walker |
//! | `semaphores`, `tpb` | semaphores and doorbells of a core; whether it runs |
//! | `publish` | from a doorbell to a decoded request |
//! | `rendezvous` | where the cores of a collective meet |
//! | `sequencer`, `execution` | a core as a state machine; its five engines and what they owe |
//! | `stepping` | the driver of virtual time |
//! | `engine`, `compute`, `arithmetic` | fetch and decode; operands; numbers |
//! | `records` | what a core posts |
//! | `notification`, `record_ring` | the notification queues of a core; one ring of them |
//! | `injector`, `mishaps` | the fault plan at work; the faults of one execution |
//! | `clock`, `random` | nanoseconds and ticks; the seeded generator |

mod arithmetic;
mod backing;
mod bus;
mod calls;
mod clock;
mod compute;
mod config;
mod costs;
mod dma;
mod engine;
mod execution;
mod fault_plan;
mod hardware;
mod heap;
mod injector;
mod machine;
mod memory;
mod mishaps;
mod notification;
mod ports;
mod publish;
mod random;
mod record_ring;
mod records;
mod regions;
mod rendezvous;
mod rings;
mod semaphores;
mod sequencer;
mod stepping;
mod tpb;

pub use crate::host_time::host_ns;
pub use crate::isa;
pub use backing::Backing;
pub use clock::Time;
pub use config::MachineConfig;
pub use costs::Costs;
pub use fault_plan::{Fault, FaultPlan, Mark, Rule, When};
pub use injector::Injection;
pub use machine::Machine;
pub use notification::NotificationPolicy;
pub use ports::Ports;
pub use rings::{QueueStatus, RingSpec, RingState};
