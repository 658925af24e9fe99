//! Resets, and who waits for them.

use crate::program::{BUFFER, Program, ReadWrite, WriteOnly, emulator};
use neuron_emu::FileId;
use neuron_emu::config::{DriverFault, DriverRule};
use std::time::Duration;
use xu_abi::driver::errno::{Answer, EINTR, EINVAL};
use xu_abi::driver::ioctl::{
    BAR_READ, DEVICE_INFO, DEVICE_READY, DEVICE_RESET, DEVICE_RESET_STATUS, NC_RESET,
    NC_RESET_READY, NOTIFICATIONS_INIT_V2, SEMAPHORE_INCREMENT, SEMAPHORE_READ,
};
use xu_abi::driver::{
    Arch, BarRw, DeviceInfo, DeviceReady, DeviceReset, NotificationsInitV2, Semaphore, arch,
};

/// What is answered, and the id of the request.
fn reset(program: &Program<'_>, file: FileId, nc_map: u32) -> (Answer, u32) {
    let mut reset = DeviceReset {
        nc_map,
        request_id: 0,
    };
    let answer = program.call(file, &NC_RESET, &mut reset);
    (answer, reset.request_id)
}

fn ready(program: &Program<'_>, file: FileId, request_id: u32) -> (Answer, i32) {
    let mut ready = DeviceReady {
        request_id,
        result: 77,
    };
    let answer = program.call(file, &NC_RESET_READY, &mut ready);
    (answer, ready.result)
}

fn device_ready(program: &Program<'_>, file: FileId) -> (Answer, u8) {
    let mut ready = 77_u8;
    let answer = program.call(file, &DEVICE_READY, &mut ready);
    (answer, ready)
}

#[test]
fn a_reset_has_the_id_of_its_process_and_ends_well() {
    let emulator = emulator(|_| ());
    let program = Program::new(&emulator, 1234);
    let file = program.open();
    assert_eq!(reset(&program, file, 0b1), (Answer::Done, 1234));
    assert_eq!(ready(&program, file, 1234), (Answer::Done, 0));
}

#[test]
fn an_unknown_reset_has_failed() {
    let emulator = emulator(|_| ());
    let program = Program::new(&emulator, 1);
    let file = program.open();
    let failed = (Answer::Done, DeviceReady::FAILED);
    assert_eq!(ready(&program, file, 1), failed);
    reset(&program, file, 1);
    assert_eq!(ready(&program, file, 2), failed);
    assert_eq!(ready(&program, file, 1), (Answer::Done, 0));
    // Once asked about it is forgotten.
    assert_eq!(ready(&program, file, 1), failed);
}

#[test]
fn a_second_reset_of_a_process_is_the_positive_1_until_the_first_was_asked_about() {
    let emulator = emulator(|_| ());
    let (one, two) = (Program::new(&emulator, 1), Program::new(&emulator, 2));
    let (mine, theirs) = (one.open(), two.open());
    assert_eq!(reset(&one, mine, 1).0, Answer::Done);
    assert_eq!(reset(&one, mine, 2).0, Answer::Positive(1));
    let answer = one.request(mine, DEVICE_RESET.request(), 0);
    assert_eq!(answer, Answer::Positive(1));
    assert_eq!(reset(&two, theirs, 2).0, Answer::Done);
    assert_eq!(ready(&one, mine, 1), (Answer::Done, 0));
    assert_eq!(reset(&one, mine, 2).0, Answer::Done);
}

#[test]
fn while_a_reset_lasts_its_question_and_an_open_wait_and_free_access_does_not() {
    let emulator = emulator(|c| c.waits.reset = Duration::MAX);
    let (one, two) = (Program::new(&emulator, 1), Program::new(&emulator, 2));
    let file = one.open();
    reset(&one, file, 1);
    one.interrupt_after(2);
    let interrupted = (Answer::Done, DeviceReady::INTERRUPTED);
    assert_eq!(ready(&one, file, 1), interrupted);
    two.interrupt_after(2);
    assert_eq!(two.try_open(0, ReadWrite), Err(EINTR));
    assert!(two.try_open(0, WriteOnly).is_ok());
    // Interrupted, it is still the one of its process.
    assert_eq!(reset(&one, file, 1).0, Answer::Positive(1));
}

#[test]
fn an_open_waits_until_the_reset_is_over() {
    let emulator = emulator(|c| c.waits.reset = Duration::from_millis(3));
    let (one, two) = (Program::new(&emulator, 1), Program::new(&emulator, 2));
    let file = one.open();
    reset(&one, file, 1);
    assert!(two.try_open(0, ReadWrite).is_ok());
    assert_eq!(ready(&one, file, 1), (Answer::Done, 0));
}

#[test]
fn the_last_close_of_a_process_ends_its_reset() {
    let emulator = emulator(|c| c.waits.reset = Duration::MAX);
    let (one, two) = (Program::new(&emulator, 1), Program::new(&emulator, 2));
    let file = one.open();
    reset(&one, file, 1);
    emulator.exited(1);
    assert!(emulator.remains().is_clean());
    assert!(two.try_open(0, ReadWrite).is_ok());
}

