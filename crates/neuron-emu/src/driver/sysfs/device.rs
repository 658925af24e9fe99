//! The files of a device.

use super::node;
use super::tree::Tree;
use crate::driver::device::Device;
use crate::driver::identity;
use std::io;
use xu_abi::driver::Arch;

/// Counts of the firmware, which has none to tell.
const HARDWARE: [&str; 3] = [
    "sram_ecc_uncorrected",
    "mem_ecc_uncorrected",
    "mem_ecc_repairable_uncorrected",
];

/// What does not change.
pub(super) fn write_constants(tree: &mut Tree, device: &Device) -> io::Result<()> {
    let node = node(device);
    let (instance, name, core) = match device.config().arch {
        Arch::V2 => ("Trn1", "Trainium1", "NCv2"),
        Arch::V3 => ("Trn2", "Trainium2", "NCv3"),
    };
    let arch = match device.config().arch {
        Arch::V2 => "NDv2",
        Arch::V3 => "NDv3",
    };
    let neighbours: Vec<String> = identity::neighbours(device)
        .iter()
        .map(ToString::to_string)
        .collect();
    let serial = 0x1D0F_0000_0000_0000_u64 | u64::from(device.index);
    for (path, text, mode) in [
        ("core_count", device.cores().to_string(), 0o400),
        (
            "connected_devices",
            format!("{}\n", neighbours.join(", ")),
            0o400,
        ),
        ("info/serial_number", format!("{serial:016x}\n"), 0o644),
        ("info/notify_delay", "-1\n".to_owned(), 0o644),
        ("info/architecture/arch_type", format!("{arch}\n"), 0o644),
        (
            "info/architecture/instance_type",
            format!("{instance}\n"),
            0o644,
        ),
        ("info/architecture/device_name", format!("{name}\n"), 0o644),
        (
            "stats/power/utilization",
            "POWER_STATUS_NO_DATA,0,0,0,0\n".to_owned(),
            0o644,
        ),
    ] {
        tree.write(&format!("{node}/{path}"), &text, mode)?;
    }
    for count in HARDWARE {
        tree.write(&format!("{node}/stats/hardware/{count}"), "0\n", 0o644)?;
    }
    for index in 0..device.cores() {
        let path = format!("{node}/neuron_core{index}/info/architecture/arch_type");
        tree.write(&path, &format!("{core}\n"), 0o644)?;
    }
    Ok(())
}

/// Whether it is ready.
pub(super) fn write_state(tree: &mut Tree, device: &Device) -> io::Result<()> {
    let state = device.resets.state().number();
    let path = format!("{}/reset", node(device));
    tree.write(&path, &format!("{state}\n"), 0o600)
}
