//! Allocation: what is refused, where chunks lie, what they hold, how long they live.

use crate::program::{BUFFER, NOWHERE, emulator};
use crate::user::{DEVICE, HOST, User, pattern, traps, warnings};
use neuron_emu::config::{DriverFault, DriverRule};
use xu_abi::driver::errno::{Answer, EACCES, EINVAL, EIO, ENOMEM};
use xu_abi::driver::ioctl::{MEM_ALLOC, MEM_ALLOC_V2, MEM_ALLOC_V2MT, MEM_ALLOC_V2MT64};
use xu_abi::driver::unverified::EMULATED_HOST_CHUNKS;
use xu_abi::driver::{Arch, MemAlloc, MemAllocV2, MemAllocV2MemType, MemAllocV2MemType64, MemType};

const MIB: u64 = 1 << 20;
const SCRATCHPAD: MemAllocV2MemType64 = MemAllocV2MemType64 {
    mem_type: MemType::ContiguousScratchpad.raw(),
    ..DEVICE
};

#[test]
fn handles_count_from_one_and_the_one_freed_last_comes_first() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let handles: Vec<_> = (0..3).map(|_| user.device(100)).collect();
    assert_eq!(handles, [1, 2, 3]);
    for handle in [1, 3, 2] {
        assert_eq!(user.free(handle), Answer::Done);
    }
    let again: Vec<_> = (0..4).map(|_| user.host(100)).collect();
    assert_eq!(again, [2, 3, 1, 4]);
    for handle in [0, 5, u64::MAX] {
        assert_eq!(user.free(handle), Answer::Errno(EINVAL));
    }
    assert_eq!(user.free(4), Answer::Done);
    assert_eq!(user.free(4), Answer::Errno(EINVAL));
}

#[test]
fn every_variant_allocates_whole_pages() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 7);
    let (mem_handle, size) = (BUFFER, 4097);
    let sized = |answer| {
        assert_eq!(answer, Answer::Done);
        user.info(user.word(BUFFER)).unwrap().size
    };
    user.program.put(BUFFER, &[0; 8]);
    let zeroed = MemAlloc::ZEROED;
    let mut one = MemAlloc {
        mem_handle,
        size,
        ..zeroed
    };
    assert_eq!(sized(user.call(&MEM_ALLOC, &mut one)), 8192);
    let zeroed = MemAllocV2::ZEROED;
    let mut two = MemAllocV2 {
        mem_handle,
        size,
        ..zeroed
    };
    assert_eq!(sized(user.call(&MEM_ALLOC_V2, &mut two)), 8192);
    let zeroed = MemAllocV2MemType::ZEROED;
    let mut typed = MemAllocV2MemType {
        mem_handle,
        size,
        ..zeroed
    };
    assert_eq!(sized(user.call(&MEM_ALLOC_V2MT, &mut typed)), 8192);
    let mut wide = MemAllocV2MemType64 { size, ..DEVICE };
    assert_eq!(sized(user.call(&MEM_ALLOC_V2MT64, &mut wide)), 8192);
    let info = user.info(user.word(BUFFER)).unwrap();
    assert_eq!((info.host_memory, info.pid), (0, 7));
}

