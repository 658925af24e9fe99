//! One device as the driver keeps it.
//!
//! Lock order: one lock of one device at a time, unless a field says otherwise. No lock is held while a call waits.

use super::bug::Bug;
use super::copies::Copies;
use super::cores::CoreInits;
use super::datastore::Datastores;
use super::faults::Faults;
use super::locks::CoreLocks;
use super::memory::Chunks;
use super::notification::Notifications;
use super::processes::Processes;
use super::reset::Resets;
use super::rings::Rings;
use super::system::System;
use super::trace::Event;
use crate::chip::Chip;
use crate::choices::{BAR0_BYTES, BAR0_DISTANCE};
use crate::complaint::complain;
use crate::config::{Config, ConfigError};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use xu_abi::driver::ArchTable;
use xu_abi::driver::errno::{EIO, ENODEV};
use xu_abi::driver::unverified::EMULATED_BAR0;
use xu_device::MemoryErrors;

/// One device.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) index: u32,
    pub(super) chip: Chip,
    /// Before the lock of `chunks`.
    pub(super) rings: Mutex<Rings>,
    /// Before the lock of `chunks`.
    pub(super) notifications: Mutex<Notifications>,
    pub(super) chunks: Mutex<Chunks>,
    /// Held while copies run.
    pub(super) copies: Mutex<Copies>,
    /// What all devices share.
    pub(super) system: Arc<System>,
    /// What goes wrong.
    pub(super) faults: Faults,
    /// Who is attached.
    pub(super) processes: Mutex<Processes>,
    pub(super) resets: Resets,
    pub(super) core_inits: Mutex<CoreInits>,
    pub(super) core_locks: Mutex<CoreLocks>,
    /// Before the lock of `chunks`.
    pub(super) datastores: Mutex<Datastores>,
    /// The real driver would have crashed.
    crashed: AtomicBool,
}

/// A range of addresses that user space knows registers by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bar {
    pub(super) address: u64,
    pub(super) bytes: u64,
}

impl Device {
    /// Powers a device on.
    pub(super) fn start(system: &Arc<System>, index: u32) -> Result<Self, ConfigError> {
        let config = &system.config;
        Ok(Self {
            index,
            chip: Chip::start(config, index)?,
            rings: Mutex::default(),
            notifications: Mutex::default(),
            chunks: Mutex::new(Chunks::new(config, index)),
            copies: Mutex::default(),
            system: Arc::clone(system),
            faults: Faults::new(system, index),
            processes: Mutex::new(Processes::new(config.processes)),
            resets: Resets::new(config.waits.reset),
            core_inits: Mutex::new(CoreInits::new(config.arch.table().cores)),
            core_locks: Mutex::default(),
            datastores: Mutex::default(),
            crashed: AtomicBool::new(false),
        })
    }

    pub(super) fn config(&self) -> &Config {
        &self.system.config
    }

    /// What its architecture consists of.
    pub(super) fn table(&self) -> &'static ArchTable {
        self.config().arch.table()
    }

    /// Cores of a device.
    pub(super) fn cores(&self) -> u32 {
        self.table().cores.into()
    }

    /// Whether a process is attached.
    pub(super) fn has_attached(&self, pid: u32) -> bool {
        self.processes.lock().count(pid) > 0
    }

    /// BAR0 as user space knows it.
    pub(super) fn bar0(&self) -> Bar {
        Bar {
            address: EMULATED_BAR0 + BAR0_DISTANCE * u64::from(self.index),
            bytes: BAR0_BYTES,
        }
    }

    /// What every call answers, if the device is gone.
    pub(super) fn gone(&self) -> Option<i32> {
        if self.crashed.load(Ordering::Relaxed) {
            return Some(EIO);
        }
        self.chip.is_lost().then_some(ENODEV)
    }

    /// Uncorrectable memory errors that its firmware has counted, for all cores.
    pub(super) fn memory_errors(&self) -> MemoryErrors {
        let mut errors = MemoryErrors::default();
        for core in 0..self.table().cores {
            let counted = self.chip.memory_errors(core);
            errors.sram += counted.sram;
            errors.hbm += counted.hbm;
            errors.hbm_repairable += counted.hbm_repairable;
        }
        errors
    }

    /// The device is pulled out: the chip is lost.
    pub(super) fn remove(&self) {
        self.chip.kill();
    }

    /// The real driver would have crashed: says so, and stops the device.
    pub(super) fn stop(&self, pid: u32, bug: Bug) {
        // A crash of the kernel must be seen, whoever runs this; a standard error that is closed is no reason to panic.
        complain(&format!("neuron{}: {bug} (process {pid})", self.index));
        self.crashed.store(true, Ordering::Relaxed);
        self.chip.kill();
        self.record(pid, Event::Bug(bug.clone()));
        self.system.bugs.lock().push(bug);
    }

    /// Notes what no sensible client does.
    pub(super) fn warn(&self, pid: u32, what: String) {
        self.record(pid, Event::Warning(what));
    }

    pub(super) fn record(&self, pid: u32, event: Event) {
        self.system.record(pid, Some(self.index), event);
    }
}
