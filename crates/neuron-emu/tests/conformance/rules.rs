//! Rules that one call alone does not show: the conformance list of `driver_emulation.md` section 9.

use crate::node::{Node, QUEUE, address_of, open_as, queue_init};
use crate::{small, under, with_node};
use neuron_emu::{Config, Emulator};
use nix::errno::Errno as Number;
use nix::fcntl::OFlag;
use xu_abi::driver::errno::Answer::{Done, Errno, Positive};
use xu_abi::driver::errno::{EACCES, EINVAL, EIO, EPERM};
use xu_abi::driver::ioctl as row;
use xu_abi::driver::{
    BarRw, CrwlNcMap, DmaCopyDescriptors64, DmaQueueCopyStart, DmaQueueGetState, DmaQueueInit,
    DmaQueueInitBatch, DmaQueueState, MemCopyAsync64, MemCopyAsyncWait, MemGetExtendedInfo,
    Memset64, NotificationsInitWithReallocV2, Semaphore,
};

const PAGE: u64 = 4096;

/// Sizes around one descriptor.
const SIZES: [usize; 5] = [1, 4096, 65_535, 65_536, 65_537];

#[test]
fn copies_of_every_size_come_back_and_touch_nothing_else() {
    with_node(small(), |node| {
        for host in [true, false] {
            for size in SIZES {
                let chunk = node.chunk(host, size as u64 + 2);
                let mut whole = vec![0xEE; size + 2];
                assert_eq!(node.copy(chunk, 0, &mut whole, true), Done);
                let mut stored: Vec<u8> = (0..size).map(|index| (index % 251) as u8).collect();
                assert_eq!(node.copy(chunk, 1, &mut stored, true), Done);
                assert_eq!(node.copy(chunk, 0, &mut whole, false), Done);
                assert!(whole[1..=size] == stored, "{size} bytes, host {host}");
                assert_eq!(
                    (whole[0], whole[size + 1]),
                    (0xEE, 0xEE),
                    "{size} bytes, host {host}"
                );
                assert_eq!(node.free(chunk), Done);
            }
        }
    });
}

#[test]
fn a_fresh_host_chunk_is_zero_and_a_device_chunk_is_not() {
    with_node(small(), |node| {
        for (host, expected) in [(true, 0), (false, 0xA5)] {
            let mut bytes = [1; 64];
            assert_eq!(
                node.copy(node.chunk(host, PAGE), 0, &mut bytes, false),
                Done
            );
            assert_eq!(bytes, [expected; 64]);
        }
    });
}

#[test]
fn handles_begin_at_one_and_the_last_freed_comes_first() {
    with_node(small(), |node| {
        let chunks = [(); 3].map(|()| node.chunk(true, PAGE));
        assert_eq!(chunks, [1, 2, 3]);
        assert_eq!(node.free(1), Done);
        assert_eq!(node.free(2), Done);
        assert_eq!([(); 3].map(|()| node.chunk(false, PAGE)), [2, 1, 4]);
    });
}

#[test]
fn asking_for_more_of_a_chunk_overwrites_its_handle() {
    with_node(small(), |node| {
        let mem_handle = node.chunk(true, PAGE);
        let mut info = MemGetExtendedInfo {
            mem_handle,
            version: 1,
            ..MemGetExtendedInfo::ZEROED
        };
        assert_eq!(node.ask(row::MEM_GET_EXTENDED_INFO, &mut info), Done);
        assert_ne!(info.mem_handle, mem_handle);
        assert_eq!((info.size, info.host_memory), (PAGE, 1));
    });
}

#[test]
fn closing_a_duplicate_detaches_and_frees() {
    with_node(small(), |node| {
        node.chunk(true, PAGE);
        drop(node.0.try_clone().unwrap());
        assert_eq!(node.free(1), Errno(EACCES));
        let again = Node::open(0);
        assert_ne!(again.free(1), Done, "it went with the process");
    });
}

