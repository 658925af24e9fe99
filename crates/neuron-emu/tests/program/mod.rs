//! The program that the tests put under the emulator: this test binary once more, in a role that the environment names.

#![allow(dead_code, reason = "each test file uses a part of it")]

use core::ptr::NonNull;
use neuron_emu::config::Waits;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::libc;
use nix::sys::pthread::{pthread_kill, pthread_self};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::sys::stat::Mode;
use nix::unistd::{ForkResult, fork, pause};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{ChildStdout, Command, exit};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use xu_abi::driver::errno::Answer;
use xu_abi::driver::ioctl as table;
use xu_abi::driver::{MemAllocV2MemType64, MemBufCopy64, MemGetInfo, MemType, Printk};

const ROLE: &str = "NEURON_EMU_TEST_ROLE";

/// Calls that the role `storm` makes.
pub(crate) const STORM: usize = 2000;

/// Answer of COMPATIBLE_VERSION.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) max: u32,
    pub(crate) min: u32,
}

/// Argument of CINIT_SET_STATE.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct CoreState {
    core: u32,
    state: u32,
    new_state: u32,
}

pub(crate) fn open(path: &str, flags: OFlag) -> Result<OwnedFd, Errno> {
    nix::fcntl::open(path, flags, Mode::empty())
}

pub(crate) fn ioctl<A>(node: &OwnedFd, request: u32, argument: &mut A) -> Answer {
    // SAFETY: the emulator writes no more than the request's structure, and the tests pass one of that size.
    let returned = unsafe { libc::ioctl(node.as_raw_fd(), request.into(), &raw mut *argument) };
    answer(returned)
}

/// With a pointer that need not be one.
pub(crate) fn ioctl_with_pointer(node: &OwnedFd, request: u32, pointer: usize) -> Answer {
    // SAFETY: who serves the call copies from and to the address, and fails if nothing is there.
    answer(unsafe { libc::ioctl(node.as_raw_fd(), request.into(), pointer) })
}

/// On a descriptor that need not be one.
pub(crate) fn ioctl_at(number: i32, request: u32) -> Answer {
    // SAFETY: a null pointer, which is checked as any.
    answer(unsafe { libc::ioctl(number, request.into(), 0_usize) })
}

fn answer(returned: i32) -> Answer {
    match returned {
        0 => Answer::Done,
        -1 => Answer::Errno(Errno::last_raw()),
        positive => Answer::Positive(positive),
    }
}

/// The error number of dup2, if it fails.
pub(crate) fn dup2_errno(from: i32, onto: i32) -> Option<i32> {
    // SAFETY: the tests name descriptors that they own, or numbers that are free.
    let done = unsafe { libc::dup2(from, onto) };
    (done < 0).then(Errno::last_raw)
}

pub(crate) fn close_range(first: u32, last: u32) {
    // SAFETY: the tests have no descriptors there but those that they want closed.
    let done = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    assert_eq!(done, 0);
}

pub(crate) fn long_waits() -> Waits {
    Waits {
        core_init: Duration::from_secs(3600),
        ..Waits::default()
    }
}

/// This binary in a role.
pub(crate) fn command(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["program::play", "--exact", "--nocapture"]);
    command.env(ROLE, role);
    command
}

/// Until a program has said that it is there.
pub(crate) fn wait_until_ready(output: ChildStdout) -> BufReader<ChildStdout> {
    let mut lines = BufReader::new(output);
    wait_for(&mut lines, "ready");
    lines
}

/// Until a line with this text.
pub(crate) fn wait_for(lines: &mut BufReader<ChildStdout>, text: &str) {
    let mut line = String::new();
    while !line.contains(text) {
        line.clear();
        assert_ne!(lines.read_line(&mut line).unwrap(), 0, "no {text:?} came");
    }
}

fn say(text: &str) {
    let mut output = std::io::stdout();
    output.write_all(format!("\n{text}\n").as_bytes()).unwrap();
    output.flush().unwrap();
}

