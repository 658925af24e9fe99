//! Notification rings.

use crate::program::{NOWHERE, emulator};
use crate::user::User;
use neuron_emu::Emulator;
use xu_abi::driver::errno::{Answer, EINVAL, ENOMEM, ENOSYS, EPERM};
use xu_abi::driver::ioctl::{
    BAR_READ, DEVICE_INFO, NC_RESET, NC_RESET_READY, NOTIFICATIONS_INIT_V1, NOTIFICATIONS_INIT_V2,
    NOTIFICATIONS_INIT_WITH_REALLOC_V2, NOTIFICATIONS_QUEUE_INFO,
};
use xu_abi::driver::{
    Arch, BarRw, DeviceInfo, DeviceReady, DeviceReset, NQ_NOT_MAPPED, NotificationsInitV1,
    NotificationsInitV2, NotificationsInitWithReallocV2, NotificationsQueueInfo,
};
use xu_abi::driver::{ArchTable, arch::at};
use zerocopy::IntoBytes;

/// Queue 5 of core 0, one page of host memory.
const RING: NotificationsInitWithReallocV2 = NotificationsInitWithReallocV2 {
    nq_type: 1,
    engine_index: 5,
    size: 4096,
    on_host_memory: 1,
    ..NotificationsInitWithReallocV2::ZEROED
};

/// Its mmap offset and handle.
fn init(user: &User<'_>, ring: NotificationsInitWithReallocV2) -> Result<(u64, u64), Answer> {
    let mut ring = ring;
    match user.call(&NOTIFICATIONS_INIT_WITH_REALLOC_V2, &mut ring) {
        Answer::Done => Ok((ring.mmap_offset, ring.mem_handle)),
        refused => Err(refused),
    }
}

/// Base and size that the hardware has for a queue of a block.
fn programmed(user: &User<'_>, block: u64, queue: u64) -> (u64, u32) {
    let mut info = DeviceInfo::ZEROED;
    assert_eq!(user.call(&DEVICE_INFO, &mut info), Answer::Done);
    let first = info.bar_address[0] + block + 0x100 + 0x28 * queue;
    let (address, data) = (0x7F10_0000_0000, 0x7F10_0000_1000);
    user.program
        .put(address, [first, first + 4, first + 8].as_bytes());
    user.program.put(data, &[0; 12]);
    let mut read = BarRw {
        address,
        data,
        count: 3,
        ..BarRw::ZEROED
    };
    assert_eq!(user.call(&BAR_READ, &mut read), Answer::Done);
    let bytes = user.program.get(data);
    let word = |index: usize| u32::from_ne_bytes(*bytes[4 * index..].first_chunk().unwrap());
    (u64::from(word(1)) << 32 | u64::from(word(0)), word(2))
}

fn core(index: u32) -> u64 {
    at(ArchTable::V2.core_nq, index).unwrap()
}

fn reset(user: &User<'_>, nc_map: u32) {
    let mut reset = DeviceReset {
        nc_map,
        ..DeviceReset::ZEROED
    };
    assert_eq!(user.call(&NC_RESET, &mut reset), Answer::Done);
    let mut ready = DeviceReady {
        request_id: reset.request_id,
        ..DeviceReady::ZEROED
    };
    assert_eq!(user.call(&NC_RESET_READY, &mut ready), Answer::Done);
}

#[test]
fn the_same_id_gives_the_ring_that_there_is_whatever_is_asked_for() {
    let emulator = emulator(|_| ());
    let (one, two) = (User::new(&emulator, 1), User::new(&emulator, 2));
    let first = init(&one, RING).unwrap();
    assert_eq!(one.info(first.1).unwrap().pa, first.0);
    assert_eq!(programmed(&one, core(0), 5), (first.0, 4096));
    let other = NotificationsInitWithReallocV2 {
        size: 8192,
        on_host_memory: 0,
        ..RING
    };
    assert_eq!(init(&two, other), Ok(first));
    assert_eq!(programmed(&one, core(0), 5), (first.0, 4096));
    let mut plain = NotificationsInitV2 {
        nq_type: 1,
        engine_index: 5,
        size: 64,
        ..NotificationsInitV2::ZEROED
    };
    assert_eq!(two.call(&NOTIFICATIONS_INIT_V2, &mut plain), Answer::Done);
    assert_eq!((plain.mmap_offset, plain.mem_handle), first);
    let mut old = NotificationsInitV1 {
        nq_type: 1,
        engine_index: 5,
        size: 64,
        ..NotificationsInitV1::ZEROED
    };
    assert_eq!(two.call(&NOTIFICATIONS_INIT_V1, &mut old), Answer::Done);
    assert_eq!(old.mmap_offset, first.0);
}

