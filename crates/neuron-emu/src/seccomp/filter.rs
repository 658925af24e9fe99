//! Which system calls stop at the supervisor: a filter program, built once.
//!
//! ```text
//!   another architecture ............... goes on
//!   x32 (numbers from 0x4000_0000) ..... ENOSYS: it would be a way around
//!   open, openat, openat2 .............. stop: whether a path is ours, only its text says
//!   ioctl, mmap, close, dup, fcntl ..... stop when the descriptor is one of the reserved numbers
//!   dup2, dup3, close_range ............ stop when they reach a reserved number
//!   everything else .................... goes on
//! ```
//!
//! The kernel runs it for every system call of the program, so what is not ours costs some comparisons and no more.

use core::mem::offset_of;
use core::ops::RangeInclusive;
use nix::libc::{self, c_long, seccomp_data, sock_filter};

/// The numbers that descriptors of the emulator have in a program. A program rarely gets that far by itself.
pub(super) const RESERVED: RangeInclusive<i32> = 960..=1023;

/// Numbers from here on are of the x32 interface.
const X32: u32 = 0x4000_0000;

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xC000_00B7;

/// What decides whether a call stops.
#[derive(Clone, Copy)]
enum Stop {
    Always,
    /// When this argument is a reserved number.
    Descriptor(u32),
    /// When one of the first two arguments is.
    EitherDescriptor,
    /// When the first argument is, and the second asks for a duplicate.
    Duplicate,
    /// When the range of the first two arguments reaches a reserved number.
    Range,
}

/// Calls by number.
const STOPS: &[(c_long, Stop)] = &[
    (libc::SYS_ioctl, Stop::Descriptor(0)),
    (libc::SYS_mmap, Stop::Descriptor(4)),
    (libc::SYS_close, Stop::Descriptor(0)),
    (libc::SYS_openat, Stop::Always),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, Stop::Always),
    (libc::SYS_openat2, Stop::Always),
    (libc::SYS_fcntl, Stop::Duplicate),
    (libc::SYS_dup, Stop::Descriptor(0)),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_dup2, Stop::EitherDescriptor),
    (libc::SYS_dup3, Stop::EitherDescriptor),
    (libc::SYS_close_range, Stop::Range),
];

/// The program.
pub(super) fn program() -> Vec<sock_filter> {
    let mut code = vec![
        load(offset_of!(seccomp_data, arch)),
        jump(libc::BPF_JEQ, ARCHITECTURE, 1, 0),
        answer(libc::SECCOMP_RET_ALLOW),
    ];
    if cfg!(target_arch = "x86_64") {
        code.push(load(offset_of!(seccomp_data, nr)));
        code.push(jump(libc::BPF_JGE, X32, 0, 1));
        // CAST: an error number is a small positive one.
        code.push(answer(libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32));
    }
    for &(number, stop) in STOPS {
        let body = body(stop);
        code.push(load(offset_of!(seccomp_data, nr)));
        // CAST: a system call has a small positive number, and a body at most nine instructions.
        code.push(jump(libc::BPF_JEQ, number as u32, 0, body.len() as u8));
        code.extend(body);
    }
    code.push(answer(libc::SECCOMP_RET_ALLOW));
    code
}

/// What follows for one call; ends with an answer on every way.
fn body(stop: Stop) -> Vec<sock_filter> {
    let stopped = answer(libc::SECCOMP_RET_USER_NOTIF);
    let goes_on = answer(libc::SECCOMP_RET_ALLOW);
    // CAST: here and below, numbers of descriptors and commands are small positive ones.
    let (first, last) = (*RESERVED.start() as u32, *RESERVED.end() as u32);
    match stop {
        Stop::Always => vec![stopped],
        Stop::Descriptor(index) => when_reserved(index).into(),
        Stop::EitherDescriptor => {
            let mut code = vec![
                load(argument(0)),
                jump(libc::BPF_JGE, first, 0, 1),
                // To `stopped` in what follows.
                jump(libc::BPF_JGT, last, 0, 3),
            ];
            code.extend(when_reserved(1));
            code
        }
        Stop::Duplicate => {
            let mut code = vec![
                load(argument(1)),
                jump(libc::BPF_JEQ, libc::F_DUPFD as u32, 1, 0),
                // To `goes_on` in what follows.
                jump(libc::BPF_JEQ, libc::F_DUPFD_CLOEXEC as u32, 0, 4),
            ];
            code.extend(when_reserved(0));
            code
        }
        Stop::Range => vec![
            load(argument(0)),
            jump(libc::BPF_JGT, last, 3, 0),
            load(argument(1)),
            jump(libc::BPF_JGE, first, 0, 1),
            stopped,
            goes_on,
        ],
    }
}

/// Stops when an argument is a reserved number.
fn when_reserved(index: u32) -> [sock_filter; 5] {
    // CAST: small positive numbers.
    let (first, last) = (*RESERVED.start() as u32, *RESERVED.end() as u32);
    [
        load(argument(index)),
        jump(libc::BPF_JGE, first, 0, 2),
        jump(libc::BPF_JGT, last, 1, 0),
        answer(libc::SECCOMP_RET_USER_NOTIF),
        answer(libc::SECCOMP_RET_ALLOW),
    ]
}

/// Offset of the low half of an argument: descriptors are `int`, and the kernel does not look at the rest.
fn argument(index: u32) -> usize {
    // CAST: 0 to 5.
    offset_of!(seccomp_data, args) + 8 * index as usize
}

