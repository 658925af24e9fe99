//! The shared areas of counters, one for each process, and what their processes have counted.
//!
//! Spec `driver.md` sections 1, 3 and 9; the layout is in [`xu_abi::metric`].
//!
//! ```text
//!   ACQUIRE 0 ── free entry, or the caller's own        ACQUIRE pid ── that of another, to look at
//!   RELEASE, or the last close ── counters into the totals, area zeroed, entry free
//!   last reference of the node ── area zeroed, entry free, nothing counted
//! ```
//!
//! The memory of an entry is allocated when it is first used, and stays with the device.

use super::call::{Call, Failure, Handled};
use super::device::Device;
use super::memory;
use super::totals::Totals;
use xu_abi::driver::errno::{ENOENT, ENOMEM};
use xu_abi::driver::{DATASTORE_AREA, NeuronDsInfo};
use xu_abi::metric::DATASTORE_SIZE;

/// Areas of a device.
const ENTRIES: usize = 16;

/// The areas of a device, and the totals.
#[derive(Debug, Default)]
pub(super) struct Datastores {
    entries: [Entry; ENTRIES],
    totals: Totals,
}

/// One area.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    owner: Option<u32>,
    /// Its memory, if it was ever used.
    area: Option<u64>,
}

impl Datastores {
    /// Processes that have an area.
    pub(super) fn owners(&self) -> Vec<u32> {
        self.entries.iter().filter_map(|e| e.owner).collect()
    }

    /// What was counted by all processes that are done.
    pub(super) fn totals(&self) -> &Totals {
        &self.totals
    }

    /// A reset of these cores was asked for.
    pub(super) fn count_reset(&mut self, nc_map: u32, fails: bool) {
        self.totals.count_reset(nc_map, fails);
    }

    fn of(&self, pid: u32) -> Option<u64> {
        let mine = |entry: &&Entry| entry.owner == Some(pid);
        self.entries.iter().find(mine)?.area
    }

    /// The area of a process, a new one if it has none.
    fn create(&mut self, device: &Device, pid: u32) -> Result<u64, i32> {
        if let Some(area) = self.of(pid) {
            return Ok(area);
        }
        let free = self.entries.iter_mut().find(|entry| entry.owner.is_none());
        let entry = free.ok_or(ENOMEM)?;
        let area = match entry.area {
            Some(area) => area,
            None => memory::allocate_datastore(device, DATASTORE_AREA.into())?,
        };
        *entry = Entry {
            owner: Some(pid),
            area: Some(area),
        };
        Ok(area)
    }

    /// Counts what a process has in its area, and frees the area.
    pub(super) fn release(&mut self, device: &Device, pid: u32) {
        if let Some(area) = self.of(pid) {
            // CAST: small.
            let mut bytes = vec![0; DATASTORE_SIZE as usize];
            if device.chip.read(area, &mut bytes).is_ok() {
                self.totals.add(&bytes, device.table().cores);
            }
            self.free(device, |entry| entry.owner == Some(pid));
        }
    }

    /// Frees all areas: the last reference of the node is gone.
    pub(super) fn clear(&mut self, device: &Device) {
        self.free(device, |entry| entry.owner.is_some());
    }

    fn free(&mut self, device: &Device, which: impl Fn(&Entry) -> bool) {
        for entry in self.entries.iter_mut().filter(|entry| which(entry)) {
            entry.owner = None;
            if let Some(area) = entry.area {
                device.chip.punch(area, DATASTORE_AREA.into());
            }
        }
    }
}

/// ACQUIRE_NEURON_DS.
pub(super) fn acquire_neuron_ds(call: &Call<'_>) -> Handled {
    let mut info: NeuronDsInfo = call.argument()?;
    let mut datastores = call.device.datastores.lock();
    let area = match info.pid {
        0 => datastores
            .create(call.device, call.pid())
            .map_err(Failure::Errno)?,
        // CAST: a process id that is negative names nobody.
        pid => datastores.of(pid as u32).ok_or(Failure::Errno(ENOENT))?,
    };
    drop(datastores);
    info.mmap_offset = area;
    info.size = DATASTORE_AREA;
    Ok(call.answer(&info)?)
}

/// RELEASE_NEURON_DS: whatever the argument says, only the caller's own goes.
pub(super) fn release_neuron_ds(call: &Call<'_>) -> Handled {
    let info: NeuronDsInfo = call.argument()?;
    let pid = if info.pid == 0 {
        call.pid()
    } else {
        // CAST: as above.
        info.pid as u32
    };
    let mut datastores = call.device.datastores.lock();
    if datastores.of(pid).is_none() {
        return Err(Failure::Errno(ENOENT));
    }
    if pid == call.pid() {
        datastores.release(call.device, pid);
    }
    Ok(())
}