/// Not a test: what the program does. Without a role nothing.
#[test]
fn play() {
    match std::env::var(ROLE).as_deref() {
        Err(_) => {}
        Ok("open-and-exit") => {
            let node = open("/dev/neuron0", OFlag::O_RDWR).unwrap();
            std::mem::forget(node);
            exit(0);
        }
        Ok("open-and-stay") => {
            let _node = open("/dev/neuron0", OFlag::O_RDWR).unwrap();
            stay();
        }
        Ok("stay") => stay(),
        Ok("fork") => play_fork(),
        Ok("exec") => play_exec(),
        Ok("interrupted") => play_interrupted(),
        Ok("storm") => play_storm(),
        Ok("map") => {
            map_a_chunk();
            say("mapped");
            exit(0);
        }
        Ok("bug") => {
            let node = open("/dev/neuron0", OFlag::O_RDWR).unwrap();
            let mut empty = Printk::ZEROED;
            let answer = ioctl(&node, table::PRINTK.request(), &mut empty);
            assert_eq!(answer, Answer::Errno(libc::EIO));
            exit(0);
        }
        Ok("bad-pointer") => {
            let node = open("/dev/neuron0", OFlag::O_RDWR).unwrap();
            Errno::set_raw(libc::EXDEV);
            let answer = ioctl_with_pointer(&node, table::COMPATIBLE_VERSION.request(), 8);
            assert_eq!((answer, Errno::last()), (Answer::Positive(8), Errno::EXDEV));
            exit(0);
        }
        Ok("list") => {
            let names = std::fs::read_dir("/dev").unwrap();
            let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let mut nodes: Vec<_> = names.filter(|name| name.starts_with("neuron")).collect();
            nodes.sort();
            say(&format!("nodes: {}", nodes.join(" ")));
            exit(0);
        }
        Ok("vfork") => play_vfork(),
        Ok("bad-closes") => play_bad_closes(),
        Ok("exit-7") => exit(7),
        Ok("killed") => {
            nix::sys::signal::raise(Signal::SIGKILL).unwrap();
        }
        Ok(other) => panic!("role {other}"),
    }
}

/// Maps a chunk of host memory: what is stored there is what the driver copies from, and the other way.
pub(crate) fn map_a_chunk() {
    const BYTES: usize = 8192;
    let node = open("/dev/neuron0", OFlag::O_RDWR).unwrap();
    let mut handle = 0_u64;
    let mut allocation = MemAllocV2MemType64 {
        size: BYTES as u64,
        host_memory: 1,
        mem_type: MemType::TensorsHost.raw(),
        mem_handle: address(&mut handle),
        ..MemAllocV2MemType64::ZEROED
    };
    let request = table::MEM_ALLOC_V2MT64.request();
    assert_eq!(ioctl(&node, request, &mut allocation), Answer::Done);
    let (mut offset, mut pa) = (0_u64, 0_u64);
    let mut info = MemGetInfo {
        mem_handle: handle,
        mmap_offset: address(&mut offset),
        pa: address(&mut pa),
    };
    assert_eq!(
        ioctl(&node, table::MEM_GET_INFO.request(), &mut info),
        Answer::Done
    );
    assert_eq!(map(&node, offset, BYTES / 2), Err(Errno::EPERM));
    let pages = map(&node, offset, BYTES).unwrap().cast::<u8>();
    // SAFETY: the mapping is longer.
    let byte = unsafe { pages.add(5000) };
    // SAFETY: only this thread and the driver, in its calls, know the mapping.
    unsafe { byte.write_volatile(0x5A) };
    let mut copied = [0_u8; BYTES];
    let mut copy = MemBufCopy64 {
        mem_handle: handle,
        buffer: address(&mut copied),
        size: BYTES as u64,
        ..MemBufCopy64::ZEROED
    };
    let request = table::MEM_BUF_COPY64.request();
    assert_eq!(ioctl(&node, request, &mut copy), Answer::Done);
    assert_eq!((copied[4999], copied[5000]), (0, 0x5A));
    // The compiler does not see who reads it.
    *core::hint::black_box(&mut copied[0]) = 0xC3;
    copy.copy_to_mem_handle = 1;
    assert_eq!(ioctl(&node, request, &mut copy), Answer::Done);
    // SAFETY: as above.
    assert_eq!(unsafe { pages.read_volatile() }, 0xC3);
    let free = open("/dev/neuron0", OFlag::O_WRONLY).unwrap();
    assert!(map(&free, offset, BYTES).is_err());
}

fn address<A>(value: &mut A) -> u64 {
    (&raw mut *value).expose_provenance() as u64
}

fn map(node: &OwnedFd, offset: u64, bytes: usize) -> Result<NonNull<libc::c_void>, Errno> {
    use nix::sys::mman::{MapFlags, ProtFlags, mmap};
    let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    let length = bytes.try_into().unwrap();
    let offset = offset.try_into().unwrap();
    // SAFETY: the kernel chooses a place that nothing else has.
    unsafe { mmap(None, length, protection, MapFlags::MAP_SHARED, node, offset) }
}

fn stay() -> ! {
    say("ready");
    loop {
        pause();
    }
}

