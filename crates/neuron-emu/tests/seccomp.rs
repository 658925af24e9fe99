//! The seccomp front end, through real system calls: in this process (`run`) and in others (`Supervised`).
//!
//! Where it is not available every test says `skipped`, with the reason.

mod program;

use neuron_emu::seccomp::run_in;
use neuron_emu::{Config, Emulator, Event, Supervised, Traced, run};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use nix::sys::stat::Mode;
use program::{Version, dup2_errno, ioctl, open};
use std::fs::File;
use std::io::{BufReader, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::Barrier;
use xu_abi::driver::errno::Answer;
use xu_abi::driver::{errno, ioctl as table};

/// Runs the body, or says why not.
macro_rules! under {
    ($emulator:expr, $body:expr) => {
        match run(&$emulator, $body) {
            Ok(value) => value,
            Err(why) => {
                println!("skipped: {why}");
                return;
            }
        }
    };
}

macro_rules! spawned {
    ($emulator:expr, $command:expr) => {
        match Supervised::spawn(&$emulator, $command) {
            Ok(child) => child,
            Err(neuron_emu::seccomp::SpawnError::Unavailable(why)) => {
                println!("skipped: {why}");
                return;
            }
            Err(error) => panic!("{error}"),
        }
    };
}

fn emulator(devices: u32) -> Arc<Emulator> {
    let config = Config {
        devices,
        ..Config::default()
    };
    Emulator::start(config).unwrap()
}

fn closes(trace: &[Traced]) -> usize {
    let is_close = |traced: &&Traced| matches!(traced.event, Event::Close(_));
    trace.iter().filter(is_close).count()
}

#[test]
fn a_node_opens_at_a_reserved_number_and_answers() {
    let emulator = emulator(1);
    let (number, answer, version) = under!(emulator, || {
        let node = open("/dev/neuron0", OFlag::O_RDWR).unwrap();
        let mut version = Version::default();
        let answer = ioctl(&node, table::COMPATIBLE_VERSION.request(), &mut version);
        (node.as_raw_fd(), answer, version)
    });
    assert_eq!(number, 960);
    assert_eq!(answer, Answer::Done);
    assert_eq!(version, Version { min: 5, max: 7 });
    assert_eq!(emulator.remains().nodes[0].descriptors.len(), 0);
}

#[test]
fn another_path_is_another_file() {
    let emulator = emulator(1);
    let text = under!(emulator, || std::fs::read("/proc/self/stat").unwrap());
    assert!(!text.is_empty());
    let missing = under!(emulator, || open("/dev/neuron1", OFlag::O_RDWR)
        .unwrap_err());
    assert_eq!(missing, nix::errno::Errno::ENOENT);
}

#[test]
fn an_unknown_request_and_a_closed_descriptor_have_their_errno() {
    let emulator = emulator(1);
    let (unknown, closed) = under!(emulator, || {
        let node = open("/dev/neuron0", OFlag::O_RDWR).unwrap();
        let unknown = ioctl(&node, 0x1234_4EFF, &mut 0_u64);
        (unknown, program::ioctl_at(1023, 0x1234_4EFF))
    });
    assert_eq!(unknown, Answer::Errno(errno::EINVAL));
    assert_eq!(closed, Answer::Errno(errno::EBADF));
}

#[test]
fn a_bad_pointer_is_a_positive_number() {
    let emulator = emulator(1);
    let answer = under!(emulator, || {
        let node = open("/dev/neuron0", OFlag::O_RDWR).unwrap();
        program::ioctl_with_pointer(&node, table::COMPATIBLE_VERSION.request(), 8)
    });
    assert_eq!(answer, Answer::Positive(8));
}

#[test]
fn relative_paths_start_from_their_directory() {
    let emulator = emulator(1);
    let numbers = under!(emulator, || {
        let directory = File::open("/dev/null")
            .map(|_| File::open("/proc").unwrap())
            .unwrap();
        let mode = Mode::empty();
        let node = nix::fcntl::openat(&directory, "../dev/neuron0", OFlag::O_RDWR, mode).unwrap();
        let other = nix::fcntl::openat(&directory, "neuron0", OFlag::O_RDWR, mode).unwrap_err();
        (node.as_raw_fd(), other)
    });
    assert_eq!(numbers, (960, nix::errno::Errno::ENOENT));
}

#[test]
fn the_directory_of_the_nodes_is_a_parameter_and_lists_them() {
    let emulator = emulator(3);
    for directory in ["/dev", "/no/such/directory"] {
        let body = || {
            let names = std::fs::read_dir(directory).unwrap();
            let mut names: Vec<String> = names
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .filter(|name| name.starts_with("neuron"))
                .collect();
            names.sort();
            let listing = File::open(directory);
            let node = open(&format!("{directory}/neuron2"), OFlag::O_RDWR).unwrap();
            (names, listing.is_ok(), node.as_raw_fd())
        };
        match run_in(&emulator, Path::new(directory), body) {
            Ok((names, _, number)) => {
                assert_eq!(names, ["neuron0", "neuron1", "neuron2"]);
                assert_eq!(number, 960);
            }
            Err(why) => println!("skipped: {why}"),
        }
    }
}

#[test]
fn close_on_exec_is_as_asked_for() {
    let emulator = emulator(1);
    let flags = under!(emulator, || {
        let plain = open("/dev/neuron0", OFlag::O_RDWR).unwrap();
        let closing = open("/dev/neuron0", OFlag::O_RDWR | OFlag::O_CLOEXEC).unwrap();
        let duplicate = fcntl(&plain, FcntlArg::F_DUPFD_CLOEXEC(0)).unwrap();
        // SAFETY: the number was just made, and is nobody else's.
        let duplicate = unsafe { OwnedFd::from_raw_fd(duplicate) };
        [&plain, &closing, &duplicate].map(|fd| fcntl(fd, FcntlArg::F_GETFD).unwrap())
    });
    assert_eq!(flags, [0, libc::FD_CLOEXEC, libc::FD_CLOEXEC]);
}

#[test]
fn a_duplicate_is_the_same_file_at_another_reserved_number() {
    let emulator = emulator(1);
    let numbers = under!(emulator, || {
        let node = open("/dev/neuron0", OFlag::O_RDWR).unwrap();
        let duplicate = nix::unistd::dup(&node).unwrap();
        let high = fcntl(&node, FcntlArg::F_DUPFD(1000)).unwrap();
        // SAFETY: the number was just made, and is nobody else's.
        let high = unsafe { OwnedFd::from_raw_fd(high) };
        let mut version = Version::default();
        let request = table::COMPATIBLE_VERSION.request();
        assert_eq!(ioctl(&duplicate, request, &mut version), Answer::Done);
        assert_eq!(ioctl(&high, request, &mut version), Answer::Done);
        (duplicate.as_raw_fd(), high.as_raw_fd())
    });
    assert_eq!(numbers, (961, 1000));
    assert_eq!(closes(&emulator.trace()), 3);
}

#[test]
fn a_duplicate_outside_the_reserved_numbers_is_refused() {
    let emulator = emulator(1);
    let (onto_low, onto_reserved, too_high, itself) = under!(emulator, || {
        let node = open("/dev/neuron0", OFlag::O_RDWR).unwrap();
        let null = File::open("/dev/null").unwrap();
        (
            dup2_errno(node.as_raw_fd(), 500),
            dup2_errno(null.as_raw_fd(), node.as_raw_fd()),
            fcntl(&node, FcntlArg::F_DUPFD(1024)).unwrap_err(),
            dup2_errno(node.as_raw_fd(), node.as_raw_fd()),
        )
    });
    assert_eq!(onto_low, Some(libc::EBADF));
    assert_eq!(onto_reserved, Some(libc::EBADF));
    assert_eq!(too_high, nix::errno::Errno::EMFILE);
    assert_eq!(itself, None);
}

#[test]
fn close_range_closes_what_it_reaches() {
    let emulator = emulator(1);
    let answer = under!(emulator, || {
        let node = open("/dev/neuron0", OFlag::O_RDWR).unwrap();
        let number = std::os::fd::IntoRawFd::into_raw_fd(node);
        program::close_range(900, 2000);
        program::ioctl_at(number, table::COMPATIBLE_VERSION.request())
    });
    assert_eq!(answer, Answer::Errno(errno::EBADF));
    assert_eq!(closes(&emulator.trace()), 1);
}

#[test]
fn what_the_closure_leaves_open_is_closed() {
    let emulator = emulator(1);
    let node = under!(emulator, || open("/dev/neuron0", OFlag::O_RDWR).unwrap());
    assert_eq!(closes(&emulator.trace()), 1);
    drop(node);
}

#[test]
fn a_panic_of_the_closure_goes_on() {
    let emulator = emulator(1);
    if let Err(why) = neuron_emu::seccomp::available() {
        println!("skipped: {why}");
        return;
    }
    let attempt = || {
        let _never: Result<(), _> = run(&emulator, || panic!("the closure's own"));
    };
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(attempt)).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"the closure's own"));
}

