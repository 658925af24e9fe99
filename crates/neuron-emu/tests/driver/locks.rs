//! Reader and writer locks of cores.

use crate::program::{Program, emulator};
use neuron_emu::{Emulator, FileId};
use std::sync::Arc;
use std::time::Duration;
use xu_abi::driver::errno::{Answer, EALREADY, EBUSY, EINVAL, ENOENT};
use xu_abi::driver::ioctl::{
    CRWL_READER_ENTER, CRWL_READER_EXIT, CRWL_WRITER_DOWNGRADE, CRWL_WRITER_ENTER,
};
use xu_abi::driver::{Crwl, Ioctl};

const MODEL: [u8; 32] = [1; 32];
const OTHER: [u8; 32] = [2; 32];

fn lock(program: &Program<'_>, file: FileId, ioctl: &Ioctl, uuid: [u8; 32]) -> Answer {
    program.call(file, ioctl, &mut Crwl { nc_id: 1, uuid })
}

fn impatient() -> Arc<Emulator> {
    emulator(|c| {
        c.waits.reader = Duration::ZERO;
        c.waits.writer = Duration::ZERO;
    })
}

#[test]
fn a_writer_becomes_a_reader_and_others_read_the_same() {
    let emulator = impatient();
    let (one, two) = (Program::new(&emulator, 1), Program::new(&emulator, 2));
    let (mine, theirs) = (one.open(), two.open());
    assert_eq!(lock(&one, mine, &CRWL_WRITER_ENTER, MODEL), Answer::Done);
    let enter = |uuid| lock(&two, theirs, &CRWL_READER_ENTER, uuid);
    assert_eq!(enter(MODEL), Answer::Errno(EBUSY));
    assert_eq!(
        lock(&one, mine, &CRWL_WRITER_DOWNGRADE, MODEL),
        Answer::Done
    );
    assert_eq!(enter(MODEL), Answer::Done);
    assert_eq!(enter(OTHER), Answer::Errno(ENOENT));
}

#[test]
fn a_writer_waits_for_readers_and_for_another_writer() {
    let emulator = impatient();
    let (one, two) = (Program::new(&emulator, 1), Program::new(&emulator, 2));
    let (mine, theirs) = (one.open(), two.open());
    lock(&one, mine, &CRWL_WRITER_ENTER, MODEL);
    let write = || lock(&two, theirs, &CRWL_WRITER_ENTER, OTHER);
    assert_eq!(write(), Answer::Errno(EBUSY));
    lock(&one, mine, &CRWL_WRITER_DOWNGRADE, MODEL);
    assert_eq!(write(), Answer::Errno(EBUSY));
    assert_eq!(lock(&one, mine, &CRWL_READER_EXIT, MODEL), Answer::Done);
    assert_eq!(write(), Answer::Done);
}

#[test]
fn a_writer_that_enters_again_is_there_already() {
    let emulator = impatient();
    let program = Program::new(&emulator, 1);
    let file = program.open();
    lock(&program, file, &CRWL_WRITER_ENTER, MODEL);
    let again = |uuid| lock(&program, file, &CRWL_WRITER_ENTER, uuid);
    assert_eq!(again(MODEL), Answer::Errno(EALREADY));
    assert_eq!(again(OTHER), Answer::Errno(EBUSY));
}

#[test]
fn who_has_no_lock_cannot_give_it_back() {
    let emulator = impatient();
    let (one, two) = (Program::new(&emulator, 1), Program::new(&emulator, 2));
    let (mine, theirs) = (one.open(), two.open());
    lock(&one, mine, &CRWL_WRITER_ENTER, MODEL);
    let downgrade = |program, file, uuid| lock(program, file, &CRWL_WRITER_DOWNGRADE, uuid);
    assert_eq!(downgrade(&two, theirs, MODEL), Answer::Errno(ENOENT));
    assert_eq!(downgrade(&one, mine, OTHER), Answer::Errno(ENOENT));
    assert_eq!(downgrade(&one, mine, MODEL), Answer::Done);
    let exit = |program, file, uuid| lock(program, file, &CRWL_READER_EXIT, uuid);
    assert_eq!(exit(&two, theirs, MODEL), Answer::Errno(ENOENT));
    assert_eq!(exit(&one, mine, OTHER), Answer::Errno(ENOENT));
    assert_eq!(exit(&one, mine, MODEL), Answer::Done);
    assert_eq!(exit(&one, mine, MODEL), Answer::Errno(ENOENT));
}

#[test]
fn the_last_close_drops_locks() {
    let emulator = impatient();
    let (one, two) = (Program::new(&emulator, 1), Program::new(&emulator, 2));
    let (mine, theirs) = (one.open(), two.open());
    lock(&one, mine, &CRWL_WRITER_ENTER, MODEL);
    assert_eq!(emulator.remains().nodes[0].locked, [1]);
    one.close(mine);
    let answer = lock(&two, theirs, &CRWL_WRITER_ENTER, OTHER);
    assert_eq!(answer, Answer::Done);
}

#[test]
fn there_are_eight_locks_whatever_the_device_has() {
    let emulator = impatient();
    let program = Program::new(&emulator, 1);
    let file = program.open();
    let enter = |nc_id| {
        let mut crwl = Crwl { nc_id, uuid: MODEL };
        program.call(file, &CRWL_WRITER_ENTER, &mut crwl)
    };
    assert_eq!(enter(7), Answer::Done);
    assert_eq!(enter(8), Answer::Errno(EINVAL));
    assert_eq!(enter(u32::MAX), Answer::Errno(EINVAL));
}
