//! Reader and writer locks of cores, by the identity of what is loaded there.
//!
//! Spec `driver.md` section 1, return values, and `driver_emulation.md` section 4: per core readers, a writer, a uuid.
//! A writer names what it loads and then becomes a reader of it; readers must name the same.

use super::call::{Call, Failure, Handled};
use super::waiting::until;
use std::collections::BTreeMap;
use xu_abi::driver::errno::{EALREADY, EBUSY, EINVAL, ENOENT};
use xu_abi::driver::{Crwl, MAX_CORES_PER_DEVICE};

/// What a core is locked for.
pub(super) type Uuid = [u8; 32];

// CAST: 8.
const CORES: usize = MAX_CORES_PER_DEVICE as usize;

/// The locks of a device: of 8 cores, whether it has them or not.
#[derive(Debug, Default)]
pub(super) struct CoreLocks {
    cores: [Lock; CORES],
}

/// The lock of one core.
#[derive(Debug, Default)]
struct Lock {
    uuid: Uuid,
    writer: Option<u32>,
    /// Entries by process.
    readers: BTreeMap<u32, u32>,
}

impl Lock {
    fn is_held_by(&self, pid: u32) -> bool {
        self.writer == Some(pid) || self.readers.contains_key(&pid)
    }
}

impl CoreLocks {
    /// Cores that a process holds a lock of, with what they are locked for.
    pub(super) fn held_by(&self, pid: u32) -> Vec<(usize, Uuid)> {
        let cores = self.cores.iter().enumerate();
        cores
            .filter(|(_, lock)| lock.is_held_by(pid))
            .map(|(core, lock)| (core, lock.uuid))
            .collect()
    }

    /// Cores that anybody holds a lock of.
    pub(super) fn held(&self) -> Vec<usize> {
        let is_held = |lock: &Lock| lock.writer.is_some() || !lock.readers.is_empty();
        (0..CORES)
            // PANIC: in range.
            .filter(|core| is_held(&self.cores[*core]))
            .collect()
    }

    /// A process goes.
    pub(super) fn drop_of(&mut self, pid: u32) {
        for lock in &mut self.cores {
            lock.readers.remove(&pid);
            if lock.writer == Some(pid) {
                lock.writer = None;
            }
        }
    }
}

/// CRWL_READER_ENTER: waits for a writer.
pub(super) fn crwl_reader_enter(call: &Call<'_>) -> Handled {
    let (core, uuid) = argument(call)?;
    let limit = call.device.config().waits.reader;
    until(call.caller, call.device, Some(limit), || {
        let mut locks = call.device.core_locks.lock();
        // PANIC: below 8, here and below.
        let lock = &mut locks.cores[core];
        if lock.uuid != uuid {
            return Some(Err(Failure::Errno(ENOENT)));
        }
        lock.writer.is_none().then(|| {
            *lock.readers.entry(call.pid()).or_default() += 1;
            Ok(())
        })
    })
    .or_fail(EBUSY)?
}

/// CRWL_READER_EXIT.
pub(super) fn crwl_reader_exit(call: &Call<'_>) -> Handled {
    let (core, uuid) = argument(call)?;
    let mut locks = call.device.core_locks.lock();
    let lock = &mut locks.cores[core];
    let entries = lock.readers.get_mut(&call.pid());
    match entries.filter(|_| lock.uuid == uuid) {
        Some(entries) if *entries > 1 => *entries -= 1,
        Some(_) => {
            lock.readers.remove(&call.pid());
        }
        None => return Err(Failure::Errno(ENOENT)),
    }
    Ok(())
}

/// CRWL_WRITER_ENTER: waits for another writer, then for readers.
pub(super) fn crwl_writer_enter(call: &Call<'_>) -> Handled {
    let (core, uuid) = argument(call)?;
    let limit = call.device.config().waits.writer;
    until(call.caller, call.device, Some(limit), || {
        let mut locks = call.device.core_locks.lock();
        let lock = &mut locks.cores[core];
        if lock.writer == Some(call.pid()) && lock.uuid == uuid {
            return Some(Err(Failure::Errno(EALREADY)));
        }
        let is_free = lock.writer.is_none() && lock.readers.is_empty();
        is_free.then(|| {
            lock.writer = Some(call.pid());
            lock.uuid = uuid;
            Ok(())
        })
    })
    .or_fail(EBUSY)?
}

/// CRWL_WRITER_DOWNGRADE: the writer becomes a reader.
pub(super) fn crwl_writer_downgrade(call: &Call<'_>) -> Handled {
    let (core, uuid) = argument(call)?;
    let mut locks = call.device.core_locks.lock();
    let lock = &mut locks.cores[core];
    if lock.writer != Some(call.pid()) || lock.uuid != uuid {
        return Err(Failure::Errno(ENOENT));
    }
    lock.writer = None;
    lock.readers.insert(call.pid(), 1);
    Ok(())
}

fn argument(call: &Call<'_>) -> Result<(usize, Uuid), Failure> {
    let crwl: Crwl = call.argument()?;
    if crwl.nc_id >= MAX_CORES_PER_DEVICE {
        return Err(Failure::Errno(EINVAL));
    }
    // CAST: below 8.
    Ok((crwl.nc_id as usize, crwl.uuid))
}
