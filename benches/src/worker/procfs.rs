//! What `/proc` says about threads of this process: whether one sleeps, and how long it has run.
//!
//! An answering thread is found by its name.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::clock::{self, Clock};

const TASKS: &str = "/proc/self/task";
/// A thread names itself after it has started, and sleeps when it has nothing to do: neither takes longer.
const PATIENCE: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(crate) struct Thread {
    stat: File,
    schedstat: PathBuf,
}

impl Thread {
    /// The only thread with this name, if there is one soon.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let begin = Instant::now();
        loop {
            if let Some(task) = tasks().find(|task| is_named(task, name)) {
                return Self::at(&task);
            }
            if begin.elapsed() > PATIENCE {
                return None;
            }
            std::thread::yield_now();
        }
    }

    fn at(task: &Path) -> Option<Self> {
        Some(Self {
            stat: File::open(task.join("stat")).ok()?,
            schedstat: task.join("schedstat"),
        })
    }

    /// Waits until the thread has been asleep for so long. False when it does not sleep.
    pub(crate) fn is_asleep_soon(&self, deep: Duration, clock: Clock) -> bool {
        // CAST: some microseconds.
        let deep = clock.ticks(deep.as_nanos() as f64);
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            if self.state() == Some(b'S') {
                let since = clock::now();
                while clock::now() - since < deep {
                    std::hint::spin_loop();
                }
                if self.state() == Some(b'S') {
                    return true;
                }
            }
        }
        false
    }

    fn state(&self) -> Option<u8> {
        let mut line = [0; 128];
        let length = self.stat.read_at(&mut line, 0).ok()?;
        state_of(&line[..length])
    }

    /// How long it has run so far.
    pub(crate) fn ran(&self) -> Option<Duration> {
        ran_at(&self.schedstat)
    }
}

/// How long all threads of this process have run, but for the calling one.
pub(crate) fn others_ran() -> Duration {
    // CAST: the id of a thread is positive.
    let own = nix::unistd::gettid().to_string();
    let others = tasks().filter(|task| task.file_name().is_none_or(|name| name != own.as_str()));
    others
        .filter_map(|task| ran_at(&task.join("schedstat")))
        .sum()
}

fn tasks() -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(TASKS).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.path()))
}

fn is_named(task: &Path, name: &str) -> bool {
    fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim_end() == name)
}

/// The first number of `schedstat`: nanoseconds on a processor.
fn ran_at(schedstat: &Path) -> Option<Duration> {
    let text = fs::read_to_string(schedstat).ok()?;
    let ns = text.split_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(ns))
}

/// The letter behind the name in parentheses, which may hold anything.
fn state_of(stat: &[u8]) -> Option<u8> {
    let closing = stat.iter().rposition(|&byte| byte == b')')?;
    stat.get(closing + 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn the_state_stands_behind_the_name() {
        assert_eq!(state_of(b"12 (a) b) S 1 2"), Some(b'S'));
        assert_eq!(state_of(b"12 (a"), None);
    }

    #[test]
    fn a_thread_is_found_by_its_name_and_sleeps() {
        let (sender, receiver) = mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name("found".to_owned());
        let thread = thread.spawn(move || receiver.recv()).expect("starts");
        let found = Thread::named("found").expect("is there");
        assert!(found.is_asleep_soon(Duration::from_micros(1), Clock::calibrated()));
        assert!(found.ran().is_some());
        assert!(others_ran() >= Duration::ZERO);
        drop(sender);
        let _ = thread.join();
    }
}
