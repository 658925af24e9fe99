//! Copies in two slots.

use crate::program::emulator;
use crate::user::{DEVICE, User, warnings};
use neuron_emu::config::{DriverFault, DriverRule};
use xu_abi::driver::errno::{Answer, EINVAL, EPERM};
use xu_abi::driver::ioctl::{
    MEM_COPY_ASYNC, MEM_COPY_ASYNC_WAIT, MEM_COPY_ASYNC64, MEM_COPY64, NC_RESET,
};
use xu_abi::driver::{
    CHAIN_START, DeviceReset, MAX_ASYNC_COPY, MemAllocV2MemType64, MemCopy64, MemCopyAsync,
    MemCopyAsync64, MemCopyAsyncWait,
};

/// Starts a copy of `size` bytes from offset to offset of one chunk.
fn start(
    user: &User<'_>,
    chunk: u64,
    from: u64,
    to: u64,
    size: u64,
    pwait_handle: i32,
) -> Result<i32, Answer> {
    let mut copy = MemCopyAsync64 {
        src: chunk,
        dst: chunk,
        size,
        src_offset: from,
        dst_offset: to,
        pwait_handle,
        ..MemCopyAsync64::ZEROED
    };
    match user.call(&MEM_COPY_ASYNC64, &mut copy) {
        Answer::Done => Ok(copy.wait_handle),
        refused => Err(refused),
    }
}

fn wait(user: &User<'_>, chunk: u64, pwait_handle: i32) -> Answer {
    let mut wait = MemCopyAsyncWait {
        src: chunk,
        dst: chunk,
        pwait_handle,
        ..MemCopyAsyncWait::ZEROED
    };
    user.call(&MEM_COPY_ASYNC_WAIT, &mut wait)
}

#[test]
fn a_chain_alternates_between_the_slots_and_each_copy_is_there_when_it_was_waited_for() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let chunk = user.device(4096);
    assert_eq!(user.write(chunk, 0, &[1, 2, 3, 4]), Answer::Done);
    assert_eq!(start(&user, chunk, 0, 10, 1, CHAIN_START), Ok(1));
    assert_eq!(start(&user, chunk, 1, 11, 1, 1), Ok(2));
    assert_eq!(
        user.read(chunk, 10, 2),
        [1, 0xA5],
        "the second was not waited for"
    );
    assert_eq!(start(&user, chunk, 2, 12, 1, 2), Ok(1));
    assert_eq!(start(&user, chunk, 3, 13, 1, 1), Ok(2));
    assert_eq!(user.read(chunk, 10, 4), [1, 2, 3, 0xA5]);
    assert_eq!(wait(&user, chunk, 2), Answer::Done);
    assert_eq!(user.read(chunk, 10, 4), [1, 2, 3, 4]);
}

#[test]
fn a_chain_that_starts_takes_the_first_slot_even_if_it_is_in_use() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let chunk = user.device(4096);
    assert_eq!(user.write(chunk, 0, &[1, 2]), Answer::Done);
    assert_eq!(start(&user, chunk, 0, 10, 1, CHAIN_START), Ok(1));
    assert_eq!(start(&user, chunk, 1, 11, 1, CHAIN_START), Ok(1));
    assert_eq!(wait(&user, chunk, 1), Answer::Done);
    assert_eq!(user.read(chunk, 10, 2), [1, 2]);
    assert_eq!(
        wait(&user, chunk, 1),
        Answer::Errno(EINVAL),
        "nobody is there"
    );
}

#[test]
fn handles_that_name_no_copy_are_refused() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let chunk = user.device(4096);
    for handle in [3, -2, 1, 2] {
        assert_eq!(
            start(&user, chunk, 0, 10, 1, handle),
            Err(Answer::Errno(EINVAL))
        );
        assert_eq!(wait(&user, chunk, handle), Answer::Errno(EINVAL));
    }
    for handle in [0, CHAIN_START] {
        assert_eq!(wait(&user, chunk, handle), Answer::Errno(EINVAL));
    }
    assert_eq!(wait(&user, 99, 1), Answer::Errno(EINVAL));
    assert_eq!(
        start(&user, chunk, 0, 4096, 1, CHAIN_START),
        Err(Answer::Errno(EINVAL))
    );
}

#[test]
fn handle_0_copies_at_once() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let chunk = user.device(4096);
    assert_eq!(user.write(chunk, 0, &[7]), Answer::Done);
    assert_eq!(start(&user, chunk, 0, 10, 1, 0), Ok(0));
    assert_eq!(user.read(chunk, 10, 1), [7]);
    let mut narrow = MemCopyAsync {
        src: chunk,
        dst: chunk,
        size: 1,
        dst_offset: 11,
        ..MemCopyAsync::ZEROED
    };
    assert_eq!(user.call(&MEM_COPY_ASYNC, &mut narrow), Answer::Done);
    assert_eq!(user.read(chunk, 11, 1), [7]);
}

