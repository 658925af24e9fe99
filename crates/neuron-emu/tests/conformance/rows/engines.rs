//! DMA queues, semaphores and events, notification queues, registers.

use super::Case;
use crate::node::{Node, QUEUE, address_of, queue_init};
use xu_abi::driver::errno::Answer::{self, Done, Errno, Positive};
use xu_abi::driver::errno::{E2BIG, EACCES, EFBIG, EINVAL, ENOSYS, ENOTTY, EPERM};
use xu_abi::driver::ioctl as row;
use xu_abi::driver::{
    BarRw, DmaAckCompleted, DmaCopyDescriptors, DmaCopyDescriptors64, DmaDescriptorCopyout,
    DmaEngGetState, DmaEngSetState, DmaEngState, DmaQueueCopyStart, DmaQueueGetState,
    DmaQueueInitBatch, DmaQueueRelease, DmaQueueState, Event, Ioctl, NotificationsInitV1,
    NotificationsInitV2, NotificationsInitWithReallocV2, NotificationsQueueInfo, ReadHwCounters,
    ResourceMmapInfo, Semaphore,
};

/// One more than there are.
const NO_ENGINE: u32 = 132;
/// A core that a v2 device does not have.
const NO_CORE: u32 = 2;
/// Descriptors of the rings.
const RING: u32 = 64;
/// The register that sets semaphore 0 of core 0.
const SET_SEMAPHORE: u64 = 0x270_1400;
/// The ring base of queue 0 of engine 0, which nobody may write.
const BLOCKED: u64 = 0x3000_0000 + 0x1000 + 0x28;

fn start(node: &Node, eng_id: u32) -> Answer {
    node.queue(RING);
    let argument = DmaQueueCopyStart {
        eng_id,
        qid: QUEUE,
        tx_desc_count: 0,
        rx_desc_count: 1,
    };
    node.call(row::DMA_QUEUE_COPY_START, argument)
}

fn acknowledge(node: &Node, eng_id: u32) -> Answer {
    node.queue(RING);
    let argument = DmaAckCompleted {
        eng_id,
        qid: QUEUE,
        count: 1,
    };
    node.call(row::DMA_ACK_COMPLETED, argument)
}

fn queue_state(node: &Node) -> Answer {
    node.queue(RING);
    let (mut tx, mut rx) = (DmaQueueState::ZEROED, DmaQueueState::ZEROED);
    let argument = DmaQueueGetState {
        eng_id: 0,
        qid: QUEUE,
        tx: address_of(&mut tx),
        rx: address_of(&mut rx),
    };
    let answer = node.call(row::DMA_QUEUE_GET_STATE, argument);
    assert_eq!((tx.length, rx.length), (RING, RING));
    answer
}

fn engine_state(node: &Node, eng_id: u32) -> Answer {
    let mut state = DmaEngState::ZEROED;
    let argument = DmaEngGetState {
        eng_id,
        state: address_of(&mut state),
        ..DmaEngGetState::ZEROED
    };
    let answer = node.call(row::DMA_ENG_GET_STATE, argument);
    assert!(
        answer != Done || (state.revision_id, state.max_queues) == (4, 16),
        "{state:?}"
    );
    answer
}

fn batch(node: &Node, count: u32) -> Answer {
    let ring = node.chunk(true, u64::from(RING) * 16);
    let mut argument = Box::new(DmaQueueInitBatch::ZEROED);
    argument.count = count;
    argument.entries[0] = queue_init(ring, RING);
    node.ask(row::DMA_QUEUE_INIT_BATCH, &mut *argument)
}

/// Descriptors that name memory of this process.
fn descriptors(node: &Node) -> (u64, [[u64; 2]; 2]) {
    let ring = node.chunk(true, 4096);
    let pa = node.pa(ring);
    (ring, [[4, pa]; 2])
}

fn copy_descriptors(node: &Node, queue_type: u32) -> Answer {
    let (mem_handle, mut descriptors) = descriptors(node);
    let argument = DmaCopyDescriptors {
        mem_handle,
        buffer: address_of(&mut descriptors),
        num_descs: 2,
        queue_type,
        ..DmaCopyDescriptors::ZEROED
    };
    node.call(row::DMA_COPY_DESCRIPTORS, argument)
}

fn copy_descriptors64(node: &Node, queue_type: u32) -> Answer {
    let (mem_handle, mut descriptors) = descriptors(node);
    let argument = DmaCopyDescriptors64 {
        mem_handle,
        buffer: address_of(&mut descriptors),
        num_descs: 2,
        queue_type,
        ..DmaCopyDescriptors64::ZEROED
    };
    node.call(row::DMA_COPY_DESCRIPTORS64, argument)
}