#[test]
fn what_an_allocation_must_not_say_is_refused() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let refused = |what: MemAllocV2MemType64, errno| {
        assert_eq!(
            user.try_allocate(what),
            Err(Answer::Errno(errno)),
            "{what:?}"
        );
    };
    // Checked for host memory, too.
    refused(
        MemAllocV2MemType64 {
            dram_channel: 2,
            ..DEVICE
        },
        EINVAL,
    );
    refused(
        MemAllocV2MemType64 {
            dram_channel: 2,
            ..HOST
        },
        EINVAL,
    );
    refused(MemAllocV2MemType64 { nc_id: 8, ..DEVICE }, EINVAL);
    refused(
        MemAllocV2MemType64 {
            align: 4096,
            ..HOST
        },
        EINVAL,
    );
    refused(
        MemAllocV2MemType64 {
            align: 1 << 31,
            ..DEVICE
        },
        EINVAL,
    );
    refused(
        MemAllocV2MemType64 {
            align: 12288,
            ..DEVICE
        },
        EINVAL,
    );
    refused(
        MemAllocV2MemType64 {
            size: 1 << 63,
            ..DEVICE
        },
        EINVAL,
    );
    refused(
        MemAllocV2MemType64 {
            size: (1 << 63) - 1,
            ..DEVICE
        },
        ENOMEM,
    );
    refused(
        MemAllocV2MemType64 {
            size: 1 << 30,
            ..DEVICE
        },
        ENOMEM,
    );
    refused(MemAllocV2MemType64 { size: 0, ..DEVICE }, ENOMEM);
    assert!(emulator.remains().nodes[0].memory.is_empty());
    // These are not: a core that v2 has not, a type that there is not, a region, an alignment below a page.
    for what in [
        MemAllocV2MemType64 { nc_id: 7, ..DEVICE },
        MemAllocV2MemType64 {
            mem_type: 99,
            ..DEVICE
        },
        MemAllocV2MemType64 {
            dram_region: 3,
            ..DEVICE
        },
        MemAllocV2MemType64 { align: 3, ..DEVICE },
    ] {
        assert!(user.try_allocate(what).is_ok(), "{what:?}");
    }
}

#[test]
fn chunks_lie_in_their_pools_and_each_spills_into_the_other() {
    // Firmware has the first 16 MiB, the small pool the last 1/16.
    let emulator = emulator(|c| c.hbm_bytes = 256 * MIB);
    let user = User::new(&emulator, 1);
    let small_pool = 240 * MIB;
    assert_eq!(user.pa(user.device(512 << 10)), small_pool);
    assert_eq!(user.pa(user.device((512 << 10) + 1)), 16 * MIB);
    let other = MemAllocV2MemType64 {
        dram_channel: 1,
        ..DEVICE
    };
    assert_eq!(user.pa(user.allocate(other)), (1 << 36) + small_pool);
    let rest = user.device(small_pool - 17 * MIB);
    assert_eq!(user.pa(rest), 16 * MIB + (512 << 10) + 4096);
    // The main pool is full but for less than 512 KiB.
    assert_eq!(user.pa(user.device(MIB)), small_pool + (512 << 10));
    let small = MemAllocV2MemType64 {
        size: 256 << 10,
        ..DEVICE
    };
    let handles = std::iter::from_fn(|| user.try_allocate(small).ok());
    let places: Vec<_> = handles.map(|handle| user.pa(handle)).collect();
    assert_eq!(places.iter().filter(|pa| **pa < small_pool).count(), 1);
    assert_eq!(
        places.len(),
        (16 * MIB - 3 * (512 << 10)) as usize / (256 << 10) + 1
    );
    assert_eq!(user.free(rest), Answer::Done);
    assert!(user.pa(user.device(MIB)) < small_pool);
}

#[test]
fn an_alignment_is_kept() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    for align in [8192, MIB, 256 * MIB] {
        let what = MemAllocV2MemType64 {
            align,
            size: MIB,
            ..DEVICE
        };
        assert_eq!(user.pa(user.allocate(what)) % align, 0);
    }
}

#[test]
fn addresses_of_host_chunks_have_the_host_bit_and_differ_between_devices() {
    for (arch, bit) in [(Arch::V2, 44), (Arch::V3, 46)] {
        let emulator = emulator(|c| (c.arch, c.devices, c.hbm_bytes) = (arch, 2, 64 * MIB));
        let user = User::new(&emulator, 1);
        let first = (1 << bit) + EMULATED_HOST_CHUNKS;
        assert_eq!(user.pa(user.host(1)), first);
        assert_eq!(user.pa(user.host(1)), first + 4096);
        let other = User::on(&emulator, 1, 1);
        assert_eq!(
            other.pa(other.host(1)),
            first + emulator.config().host_bytes
        );
    }
}