#[test]
fn two_runs_at_once_have_their_own_emulators() {
    let barrier = Barrier::new(2);
    let one = |devices: u32| {
        let emulator = emulator(devices);
        let answers = run(&emulator, || {
            let node = open("/dev/neuron0", OFlag::O_RDWR).unwrap();
            barrier.wait();
            let second = open("/dev/neuron1", OFlag::O_RDWR).is_ok();
            let mut version = Version::default();
            let answer = ioctl(&node, table::COMPATIBLE_VERSION.request(), &mut version);
            barrier.wait();
            (second, answer, node.as_raw_fd())
        });
        (answers, emulator.trace().len())
    };
    if let Err(why) = neuron_emu::seccomp::available() {
        println!("skipped: {why}");
        return;
    }
    std::thread::scope(|scope| {
        let first = scope.spawn(|| one(1));
        let second = scope.spawn(|| one(2));
        let (first, second) = (
            first.join().unwrap().0.unwrap(),
            second.join().unwrap().0.unwrap(),
        );
        assert_eq!((first.0, first.1), (false, Answer::Done));
        assert_eq!((second.0, second.1), (true, Answer::Done));
        assert_ne!(first.2, second.2);
    });
}

#[test]
fn a_run_inside_a_run_is_unavailable() {
    let (outer, inner) = (emulator(1), emulator(1));
    let refused = under!(outer, || run(&inner, || ()));
    assert_eq!(refused, Err(neuron_emu::Unavailable::Taken));
}