fn copy_out(node: &Node, start_index: u32) -> Answer {
    node.queue(RING);
    let mut descriptors = [[0u64; 2]; 2];
    let argument = DmaDescriptorCopyout {
        eng_id: 0,
        qid: QUEUE,
        start_index,
        count: 2,
        buffer: address_of(&mut descriptors),
        ..DmaDescriptorCopyout::ZEROED
    };
    node.call(row::DMA_DESCRIPTOR_COPYOUT, argument)
}

fn semaphore(node: &Node, row: Ioctl, nc_id: u32, semaphore_index: u32) -> Answer {
    let argument = Semaphore {
        nc_id,
        semaphore_index,
        value: 1,
    };
    node.call(row, argument)
}

fn event(node: &Node, row: Ioctl, event_index: u32) -> Answer {
    let argument = Event {
        nc_id: 0,
        event_index,
        value: 1,
    };
    node.call(row, argument)
}

fn ring_v1(size: u32) -> NotificationsInitV1 {
    NotificationsInitV1 {
        engine_index: 4,
        size,
        ..NotificationsInitV1::ZEROED
    }
}

fn ring(nq_dev_type: u32) -> NotificationsInitV2 {
    NotificationsInitV2 {
        nq_dev_type,
        engine_index: 4 * u32::from(nq_dev_type == 0),
        size: 4096,
        on_host_memory: 1,
        ..NotificationsInitV2::ZEROED
    }
}

fn fresh_ring(nq_dev_id: u32) -> NotificationsInitWithReallocV2 {
    NotificationsInitWithReallocV2 {
        nq_dev_id,
        engine_index: 4,
        size: 4096,
        on_host_memory: 1,
        force_alloc_mem: 1,
        ..NotificationsInitWithReallocV2::ZEROED
    }
}

fn register(node: &Node, row: Ioctl, bar: u32, offset: u64) -> Answer {
    let (mut address, mut value) = (node.bar() + offset, 3u32);
    let argument = BarRw {
        bar,
        address: address_of(&mut address),
        data: address_of(&mut value),
        count: 1,
        ..BarRw::ZEROED
    };
    node.call(row, argument)
}

fn counters(node: &Node) -> Answer {
    let (mut address, mut value) = (0u64, 0u32);
    let argument = ReadHwCounters {
        address: address_of(&mut address),
        data: address_of(&mut value),
        count: 1,
        ..ReadHwCounters::ZEROED
    };
    node.call(row::READ_HW_COUNTERS, argument)
}

/// The state buffer of core 0, which can be mapped.
fn window(block: u32) -> ResourceMmapInfo {
    ResourceMmapInfo {
        block,
        resource: 2,
        ..ResourceMmapInfo::ZEROED
    }
}

