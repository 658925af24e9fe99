//! The system calls that no crate offers safely: the only file of this front end with `unsafe`.
//!
//! Used by its siblings. Every function here is safe to call: each passes the kernel memory of its own or borrowed, of
//! the size that the call reads or writes.

#![allow(
    unsafe_code,
    reason = "seccomp, its listener, pidfd and kcmp; each block says why"
)]

use super::{listener, raise_descriptor_limit};
use core::mem::{size_of, zeroed};
use nix::errno::Errno;
use nix::libc::{
    self, c_int, c_long, c_ulong, seccomp_notif, seccomp_notif_addfd, seccomp_notif_resp,
    seccomp_notif_sizes, sock_filter, sock_fprog,
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Room for a notification of a kernel whose structure has grown.
#[repr(C)]
struct Room {
    notification: seccomp_notif,
    spare: [u64; 32],
}

/// Installs a filter on the calling thread, and gives the listener. Makes no other calls than this one.
pub(super) fn install(filter: &[sock_filter], flags: c_ulong) -> Result<OwnedFd, Errno> {
    let program = sock_fprog {
        len: u16::try_from(filter.len()).map_err(|_| Errno::EINVAL)?,
        filter: filter.as_ptr().cast_mut(),
    };
    // SAFETY: the kernel reads `program` and the filter that it points to, which outlives the call.
    let listener = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags | libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            &raw const program,
        )
    };
    owned(listener)
}

/// Whether the kernel's structures fit in those of this file.
pub(super) fn structures_fit() -> Result<bool, Errno> {
    let mut sizes = seccomp_notif_sizes {
        seccomp_notif: 0,
        seccomp_notif_resp: 0,
        seccomp_data: 0,
    };
    // SAFETY: the kernel writes three words to `sizes`.
    let done = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_GET_NOTIF_SIZES,
            0,
            &raw mut sizes,
        )
    };
    Errno::result(done)?;
    Ok(usize::from(sizes.seccomp_notif) <= size_of::<Room>()
        && usize::from(sizes.seccomp_notif_resp) == size_of::<seccomp_notif_resp>())
}

/// The next notification; waits for one.
pub(super) fn receive(listener: BorrowedFd<'_>) -> Result<seccomp_notif, Errno> {
    // SAFETY: integers only; the kernel requires zeroes.
    let mut room: Room = unsafe { zeroed() };
    // SAFETY: the kernel writes its structure, for which `structures_fit` has found that there is room.
    let done = unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_RECV,
            &raw mut room,
        )
    };
    Errno::result(done).map(|_| room.notification)
}

/// Answers a notification.
pub(super) fn send(listener: BorrowedFd<'_>, mut answer: seccomp_notif_resp) -> Result<(), Errno> {
    // SAFETY: the kernel reads a structure of this size.
    let done = unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_SEND,
            &raw mut answer,
        )
    };
    Errno::result(done).map(drop)
}

/// Whether the call of a notification still waits for its answer.
pub(super) fn is_valid(listener: BorrowedFd<'_>, id: u64) -> bool {
    // SAFETY: the kernel reads a number of this size.
    let done = unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_ID_VALID,
            &raw const id,
        )
    };
    done == 0
}

/// Gives the program a descriptor: its number.
pub(super) fn add_descriptor(
    listener: BorrowedFd<'_>,
    addition: seccomp_notif_addfd,
) -> Result<c_int, Errno> {
    // SAFETY: the kernel reads a structure of this size.
    let number = unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_ADDFD,
            &raw const addition,
        )
    };
    Errno::result(number)
}

/// A descriptor that becomes readable when the process has ended.
pub(crate) fn open_process(pid: u32) -> Result<OwnedFd, Errno> {
    // SAFETY: no memory is passed.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_open, c_long::from(pid), 0) })
}

/// Whether the process of such a descriptor has ended.
pub(super) fn has_ended(process: BorrowedFd<'_>) -> bool {
    let mut asked = [PollFd::new(process, PollFlags::POLLIN)];
    poll(&mut asked, PollTimeout::ZERO).is_ok_and(|ended| ended > 0)
}