#[test]
fn host_memory_comes_in_pieces_of_the_kernel_and_device_memory_does_not() {
    let refused = Err(Answer::Errno(ENOMEM));
    let of = |size| MemAllocV2MemType64 { size, ..HOST };
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    assert!(user.try_allocate(of(4 * MIB)).is_ok());
    assert_eq!(user.try_allocate(of(4 * MIB + 1)), refused);
    user.device(8 * MIB);
    let emulator = crate::program::emulator(|c| c.host_chunk_bytes = 64 * MIB);
    let user = User::new(&emulator, 1);
    assert!(user.try_allocate(of(64 * MIB)).is_ok());
    assert_eq!(user.try_allocate(of(64 * MIB + 1)), refused);
}

#[test]
fn host_memory_ends() {
    let emulator = emulator(|c| c.host_bytes = MIB);
    let user = User::new(&emulator, 1);
    let whole = MemAllocV2MemType64 { size: MIB, ..HOST };
    assert_eq!(user.try_allocate(whole), Err(Answer::Errno(ENOMEM)));
    let most = user.host(512 << 10);
    let again = MemAllocV2MemType64 {
        size: 512 << 10,
        ..HOST
    };
    assert_eq!(user.try_allocate(again), Err(Answer::Errno(ENOMEM)));
    assert_eq!(user.free(most), Answer::Done);
    assert!(user.try_allocate(again).is_ok());
}

#[test]
fn new_host_memory_is_zeroed_and_new_device_memory_is_not() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let host = user.host(4096);
    assert_eq!(user.write(host, 0, &[7; 4096]), Answer::Done);
    user.free(host);
    let host = user.host(4096);
    assert_eq!(user.read(host, 0, 4096), [0; 4096]);
    // The first MiB is poisoned; beyond it old bytes show.
    let device = user.device(2 * MIB);
    assert_eq!(user.read(device, 0, 4096), [0xA5; 4096]);
    let old = pattern(100, 1);
    assert_eq!(user.write(device, MIB, &old), Answer::Done);
    assert_eq!(user.write(device, 0, &old), Answer::Done);
    user.free(device);
    let device = user.device(2 * MIB);
    assert_eq!(user.read(device, MIB, 100), old);
    assert_eq!(user.read(device, 0, 100), [0xA5; 100]);
}

#[test]
fn host_memory_of_the_reserve_pool_holds_old_bytes() {
    let emulator = emulator(|c| {
        c.driver_faults = vec![DriverRule::once(DriverFault::ReservePool, 1)];
    });
    let user = User::new(&emulator, 1);
    let host = user.host(4096);
    assert_eq!(user.write(host, 0, &[7; 16]), Answer::Done);
    for expected in [7, 0] {
        user.free(host);
        assert_eq!(user.host(4096), host);
        assert_eq!(user.read(host, 0, 16), [expected; 16]);
    }
}

#[test]
fn a_scratchpad_that_goes_before_a_later_one_is_told() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let pieces: Vec<_> = (0..4).map(|_| user.allocate(SCRATCHPAD)).collect();
    let of_other_hbm = user.allocate(MemAllocV2MemType64 {
        dram_channel: 1,
        ..SCRATCHPAD
    });
    let ordinary = user.device(4096);
    for handle in [pieces[3], of_other_hbm, ordinary, pieces[2]] {
        assert_eq!(user.free(handle), Answer::Done);
        assert!(warnings(&emulator).is_empty(), "in order");
    }
    let [first, second] = [pieces[0], pieces[1]].map(|handle| user.pa(handle));
    assert_eq!(user.free(pieces[0]), Answer::Done);
    let told = warnings(&emulator);
    assert!(
        told.len() == 1
            && told[0].contains(&format!("{first:#x}"))
            && told[0].contains(&format!("{second:#x}")),
        "{told:?}"
    );
    // Of a process that goes the driver frees what is left itself.
    user.allocate(SCRATCHPAD);
    emulator.exited(1);
    assert_eq!(warnings(&emulator).len(), 1);
}

