//! Range marks.

use crate::program::{NOWHERE, Program, ReadWrite, WriteOnly, emulator};
use neuron_emu::{Emulator, FileId};
use xu_abi::driver::errno::{Answer, EBUSY, EINVAL};
use xu_abi::driver::ioctl::{
    CRWL_NC_RANGE_MARK, CRWL_NC_RANGE_MARK_EXT0, CRWL_NC_RANGE_UNMARK, CRWL_NC_RANGE_UNMARK_EXT0,
};
use xu_abi::driver::{Arch, CrwlNcMap, CrwlNcMapExt};

fn wanted(count: u32, first: u32, last: u32) -> CrwlNcMapExt {
    CrwlNcMapExt {
        nc_count: count,
        start_nc_index: first,
        end_nc_index: last,
        ..CrwlNcMapExt::ZEROED
    }
}

fn mark(program: &Program<'_>, file: FileId, map: &mut CrwlNcMapExt) -> Answer {
    program.call(file, &CRWL_NC_RANGE_MARK_EXT0, map)
}

fn marks(emulator: &Emulator, pid: u32) -> Vec<usize> {
    let marks = emulator.remains().marks;
    marks.get(&pid).cloned().unwrap_or_default()
}

#[test]
fn the_first_run_that_is_long_enough_is_marked() {
    let emulator = emulator(|c| c.arch = Arch::V3);
    let (one, two) = (Program::new(&emulator, 1), Program::new(&emulator, 2));
    let file = one.try_open(0, WriteOnly).unwrap();
    let mut map = wanted(1, 2, 2);
    assert_eq!(mark(&one, file, &mut map), Answer::Done);
    assert_eq!((map.bitmap[0], map.max_nc_available), (0b100, 1));

    let file = two.try_open(0, WriteOnly).unwrap();
    let mut map = wanted(3, 0, 7);
    assert_eq!(mark(&two, file, &mut map), Answer::Done);
    assert_eq!((map.bitmap[0], map.max_nc_available), (0b11_1000, 5));
    assert_eq!(marks(&emulator, 2), [3, 4, 5]);
}

#[test]
fn a_refusal_says_how_many_are_free_and_marks_nothing() {
    let emulator = emulator(|_| ());
    let (one, two) = (Program::new(&emulator, 1), Program::new(&emulator, 2));
    let file = one.try_open(0, WriteOnly).unwrap();
    assert_eq!(mark(&one, file, &mut wanted(1, 0, 0)), Answer::Done);
    let file = two.try_open(0, WriteOnly).unwrap();
    let mut map = wanted(2, 0, 1);
    map.bitmap = [u64::MAX; 8];
    assert_eq!(mark(&two, file, &mut map), Answer::Errno(EBUSY));
    assert_eq!((map.max_nc_available, map.bitmap), (1, [0; 8]));
    assert_eq!(marks(&emulator, 2), [0_usize; 0]);
    // A process's own marks are in its way, too.
    assert_eq!(mark(&one, file, &mut wanted(1, 0, 0)), Answer::Errno(EBUSY));
}

#[test]
fn no_cores_at_all_are_always_free() {
    let emulator = emulator(|_| ());
    let program = Program::new(&emulator, 1);
    let file = program.try_open(0, WriteOnly).unwrap();
    assert_eq!(mark(&program, file, &mut wanted(2, 0, 1)), Answer::Done);
    let mut map = wanted(0, 0, 1);
    map.bitmap = [7; 8];
    assert_eq!(mark(&program, file, &mut map), Answer::Done);
    assert_eq!((map.bitmap, map.max_nc_available), ([0; 8], 0));
}

#[test]
fn cores_are_counted_from_the_device_that_is_asked_through_the_whole_host() {
    let emulator = emulator(|c| c.devices = 4);
    let program = Program::new(&emulator, 1);
    let file = program.try_open(2, WriteOnly).unwrap();
    let mut map = wanted(3, 1, 3);
    assert_eq!(mark(&program, file, &mut map), Answer::Done);
    assert_eq!(map.bitmap[0], 0b1110);
    assert_eq!(marks(&emulator, 1), [5, 6, 7]);
    let zero = program.try_open(0, WriteOnly).unwrap();
    let mut map = wanted(8, 0, 7);
    assert_eq!(mark(&program, zero, &mut map), Answer::Errno(EBUSY));
    assert_eq!(map.max_nc_available, 5);
}