#[test]
fn a_second_open_is_counted_down_first() {
    with_node(small(), |node| {
        drop(Node::open(0));
        let chunk = node.chunk(true, PAGE);
        assert_eq!(node.free(chunk), Done);
    });
}

#[test]
fn what_is_not_there_does_not_open() {
    with_node(small(), |_| {
        assert_eq!(open_as(1, OFlag::O_RDWR).err(), Some(Number::ENOENT));
    });
}

#[test]
fn marks_go_with_the_descriptor_for_writing_only_and_not_with_the_other() {
    let emulator = Emulator::start(small()).unwrap();
    let map = CrwlNcMap {
        nc_count: 1,
        end_nc_index: 1,
        ..CrwlNcMap::ZEROED
    };
    let marked = under(&emulator, || {
        let misc = open_as(0, OFlag::O_WRONLY).unwrap();
        assert_eq!(misc.call(row::CRWL_NC_RANGE_MARK, map), Done);
        drop(Node::open(0));
        let kept = emulator.remains().marks.len();
        drop(misc);
        (kept, emulator.remains().marks.len())
    });
    assert!(marked.is_none_or(|marked| marked == (1, 0)), "{marked:?}");
    // Made through a full descriptor, they stay.
    let leaked = under(&emulator, || {
        assert_eq!(Node::open(0).call(row::CRWL_NC_RANGE_MARK, map), Done);
        emulator.remains().marks.len()
    });
    assert!(leaked.is_none_or(|leaked| leaked == 1));
}

#[test]
fn a_ring_that_exists_is_returned_unless_a_new_one_is_forced() {
    with_node(small(), |node| {
        let mut ring = NotificationsInitWithReallocV2 {
            engine_index: 4,
            size: 4096,
            on_host_memory: 1,
            ..NotificationsInitWithReallocV2::ZEROED
        };
        let mut init = |size, force_alloc_mem| {
            (ring.size, ring.force_alloc_mem) = (size, force_alloc_mem);
            assert_eq!(
                node.ask(row::NOTIFICATIONS_INIT_WITH_REALLOC_V2, &mut ring),
                Done
            );
            (ring.mem_handle, ring.mmap_offset)
        };
        let first = init(4096, 0);
        assert_eq!(init(8192, 0), first, "the new size is ignored");
        assert_ne!(init(8192, 1), first);
    });
}

#[test]
fn semaphores_outlive_who_set_them() {
    let emulator = Emulator::start(small()).unwrap();
    let mut semaphore = Semaphore {
        nc_id: 1,
        semaphore_index: 200,
        value: -5,
    };
    let value = under(&emulator, || {
        assert_eq!(Node::open(0).call(row::SEMAPHORE_WRITE, semaphore), Done);
        semaphore.value = 2;
        let node = Node::open(0);
        assert_eq!(node.call(row::SEMAPHORE_INCREMENT, semaphore), Done);
        assert_eq!(node.ask(row::SEMAPHORE_READ, &mut semaphore), Done);
        // The index is compared after it was cut to 16 bits.
        let aliased = Semaphore {
            semaphore_index: 65_536 + 200,
            ..semaphore
        };
        assert_eq!(node.call(row::SEMAPHORE_READ, aliased), Done);
        semaphore.value
    });
    assert!(value.is_none_or(|value| value == -3), "{value:?}");
}