#[test]
fn a_mapping_is_native_and_shared_with_the_device() {
    let emulator = emulator(1);
    under!(emulator, program::map_a_chunk);
    assert_eq!(emulator.remains().nodes[0].memory.len(), 0);
}

#[test]
fn a_program_is_served_and_its_end_closes() {
    let emulator = emulator(1);
    let mut child = spawned!(emulator, &mut program::command("open-and-exit"));
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let pid = child.id();
    let trace = emulator.trace();
    assert!(trace.iter().any(
        |traced| traced.pid == pid && matches!(traced.event, Event::Open { answer: Ok(_), .. })
    ));
    assert_eq!(closes(&trace), 1);
}

#[test]
fn a_killed_program_leaves_nothing_open() {
    let emulator = emulator(1);
    let mut command = program::command("open-and-stay");
    let mut child = spawned!(emulator, command.stdout(Stdio::piped()));
    program::wait_until_ready(child.child().stdout.take().unwrap());
    assert_eq!(closes(&emulator.trace()), 0);
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
    assert_eq!(closes(&emulator.trace()), 1);
    assert_eq!(emulator.remains().nodes[0].descriptors.len(), 0);
}

#[test]
fn programs_share_an_emulator() {
    let emulator = emulator(1);
    let mut children = Vec::new();
    for _ in 0..3 {
        let mut command = program::command("open-and-stay");
        let mut child = spawned!(emulator, command.stdout(Stdio::piped()));
        program::wait_until_ready(child.child().stdout.take().unwrap());
        children.push(child);
    }
    assert_eq!(emulator.remains().nodes[0].descriptors.len(), 3);
    drop(children);
    assert_eq!(emulator.remains().nodes[0].descriptors.len(), 0);
}

#[test]
fn a_child_inherits_descriptors_and_closes_its_own() {
    let emulator = emulator(1);
    let mut command = program::command("fork");
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = spawned!(emulator, command);
    let input = child.child().stdin.take().unwrap();
    let mut lines = BufReader::new(child.child().stdout.take().unwrap());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    // The parent has ended, and its child has the descriptor still.
    let holders = emulator.remains().nodes[0].descriptors.clone();
    assert_eq!(holders.len(), 1, "{holders:?}");
    assert!(!holders.contains_key(&child.id()));
    drop(input);
    program::wait_for(&mut lines, "done");
    assert_eq!(emulator.remains().nodes[0].descriptors.len(), 0);
}

#[test]
fn an_exec_closes_what_is_closed_on_exec() {
    let emulator = emulator(1);
    let mut command = program::command("exec");
    let mut child = spawned!(emulator, command.stdout(Stdio::piped()));
    program::wait_until_ready(child.child().stdout.take().unwrap());
    // Two were open, and one was to be closed on exec; the new program has opened files since.
    let holders = emulator.remains().nodes[0].descriptors.clone();
    assert_eq!(
        holders.get(&child.id()),
        Some(&1),
        "{:#?}",
        emulator.trace()
    );
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_signal_interrupts_a_call_that_waits() {
    let config = Config {
        waits: program::long_waits(),
        ..Config::default()
    };
    let emulator = Emulator::start(config).unwrap();
    let mut command = program::command("interrupted");
    let mut child = spawned!(emulator, command.stdout(Stdio::piped()));
    let mut text = String::new();
    child
        .child()
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert!(text.contains("answer: Errno(4)"), "{text}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn signals_make_no_call_happen_twice() {
    let emulator = emulator(1);
    let mut child = spawned!(emulator, &mut program::command("storm"));
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let calls = emulator.trace();
    let asked = calls.iter().filter(|traced| {
        matches!(traced.event, Event::Ioctl { request, .. } if request == table::COMPATIBLE_VERSION.request())
    });
    assert_eq!(asked.count(), program::STORM);
}

#[test]
fn a_program_that_is_not_there_cannot_be_started() {
    let emulator = emulator(1);
    let failed = Supervised::spawn(&emulator, &mut Command::new("/no/such/program"));
    match failed {
        Err(neuron_emu::seccomp::SpawnError::Unavailable(why)) => println!("skipped: {why}"),
        Err(neuron_emu::seccomp::SpawnError::Start(error)) => {
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
        }
        other => panic!("{other:?}"),
    }
}