#[rustfmt::skip]
pub(super) const CASES: &[Case] = &[
    Case::new(row::DMA_ENG_INIT, |n| n.call(row::DMA_ENG_INIT, 0u64), Done, |n| n.detached(row::DMA_ENG_INIT, 0u64), Errno(EACCES)),
    Case::new(row::DMA_ENG_SET_STATE, |n| n.call(row::DMA_ENG_SET_STATE, DmaEngSetState { eng_id: 0, state: 2 }), Done, |n| n.call(row::DMA_ENG_SET_STATE, DmaEngSetState { eng_id: NO_ENGINE, state: 2 }), Errno(EINVAL)),
    Case::new(row::DMA_ENG_GET_STATE, |n| engine_state(n, 0), Done, |n| engine_state(n, NO_ENGINE), Errno(EINVAL)),
    Case::new(row::DMA_QUEUE_INIT, |n| { n.queue(RING); Done }, Done, |n| n.call(row::DMA_QUEUE_INIT, queue_init(n.chunk(true, 4096), 16)), Errno(EINVAL)),
    Case::new(row::DMA_QUEUE_INIT_BATCH, |n| batch(n, 1), Done, |n| batch(n, 256), Errno(E2BIG)),
    Case::new(row::DMA_QUEUE_RELEASE, |n| n.call(row::DMA_QUEUE_RELEASE, DmaQueueRelease { eng_id: 0, qid: QUEUE }), Done, |n| n.detached(row::DMA_QUEUE_RELEASE, DmaQueueRelease { eng_id: 0, qid: QUEUE }), Errno(EACCES)),
    Case::new(row::DMA_QUEUE_COPY_START, |n| start(n, 0), Done, |n| start(n, NO_ENGINE), Errno(EINVAL)),
    Case::new(row::DMA_ACK_COMPLETED, |n| acknowledge(n, 0), Done, |n| acknowledge(n, NO_ENGINE), Errno(EINVAL)),
    Case::new(row::DMA_QUEUE_GET_STATE, queue_state, Done, |n| n.blind(row::DMA_QUEUE_GET_STATE), Positive(24)),
    Case::new(row::DMA_COPY_DESCRIPTORS, |n| copy_descriptors(n, 1), Done, |n| copy_descriptors(n, 2), Errno(EPERM)),
    Case::new(row::DMA_COPY_DESCRIPTORS64, |n| copy_descriptors64(n, 1), Done, |n| copy_descriptors64(n, 2), Errno(EPERM)),
    Case::new(row::DMA_DESCRIPTOR_COPYOUT, |n| copy_out(n, RING - 2), Done, |n| copy_out(n, RING - 1), Errno(EFBIG)),
    Case::new(row::DMA_QUIESCE_QUEUES, |n| n.call(row::DMA_QUIESCE_QUEUES, 0u64), Errno(ENOTTY), |n| n.on_misc(row::DMA_QUIESCE_QUEUES, 0u64), Errno(EINVAL)),
    Case::new(row::SEMAPHORE_INCREMENT, |n| semaphore(n, row::SEMAPHORE_INCREMENT, 0, 255), Done, |n| semaphore(n, row::SEMAPHORE_INCREMENT, NO_CORE, 255), Errno(E2BIG)),
    Case::new(row::SEMAPHORE_DECREMENT, |n| semaphore(n, row::SEMAPHORE_DECREMENT, 0, 255), Done, |n| semaphore(n, row::SEMAPHORE_DECREMENT, NO_CORE, 255), Errno(E2BIG)),
    Case::new(row::SEMAPHORE_READ, |n| semaphore(n, row::SEMAPHORE_READ, 0, 255), Done, |n| semaphore(n, row::SEMAPHORE_READ, 0, 256), Errno(EINVAL)),
    Case::new(row::SEMAPHORE_WRITE, |n| semaphore(n, row::SEMAPHORE_WRITE, 0, 255), Done, |n| semaphore(n, row::SEMAPHORE_WRITE, 0, 256), Errno(EINVAL)),
    Case::new(row::EVENT_SET, |n| event(n, row::EVENT_SET, 255), Done, |n| event(n, row::EVENT_SET, 257), Errno(EINVAL)),
    Case::new(row::EVENT_GET, |n| event(n, row::EVENT_GET, 255), Done, |n| event(n, row::EVENT_GET, 257), Errno(EINVAL)),
    Case::new(row::NOTIFICATIONS_INIT_V1, |n| n.call(row::NOTIFICATIONS_INIT_V1, ring_v1(4096)), Done, |n| n.call(row::NOTIFICATIONS_INIT_V1, ring_v1(5000)), Errno(EINVAL)),
    Case::new(row::NOTIFICATIONS_DESTROY_V1, |n| n.call(row::NOTIFICATIONS_DESTROY_V1, 0u64), Done, |n| n.on_misc(row::NOTIFICATIONS_DESTROY_V1, 0u64), Errno(EINVAL)),
    Case::new(row::NOTIFICATIONS_INIT_V2, |n| n.call(row::NOTIFICATIONS_INIT_V2, ring(0)), Done, |n| n.call(row::NOTIFICATIONS_INIT_V2, ring(2)), Errno(ENOSYS)),
    Case::new(row::NOTIFICATIONS_INIT_WITH_REALLOC_V2, |n| n.call(row::NOTIFICATIONS_INIT_WITH_REALLOC_V2, fresh_ring(0)), Done, |n| n.call(row::NOTIFICATIONS_INIT_WITH_REALLOC_V2, fresh_ring(NO_CORE)), Errno(EINVAL)),
    Case::new(row::NOTIFICATIONS_QUEUE_INFO, |n| n.call(row::NOTIFICATIONS_QUEUE_INFO, NotificationsQueueInfo::ZEROED), Errno(EPERM), |n| n.on_misc(row::NOTIFICATIONS_QUEUE_INFO, NotificationsQueueInfo::ZEROED), Errno(EINVAL)),
    Case::new(row::READ_HW_COUNTERS, counters, Done, |n| n.blind(row::READ_HW_COUNTERS), Positive(24)),
    Case::new(row::RESOURCE_MMAP_INFO, |n| n.call(row::RESOURCE_MMAP_INFO, window(0)), Done, |n| n.call(row::RESOURCE_MMAP_INFO, window(9)), Errno(EINVAL)),
    Case::new(row::BAR_READ, |n| register(n, row::BAR_READ, 0, SET_SEMAPHORE), Done, |n| register(n, row::BAR_READ, 1, SET_SEMAPHORE), Errno(EINVAL)),
    Case::new(row::BAR_WRITE, |n| register(n, row::BAR_WRITE, 0, SET_SEMAPHORE), Done, |n| register(n, row::BAR_WRITE, 0, BLOCKED), Errno(EINVAL)),
];
