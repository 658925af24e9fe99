//! Processors that worker threads are bound to.
//!
//! Set by `NEURON_RT_LOW_LATENCY_TASKS_CPU_AFFINITY` or [`Builder::worker_cpus`](crate::Builder::worker_cpus), used while a
//! runtime is opened. Threads inherit the processors of the thread that starts them, so a thread of our own binds itself and
//! starts the worker: those of the application keep theirs.

use core::fmt;
use nix::sched::{self, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::thread;

/// Highest number of a processor that can be named, plus one.
const MOST: usize = sched::CpuSet::count();

/// A set of processors, by number; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuSet(Vec<usize>);

impl CpuSet {
    /// These processors. `None` for none, and for a number of 1024 or above.
    #[must_use]
    pub fn new(cpus: impl IntoIterator<Item = usize>) -> Option<Self> {
        let cpus: BTreeSet<usize> = cpus.into_iter().collect();
        let is_good = cpus.last().is_some_and(|last| *last < MOST);
        is_good.then(|| Self(cpus.into_iter().collect()))
    }

    /// A list such as `0-3,8`. `None` when it is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let cpu = |text: &str| {
            let text = text.trim();
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<usize>()
                .ok()
                .filter(|cpu| digits && *cpu < MOST)
        };
        let mut cpus = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (cpu(first)?, cpu(last)?);
            if first > last {
                return None;
            }
            cpus.extend(first..=last);
        }
        Self::new(cpus)
    }

    /// In ascending order.
    #[must_use]
    pub fn cpus(&self) -> &[usize] {
        &self.0
    }

    /// Those of them that the calling thread may use. When there is none, the log says so.
    pub(crate) fn usable(&self) -> Option<Usable<'_>> {
        let allowed = self.allowed();
        if allowed.is_none() {
            not_bound(self, "this process may use none of these processors");
        }
        Some(Usable {
            cpus: self,
            allowed: allowed?,
        })
    }

    fn allowed(&self) -> Option<sched::CpuSet> {
        let mine = sched_getaffinity(Pid::from_raw(0)).ok()?;
        let mut set = sched::CpuSet::new();
        let mut any = false;
        for cpu in &self.0 {
            // Numbers that the system does not know are not set.
            if mine.is_set(*cpu).unwrap_or(false) && set.set(*cpu).is_ok() {
                any = true;
            }
        }
        any.then_some(set)
    }
}

/// As `0-3,8`.
impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        let runs = self.0.chunk_by(|one, next| one + 1 == *next);
        for run in runs {
            match run {
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
                [only] => write!(f, "{comma}{only}")?,
                [] => {}
            }
            comma = ",";
        }
        Ok(())
    }
}

/// Processors that there are for this process.
pub(crate) struct Usable<'a> {
    cpus: &'a CpuSet,
    allowed: sched::CpuSet,
}

/// Runs `spawn` so that the threads which it starts are bound to these processors, if any.
pub(crate) fn starting_on<T: Send>(
    usable: Option<&Usable<'_>>,
    spawn: impl FnOnce() -> T + Send,
) -> T {
    let Some(Usable { cpus, allowed }) = usable else {
        return spawn();
    };
    let mut spawn = Some(spawn);
    let bound = thread::scope(|scope| {
        let starter = thread::Builder::new().spawn_scoped(scope, || {
            sched_setaffinity(Pid::from_raw(0), allowed).ok()?;
            spawn.take().map(|spawn| spawn())
        });
        match starter.map(thread::ScopedJoinHandle::join) {
            Ok(Ok(spawned)) => spawned,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(_) => None,
        }
    });
    match (bound, spawn) {
        (Some(spawned), _) => spawned,
        (None, Some(spawn)) => {
            not_bound(cpus, "refused by the system");
            spawn()
        }
        // PANIC: `spawn` was taken by the thread that has returned what it gave.
        (None, None) => unreachable!("a start that was made has given nothing"),
    }
}

fn not_bound(cpus: &CpuSet, why: &str) {
    tracing::warn!(
        name: "nrta.workers_not_bound", target: "nrta::runtime",
        %cpus, why, "workers are not bound to processors"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written() {
        for (text, shown) in [
            ("0", "0"),
            ("0-3,8", "0-3,8"),
            (" 8 , 1-2,2", "1-2,8"),
            ("1023", "1023"),
        ] {
            assert_eq!(CpuSet::parse(text).unwrap().to_string(), shown);
        }
        for text in [
            "",
            ",",
            "0-",
            "-1",
            "3-1",
            "a",
            "+1",
            "1024",
            "0-99999999999999999999",
        ] {
            assert_eq!(CpuSet::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn threads_are_bound_and_their_starter_is_not() {
        let mine = sched_getaffinity(Pid::from_raw(0)).unwrap();
        let first = (0..MOST).find(|cpu| mine.is_set(*cpu).unwrap()).unwrap();
        let cpus = CpuSet::new([first]).unwrap();
        let theirs = starting_on(cpus.usable().as_ref(), || {
            thread::spawn(|| sched_getaffinity(Pid::from_raw(0)).unwrap())
        });
        let theirs = theirs.join().unwrap();
        let set = (0..MOST).filter(|cpu| theirs.is_set(*cpu).unwrap());
        assert_eq!(set.collect::<Vec<_>>(), [first]);
        assert_eq!(sched_getaffinity(Pid::from_raw(0)).unwrap(), mine);
    }

    #[test]
    fn a_list_without_a_processor_of_ours_binds_nothing() {
        let mine = sched_getaffinity(Pid::from_raw(0)).unwrap();
        let Some(other) = (0..MOST).find(|cpu| !mine.is_set(*cpu).unwrap()) else {
            return;
        };
        let cpus = CpuSet::new([other]).unwrap();
        let got = starting_on(cpus.usable().as_ref(), || {
            sched_getaffinity(Pid::from_raw(0)).unwrap()
        });
        assert_eq!(got, mine);
    }
}
