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

pub mod call;
mod chip;
mod complaint;
pub mod config;
mod driver;
mod listing;
mod memory;
mod nodes;
pub mod preload;
pub mod seccomp;
mod settings;

pub use call::{Caller, NotCopied};
pub use config::{Config, ConfigError};
pub use driver::{
    AccessMode, Bug, Emulator, Event, FileId, MapRequest, NodeRemains, Opened, Remains, Traced,
};
pub use seccomp::{Supervised, Unavailable, run};
pub use settings::{SettingError, Settings};
