//! Processes that have a device node open, by their descriptors in procfs.
//!
//! Of processes of other users only root sees the descriptors. The driver's own list has all of them, and is for attached
//! processes: [`super::attached`].

use super::finding::Finding;
use super::host::{Host, names};
use nrta::neuron::discovery;
use std::path::PathBuf;

/// Lists the holders of each node.
pub(super) fn examine(host: &Host, devices: &[u32], findings: &mut Vec<Finding>) {
    if devices.is_empty() {
        return;
    }
    let (open, hidden) = descriptors(host);
    for index in devices {
        let node = discovery::node(&host.dev, *index);
        let mut holders: Vec<_> = open
            .iter()
            .filter(|(_, path)| *path == node)
            .map(|(pid, _)| process(host, *pid))
            .collect();
        holders.dedup();
        let value = match holders.is_empty() {
            true => format!("neuron{index}: open in no process that can be seen"),
            false => format!("neuron{index}: open in {}", holders.join(", ")),
        };
        findings.push(Finding::ok("held by", value));
    }
    if hidden > 0 {
        let value = format!("other processes, of other users: {hidden}; root can look into them");
        findings.push(Finding::ok("held by", value));
    }
}

/// `4711 (python3)`.
pub(super) fn process(host: &Host, pid: u32) -> String {
    match host.proc_file(&format!("{pid}/comm")) {
        Some(name) => format!("{pid} ({})", name.escape_debug()),
        None => format!("{pid} (of another process namespace, or gone)"),
    }
}

/// Process and path of every open file that can be seen, by process; and how many processes cannot be looked into.
fn descriptors(host: &Host) -> (Vec<(u32, PathBuf)>, usize) {
    let mut pids: Vec<u32> = names(&host.proc)
        .iter()
        .filter_map(|name| name.parse().ok())
        .collect();
    pids.sort_unstable();
    let (mut open, mut hidden) = (Vec::new(), 0);
    for pid in pids.into_iter().filter(|pid| *pid != std::process::id()) {
        let directory = host.proc.join(format!("{pid}/fd"));
        let Ok(entries) = std::fs::read_dir(directory) else {
            hidden += 1;
            continue;
        };
        let links = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        open.extend(links.map(|path| (pid, path)));
    }
    (open, hidden)
}

#[cfg(test)]
mod tests {
    use super::super::fake::FakeHost;
    use super::*;

    #[test]
    fn holders_are_named_once_each() {
        let fake = FakeHost::new("holders");
        let node = fake.path("dev/neuron0");
        fake.write("proc/4711/comm", "python3\n")
            .link("proc/4711/fd/3", &node)
            .link("proc/4711/fd/4", &node)
            .link("proc/4712/fd/3", &fake.path("dev/neuron1"))
            // No directory: another user's.
            .write("proc/1/comm", "init\n");
        let mut findings = Vec::new();
        examine(&fake.host(), &[0, 1, 2], &mut findings);
        let values: Vec<_> = findings.iter().map(Finding::value).collect();
        assert_eq!(values[0], "neuron0: open in 4711 (python3)");
        assert!(values[1].starts_with("neuron1: open in 4712 ("));
        assert_eq!(values[2], "neuron2: open in no process that can be seen");
        assert!(values[3].starts_with("other processes, of other users: 1"));
    }
}
