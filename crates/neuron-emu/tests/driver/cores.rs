//! The initialisation of cores.

use crate::program::{Program, emulator};
use neuron_emu::config::{DriverFault, DriverRule};
use neuron_emu::{Emulator, FileId};
use std::sync::Arc;
use std::time::Duration;
use xu_abi::driver::errno::{Answer, E2BIG, EINTR, EINVAL};
use xu_abi::driver::ioctl::{CINIT_SET_STATE, NC_MODEL_STARTED_COUNT, NC_RESET};
use xu_abi::driver::{CinitSet, CoreInit, DeviceReset, NcModelStartedCount};

const STARTED: u32 = CoreInit::Started.raw();
const COMPLETED: u32 = CoreInit::Completed.raw();

/// What the driver answers, and the state it tells.
fn set(program: &Program<'_>, file: FileId, nc_id: u32, state: u32) -> (Answer, u32) {
    let mut set = CinitSet {
        nc_id,
        state,
        new_state: 99,
    };
    let answer = program.call(file, &CINIT_SET_STATE, &mut set);
    (answer, set.new_state)
}

fn impatient() -> Arc<Emulator> {
    emulator(|c| c.waits.core_init = Duration::ZERO)
}

#[test]
fn the_first_to_ask_starts_and_after_it_has_completed_others_are_told() {
    let emulator = impatient();
    let (one, two) = (Program::new(&emulator, 1), Program::new(&emulator, 2));
    let (mine, theirs) = (one.open(), two.open());
    assert_eq!(set(&one, mine, 0, STARTED), (Answer::Done, STARTED));
    assert_eq!(set(&one, mine, 0, COMPLETED), (Answer::Done, COMPLETED));
    assert_eq!(set(&two, theirs, 0, STARTED), (Answer::Done, COMPLETED));
    // Another core is another matter.
    assert_eq!(set(&two, theirs, 1, STARTED), (Answer::Done, STARTED));
}

#[test]
fn who_waits_in_vain_is_told_started() {
    let emulator = impatient();
    let (one, two) = (Program::new(&emulator, 1), Program::new(&emulator, 2));
    let (mine, theirs) = (one.open(), two.open());
    set(&one, mine, 0, STARTED);
    assert_eq!(set(&two, theirs, 0, STARTED), (Answer::Done, STARTED));
}

#[test]
fn a_wait_for_another_process_can_be_interrupted() {
    let emulator = emulator(|c| c.waits.core_init = Duration::MAX);
    let (one, two) = (Program::new(&emulator, 1), Program::new(&emulator, 2));
    let (mine, theirs) = (one.open(), two.open());
    set(&one, mine, 0, STARTED);
    two.interrupt_after(2);
    assert_eq!(set(&two, theirs, 0, STARTED).0, Answer::Errno(EINTR));
}

#[test]
fn another_process_can_be_at_it_and_complete_it_later() {
    let emulator = emulator(|c| {
        c.driver_faults = vec![DriverRule::once(DriverFault::InitElsewhere, 0)];
        c.waits.core_init = Duration::MAX;
        c.waits.elsewhere = Duration::from_millis(3);
    });
    let program = Program::new(&emulator, 1);
    let file = program.open();
    let answer = set(&program, file, 0, STARTED);
    assert_eq!(answer, (Answer::Done, COMPLETED));
}

#[test]
fn the_state_outlives_its_process_and_a_reset_takes_it_away() {
    let emulator = impatient();
    let one = Program::new(&emulator, 1);
    let file = one.open();
    for nc in [0, 1] {
        set(&one, file, nc, STARTED);
        set(&one, file, nc, COMPLETED);
    }
    emulator.exited(1);
    let two = Program::new(&emulator, 2);
    let file = two.open();
    let mut reset = DeviceReset {
        nc_map: 0b10,
        ..DeviceReset::ZEROED
    };
    assert_eq!(two.call(file, &NC_RESET, &mut reset), Answer::Done);
    assert_eq!(set(&two, file, 0, STARTED), (Answer::Done, COMPLETED));
    assert_eq!(set(&two, file, 1, STARTED), (Answer::Done, STARTED));
}

#[test]
fn cores_and_states_that_are_not_there_are_refused() {
    let emulator = impatient();
    let program = Program::new(&emulator, 1);
    let file = program.open();
    for nc in [2, 8, u32::MAX] {
        let (answer, _) = set(&program, file, nc, STARTED);
        assert_eq!(answer, Answer::Errno(E2BIG));
        let mut count = NcModelStartedCount {
            nc_id: nc,
            ..NcModelStartedCount::ZEROED
        };
        let answer = program.call(file, &NC_MODEL_STARTED_COUNT, &mut count);
        assert_eq!(answer, Answer::Errno(E2BIG));
    }
    for state in [0, 4] {
        let (answer, _) = set(&program, file, 0, state);
        assert_eq!(answer, Answer::Errno(EINVAL));
    }
}

#[test]
fn no_models_are_counted() {
    let emulator = emulator(|_| ());
    let program = Program::new(&emulator, 1);
    let file = program.open();
    let mut count = NcModelStartedCount {
        nc_id: 1,
        count: 5,
        ..NcModelStartedCount::ZEROED
    };
    let answer = program.call(file, &NC_MODEL_STARTED_COUNT, &mut count);
    assert_eq!((answer, count.count), (Answer::Done, 0));
}
