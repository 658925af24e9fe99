//! Signals that would end the command before it has put its things away.
//!
//! For the command, which waits for one program. What was made for that program is removed when it has ended, and not before.
//!
//! ```text
//!   SIGINT, SIGQUIT .. a terminal sends them to all of its programs: nothing happens here
//!   SIGTERM .......... sent to the command alone: goes on to the program
//!   what is ignored .. stays ignored, here and in the program
//! ```

#![allow(
    unsafe_code,
    reason = "handlers of signals; each block says why it may be there"
)]

use crate::seccomp::open_process;
use nix::errno::Errno;
use nix::libc::{self, c_int, c_long};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use std::os::fd::IntoRawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// The pidfd of the program, once it runs. Unlike a process id it never means another process.
static PROGRAM: AtomicI32 = AtomicI32::new(-1);
/// Whether SIGTERM has come.
static TERMINATED: AtomicBool = AtomicBool::new(false);

/// From now on SIGINT, SIGQUIT and SIGTERM do not end this process; a program that it starts has them as ever.
pub fn leave_to_the_program() {
    extern "C" fn nothing(_: c_int) {}
    extern "C" fn terminated(_: c_int) {
        // PAIRS: with the load in `pass_to`.
        TERMINATED.store(true, Ordering::SeqCst);
        pass_on();
    }
    handle(Signal::SIGINT, nothing);
    handle(Signal::SIGQUIT, nothing);
    handle(Signal::SIGTERM, terminated);
}

/// SIGTERM goes to this child, which was not waited for: also one that came before there was a child.
pub fn pass_to(child: u32) {
    // Where the kernel has no pidfds, SIGTERM has no effect.
    let Ok(pidfd) = open_process(child) else {
        return;
    };
    // Open until this process ends: the handler may use it at any time.
    // PAIRS: with the load in `pass_on`.
    PROGRAM.store(pidfd.into_raw_fd(), Ordering::SeqCst);
    // PAIRS: with the handler, which stores this and then loads the program: one of the two sees what the other has stored.
    if TERMINATED.load(Ordering::SeqCst) {
        pass_on();
    }
}

fn pass_on() {
    // PAIRS: with the store in `pass_to`.
    let program = PROGRAM.load(Ordering::SeqCst);
    if program < 0 {
        return;
    }
    // Handlers leave the error number of what they interrupt alone.
    let number = Errno::last_raw();
    let (program, signal) = (c_long::from(program), c_long::from(libc::SIGTERM));
    // SAFETY: one system call, which is allowed in handlers; no information goes with the signal.
    unsafe { libc::syscall(libc::SYS_pidfd_send_signal, program, signal, 0_usize, 0) };
    Errno::set_raw(number);
}

fn handle(signal: Signal, handler: extern "C" fn(c_int)) {
    let handler = SigHandler::Handler(handler);
    let action = SigAction::new(handler, SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: the handlers store words and make a system call. A handler, unlike ignoring, ends with exec.
    let before = unsafe { sigaction(signal, &action) };
    if let Ok(before) = before
        && matches!(before.handler(), SigHandler::SigIgn)
    {
        // SAFETY: as it was.
        let _it_is_there = unsafe { sigaction(signal, &before) };
    }
}
