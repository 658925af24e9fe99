//! DMA queues and notification queues.

use super::chunks::{DEVICE, HOST};
use super::script::{Driver, HOST_BIT, NQ_OFFSET, Script, V2, V3, chunk, edit, refused};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use xu_abi::Descriptor;
use xu_abi::driver::errno::Answer;
use xu_abi::driver::{
    DmaCopyDescriptors64, DmaDescriptorCopyout, DmaQueueCopyStart, DmaQueueInit, DmaQueueState,
    MemFree, NotificationsInitWithReallocV2, NqDevice, NqType, QueueType, ioctl,
};
use xu_device::neuron::{DriverError, Node, NqRing, NqSpec, Queue, Ring, RingPair};
use zerocopy::{FromZeros, IntoBytes};

const QUEUE: Queue = Queue {
    engine: 3,
    index: 2,
};

fn ring(script: &Script, node: &Arc<Node>, descriptors: u32) -> Ring {
    Ring::new(chunk(script, node, HOST), descriptors).unwrap()
}

/// An open queue of 64 Tx and 128 Rx descriptors, and nothing recorded.
fn open(script: &Script, node: &Arc<Node>) -> RingPair {
    let (tx, rx) = (ring(script, node, 64), ring(script, node, 128));
    let pair = RingPair::open(node, QUEUE, tx, rx).unwrap();
    script.calls();
    pair
}

#[test]
fn d4_a_ring_follows_the_rules_and_fits_its_chunk() {
    let (script, node) = Script::node(V2);
    // Two pages: 512 descriptors.
    let chunk = chunk(&script, &node, HOST);
    for descriptors in [0, 16, 31, 33, 40, 512 + 16, 16_777_216, u32::MAX] {
        let text = refused(&script, Ring::new(Arc::clone(&chunk), descriptors));
        assert!(text.contains(&format!("is {descriptors},")), "{text}");
    }
    Ring::new(Arc::clone(&chunk), 32).unwrap();
    Ring::new(chunk, 512).unwrap();
}

#[test]
fn a_queue_is_initialised_onto_its_rings() {
    let (script, node) = Script::node(V2);
    let (tx, rx) = (ring(&script, &node, 64), ring(&script, &node, 128));
    let handles = (tx.chunk().handle().get(), rx.chunk().handle().get());
    let pair = RingPair::open(&node, QUEUE, tx, rx).unwrap();
    let calls = script.calls();
    let last = calls.last().unwrap();
    assert_eq!(last.name, "DMA_QUEUE_INIT");
    let init: DmaQueueInit = last.argument();
    assert_eq!((init.eng_id, init.qid), (3, 2));
    assert_eq!((init.tx_desc_count, init.rx_desc_count), (64, 128));
    assert_eq!((init.tx_handle, init.rx_handle), handles);
    assert_eq!((init.rxc_handle, init.axi_port), (0, 0));
    assert_eq!(pair.queue(), QUEUE);
}

#[test]
fn d4_a_reserved_queue_is_refused() {
    for (driver, engine, index) in [
        (V2, 32, 0),  // The driver's own copies.
        (V2, 0, 15),  // Collectives.
        (V2, 10, 14), // Instructions.
        (V3, 23, 14),
        (V3, 128, 3),
        (V3, 4711, 0),
        (V2, 0, 16),
        (V2, u32::MAX, u32::MAX),
    ] {
        let (script, node) = Script::node(driver);
        let (tx, rx) = (ring(&script, &node, 64), ring(&script, &node, 64));
        let queue = Queue { engine, index };
        refused(
            &script,
            RingPair::open(&node, queue, tx.clone(), rx.clone()),
        );
    }
    let (script, node) = Script::node(V2);
    let (tx, rx) = (ring(&script, &node, 64), ring(&script, &node, 64));
    let queue = Queue {
        engine: 11,
        index: 14,
    };
    RingPair::open(&node, queue, tx, rx).unwrap();
}

#[test]
fn d4_a_queue_is_open_once_and_a_ring_is_of_its_device() {
    let script = Script::new(V2);
    let node = Arc::new(script.open(0).unwrap());
    let other = Arc::new(script.open(1).unwrap());
    let pair = open(&script, &node);
    let (tx, rx) = (ring(&script, &node, 64), ring(&script, &node, 64));
    let foreign = ring(&script, &other, 64);
    refused(
        &script,
        RingPair::open(&node, QUEUE, tx.clone(), rx.clone()),
    );
    let free = Queue { index: 5, ..QUEUE };
    refused(
        &script,
        RingPair::open(&node, free, tx.clone(), foreign.clone()),
    );
    drop(pair);
    RingPair::open(&node, QUEUE, tx, rx).unwrap();
}

