//! What only an attached process may ask: every process of a device, and whether memory can be had.
//!
//! Only with `--deep`. Opening takes one of the 16 places for processes of a device, and waits while it is being reset.

use super::driver::Reached;
use super::finding::Finding;
use super::holders::process;
use super::host::{Host, size};
use super::nodes::remedy_of_open;
use nrta::neuron::abi::{MAX_PROCESSES, MemType};
use nrta::neuron::{Chunk, ChunkSpec, DriverError, Location, Meaning, Node};
use std::sync::Arc;

/// A ring of the largest size that a runtime asks for is of this order.
const HOST_TRIAL: u64 = 4 << 20;
const DEVICE_TRIAL: u64 = 64 << 20;

/// Attaches to each device in turn.
pub(super) fn examine(host: &Host, devices: &[Reached], findings: &mut Vec<Finding>) {
    for device in devices {
        let index = device.index;
        match Node::open(Arc::clone(&host.kernel), &host.dev, index) {
            Ok(node) => {
                let node = Arc::new(node);
                findings.extend(processes(host, &node));
                findings.push(trial(&node, Location::Host, HOST_TRIAL));
                // CAST: at most 4 memories.
                for channel in 0..device.identity.table().hbm.len() as u8 {
                    findings.push(trial(&node, Location::Device { channel }, DEVICE_TRIAL));
                }
            }
            Err(error) => {
                let (value, remedy) = match error {
                    DriverError::Open { errno, .. } => (error.to_string(), remedy_of_open(errno)),
                    _ => (
                        format!("neuron{index}: {error}"),
                        "`dmesg | grep -i neuron` says what the driver thinks",
                    ),
                };
                let remedy = remedy.replace("neuronN", &format!("neuron{index}"));
                findings.push(Finding::problem("attach", value, remedy));
            }
        }
    }
}

fn processes(host: &Host, node: &Node) -> Vec<Finding> {
    let topic = "attached";
    let index = node.index();
    let all = match node.processes() {
        Ok(all) => all,
        Err(error) => {
            let remedy = "`dmesg | grep -i neuron`; the list of descriptors above is the next best";
            return vec![Finding::warning(
                topic,
                format!("neuron{index}: {error}"),
                remedy,
            )];
        }
    };
    let own = node.owner().pid();
    let mut findings: Vec<_> = all
        .iter()
        .filter(|attached| attached.pid != own)
        .map(|attached| {
            let process = process(host, attached.pid);
            let (in_host, on_device) = (size(attached.host_bytes), size(attached.device_bytes));
            let value = format!(
                "neuron{index}: {process}: {on_device} of the device, {in_host} of the host"
            );
            Finding::ok(topic, value)
        })
        .collect();
    if all.len() >= MAX_PROCESSES as usize {
        let value = format!(
            "neuron{index}: all {MAX_PROCESSES} places are taken, one of them by this report"
        );
        findings.push(Finding::warning(
            topic,
            value,
            "end a process before starting another",
        ));
    } else if findings.is_empty() {
        findings.push(Finding::ok(
            topic,
            format!("neuron{index}: no other process"),
        ));
    }
    findings
}

/// Allocates a chunk and frees it again.
fn trial(node: &Arc<Node>, location: Location, bytes: u64) -> Finding {
    let (topic, place, core, mem_type) = match location {
        Location::Host => (
            "contiguous memory",
            "of the host".to_owned(),
            0,
            MemType::MiscHost,
        ),
        Location::Device { channel } => (
            "device memory",
            format!("of memory {channel}"),
            node.identity().table().core_near(channel).unwrap_or(0),
            MemType::MiscDevice,
        ),
    };
    let spec = ChunkSpec {
        bytes,
        align: 0,
        location,
        core,
        mem_type,
    };
    let index = node.index();
    match Chunk::allocate(node, spec) {
        Ok(_) => Finding::ok(
            topic,
            format!("neuron{index}: {} {place} can be had", size(bytes)),
        ),
        Err(error) if error.meaning() == Some(Meaning::OutOfMemory) => Finding::warning(
            topic,
            format!("neuron{index}: {} {place} cannot be had", size(bytes)),
            match location {
                Location::Host => {
                    "large rings may not be had either: boot with cma=256M or intel_iommu=on, or free memory with `echo 1 > \
                     /proc/sys/vm/compact_memory`"
                }
                Location::Device { .. } => "end a process that holds memory of the device (above)",
            },
        ),
        Err(error) => Finding::problem(
            topic,
            format!("neuron{index}: {error}"),
            "`dmesg | grep -i neuron` says what the driver thinks",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::driver;
    use super::super::fake::{Device, FakeHost};
    use super::super::finding::Standing;
    use super::*;

    fn found(fake: &FakeHost) -> Vec<Finding> {
        let host = fake.host();
        let reached = driver::examine(&host, &[0], &mut Vec::new());
        let mut findings = Vec::new();
        examine(&host, &reached, &mut findings);
        assert!(fake.is_at_rest());
        findings
    }

    #[test]
    fn processes_are_told_with_their_memory() {
        let fake = FakeHost::new("attached");
        fake.with_device(0, Device::v2().process(4711, 1 << 30))
            .write("proc/4711/comm", "trainer\n");
        let findings = found(&fake);
        assert_eq!(
            findings[0].value(),
            "neuron0: 4711 (trainer): 1 GiB of the device, 0 B of the host"
        );
        assert_eq!(findings[1].value(), "neuron0: 4 MiB of the host can be had");
        assert_eq!(findings.len(), 4, "one line for each memory");
    }

    #[test]
    fn a_device_that_is_full_of_processes_is_a_warning() {
        let fake = FakeHost::new("full");
        let others = (1..16).fold(Device::v2(), |device, pid| device.process(pid, 0));
        fake.with_device(0, others);
        let findings = found(&fake);
        let full = &findings[15];
        assert_eq!(full.standing(), Standing::Warning);
        assert!(full.value().contains("all 16 places"), "{full:?}");
    }

    #[test]
    fn memory_that_cannot_be_had_is_a_warning() {
        let fake = FakeHost::new("no-memory");
        fake.with_device(0, Device::v2().without_host_memory());
        let findings = found(&fake);
        assert_eq!(findings[1].standing(), Standing::Warning);
        assert!(findings[1].remedy().unwrap().contains("cma"));
    }
}