#[test]
fn slots_belong_to_the_queue_of_the_core_whoever_uses_it() {
    let emulator = emulator(|_| ());
    let (one, two) = (User::new(&emulator, 1), User::new(&emulator, 2));
    let chunk = one.device(4096);
    let elsewhere = one.allocate(MemAllocV2MemType64 { nc_id: 1, ..DEVICE });
    assert_eq!(start(&one, chunk, 0, 10, 1, CHAIN_START), Ok(1));
    assert_eq!(wait(&two, elsewhere, 1), Answer::Errno(EINVAL));
    assert_eq!(wait(&two, chunk, 1), Answer::Done);
    assert_eq!(wait(&one, chunk, 1), Answer::Errno(EINVAL));
}

#[test]
fn a_synchronous_copy_of_the_queue_comes_behind_what_was_started() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let chunk = user.device(4096);
    assert_eq!(user.write(chunk, 0, &[7]), Answer::Done);
    assert_eq!(start(&user, chunk, 0, 10, 1, CHAIN_START), Ok(1));
    let mut copy = MemCopy64 {
        src: chunk,
        dst: chunk,
        size: 1,
        src_offset: 10,
        dst_offset: 11,
    };
    assert_eq!(user.call(&MEM_COPY64, &mut copy), Answer::Done);
    assert_eq!(user.read(chunk, 10, 2), [7, 7]);
}

#[test]
fn one_copy_has_at_most_2032_descriptors_and_is_refused_after_its_start() {
    // The waits time out, so that nothing has to be copied.
    let emulator = emulator(|c| {
        c.driver_faults = vec![DriverRule::always(DriverFault::CopyTimeout)];
    });
    let user = User::new(&emulator, 1);
    let chunk = user.device(MAX_ASYNC_COPY + 4096);
    let start = |size| start(&user, chunk, 0, 0, size, CHAIN_START);
    assert_eq!(start(MAX_ASYNC_COPY), Ok(1));
    assert_eq!(wait(&user, chunk, 1), Answer::Errno(EPERM));
    assert_eq!(start(MAX_ASYNC_COPY + 1), Err(Answer::Errno(EINVAL)));
    assert_eq!(
        wait(&user, chunk, 1),
        Answer::Errno(EPERM),
        "it had been started"
    );
    assert_eq!(wait(&user, chunk, 1), Answer::Errno(EINVAL));
}

#[test]
fn what_was_started_is_made_before_its_process_goes() {
    let emulator = emulator(|_| ());
    let (one, two) = (User::new(&emulator, 1), User::new(&emulator, 2));
    let shared = two.device(4096);
    assert_eq!(two.write(shared, 0, &[7]), Answer::Done);
    assert_eq!(start(&one, shared, 0, 10, 1, CHAIN_START), Ok(1));
    emulator.exited(1);
    assert_eq!(two.read(shared, 10, 1), [7]);
    assert_eq!(wait(&two, shared, 1), Answer::Errno(EINVAL));
}

#[test]
fn a_reset_of_a_core_loses_the_copies_through_it_and_no_others() {
    let emulator = emulator(|_| ());
    let (user, other) = (User::new(&emulator, 1), User::new(&emulator, 2));
    let chunk = user.device(4096);
    let elsewhere = user.allocate(MemAllocV2MemType64 { nc_id: 1, ..DEVICE });
    assert_eq!(user.write(chunk, 0, &[7]), Answer::Done);
    assert_eq!(user.write(elsewhere, 0, &[7]), Answer::Done);
    assert_eq!(start(&user, chunk, 0, 10, 1, CHAIN_START), Ok(1));
    assert_eq!(start(&user, elsewhere, 0, 10, 1, CHAIN_START), Ok(1));
    let mut reset = DeviceReset {
        nc_map: 0b1,
        request_id: 0,
    };
    assert_eq!(other.call(&NC_RESET, &mut reset), Answer::Done);
    let warnings = warnings(&emulator);
    assert!(
        warnings.len() == 1 && warnings[0].contains("core 0 by process 2 before 1 copies"),
        "{warnings:?}"
    );
    assert_eq!(wait(&user, chunk, 1), Answer::Errno(EINVAL));
    assert_eq!(wait(&user, elsewhere, 1), Answer::Done);
    assert_eq!(user.read(chunk, 10, 1), [0xA5]);
    assert_eq!(user.read(elsewhere, 10, 1), [7]);
}

#[test]
fn a_wait_can_time_out() {
    let emulator = emulator(|c| {
        c.driver_faults = vec![DriverRule::once(DriverFault::CopyTimeout, 0)];
    });
    let user = User::new(&emulator, 1);
    let chunk = user.device(4096);
    assert_eq!(start(&user, chunk, 0, 10, 1, CHAIN_START), Ok(1));
    assert_eq!(wait(&user, chunk, 1), Answer::Errno(EPERM));
}
