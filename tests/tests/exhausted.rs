//! Descriptors and memory that run out, at every occasion of a life of a runtime over the driver's interface.
//!
//! Whatever runs out, and whenever: an error that names it, nothing left open, and once there is room again the next runtime
//! computes right.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use lane_tests::life::{Failed, Means};
use lane_tests::role;
use neuron_emu::config::{DriverFault, DriverRule};
use neuron_emu::seccomp::run_in;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl, open};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::stat::Mode;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use nrta::{Backend, Builder, Runtime, Status};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

const ROLE: &str = "LANE_TESTS_EXHAUSTED";
/// The role that has the emulator in its own process.
const ITSELF: &str = "itself";
/// Descriptors of devices have numbers from here on, under the emulator.
const DEVICES: i32 = 960;
const NUMBERS: i32 = 1024;
/// What a life opens of it: one descriptor for claims, one that attaches.
const NEEDED: i32 = 2;
/// More than a life opens.
const MOST: i32 = 6;
/// More than all need together.
const PLENTY: i32 = 30;
/// Occasions that one life has, at most.
const MOST_ALLOCATIONS: u64 = 400;

fn builder() -> Builder {
    Runtime::builder().backend(Backend::RealDriver)
}

/// Descriptors that are open. The one that looks is among them, each time.
fn open_descriptors() -> Vec<String> {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    names
}

/// Takes all numbers of a range but so many of them, which are the first that are free.
fn fill(range: core::ops::Range<i32>, leave: i32) -> Vec<OwnedFd> {
    let null = open("/dev/null", OFlag::O_RDONLY, Mode::empty()).unwrap();
    let mut taken = Vec::new();
    loop {
        // The lowest number that is free from there on.
        match fcntl(null.as_fd(), FcntlArg::F_DUPFD_CLOEXEC(range.start)) {
            // SAFETY: just made, and nobody else knows it.
            Ok(number) => taken.push((number, unsafe { OwnedFd::from_raw_fd(number) })),
            Err(errno) => {
                assert_eq!(errno, Errno::EMFILE);
                break;
            }
        }
        if taken
            .last()
            .is_some_and(|(number, _)| *number >= range.end - 1)
        {
            break;
        }
    }
    taken.retain(|(number, _)| *number < range.end);
    // CAST: as small as asked for.
    taken.drain(..leave as usize);
    let mut taken: Vec<_> = taken.into_iter().map(|(_, taken)| taken).collect();
    if range.contains(&null.as_raw_fd()) {
        taken.push(null);
    }
    taken
}

fn names_the_limit(failed: &Failed) -> bool {
    failed.status == Status::RESOURCE && failed.says.contains("RLIMIT_NOFILE")
}

/// With so many numbers left for devices, and for all else: whether a life came to its end.
fn live_with(means: &Means, expected: &[u8], devices: i32, others: i32) -> bool {
    let before = open_descriptors();
    let full = [fill(DEVICES..NUMBERS, devices), fill(0..DEVICES, others)];
    let lived = means.live(builder());
    drop(full);
    let what = format!("{devices} numbers for devices, {others} for all else: {lived:?}");
    assert_eq!(open_descriptors(), before, "{what}");
    let next = means.live(builder());
    assert_eq!(next.as_deref(), Ok(expected), "after {what}");
    assert_eq!(open_descriptors(), before, "{what}");
    match lived {
        Ok(labels) => assert_eq!(labels, expected, "{what}"),
        Err(failed) => {
            assert!(names_the_limit(&failed), "{what}");
            return false;
        }
    }
    true
}

/// Not a test: what the program does. Without the role nothing.
#[test]
fn role() {
    let Some(role) = std::env::var_os(ROLE) else {
        return;
    };
    if role == ITSELF {
        return without_numbers();
    }
    let means = Means::read();
    let expected = means.expected();
    // What a process opens once.
    assert_eq!(means.live(builder()).as_ref(), Ok(&expected));
    if role == "numbers" {
        let ends = |devices, others| live_with(&means, &expected, devices, others);
        let devices: Vec<_> = (0..MOST).map(|left| ends(left, 100)).collect();
        let others: Vec<_> = (0..MOST).map(|left| ends(60, left)).collect();
        let both: Vec<_> = (0..MOST).map(|left| ends(left, left)).collect();
        println!("\n> {devices:?} {others:?} {both:?}");
    } else {
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        let before = open_descriptors();
        for limit in 0..DEVICES as u64 + MOST as u64 {
            // Each of the small ones, and those around the numbers of devices.
            if (64..DEVICES as u64 - 1).contains(&limit) {
                continue;
            }
            setrlimit(Resource::RLIMIT_NOFILE, limit, hard).unwrap();
            let lived = means.live(builder());
            setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
            // CAST: small positive numbers, here and above.
            if let Err(failed) = &lived {
                assert!(names_the_limit(failed), "limit {limit}: {failed}");
            }
            assert_eq!(
                lived.is_ok(),
                limit >= (DEVICES + NEEDED) as u64,
                "limit {limit}: {lived:?}"
            );
            assert_eq!(open_descriptors(), before, "limit {limit}");
        }
        assert_eq!(means.live(builder()), Ok(expected));
        println!("\n> done");
    }
}

