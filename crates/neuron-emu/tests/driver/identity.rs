//! Who driver and device are, as configured.

use crate::program::{ARGUMENT, BUFFER, NOWHERE, Program, WriteOnly, emulator};
use neuron_emu::FileId;
use xu_abi::driver::arch::Versions;
use xu_abi::driver::errno::{Answer, EINVAL, ENOTSUPP};
use xu_abi::driver::ioctl::{
    COMPATIBLE_VERSION, DEVICE_APP_PID, DEVICE_BASIC_INFO, DEVICE_BDF, DEVICE_BDF_EXT,
    DEVICE_GET_ALL_APPS_INFO, DEVICE_INFO, DRIVER_INFO_GET, DRIVER_INFO_SET,
    GET_LOGICAL_TO_PHYSICAL_NC_MAP, HOST_DEVICE_ID, HOST_DEVICE_ID_TO_RID_MAP,
};
use xu_abi::driver::{
    AppInfo, Arch, CompatibleVersion, DeviceBasicInfo, DeviceBdf, DeviceBdfExt, DeviceDriverInfo,
    DeviceInfo, Features, GetAppsInfo, GetLogicalToPhysicalNcMap, HostDeviceIdToRidMap, NcMapEntry,
};
use zerocopy::{FromBytes, IntoBytes};

fn versions(program: &Program<'_>, file: FileId) -> (u32, u32) {
    let mut versions = CompatibleVersion::ZEROED;
    let answer = program.call(file, &COMPATIBLE_VERSION, &mut versions);
    assert_eq!(answer, Answer::Done);
    (versions.min, versions.max)
}

#[test]
fn versions_are_those_of_the_architecture_or_as_configured() {
    for (arch, expected) in [(Arch::V2, (5, 7)), (Arch::V3, (10, 11))] {
        let emulator = emulator(|c| c.arch = arch);
        let program = Program::new(&emulator, 1);
        let file = program.try_open(0, WriteOnly).unwrap();
        assert_eq!(versions(&program, file), expected);
    }
    let emulator = emulator(|c| c.identity.versions = Some(Versions { min: 90, max: 91 }));
    let program = Program::new(&emulator, 1);
    let file = program.open();
    assert_eq!(versions(&program, file), (90, 91));
}

#[test]
fn the_driver_says_what_it_can_do_or_does_not_know_the_question() {
    let emulator_of = |driver_info, features| {
        emulator(|c| {
            c.identity.driver_info = driver_info;
            c.identity.features = features;
            c.identity.revision = 255;
        })
    };
    for features in [0xFF, 0] {
        let emulator = emulator_of(true, Features::from_raw(features));
        let program = Program::new(&emulator, 1);
        let file = program.open();
        let mut info = DeviceDriverInfo::ZEROED;
        let answer = program.call(file, &DRIVER_INFO_GET, &mut info);
        assert_eq!(answer, Answer::Done);
        assert_eq!((info.architecture, info.revision, info.size), (2, 255, 24));
        assert_eq!(info.feature_flags1, features);
        let answer = program.call(file, &DRIVER_INFO_SET, &mut info);
        assert_eq!(answer, Answer::Errno(ENOTSUPP));
    }
    let emulator = emulator_of(false, Features::NONE);
    let program = Program::new(&emulator, 1);
    let file = program.open();
    let mut info = DeviceDriverInfo::ZEROED;
    let answer = program.call(file, &DRIVER_INFO_GET, &mut info);
    assert_eq!(answer, Answer::Errno(EINVAL));
    let mut basic = DeviceBasicInfo::ZEROED;
    let answer = program.call(file, &DEVICE_BASIC_INFO, &mut basic);
    assert_eq!(answer, Answer::Done);
    assert_eq!((basic.architecture, basic.revision), (2, 255));
}

#[test]
fn each_device_has_its_own_place_neighbours_and_registers() {
    let emulator = emulator(|c| {
        c.devices = 4;
        c.identity.bdf.domain = 3;
        c.identity.bdf.bus = 0x20;
        c.identity.bdf.slot = 0x1E;
    });
    let program = Program::new(&emulator, 1);
    let mut bases = Vec::new();
    for (node, neighbours) in [(0, [1, 3]), (1, [0, 2]), (2, [1, 3]), (3, [0, 2])] {
        let file = program.try_open(node, super::program::ReadWrite).unwrap();
        let mut info = DeviceInfo::ZEROED;
        let answer = program.call(file, &DEVICE_INFO, &mut info);
        assert_eq!(answer, Answer::Done);
        assert_eq!(info.connected_device_count, 2);
        assert_eq!(info.connected_devices[..2], neighbours);
        assert!(info.bar_size[0] > 0xF2C0_0000);
        bases.push(info.bar_address[0]);

        let mut bdf = DeviceBdf::ZEROED;
        assert_eq!(program.call(file, &DEVICE_BDF, &mut bdf), Answer::Done);
        assert_eq!((bdf.bus, bdf.slot, bdf.func), (0x20 + node, 0x1E, 0));

        let mut index = 99_u32;
        let answer = program.call(file, &HOST_DEVICE_ID, &mut index);
        assert_eq!((answer, index), (Answer::Done, node));
    }
    bases.dedup();
    assert_eq!(bases.len(), 4);
}