/// Trap 16, and what the driver answers with EPERM.
#[test]
fn d4_a_start_needs_an_rx_descriptor_and_no_more_than_there_are() {
    let (script, node) = Script::node(V2);
    let pair = open(&script, &node);
    for (tx, rx) in [(0, 0), (64, 0), (65, 1), (1, 129), (u32::MAX, u32::MAX)] {
        refused(&script, pair.start(tx, rx));
    }
    pair.start(0, 128).unwrap();
    let start: DmaQueueCopyStart = script.calls()[0].argument();
    assert_eq!((start.tx_desc_count, start.rx_desc_count), (0, 128));
}

/// Trap 14: a queue that points at freed memory.
#[test]
fn d7_a_queue_is_parked_before_its_rings_are_freed() {
    let (script, node) = Script::node(V2);
    let pair = open(&script, &node);
    let rings = [QueueType::Tx, QueueType::Rx].map(|side| pair.ring(side).chunk().handle().get());
    drop(pair);
    let calls = script.calls();
    let [park, one, other] = &*calls else {
        panic!("{calls:?}")
    };
    let park: DmaQueueInit = park.argument();
    assert_eq!((park.eng_id, park.qid, park.tx_desc_count), (3, 2, 64));
    assert_ne!(park.tx_handle, 0);
    assert!(!rings.contains(&park.tx_handle) && !rings.contains(&park.rx_handle));
    let freed = [one, other].map(|made| made.argument::<MemFree>().mem_handle);
    assert_eq!(freed, rings);
}

#[test]
fn d7_rings_of_a_queue_that_cannot_be_parked_are_never_freed() {
    let (script, node) = Script::node(V2);
    let pair = open(&script, &node);
    script.answer(&ioctl::DMA_QUEUE_INIT, Answer::Errno(22));
    drop(pair);
    assert_eq!(script.names(), ["DMA_QUEUE_INIT"]);
    let (tx, rx) = (ring(&script, &node, 64), ring(&script, &node, 64));
    let again = RingPair::open(&node, QUEUE, tx.clone(), rx.clone());
    refused(&script, again);
    // The device can be closed: the driver parks the queue itself, and frees the memory then.
    script.events();
    drop((tx, rx, node));
    assert_eq!(script.events(), ["MEM_FREE", "MEM_FREE", "close"]);
}

#[test]
fn d7_a_queue_whose_init_failed_is_parked_too() {
    let (script, node) = Script::node(V2);
    let (tx, rx) = (ring(&script, &node, 64), ring(&script, &node, 64));
    script.answer(&ioctl::DMA_QUEUE_INIT, Answer::Errno(1));
    RingPair::open(&node, QUEUE, tx, rx).unwrap_err();
    let names = script.names();
    let tail = &names[names.len() - 4..];
    assert_eq!(
        tail,
        ["DMA_QUEUE_INIT", "DMA_QUEUE_INIT", "MEM_FREE", "MEM_FREE"]
    );
}

#[test]
fn d4_descriptors_stay_inside_their_ring() {
    let (script, node) = Script::node(V2);
    let pair = open(&script, &node);
    let mut descriptors = [Descriptor::new_zeroed(); 3];
    descriptors[2].as_mut_bytes().fill(0xEE);
    for (index, count) in [(0, 0), (62, 3), (64, 1), (u32::MAX, 1)] {
        let some = &descriptors[..count];
        refused(&script, pair.copy_descriptors(QueueType::Tx, index, some));
    }
    pair.copy_descriptors(QueueType::Tx, 61, &descriptors)
        .unwrap();
    let made = &script.calls()[0];
    let copy: DmaCopyDescriptors64 = made.argument();
    assert_eq!(
        (copy.num_descs, copy.offset, copy.queue_type),
        (3, 61 * 16, 0)
    );
    assert_eq!(made.buffers, [descriptors.as_bytes()]);
    refused(
        &script,
        pair.read_descriptors(QueueType::Rx, 126, &mut descriptors),
    );
    refused(&script, pair.read_descriptors(QueueType::Rx, 0, &mut []));
    pair.read_descriptors(QueueType::Rx, 125, &mut descriptors)
        .unwrap();
    let copy: DmaDescriptorCopyout = script.calls()[0].argument();
    assert_eq!((copy.start_index, copy.count, copy.queue_type), (125, 3, 1));
}

#[test]
fn descriptors_of_a_ring_in_device_memory_are_read_from_the_first_on() {
    let (script, node) = Script::node(V2);
    let device = || Ring::new(chunk(&script, &node, DEVICE), 64).unwrap();
    let pair = RingPair::open(&node, QUEUE, device(), device()).unwrap();
    script.calls();
    let mut descriptors = [Descriptor::new_zeroed(); 3];
    refused(
        &script,
        pair.read_descriptors(QueueType::Tx, 1, &mut descriptors),
    );
    pair.read_descriptors(QueueType::Tx, 0, &mut descriptors)
        .unwrap();
}

