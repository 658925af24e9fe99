//! The counters of this process, which the driver adds to its own when they are released.
//!
//! Written by whoever counts finished executions, read by monitors. Spec `driver.md` section 9; places are those of
//! [`xu_abi::metric`].
//!
//! One writer: plain stores are enough, and a reader sees each counter whole.

use super::calls::refuse;
use super::error::DriverError;
use super::kernel::{Access, Grain};
use super::mapping::Mapping;
use super::node::Node;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use xu_abi::driver::{NeuronDsInfo, PAGE, ioctl};
use xu_abi::metric::{
    CoreCounter, DATASTORE_CORES, DATASTORE_SIGNATURE, DATASTORE_SIZE, DeviceCounter,
};

const ACQUIRE: &xu_abi::driver::Ioctl = &ioctl::ACQUIRE_NEURON_DS;

/// The area of a process on one device.
#[derive(Debug)]
pub struct Datastore {
    node: Arc<Node>,
    mapping: Mapping,
    /// Whether it is this process's own.
    own: bool,
}

impl Datastore {
    /// Opens the area of this process, and writes its header. `format` is the version of the layout.
    ///
    /// # Errors
    /// [`super::Meaning::OutOfMemory`] when the device has no area left; [`DriverError::Nonsense`] for an area that is too
    /// small.
    pub fn own(node: &Arc<Node>, format: u32) -> Result<Self, DriverError> {
        let store = Self::acquire(node, 0, Access::Full)?;
        let mut header = [0; 8];
        header[..4].copy_from_slice(&DATASTORE_SIGNATURE);
        header[4..].copy_from_slice(&format.to_ne_bytes());
        if let Some(place) = store.counter(0) {
            // PAIRS: with the acquire load of a monitor in another process, which finds signature and version at once.
            place.store(u64::from_ne_bytes(header), Ordering::Release);
        }
        Ok(store)
    }

    /// Opens the area of another process, to read it.
    ///
    /// # Errors
    /// [`super::Meaning::Missing`] when it has none; [`DriverError::BadArgument`] for number 0, which would be this one.
    pub fn of(node: &Arc<Node>, pid: u32) -> Result<Self, DriverError> {
        match i32::try_from(pid) {
            Ok(pid) if pid > 0 => Self::acquire(node, pid, Access::ReadOnly),
            _ => Err(refuse(ACQUIRE, "process id", pid.into(), "1 to 2147483647")),
        }
    }

    fn acquire(node: &Arc<Node>, pid: i32, access: Access) -> Result<Self, DriverError> {
        let mut argument = NeuronDsInfo {
            pid,
            ..NeuronDsInfo::ZEROED
        };
        node.ask(ACQUIRE, &mut argument)?;
        let bytes = u64::from(argument.size);
        if argument.size < DATASTORE_SIZE || !bytes.is_multiple_of(PAGE) {
            return Err(DriverError::Nonsense {
                call: ACQUIRE.name,
                what: "the size",
                value: bytes,
            });
        }
        Ok(Self {
            node: Arc::clone(node),
            mapping: node.map(argument.mmap_offset, bytes, access, Grain::DoubleWord)?,
            own: pid == 0,
        })
    }

    /// Adds to a counter of a core of this device; nothing for an area that is not our own.
    ///
    /// # Errors
    /// [`DriverError::BadArgument`] for a core beyond the last of an area.
    pub fn add(&self, core: u8, counter: CoreCounter, value: u64) -> Result<(), DriverError> {
        let place = self.core_counter(core, counter)?;
        self.change(place, |old| old.wrapping_add(value));
        Ok(())
    }

    /// Sets a counter of a core of this device; nothing for an area that is not our own.
    ///
    /// # Errors
    /// As [`Datastore::add`].
    pub fn set(&self, core: u8, counter: CoreCounter, value: u64) -> Result<(), DriverError> {
        let place = self.core_counter(core, counter)?;
        self.change(place, |_| value);
        Ok(())
    }

    /// Sets a counter of the device; nothing for an area that is not our own.
    ///
    /// # Errors
    /// [`DriverError::BadArgument`] for [`DeviceCounter::DYNAMIC_SYSFS_METRIC_BITMAP`]: the driver follows a pointer that
    /// nothing has set when that is not 0.
    pub fn set_device(&self, counter: DeviceCounter, value: u64) -> Result<(), DriverError> {
        if counter == DeviceCounter::DYNAMIC_SYSFS_METRIC_BITMAP {
            let (what, allowed) = ("ordinal of a device counter", "any but 11");
            return Err(refuse(ACQUIRE, what, counter.ordinal().into(), allowed));
        }
        self.change(self.counter(counter.datastore_offset()), |_| value);
        Ok(())
    }

    /// A counter of a core of this device.
    ///
    /// # Errors
    /// As [`Datastore::add`]; [`DriverError::Forked`].
    pub fn get(&self, core: u8, counter: CoreCounter) -> Result<u64, DriverError> {
        let place = self.core_counter(core, counter)?;
        // Relaxed: counters say nothing of each other.
        place
            .map(|counter| counter.load(Ordering::Relaxed))
            .ok_or(DriverError::Forked)
    }

    fn change(&self, place: Option<&AtomicU64>, new: impl FnOnce(u64) -> u64) {
        if let Some(counter) = place.filter(|_| self.own) {
            // Relaxed: one writer, and counters say nothing of each other.
            counter.store(new(counter.load(Ordering::Relaxed)), Ordering::Relaxed);
        }
    }

    fn core_counter(
        &self,
        core: u8,
        counter: CoreCounter,
    ) -> Result<Option<&AtomicU64>, DriverError> {
        let offset = counter.datastore_offset(core).ok_or_else(|| {
            let allowed = format!("0 to {}", DATASTORE_CORES - 1);
            refuse(ACQUIRE, "core of a counter", core.into(), allowed)
        })?;
        Ok(self.counter(offset))
    }

    /// The counter at an offset; `None` in a child of a fork.
    fn counter(&self, offset: u32) -> Option<&AtomicU64> {
        // CAST: widening.
        self.mapping.double_word(offset as usize)
    }
}

impl Drop for Datastore {
    fn drop(&mut self) {
        if self.own {
            // Refused in a child of a fork, and on a device that is lost; the end of the process does the same.
            let mut argument = NeuronDsInfo::ZEROED;
            let _ = self.node.ask(&ioctl::RELEASE_NEURON_DS, &mut argument);
        }
    }
}
