//! The files of sysfs.

use crate::program::{Program, ReadWrite, emulator};
use neuron_emu::Emulator;
use neuron_emu::config::{DriverFault, DriverRule};
use std::fs;
use xu_abi::driver::Arch;
use xu_abi::driver::errno::{Answer, EBUSY, EINVAL, ENOENT};
use xu_abi::driver::ioctl::{MEM_ALLOC_V2MT64, MEM_FREE, NC_RESET};
use xu_abi::driver::{DeviceReset, MemAllocV2MemType64, MemFree, MemType};

fn text(emulator: &Emulator, path: &str) -> String {
    let root = emulator.sysfs_root().unwrap();
    fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn of_node(emulator: &Emulator, path: &str) -> String {
    text(emulator, &format!("class/neuron_device/neuron0/{path}"))
}

#[test]
fn device_and_cores_say_what_they_are() {
    for (arch, cores, names) in [
        (Arch::V2, 2, ["NDv2\n", "Trn1\n", "Trainium1\n", "NCv2\n"]),
        (Arch::V3, 8, ["NDv3\n", "Trn2\n", "Trainium2\n", "NCv3\n"]),
    ] {
        let emulator = emulator(|c| {
            c.arch = arch;
            c.devices = 3;
        });
        assert_eq!(text(&emulator, "module/neuron/version"), "2.24.7.0\n");
        assert_eq!(of_node(&emulator, "core_count"), cores.to_string());
        assert_eq!(of_node(&emulator, "connected_devices"), "1, 2\n");
        assert_eq!(of_node(&emulator, "reset"), "1\n");
        assert_eq!(of_node(&emulator, "info/serial_number").trim().len(), 16);
        let last = cores - 1;
        let found = [
            of_node(&emulator, "info/architecture/arch_type"),
            of_node(&emulator, "info/architecture/instance_type"),
            of_node(&emulator, "info/architecture/device_name"),
            of_node(
                &emulator,
                &format!("neuron_core{last}/info/architecture/arch_type"),
            ),
        ];
        assert_eq!(found, names);
        for path in [
            "stats/hardware/sram_ecc_uncorrected",
            "stats/power/utilization",
            "neuron_core0/stats/status/success/total",
            "neuron_core0/stats/status/hw_repairable_hbm_ue_error/present",
            "neuron_core1/stats/tensor_engine/pe_cntrs",
            "neuron_core1/stats/memory_usage/device_mem/collectives/peak",
        ] {
            assert!(!of_node(&emulator, path).is_empty());
        }
    }
}

#[test]
fn memory_in_use_is_counted_by_kind_and_by_core() {
    let emulator = emulator(|_| ());
    let program = Program::new(&emulator, 1);
    let file = program.open();
    let handle = crate::program::BUFFER;
    let allocate = |mem_type: MemType, host_memory, nc_id| {
        program.put(handle, &[0; 8]);
        let mut alloc = MemAllocV2MemType64 {
            size: 8192,
            host_memory,
            nc_id,
            mem_type: mem_type.raw(),
            mem_handle: handle,
            ..MemAllocV2MemType64::ZEROED
        };
        let answer = program.call(file, &MEM_ALLOC_V2MT64, &mut alloc);
        assert_eq!(answer, Answer::Done);
        u64::from_ne_bytes(program.get(handle).try_into().unwrap())
    };
    emulator.sysfs_root().unwrap();
    allocate(MemType::TensorsHost, 1, 0);
    let code = allocate(MemType::CodeDevice, 0, 1);
    emulator.refresh_sysfs().unwrap();
    let host = "stats/memory_usage/host_mem/tensors/total";
    let device = "neuron_core1/stats/memory_usage/device_mem";
    assert_eq!(of_node(&emulator, host), "8192\n");
    let read = |file| {
        let path = format!("{device}/{file}");
        of_node(&emulator, &path)
    };
    assert_eq!(read("model_code/total"), "8192\n");
    assert_eq!(read("total"), "8192\n");
    let mut free = MemFree { mem_handle: code };
    assert_eq!(program.call(file, &MEM_FREE, &mut free), Answer::Done);
    emulator.refresh_sysfs().unwrap();
    assert_eq!(read("model_code/total"), "0\n");
    assert_eq!(read("model_code/present"), "-8192\n");
    assert_eq!(read("model_code/peak"), "8192\n");
    // A file that is opened is made anew.
    allocate(MemType::CodeDevice, 0, 1);
    assert_eq!(read("model_code/total"), "0\n");
    emulator.opening("/etc/passwd".as_ref());
    assert_eq!(read("model_code/total"), "0\n");
    let root = emulator.sysfs_root().unwrap();
    emulator.opening(&root.join("class/neuron_device/neuron0/reset"));
    assert_eq!(read("model_code/total"), "8192\n");
    // A process that is done has its files rewritten without being asked for.
    program.close(file);
    assert_eq!(of_node(&emulator, host), "0\n");
}

#[test]
fn resets_are_counted_and_an_idle_device_can_be_reset_by_root() {
    let emulator = emulator(|c| {
        c.driver_faults = vec![DriverRule::once(DriverFault::ResetFails, 0)];
    });
    let program = Program::new(&emulator, 1);
    let file = program.open();
    let mut reset = DeviceReset {
        nc_map: 0b10,
        ..DeviceReset::ZEROED
    };
    program.call(file, &NC_RESET, &mut reset);
    assert_eq!(emulator.reset_node(0), Err(EBUSY));
    assert_eq!(emulator.reset_node(1), Err(ENOENT));
    program.close(file);
    assert_eq!(of_node(&emulator, "reset"), "2\n");
    assert_eq!(program.try_open(0, ReadWrite), Err(EINVAL));
    assert_eq!(emulator.reset_node(0), Ok(()));
    assert_eq!(of_node(&emulator, "reset"), "1\n");
    let count = |core, what| {
        let path = format!("neuron_core{core}/stats/other_info/{what}/total");
        of_node(&emulator, &path)
    };
    assert_eq!(count(0, "reset_req_count"), "1\n");
    assert_eq!(count(1, "reset_req_count"), "2\n");
    assert_eq!(count(1, "reset_fail_count"), "1\n");
    assert!(program.try_open(0, ReadWrite).is_ok());
}

#[test]
fn the_directory_goes_with_the_emulator() {
    let (one, two) = (emulator(|_| ()), emulator(|_| ()));
    let roots = [&one, &two].map(|emulator| emulator.sysfs_root().unwrap());
    assert_ne!(roots[0], roots[1]);
    assert_eq!(one.sysfs_root().unwrap(), roots[0]);
    drop(one);
    assert!(!roots[0].exists());
    assert!(roots[1].exists());
}
