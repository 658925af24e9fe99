//! What the driver says of each device, and which cores are taken.
//!
//! Each node is opened for writing only: that attaches nobody, waits for nothing, and is enough for the versions, the identity
//! and the claims. Closing such a descriptor releases the claims of this process, which has none.
//!
//! Who has claimed a core nobody can ask. So each core is claimed and given back at once.

use super::finding::Finding;
use super::host::{Host, size};
use super::nodes::remedy_of_open;
use nrta::neuron::abi::{Arch, Features, errno};
use nrta::neuron::{Claims, DriverError, Identity, Severity};
use std::sync::Arc;

/// A device whose driver has answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reached {
    pub(super) index: u32,
    pub(super) identity: Identity,
}

/// Names of the bits of the feature word.
const FEATURES: [(u64, &str); 8] = [
    (Features::DMABUF, "DMABUF"),
    (Features::ASYNC_DMA, "ASYNC_DMA"),
    (Features::BATCH_DMAQ_INIT, "BATCH_DMAQ_INIT"),
    (Features::BIG_CORE_MAPS, "BIG_CORE_MAPS"),
    (Features::MEM_ALLOC_TYPE, "MEM_ALLOC_TYPE"),
    (Features::HBM_SCRUB, "HBM_SCRUB"),
    (Features::MEM_ALLOC64, "MEM_ALLOC64"),
    (Features::CONTIGUOUS_SCRATCHPAD, "CONTIGUOUS_SCRATCHPAD"),
];

/// Asks every device; returns those that answered.
pub(super) fn examine(host: &Host, devices: &[u32], findings: &mut Vec<Finding>) -> Vec<Reached> {
    let mut reached = Vec::new();
    for index in devices {
        // One after the other: a process has one such descriptor.
        match Claims::open(Arc::clone(&host.kernel), &host.dev, *index) {
            Ok(claims) => {
                let identity = *claims.identity();
                describe(host, *index, &identity, findings);
                findings.extend(cores(*index, &claims));
                reached.push(Reached {
                    index: *index,
                    identity,
                });
            }
            Err(error) => findings.push(unreached(*index, &error)),
        }
    }
    reached
}

fn unreached(index: u32, error: &DriverError) -> Finding {
    let value = format!("neuron{index}: {error}");
    match error {
        DriverError::Open { errno, .. } => {
            let remedy = remedy_of_open(*errno).replace("neuronN", &format!("neuron{index}"));
            Finding::problem("open", error.to_string(), remedy)
        }
        _ if error.severity() == Severity::Device => {
            Finding::problem("device", value, remedy_of_open(errno::ENODEV))
        }
        DriverError::Version { .. } => Finding::problem(
            "interface version",
            value,
            "install a driver whose versions overlap, such as aws-neuronx-dkms 2.24.7.0, or a newer nrta",
        ),
        DriverError::Architecture { .. } => Finding::problem(
            "architecture",
            value,
            "use a Trn1, Inf2 or Trn2 device: others, Inf1 among them, are not supported",
        ),
        _ => Finding::problem(
            "interface version",
            value,
            "whatever is behind the node does not answer as the Neuron driver does: remove the file, reload the module",
        ),
    }
}

fn describe(host: &Host, index: u32, identity: &Identity, findings: &mut Vec<Finding>) {
    let Identity {
        version,
        arch,
        revision,
        features,
        bdf,
    } = identity;
    let versions = arch.table().versions;
    findings.push(Finding::ok(
        "interface version",
        format!(
            "neuron{index}: {version}, supported: {} to {}",
            versions.min, versions.max
        ),
    ));
    let emulated = match revision {
        240 => ", a hardware emulator",
        255 => ", QEMU",
        _ => "",
    };
    findings.push(Finding::ok(
        "device",
        format!(
            "neuron{index}: {}, revision {revision}{emulated}, at {bdf}",
            name(host, index, *arch)
        ),
    ));
    findings.push(feature_word(index, *features));
    let table = arch.table();
    // CAST: at most 4 memories.
    let memories = table.hbm.len() as u64;
    findings.push(Finding::ok(
        "device memory",
        format!(
            "neuron{index}: {memories} x {} by its architecture; {}",
            size(table.hbm_bytes),
            memory_in_use(host, index, table.cores)
        ),
    ));
}

/// The name that sysfs has, or the architecture.
fn name(host: &Host, index: u32, arch: Arch) -> String {
    let said = |file: &str| {
        host.sys_file(&format!(
            "class/neuron_device/neuron{index}/info/architecture/{file}"
        ))
    };
    match (said("device_name"), said("instance_type")) {
        (Some(device), Some(instance)) => format!("{device} ({instance}, v{})", arch.raw()),
        _ => format!("architecture v{}", arch.raw()),
    }
}

fn feature_word(index: u32, features: Features) -> Finding {
    let (has, lacks): (Vec<_>, Vec<_>) = FEATURES.iter().partition(|(bit, _)| features.has(*bit));
    let list = |features: &[&(u64, &str)]| {
        let names: Vec<_> = features.iter().map(|(_, name)| *name).collect();
        names.join(", ")
    };
    let value = format!("neuron{index}: {:#x} ({})", features.raw(), list(&has));
    if lacks.is_empty() {
        return Finding::ok("features", value);
    }
    // Everything but these has an older call to fall back on.
    Finding::warning(
        "features",
        format!("{value}, not {}", list(&lacks)),
        "works with older calls: no chunk of 4 GiB without MEM_ALLOC64, no core beyond 63 without BIG_CORE_MAPS; a newer \
         aws-neuronx-dkms has them",
    )
}

