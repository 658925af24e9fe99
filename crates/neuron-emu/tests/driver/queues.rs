//! DMA engines and queues: who may initialise what, what a start does, what a process leaves.

use crate::program::{BUFFER, NOWHERE, emulator};
use crate::user::{User, pattern, traps};
use xu_abi::DeviceAddr;
use xu_abi::descriptor::{CopyPair, Descriptor, RingId};
use xu_abi::driver::errno::{Answer, E2BIG, EACCES, EFBIG, EINVAL, EIO, EPERM};
use xu_abi::driver::ioctl::{
    DMA_ACK_COMPLETED, DMA_COPY_DESCRIPTORS, DMA_COPY_DESCRIPTORS64, DMA_DESCRIPTOR_COPYOUT,
    DMA_ENG_GET_STATE, DMA_ENG_SET_STATE, DMA_QUEUE_COPY_START, DMA_QUEUE_GET_STATE,
    DMA_QUEUE_INIT, DMA_QUEUE_INIT_BATCH, NC_RESET,
};
use xu_abi::driver::{
    DeviceReset, DmaAckCompleted, DmaCopyDescriptors, DmaCopyDescriptors64, DmaDescriptorCopyout,
    DmaEngGetState, DmaEngSetState, DmaEngState, DmaQueueCopyStart, DmaQueueGetState, DmaQueueInit,
    DmaQueueInitBatch, DmaQueueState, QueueState,
};
use zerocopy::IntoBytes;

const SECOND: u64 = BUFFER + 0x1_0000;
/// A queue of core 1 that nothing else uses.
pub(crate) const ENGINE: u32 = 20;
pub(crate) const QUEUE: u32 = 3;

pub(crate) fn init(user: &User<'_>, tx: u64, rx: u64) -> DmaQueueInit {
    let init = DmaQueueInit {
        eng_id: ENGINE,
        qid: QUEUE,
        tx_desc_count: 32,
        rx_desc_count: 32,
        tx_handle: tx,
        rx_handle: rx,
        ..DmaQueueInit::ZEROED
    };
    assert_eq!(user.call(&DMA_QUEUE_INIT, &mut { init }), Answer::Done);
    init
}

pub(crate) fn start(user: &User<'_>, tx_desc_count: u32, rx_desc_count: u32) -> Answer {
    let (eng_id, qid) = (ENGINE, QUEUE);
    let mut start = DmaQueueCopyStart {
        eng_id,
        qid,
        tx_desc_count,
        rx_desc_count,
    };
    user.call(&DMA_QUEUE_COPY_START, &mut start)
}

pub(crate) fn state(user: &User<'_>, eng_id: u32, qid: u32) -> Result<[DmaQueueState; 2], Answer> {
    for address in [BUFFER, SECOND] {
        user.program.put(address, &[0; DmaQueueState::ABI.size]);
    }
    let mut get = DmaQueueGetState {
        eng_id,
        qid,
        tx: BUFFER,
        rx: SECOND,
    };
    match user.call(&DMA_QUEUE_GET_STATE, &mut get) {
        Answer::Done => Ok([BUFFER, SECOND].map(|address| {
            DmaQueueState::from_bytes(user.program.get(address).try_into().unwrap())
        })),
        refused => Err(refused),
    }
}

/// Puts descriptors into a ring.
pub(crate) fn fill(
    user: &User<'_>,
    mem_handle: u64,
    offset: u64,
    queue_type: u32,
    descriptors: &[Descriptor],
) -> Answer {
    user.program.put(BUFFER, descriptors.as_bytes());
    let mut copy = DmaCopyDescriptors64 {
        mem_handle,
        buffer: BUFFER,
        num_descs: descriptors.len().try_into().unwrap(),
        offset,
        queue_type,
        ..DmaCopyDescriptors64::ZEROED
    };
    user.call(&DMA_COPY_DESCRIPTORS64, &mut copy)
}

pub(crate) fn pair(from: u64, to: u64, bytes: u32, ring_id: RingId) -> CopyPair {
    let (from, to) = (DeviceAddr::new(from), DeviceAddr::new(to));
    CopyPair::new(from, to, bytes, ring_id).unwrap()
}

fn reading(from: u64) -> Descriptor {
    pair(from, 0, 4, RingId::FIRST).tx
}