#[test]
fn an_older_driver_copies_descriptors_in_its_own_way() {
    let (script, node) = Script::node(Driver {
        features: None,
        ..V2
    });
    let pair = open(&script, &node);
    pair.copy_descriptors(QueueType::Rx, 1, &[Descriptor::new_zeroed()])
        .unwrap();
    assert_eq!(script.names(), ["DMA_COPY_DESCRIPTORS"]);
}

#[test]
fn the_state_of_a_queue_is_that_of_both_rings() {
    let (script, node) = Script::node(V2);
    let pair = open(&script, &node);
    script.reply(&ioctl::DMA_QUEUE_GET_STATE, |call| {
        for (buffer, tail_pointer) in call.buffers().iter_mut().zip([5, 6]) {
            let state = DmaQueueState {
                tail_pointer,
                ..DmaQueueState::ZEROED
            };
            buffer
                .bytes_mut()
                .unwrap()
                .copy_from_slice(state.as_bytes());
        }
        Answer::Done
    });
    let [tx, rx] = pair.state().unwrap();
    assert_eq!((tx.tail_pointer, rx.tail_pointer), (5, 6));
}

const NQ: NqSpec = NqSpec {
    device: NqDevice::Core,
    id: 1,
    nq_type: NqType::Notify,
    engine_index: 4,
    bytes: 8192,
};

#[test]
fn d7_a_notification_ring_is_new_and_zeroed() {
    let (script, node) = Script::node(V2);
    let ring = NqRing::open(&node, NQ).unwrap();
    let asked: NotificationsInitWithReallocV2 = script.calls()[0].argument();
    assert_eq!((asked.force_alloc_mem, asked.on_host_memory), (1, 1));
    assert_eq!(
        (asked.nq_dev_id, asked.nq_type, asked.engine_index),
        (1, 1, 4)
    );
    assert_eq!(ring.mapping().bytes(), 8192);
    let words = (0..8192)
        .step_by(4)
        .map(|at| ring.mapping().word(at).unwrap());
    assert!(
        words
            .into_iter()
            .all(|word| word.load(Ordering::Relaxed) == 0)
    );
    assert_eq!(script.events(), [format!("map {NQ_OFFSET:#x} 8192 Full")]);
    // Its memory lives with the device: nothing is freed.
    drop(ring);
    assert!(script.calls().is_empty());
    assert_eq!(script.events(), ["unmap 8192"]);
}

/// Trap 28, and two types that would fight over one hardware queue.
#[test]
fn d4_a_notification_queue_that_is_another_s_is_refused() {
    let (script, node) = Script::node(V2);
    let ring = NqRing::open(&node, NQ).unwrap();
    script.calls();
    let topsp = NqDevice::Topsp;
    for spec in [
        NqSpec {
            nq_type: NqType::Error,
            ..NQ
        },
        NqSpec { id: 2, ..NQ },
        NqSpec {
            id: 6,
            device: topsp,
            ..NQ
        },
        NqSpec {
            engine_index: 16,
            ..NQ
        },
        NqSpec {
            device: topsp,
            nq_type: NqType::TraceDma,
            ..NQ
        },
        NqSpec {
            engine_index: 5,
            bytes: 2048,
            ..NQ
        },
        NqSpec {
            engine_index: 5,
            bytes: 12_288,
            ..NQ
        },
        NqSpec {
            engine_index: 5,
            bytes: 0,
            ..NQ
        },
    ] {
        refused(&script, NqRing::open(&node, spec));
    }
    // The SDMA engine's own queue, another core, a TOPSP.
    let others = [
        NqSpec {
            nq_type: NqType::TraceDma,
            ..NQ
        },
        NqSpec { id: 0, ..NQ },
        NqSpec {
            id: 5,
            device: topsp,
            ..NQ
        },
    ];
    let _others = others.map(|spec| NqRing::open(&node, spec).unwrap());
    drop(ring);
    NqRing::open(
        &node,
        NqSpec {
            nq_type: NqType::Error,
            ..NQ
        },
    )
    .unwrap();
}

#[test]
fn d4_a_notification_ring_that_cannot_be_is_refused() {
    for offset in [u64::MAX, 0x7000_0000, HOST_BIT | 1] {
        let (script, node) = Script::node(V2);
        script.reply(&ioctl::NOTIFICATIONS_INIT_WITH_REALLOC_V2, move |call| {
            edit(call, |a: &mut NotificationsInitWithReallocV2| {
                a.mmap_offset = offset
            })
        });
        let error = NqRing::open(&node, NQ).unwrap_err();
        assert!(matches!(error, DriverError::Nonsense { value, .. } if value == offset));
        // Tried again, it works.
        NqRing::open(&node, NQ).unwrap();
    }
}