#[test]
fn a_range_that_is_none_is_invalid() {
    let emulator = emulator(|c| c.devices = 2);
    let program = Program::new(&emulator, 1);
    let file = program.try_open(0, WriteOnly).unwrap();
    for (first, last) in [(1, 0), (0, 512), (512, 512), (0, u32::MAX)] {
        let mut map = wanted(1, first, last);
        assert_eq!(mark(&program, file, &mut map), Answer::Errno(EINVAL));
    }
    assert_eq!(mark(&program, file, &mut wanted(1, 511, 511)), Answer::Done);
    // From device 1 on there are two cores less.
    let file = program.try_open(1, WriteOnly).unwrap();
    let mut map = wanted(1, 510, 510);
    assert_eq!(mark(&program, file, &mut map), Answer::Errno(EINVAL));
}

#[test]
fn the_older_map_speaks_of_64_cores() {
    let emulator = emulator(|_| ());
    let program = Program::new(&emulator, 1);
    let file = program.open();
    let older = |last| CrwlNcMap {
        nc_count: 2,
        end_nc_index: last,
        ..CrwlNcMap::ZEROED
    };
    let mut map = older(64);
    let answer = program.call(file, &CRWL_NC_RANGE_MARK, &mut map);
    assert_eq!(answer, Answer::Errno(EINVAL));
    let mut map = older(63);
    let answer = program.call(file, &CRWL_NC_RANGE_MARK, &mut map);
    assert_eq!((answer, map.bitmap), (Answer::Done, 0b11));
    map.bitmap = 0b10;
    let answer = program.call(file, &CRWL_NC_RANGE_UNMARK, &mut map);
    assert_eq!((answer, marks(&emulator, 1)), (Answer::Done, vec![0]));
}

#[test]
fn an_unmark_takes_only_what_is_the_callers_own() {
    let emulator = emulator(|c| c.arch = Arch::V3);
    let (one, two) = (Program::new(&emulator, 1), Program::new(&emulator, 2));
    let file = one.try_open(0, WriteOnly).unwrap();
    assert_eq!(mark(&one, file, &mut wanted(2, 0, 1)), Answer::Done);
    assert_eq!(mark(&two, file, &mut wanted(2, 2, 3)), Answer::Done);
    let mut map = wanted(0, 0, 0);
    map.bitmap = [u64::MAX; 8];
    let answer = two.call(file, &CRWL_NC_RANGE_UNMARK_EXT0, &mut map);
    assert_eq!(answer, Answer::Done);
    assert_eq!(marks(&emulator, 1), [0, 1]);
    assert_eq!(marks(&emulator, 2), [0_usize; 0]);
}

#[test]
fn trap_13_only_the_close_of_a_file_for_writing_only_releases_marks_and_it_releases_all() {
    let emulator = emulator(|c| c.devices = 2);
    let program = Program::new(&emulator, 1);
    let full = program.try_open(0, ReadWrite).unwrap();
    assert_eq!(mark(&program, full, &mut wanted(1, 0, 0)), Answer::Done);
    program.close(full);
    assert_eq!(marks(&emulator, 1), [0]);
    // Another device, another file: the marks of the process are dropped.
    let other = program.try_open(1, WriteOnly).unwrap();
    assert_eq!(mark(&program, other, &mut wanted(1, 0, 0)), Answer::Done);
    assert_eq!(marks(&emulator, 1), [0, 2]);
    program.close(other);
    assert_eq!(marks(&emulator, 1), [0_usize; 0]);
}

#[test]
fn a_death_leaves_marks_that_were_made_through_a_full_file() {
    let emulator = emulator(|_| ());
    let program = Program::new(&emulator, 1);
    let full = program.open();
    assert_eq!(mark(&program, full, &mut wanted(1, 0, 0)), Answer::Done);
    emulator.exited(1);
    assert_eq!(marks(&emulator, 1), [0]);
    let two = Program::new(&emulator, 2);
    let free = two.try_open(0, WriteOnly).unwrap();
    assert_eq!(mark(&two, free, &mut wanted(1, 1, 1)), Answer::Done);
    emulator.exited(2);
    assert_eq!(marks(&emulator, 2), [0_usize; 0]);
}

#[test]
fn a_bad_pointer_is_a_positive_number() {
    let emulator = emulator(|_| ());
    let program = Program::new(&emulator, 1);
    let file = program.open();
    for (ioctl, bytes) in [
        (CRWL_NC_RANGE_MARK, 24),
        (CRWL_NC_RANGE_MARK_EXT0, 80),
        (CRWL_NC_RANGE_UNMARK, 24),
        (CRWL_NC_RANGE_UNMARK_EXT0, 80),
    ] {
        let answer = program.request(file, ioctl.request(), NOWHERE);
        assert_eq!(answer, Answer::Positive(bytes), "{ioctl}");
    }
}