#[test]
fn a_start_moves_what_the_descriptors_say() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let (tx, rx, data) = (user.host(4096), user.device(4096), user.host(8192));
    let content = pattern(100, 1);
    assert_eq!(user.write(data, 0, &content), Answer::Done);
    init(&user, tx, rx);
    let pair = pair(user.pa(data), user.pa(data) + 5000, 100, RingId::FIRST);
    assert_eq!(fill(&user, tx, 0, 0, &[pair.tx]), Answer::Done);
    assert_eq!(fill(&user, rx, 0, 1, &[pair.rx]), Answer::Done);
    assert_eq!(start(&user, 0, 1), Answer::Done, "Rx alone is prefetched");
    assert_eq!(user.read(data, 5000, 1), [0]);
    assert_eq!(start(&user, 1, 1), Answer::Done);
    assert_eq!(user.read(data, 5000, 100), content);
    let [of_tx, of_rx] = state(&user, ENGINE, QUEUE).unwrap();
    assert_eq!(
        (of_tx.base_addr, of_rx.base_addr),
        (user.pa(tx), user.pa(rx))
    );
    assert_eq!(
        (of_tx.length, of_tx.tail_pointer, of_rx.tail_pointer),
        (32, 1, 2)
    );
    assert_eq!(of_tx.sw_status, QueueState::Enabled.raw());
}

#[test]
fn a_ring_has_its_rules() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let ring = user.host(4096);
    let good = init(&user, ring, ring);
    let refused = |init: DmaQueueInit, errno| {
        let answer = user.call(&DMA_QUEUE_INIT, &mut { init });
        assert_eq!(answer, Answer::Errno(errno), "{init:?}");
    };
    refused(DmaQueueInit { eng_id: 34, ..good }, EINVAL);
    refused(
        DmaQueueInit {
            eng_id: 132,
            ..good
        },
        EINVAL,
    );
    refused(DmaQueueInit { qid: 16, ..good }, EINVAL);
    for count in [0, 16, 16_777_216] {
        refused(
            DmaQueueInit {
                tx_desc_count: count,
                ..good
            },
            EINVAL,
        );
        refused(
            DmaQueueInit {
                rx_desc_count: count,
                ..good
            },
            EINVAL,
        );
    }
    refused(
        DmaQueueInit {
            tx_desc_count: 33,
            ..good
        },
        EPERM,
    );
    refused(
        DmaQueueInit {
            rx_desc_count: 40,
            ..good
        },
        EPERM,
    );
    refused(
        DmaQueueInit {
            rxc_handle: ring,
            ..good
        },
        EPERM,
    );
    // No power of two, more than the chunk holds, the driver's own queue, the fetchers'.
    for init in [
        DmaQueueInit {
            tx_desc_count: 48,
            ..good
        },
        DmaQueueInit {
            rx_desc_count: 16_777_200,
            ..good
        },
        DmaQueueInit {
            eng_id: 33,
            qid: 0,
            ..good
        },
        DmaQueueInit {
            eng_id: 0,
            qid: 14,
            ..good
        },
    ] {
        assert_eq!(user.call(&DMA_QUEUE_INIT, &mut { init }), Answer::Done);
    }
    let nowhere = user
        .program
        .request(user.file, DMA_QUEUE_INIT.request(), NOWHERE);
    assert_eq!(nowhere, Answer::Errno(EACCES));
}

#[test]
fn a_handle_that_names_nothing_is_no_ring_yet() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let ring = user.host(4096);
    for nothing in [0, 99] {
        init(&user, nothing, ring);
        let [tx, rx] = state(&user, ENGINE, QUEUE).unwrap();
        assert_eq!((tx.base_addr, rx.base_addr), (0, user.pa(ring)));
    }
}

