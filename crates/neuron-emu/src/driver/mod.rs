//! What the kernel module does: opens, closes, ioctls, mappings.
//!
//! Called by the front ends. Every decision is made here, so that they behave alike.

mod bug;
mod call;
mod copies;
mod device;
mod dispatch;
mod mapping;
mod memory;
mod notification;
mod registers;
mod rings;
mod semaphores;

pub use bug::Bug;

use crate::call::Caller;
use crate::chip::Chip;
use crate::config::{Config, ConfigError};
use device::Device;
use parking_lot::Mutex;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use xu_abi::driver::errno::{self, Answer};

/// Devices behind the driver, and the processes that use them.
#[derive(Debug)]
pub struct Emulator {
    config: Config,
    devices: Vec<Device>,
}

/// The access mode of an open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessMode {
    /// `O_RDONLY`.
    ReadOnly,
    /// `O_WRONLY`: free access, without being attached.
    WriteOnly,
    /// `O_RDWR`.
    ReadWrite,
}

/// An open file of the driver: what descriptors refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u64);

/// What an open gives.
#[derive(Debug)]
pub struct Opened {
    /// The open file.
    pub file: FileId,
    /// The device's memory, opened anew with that access mode: the program gets it as its descriptor.
    pub descriptor: OwnedFd,
}

/// What a program wants to map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapRequest {
    /// Where in the device.
    pub offset: u64,
    /// How much.
    pub bytes: u64,
    /// `PROT_WRITE`.
    pub writable: bool,
    /// `MAP_SHARED`.
    pub shared: bool,
}

impl Emulator {
    /// Powers the devices on.
    ///
    /// # Errors
    /// [`ConfigError`] names the value.
    pub fn start(config: Config) -> Result<Arc<Self>, ConfigError> {
        let device = |index| {
            Ok(Device {
                index,
                chip: Chip::start(&config, index)?,
                rings: Mutex::default(),
                notifications: Mutex::default(),
                chunks: Mutex::default(),
            })
        };
        let devices = (0..config.devices).map(device).collect::<Result<_, _>>()?;
        Ok(Arc::new(Self { config, devices }))
    }

    /// What is emulated.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Opens `/dev/neuron{node}`. May wait for the end of a reset.
    ///
    /// # Errors
    /// The error number.
    pub fn open(&self, caller: &dyn Caller, node: u32, mode: AccessMode) -> Result<Opened, i32> {
        let _ = (caller, mode);
        let _device = self.devices.get(node as usize).ok_or(errno::ENOENT)?;
        Err(errno::EIO)
    }

    /// One more descriptor of the process refers to the file: it was duplicated.
    pub fn duplicated(&self, pid: u32, file: FileId) {
        let _ = (pid, file);
    }

    /// A process has forked: the child has the descriptors of its parent.
    pub fn forked(&self, parent: u32, child: u32) {
        let _ = (parent, child);
    }

    /// A descriptor was closed: the driver's flush, and its release with the last one.
    pub fn close(&self, pid: u32, file: FileId) {
        let _ = (pid, file);
    }

    /// A process has ended: all its descriptors are closed.
    pub fn exited(&self, pid: u32) {
        let _ = pid;
    }

    /// Whether a call with this request may wait for something.
    #[must_use]
    pub fn may_wait(&self, request: u32) -> bool {
        let _ = request;
        false
    }

    /// An ioctl.
    pub fn ioctl(&self, caller: &dyn Caller, file: FileId, request: u32, argument: u64) -> Answer {
        let _ = (caller, file, request, argument);
        Answer::Errno(errno::EINVAL)
    }

    /// Whether a mapping may be made, natively, of the descriptor's file. `Ok(false)`: only without the write flag.
    ///
    /// # Errors
    /// The error number.
    pub fn map(&self, pid: u32, file: FileId, request: MapRequest) -> Result<bool, i32> {
        let _ = (pid, file, request);
        Err(errno::EPERM)
    }
}
