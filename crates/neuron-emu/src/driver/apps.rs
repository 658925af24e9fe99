//! Which processes use a device, for those who ask the driver.
//!
//! Spec `driver.md` sections 2 and 3.

use super::call::{Call, Handled};
use super::device::Device;
use super::memory;
use xu_abi::driver::{AppInfo, GetAppsInfo};

/// Flag of GET_ALL_APPS_INFO: locks.
const LOCKS: u16 = 1;
/// Flag of GET_ALL_APPS_INFO: memory.
const MEMORY: u16 = 2;

/// DEVICE_APP_PID: the process in slot 0, or 0.
pub(super) fn device_app_pid(call: &Call<'_>) -> Handled {
    let pid = call.device.processes.lock().first().unwrap_or(0);
    Ok(call.answer(&pid)?)
}

/// DEVICE_GET_ALL_APPS_INFO. Processes for which there is no room are left out.
pub(super) fn device_get_all_apps_info(call: &Call<'_>) -> Handled {
    let mut head: GetAppsInfo = call.argument()?;
    let attached = call.device.processes.lock().attached();
    // CAST: widening, here and below.
    let listed = attached.iter().take(head.capacity as usize);
    // CAST: at most 16.
    head.size = listed.len() as u32;
    call.answer(&head)?;
    let first = call.argument.wrapping_add(GetAppsInfo::ABI.size as u64);
    for (index, (pid, _)) in (0..).zip(listed) {
        let place = first.wrapping_add(AppInfo::ABI.size as u64 * index);
        call.store(place, &app(call.device, *pid, head.flags))?;
    }
    Ok(())
}

fn app(device: &Device, pid: u32, flags: u16) -> AppInfo {
    let mut app = AppInfo {
        pid,
        ..AppInfo::ZEROED
    };
    if flags & LOCKS != 0 {
        for (core, uuid) in device.core_locks.lock().held_by(pid) {
            app.nc_lock_map |= 1 << core;
            // The structure has room for four cores.
            if let Some(place) = app.uuid.get_mut(core) {
                *place = uuid;
            }
        }
    }
    if flags & MEMORY != 0 {
        [app.host_mem_size, app.device_mem_size] =
            memory::usage(device).get(&pid).copied().unwrap_or_default();
    }
    app
}