/// Bytes that processes have of a device, of the counters in sysfs.
fn memory_in_use(host: &Host, index: u32, cores: u8) -> String {
    let of_core = |core: u8| -> Option<u64> {
        let path = format!(
            "class/neuron_device/neuron{index}/neuron_core{core}/stats/memory_usage/device_mem/total"
        );
        host.sys_file(&path)?.parse().ok()
    };
    match (0..cores).map(of_core).sum::<Option<u64>>() {
        Some(bytes) => format!("{} in use", size(bytes)),
        None => "sysfs does not say how much is in use".to_owned(),
    }
}

/// Tries every core of a device.
fn cores(index: u32, claims: &Arc<Claims>) -> Vec<Finding> {
    let count = u32::from(claims.identity().cores());
    let first = index * count;
    let (mut free, mut taken, mut failed) = (Vec::new(), Vec::new(), None);
    for core in first..first + count {
        match claims.claim(core..core + 1, &[]) {
            // Given back here.
            Ok(claim) => free.extend(claim.cores()),
            Err(DriverError::CoreTaken { .. }) => taken.push(core),
            Err(error) => failed = Some(error),
        }
    }
    let mut findings = Vec::new();
    if let Some(error) = failed {
        let value = format!("neuron{index}: {error}");
        let remedy = "`dmesg | grep -i neuron`; without claims no runtime will open the device";
        findings.push(Finding::problem("cores", value, remedy));
    }
    if !free.is_empty() {
        let value = format!("neuron{index}: free: {}", list(&free));
        findings.push(Finding::ok("cores", value));
    }
    if !taken.is_empty() {
        findings.push(Finding::warning(
            "cores",
            format!("neuron{index}: claimed by other processes: {}", list(&taken)),
            "take free ones with NEURON_RT_VISIBLE_CORES, or end the processes below; a claim that nobody holds any more was made \
             through a full descriptor, and goes when the module is reloaded",
        ));
    }
    findings
}

fn list(cores: &[u32]) -> String {
    let cores: Vec<_> = cores.iter().map(u32::to_string).collect();
    cores.join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::fake::{Device, FakeHost};
    use super::super::finding::Standing;
    use super::*;

    fn found(name: &str, device: Device) -> Vec<Finding> {
        let fake = FakeHost::new(name);
        fake.with_device(1, device);
        let mut findings = Vec::new();
        examine(&fake.host(), &[1], &mut findings);
        assert!(fake.is_at_rest());
        findings
    }

    fn of<'f>(findings: &'f [Finding], topic: &str) -> &'f Finding {
        findings
            .iter()
            .find(|finding| finding.topic() == topic)
            .unwrap()
    }

    #[test]
    fn a_device_is_described() {
        let findings = found("described", Device::v2());
        let said = of(&findings, "interface version").value();
        assert_eq!(said, "neuron1: 7, supported: 5 to 7");
        let said = of(&findings, "device").value();
        assert_eq!(
            said,
            "neuron1: Trainium1 (Trn1, v2), revision 0, at 0000:5e:03.0"
        );
        let said = of(&findings, "device memory").value();
        assert_eq!(
            said,
            "neuron1: 2 x 16 GiB by its architecture; 3 MiB in use"
        );
        assert_eq!(of(&findings, "cores").value(), "neuron1: free: 2, 3");
    }

    #[test]
    fn a_taken_core_is_a_warning_that_names_it() {
        let findings = found("taken", Device::v2().taken(1));
        let cores: Vec<_> = findings
            .iter()
            .filter(|finding| finding.topic() == "cores")
            .collect();
        assert_eq!(cores[0].value(), "neuron1: free: 2");
        assert_eq!(cores[1].value(), "neuron1: claimed by other processes: 3");
        assert_eq!(cores[1].standing(), Standing::Warning);
    }

    #[test]
    fn s2_a_driver_that_is_too_new_is_a_problem_with_both_ranges() {
        let findings = found("too-new", Device::v2().versions(12, 13));
        let finding = of(&findings, "interface version");
        assert_eq!(finding.standing(), Standing::Problem);
        let value = finding.value();
        assert!(
            value.contains("12 to 13") && value.contains("5 to 7"),
            "{value}"
        );
    }

    #[test]
    fn a_device_of_another_architecture_is_a_problem() {
        let findings = found("inf1", Device::v2().arch(1));
        assert_eq!(of(&findings, "architecture").standing(), Standing::Problem);
    }

    #[test]
    fn features_that_are_missing_are_named() {
        let findings = found("features", Device::v2().features(0x0F));
        let finding = of(&findings, "features");
        assert_eq!(finding.standing(), Standing::Warning);
        assert!(
            finding.value().contains("not MEM_ALLOC_TYPE"),
            "{finding:?}"
        );
    }

    #[test]
    fn a_node_that_cannot_be_opened_is_told_with_the_rule_for_udev() {
        let findings = found("closed", Device::unreadable());
        let finding = of(&findings, "open");
        assert_eq!(finding.standing(), Standing::Problem);
        assert!(finding.value().contains("EACCES"), "{finding:?}");
        assert!(finding.remedy().unwrap().contains("udev"));
    }

    #[test]
    fn a_file_that_is_no_device_is_told_by_its_answer() {
        let findings = found("no-driver", Device::of_another_driver());
        let finding = of(&findings, "interface version");
        assert!(finding.value().contains("ENOTTY"), "{finding:?}");
    }
}