#[test]
fn a_reset_that_ends_with_its_process_can_have_failed() {
    let emulator = emulator(|c| {
        c.waits.reset = Duration::MAX;
        c.driver_faults = vec![DriverRule::once(DriverFault::ResetFails, 0)];
    });
    let program = Program::new(&emulator, 1);
    let file = program.open();
    reset(&program, file, 1);
    program.close(file);
    assert_eq!(program.try_open(0, ReadWrite), Err(EINVAL));
}

#[test]
fn a_reset_that_fails_says_so_in_its_result_and_leaves_the_device_invalid() {
    let emulator = emulator(|c| {
        c.driver_faults = vec![DriverRule::once(DriverFault::ResetFails, 0)];
    });
    let (one, two) = (Program::new(&emulator, 1), Program::new(&emulator, 2));
    let file = one.open();
    reset(&one, file, 1);
    assert_eq!(ready(&one, file, 1), (Answer::Done, DeviceReady::FAILED));
    assert_eq!(two.try_open(0, ReadWrite), Err(EINVAL));
    assert!(two.try_open(0, WriteOnly).is_ok());
    // The next one goes well.
    reset(&one, file, DeviceReset::WHOLE_DEVICE);
    assert_eq!(ready(&one, file, 1), (Answer::Done, 0));
    assert!(two.try_open(0, ReadWrite).is_ok());
}

#[test]
fn the_older_interface_resets_the_device() {
    let emulator = emulator(|_| ());
    let program = Program::new(&emulator, 1);
    let file = program.open();
    let answer = program.request(file, DEVICE_RESET.request(), 0);
    assert_eq!(answer, Answer::Done);
    assert_eq!(device_ready(&program, file), (Answer::Done, 1));
    assert_eq!(device_ready(&program, file), (Answer::Done, 0));
    let mut status = 0_u8;
    let answer = program.call(file, &DEVICE_RESET_STATUS, &mut status);
    assert_eq!((answer, status), (Answer::Done, 1));
}

#[test]
fn the_calls_that_can_wait_are_known_beforehand() {
    let emulator = emulator(|_| ());
    assert!(emulator.may_wait(NC_RESET_READY.request()));
    assert!(emulator.may_wait(DEVICE_READY.request()));
    assert!(!emulator.may_wait(NC_RESET.request()));
}

/// Bytes of the ring of hardware queue 4 of a core, as its register says.
fn ring_size(program: &Program<'_>, file: FileId, core: u32) -> u32 {
    let mut info = DeviceInfo::ZEROED;
    program.call(file, &DEVICE_INFO, &mut info);
    let block = arch::at(Arch::V2.table().core_nq, core).unwrap();
    let register = info.bar_address[0] + block + 0x108 + 4 * 0x28;
    program.put(BUFFER, &register.to_ne_bytes());
    program.put(BUFFER + 0x1000, &[0; 4]);
    let mut read = BarRw {
        address: BUFFER,
        data: BUFFER + 0x1000,
        count: 1,
        ..BarRw::ZEROED
    };
    assert_eq!(program.call(file, &BAR_READ, &mut read), Answer::Done);
    u32::from_ne_bytes(program.get(BUFFER + 0x1000).try_into().unwrap())
}

/// The semaphore 9 of a core, after something was added to it.
fn semaphore(program: &Program<'_>, file: FileId, nc_id: u32, add: i32) -> i32 {
    let mut semaphore = Semaphore {
        nc_id,
        semaphore_index: 9,
        value: add,
    };
    if add != 0 {
        program.call(file, &SEMAPHORE_INCREMENT, &mut semaphore);
    }
    assert_eq!(
        program.call(file, &SEMAPHORE_READ, &mut semaphore),
        Answer::Done
    );
    semaphore.value
}

/// Asks for the ring of hardware queue 4 of a core.
fn init_ring(program: &Program<'_>, file: FileId, core: u32) {
    let mut init = NotificationsInitV2 {
        nq_dev_id: core,
        nq_type: 1,
        engine_index: 4,
        size: 4096,
        on_host_memory: 1,
        ..NotificationsInitV2::ZEROED
    };
    let answer = program.call(file, &NOTIFICATIONS_INIT_V2, &mut init);
    assert_eq!(answer, Answer::Done);
}

#[test]
fn a_reset_takes_rings_and_semaphores_of_its_cores_and_a_death_does_not() {
    let emulator = emulator(|_| ());
    let program = Program::new(&emulator, 1);
    let file = program.open();
    for core in [0, 1] {
        init_ring(&program, file, core);
        assert_eq!(ring_size(&program, file, core), 4096);
        assert_eq!(semaphore(&program, file, core, 3), 3);
    }
    emulator.exited(1);
    let program = Program::new(&emulator, 2);
    let file = program.open();
    assert_eq!(ring_size(&program, file, 1), 4096);
    assert_eq!(semaphore(&program, file, 1, 0), 3);
    reset(&program, file, 0b10);
    assert_eq!(ring_size(&program, file, 0), 4096);
    assert_eq!(semaphore(&program, file, 0, 0), 3);
    assert_eq!(ring_size(&program, file, 1), 0);
    assert_eq!(semaphore(&program, file, 1, 0), 0);
    // The driver has forgotten the ring: it makes a new one, and programs it.
    init_ring(&program, file, 1);
    assert_eq!(ring_size(&program, file, 1), 4096);
}
