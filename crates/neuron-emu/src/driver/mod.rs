//! What the kernel module does: opens, closes, ioctls, mappings.
//!
//! Called by the front ends. Every decision is made here, so that they behave alike.
//!
//! ```text
//!   open, close ── files       descriptors of each process    closing   what a process leaves behind
//!   ioctl ──────── dispatch ─+ identity, apps, messages, pod                who asks whom
//!                            | claims, cores, reset, locks, datastore       who has what, and in which state
//!                            + memory, copies, rings, notification, ...     what the hardware does
//!   map ────────── mapping
//!
//!   Device: the state of one device           System: what all share, claims, trace and bugs
//!   inspection, remains, sysfs: for tests and front ends, no program asks for it
//! ```

mod apps;
mod bug;
mod call;
mod claims;
mod closing;
mod copies;
mod cores;
mod datastore;
mod device;
mod dispatch;
mod faults;
mod files;
mod hardware;
mod identity;
mod inspection;
mod locks;
mod mapping;
mod memory;
mod messages;
mod notification;
mod pod;
mod processes;
mod registers;
mod remains;
mod reset;
mod rings;
mod semaphores;
mod sysfs;
mod system;
mod totals;
mod trace;
mod waiting;

pub use bug::Bug;
pub use remains::{NodeRemains, Remains};
pub use trace::{Event, Traced};

use crate::call::Caller;
use crate::chip::Chip;
use crate::config::{Config, ConfigError, DriverFault};
use device::Device;
use dispatch::Incoming;
use files::Files;
use parking_lot::Mutex;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use sysfs::Sysfs;
use system::System;
use trace::Recording;
use waiting::until;
use xu_abi::driver::errno::{self, Answer};
use xu_abi::driver::ioctl;

