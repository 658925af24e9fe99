//! Copies from chunk to chunk that are started by one call and waited for by another.
//!
//! Spec `driver.md` section 3 and trap 31.
//!
//! ```text
//!   start -1 ──> slot 1          start, waiting for 1 ──> slot 2          start, waiting for 2 ──> slot 1 ...
//!                                wait for the last ──> done
//! ```
//!
//! There are two slots for each copy queue, whoever uses it. A copy is made as late as the driver allows, when it is waited
//! for or something behind it in its queue is: a client that looks before it has waited sees old bytes.

use super::between::{Copy, copy_now, queue_of};
use super::{in_time, named};
use crate::driver::call::{Call, Failure, Handled};
use crate::driver::device::Device;
use crate::driver::rings;
use std::collections::{BTreeMap, VecDeque};
use xu_abi::driver::errno::{EINVAL, EPERM};
use xu_abi::driver::{
    ArchTable, CHAIN_START, MAX_ASYNC_COPY, MemCopy64, MemCopyAsync, MemCopyAsync64,
    MemCopyAsyncWait,
};

/// `pwait_handle` of a copy that is not asynchronous.
const SYNCHRONOUS: i32 = 0;

/// Copies that have been started, by copy queue.
#[derive(Debug, Default)]
pub(in crate::driver) struct Copies {
    queues: BTreeMap<QueueKey, VecDeque<Pending>>,
}

/// A copy queue of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct QueueKey {
    pub(super) engine: u32,
    queue: u32,
}

/// A copy that has been started.
#[derive(Clone, Copy, Debug)]
struct Pending {
    slot: Slot,
    copy: Copy,
}

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
enum Slot {
    One = 1,
    Two = 2,
}

impl Slot {
    fn from_raw(raw: i32) -> Option<Self> {
        match raw {
            1 => Some(Self::One),
            2 => Some(Self::Two),
            _ => None,
        }
    }

    fn other(self) -> Self {
        match self {
            Self::One => Self::Two,
            Self::Two => Self::One,
        }
    }
}

impl QueueKey {
    /// The queue of a core, as the driver computes it also for a core that the device has not.
    pub(super) fn of_core(table: &ArchTable, core: u32) -> Self {
        Self {
            engine: table.first_h2t + core / table.cores_per_h2t,
            queue: core % table.cores_per_h2t,
        }
    }
}

impl Copies {
    fn start(&mut self, slot: Slot, copy: Copy) {
        let queue = self.queues.entry(copy.queue).or_default();
        queue.push_back(Pending { slot, copy });
    }

    fn has(&self, queue: QueueKey, slot: Slot) -> bool {
        let queue = self.queues.get(&queue);
        queue.is_some_and(|queue| queue.iter().any(|pending| pending.slot == slot))
    }

    fn drop_of(&mut self, queue: QueueKey, slot: Slot) {
        if let Some(queue) = self.queues.get_mut(&queue) {
            queue.retain(|pending| pending.slot != slot);
        }
    }

    /// Makes the copies of a queue in their order, as far as that of the slot. What came of it, if there is one. An engine that does
    /// not run makes none.
    fn run_to(&mut self, device: &Device, queue: QueueKey, slot: Slot) -> Option<Handled> {
        if !rings::runs(device, queue.engine) {
            return None;
        }
        let queue = self.queues.get_mut(&queue)?;
        // Two of a slot have waited while the engine did not run.
        let last = queue.iter().rposition(|pending| pending.slot == slot)?;
        let mut handled = None;
        for Pending { copy, .. } in queue.drain(..=last) {
            let copied = device.chip.copy(copy.from, copy.to, copy.bytes);
            handled = Some(copied.map_err(|_| Failure::Errno(EPERM)));
        }
        handled
    }

    /// Makes all copies of a queue. Nobody is told what came of those that nobody waits for.
    pub(super) fn run_queue(&mut self, device: &Device, queue: QueueKey) {
        for slot in [Slot::One, Slot::Two] {
            let _ = self.run_to(device, queue, slot);
        }
    }
}