fn still_works(node: &OwnedFd) {
    let mut version = Version::default();
    let request = table::COMPATIBLE_VERSION.request();
    assert_eq!(ioctl(node, request, &mut version), Answer::Done);
}

/// A child that has its parent's memory, but descriptors of its own, closes one.
fn play_vfork() {
    extern "C" fn child(number: *mut libc::c_void) -> i32 {
        // SAFETY: the child's own descriptor, which nobody uses there.
        unsafe { libc::close(number.addr() as i32) }
    }
    let node = open("/dev/neuron0", OFlag::O_RDWR).unwrap();
    let mut stack = vec![0_u128; 1 << 14];
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    let number = core::ptr::without_provenance_mut(node.as_raw_fd() as usize);
    let top = stack.as_mut_ptr_range().end.cast();
    // SAFETY: the stack is the child's alone until it has ended, for which this thread waits in the call; it only closes.
    let pid = unsafe { libc::clone(child, top, flags, number) };
    assert!(pid > 0, "{}", Errno::last());
    nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(pid), None).unwrap();
    still_works(&node);
    exit(0);
}

/// Calls that the kernel refuses close nothing.
fn play_bad_closes() {
    let node = open("/dev/neuron0", OFlag::O_RDWR).unwrap();
    let number = node.as_raw_fd();
    // CAST: a descriptor is not negative.
    let unsigned = number as u32;
    // SAFETY: not a call that the kernel makes: the range is empty.
    let empty = unsafe { libc::close_range(unsigned, unsigned - 1, 0) };
    // SAFETY: nor this one: there is no such flag.
    let flags = unsafe { libc::close_range(unsigned, unsigned, 1 << 20) };
    // SAFETY: nor this one: the flag is for another call.
    let replaced = unsafe { libc::dup3(0, number, libc::O_APPEND) };
    assert_eq!([empty, flags, replaced], [-1; 3]);
    still_works(&node);
    exit(0);
}

/// The parent ends; the child closes when its input ends.
fn play_fork() {
    let node = open("/dev/neuron0", OFlag::O_RDWR).unwrap();
    // SAFETY: the child reads, closes, writes and exits: it takes no lock that another thread may have held, since
    //   nothing else writes to the standard streams meanwhile.
    match unsafe { fork() }.unwrap() {
        ForkResult::Parent { .. } => exit(0),
        ForkResult::Child => {
            let mut nothing = Vec::new();
            std::io::stdin().read_to_end(&mut nothing).unwrap();
            drop(node);
            say("done");
            exit(0);
        }
    }
}

fn play_exec() {
    let closing = open("/dev/neuron0", OFlag::O_RDWR | OFlag::O_CLOEXEC).unwrap();
    let staying = open("/dev/neuron0", OFlag::O_RDWR).unwrap();
    let failed = command("stay").exec();
    panic!("{failed} with {closing:?} and {staying:?}");
}

fn play_interrupted() {
    let node = open("/dev/neuron0", OFlag::O_RDWR).unwrap();
    // The second process that wants to initialise a core waits.
    let request = table::CINIT_SET_STATE.request();
    let mut state = CoreState {
        core: 0,
        state: 1,
        new_state: 0,
    };
    assert_eq!(ioctl(&node, request, &mut state), Answer::Done);
    let answer = under_signals(|| ioctl(&node, request, &mut state));
    say(&format!("answer: {answer:?}"));
    exit(0);
}

fn play_storm() {
    let node = open("/dev/neuron0", OFlag::O_RDWR).unwrap();
    let request = table::COMPATIBLE_VERSION.request();
    under_signals(|| {
        for _ in 0..STORM {
            let mut version = Version::default();
            assert_eq!(ioctl(&node, request, &mut version), Answer::Done);
            assert_eq!(version, Version { min: 5, max: 7 });
        }
    });
    exit(0);
}

/// Ends the signals, even when a call was not as expected.
struct Over<'o>(&'o AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Signals come all the time. A call that is not being served is restarted after each.
fn under_signals<T>(calls: impl FnOnce() -> T) -> T {
    extern "C" fn nothing(_: i32) {}
    let handler = SigHandler::Handler(nothing);
    let action = SigAction::new(handler, SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: the handler does nothing.
    unsafe { sigaction(Signal::SIGUSR1, &action) }.unwrap();
    let target = pthread_self();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Relaxed: nothing else is passed on.
            while !over.load(Ordering::Relaxed) {
                pthread_kill(target, Signal::SIGUSR1).unwrap();
                core::hint::spin_loop();
            }
        });
        let _over = Over(&over);
        calls()
    })
}
