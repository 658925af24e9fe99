//! Who has a core, for people: a small file beside the lock.
//!
//! Written by who has just locked the core, read by who is refused. It proves nothing: it may be missing, damaged, or left by
//! a process that was killed, so it is believed only if it names the process that the kernel names.

use super::About;
use core::time::Duration;
use nix::libc;
use serde_json::{Value, json};
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Most bytes of a record that are read.
const MOST: u64 = 16 << 10;
/// Most characters of a command line or a tag.
const MOST_TEXT: usize = 200;

/// What stands in such a file.
#[derive(Debug)]
pub(super) struct Record {
    pid: u32,
    command: String,
    tag: String,
    /// Seconds since 1970.
    since: u64,
}

impl Record {
    pub(super) fn of_this_process(tag: &str) -> Self {
        let arguments = std::env::args_os();
        let command: Vec<_> = arguments
            .take(MOST_TEXT)
            .map(|argument| argument.to_string_lossy().into_owned())
            .collect();
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            pid: std::process::id(),
            command: short(&command.join(" ")),
            tag: short(tag),
            since: now.map_or(0, |now| now.as_secs()),
        }
    }

    /// Whole or not at all: written beside, then renamed.
    pub(super) fn write(&self, directory: &Path, tpb: u32) -> io::Result<()> {
        let path = path(directory, tpb);
        let beside = path.with_extension(self.pid.to_string());
        let text = json!({
            "pid": self.pid, "command": self.command, "tag": self.tag, "since": self.since,
        });
        // What is in the way was left by a dead process of this number, or is a trap: a link is not followed.
        let _ = fs::remove_file(&beside);
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&beside)?;
        file.write_all(text.to_string().as_bytes())?;
        fs::rename(&beside, &path)
    }

    /// `None` when there is none that can be understood.
    pub(super) fn read(directory: &Path, tpb: u32) -> Option<Self> {
        let path = path(directory, tpb);
        // A name that leads to the file of cores is a trap: to close that file would end all claims of this process on it.
        // A record has one name, and that one is no link.
        let metadata = fs::symlink_metadata(&path).ok()?;
        if !metadata.is_file() || metadata.nlink() != 1 {
            return None;
        }
        let mut bytes = Vec::new();
        // A pipe in its place would be waited for without end.
        let open = fs::OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(path)
            .ok()?;
        open.take(MOST).read_to_end(&mut bytes).ok()?;
        let value: Value = serde_json::from_slice(&bytes).ok()?;
        let text = |name: &str| Some(short(value.get(name)?.as_str()?));
        let number = |name: &str| value.get(name)?.as_u64();
        Some(Self {
            pid: number("pid")?.try_into().ok()?,
            command: text("command")?,
            tag: text("tag")?,
            since: number("since")?,
        })
    }

    /// What is gone is no loss.
    pub(super) fn remove(directory: &Path, tpb: u32) {
        let _ = fs::remove_file(path(directory, tpb));
    }

    /// What it says of the process that the kernel names.
    pub(super) fn about(self, pid: u32) -> Option<About> {
        let since = UNIX_EPOCH.checked_add(Duration::from_secs(self.since))?;
        (self.pid == pid).then_some(About {
            command: self.command,
            tag: self.tag,
            since,
        })
    }
}

fn path(directory: &Path, tpb: u32) -> PathBuf {
    directory.join(format!("core-{tpb}"))
}

fn short(text: &str) -> String {
    text.chars().take(MOST_TEXT).collect()
}

/// As `2026-01-31T12:00:00Z`. What cannot be is the beginning of 1970.
pub(super) fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs());
    let (mut days, second) = (seconds / 86_400, seconds % 86_400);
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    // Whole cycles of 400 years first, so that what remains is short whatever a record says.
    let mut year = 1970 + 400 * (days / 146_097);
    days %= 146_097;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (day, hour, minute) = (days + 1, second / 3600, second / 60 % 60);
    let second = second % 60;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }
}
