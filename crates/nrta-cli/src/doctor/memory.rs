//! Memory of the host, as devices need it: contiguous, and reachable with 32 bits or through an IOMMU.
//!
//! Rings and chunks of host memory are physically contiguous. Without an IOMMU and without a CMA area the kernel has blocks of
//! 4 MiB at most. Spec `driver.md` section 8.

use super::driver::Reached;
use super::finding::Finding;
use super::host::{Host, names, size};

/// Order of the largest blocks of the kernel's allocator: 2^10 pages of 4 KiB.
const LARGEST_ORDER: usize = 10;

/// Looks at memory; at its contiguity only where there is a device.
pub(super) fn examine(host: &Host, devices: &[Reached], findings: &mut Vec<Finding>) {
    findings.push(available(host));
    if devices.is_empty() {
        return;
    }
    findings.push(contiguous(host));
    let pages = host.memory("HugePages_Total").unwrap_or(0);
    let bytes = host.memory("Hugepagesize").unwrap_or(0);
    let value = format!("{pages} of {} reserved (none are needed)", size(bytes));
    findings.push(Finding::ok("huge pages", value));
}

fn available(host: &Host) -> Finding {
    let topic = "host memory";
    let (Some(total), Some(available)) = (host.memory("MemTotal"), host.memory("MemAvailable"))
    else {
        let remedy = "give the root of procfs with --proc";
        return Finding::warning(topic, "cannot be read", remedy);
    };
    let value = format!("{} available of {}", size(available), size(total));
    // A simulated core has 64 MiB, a service some tensors.
    if available < 512 << 20 {
        Finding::warning(topic, value, "end other programs, or add memory")
    } else {
        Finding::ok(topic, value)
    }
}

fn contiguous(host: &Host) -> Finding {
    let topic = "contiguous memory";
    let iommus = names(&host.sys.join("class/iommu")).len();
    let cma = host.memory("CmaTotal").unwrap_or(0);
    let blocks = largest_blocks(host);
    let value = format!(
        "{} free blocks of 4 MiB, CMA {}, {}",
        blocks.map_or_else(
            || "unknown number of".to_owned(),
            |blocks| blocks.to_string()
        ),
        size(cma),
        match iommus {
            0 => "no IOMMU".to_owned(),
            count => format!("{count} IOMMU"),
        }
    );
    if blocks == Some(0) && cma == 0 && iommus == 0 {
        Finding::warning(
            topic,
            value,
            "rings of a few MiB may not be had: `echo 1 > /proc/sys/vm/compact_memory` as root, or boot with cma=256M",
        )
    } else {
        Finding::ok(topic, value)
    }
}

/// Free blocks of the largest order, over all zones.
fn largest_blocks(host: &Host) -> Option<u64> {
    let zones = host.proc_file("buddyinfo")?;
    let of_zone = |line: &str| -> Option<u64> {
        // Node 0, zone   Normal   1   2   3 ...
        let mut words = line.split_whitespace().skip(4);
        words.nth(LARGEST_ORDER)?.parse().ok()
    };
    Some(zones.lines().filter_map(of_zone).sum())
}

#[cfg(test)]
mod tests {
    use super::super::driver;
    use super::super::fake::{Device, FakeHost};
    use super::super::finding::Standing;
    use super::*;

    fn found(fake: &FakeHost) -> Vec<Finding> {
        fake.with_device(0, Device::v2());
        let host = fake.host();
        let reached = driver::examine(&host, &[0], &mut Vec::new());
        let mut findings = Vec::new();
        examine(&host, &reached, &mut findings);
        findings
    }

    #[test]
    fn memory_in_small_pieces_is_a_warning_unless_something_gathers_it() {
        let fake = FakeHost::new("pieces");
        let line = "Node 0, zone   Normal   9 9 9 9 9 9 9 9 9 9 0\n";
        fake.write("proc/buddyinfo", line);
        let findings = found(&fake);
        assert_eq!(findings[1].standing(), Standing::Warning);
        assert_eq!(
            findings[1].value(),
            "0 free blocks of 4 MiB, CMA 0 B, no IOMMU"
        );
        fake.write("sys/class/iommu/dmar0/name", "dmar0\n");
        assert_eq!(found(&fake)[1].standing(), Standing::Ok);
    }

    #[test]
    fn little_memory_is_a_warning() {
        let fake = FakeHost::new("little");
        let text = "MemTotal: 1048576 kB\nMemAvailable: 1024 kB\n";
        fake.write("proc/meminfo", text);
        let findings = found(&fake);
        assert_eq!(findings[0].value(), "1 MiB available of 1 GiB");
        assert_eq!(findings[0].standing(), Standing::Warning);
    }
}