#[test]
fn scratchpads_grow_downwards_side_by_side_and_reach_the_end_of_the_pool() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let end = 960 * MIB;
    let pieces: Vec<_> = (0..3).map(|_| user.allocate(SCRATCHPAD)).collect();
    let places: Vec<_> = pieces.iter().map(|piece| user.pa(*piece)).collect();
    assert_eq!(places, [end - 4096, end - 8192, end - 12288]);
    // From the lowest piece all three can be written, and no more.
    assert_eq!(user.write(pieces[2], 0, &pattern(12288, 1)), Answer::Done);
    assert_eq!(user.read(pieces[0], 0, 4096), pattern(12288, 1)[8192..]);
    let beyond = user.write(pieces[2], 1, &pattern(12288, 1));
    assert_eq!(beyond, Answer::Errno(EINVAL));
    assert_eq!(user.free(pieces[2]), Answer::Done);
    assert_eq!(user.pa(user.allocate(SCRATCHPAD)), end - 12288);
}

#[test]
fn a_chunk_ends_with_its_process_or_when_anybody_frees_it() {
    let emulator = emulator(|_| ());
    let (one, two) = (User::new(&emulator, 1), User::new(&emulator, 2));
    let (host, device) = (one.host(4096), one.device(8192));
    let memory = || emulator.remains().nodes[0].memory.clone();
    assert_eq!(memory()[&1], [4096, 8192]);
    assert_eq!(two.free(host), Answer::Done);
    assert_eq!(memory()[&1], [0, 8192]);
    let theirs = two.device(4096);
    emulator.exited(1);
    assert_eq!(two.info(device), Err(Answer::Positive(EINVAL)));
    assert!(two.info(theirs).is_ok());
    two.program.close(two.file);
    assert!(emulator.remains().is_clean());
}

#[test]
fn a_bad_pointer_allocates_nothing() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let what = MemAllocV2MemType64 {
        mem_handle: NOWHERE,
        ..DEVICE
    };
    assert_eq!(
        user.call(&MEM_ALLOC_V2MT64, &mut { what }),
        Answer::Positive(8)
    );
    let mut old = MemAlloc {
        size: 1,
        mem_handle: NOWHERE,
        ..MemAlloc::ZEROED
    };
    assert_eq!(user.call(&MEM_ALLOC, &mut old), Answer::Errno(EACCES));
    let nothing = user
        .program
        .request(user.file, MEM_ALLOC.request(), NOWHERE);
    assert_eq!(nothing, Answer::Errno(EACCES));
    assert!(emulator.remains().nodes[0].memory.is_empty());
    assert_eq!(user.device(1), 1);
}

#[test]
fn the_nth_allocation_fails_when_the_plan_says_so() {
    let emulator = emulator(|c| {
        c.driver_faults = vec![DriverRule::once(DriverFault::NoMemory, 1)];
    });
    let user = User::new(&emulator, 1);
    assert_eq!(user.device(1), 1);
    assert_eq!(user.try_allocate(HOST), Err(Answer::Errno(ENOMEM)));
    assert_eq!(user.host(1), 2);
}

#[test]
fn trap_11_an_allocation_after_a_duplicate_was_closed_crashes() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    emulator.duplicated(1, user.file);
    user.program.close(user.file);
    let mut old = MemAlloc {
        size: 1,
        mem_handle: BUFFER,
        ..MemAlloc::ZEROED
    };
    assert_eq!(user.call(&MEM_ALLOC, &mut old), Answer::Errno(EACCES));
    assert_eq!(user.try_allocate(DEVICE), Err(Answer::Errno(EIO)));
    assert_eq!(traps(&emulator), [11]);
    assert_eq!(user.free(1), Answer::Errno(EIO));
}

#[test]
fn trap_25_a_scratchpad_in_host_memory_crashes() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let what = MemAllocV2MemType64 {
        host_memory: 1,
        ..SCRATCHPAD
    };
    assert_eq!(user.try_allocate(what), Err(Answer::Errno(EIO)));
    assert_eq!(traps(&emulator), [25]);
}
