//! The functions of libc that a program reaches the driver with, for a program that is started with this library
//! preloaded: calls on nodes go to [`neuron_emu::preload::Front`], all others to the next definition.
//!
//! The command `neuron-emu --front preload` starts programs so. Decisions are made in `Front`; here is what is not safe.
//!
//! **Variadic functions.** `open`, `openat`, `ioctl` and `fcntl` are variadic, and are defined here with all their
//! parameters, since stable Rust defines no variadic functions. That is sound on the two platforms that this is for:
//! the ABI of x86-64 (System V) and that of AArch64 (AAPCS64 on Linux) pass the first six or eight integer and pointer
//! arguments in the same registers whether a function is variadic or not. An argument that the caller did not pass
//! arrives as what the register held; it is handed on as it came, to a function that does not look at it either.
//!
//! **Not here.** `fork`: what a child inherits is told by its process id ([`Front`] takes no lock in a child), and one of
//! `vfork` by no handler of forks having run.
//! `munmap`: a mapping is native, and nothing has to be known of its end.

#![allow(
    unsafe_code,
    reason = "definitions of libc functions; the argument is in the documentation of this file"
)]
#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]

mod next;

use neuron_emu::preload::{self, Front};
use neuron_emu::{AccessMode, MapRequest};
use nix::errno::Errno;
use nix::libc::{self, DIR, c_char, c_int, c_ulong, c_void, mode_t, off_t, size_t};
use std::cell::Cell;
use std::ffi::CString;
use std::os::fd::IntoRawFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;
use xu_abi::driver::errno::Answer;

static FRONT: OnceLock<Option<Front>> = OnceLock::new();

/// Asks the devices. `None` when the program was not started for them, or when it is they who make this call: it is not
/// for them then.
fn ask<T>(question: impl FnOnce(&Front) -> T) -> Option<T> {
    thread_local! {
        static ASKING: Cell<bool> = const { Cell::new(false) };
    }
    if ASKING.replace(true) {
        return None;
    }
    // What the answer was found by may have failed and been made good: the program sees the error number of a failure only.
    let error_number = Errno::last_raw();
    let answer = FRONT.get_or_init(front).as_ref().map(question);
    Errno::set_raw(error_number);
    ASKING.set(false);
    answer
}

fn front() -> Option<Front> {
    extern "C" fn in_child() {
        preload::in_child();
    }
    // SAFETY: the function stores a word, and stays where it is: the library is not unloaded.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    extern "C" fn at_exit() {
        // A call that this makes is not for the devices.
        ask(Front::at_exit);
    }
    // SAFETY: as above; it takes no lock that a thread may hold while it exits.
    unsafe { libc::atexit(at_exit) };
    Front::from_environment()
}

fn failed(number: i32) -> c_int {
    Errno::set_raw(number);
    -1
}

/// What an open of a node gives; `None` when the path is another.
fn open_node(base: c_int, path: *const c_char, flags: c_int) -> Option<c_int> {
    if flags & (libc::O_PATH | libc::O_DIRECTORY) != 0 {
        return None;
    }
    let node = ask(|front| front.node(path.expose_provenance(), base))??;
    let mode = match flags & libc::O_ACCMODE {
        libc::O_RDONLY => AccessMode::ReadOnly,
        libc::O_WRONLY => AccessMode::WriteOnly,
        libc::O_RDWR => AccessMode::ReadWrite,
        _ => return Some(failed(libc::EINVAL)),
    };
    let (file, descriptor) = match ask(|front| front.open(node, mode))? {
        Ok(opened) => opened,
        Err(number) => return Some(failed(number)),
    };
    let number = descriptor.into_raw_fd();
    let close_on_exec = flags & libc::O_CLOEXEC;
    // SAFETY: the descriptor was just made. O_CLOEXEC or 0 as FD_CLOEXEC or 0.
    unsafe { next::fcntl(number, libc::F_SETFD, c_ulong::from(close_on_exec != 0)) };
    Some(match ask(|front| front.given(number, file)) {
        None | Some(Ok(())) => number,
        Some(Err(errno)) => {
            // SAFETY: nobody has seen the descriptor.
            unsafe { next::close(number) };
            failed(errno)
        }
    })
}

/// As `open` of libc.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    match open_node(libc::AT_FDCWD, path, flags) {
        Some(number) => number,
        // SAFETY: the caller's promise.
        None => unsafe { next::open(path, flags, mode) },
    }
}

/// As `open64` of libc, which on 64-bit platforms is `open`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { open(path, flags, mode) }
}

/// As `openat` of libc.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openat(
    base: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
) -> c_int {
    match open_node(base, path, flags) {
        Some(number) => number,
        // SAFETY: the caller's promise.
        None => unsafe { next::openat(base, path, flags, mode) },
    }
}

/// As `openat64` of libc, which on 64-bit platforms is `openat`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openat64(
    base: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { openat(base, path, flags, mode) }
}