#[test]
fn a_batch_stops_at_the_first_that_fails_and_has_at_most_255() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let ring = user.host(4096);
    let entry = DmaQueueInit {
        tx_desc_count: 64,
        rx_desc_count: 64,
        tx_handle: ring,
        rx_handle: ring,
        ..DmaQueueInit::ZEROED
    };
    let batch = |count, bad: Option<usize>| {
        let mut batch = Box::new(DmaQueueInitBatch::ZEROED);
        batch.count = count;
        for (index, place) in (0_u32..).zip(&mut batch.entries) {
            *place = DmaQueueInit {
                eng_id: index / 16,
                qid: index % 16,
                ..entry
            };
        }
        if let Some(bad) = bad {
            batch.entries[bad].tx_desc_count = 33;
        }
        user.call(&DMA_QUEUE_INIT_BATCH, &mut *batch)
    };
    let length = |index: u32| state(&user, index / 16, index % 16).unwrap()[0].length;
    assert_eq!(batch(256, None), Answer::Errno(E2BIG));
    assert_eq!(batch(u32::MAX, None), Answer::Errno(E2BIG));
    assert_eq!(length(0), 0);
    assert_eq!(batch(10, Some(7)), Answer::Errno(EPERM));
    assert_eq!([6, 7, 8].map(length), [64, 0, 0]);
    assert_eq!(batch(255, Some(255)), Answer::Done);
    assert_eq!([254, 255].map(length), [64, 0]);
    assert_eq!(batch(0, None), Answer::Done);
    // All of it is read, whatever the count.
    user.program
        .put(BUFFER, &[0; DmaQueueInitBatch::ABI.size - 1]);
    let short = user
        .program
        .request(user.file, DMA_QUEUE_INIT_BATCH.request(), BUFFER);
    assert_eq!(short, Answer::Errno(EACCES));
}

#[test]
fn a_start_with_more_descriptors_than_the_ring_has_is_refused() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let ring = user.host(4096);
    init(&user, ring, ring);
    assert_eq!(start(&user, 33, 1), Answer::Errno(EPERM));
    assert_eq!(start(&user, 1, 33), Answer::Errno(EPERM));
    for (eng_id, qid) in [(132, 0), (0, 16)] {
        let (tx_desc_count, rx_desc_count) = (1, 1);
        let mut start = DmaQueueCopyStart {
            eng_id,
            qid,
            tx_desc_count,
            rx_desc_count,
        };
        let answer = user.call(&DMA_QUEUE_COPY_START, &mut start);
        assert_eq!(answer, Answer::Errno(EINVAL));
    }
}

#[test]
fn trap_14_a_start_after_a_ring_chunk_was_freed_crashes() {
    for freed in [0, 1] {
        let emulator = emulator(|_| ());
        let user = User::new(&emulator, 1);
        let rings = [user.host(4096), user.device(4096)];
        init(&user, rings[0], rings[1]);
        assert_eq!(user.free(rings[freed]), Answer::Done);
        // Another chunk with the same handle and the same address is another chunk.
        let again = if freed == 0 {
            user.host(4096)
        } else {
            user.device(4096)
        };
        assert_eq!(again, rings[freed]);
        assert_eq!(start(&user, 1, 1), Answer::Errno(EIO));
        assert_eq!(traps(&emulator), [14]);
    }
}

#[test]
fn trap_16_a_start_of_nothing_or_without_an_rx_ring_crashes() {
    let cases: [fn(&User<'_>) -> Answer; 4] = [
        |user| start(user, 1, 1),
        |user| {
            init(user, user.host(4096), 0);
            start(user, 1, 1)
        },
        |user| {
            let ring = user.host(4096);
            init(user, ring, ring);
            start(user, 1, 0)
        },
        |user| {
            // A reset takes the rings away.
            let ring = user.host(4096);
            init(user, ring, ring);
            let mut reset = DeviceReset {
                nc_map: 2,
                ..DeviceReset::ZEROED
            };
            assert_eq!(user.call(&NC_RESET, &mut reset), Answer::Done);
            start(user, 1, 1)
        },
    ];
    for case in cases {
        let emulator = emulator(|_| ());
        let user = User::new(&emulator, 1);
        assert_eq!(case(&user), Answer::Errno(EIO));
        assert_eq!(traps(&emulator), [16]);
    }
}

#[test]
fn trap_17_an_acknowledge_of_a_ring_without_a_power_of_two_crashes() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let ring = user.host(4096);
    let good = init(&user, ring, ring);
    let ack = |eng_id| {
        let mut ack = DmaAckCompleted {
            eng_id,
            qid: QUEUE,
            count: 1,
        };
        user.call(&DMA_ACK_COMPLETED, &mut ack)
    };
    assert_eq!(ack(ENGINE), Answer::Done);
    assert_eq!(ack(132), Answer::Errno(EINVAL));
    let mut odd = DmaQueueInit {
        rx_desc_count: 48,
        ..good
    };
    assert_eq!(user.call(&DMA_QUEUE_INIT, &mut odd), Answer::Done);
    assert_eq!(ack(ENGINE), Answer::Errno(EIO));
    assert_eq!(traps(&emulator), [17]);
}