#[test]
fn r1_every_small_number_of_descriptors_is_refused_by_name_or_suffices() {
    if let Some(said) = role::play(ROLE, "numbers") {
        println!("{said}");
        assert!(said.contains("false") && said.contains("true"), "{said}");
    }
}

#[test]
fn r1_every_small_limit_of_descriptors_is_refused_by_name() {
    if let Some(said) = role::play(ROLE, "limits") {
        assert_eq!(said, "done");
    }
}

/// Whether the open of a node by a process that nobody knows yet is refused, while there is no descriptor to find out with.
fn child_is_refused() -> bool {
    // SAFETY: the child makes two system calls.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            let opened = open("/dev/neuron0", OFlag::O_WRONLY, Mode::empty());
            let refused = opened.err() == Some(Errno::EMFILE);
            // SAFETY: ends the process without running what the parent has registered for its own end.
            unsafe { nix::libc::_exit(i32::from(!refused)) }
        }
        ForkResult::Parent { child } => waitpid(child, None) == Ok(WaitStatus::Exited(child, 0)),
    }
}

/// The emulator has to do without, too. In a process of its own: no other test is to do without.
#[test]
fn r1_no_number_left_in_the_process_of_the_emulator() {
    let output = role::program(ROLE, ITSELF).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    assert!(output.status.success(), "{said}");
}

fn without_numbers() {
    let means = Means::read();
    let expected = means.expected();
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    // CAST: a small positive number.
    setrlimit(Resource::RLIMIT_NOFILE, NUMBERS as u64, hard).unwrap();
    let emulator = role::small_device();
    let mut ends = Vec::new();
    let lives = || {
        for left in (0..MOST).chain([PLENTY]) {
            // A thread that has called before, and one that has not.
            let before = means.live(builder());
            assert_eq!(before.as_ref(), Ok(&expected));
            let full = [fill(DEVICES..NUMBERS, left), fill(0..DEVICES, left)];
            let life = || means.live(builder());
            let lived = std::thread::scope(|scope| [life(), scope.spawn(life).join().unwrap()]);
            let child = (left == 0).then(child_is_refused);
            drop(full);
            assert_ne!(child, Some(false), "a child");
            for lived in &lived {
                match lived {
                    Ok(labels) => assert_eq!(*labels, expected),
                    Err(failed) => assert!(names_the_limit(failed), "{left} left: {failed}"),
                }
            }
            ends.push(lived.map(|lived| lived.is_ok()));
        }
        assert_eq!(means.live(builder()).as_ref(), Ok(&expected));
    };
    if let Err(why) = neuron_emu::run(&emulator, lives) {
        return println!("skipped: {why}");
    }
    println!("{ends:?}");
    assert_eq!(
        (ends[0], ends.last().copied()),
        ([false; 2], Some([true; 2]))
    );
    role::check_clean(&emulator, "in one process");
}

/// From each allocation on, until there are no more of them.
#[test]
fn r1_memory_that_has_run_out_from_any_allocation_on() {
    let means = Means::read();
    let expected = means.expected();
    let directory = Path::new("/dev/exhausted");
    for from in 0..MOST_ALLOCATIONS {
        let what = format!("no memory from allocation {from} on");
        let emulator = role::small_device();
        emulator.inject(DriverRule {
            from,
            ..DriverRule::always(DriverFault::NoMemory)
        });
        let life = || means.live(builder().neuron_device_directory(directory));
        let lived = match run_in(&emulator, directory, life) {
            Ok(lived) => lived,
            Err(why) => return println!("skipped: {why}"),
        };
        role::check_clean(&emulator, &what);
        match lived {
            Ok(labels) => {
                assert_eq!(labels, expected);
                assert_ne!(from, 0, "nothing is allocated");
                return;
            }
            Err(failed) => assert_eq!(failed.status, Status::RESOURCE, "{what}: {failed}"),
        }
    }
    panic!("a life has more than {MOST_ALLOCATIONS} allocations");
}
