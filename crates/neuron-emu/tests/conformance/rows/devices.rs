//! Identity, claims, locks, resets, datastores, messages, pods.

use super::Case;
use crate::node::{Node, address_of};
use xu_abi::driver::errno::Answer::{self, Done, Errno, Positive};
use xu_abi::driver::errno::{
    E2BIG, EACCES, EALREADY, EFAULT, EINVAL, ENOENT, ENOTSUPP, EPROTONOSUPPORT,
};
use xu_abi::driver::ioctl as row;
use xu_abi::driver::{
    AppInfo, CinitSet, CompatibleVersion, Crwl, CrwlNcMap, CrwlNcMapExt, DeviceBasicInfo,
    DeviceBdf, DeviceBdfExt, DeviceDriverInfo, DeviceInfo, DeviceReady, DeviceReset, DmabufFd,
    GetAppsInfo, GetLogicalToPhysicalNcMap, HostDeviceIdToRidMap, NcModelStartedCount,
    NeuronDsInfo, PodCtrl, PodCtrlV2, PodInfo, PodStatus, PodStatusV2, PostMetric, Printk,
};
use zerocopy::{FromBytes, IntoBytes, KnownLayout};

/// A core that a v2 device does not have.
const NO_CORE: u32 = 2;
const OURS: [u8; 32] = [1; 32];
const THEIRS: [u8; 32] = [2; 32];

/// The answer with room for one process.
#[derive(FromBytes, IntoBytes, KnownLayout)]
#[repr(C)]
struct OneApp {
    head: GetAppsInfo,
    app: AppInfo,
}

fn lock(nc_id: u32, uuid: [u8; 32]) -> Crwl {
    Crwl { nc_id, uuid }
}

fn map(nc_count: u32, start_nc_index: u32, end_nc_index: u32) -> CrwlNcMap {
    CrwlNcMap {
        nc_count,
        start_nc_index,
        end_nc_index,
        ..CrwlNcMap::ZEROED
    }
}

fn wide_map(nc_count: u32, start_nc_index: u32, end_nc_index: u32) -> CrwlNcMapExt {
    CrwlNcMapExt {
        nc_count,
        start_nc_index,
        end_nc_index,
        ..CrwlNcMapExt::ZEROED
    }
}

fn text(node: &Node, mut bytes: Vec<u8>) -> Answer {
    let argument = Printk {
        buffer: address_of(&mut bytes[0]),
        size: bytes.len() as u32,
        action: 0,
    };
    node.call(row::PRINTK, argument)
}

fn metric(node: &Node, mut bytes: Vec<u8>) -> Answer {
    let argument = PostMetric {
        data: address_of(&mut bytes[0]),
        data_size: bytes.len() as u32,
        ..PostMetric::ZEROED
    };
    node.call(row::POST_METRIC, argument)
}

fn datastore(pid: i32) -> NeuronDsInfo {
    NeuronDsInfo {
        pid,
        ..NeuronDsInfo::ZEROED
    }
}

fn core_state(nc_id: u32) -> CinitSet {
    CinitSet {
        nc_id,
        state: 1,
        new_state: 0,
    }
}

fn reset(node: &Node) -> u32 {
    let mut reset = DeviceReset {
        nc_map: 1,
        request_id: 0,
    };
    assert_eq!(node.ask(row::NC_RESET, &mut reset), Done);
    reset.request_id
}

fn apps() -> OneApp {
    OneApp {
        head: GetAppsInfo {
            flags: 0xF,
            capacity: 1,
            ..GetAppsInfo::ZEROED
        },
        app: AppInfo::ZEROED,
    }
}

