//! Semaphores and events of a core: one register access each. The doorbell is one of them.

use super::within;
use crate::neuron::error::DriverError;
use crate::neuron::node::Node;
use xu_abi::driver::{Event, Ioctl, Semaphore, ioctl};
use xu_abi::{EventIndex, SemIndex};

impl Node {
    /// Adds `value` to a semaphore.
    ///
    /// # Errors
    /// [`DriverError::BadArgument`] for a core that does not exist; what the driver answers. This holds of every
    /// function of this file.
    pub fn increment_semaphore(
        &self,
        core: u8,
        index: SemIndex,
        value: i32,
    ) -> Result<(), DriverError> {
        self.semaphore(&ioctl::SEMAPHORE_INCREMENT, core, index, value)
            .map(drop)
    }

    /// Subtracts `value` from a semaphore.
    ///
    /// # Errors
    /// As [`Node::increment_semaphore`].
    pub fn decrement_semaphore(
        &self,
        core: u8,
        index: SemIndex,
        value: i32,
    ) -> Result<(), DriverError> {
        self.semaphore(&ioctl::SEMAPHORE_DECREMENT, core, index, value)
            .map(drop)
    }

    /// Sets a semaphore.
    ///
    /// # Errors
    /// As [`Node::increment_semaphore`].
    pub fn write_semaphore(
        &self,
        core: u8,
        index: SemIndex,
        value: i32,
    ) -> Result<(), DriverError> {
        self.semaphore(&ioctl::SEMAPHORE_WRITE, core, index, value)
            .map(drop)
    }

    /// The value of a semaphore.
    ///
    /// # Errors
    /// As [`Node::increment_semaphore`].
    pub fn read_semaphore(&self, core: u8, index: SemIndex) -> Result<i32, DriverError> {
        self.semaphore(&ioctl::SEMAPHORE_READ, core, index, 0)
    }

    /// Sets or clears an event.
    ///
    /// # Errors
    /// As [`Node::increment_semaphore`].
    pub fn set_event(&self, core: u8, index: EventIndex, set: bool) -> Result<(), DriverError> {
        self.event(&ioctl::EVENT_SET, core, index, set.into())
            .map(drop)
    }

    /// Whether an event is set.
    ///
    /// # Errors
    /// As [`Node::increment_semaphore`].
    pub fn is_event_set(&self, core: u8, index: EventIndex) -> Result<bool, DriverError> {
        self.event(&ioctl::EVENT_GET, core, index, 0)
            .map(|value| value != 0)
    }

    fn semaphore(
        &self,
        ioctl: &'static Ioctl,
        core: u8,
        index: SemIndex,
        value: i32,
    ) -> Result<i32, DriverError> {
        self.check_core(ioctl, core)?;
        let mut argument = Semaphore {
            nc_id: core.into(),
            semaphore_index: index.get().into(),
            value,
        };
        self.ask(ioctl, &mut argument)?;
        Ok(argument.value)
    }

    fn event(
        &self,
        ioctl: &'static Ioctl,
        core: u8,
        index: EventIndex,
        value: u32,
    ) -> Result<u32, DriverError> {
        self.check_core(ioctl, core)?;
        let mut argument = Event {
            nc_id: core.into(),
            event_index: index.get().into(),
            value,
        };
        self.ask(ioctl, &mut argument)?;
        Ok(argument.value)
    }

    /// Refuses a core that this device does not have. For events the driver does not look.
    pub(in crate::neuron) fn check_core(&self, ioctl: &Ioctl, core: u8) -> Result<(), DriverError> {
        let last = u64::from(self.identity().cores()) - 1;
        within(ioctl, "core", core, 0..=last)
    }
}