#[test]
fn a_forced_ring_is_new_and_the_old_one_is_freed() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let (old, handle) = init(&user, RING).unwrap();
    assert_eq!(user.write(handle, 0, &[9; 16]), Answer::Done);
    let forced = NotificationsInitWithReallocV2 {
        force_alloc_mem: 1,
        size: 8192,
        ..RING
    };
    let (new, handle_of_new) = init(&user, forced).unwrap();
    assert_ne!(new, old, "both exist for a moment");
    assert_eq!(programmed(&user, core(0), 5), (new, 8192));
    assert_eq!(user.info(handle), Err(Answer::Positive(EINVAL)));
    assert_eq!(user.read(handle_of_new, 0, 8192), [0; 8192]);
}

#[test]
fn a_ring_outlives_its_process_and_keeps_its_records() {
    let emulator = emulator(|_| ());
    let (one, two) = (User::new(&emulator, 1), User::new(&emulator, 2));
    let ring = init(&one, RING).unwrap();
    assert_eq!(one.write(ring.1, 0, &[9; 16]), Answer::Done);
    emulator.exited(1);
    assert_eq!(init(&two, RING), Ok(ring));
    assert_eq!(two.read(ring.1, 0, 16), [9; 16]);
    two.program.close(two.file);
    assert!(
        emulator.remains().is_clean(),
        "memory of the device is not counted"
    );
}

#[test]
fn a_reset_takes_the_rings_of_the_core_and_of_its_topsps() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let of_core = |nq_dev_id| NotificationsInitWithReallocV2 { nq_dev_id, ..RING };
    let of_topsp = |nq_dev_id| NotificationsInitWithReallocV2 {
        nq_dev_id,
        nq_dev_type: 1,
        engine_index: 0,
        ..RING
    };
    // Cores 0 and 1; TOPSPs 2 and 3: three belong to each core.
    let rings = [of_core(0), of_topsp(2), of_core(1), of_topsp(3)];
    let handles = rings.map(|ring| init(&user, ring).unwrap().1);
    reset(&user, 1);
    let is_there = |handle| user.info(handle).is_ok();
    assert_eq!(handles.map(is_there), [false, false, true, true]);
    assert_eq!(programmed(&user, core(0), 5).1, 0);
    assert_eq!(programmed(&user, core(1), 5).1, 4096);
    assert!(init(&user, of_core(0)).is_ok());
}

#[test]
fn two_types_with_one_engine_index_fight_over_a_hardware_queue() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let notify = init(&user, RING).unwrap();
    let errors = init(&user, NotificationsInitWithReallocV2 { nq_type: 3, ..RING }).unwrap();
    assert_ne!(notify, errors);
    assert_eq!(programmed(&user, core(0), 5).0, errors.0);
    assert_eq!(init(&user, RING), Ok(notify));
    assert_eq!(
        programmed(&user, core(0), 5).0,
        errors.0,
        "not programmed again"
    );
}

#[test]
fn dma_traces_are_queues_of_sdma_blocks_of_cores() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let of_core = NotificationsInitWithReallocV2 {
        nq_type: 4,
        engine_index: 3,
        nq_dev_id: 1,
        ..RING
    };
    let (base, _) = init(&user, of_core).unwrap();
    let block = at(ArchTable::V2.sdma_nq, 16 + 3).unwrap();
    assert_eq!(programmed(&user, block, 0), (base, 4096));
    let of_topsp = NotificationsInitWithReallocV2 {
        nq_dev_type: 1,
        ..of_core
    };
    let (base, _) = init(&user, of_topsp).unwrap();
    let block = at(ArchTable::V2.topsp_nq, 1).unwrap();
    assert_eq!(programmed(&user, block, 3), (base, 4096));
}