/// Devices behind the driver, and the processes that use them.
#[derive(Debug)]
pub struct Emulator {
    system: Arc<System>,
    devices: Vec<Device>,
    /// Held over a whole open (but for its wait) and a whole close; before every other lock.
    files: Mutex<Files>,
    /// Before the locks of devices.
    sysfs: Mutex<Option<Sysfs>>,
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
        config.check()?;
        let system = Arc::new(System::new(config));
        let devices: Vec<Device> = (0..system.config.devices)
            .map(|index| Device::start(&system, index))
            .collect::<Result<_, _>>()?;
        Chip::introduce(
            &devices
                .iter()
                .map(|device| &device.chip)
                .collect::<Vec<_>>(),
        );
        Ok(Arc::new(Self {
            system,
            devices,
            files: Mutex::default(),
            sysfs: Mutex::default(),
        }))
    }

    /// What is emulated.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.system.config
    }

    /// Opens `/dev/neuron{node}`. May wait for the end of a reset.
    ///
    /// # Errors
    /// The error number.
    pub fn open(&self, caller: &dyn Caller, node: u32, mode: AccessMode) -> Result<Opened, i32> {
        let opened = self.attach_and_open(caller, node, mode);
        let answer = opened.as_ref().map(|opened| opened.file).map_err(|e| *e);
        self.system
            .record(caller.pid(), Some(node), Event::Open { mode, answer });
        opened
    }

    fn attach_and_open(
        &self,
        caller: &dyn Caller,
        node: u32,
        mode: AccessMode,
    ) -> Result<Opened, i32> {
        // CAST: widening.
        let device = self.devices.get(node as usize).ok_or(errno::ENOENT)?;
        let pid = caller.pid();
        if let Some(gone) = device.gone() {
            return Err(gone);
        }
        let (readable, writable) = match mode {
            AccessMode::ReadOnly => (true, false),
            AccessMode::WriteOnly => (false, true),
            AccessMode::ReadWrite => (true, true),
        };
        if mode != AccessMode::WriteOnly {
            wait_for_reset(caller, device)?;
        }
        let descriptor = device.chip.reopen(readable, writable)?;
        let mut files = self.files.lock();
        if mode != AccessMode::WriteOnly {
            if device.faults.happens(DriverFault::BusyOpen, pid) {
                return Err(errno::EBUSY);
            }
            device.processes.lock().attach(pid)?;
        }
        let file = files.open(pid, node, mode);
        Ok(Opened { file, descriptor })
    }

    /// One more descriptor of the process refers to the file: it was duplicated, received, or inherited over a fork.
    pub fn duplicated(&self, pid: u32, file: FileId) {
        let mut files = self.files.lock();
        files.duplicate(pid, file);
        let node = files.get(file).map(|(node, _)| node);
        self.system.record(pid, node, Event::Duplicated(file));
    }

    /// A descriptor was closed: the driver's flush, and its release with the last one.
    pub fn close(&self, pid: u32, file: FileId) {
        self.close_one(&mut self.files.lock(), pid, file);
        self.counters_moved();
    }

    /// A process has ended: all its descriptors are closed, in one step.
    pub fn exited(&self, pid: u32) {
        let mut files = self.files.lock();
        self.system.record(pid, None, Event::Exited);
        for file in files.of(pid) {
            self.close_one(&mut files, pid, file);
        }
        drop(files);
        self.counters_moved();
    }

    fn close_one(&self, files: &mut Files, pid: u32, file: FileId) {
        let Some((node, mode)) = files.close(pid, file) else {
            return;
        };
        self.system.record(pid, Some(node), Event::Close(file));
        // CAST: widening. PANIC: files are of devices.
        let device = &self.devices[node as usize];
        closing::flush(device, pid, mode);
        if !files.is_open(node) {
            closing::release(device);
        }
    }

    /// Whether a call with this request may wait for something.
    #[must_use]
    pub fn may_wait(&self, request: u32) -> bool {
        const WAITING: [ioctl::Ioctl; 5] = [
            ioctl::DEVICE_READY,
            ioctl::NC_RESET_READY,
            ioctl::CINIT_SET_STATE,
            ioctl::CRWL_READER_ENTER,
            ioctl::CRWL_WRITER_ENTER,
        ];
        WAITING.iter().any(|ioctl| ioctl.request() == request)
    }

    /// An ioctl.
    pub fn ioctl(&self, caller: &dyn Caller, file: FileId, request: u32, argument: u64) -> Answer {
        let Some((node, mode)) = self.files.lock().get(file) else {
            return Answer::Errno(errno::EBADF);
        };
        // CAST: widening. PANIC: files are of devices.
        let device = &self.devices[node as usize];
        let recording = Recording::new(caller, argument);
        let answer = self.answer(Incoming {
            caller: &recording,
            device,
            devices: &self.devices,
            mode,
            request,
            argument,
        });
        let (argument, written) = recording.into_bytes();
        let event = Event::Ioctl {
            file,
            request,
            name: dispatch::select(request).map(|(ioctl, _)| ioctl.name),
            argument,
            written,
            answer,
        };
        device.record(caller.pid(), event);
        if request == ioctl::RELEASE_NEURON_DS.request() {
            self.counters_moved();
        }
        answer
    }

    fn answer(&self, incoming: Incoming<'_>) -> Answer {
        let (device, pid) = (incoming.device, incoming.caller.pid());
        if device.faults.happens(DriverFault::Removed, pid) {
            device.remove();
        }
        if let Some(gone) = device.gone() {
            return Answer::Errno(gone);
        }
        match dispatch::run(incoming) {
            Ok(()) => Answer::Done,
            Err(failure) => {
                if let call::Failure::Bug(bug) = &failure {
                    device.stop(pid, bug.clone());
                }
                failure.into()
            }
        }
    }

    /// Whether a mapping may be made, natively, of the descriptor's file. `Ok(false)`: only without the write flag.
    ///
    /// # Errors
    /// The error number.
    pub fn map(&self, pid: u32, file: FileId, request: MapRequest) -> Result<bool, i32> {
        let (node, mode) = self.files.lock().get(file).ok_or(errno::EBADF)?;
        // CAST: widening. PANIC: files are of devices.
        let device = &self.devices[node as usize];
        let answer = match device.gone() {
            Some(gone) => Err(gone),
            None => mapping::check(device, pid, device.has_attached(pid), mode, request),
        };
        let event = Event::Map {
            file,
            request,
            answer,
        };
        device.record(pid, event);
        answer
    }
}

fn wait_for_reset(caller: &dyn Caller, device: &Device) -> Result<(), i32> {
    let verdict = || match device.resets.state() {
        reset::State::Resetting => None,
        reset::State::Ready => Some(Ok(())),
        reset::State::Invalid => Some(Err(errno::EINVAL)),
    };
    // Most opens do not wait, and so cannot be interrupted.
    if let Some(verdict) = verdict() {
        return verdict;
    }
    match until(caller, device, None, verdict) {
        waiting::Waited::Came(verdict) => verdict,
        waiting::Waited::Gone(gone) => Err(gone),
        waiting::Waited::Interrupted | waiting::Waited::TimedOut => Err(errno::EINTR),
    }
}
