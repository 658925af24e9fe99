//! Numbers of processes that are used again, and ends while calls are with the driver.
//!
//! A number cannot be made to come again. So a living process stands for the second that has it, and the table is given the
//! end of another one, which has died.

use super::*;
use crate::call::{Caller, NotCopied};
use crate::config::Config;
use crate::driver::AccessMode;
use std::process::{Child, Command, Stdio};

/// A process that lives until it is dropped.
struct Living(Child);

impl Living {
    fn start() -> Self {
        let mut command = Command::new("cat");
        Self(command.stdin(Stdio::piped()).spawn().unwrap())
    }
}

impl Drop for Living {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// The descriptor of a process that has died.
fn dead() -> Option<Arc<OwnedFd>> {
    let living = Living::start();
    let end = sys::open_process(living.0.id()).unwrap();
    drop(living);
    Some(Arc::new(end))
}

struct Opener(u32);

impl Caller for Opener {
    fn pid(&self) -> u32 {
        self.0
    }

    fn read(&self, _: u64, into: &mut [u8]) -> Result<(), NotCopied> {
        Err(NotCopied(into.len()))
    }

    fn write(&self, _: u64, bytes: &[u8]) -> Result<(), NotCopied> {
        Err(NotCopied(bytes.len()))
    }

    fn is_interrupted(&self) -> bool {
        false
    }
}

struct Bench {
    emulator: Arc<Emulator>,
    processes: Arc<Processes>,
    living: Living,
    pid: u32,
}

impl Bench {
    fn new() -> Self {
        let emulator = Emulator::start(Config::default()).unwrap();
        let living = Living::start();
        Self {
            processes: Processes::new(&emulator),
            emulator,
            pid: living.0.id(),
            living,
        }
    }

    /// A process with the number of the living one had a file open, and has died.
    fn has_died_before(&self) {
        let opened = self
            .emulator
            .open(&Opener(self.pid), 0, AccessMode::ReadWrite);
        let opened = opened.unwrap();
        let mut table = self.processes.table.lock();
        table.files.insert(opened.file, Arc::new(opened.descriptor));
        let process = table.processes.entry(self.pid).or_insert(Process {
            end: None,
            descriptors: BTreeMap::new(),
            in_service: 0,
            is_over: false,
        });
        process.end = dead();
        process.descriptors.insert(960, opened.file);
    }

    fn begin(&self) -> InService {
        match self.processes.begin(self.pid) {
            Begun::Service(service) => service,
            begun => panic!("{begun:?}"),
        }
    }

    fn is_known(&self) -> bool {
        self.processes
            .table
            .lock()
            .processes
            .contains_key(&self.pid)
    }
}

#[test]
fn a_number_that_comes_again_is_another_process_that_inherits_nothing() {
    let bench = Bench::new();
    bench.has_died_before();
    let service = bench.begin();
    assert_eq!(bench.processes.file(bench.pid, 960), None);
    assert!(bench.emulator.remains().is_clean());
    drop(service);
    // The end of the first is seen only now.
    bench.processes.has_ended(bench.pid);
    assert!(bench.is_known());
}

#[test]
fn the_end_of_a_process_does_not_end_the_next_that_has_its_number() {
    let bench = Bench::new();
    drop(bench.begin());
    bench.processes.has_ended(bench.pid);
    bench.processes.ended(bench.pid);
    assert!(bench.is_known(), "it lives");
}

#[test]
fn an_end_does_not_wait_for_calls_but_they_for_it() {
    let bench = Bench::new();
    let service = bench.begin();
    bench.has_died_before();
    // On the thread that serves everybody.
    bench.processes.has_ended(bench.pid);
    assert!(bench.is_known() && bench.processes.ends().is_empty());
    assert!(!bench.emulator.remains().is_clean());
    // The next that has the number.
    let begun = bench.processes.begin(bench.pid);
    assert!(matches!(begun, Begun::Later(pid) if pid == bench.pid));
    std::thread::scope(|scope| {
        let next = scope.spawn(|| bench.processes.begin_in_time(bench.pid));
        let end = scope.spawn(|| bench.processes.ended(bench.pid));
        drop(service);
        end.join().unwrap();
        assert!(matches!(next.join().unwrap(), Begun::Service(_)));
    });
    assert!(bench.emulator.remains().is_clean());
    assert_eq!(bench.processes.file(bench.pid, 960), None);
}

#[test]
fn of_a_process_that_is_gone_no_call_begins() {
    let bench = Bench::new();
    let pid = bench.living.0.id();
    let processes = Arc::clone(&bench.processes);
    drop(bench);
    assert!(matches!(processes.begin(pid), Begun::Gone));
}