/// As `opendir` of libc: the directory of the nodes shows the nodes.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn opendir(path: *const c_char) -> *mut DIR {
    let instead = ask(|front| {
        let place = front.listing(path.expose_provenance())?;
        CString::new(place.as_os_str().as_bytes()).ok()
    });
    let instead = instead.flatten();
    let path = instead.as_ref().map_or(path, |instead| instead.as_ptr());
    // SAFETY: the caller's promise, or a text of ours.
    unsafe { next::opendir(path) }
}

/// As `ioctl` of libc.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ioctl(number: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    // CAST: the kernel takes 32 bits of a request; an address has 64.
    let (request_bits, argument_bits) = (request as u32, argument.expose_provenance() as u64);
    let ours = ask(|front| front.ioctl(number, request_bits, argument_bits)).flatten();
    match ours {
        Some(Answer::Done) => 0,
        Some(Answer::Positive(value)) => value,
        Some(Answer::Errno(errno)) => failed(errno),
        // SAFETY: the caller's promise.
        None => unsafe { next::ioctl(number, request, argument) },
    }
}

/// As `mmap` of libc.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap(
    address: *mut c_void,
    length: size_t,
    protection: c_int,
    flags: c_int,
    number: c_int,
    offset: off_t,
) -> *mut c_void {
    let kind = flags & libc::MAP_TYPE;
    let request = MapRequest {
        // CAST: an offset as bits, and a length of the same width.
        offset: offset as u64,
        bytes: length as u64,
        writable: protection & libc::PROT_WRITE != 0,
        shared: kind == libc::MAP_SHARED || kind == libc::MAP_SHARED_VALIDATE,
    };
    let is_of_a_file = flags & libc::MAP_ANONYMOUS == 0;
    let ours = match is_of_a_file {
        true => ask(|front| front.map(number, request)).flatten(),
        false => None,
    };
    let protection = match ours {
        None | Some(Ok(true)) => protection,
        Some(Ok(false)) => protection & !libc::PROT_WRITE,
        Some(Err(errno)) => {
            failed(errno);
            return libc::MAP_FAILED;
        }
    };
    // SAFETY: the caller's promise.
    unsafe { next::mmap(address, length, protection, flags, number, offset) }
}

/// As `mmap64` of libc, which on 64-bit platforms is `mmap`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap64(
    address: *mut c_void,
    length: size_t,
    protection: c_int,
    flags: c_int,
    number: c_int,
    offset: off_t,
) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { mmap(address, length, protection, flags, number, offset) }
}

/// As `close` of libc.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close(number: c_int) -> c_int {
    ask(|front| front.closing(number));
    // SAFETY: the caller's promise.
    unsafe { next::close(number) }
}

/// As `close_range` of libc.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close_range(
    first: libc::c_uint,
    last: libc::c_uint,
    flags: c_int,
) -> c_int {
    // CAST: flags of the lowest bits.
    let marks = libc::CLOSE_RANGE_CLOEXEC as c_int;
    let known = marks | libc::CLOSE_RANGE_UNSHARE as c_int;
    let closes = flags & marks == 0;
    // Otherwise the kernel refuses, and nothing is closed.
    if closes && first <= last && flags & !known == 0 {
        ask(|front| front.closing_range(first, last));
    }
    // SAFETY: the caller's promise.
    unsafe { next::close_range(first, last, flags) }
}

/// A duplicate was made, or not.
fn duplicated(from: c_int, number: c_int) -> c_int {
    if number < 0 || number == from {
        return number;
    }
    match ask(|front| front.duplicated(from, number)) {
        None | Some(Ok(())) => number,
        Some(Err(errno)) => {
            // SAFETY: nobody has seen the descriptor.
            unsafe { next::close(number) };
            failed(errno)
        }
    }
}

/// As `dup` of libc.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup(number: c_int) -> c_int {
    // SAFETY: the caller's promise.
    duplicated(number, unsafe { next::dup(number) })
}

/// As `dup2` of libc.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup2(from: c_int, onto: c_int) -> c_int {
    // SAFETY: the caller's promise.
    replaced(from, unsafe { next::dup2(from, onto) })
}

/// As `dup3` of libc.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup3(from: c_int, onto: c_int, flags: c_int) -> c_int {
    // SAFETY: the caller's promise.
    replaced(from, unsafe { next::dup3(from, onto, flags) })
}

/// What a duplicate has replaced is closed, if one was made.
fn replaced(from: c_int, onto: c_int) -> c_int {
    if onto >= 0 && from != onto {
        ask(|front| front.closing(onto));
    }
    duplicated(from, onto)
}

/// As `fcntl` of libc.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fcntl(number: c_int, command: c_int, argument: c_ulong) -> c_int {
    // SAFETY: the caller's promise.
    let result = unsafe { next::fcntl(number, command, argument) };
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => duplicated(number, result),
        _ => result,
    }
}

/// As `fcntl64` of libc, which on 64-bit platforms is `fcntl`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fcntl64(number: c_int, command: c_int, argument: c_ulong) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { fcntl(number, command, argument) }
}
