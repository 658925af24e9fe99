//! The device nodes: which there are, and whether this user may open them.

use super::Scope;
use super::finding::Finding;
use super::host::Host;
use nrta::neuron::discovery;
use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

/// What makes nodes for everybody, as the driver's package does.
const UDEV: &str = "as root: echo 'KERNEL==\"neuron*\", MODE=\"0666\"' > /etc/udev/rules.d/60-neuron.rules && udevadm control \
                    --reload && udevadm trigger";

const EMULATED: &str = "expected only of an emulation; else remove the file and reload the module: its nodes are made anew";

/// Looks at the nodes and returns their indices. `pci` is the number of devices on the bus.
pub(super) fn examine(
    host: &Host,
    pci: usize,
    scope: Scope,
    findings: &mut Vec<Finding>,
) -> Vec<u32> {
    let topic = "device nodes";
    let devices = match discovery::devices(&host.dev) {
        Ok(devices) => devices,
        Err(error) => {
            let remedy = "give the directory of the device nodes with --dev";
            findings.push(Finding::problem(topic, error.to_string(), remedy));
            return Vec::new();
        }
    };
    if devices.is_empty() {
        findings.push(none(host, pci, scope));
        return devices;
    }
    let list: Vec<_> = devices
        .iter()
        .map(|index| format!("neuron{index}"))
        .collect();
    findings.push(Finding::ok(
        topic,
        format!("{} in {}", list.join(", "), host.dev.display()),
    ));
    if devices.len() < pci {
        findings.push(Finding::warning(
            topic,
            format!("{} of {pci} devices have a node", devices.len()),
            "in a container: pass the others with --device /dev/neuronN; else `dmesg | grep -i neuron`",
        ));
    }
    findings.extend(devices.iter().map(|index| node(host, *index)));
    devices
}

fn none(host: &Host, pci: usize, scope: Scope) -> Finding {
    let topic = "device nodes";
    let value = format!(
        "no Neuron device: there is no node in {}",
        host.dev.display()
    );
    if pci > 0 {
        return Finding::problem(
            topic,
            value,
            "load the module (above); in a container: pass the nodes with --device /dev/neuron0 and so on",
        );
    }
    let remedy = "work without hardware: `nrta run examples/digits` runs on the simulated machine; for hardware take a Trn1, \
                  Inf2 or Trn2 instance and install aws-neuronx-dkms";
    match scope.needs_device {
        true => Finding::problem(topic, value, remedy),
        false => Finding::warning(topic, value, remedy),
    }
}

/// Owner and mode of a node. Whether it can be opened is tried later: that is the truth.
fn node(host: &Host, index: u32) -> Finding {
    let topic = "node";
    let path = discovery::node(&host.dev, index);
    let metadata = match std::fs::metadata(&path) {
        Ok(metadata) => metadata,
        Err(error) => {
            // An emulation lists its nodes and opens them, and has no files.
            let value = format!("{}: {error}", path.display());
            return Finding::warning(topic, value, EMULATED);
        }
    };
    let value = format!(
        "{}: owner {}:{}, mode {:04o}",
        path.display(),
        metadata.uid(),
        metadata.gid(),
        metadata.mode() & 0o7777
    );
    if !metadata.file_type().is_char_device() {
        return Finding::warning(topic, format!("{value}, no character device"), EMULATED);
    }
    match host.user() {
        Some(user) if user.id != 0 && !is_for_everybody(&metadata) && user.id != metadata.uid() => {
            Finding::warning(topic, format!("{value}, this is user {}", user.id), UDEV)
        }
        _ => Finding::ok(topic, value),
    }
}

fn is_for_everybody(metadata: &Metadata) -> bool {
    metadata.mode() & 0o006 == 0o006
}

/// What to do when a node cannot be opened.
pub(super) fn remedy_of_open(errno: i32) -> &'static str {
    use nrta::neuron::abi::errno;
    match errno {
        errno::EACCES | errno::EPERM => UDEV,
        errno::ENXIO | errno::ENODEV => {
            "the driver has no device behind the node: `dmesg | grep -i neuron`, then reload the module"
        }
        errno::EINVAL => {
            "a reset of the device has failed: as root `echo 1 > /sys/class/neuron_device/neuronN/reset`, or reboot"
        }
        errno::EBUSY => "16 processes are attached: end one of them",
        errno::EMFILE => "raise the limit of descriptors of this shell: `ulimit -n`",
        errno::ENFILE => "raise the limit of descriptors of the system: `sysctl fs.file-max`",
        _ => "`dmesg | grep -i neuron` says what the driver thinks",
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{Device, FakeHost};
    use super::super::finding::Standing;
    use super::*;

    fn found(fake: &FakeHost, pci: usize) -> (Vec<u32>, Vec<Finding>) {
        let mut findings = Vec::new();
        let devices = examine(&fake.host(), pci, Scope::default(), &mut findings);
        (devices, findings)
    }

    #[test]
    fn hardware_without_nodes_is_a_problem_and_no_hardware_is_none() {
        let fake = FakeHost::new("no-nodes");
        assert_eq!(found(&fake, 1).1[0].standing(), Standing::Problem);
        assert_eq!(found(&fake, 0).1[0].standing(), Standing::Warning);
    }

    #[test]
    fn fewer_nodes_than_devices_are_noticed() {
        let fake = FakeHost::new("few-nodes");
        fake.with_device(2, Device::v2());
        let (devices, findings) = found(&fake, 4);
        assert_eq!(devices, [2]);
        assert_eq!(findings[1].value(), "1 of 4 devices have a node");
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let fake = FakeHost::new("no-directory");
        let host = Host {
            dev: "/nowhere/at/all".into(),
            ..fake.host()
        };
        let mut findings = Vec::new();
        examine(&host, 0, Scope::default(), &mut findings);
        assert!(findings[0].value().contains("/nowhere/at/all"));
        assert_eq!(findings[0].standing(), Standing::Problem);
    }

    #[test]
    fn every_error_of_an_open_has_a_remedy_of_its_own() {
        use nrta::neuron::abi::errno::{EACCES, EBUSY, EINVAL, EIO, ENXIO};
        let remedies = [EACCES, EBUSY, EINVAL, EIO, ENXIO].map(remedy_of_open);
        assert!(remedies[0].contains("udev") && remedies[1].contains("16"));
        assert!(remedies[2].contains("reset") && remedies[4].contains("reload"));
    }
}