#[test]
fn a_batch_may_have_255_entries_and_stops_at_the_first_that_fails() {
    with_node(small(), |node| {
        let ring = node.chunk(true, 1 << 12);
        let mut batch = Box::new(DmaQueueInitBatch::ZEROED);
        batch.count = 255;
        batch.entries[..255].fill(queue_init(ring, 64));
        assert_eq!(node.ask(row::DMA_QUEUE_INIT_BATCH, &mut *batch), Done);
        batch.entries[0] = queue_init(ring, 128);
        batch.entries[1].tx_desc_count = 40;
        assert_eq!(
            node.ask(row::DMA_QUEUE_INIT_BATCH, &mut *batch),
            Errno(EPERM)
        );
        let mut tx = DmaQueueState::ZEROED;
        let mut rx = DmaQueueState::ZEROED;
        let state = DmaQueueGetState {
            eng_id: 0,
            qid: QUEUE,
            tx: address_of(&mut tx),
            rx: address_of(&mut rx),
        };
        assert_eq!(node.call(row::DMA_QUEUE_GET_STATE, state), Done);
        assert_eq!(tx.length, 128, "the one before it stays");
    });
}

#[test]
fn a_bad_pointer_is_answered_with_a_positive_number() {
    with_node(small(), |node| {
        assert_eq!(node.blind(row::MEM_FREE), Positive(8));
        assert_eq!(node.blind(row::SEMAPHORE_INCREMENT), Positive(12));
        for refused in [
            row::MEM_ALLOC,
            row::DMA_QUEUE_INIT,
            row::DMA_QUEUE_INIT_BATCH,
        ] {
            assert_eq!(node.blind(refused), Errno(EACCES), "{refused}");
        }
    });
}

#[test]
fn a_trap_stops_the_device_and_is_told() {
    let emulator = Emulator::start(Config::default()).unwrap();
    let ran = under(&emulator, || {
        let node = Node::open(0);
        node.queue(64);
        let start = DmaQueueCopyStart {
            eng_id: 0,
            qid: QUEUE,
            tx_desc_count: 1,
            rx_desc_count: 0,
        };
        assert_eq!(node.call(row::DMA_QUEUE_COPY_START, start), Errno(EIO));
        let mem_handle = 1;
        let set = Memset64 {
            mem_handle,
            size: 1,
            ..Memset64::ZEROED
        };
        assert_eq!(
            node.call(row::MEMSET64, set),
            Errno(EIO),
            "nothing works any more"
        );
    });
    if ran.is_some() {
        let traps: Vec<u8> = emulator.bugs().iter().map(|bug| bug.trap).collect();
        assert_eq!(traps, [16]);
    }
}

#[test]
fn async_copies_alternate_between_two_handles() {
    with_node(small(), |node| {
        let (src, dst) = (node.chunk(true, PAGE), node.chunk(false, PAGE));
        assert_eq!(node.copy(src, 0, &mut [7; 64], true), Done);
        let mut copy = MemCopyAsync64 {
            src,
            dst,
            size: PAGE,
            pwait_handle: -1,
            ..MemCopyAsync64::ZEROED
        };
        for expected in [1, 2, 1, 2] {
            assert_eq!(node.ask(row::MEM_COPY_ASYNC64, &mut copy), Done);
            assert_eq!(copy.wait_handle, expected);
            copy.pwait_handle = copy.wait_handle;
        }
        let wait = MemCopyAsyncWait {
            src,
            dst,
            pwait_handle: 2,
            ..MemCopyAsyncWait::ZEROED
        };
        assert_eq!(node.call(row::MEM_COPY_ASYNC_WAIT, wait), Done);
        let mut copied = [0; 64];
        assert_eq!(node.copy(dst, 0, &mut copied, false), Done);
        assert_eq!(copied, [7; 64]);
    });
}

#[test]
fn descriptors_name_host_memory_of_chunks_only() {
    with_node(small(), |node| {
        let ring = node.chunk(true, PAGE);
        let inside = node.pa(ring);
        for (pa, expected) in [(inside, Done), (inside + PAGE, Errno(EINVAL)), (0, Done)] {
            let mut descriptors = [[4u64, pa]];
            let argument = DmaCopyDescriptors64 {
                mem_handle: ring,
                buffer: address_of(&mut descriptors),
                num_descs: 1,
                queue_type: 1,
                ..DmaCopyDescriptors64::ZEROED
            };
            assert_eq!(
                node.call(row::DMA_COPY_DESCRIPTORS64, argument),
                expected,
                "{pa:#x}"
            );
        }
    });
}