fn load(offset: usize) -> sock_filter {
    // CAST: an offset in 64 bytes.
    instruction(
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        0,
        0,
        offset as u32,
    )
}

fn jump(condition: u32, value: u32, then: u8, otherwise: u8) -> sock_filter {
    instruction(
        libc::BPF_JMP | condition | libc::BPF_K,
        then,
        otherwise,
        value,
    )
}

fn answer(value: u32) -> sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, 0, 0, value)
}

fn instruction(code: u32, then: u8, otherwise: u8, value: u32) -> sock_filter {
    sock_filter {
        // CAST: the codes have 8 bits.
        code: code as u16,
        jt: then,
        jf: otherwise,
        k: value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the program as the kernel does.
    fn decide(number: c_long, arguments: [u64; 6]) -> u32 {
        decide_for(ARCHITECTURE, number as u32, arguments)
    }

    fn decide_for(architecture: u32, number: u32, arguments: [u64; 6]) -> u32 {
        let word = |offset: u32| match offset {
            0 => number,
            4 => architecture,
            _ => {
                let argument = arguments[(offset as usize - 16) / 8];
                assert_eq!(offset % 8, 0, "only low halves are looked at");
                argument as u32
            }
        };
        let code = program();
        let (mut at, mut accumulator) = (0, 0);
        loop {
            let sock_filter {
                code: operation,
                jt,
                jf,
                k,
            } = code[at];
            at += 1;
            let holds = match u32::from(operation) {
                0x20 => {
                    accumulator = word(k);
                    continue;
                }
                0x06 => return k,
                0x15 => accumulator == k,
                0x25 => accumulator > k,
                0x35 => accumulator >= k,
                other => panic!("instruction {other:#x}"),
            };
            at += usize::from(if holds { jt } else { jf });
        }
    }

    const STOPPED: u32 = libc::SECCOMP_RET_USER_NOTIF;
    const GOES_ON: u32 = libc::SECCOMP_RET_ALLOW;

    fn with(arguments: &[u64]) -> [u64; 6] {
        let mut all = [0; 6];
        all[..arguments.len()].copy_from_slice(arguments);
        all
    }

    #[test]
    fn only_descriptors_of_the_reserved_range_stop() {
        for (number, index) in [
            (libc::SYS_ioctl, 0),
            (libc::SYS_close, 0),
            (libc::SYS_dup, 0),
            (libc::SYS_mmap, 4),
            (libc::SYS_dup3, 0),
            (libc::SYS_dup3, 1),
        ] {
            for (descriptor, expected) in [
                (0, GOES_ON),
                (959, GOES_ON),
                (960, STOPPED),
                (1023, STOPPED),
                (1024, GOES_ON),
                (u64::from(u32::MAX), GOES_ON),
                // What is above the `int` does not count.
                (0xFFFF_FFFF_0000_03C0, STOPPED),
            ] {
                let mut arguments = [0; 6];
                arguments[index] = descriptor;
                assert_eq!(
                    decide(number, arguments),
                    expected,
                    "{number}: {descriptor}"
                );
            }
        }
        // The other arguments of these calls do not matter.
        assert_eq!(decide(libc::SYS_ioctl, with(&[3, 970, 970])), GOES_ON);
    }

    #[test]
    fn every_open_stops() {
        assert_eq!(decide(libc::SYS_openat, [0; 6]), STOPPED);
        assert_eq!(decide(libc::SYS_openat2, [0; 6]), STOPPED);
        #[cfg(target_arch = "x86_64")]
        assert_eq!(decide(libc::SYS_open, [0; 6]), STOPPED);
    }

    #[test]
    fn only_duplicating_commands_of_fcntl_stop() {
        let fcntl =
            |descriptor, command: i32| decide(libc::SYS_fcntl, with(&[descriptor, command as u64]));
        assert_eq!(fcntl(960, libc::F_DUPFD), STOPPED);
        assert_eq!(fcntl(960, libc::F_DUPFD_CLOEXEC), STOPPED);
        assert_eq!(fcntl(960, libc::F_SETFD), GOES_ON);
        assert_eq!(fcntl(3, libc::F_DUPFD), GOES_ON);
        assert_eq!(fcntl(1024, libc::F_DUPFD_CLOEXEC), GOES_ON);
    }

    #[test]
    fn a_range_that_reaches_a_reserved_number_stops() {
        let close = |first, last| decide(libc::SYS_close_range, with(&[first, last]));
        assert_eq!(close(3, u64::from(u32::MAX)), STOPPED);
        assert_eq!(close(3, 960), STOPPED);
        assert_eq!(close(1023, 1023), STOPPED);
        assert_eq!(close(3, 959), GOES_ON);
        assert_eq!(close(1024, u64::from(u32::MAX)), GOES_ON);
    }

    #[test]
    fn other_calls_and_other_architectures_go_on() {
        assert_eq!(decide(libc::SYS_read, with(&[960])), GOES_ON);
        assert_eq!(
            decide_for(0x4000_0003, libc::SYS_openat as u32, [0; 6]),
            GOES_ON
        );
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn x32_is_no_way_around() {
        let openat = X32 | libc::SYS_openat as u32;
        assert_eq!(
            decide_for(ARCHITECTURE, openat, [0; 6]),
            libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32
        );
    }
}
