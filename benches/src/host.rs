//! The machine and the build that the numbers hold for, in lines of text.

use std::fs;
use std::process::Command;

use crate::clock::Clock;
use crate::pin::{self, Pair};

/// The lock file, for the versions of the peers.
const LOCK: &str = include_str!("../../Cargo.lock");

/// Peers of the ring, as the registry calls them.
pub(crate) const PEERS: [&str; 7] = [
    "rtrb",
    "ringbuf",
    "gil",
    "oneringbuf",
    "omango",
    "disruptor",
    "crossbeam-queue",
];

/// `cargo xtask bench` warns at the same load.
const QUIET_LOAD: f64 = 0.5;

/// What the report says about the machine: names and values.
pub(crate) fn facts(processors: Pair, clock: Clock, peers: &[&str]) -> Vec<(&'static str, String)> {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let virtual_machine = if field(&cpu, "flags").is_some_and(|flags| flags.contains(" hypervisor"))
    {
        ", in a virtual machine"
    } else {
        ""
    };
    let count = cpu
        .lines()
        .filter(|line| line.starts_with("processor"))
        .count();
    let [first, second] = processors;
    let mut facts = vec![
        (
            "processor",
            format!(
                "{}, {count} of them{virtual_machine}",
                field(&cpu, "model name").unwrap_or("unknown")
            ),
        ),
        (
            "threads on",
            format!(
                "processors {first} and {second}; the system says that they share a core with {} and {}",
                pin::siblings(first),
                pin::siblings(second)
            ),
        ),
        ("clock", format!("{:.3} ticks/ns", clock.ghz())),
        ("kernel", file("/proc/sys/kernel/osrelease")),
        ("load average before", file("/proc/loadavg")),
        ("compiler", output("rustc", &["--version"])),
        ("commit", commit()),
    ];
    if !peers.is_empty() {
        facts.push(("peers", versions(LOCK, peers)));
    }
    facts
}

/// Whether the machine has something else to do: then a run measures that as well.
pub(crate) fn is_busy() -> bool {
    load(&file("/proc/loadavg")).is_some_and(|load| load > QUIET_LOAD)
}

/// The load of the last minute.
fn load(averages: &str) -> Option<f64> {
    averages.split_whitespace().next()?.parse().ok()
}

fn field<'a>(cpu: &'a str, name: &str) -> Option<&'a str> {
    let line = cpu.lines().find(|line| line.starts_with(name))?;
    line.split_once(':').map(|(_, value)| value.trim())
}

fn file(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

fn output(program: &str, arguments: &[&str]) -> String {
    match Command::new(program).args(arguments).output() {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        _ => "unknown".to_owned(),
    }
}

fn commit() -> String {
    let commit = output("git", &["rev-parse", "--short=12", "HEAD"]);
    let changed = [
        "--no-optional-locks",
        "status",
        "--porcelain",
        "--untracked-files=no",
    ];
    match output("git", &changed).as_str() {
        "" | "unknown" => commit,
        _ => format!("{commit}, with changes that are not committed"),
    }
}

/// `rtrb 0.4.1, gil 0.9.0`, from a lock file.
fn versions(lock: &str, names: &[&str]) -> String {
    let version = |name: &&str| {
        let entry = lock.split("[[package]]").find(|entry| {
            entry
                .lines()
                .any(|line| line == format!("name = \"{name}\""))
        });
        let line = entry
            .unwrap_or_default()
            .lines()
            .find_map(|line| line.strip_prefix("version = "));
        format!("{name} {}", line.unwrap_or("?").trim_matches('"'))
    };
    names.iter().map(version).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_come_from_the_lock_file() {
        let lock = "[[package]]\nname = \"gil\"\nversion = \"0.9.0\"\n\n[[package]]\nname = \"rtrb\"\nversion = \"0.4.1\"\n";
        assert_eq!(
            versions(lock, &["rtrb", "gil", "x"]),
            "rtrb 0.4.1, gil 0.9.0, x ?"
        );
        assert!(!versions(LOCK, &PEERS).contains('?'));
    }

    #[test]
    fn the_load_is_the_first_number() {
        assert_eq!(load("0.73 0.40 0.31 1/85 123"), Some(0.73));
        assert_eq!(load("unknown"), None);
    }

    #[test]
    fn fields_of_the_processor() {
        let cpu = "processor\t: 0\nmodel name\t: Some CPU\nflags\t\t: fpu hypervisor\n";
        assert_eq!(field(cpu, "model name"), Some("Some CPU"));
        assert_eq!(field(cpu, "bogus"), None);
    }
}
