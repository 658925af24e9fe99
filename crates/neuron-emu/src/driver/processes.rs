//! The processes that are attached to a device, in its slots.
//!
//! Spec `driver.md` section 1: the count of a process goes up with each open and down with each *close*, of whichever
//! descriptor.

use xu_abi::driver::errno::EBUSY;

/// The slots of a device.
#[derive(Debug)]
pub(super) struct Processes {
    slots: Vec<Option<Attached>>,
}

/// A process in its slot.
#[derive(Clone, Copy, Debug)]
struct Attached {
    pid: u32,
    count: u32,
}

impl Processes {
    pub(super) fn new(slots: u32) -> Self {
        Self {
            // CAST: at most 16.
            slots: vec![None; slots as usize],
        }
    }

    /// How often a process is attached.
    pub(super) fn count(&self, pid: u32) -> u32 {
        self.slots
            .iter()
            .flatten()
            .find(|attached| attached.pid == pid)
            .map_or(0, |attached| attached.count)
    }

    /// Once more, in its slot or in the first that is free.
    pub(super) fn attach(&mut self, pid: u32) -> Result<(), i32> {
        let mine = |slot: &&mut Option<Attached>| slot.is_some_and(|a| a.pid == pid);
        if let Some(Some(attached)) = self.slots.iter_mut().find(mine) {
            attached.count += 1;
            return Ok(());
        }
        let free = self.slots.iter_mut().find(|slot| slot.is_none());
        *free.ok_or(EBUSY)? = Some(Attached { pid, count: 1 });
        Ok(())
    }

    /// Once less; with the last the slot is free.
    pub(super) fn detach(&mut self, pid: u32) {
        let mine = |slot: &&mut Option<Attached>| slot.is_some_and(|a| a.pid == pid);
        if let Some(slot) = self.slots.iter_mut().find(mine) {
            *slot = slot
                .filter(|attached| attached.count > 1)
                .map(|attached| Attached {
                    count: attached.count - 1,
                    ..attached
                });
        }
    }

    /// The process in slot 0.
    pub(super) fn first(&self) -> Option<u32> {
        Some((*self.slots.first()?)?.pid)
    }

    /// Every process, by slot, with its count.
    pub(super) fn attached(&self) -> Vec<(u32, u32)> {
        self.slots
            .iter()
            .flatten()
            .map(|attached| (attached.pid, attached.count))
            .collect()
    }
}
