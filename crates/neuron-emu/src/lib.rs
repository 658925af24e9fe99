//! The Neuron kernel driver in user space, for programs that open `/dev/neuronN` on a machine without the hardware.
//!
//! A development tool: no product crate depends on it, and nothing in `real-driver` knows of it.
//! Spec `driver_emulation.md`; numbers and layouts are those of [`xu_abi::driver`].
//!
//! ```text
//!   program: open, ioctl, mmap, close
//!        |
//!   front end: seccomp notification, or a preloaded library      carries calls, decides nothing
//!        v
//!   Emulator ── driver: processes, files, chunks, claims, rings   what the kernel module does
//!        v
//!   Chip ────── store: one sparse file, offset = address          what the hardware does
//!               registers, semaphores, DMA queues, notification queues, the simulated machine
//! ```
//!
//! # Limits
//! What works here and may not work with a device, or is not there at all:
//! * **Time.** Copies, resets and closes are done at once: no 10 ms at a close, no minutes for a reset unless
//!   [`Waits::reset`](config::Waits::reset) says so. No figure of latency or throughput means anything.
//! * **Host chunks** are as long as [`host_chunk_bytes`](Config::host_chunk_bytes) at most, 4 MiB by default. What a kernel has
//!   in one piece depends on its memory, and on an IOMMU.
//! * **DMA engines** that no core of the lane uses walk their queues in the call that starts them.
//! * **Notification queues** of TOPSPs and SDMA engines are registers: nobody posts there. State buffers are memory without
//!   effect; the pre-processors of v3 are not there.
//! * **Semaphore windows** cannot be mapped (RESOURCE_MMAP_INFO: EINVAL): a store is seen by nobody.
//! * **Not emulated:** HBM_SCRUB_START and HBM_SCRUB_WAIT (EINVAL), DMABUF_FD (EPROTONOSUPPORT), pods, fleet metrics.
//! * **Mappings** that exist outlive a free, a reset and a kernel BUG, and a forked child inherits them, where the driver has
//!   them not inherited.
//! * What each front end does not see is with it: [`seccomp`], [`preload`].
//! * What nothing public says, and was chosen, is in [`xu_abi::driver::unverified`], [`xu_device::map`] and the table of
//!   choices of this crate (`choices.rs`).

pub mod call;
mod chip;
mod choices;
mod complaint;
pub mod config;
mod directory;
mod driver;
mod listing;
mod memory;
mod nodes;
pub mod preload;
pub mod seccomp;
mod settings;
pub mod signals;

pub use call::{Caller, NotCopied};
pub use config::{Config, ConfigError};
pub use driver::{
    AccessMode, Bug, Emulator, Event, FileId, MapRequest, NodeRemains, Opened, Remains, Traced,
};
pub use seccomp::{Supervised, Unavailable, run};
pub use settings::{SettingError, Settings};

/// The examples of the page about it.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/emulator.md")]
struct Page;