/// Waits until it has.
pub(super) fn wait_for_end(process: BorrowedFd<'_>) {
    let mut asked = [PollFd::new(process, PollFlags::POLLIN)];
    while poll(&mut asked, PollTimeout::NONE) == Err(Errno::EINTR) {}
}

/// Whether a descriptor of ours and one of another process are the same open file. An error when the kernel cannot say
/// or the process has no such descriptor.
pub(super) fn is_same_file(
    ours: BorrowedFd<'_>,
    pid: u32,
    descriptor: c_int,
) -> Result<bool, Errno> {
    const KCMP_FILE: c_long = 0;
    // SAFETY: no memory is passed.
    let order = unsafe {
        libc::syscall(
            libc::SYS_kcmp,
            c_long::from(std::process::id()),
            c_long::from(pid),
            KCMP_FILE,
            c_long::from(ours.as_raw_fd()),
            c_long::from(descriptor),
        )
    };
    Errno::result(order).map(|order| order == 0)
}

/// Whether a thread belongs to a process.
pub(super) fn is_thread_of(pid: u32, tid: u32) -> bool {
    // SAFETY: no memory is passed, and signal 0 is none.
    let done = unsafe {
        libc::syscall(
            libc::SYS_tgkill,
            c_long::from(pid),
            c_long::from(tid),
            c_long::from(0),
        )
    };
    done == 0
}

/// Sends a descriptor over a Unix socket. Allocates nothing: it is called between fork and exec.
pub(super) fn send_descriptor(
    socket: BorrowedFd<'_>,
    descriptor: BorrowedFd<'_>,
) -> Result<(), Errno> {
    let mut byte = 0_u8;
    let mut part = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: 1,
    };
    let mut control = Control {
        // SAFETY: integers only.
        header: unsafe { zeroed() },
        descriptor: descriptor.as_raw_fd(),
        padding: 0,
    };
    control.header.cmsg_len = core::mem::offset_of!(Control, padding) as _;
    control.header.cmsg_level = libc::SOL_SOCKET;
    control.header.cmsg_type = libc::SCM_RIGHTS;
    // SAFETY: integers and null pointers only.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = size_of::<Control>() as _;
    // SAFETY: the message points to one byte and to one control message, which outlive the call.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
    Errno::result(sent).map(drop)
}

/// Receives a descriptor from a Unix socket.
pub(super) fn receive_descriptor(socket: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let mut byte = [0];
    let mut parts = [IoSliceMut::new(&mut byte)];
    let mut control = nix::cmsg_space!(c_int);
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let message = recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut control), flags)?;
    let number = message.cmsgs()?.find_map(|control| match control {
        ControlMessageOwned::ScmRights(numbers) => numbers.first().copied(),
        _ => None,
    });
    owned(number.ok_or(Errno::EPIPE)?.into())
}

/// A control message with one descriptor, as the macros of C lay it out.
#[repr(C)]
struct Control {
    header: libc::cmsghdr,
    descriptor: c_int,
    padding: c_int,
}

/// Has the child put the filter on itself and send the listener, between fork and exec.
pub(super) fn filter_in_child(command: &mut Command, filter: Vec<sock_filter>, socket: UnixStream) {
    let step = move || {
        raise_descriptor_limit()?;
        let listener = listener::install(&filter)?;
        send_descriptor(socket.as_fd(), listener.as_fd())?;
        Ok(())
    };
    // SAFETY: the step is made of system calls on what was made before the fork: getrlimit, setrlimit, prctl, seccomp,
    // sendmsg, close. It neither allocates nor locks, also when it fails: an error is a number.
    unsafe { command.pre_exec(step) };
}

fn owned(number: c_long) -> Result<OwnedFd, Errno> {
    let number = Errno::result(number)?;
    let number = c_int::try_from(number).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel has just made this descriptor, and nobody else knows its number.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}
