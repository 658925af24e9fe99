//! Limits of a process, processors, and the kernel.

use super::finding::Finding;
use super::host::{Host, size};
use std::num::NonZero;

/// Descriptors of a runtime with many events and sockets around it.
const DESCRIPTORS: u64 = 1024;
/// What two buffers of 64 MiB that are copied from without a copy in the kernel pin.
const PINNED: u64 = 128 << 20;
/// The kernel that exports memory of devices to others.
const DMABUF_KERNEL: (u32, u32) = (5, 15);

/// Looks at the limits; at those of devices only where there is one.
pub(super) fn examine(host: &Host, has_device: bool, findings: &mut Vec<Finding>) {
    findings.push(descriptors(host));
    if has_device {
        findings.push(pinned(host));
    }
    findings.push(processors());
    findings.push(kernel(host, has_device));
}

/// The soft limit of a resource: `None` when it cannot be read, `u64::MAX` when there is none.
fn limit(host: &Host, name: &str) -> Option<u64> {
    let limits = host.proc_file("self/limits")?;
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

fn descriptors(host: &Host) -> Finding {
    let topic = "open files";
    match limit(host, "Max open files") {
        None => Finding::warning(topic, "limit unknown", "look at `ulimit -n`"),
        Some(u64::MAX) => Finding::ok(topic, "no limit"),
        Some(count) if count < DESCRIPTORS => Finding::warning(
            topic,
            format!("at most {count}"),
            "`ulimit -n 4096`, or LimitNOFILE=4096 in the unit: each core and each subscriber takes some",
        ),
        Some(count) => Finding::ok(topic, format!("at most {count}")),
    }
}

fn pinned(host: &Host) -> Finding {
    let topic = "locked memory";
    match limit(host, "Max locked memory") {
        None => Finding::warning(topic, "limit unknown", "look at `ulimit -l`"),
        Some(u64::MAX) => Finding::ok(topic, "no limit"),
        Some(bytes) if bytes < PINNED => Finding::warning(
            topic,
            format!("at most {}", size(bytes)),
            "`ulimit -l unlimited`, or LimitMEMLOCK=infinity in the unit: large copies may pin their buffers",
        ),
        Some(bytes) => Finding::ok(topic, format!("at most {}", size(bytes))),
    }
}

fn processors() -> Finding {
    let topic = "processors";
    match std::thread::available_parallelism().map(NonZero::get) {
        Ok(1) => Finding::warning(
            topic,
            "1 for this process",
            "give it two: one worker thread drives each core beside the application",
        ),
        Ok(count) => Finding::ok(topic, format!("{count} for this process")),
        Err(error) => Finding::warning(topic, error.to_string(), "look at `nproc`"),
    }
}

fn kernel(host: &Host, has_device: bool) -> Finding {
    let topic = "kernel";
    let Some(release) = host.proc_file("sys/kernel/osrelease") else {
        return Finding::warning(topic, "release unknown", "look at `uname -r`");
    };
    match version(&release) {
        Some(version) if version < DMABUF_KERNEL && has_device => Finding::warning(
            topic,
            format!("{release}: no DMABUF"),
            "boot Linux 5.15 or newer, if device memory is to be given to other devices",
        ),
        _ => Finding::ok(topic, release),
    }
}

/// The first two numbers of `5.15.0-1051-aws`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::super::fake::FakeHost;
    use super::super::finding::Standing;
    use super::*;

    fn standing(fake: &FakeHost, topic: &str) -> Standing {
        let mut findings = Vec::new();
        examine(&fake.host(), true, &mut findings);
        let mut all = findings.iter();
        all.find(|finding| finding.topic() == topic)
            .unwrap()
            .standing()
    }

    #[test]
    fn low_limits_are_warnings() {
        let fake = FakeHost::new("limits");
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                      Max open files            256                  4096                 files\n\
                      Max locked memory         65536                65536                bytes\n";
        fake.write("proc/self/limits", limits);
        assert_eq!(standing(&fake, "open files"), Standing::Warning);
        assert_eq!(standing(&fake, "locked memory"), Standing::Warning);
        let limits = limits
            .replace("256 ", "unlimited ")
            .replace("65536 ", "unlimited ");
        fake.write("proc/self/limits", &limits);
        assert_eq!(standing(&fake, "open files"), Standing::Ok);
        assert_eq!(standing(&fake, "locked memory"), Standing::Ok);
    }

    #[test]
    fn a_kernel_without_dmabuf_is_a_warning() {
        let fake = FakeHost::new("kernel");
        for (release, expected) in [
            ("5.10.0-30-amd64", Standing::Warning),
            ("4.14.355", Standing::Warning),
            ("5.15.0-1051-aws", Standing::Ok),
            ("6.1.0", Standing::Ok),
            ("strange", Standing::Ok),
        ] {
            fake.write("proc/sys/kernel/osrelease", release);
            assert_eq!(standing(&fake, "kernel"), expected, "{release}");
        }
    }
}