#[rustfmt::skip]
pub(super) const CASES: &[Case] = &[
    Case::new(row::DEVICE_RESET, |n| n.call(row::DEVICE_RESET, 0u64), Done, |n| n.on_misc(row::DEVICE_RESET, 0u64), Errno(EINVAL)),
    Case::new(row::DEVICE_READY, |n| n.call(row::DEVICE_READY, 0u8), Done, |n| n.blind(row::DEVICE_READY), Positive(1)),
    Case::new(row::DEVICE_INFO, |n| n.call(row::DEVICE_INFO, DeviceInfo::ZEROED), Done, |n| n.blind(row::DEVICE_INFO), Positive(80)),
    Case::new(row::DEVICE_INIT, |n| n.call(row::DEVICE_INIT, 0u64), Done, |n| n.on_misc(row::DEVICE_INIT, 0u64), Errno(EINVAL)),
    Case::new(row::DEVICE_RELEASE, |n| n.call(row::DEVICE_RELEASE, 0u64), Done, |n| n.on_misc(row::DEVICE_RELEASE, 0u64), Errno(EINVAL)),
    Case::new(row::DEVICE_APP_PID, |n| n.call(row::DEVICE_APP_PID, 0u32), Done, |n| n.blind(row::DEVICE_APP_PID), Positive(4)),
    Case::new(row::DEVICE_GET_ALL_APPS_INFO, |n| n.call(row::DEVICE_GET_ALL_APPS_INFO, apps()), Done, |n| n.blind(row::DEVICE_GET_ALL_APPS_INFO), Positive(16)),
    Case::new(row::POST_METRIC, |n| metric(n, vec![1; 128]), Done, |n| metric(n, vec![1; 129]), Errno(E2BIG)),
    Case::new(row::ACQUIRE_NEURON_DS, |n| n.call(row::ACQUIRE_NEURON_DS, datastore(0)), Done, |n| n.call(row::ACQUIRE_NEURON_DS, datastore(1)), Errno(ENOENT)),
    Case::new(row::RELEASE_NEURON_DS, |n| {
        assert_eq!(n.call(row::ACQUIRE_NEURON_DS, datastore(0)), Done);
        n.call(row::RELEASE_NEURON_DS, datastore(0))
    }, Done, |n| n.blind(row::RELEASE_NEURON_DS), Positive(24)),
    // Only with the identity that a writer has given the core.
    Case::new(row::CRWL_READER_ENTER, |n| {
        assert_eq!(n.call(row::CRWL_WRITER_ENTER, lock(0, OURS)), Done);
        assert_eq!(n.call(row::CRWL_WRITER_DOWNGRADE, lock(0, OURS)), Done);
        n.call(row::CRWL_READER_ENTER, lock(0, OURS))
    }, Done, |n| n.call(row::CRWL_READER_ENTER, lock(8, OURS)), Errno(EINVAL)),
    Case::new(row::CRWL_READER_EXIT, |n| {
        assert_eq!(n.call(row::CRWL_WRITER_ENTER, lock(0, OURS)), Done);
        assert_eq!(n.call(row::CRWL_WRITER_DOWNGRADE, lock(0, OURS)), Done);
        n.call(row::CRWL_READER_EXIT, lock(0, OURS))
    }, Done, |n| n.call(row::CRWL_READER_EXIT, lock(0, THEIRS)), Errno(ENOENT)),
    Case::new(row::CRWL_WRITER_ENTER, |n| n.call(row::CRWL_WRITER_ENTER, lock(0, OURS)), Done, |n| {
        assert_eq!(n.call(row::CRWL_WRITER_ENTER, lock(0, OURS)), Done);
        n.call(row::CRWL_WRITER_ENTER, lock(0, OURS))
    }, Errno(EALREADY)),
    Case::new(row::CRWL_WRITER_DOWNGRADE, |n| {
        assert_eq!(n.call(row::CRWL_WRITER_ENTER, lock(0, OURS)), Done);
        n.call(row::CRWL_WRITER_DOWNGRADE, lock(0, OURS))
    }, Done, |n| n.call(row::CRWL_WRITER_DOWNGRADE, lock(0, THEIRS)), Errno(ENOENT)),
    Case::new(row::CRWL_NC_RANGE_MARK, |n| n.on_misc(row::CRWL_NC_RANGE_MARK, map(1, 0, 1)), Done, |n| n.on_misc(row::CRWL_NC_RANGE_MARK, map(1, 1, 0)), Errno(EINVAL)),
    Case::new(row::CRWL_NC_RANGE_MARK_EXT0, |n| n.on_misc(row::CRWL_NC_RANGE_MARK_EXT0, wide_map(1, 0, 1)), Done, |n| n.on_misc(row::CRWL_NC_RANGE_MARK_EXT0, wide_map(1, 1, 0)), Errno(EINVAL)),
    Case::new(row::CRWL_NC_RANGE_UNMARK, |n| n.on_misc(row::CRWL_NC_RANGE_UNMARK, map(1, 0, 1)), Done, |n| n.blind(row::CRWL_NC_RANGE_UNMARK), Positive(24)),
    Case::new(row::CRWL_NC_RANGE_UNMARK_EXT0, |n| n.on_misc(row::CRWL_NC_RANGE_UNMARK_EXT0, wide_map(1, 0, 1)), Done, |n| n.blind(row::CRWL_NC_RANGE_UNMARK_EXT0), Positive(80)),
    Case::new(row::CINIT_SET_STATE, |n| n.call(row::CINIT_SET_STATE, core_state(0)), Done, |n| n.call(row::CINIT_SET_STATE, core_state(NO_CORE)), Errno(E2BIG)),
    Case::new(row::NC_MODEL_STARTED_COUNT, |n| n.call(row::NC_MODEL_STARTED_COUNT, NcModelStartedCount::ZEROED), Done,
        |n| n.call(row::NC_MODEL_STARTED_COUNT, NcModelStartedCount { nc_id: NO_CORE, ..NcModelStartedCount::ZEROED }), Errno(E2BIG)),
    Case::new(row::COMPATIBLE_VERSION, |n| n.on_misc(row::COMPATIBLE_VERSION, CompatibleVersion::ZEROED), Done, |n| n.blind(row::COMPATIBLE_VERSION), Positive(8)),
    Case::new(row::DEVICE_BASIC_INFO, |n| n.on_misc(row::DEVICE_BASIC_INFO, DeviceBasicInfo::ZEROED), Done, |n| n.blind(row::DEVICE_BASIC_INFO), Positive(8)),
    Case::new(row::DEVICE_BDF, |n| n.call(row::DEVICE_BDF, DeviceBdf::ZEROED), Done, |n| n.blind(row::DEVICE_BDF), Positive(8)),
    Case::new(row::NC_RESET, |n| n.call(row::NC_RESET, DeviceReset { nc_map: 1, request_id: 0 }), Done, |n| n.blind(row::NC_RESET), Positive(8)),
    Case::new(row::NC_RESET_READY, |n| {
        let mut ready = DeviceReady { request_id: reset(n), result: -1 };
        let answer = n.ask(row::NC_RESET_READY, &mut ready);
        assert_eq!(ready.result, 0);
        answer
    }, Done, |n| {
        // What nobody asked for: the call succeeds, and its result says that it has failed.
        let mut ready = DeviceReady { request_id: 1, result: -1 };
        assert_eq!(n.ask(row::NC_RESET_READY, &mut ready), Done);
        assert_eq!(ready.result, 1);
        n.blind(row::NC_RESET_READY)
    }, Positive(8)),
    Case::new(row::DEVICE_BDF_EXT, |n| n.on_misc(row::DEVICE_BDF_EXT, DeviceBdfExt::ZEROED), Done, |n| n.on_misc(row::DEVICE_BDF_EXT, DeviceBdfExt { nd_index: 1, ..DeviceBdfExt::ZEROED }), Errno(EINVAL)),
    Case::new(row::DEVICE_RESET_STATUS, |n| {
        let mut status = 0u8;
        let answer = n.ask(row::DEVICE_RESET_STATUS, &mut status);
        assert_eq!(status, 1);
        answer
    }, Done, |n| n.blind(row::DEVICE_RESET_STATUS), Positive(1)),
    // As on a kernel that is too old.
    Case::new(row::DMABUF_FD, |n| n.on_misc(row::DMABUF_FD, DmabufFd::ZEROED), Errno(EPROTONOSUPPORT), |n| n.blind(row::DMABUF_FD), Positive(24)),
    Case::new(row::DRIVER_INFO_GET, |n| n.on_misc(row::DRIVER_INFO_GET, DeviceDriverInfo::ZEROED), Done, |n| n.blind(row::DRIVER_INFO_GET), Positive(24)),
    Case::new(row::DRIVER_INFO_SET, |n| n.call(row::DRIVER_INFO_SET, DeviceDriverInfo::ZEROED), Errno(ENOTSUPP), |n| n.detached(row::DRIVER_INFO_SET, DeviceDriverInfo::ZEROED), Errno(EACCES)),
    Case::new(row::PRINTK, |n| text(n, b"hello\0".to_vec()), Done, |n| text(n, vec![0; 513]), Errno(EFAULT)),
    Case::new(row::HOST_DEVICE_ID, |n| n.call(row::HOST_DEVICE_ID, 7u32), Done, |n| n.blind(row::HOST_DEVICE_ID), Positive(4)),
    Case::new(row::HOST_DEVICE_ID_TO_RID_MAP, |n| n.on_misc(row::HOST_DEVICE_ID_TO_RID_MAP, HostDeviceIdToRidMap::ZEROED), Done, |n| n.blind(row::HOST_DEVICE_ID_TO_RID_MAP), Positive(260)),
    Case::new(row::NC_PID_STATE_DUMP, |n| n.on_misc(row::NC_PID_STATE_DUMP, [0u64; 2]), Done, |n| n.blind(row::NC_PID_STATE_DUMP), Positive(16)),
    // The specification does not name the fields of these two.
    Case::new(row::HBM_SCRUB_START, |n| n.call(row::HBM_SCRUB_START, [0u64; 2]), Errno(EINVAL), |n| n.on_misc(row::HBM_SCRUB_START, [0u64; 2]), Errno(EINVAL)),
    Case::new(row::HBM_SCRUB_WAIT, |n| n.call(row::HBM_SCRUB_WAIT, 0u64), Errno(EINVAL), |n| n.on_misc(row::HBM_SCRUB_WAIT, 0u64), Errno(EINVAL)),
    // Of v2, whatever is asked.
    Case::new(row::GET_LOGICAL_TO_PHYSICAL_NC_MAP, |n| n.on_misc(row::GET_LOGICAL_TO_PHYSICAL_NC_MAP, GetLogicalToPhysicalNcMap::ZEROED), Errno(ENOTSUPP),
        |n| n.blind(row::GET_LOGICAL_TO_PHYSICAL_NC_MAP), Errno(ENOTSUPP)),
    Case::new(row::POD_INFO, |n| n.on_misc(row::POD_INFO, PodInfo { sz: 260, ..PodInfo::ZEROED }), Done, |n| n.on_misc(row::POD_INFO, PodInfo::ZEROED), Errno(EINVAL)),
    Case::new(row::POD_STATUS, |n| n.on_misc(row::POD_STATUS, PodStatus { sz: 268, ..PodStatus::ZEROED }), Done, |n| n.on_misc(row::POD_STATUS, PodStatus::ZEROED), Errno(EINVAL)),
    Case::new(row::POD_STATUS_V2, |n| n.on_misc(row::POD_STATUS_V2, PodStatusV2 { sz: 276, ..PodStatusV2::ZEROED }), Done, |n| n.on_misc(row::POD_STATUS_V2, PodStatusV2::ZEROED), Errno(EINVAL)),
    // An emulated host is in no pod.
    Case::new(row::POD_CTRL, |n| n.on_misc(row::POD_CTRL, PodCtrl { sz: 16, ..PodCtrl::ZEROED }), Errno(EINVAL), |n| n.blind(row::POD_CTRL), Positive(16)),
    Case::new(row::POD_CTRL_V2, |n| n.on_misc(row::POD_CTRL_V2, PodCtrlV2 { sz: 20, ..PodCtrlV2::ZEROED }), Errno(EINVAL), |n| n.blind(row::POD_CTRL_V2), Positive(20)),
];
