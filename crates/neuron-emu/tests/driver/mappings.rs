//! What may be mapped, and what may be written through a mapping.

use crate::program::{Program, ReadOnly, WriteOnly, emulator};
use crate::user::{DEVICE, HOST, User};
use neuron_emu::{AccessMode, Caller, Emulator, MapRequest};
use std::fs::File;
use std::os::unix::fs::FileExt;
use xu_abi::driver::errno::{Answer, EACCES, EINVAL, EPERM};
use xu_abi::driver::ioctl::{NOTIFICATIONS_INIT_V1, RESOURCE_MMAP_INFO};
use xu_abi::driver::{Arch, MemAllocV2MemType64, MemType, NotificationsInitV1, ResourceMmapInfo};

fn shared(offset: u64, bytes: u64) -> MapRequest {
    MapRequest {
        offset,
        bytes,
        writable: true,
        shared: true,
    }
}

fn map(emulator: &Emulator, user: &User<'_>, offset: u64, bytes: u64) -> Result<bool, i32> {
    emulator.map(user.program.pid(), user.file, shared(offset, bytes))
}

#[test]
fn a_chunk_is_mapped_whole_by_its_owner_and_read_by_others() {
    let emulator = emulator(|_| ());
    let (owner, other) = (User::new(&emulator, 1), User::new(&emulator, 2));
    for handle in [owner.host(8192), owner.device(8192)] {
        let pa = owner.pa(handle);
        assert_eq!(map(&emulator, &owner, pa, 8192), Ok(true));
        assert_eq!(map(&emulator, &owner, pa, 4097), Ok(true), "whole pages");
        assert_eq!(map(&emulator, &other, pa, 8192), Ok(false));
        for (offset, bytes) in [
            (pa, 4096),
            (pa, 12288),
            (pa + 4096, 4096),
            (pa + 8192, 4096),
        ] {
            assert_eq!(map(&emulator, &owner, offset, bytes), Err(EPERM));
        }
        assert_eq!(map(&emulator, &owner, pa + 1, 8192), Err(EINVAL));
        assert_eq!(map(&emulator, &owner, pa, 0), Err(EINVAL));
        assert_eq!(map(&emulator, &owner, pa, u64::MAX), Err(EINVAL));
        owner.free(handle);
        assert_eq!(map(&emulator, &owner, pa, 8192), Err(EPERM));
    }
}

#[test]
fn memory_of_the_device_may_be_written_by_everybody() {
    let emulator = emulator(|_| ());
    let (owner, other) = (User::new(&emulator, 1), User::new(&emulator, 2));
    let mut ring = NotificationsInitV1 {
        size: 4096,
        ..NotificationsInitV1::ZEROED
    };
    assert_eq!(owner.call(&NOTIFICATIONS_INIT_V1, &mut ring), Answer::Done);
    assert_eq!(map(&emulator, &other, ring.mmap_offset, 4096), Ok(true));
    emulator.exited(1);
    assert_eq!(map(&emulator, &other, ring.mmap_offset, 4096), Ok(true));
}

#[test]
fn the_access_mode_of_the_file_comes_first() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let pa = user.pa(user.host(4096));
    let with = |mode: AccessMode, change: fn(&mut MapRequest)| {
        let program = Program::new(&emulator, 1);
        let file = program.try_open(0, mode).unwrap();
        let mut request = shared(pa, 4096);
        change(&mut request);
        let answer = emulator.map(1, file, request);
        program.close(file);
        answer
    };
    assert_eq!(with(WriteOnly, |_| ()), Err(EACCES));
    assert_eq!(with(ReadOnly, |_| ()), Err(EACCES));
    assert_eq!(with(ReadOnly, |r| r.writable = false), Ok(true));
    assert_eq!(with(ReadOnly, |r| r.shared = false), Err(EINVAL));
}

#[test]
fn a_mapping_of_a_scratchpad_may_run_on_to_the_end_of_the_pool() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let piece = MemAllocV2MemType64 {
        mem_type: MemType::ContiguousScratchpad.raw(),
        ..DEVICE
    };
    let pieces = [(); 3].map(|()| user.allocate(piece));
    let lowest = user.pa(pieces[2]);
    for pages in 1..=3 {
        assert_eq!(map(&emulator, &user, lowest, 4096 * pages), Ok(true));
    }
    assert_eq!(map(&emulator, &user, lowest, 4096 * 4), Err(EPERM));
}

#[test]
fn windows_are_mapped_exactly_and_those_of_semaphores_not_at_all() {
    for arch in [Arch::V2, Arch::V3] {
        let emulator = emulator(|c| c.arch = arch);
        let user = User::new(&emulator, 1);
        let window = |block, block_id, resource| {
            let mut info = ResourceMmapInfo {
                block,
                block_id,
                resource,
                ..ResourceMmapInfo::ZEROED
            };
            let answer = user.call(&RESOURCE_MMAP_INFO, &mut info);
            (answer, info.offset, info.size)
        };
        let last = emulator.config().arch.table().cores - 1;
        let (answer, buffer, bytes) = window(0, last.into(), 2);
        assert_eq!((answer, bytes), (Answer::Done, 0x200_0000));
        assert_eq!(map(&emulator, &user, buffer, bytes), Ok(true));
        assert_eq!(map(&emulator, &user, buffer, bytes / 2), Err(EPERM));
        assert_eq!(map(&emulator, &user, buffer + 4096, bytes), Err(EPERM));
        let (answer, all, bytes) = window(1, 5, 1);
        assert_eq!(answer, Answer::Done);
        assert_eq!(map(&emulator, &user, all, bytes), Ok(false), "only read");
        // Nothing sees a store to a semaphore.
        assert_eq!(window(0, 0, 0).0, Answer::Errno(EINVAL));
        assert_eq!(
            map(&emulator, &user, buffer + 0x270_0000, 0x2000),
            Err(EPERM)
        );
        for (block, id, resource) in [(0, 8, 2), (1, 16, 1), (3, 0, 0), (0, 0, 4), (0, 0, 3)] {
            assert_eq!(window(block, id, resource).0, Answer::Errno(EINVAL));
        }
        let (answer, memory, bytes) = window(2, 1, 3);
        match arch {
            Arch::V2 => assert_eq!(answer, Answer::Errno(EINVAL)),
            Arch::V3 => assert_eq!(map(&emulator, &user, memory, bytes), Ok(true)),
        }
    }
}

#[test]
fn raw_device_memory_is_for_the_privileged() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    assert_eq!(map(&emulator, &user, 0x100_0000, 4096), Err(EPERM));
    assert_eq!(map(&emulator, &user, 0x10_0000_0000, 16 << 30), Err(EPERM));
}

#[test]
fn the_bytes_of_a_chunk_are_in_the_file_at_its_address() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let opened = emulator
        .open(&user.program, 0, AccessMode::ReadWrite)
        .unwrap();
    let file = File::from(opened.descriptor);
    for handle in [user.allocate(HOST), user.allocate(DEVICE)] {
        let pa = user.pa(handle);
        file.write_all_at(b"through the file", pa).unwrap();
        assert_eq!(user.read(handle, 0, 16), b"through the file");
        assert_eq!(user.write(handle, 100, b"through a call"), Answer::Done);
        let mut bytes = [0; 14];
        file.read_exact_at(&mut bytes, pa + 100).unwrap();
        assert_eq!(&bytes, b"through a call");
    }
}