#[test]
fn trap_18_the_state_of_what_does_not_exist_crashes() {
    for (engine, queue) in [(132, 0), (0, 16), (34, 0)] {
        let emulator = emulator(|_| ());
        let user = User::new(&emulator, 1);
        let asked = state(&user, engine, queue);
        assert_eq!(asked, Err(Answer::Errno(EIO)));
        assert_eq!(traps(&emulator), [18]);
    }
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let mut out = DmaDescriptorCopyout {
        eng_id: 132,
        count: 1,
        ..DmaDescriptorCopyout::ZEROED
    };
    assert_eq!(
        user.call(&DMA_DESCRIPTOR_COPYOUT, &mut out),
        Answer::Errno(EIO)
    );
    assert_eq!(traps(&emulator), [18]);
}

#[test]
fn queues_of_a_process_that_goes_get_a_ring_that_does_no_harm() {
    let emulator = emulator(|_| ());
    let (one, two) = (User::new(&emulator, 1), User::new(&emulator, 2));
    let (ring, theirs) = (one.host(4096), two.host(4096));
    let good = init(&one, ring, ring);
    // A queue that another initialised last; the driver's own; one that instructions are fetched through, one that not.
    let other = DmaQueueInit {
        qid: QUEUE + 1,
        ..good
    };
    let of_driver = DmaQueueInit {
        eng_id: 32,
        qid: 0,
        ..good
    };
    let fetching = DmaQueueInit {
        eng_id: 16,
        qid: 14,
        ..good
    };
    let not_fetching = DmaQueueInit {
        eng_id: 16 + 11,
        qid: 14,
        ..good
    };
    for init in [other, of_driver, fetching, not_fetching] {
        assert_eq!(one.call(&DMA_QUEUE_INIT, &mut { init }), Answer::Done);
    }
    let mut taken = DmaQueueInit {
        tx_handle: theirs,
        rx_handle: theirs,
        ..other
    };
    assert_eq!(two.call(&DMA_QUEUE_INIT, &mut taken), Answer::Done);
    let (mine, of_two) = (one.pa(ring), two.pa(theirs));
    emulator.exited(1);
    let base = |init: DmaQueueInit| {
        let [tx, rx] = state(&two, init.eng_id, init.qid).unwrap();
        assert_eq!((tx.base_addr, tx.length), (rx.base_addr, rx.length));
        (tx.base_addr, tx.length)
    };
    let (dummy, length) = base(good);
    assert_eq!(length, 64);
    assert!(dummy != mine && dummy != 0);
    assert_eq!(base(not_fetching), (dummy, 64));
    assert_eq!(base(other), (of_two, 32));
    assert_eq!(base(of_driver), (mine, 32));
    assert_eq!(base(fetching), (mine, 32));
    assert_eq!(start(&two, 1, 1), Answer::Done, "it has a ring");
    assert!(emulator.bugs().is_empty());
}

#[test]
fn host_addresses_in_descriptors_must_lie_in_a_chunk_that_the_process_may_use() {
    let emulator = emulator(|c| c.devices = 2);
    let user = User::new(&emulator, 1);
    let neighbour = User::on(&emulator, 2, 1);
    let (ring, here) = (user.host(4096), user.host(4096));
    let there = neighbour.pa(neighbour.host(4096));
    let host_bit = 1 << 44;
    let put = |address| fill(&user, ring, 0, 0, &[reading(0x100_0000), reading(address)]);
    assert_eq!(put(user.pa(here) + 4095), Answer::Done);
    assert_eq!(put(host_bit), Answer::Errno(EINVAL));
    assert_eq!(put(user.pa(here) + 4096), Answer::Errno(EINVAL));
    assert_eq!(
        put(there),
        Answer::Errno(EINVAL),
        "not attached to that device"
    );
    let _attached = User::on(&emulator, 1, 1);
    assert_eq!(put(there), Answer::Done);
    // Addresses of the device are not looked at.
    assert_eq!(put(0xFFF_FFFF_FFF0), Answer::Done);
}

