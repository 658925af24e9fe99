//! The kernel module, and whether there is hardware for it.

use super::finding::Finding;
use super::host::{Host, names};
use nrta::neuron::abi::Arch;

/// The vendor of the devices.
const VENDOR: &str = "0x1d0f";
/// The release of the driver that this program was written against.
const KNOWN: &str = "2.24.7.0";

/// Looks for devices on the PCI bus and for the module; returns the number of devices on the bus.
pub(super) fn examine(host: &Host, findings: &mut Vec<Finding>) -> usize {
    let devices = pci_devices(host);
    if devices.is_empty() {
        findings.push(Finding::ok("pci devices", "none of a kind that is known"));
    } else {
        findings.push(Finding::ok("pci devices", devices.join(", ")));
    }
    findings.push(module(host, !devices.is_empty()));
    devices.len()
}

fn module(host: &Host, has_hardware: bool) -> Finding {
    let topic = "kernel module";
    if host.sys.join("module/neuron").is_dir() {
        let version = host.sys_file("module/neuron/version");
        return match version {
            Some(version) => {
                Finding::ok(topic, format!("neuron {version} (written against {KNOWN})"))
            }
            None => Finding::warning(
                topic,
                "neuron, of a version that cannot be read",
                "compare `modinfo neuron` with 2.24.7.0; the interface version below is what counts",
            ),
        };
    }
    if !has_hardware {
        return Finding::ok(topic, "not loaded, and no hardware for it is seen");
    }
    Finding::problem(
        topic,
        "not loaded, although there is hardware",
        "`sudo modprobe neuron`; if there is no such module, install the package aws-neuronx-dkms; then `dmesg | grep -i neuron`",
    )
}

/// Address and kind of every device on the bus that is known.
fn pci_devices(host: &Host) -> Vec<String> {
    let bus = host.sys.join("bus/pci/devices");
    let attribute = |address: &str, name: &str| {
        host.sys_file(&format!("bus/pci/devices/{address}/{name}"))
            .unwrap_or_default()
    };
    let known = |address: &String| {
        if attribute(address, "vendor") != VENDOR {
            return None;
        }
        let id = attribute(address, "device");
        let id = u16::from_str_radix(id.strip_prefix("0x")?, 16).ok()?;
        Some(format!("{address} {}", kind(id)?))
    };
    names(&bus).iter().filter_map(known).collect()
}

fn kind(id: u16) -> Option<String> {
    let arch = Arch::ALL
        .iter()
        .find(|arch| arch.table().pci_ids.contains(&id))?;
    let name = match id {
        0x7164 => "Trn1",
        0x7264 => "Inf2",
        _ => "Trn2",
    };
    Some(format!("{name} (1d0f:{id:04x}, v{})", arch.raw()))
}

#[cfg(test)]
mod tests {
    use super::super::fake::FakeHost;
    use super::super::finding::Standing;
    use super::*;

    #[test]
    fn hardware_without_its_module_is_a_problem() {
        let fake = FakeHost::new("no-module");
        fake.write("sys/bus/pci/devices/0000:00:1e.0/vendor", "0x1d0f\n")
            .write("sys/bus/pci/devices/0000:00:1e.0/device", "0x7264\n")
            // A network card of the same vendor.
            .write("sys/bus/pci/devices/0000:00:05.0/vendor", "0x1d0f\n")
            .write("sys/bus/pci/devices/0000:00:05.0/device", "0xec20\n")
            // The same number, of somebody else.
            .write("sys/bus/pci/devices/0000:00:06.0/vendor", "0x8086\n")
            .write("sys/bus/pci/devices/0000:00:06.0/device", "0x7264\n");
        let mut findings = Vec::new();
        assert_eq!(examine(&fake.host(), &mut findings), 1);
        assert_eq!(findings[0].value(), "0000:00:1e.0 Inf2 (1d0f:7264, v2)");
        assert_eq!(findings[1].standing(), Standing::Problem);
        assert!(findings[1].remedy().unwrap().contains("modprobe neuron"));
    }

    #[test]
    fn the_module_says_its_version() {
        let fake = FakeHost::new("module");
        fake.with_driver("2.99.1");
        let mut findings = Vec::new();
        examine(&fake.host(), &mut findings);
        assert!(findings[1].value().starts_with("neuron 2.99.1"));
    }
}
