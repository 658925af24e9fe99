//! What a close does, in the order of the driver.
//!
//! Spec `driver.md` section 1. The driver works in *flush*: at every close of any descriptor, in the process that closes.

use super::AccessMode;
use super::device::Device;
use super::{copies, memory, rings};

/// A process closes a descriptor.
pub(super) fn flush(device: &Device, pid: u32, mode: AccessMode) {
    if mode == AccessMode::WriteOnly {
        // Of any device, and it drops the marks on all of them.
        device.system.claims.lock().release_all(pid);
        return;
    }
    let count = device.processes.lock().count(pid);
    // 0 is a forked child, which has the descriptor and is not attached.
    if count == 1 {
        clean_up(device, pid);
    }
    if count > 0 {
        device.processes.lock().detach(pid);
    }
}

/// The last reference of a node is gone. No call makes the chunks that would be freed here, those of all processes.
pub(super) fn release(device: &Device) {
    device.datastores.lock().clear(device);
}

/// What a process leaves behind is put away: not semaphores, events, notification queues and their memory, the state of
/// cores, marks made through a full descriptor, nor what device memory holds.
fn clean_up(device: &Device, pid: u32) {
    device.resets.finish(pid);
    rings::park(device, pid);
    // The driver sleeps 10 ms here, for copies that are on their way.
    copies::finish(device);
    device.core_locks.lock().drop_of(pid);
    device.datastores.lock().release(device, pid);
    memory::free_of(device, pid);
}
