//! One command, run within a time budget, with its output in a file.
//!
//! Called by `step` for every command of a step, and by `tools`.
//!
//! A command is the leader of a process group of its own, so that a hanging test ends together with the
//! command that started it.
//! A small shell, the guard, holds the other end of a pipe: when the pipe closes without a word, the guard
//! kills the group.
//! We close it when the budget is spent; the system closes it when this program ends, by an interrupt too.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Variables that change what cargo, rustup, the compiler, miri or loom do.
/// A step sees none of the caller's and sets those that it needs.
const CLEARED: &[&str] = &[
    "CARGO",
    "CARGO_BUILD_RUSTDOCFLAGS",
    "CARGO_BUILD_RUSTFLAGS",
    "CARGO_BUILD_TARGET",
    "CARGO_ENCODED_RUSTDOCFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_TARGET_DIR",
    "MIRIFLAGS",
    "RUSTDOCFLAGS",
    "RUSTFLAGS",
    "RUSTUP_TOOLCHAIN",
];

/// The same, by the beginning of the name: the last two are set by `cargo run` for this program.
const CLEARED_PREFIXES: &[&str] = &[
    "LOOM_",
    "XU_FAULTS_",
    "XU_RING_",
    "CARGO_PKG_",
    "CARGO_MANIFEST_",
];

fn is_cleared(name: &str) -> bool {
    CLEARED.contains(&name)
        || CLEARED_PREFIXES
            .iter()
            .any(|prefix| name.starts_with(prefix))
}

/// How a command ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Well,
    Badly(ExitStatus),
    OutOfTime,
}

/// Runs `line`, words separated by blanks, in `directory`; both output streams go to `log`.
///
/// # Errors
/// The command could not be started, most often because there is no such program.
pub(crate) fn run(
    line: &str,
    environment: &[(&str, OsString)],
    directory: &Path,
    log: &File,
    budget: Duration,
) -> io::Result<Ended> {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).current_dir(directory).process_group(0);
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log.try_clone()?);
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_cleared) {
            command.env_remove(&name);
        }
    }
    // The log is a file, and its lines are read again: no colours, no progress bars.
    command
        .env("CARGO_TERM_COLOR", "never")
        .env("CARGO_TERM_PROGRESS_WHEN", "never");
    command.env("NO_COLOR", "1").env("TERM", "dumb");
    command.envs(environment.iter().map(|(name, value)| (name, value)));

    let child = command.spawn()?;
    let guard = Guard::over(&child)?;
    let ended = wait(child);
    match ended.recv_timeout(budget) {
        Ok(status) => {
            guard.dismiss();
            let status = status?;
            Ok(if status.success() {
                Ended::Well
            } else {
                Ended::Badly(status)
            })
        }
        Err(RecvTimeoutError::Timeout) => {
            guard.strike();
            // The leader is dead now; what it answers no longer matters.
            let _ = ended.recv();
            Ok(Ended::OutOfTime)
        }
        Err(RecvTimeoutError::Disconnected) => Err(io::Error::other("the waiting thread ended")),
    }
}

/// The end of `child`, as a message.
fn wait(mut child: Child) -> mpsc::Receiver<io::Result<ExitStatus>> {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        // Nobody listens any more only if this program is ending.
        let _ = tell.send(child.wait());
    });
    told
}

/// Kills a process group when its pipe closes without a word.
struct Guard {
    shell: Child,
}

impl Guard {
    fn over(leader: &Child) -> io::Result<Self> {
        let shell = Command::new("sh")
            .args(["-c", r#"read -r word || kill -s KILL -- "-$1""#, "guard"])
            .arg(leader.id().to_string())
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self { shell })
    }

    /// The command has ended by itself.
    fn dismiss(mut self) {
        if let Some(pipe) = &mut self.shell.stdin {
            // A guard that is gone already has nothing left to do.
            let _ = pipe.write_all(b"done\n");
        }
        let _ = self.shell.wait();
    }

    /// Kills the group, and returns when that has been done.
    fn strike(mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const AMPLE: Duration = Duration::from_secs(60);

    /// Runs a shell script, which is one word to [`run`], and gives back what it printed.
    fn script(name: &str, text: &str, budget: Duration) -> (Ended, String) {
        let directory = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("script.sh"), text).unwrap();
        let log = directory.join("log");
        let file = File::create(&log).unwrap();
        let ended = run("sh script.sh", &[], &directory, &file, budget).unwrap();
        let printed = fs::read_to_string(log).unwrap();
        fs::remove_dir_all(directory).unwrap();
        (ended, printed)
    }

    #[test]
    fn both_streams_reach_the_log() {
        let (ended, printed) = script("streams", "echo one; echo two >&2", AMPLE);
        assert_eq!((ended, printed.as_str()), (Ended::Well, "one\ntwo\n"));
    }

    #[test]
    fn a_bad_exit_code_is_told() {
        let (ended, _) = script("code", "exit 4", AMPLE);
        assert!(matches!(ended, Ended::Badly(status) if status.code() == Some(4)));
    }

    #[test]
    fn a_command_ends_with_its_budget_and_so_do_its_children() {
        // The pipe ends when its last writer does, which is the grandchild: `cat` would hang otherwise.
        let text = "mkfifo pipe; (sleep 600 > pipe) & echo $! ; cat pipe";
        let (ended, printed) = script("budget", text, Duration::from_millis(300));
        assert_eq!(ended, Ended::OutOfTime);
        let grandchild = printed.trim();
        // A process that was killed needs a moment to go, and may stay as a zombie, which has no command line.
        let gone = (0..100_000).any(|_| {
            thread::yield_now();
            fs::read(format!("/proc/{grandchild}/cmdline"))
                .unwrap_or_default()
                .is_empty()
        });
        assert!(gone, "process {grandchild} is still running");
    }

    #[test]
    fn a_missing_program_is_an_error() {
        let log = File::create("/dev/null").unwrap();
        let ended = run("no-such-program-anywhere", &[], Path::new("/"), &log, AMPLE);
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn the_callers_flags_are_cleared() {
        for name in [
            "RUSTFLAGS",
            "MIRIFLAGS",
            "RUSTUP_TOOLCHAIN",
            "LOOM_LOG",
            "XU_RING_MUTANT",
        ] {
            assert!(is_cleared(name), "{name}");
        }
        for name in ["PATH", "CARGO_HOME", "RUSTUP_HOME", "HOME"] {
            assert!(!is_cleared(name), "{name}");
        }
    }
}
