//! Where to look: the roots of the file systems that the kernel shows itself in, and the environment.
//!
//! Every root is a parameter, so that tests and emulations can put a tree of their own there.

use nrta::neuron::{Kernel, System, discovery};
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Most bytes that are read of a file of the kernel's.
const MOST: u64 = 1 << 20;

/// A host to examine.
#[derive(Debug)]
pub(crate) struct Host {
    /// Directory of the device nodes.
    pub(crate) dev: PathBuf,
    /// Root of sysfs.
    pub(crate) sys: PathBuf,
    /// Root of procfs.
    pub(crate) proc: PathBuf,
    /// What opens nodes.
    pub(crate) kernel: Arc<dyn Kernel>,
    /// The environment of a runtime.
    pub(crate) variables: Vec<(OsString, OsString)>,
}

impl Default for Host {
    /// This one.
    fn default() -> Self {
        Self {
            dev: discovery::ROOT.into(),
            sys: "/sys".into(),
            proc: "/proc".into(),
            kernel: Arc::new(System),
            variables: std::env::vars_os().collect(),
        }
    }
}

/// Who runs the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct User {
    /// The user that files are opened as.
    pub(crate) id: u32,
}

impl Host {
    /// A file of procfs, without the white space around it; `None` when it cannot be read.
    pub(crate) fn proc_file(&self, path: &str) -> Option<String> {
        read(&self.proc.join(path))
    }

    /// A file of sysfs, as [`Host::proc_file`].
    pub(crate) fn sys_file(&self, path: &str) -> Option<String> {
        read(&self.sys.join(path))
    }

    /// The user of this process, as far as procfs says.
    pub(crate) fn user(&self) -> Option<User> {
        let status = self.proc_file("self/status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
        // Real, effective, saved, file system.
        let id = line.split_whitespace().nth(3)?.parse().ok()?;
        Some(User { id })
    }

    /// A field of /proc/meminfo, in bytes. Fields that count pages are counted in pages.
    pub(crate) fn memory(&self, field: &str) -> Option<u64> {
        let all = self.proc_file("meminfo")?;
        let line = all.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name == field).then_some(value)
        })?;
        let mut words = line.split_whitespace();
        let number: u64 = words.next()?.parse().ok()?;
        match words.next() {
            Some("kB") => number.checked_mul(1024),
            _ => Some(number),
        }
    }
}

/// The text of a file, cut at a length that no file of the kernel's has.
fn read(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).ok()?;
    file.take(MOST).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// The names in a directory, in order; none when it cannot be read.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut names: Vec<_> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort_unstable();
    names
}

/// `512 B`, `64 KiB`, `1.5 GiB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut unit = 0;
    // CAST: a size for people.
    let mut value = bytes as f64 / 1024.0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    // PANIC: compared above.
    let unit = UNITS[unit];
    if value.fract() == 0.0 {
        format!("{value:.0} {unit}")
    } else {
        format!("{value:.1} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_for_people() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (4096, "4 KiB"),
            (3 << 29, "1.5 GiB"),
            (u64::MAX, "16777216 TiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }
}