#[test]
fn a_ring_of_device_memory_is_aligned_to_its_size_and_cannot_be_mapped_by_offset() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    user.device(4096);
    let ring = NotificationsInitWithReallocV2 {
        on_host_memory: 0,
        size: 1 << 16,
        ..RING
    };
    let (offset, handle) = init(&user, ring).unwrap();
    assert_eq!(offset, NQ_NOT_MAPPED);
    let info = user.info(handle).unwrap();
    assert_eq!((info.pa % (1 << 16), info.host_memory), (0, 0));
    assert_eq!(user.read(handle, 0, 16), [0xA5; 16], "not cleared");
    let other = NotificationsInitWithReallocV2 {
        dram_channel: 1,
        engine_index: 6,
        ..ring
    };
    let (_, handle) = init(&user, other).unwrap();
    assert!(user.info(handle).unwrap().pa >= 1 << 36);
}

#[test]
fn numbers_are_cut_to_8_bits() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let ring = init(&user, NotificationsInitWithReallocV2 { nq_type: 0, ..RING });
    for same in [
        NotificationsInitWithReallocV2 {
            nq_type: 16,
            ..RING
        },
        NotificationsInitWithReallocV2 {
            nq_type: 0,
            nq_dev_id: 256,
            ..RING
        },
        NotificationsInitWithReallocV2 {
            nq_type: 0,
            engine_index: 256 + 5,
            ..RING
        },
    ] {
        assert_eq!(init(&user, same), ring);
    }
}

#[test]
fn what_is_no_ring_is_refused() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let refused = |ring: NotificationsInitWithReallocV2, errno| {
        assert_eq!(init(&user, ring), Err(Answer::Errno(errno)), "{ring:?}");
    };
    for size in [0, 4095, 3 << 12] {
        refused(NotificationsInitWithReallocV2 { size, ..RING }, EINVAL);
    }
    refused(
        NotificationsInitWithReallocV2 { nq_type: 6, ..RING },
        EINVAL,
    );
    refused(
        NotificationsInitWithReallocV2 {
            engine_index: 16,
            ..RING
        },
        EINVAL,
    );
    refused(
        NotificationsInitWithReallocV2 {
            nq_dev_id: 2,
            ..RING
        },
        EINVAL,
    );
    refused(
        NotificationsInitWithReallocV2 {
            nq_dev_type: 1,
            nq_dev_id: 6,
            ..RING
        },
        EINVAL,
    );
    refused(
        NotificationsInitWithReallocV2 {
            nq_dev_type: 2,
            ..RING
        },
        ENOSYS,
    );
    refused(
        NotificationsInitWithReallocV2 {
            dram_channel: 2,
            ..RING
        },
        EINVAL,
    );
    refused(
        NotificationsInitWithReallocV2 {
            size: 1 << 29,
            ..RING
        },
        ENOMEM,
    );
    // The last type and the last queue that the driver lets through; what v3 does not declare it does not refuse.
    let last = NotificationsInitWithReallocV2 {
        nq_type: 5,
        engine_index: 15,
        ..RING
    };
    assert!(init(&user, last).is_ok());
    let v3: &Emulator = &crate::program::emulator(|c| c.arch = Arch::V3);
    assert!(init(&User::new(v3, 1), last).is_ok());
}

#[test]
fn a_failed_reallocation_leaves_the_old_ring() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let ring = init(&user, RING).unwrap();
    let forced = NotificationsInitWithReallocV2 {
        force_alloc_mem: 1,
        size: 1 << 29,
        ..RING
    };
    assert_eq!(init(&user, forced), Err(Answer::Errno(ENOMEM)));
    assert_eq!(init(&user, RING), Ok(ring));
    assert_eq!(programmed(&user, core(0), 5), (ring.0, 4096));
}

#[test]
fn queue_info_always_fails_and_bad_pointers_are_positive_numbers() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let mut info = NotificationsQueueInfo::ZEROED;
    assert_eq!(
        user.call(&NOTIFICATIONS_QUEUE_INFO, &mut info),
        Answer::Errno(EPERM)
    );
    let requests = [
        (NOTIFICATIONS_INIT_V1, 24),
        (NOTIFICATIONS_INIT_V2, 48),
        (NOTIFICATIONS_INIT_WITH_REALLOC_V2, 56),
    ];
    for (ioctl, bytes) in requests {
        let answer = user.program.request(user.file, ioctl.request(), NOWHERE);
        assert_eq!(answer, Answer::Positive(bytes));
    }
}
