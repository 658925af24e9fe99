//! Who driver and device are.
//!
//! Spec `driver.md` section 3, identity and version; `driver_emulation.md` section 3. All of it can be overridden by
//! [`Identity`](crate::config::Identity).

use super::bug::Bug;
use super::call::{Call, Failure, Handled};
use super::device::Device;
use xu_abi::driver::arch::v3_core_order;
use xu_abi::driver::errno::{EINVAL, ENOTSUPP};
use xu_abi::driver::{
    Arch, CompatibleVersion, DeviceBasicInfo, DeviceBdf, DeviceBdfExt, DeviceDriverInfo,
    DeviceInfo, GetLogicalToPhysicalNcMap, HostDeviceIdToRidMap, MAX_DEVICES, NcMap, NcMapEntry,
};

/// COMPATIBLE_VERSION.
pub(super) fn compatible_version(call: &Call<'_>) -> Handled {
    let own = call.device.table().versions;
    let versions = call.device.config().identity.versions.unwrap_or(own);
    Ok(call.answer(&CompatibleVersion {
        max: versions.max,
        min: versions.min,
    })?)
}

/// DEVICE_BASIC_INFO.
pub(super) fn device_basic_info(call: &Call<'_>) -> Handled {
    Ok(call.answer(&DeviceBasicInfo {
        architecture: call.device.config().arch.raw(),
        revision: call.device.config().identity.revision,
    })?)
}

/// DRIVER_INFO_GET, which an older driver does not know.
pub(super) fn driver_info_get(call: &Call<'_>) -> Handled {
    let config = call.device.config();
    if !config.identity.driver_info {
        return Err(Failure::Errno(EINVAL));
    }
    Ok(call.answer(&DeviceDriverInfo {
        architecture: config.arch.raw(),
        revision: config.identity.revision,
        version: 0,
        // CAST: 24.
        size: DeviceDriverInfo::ABI.size as u32,
        feature_flags1: config.identity.features.raw(),
    })?)
}

/// DRIVER_INFO_SET: the kernel's own number for "not supported".
pub(super) fn driver_info_set(_call: &Call<'_>) -> Handled {
    Err(Failure::Errno(ENOTSUPP))
}

/// DEVICE_INFO.
pub(super) fn device_info(call: &Call<'_>) -> Handled {
    let device = call.device;
    let neighbours = neighbours(device);
    let mut connected_devices = [0; 8];
    for (place, index) in connected_devices.iter_mut().zip(&neighbours) {
        *place = *index;
    }
    let (bar0, memory) = (device.bar0(), device.table());
    // CAST: at most 4 HBMs.
    let bar4 = memory.hbm_bar4_stride * memory.hbm.len() as u64;
    Ok(call.answer(&DeviceInfo {
        architecture: device.config().arch.raw(),
        revision: device.config().identity.revision,
        // CAST: at most 2.
        connected_device_count: neighbours.len() as u32,
        connected_devices,
        // BAR4 has no address that user space could use.
        bar_address: [bar0.address, 0],
        bar_size: [bar0.bytes, bar4],
        ..DeviceInfo::ZEROED
    })?)
}

/// The devices beside this one, in a ring of all.
pub(super) fn neighbours(device: &Device) -> Vec<u32> {
    let (index, count) = (device.index, device.config().devices);
    let mut neighbours = vec![(index + count - 1) % count, (index + 1) % count];
    neighbours.retain(|neighbour| *neighbour != index);
    neighbours.sort_unstable();
    neighbours.dedup();
    neighbours
}

/// DEVICE_BDF.
pub(super) fn device_bdf(call: &Call<'_>) -> Handled {
    let bdf = call.device.config().identity.bdf;
    Ok(call.answer(&DeviceBdf {
        bus: bdf.bus.wrapping_add(call.device.index),
        slot: bdf.slot,
        func: bdf.func,
        ..DeviceBdf::ZEROED
    })?)
}

/// DEVICE_BDF_EXT: of another device, counted from this one.
pub(super) fn device_bdf_ext(call: &Call<'_>) -> Handled {
    let mut argument: DeviceBdfExt = call.argument()?;
    let index = argument.nd_index.wrapping_add(call.device.index);
    if index >= MAX_DEVICES {
        let what = format!(
            "DEVICE_BDF_EXT of device {} from device {}",
            argument.nd_index, call.device.index
        );
        return Err(Bug { trap: 19, what }.into());
    }
    if index >= call.device.config().devices {
        return Err(Failure::Errno(EINVAL));
    }
    let bdf = call.device.config().identity.bdf;
    argument.domain = bdf.domain;
    argument.bus = bdf.bus.wrapping_add(index);
    argument.slot = bdf.slot;
    argument.func = bdf.func;
    Ok(call.answer(&argument)?)
}

/// HOST_DEVICE_ID: the index.
pub(super) fn host_device_id(call: &Call<'_>) -> Handled {
    Ok(call.answer(&call.device.index)?)
}

/// HOST_DEVICE_ID_TO_RID_MAP: routing ids are indices.
pub(super) fn host_device_id_to_rid_map(call: &Call<'_>) -> Handled {
    let mut map = HostDeviceIdToRidMap::ZEROED;
    map.count = call.device.config().devices;
    for (place, index) in map.map.iter_mut().zip(0..map.count) {
        *place = index;
    }
    Ok(call.answer(&map)?)
}

/// GET_LOGICAL_TO_PHYSICAL_NC_MAP, of the devices that are there. v2 has none.
pub(super) fn get_logical_to_physical_nc_map(call: &Call<'_>) -> Handled {
    let config = call.device.config();
    if config.arch != Arch::V3 {
        return Err(Failure::Errno(ENOTSUPP));
    }
    let argument: GetLogicalToPhysicalNcMap = call.argument()?;
    // CAST: widening, here and below.
    let room = argument.max_map_entries as usize;
    if room > NcMap::ENTRIES || argument.mapping_version != 0 {
        return Err(Failure::Errno(EINVAL));
    }
    let mut entries: Vec<NcMapEntry> = (0..config.devices)
        .flat_map(|device| v3_core_order(device, false).map(|core| (device, core)))
        .map(|(device_id, core)| NcMapEntry {
            device_id,
            device_nc_idx: core.into(),
        })
        .collect();
    entries.truncate(room);
    // CAST: at most 128.
    call.store(argument.map, &(entries.len() as u32))?;
    // The head is 4 bytes: entries follow it.
    let first = argument.map.wrapping_add(4);
    let size = NcMapEntry::ABI.size as u64;
    for (index, entry) in (0..).zip(&entries) {
        call.store(first.wrapping_add(size * index), entry)?;
    }
    Ok(())
}
