//! The filters before a handler.

use crate::program::{ARGUMENT, NOWHERE, Program, WriteOnly, emulator};
use xu_abi::driver::errno::{Answer, EACCES, EINVAL};
use xu_abi::driver::ioctl::{
    ALL, COMPATIBLE_VERSION, DRIVER_INFO_GET, DRIVER_INFO_SET, HOST_DEVICE_ID,
};
use xu_abi::driver::{DeviceDriverInfo, Ioctl};

#[test]
fn a_file_for_writing_only_lets_through_what_is_misc_and_nothing_else() {
    let emulator = emulator(|_| ());
    let program = Program::new(&emulator, 100);
    let file = program.try_open(0, WriteOnly).unwrap();
    for ioctl in ALL.iter().filter(|ioctl| !ioctl.misc) {
        let answer = program.request(file, ioctl.request(), NOWHERE);
        assert_eq!(answer, Answer::Errno(EINVAL), "{ioctl}");
    }
    // Nothing of the process has reached the device: a bad pointer is seen by those that are let through.
    let answer = program.request(file, COMPATIBLE_VERSION.request(), NOWHERE);
    assert_eq!(answer, Answer::Positive(8));
    assert_eq!(emulator.bugs(), []);
}

#[test]
fn a_process_that_is_not_attached_is_refused_what_is_gated() {
    let emulator = emulator(|_| ());
    Program::new(&emulator, 100).open();
    let file = Program::new(&emulator, 100).open();
    let stranger = Program::new(&emulator, 101);
    for ioctl in ALL.iter().filter(|ioctl| ioctl.gated) {
        let answer = stranger.request(file, ioctl.request(), NOWHERE);
        assert_eq!(answer, Answer::Errno(EACCES), "{ioctl}");
    }
    let answer = stranger.request(file, HOST_DEVICE_ID.request(), NOWHERE);
    assert_eq!(answer, Answer::Positive(4));
}

#[test]
fn the_gate_compares_whole_requests() {
    let emulator = emulator(|_| ());
    let file = Program::new(&emulator, 100).open();
    let stranger = Program::new(&emulator, 101);
    let exact = DRIVER_INFO_SET.request();
    let longer = exact + (8 << 16);
    assert_eq!(
        stranger.request(file, exact, NOWHERE),
        Answer::Errno(EACCES)
    );
    assert_eq!(stranger.request(file, longer, NOWHERE), Answer::Errno(524));
}

#[test]
fn an_unknown_request_and_a_known_number_with_a_wrong_size_are_invalid() {
    let emulator = emulator(|_| ());
    let program = Program::new(&emulator, 100);
    let file = program.open();
    program.put(ARGUMENT, &[0; 512]);
    // Number 124 is taken with any size.
    for number in (0..=255_u32).filter(|number| *number != 124) {
        let request = 0x8003_4E00 | number;
        assert_eq!(Ioctl::from_request(request), None);
        let answer = program.request(file, request, ARGUMENT);
        assert_eq!(answer, Answer::Errno(EINVAL), "{number}");
    }
    for number in 134..=255_u32 {
        let answer = program.request(file, 0x8008_4E00 | number, ARGUMENT);
        assert_eq!(answer, Answer::Errno(EINVAL), "{number}");
    }
}

#[test]
fn a_longer_driver_info_is_filled_as_far_as_it_is_known() {
    let emulator = emulator(|_| ());
    let program = Program::new(&emulator, 100);
    let file = program.open();
    program.put(ARGUMENT, &[0x55; 40]);
    let longer = DRIVER_INFO_GET.request() + (16 << 16);
    assert_eq!(program.request(file, longer, ARGUMENT), Answer::Done);
    let bytes = program.get(ARGUMENT);
    let (info, rest) = bytes.split_at(DeviceDriverInfo::ABI.size);
    assert_eq!(info[12], 24);
    assert_eq!(rest, [0x55; 16]);
}