/// Makes every copy that has been started: a process goes, and its memory with it. What waits for an engine that does not run is
/// never made.
pub(in crate::driver) fn finish(device: &Device) {
    let mut copies = device.copies.lock();
    let queues: Vec<QueueKey> = copies.queues.keys().copied().collect();
    for queue in queues {
        copies.run_queue(device, queue);
    }
    copies.queues.clear();
}

/// Forgets what has been started and was not made through the copy queue of a core, whose rings go: how many copies.
pub(in crate::driver) fn forget(device: &Device, core: u8) -> usize {
    let queue = QueueKey::of_core(device.table(), core.into());
    let queue = device.copies.lock().queues.remove(&queue);
    queue.map_or(0, |queue| queue.len())
}

/// MEM_COPY_ASYNC.
pub(in crate::driver) fn mem_copy_async(call: &Call<'_>) -> Handled {
    let mut argument: MemCopyAsync = call.argument()?;
    let asked = MemCopy64 {
        src: argument.src,
        dst: argument.dst,
        size: argument.size.into(),
        src_offset: argument.src_offset.into(),
        dst_offset: argument.dst_offset.into(),
    };
    argument.wait_handle = start(call, &asked, argument.pwait_handle)?;
    Ok(call.answer(&argument)?)
}

/// MEM_COPY_ASYNC64.
pub(in crate::driver) fn mem_copy_async64(call: &Call<'_>) -> Handled {
    let mut argument: MemCopyAsync64 = call.argument()?;
    let asked = MemCopy64 {
        src: argument.src,
        dst: argument.dst,
        size: argument.size,
        src_offset: argument.src_offset,
        dst_offset: argument.dst_offset,
    };
    argument.wait_handle = start(call, &asked, argument.pwait_handle)?;
    Ok(call.answer(&argument)?)
}

/// MEM_COPY_ASYNC_WAIT.
pub(in crate::driver) fn mem_copy_async_wait(call: &Call<'_>) -> Handled {
    let argument: MemCopyAsyncWait = call.argument()?;
    let (src, dst) = (named(call, argument.src)?, named(call, argument.dst)?);
    let slot = Slot::from_raw(argument.pwait_handle).ok_or(Failure::Errno(EINVAL))?;
    wait(call, queue_of(call, &src, &dst), slot)
}

/// Starts a copy, then waits for the one before it in its chain. The handle of the new one.
fn start(call: &Call<'_>, asked: &MemCopy64, previous: i32) -> Result<i32, Failure> {
    if previous == SYNCHRONOUS {
        copy_now(call, asked)?;
        return Ok(SYNCHRONOUS);
    }
    let mut copy = Copy::checked(call, asked)?;
    let is_too_long = copy.bytes > MAX_ASYNC_COPY;
    copy.bytes = copy.bytes.min(MAX_ASYNC_COPY);
    let mut copies = call.device.copies.lock();
    let (slot, previous) = if previous == CHAIN_START {
        // In use or not: the hardware makes the old copy, too, and nobody can wait for it any more.
        let _ = copies.run_to(call.device, copy.queue, Slot::One);
        (Slot::One, None)
    } else {
        let previous = Slot::from_raw(previous).filter(|slot| copies.has(copy.queue, *slot));
        let previous = previous.ok_or(Failure::Errno(EINVAL))?;
        let _ = copies.run_to(call.device, copy.queue, previous.other());
        (previous.other(), Some(previous))
    };
    copies.start(slot, copy);
    drop(copies);
    if is_too_long {
        return Err(Failure::Errno(EINVAL));
    }
    if let Some(previous) = previous {
        wait(call, copy.queue, previous)?;
    }
    // CAST: 1 or 2.
    Ok(slot as i32)
}

/// A copy that times out is not made.
fn wait(call: &Call<'_>, queue: QueueKey, slot: Slot) -> Handled {
    let mut copies = call.device.copies.lock();
    if !copies.has(queue, slot) {
        return Err(Failure::Errno(EINVAL));
    }
    in_time(call, queue).inspect_err(|_| {
        copies.drop_of(queue, slot);
    })?;
    copies.run_to(call.device, queue, slot).unwrap_or(Ok(()))
}