#[test]
fn descriptors_have_to_fit_the_chunk() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let ring = user.host(4096);
    let some = [reading(0x100_0000); 2];
    assert_eq!(fill(&user, ring, 4096 - 32, 1, &some), Answer::Done);
    assert_eq!(user.read(ring, 4096 - 32, 32), some.as_bytes());
    assert_eq!(
        fill(&user, ring, 4096 - 31, 1, &some),
        Answer::Errno(EINVAL)
    );
    assert_eq!(fill(&user, 99, 0, 0, &some), Answer::Errno(EINVAL));
    assert_eq!(fill(&user, ring, 0, 2, &some), Answer::Errno(EPERM));
    assert_eq!(fill(&user, ring, 0, 0, &[]), Answer::Done);
    let mut narrow = DmaCopyDescriptors {
        mem_handle: ring,
        buffer: BUFFER,
        num_descs: 2,
        offset: 64,
        ..DmaCopyDescriptors::ZEROED
    };
    user.program.put(BUFFER, some.as_bytes());
    assert_eq!(user.call(&DMA_COPY_DESCRIPTORS, &mut narrow), Answer::Done);
    assert_eq!(user.read(ring, 64, 32), some.as_bytes());
    narrow.buffer = NOWHERE;
    let bad = user.call(&DMA_COPY_DESCRIPTORS, &mut narrow);
    assert_eq!(bad, Answer::Positive(32));
    assert_eq!(
        fill(&user, ring, 0_u64.wrapping_sub(16), 0, &some),
        Answer::Errno(EIO)
    );
    assert_eq!(traps(&emulator), [24]);
}

#[test]
fn descriptors_come_out_of_a_ring() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let (host, device) = (user.host(4096), user.device(4096));
    init(&user, host, device);
    let some = [1, 2, 3].map(|page| reading(page << 12));
    for (ring, queue_type) in [(host, 0), (device, 1)] {
        assert_eq!(fill(&user, ring, 0, queue_type, &some), Answer::Done);
    }
    let out = |queue_type, start_index, count| {
        user.program.put(BUFFER, &vec![0; 16 * count as usize]);
        let mut out = DmaDescriptorCopyout {
            eng_id: ENGINE,
            qid: QUEUE,
            queue_type,
            start_index,
            count,
            buffer: BUFFER,
            ..DmaDescriptorCopyout::ZEROED
        };
        match user.call(&DMA_DESCRIPTOR_COPYOUT, &mut out) {
            Answer::Done => Ok(user.program.get(BUFFER)),
            refused => Err(refused),
        }
    };
    assert_eq!(out(0, 1, 2).unwrap(), some[1..].as_bytes());
    assert_eq!(
        out(1, 1, 2).unwrap(),
        some[..2].as_bytes(),
        "device memory: from the beginning"
    );
    assert_eq!(out(0, 31, 1).unwrap(), [0; 16]);
    assert_eq!(out(0, 31, 2), Err(Answer::Errno(EFBIG)));
    assert_eq!(out(0, u32::MAX, 1), Err(Answer::Errno(EFBIG)));
    assert_eq!(out(0, 0, 0), Err(Answer::Errno(EINVAL)));
    assert_eq!(out(2, 0, 1), Err(Answer::Errno(EPERM)));
}

#[test]
fn engines_are_told_states_and_say_them() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 1);
    let set = |eng_id, state| user.call(&DMA_ENG_SET_STATE, &mut DmaEngSetState { eng_id, state });
    let get = |eng_id| {
        user.program.put(BUFFER, &[0; DmaEngState::ABI.size]);
        let mut get = DmaEngGetState {
            eng_id,
            state: BUFFER,
            ..DmaEngGetState::ZEROED
        };
        match user.call(&DMA_ENG_GET_STATE, &mut get) {
            Answer::Done => {
                let bytes = user.program.get(BUFFER).try_into().unwrap();
                let state = DmaEngState::from_bytes(bytes);
                assert_eq!((state.revision_id, state.max_queues), (4, 16));
                Ok((state.tx_state, state.rx_state))
            }
            refused => Err(refused),
        }
    };
    assert_eq!(get(33), Ok((2, 2)));
    for (told, says) in [(0, 1), (3, 3), (1, 3), (99, 3), (2, 2)] {
        assert_eq!(set(5, told), Answer::Done);
        assert_eq!(get(5), Ok((says, says)), "told {told}");
    }
    for engine in [34, 132, u32::MAX] {
        assert_eq!(set(engine, 0), Answer::Errno(EINVAL));
        assert_eq!(get(engine), Err(Answer::Errno(EINVAL)));
    }
}
