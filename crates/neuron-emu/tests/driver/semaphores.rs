//! Semaphores and events.

use crate::program::{NOWHERE, emulator};
use crate::user::{User, traps};
use xu_abi::driver::errno::{Answer, E2BIG, EINVAL, EIO};
use xu_abi::driver::ioctl::{
    EVENT_GET, EVENT_SET, SEMAPHORE_DECREMENT, SEMAPHORE_INCREMENT, SEMAPHORE_READ, SEMAPHORE_WRITE,
};
use xu_abi::driver::{Arch, Event, Ioctl, Semaphore};

/// A semaphore that starts nothing.
const SEMAPHORE: u32 = 200;

fn semaphore(
    user: &User<'_>,
    ioctl: &Ioctl,
    nc_id: u32,
    index: u32,
    value: i32,
) -> Result<i32, Answer> {
    let mut argument = Semaphore {
        nc_id,
        semaphore_index: index,
        value,
    };
    match user.call(ioctl, &mut argument) {
        Answer::Done => Ok(argument.value),
        refused => Err(refused),
    }
}

fn event(
    user: &User<'_>,
    ioctl: &Ioctl,
    nc_id: u32,
    event_index: u32,
    value: u32,
) -> Result<u32, Answer> {
    let mut argument = Event {
        nc_id,
        event_index,
        value,
    };
    match user.call(ioctl, &mut argument) {
        Answer::Done => Ok(argument.value),
        refused => Err(refused),
    }
}

#[test]
fn semaphores_are_set_added_to_subtracted_from_and_read() {
    for (arch, last) in [(Arch::V2, 1), (Arch::V3, 7)] {
        let emulator = emulator(|c| c.arch = arch);
        let user = User::new(&emulator, 1);
        let on = |ioctl, value| semaphore(&user, ioctl, last, SEMAPHORE, value);
        assert_eq!(on(&SEMAPHORE_READ, 99), Ok(0));
        assert_eq!(on(&SEMAPHORE_WRITE, -5), Ok(-5));
        assert_eq!(on(&SEMAPHORE_INCREMENT, 7), Ok(7));
        assert_eq!(on(&SEMAPHORE_READ, 0), Ok(2));
        assert_eq!(on(&SEMAPHORE_DECREMENT, 3), Ok(3));
        assert_eq!(on(&SEMAPHORE_READ, 0), Ok(-1));
        // The neighbours have not moved.
        assert_eq!(semaphore(&user, &SEMAPHORE_READ, 0, SEMAPHORE, 0), Ok(0));
        assert_eq!(
            semaphore(&user, &SEMAPHORE_READ, last, SEMAPHORE + 1, 0),
            Ok(0)
        );
        let no_core = Err(Answer::Errno(E2BIG));
        for ioctl in [
            SEMAPHORE_INCREMENT,
            SEMAPHORE_DECREMENT,
            SEMAPHORE_READ,
            SEMAPHORE_WRITE,
        ] {
            assert_eq!(semaphore(&user, &ioctl, last + 1, 0, 1), no_core);
            assert_eq!(semaphore(&user, &ioctl, u32::MAX, 0, 1), no_core);
        }
    }
}

#[test]
fn the_index_of_a_semaphore_is_cut_to_16_bits() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    assert_eq!(
        semaphore(&user, &SEMAPHORE_WRITE, 0, 0x1_0000 + SEMAPHORE, 4),
        Ok(4)
    );
    assert_eq!(semaphore(&user, &SEMAPHORE_READ, 0, SEMAPHORE, 0), Ok(4));
    for index in [256, 0xFFFF, 0x5_0100] {
        let refused = semaphore(&user, &SEMAPHORE_READ, 0, index, 0);
        assert_eq!(refused, Err(Answer::Errno(EINVAL)), "{index:#x}");
    }
}

#[test]
fn events_have_one_bit_and_there_is_one_more_than_there_should_be() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    for (index, value, expected) in [(255, 1, 1), (255, 0, 0), (7, 3, 1), (8, 2, 0), (256, 5, 5)] {
        assert_eq!(event(&user, &EVENT_SET, 1, index, value), Ok(value));
        assert_eq!(event(&user, &EVENT_GET, 1, index, 9), Ok(expected));
    }
    assert_eq!(event(&user, &EVENT_GET, 0, 7, 9), Ok(0), "of another core");
    let refused = Err(Answer::Errno(EINVAL));
    assert_eq!(event(&user, &EVENT_SET, 0, 257, 1), refused);
    assert_eq!(event(&user, &EVENT_GET, 0, 0x1_0000, 1), refused, "not cut");
}

#[test]
fn trap_21_an_event_of_a_core_that_does_not_exist_crashes() {
    for ioctl in [EVENT_SET, EVENT_GET] {
        let emulator = emulator(|_| ());
        let user = User::new(&emulator, 1);
        assert_eq!(event(&user, &ioctl, 2, 0, 1), Err(Answer::Errno(EIO)));
        assert_eq!(traps(&emulator), [21]);
    }
}

#[test]
fn a_bad_pointer_is_a_positive_number() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    for ioctl in [SEMAPHORE_INCREMENT, SEMAPHORE_READ, EVENT_SET, EVENT_GET] {
        let answer = user.program.request(user.file, ioctl.request(), NOWHERE);
        assert_eq!(answer, Answer::Positive(12));
    }
}