#[test]
fn registers_before_a_blocked_one_are_written() {
    with_node(small(), |node| {
        let semaphore = 0x270_1400 + 4 * 100;
        let blocked = 0x3000_0000 + 0x1000 + 0x28;
        let mut addresses = [semaphore, blocked].map(|offset| node.bar() + offset);
        let mut values = [41u32, 0];
        let argument = BarRw {
            address: address_of(&mut addresses),
            data: address_of(&mut values),
            count: 2,
            ..BarRw::ZEROED
        };
        assert_eq!(node.call(row::BAR_WRITE, argument), Errno(EINVAL));
        let mut read = Semaphore {
            nc_id: 0,
            semaphore_index: 100,
            value: 0,
        };
        assert_eq!(node.ask(row::SEMAPHORE_READ, &mut read), Done);
        assert_eq!(read.value, 41);
    });
}

#[test]
fn a_chunk_is_mapped_whole_or_not_at_all() {
    with_node(small(), |node| {
        let chunk = node.chunk(true, 2 * PAGE);
        let pa = node.pa(chunk);
        assert_eq!(node.map_and_store(pa, PAGE as usize, 9), Err(EPERM));
        assert_eq!(node.map_and_store(pa + PAGE, PAGE as usize, 9), Err(EPERM));
        assert_eq!(node.map_and_store(pa, 4 * PAGE as usize, 9), Err(EPERM));
        assert_eq!(node.map_and_store(pa, 2 * PAGE as usize, 9), Ok(()));
        // The same pages.
        let mut first = [0; 2];
        assert_eq!(node.copy(chunk, 0, &mut first, false), Done);
        assert_eq!(first, [9, 0]);
    });
}

#[test]
fn an_enabled_ring_wraps_and_its_identifiers_follow() {
    const RING: u32 = 64;
    with_node(small(), |node| {
        // Both rings, what is copied, and where to.
        let chunk = node.chunk(true, 4 * PAGE);
        let pa = node.pa(chunk);
        let [tx, rx] = [node.chunk(true, PAGE), node.chunk(true, PAGE)];
        let init = DmaQueueInit {
            tx_handle: tx,
            rx_handle: rx,
            ..queue_init(tx, RING)
        };
        assert_eq!(node.call(row::DMA_QUEUE_INIT, init), Done);
        // Five laps and a half, in steps that no lap is a multiple of.
        for index in 0..RING * 11 / 2 {
            let (slot, ring_id) = (index % RING, u64::from(index / RING + 1) % 4);
            let mut value = (index + 1).to_le_bytes();
            assert_eq!(node.copy(chunk, 0, &mut value, true), Done);
            let control = 4 | ring_id << 24;
            let mut source = [control | 3 << 26 | 0x0108_0003 << 32, pa];
            let mut target = [control, pa + PAGE];
            for (handle, descriptor, queue_type) in [(tx, &mut source, 0), (rx, &mut target, 1)] {
                let argument = DmaCopyDescriptors64 {
                    mem_handle: handle,
                    buffer: address_of(descriptor),
                    num_descs: 1,
                    offset: u64::from(slot) * 16,
                    queue_type,
                    ..DmaCopyDescriptors64::ZEROED
                };
                assert_eq!(node.call(row::DMA_COPY_DESCRIPTORS64, argument), Done);
            }
            let start = DmaQueueCopyStart {
                eng_id: 0,
                qid: QUEUE,
                tx_desc_count: 1,
                rx_desc_count: 1,
            };
            assert_eq!(node.call(row::DMA_QUEUE_COPY_START, start), Done);
            let mut copied = [0; 4];
            assert_eq!(node.copy(chunk, PAGE, &mut copied, false), Done);
            assert_eq!(u32::from_le_bytes(copied), index + 1, "descriptor {index}");
        }
    });
}