#[test]
fn a_device_beside_another_is_counted_from_it() {
    let emulator = emulator(|c| c.devices = 3);
    let program = Program::new(&emulator, 1);
    let file = program.try_open(1, WriteOnly).unwrap();
    let bdf_of = |nd_index| {
        let mut bdf = DeviceBdfExt {
            nd_index,
            ..DeviceBdfExt::ZEROED
        };
        let answer = program.call(file, &DEVICE_BDF_EXT, &mut bdf);
        (answer, bdf.bus)
    };
    assert_eq!(bdf_of(1), (Answer::Done, 0x12));
    assert_eq!(bdf_of(2).0, Answer::Errno(EINVAL));
    assert_eq!(bdf_of(62).0, Answer::Errno(EINVAL));
    assert_eq!(emulator.bugs(), []);
}

#[test]
fn trap_19_the_place_of_device_64_stops_the_device() {
    for nd_index in [63, u32::MAX - 1] {
        let emulator = emulator(|c| c.devices = 2);
        let program = Program::new(&emulator, 1);
        let file = program.try_open(1, WriteOnly).unwrap();
        let mut bdf = DeviceBdfExt {
            nd_index,
            ..DeviceBdfExt::ZEROED
        };
        let answer = program.call(file, &DEVICE_BDF_EXT, &mut bdf);
        assert_eq!(answer, Answer::Errno(super::faults::DEAD));
        assert_eq!(emulator.bugs()[0].trap, 19);
    }
}

#[test]
fn routing_ids_are_indices() {
    let emulator = emulator(|c| c.devices = 3);
    let program = Program::new(&emulator, 1);
    let file = program.try_open(0, WriteOnly).unwrap();
    let mut map = HostDeviceIdToRidMap::ZEROED;
    let answer = program.call(file, &HOST_DEVICE_ID_TO_RID_MAP, &mut map);
    assert_eq!((answer, map.count), (Answer::Done, 3));
    assert_eq!(map.map[..4], [0, 1, 2, 0]);
}

#[test]
fn v2_has_no_logical_cores_and_leaks_the_kernels_number() {
    let emulator = emulator(|_| ());
    let program = Program::new(&emulator, 1);
    let file = program.open();
    let mut map = GetLogicalToPhysicalNcMap::ZEROED;
    let answer = program.call(file, &GET_LOGICAL_TO_PHYSICAL_NC_MAP, &mut map);
    assert_eq!(answer, Answer::Errno(524));
}

#[test]
fn v3_says_where_each_logical_core_is() {
    let emulator = emulator(|c| {
        c.arch = Arch::V3;
        c.devices = 2;
    });
    let program = Program::new(&emulator, 1);
    let file = program.open();
    let ask = |entries, version, address| {
        let mut map = GetLogicalToPhysicalNcMap {
            map: address,
            max_map_entries: entries,
            mapping_version: version,
        };
        program.call(file, &GET_LOGICAL_TO_PHYSICAL_NC_MAP, &mut map)
    };
    program.put(BUFFER, &[0xEE; 4 + 128 * 8]);
    assert_eq!(ask(128, 0, BUFFER), Answer::Done);
    let bytes = program.get(BUFFER);
    assert_eq!(bytes[..4], 16_u32.to_ne_bytes());
    let entry = |index: usize| NcMapEntry::read_from_prefix(&bytes[4 + 8 * index..]);
    let place = |index| {
        let (entry, _) = entry(index).unwrap();
        (entry.device_id, entry.device_nc_idx)
    };
    assert_eq!((place(0), place(4), place(8)), ((0, 4), (0, 2), (1, 2)));
    assert_eq!(bytes[4 + 16 * 8..], [0xEE; 112 * 8]);
    program.put(BUFFER, &[0xEE; 4 + 8]);
    assert_eq!(ask(1, 0, BUFFER), Answer::Done);
    assert_eq!(program.get(BUFFER)[..4], 1_u32.to_ne_bytes());
    assert_eq!(ask(129, 0, BUFFER), Answer::Errno(EINVAL));
    assert_eq!(ask(128, 1, BUFFER), Answer::Errno(EINVAL));
    assert_eq!(ask(128, 0, NOWHERE), Answer::Positive(4));
}

#[test]
fn attached_processes_are_listed_as_far_as_there_is_room() {
    let emulator = emulator(|_| ());
    let programs = [7, 8, 9].map(|pid| Program::new(&emulator, pid));
    let files = programs.each_ref().map(Program::open);
    let mut first = 0_u32;
    let answer = programs[2].call(files[2], &DEVICE_APP_PID, &mut first);
    assert_eq!((answer, first), (Answer::Done, 7));

    let mut bytes = GetAppsInfo {
        flags: 0xF,
        capacity: 2,
        ..GetAppsInfo::ZEROED
    }
    .as_bytes()
    .to_vec();
    bytes.resize(16 + 3 * 152, 0xEE);
    programs[0].put(ARGUMENT, &bytes);
    let request = DEVICE_GET_ALL_APPS_INFO.request();
    let answer = programs[0].request(files[0], request, ARGUMENT);
    assert_eq!(answer, Answer::Done);
    let bytes = programs[0].get(ARGUMENT);
    let (head, apps) = GetAppsInfo::read_from_prefix(&bytes).unwrap();
    assert_eq!(head.size, 2);
    let (app, apps) = AppInfo::read_from_prefix(apps).unwrap();
    assert_eq!(app.pid, 7);
    let (app, rest) = AppInfo::read_from_prefix(apps).unwrap();
    assert_eq!(app.pid, 8);
    assert_eq!(rest, [0xEE; 152]);
}
