//! The files of a device.

use super::node;
use super::tree::{COUNTER, Tree};
use crate::driver::device::Device;
use crate::driver::identity;
use std::io;
use xu_abi::driver::Arch;

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
    for index in 0..device.cores() {
        let path = format!("{node}/neuron_core{index}/info/architecture/arch_type");
        tree.write(&path, &format!("{core}\n"), 0o644)?;
    }
    Ok(())
}

/// Whether it is ready, and what its firmware has counted: for the device as a whole.
pub(super) fn write_state(tree: &mut Tree, device: &Device) -> io::Result<()> {
    let node = node(device);
    let state = device.resets.state().number();
    tree.write(&format!("{node}/reset"), &format!("{state}\n"), 0o600)?;
    let errors = device.memory_errors();
    for (file, count) in [
        ("sram_ecc_uncorrected", errors.sram),
        ("mem_ecc_uncorrected", errors.hbm),
        ("mem_ecc_repairable_uncorrected", errors.hbm_repairable),
    ] {
        let path = format!("{node}/stats/hardware/{file}");
        tree.write(&path, &format!("{count}\n"), COUNTER)?;
    }
    Ok(())
}
