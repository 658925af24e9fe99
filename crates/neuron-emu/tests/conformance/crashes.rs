//! What would crash the kernel stops the device, loudly: each case of `driver.md` section 11, through real system calls.
//!
//! The backend of the lane cannot express any of it. Where that is tested, in the tests of `xu_device::neuron`:
//!
//! | trap | what crashes | why the backend cannot |
//! |---|---|---|
//! | 11 | an allocation after a duplicate was closed | descriptors are never duplicated: `p1_descriptors_are_closed_on_exec_and_once`; asked before each: `the_attachment_is_checked_before_each_allocation` |
//! | 12 | an allocation of a forked child | every call is refused there: `tests/tests/fork.rs` |
//! | 14 | a start after a ring was freed | a queue holds its rings, and is parked first: `d7_a_queue_is_parked_before_its_rings_are_freed` |
//! | 16 | a start without Rx descriptors, or an Rx ring | `d4_a_start_needs_an_rx_descriptor_and_no_more_than_there_are`; a queue is opened onto two rings |
//! | 17 | an acknowledge of an odd ring | there is no such function |
//! | 18 | the state of a queue that there is not | `d4_a_reserved_queue_is_refused`: only an open queue can be asked |
//! | 19 | the place of device 64 | only its own place is asked for: index 0 |
//! | 20 | registers outside BAR0 | `d4_a_register_outside_bar0_is_refused`, `d4_the_number_of_registers_is_limited` |
//! | 21 | events of a core that there is not | `d4_a_core_beyond_the_last_is_refused` |
//! | 22 | a pinned copy of nothing, or of 65 pages | `d4_nothing_empty_reaches_the_driver`, `d4_what_is_pinned_begins_at_a_page` |
//! | 24 | a range that wraps around | `d4_a_range_that_leaves_the_chunk_is_refused`, `d4_descriptors_stay_inside_their_ring` |
//! | 25 | a scratchpad of the host, a text of nothing, very many counters | `d4_what_the_driver_cannot_allocate_is_refused`, `d4_the_number_of_registers_is_limited`; there is no function for texts |

use crate::node::{Node, QUEUE, address_of, queue_init};
use crate::{small, under};
use neuron_emu::Emulator;
use nix::libc;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use xu_abi::driver::errno::Answer::{self, Done, Errno};
use xu_abi::driver::errno::EIO;
use xu_abi::driver::ioctl as row;
use xu_abi::driver::{
    BarRw, DeviceBdfExt, DmaAckCompleted, DmaCopyDescriptors64, DmaDescriptorCopyout,
    DmaQueueCopyStart, DmaQueueGetState, DmaQueueInit, DmaQueueState, Event, Ioctl,
    MemAllocV2MemType64, MemBufCopy64, MemCopy64, Memset64, Printk, ProgramEngineNc64,
    ReadHwCounters,
};

/// One more than there are.
const NO_ENGINE: u32 = 132;
const NO_QUEUE: u32 = 16;
const NO_CORE: u32 = 2;
const RING: u32 = 64;
/// Bytes that 64 pages have.
const STEP: usize = 256 << 10;
const PAGE: usize = 4096;
/// Added to more than 64 KiB, this is small again.
const NEARLY_ALL: u64 = u64::MAX - 0xFFFF;
/// Of [`MemAllocV2MemType64::mem_type`].
const CONTIGUOUS_SCRATCHPAD: u32 = 19;

/// A trap, how it is called, and the call that springs it.
pub(crate) type Case = (u8, &'static str, fn(&Node) -> Answer);

pub(crate) const CASES: &[Case] = &[
    (11, "allocation, detached", |node| {
        drop(node.0.try_clone().unwrap());
        allocate(node, 0)
    }),
    (11, "allocation in a forked child", in_a_child),
    (14, "start of a freed ring", |node| {
        let chunk = node.queue(RING);
        assert_eq!(node.free(chunk), Done);
        start(node, 1)
    }),
    (16, "start of no Rx descriptors", |node| {
        node.queue(RING);
        start(node, 0)
    }),
    (16, "start of a queue that was never initialised", |node| {
        start(node, 1)
    }),
    (16, "start of a queue without an Rx ring", |node| {
        let init = DmaQueueInit {
            // Names nothing, which is no error.
            rx_handle: 4000,
            ..queue_init(node.chunk(true, 4096), RING)
        };
        assert_eq!(node.call(row::DMA_QUEUE_INIT, init), Done);
        start(node, 1)
    }),
    (17, "acknowledge of a ring of 48", |node| {
        let ring = queue_init(node.chunk(true, 4096), 48);
        assert_eq!(node.call(row::DMA_QUEUE_INIT, ring), Done);
        let acknowledge = DmaAckCompleted {
            eng_id: 0,
            qid: QUEUE,
            count: 1,
        };
        node.call(row::DMA_ACK_COMPLETED, acknowledge)
    }),
    (18, "state of an engine that there is not", |node| {
        state(node, NO_ENGINE, 0)
    }),
    (18, "state of a queue that there is not", |node| {
        state(node, 0, NO_QUEUE)
    }),
    (18, "descriptors of an engine that there is not", |node| {
        let out = DmaDescriptorCopyout {
            eng_id: NO_ENGINE,
            count: 1,
            ..DmaDescriptorCopyout::ZEROED
        };
        node.call(row::DMA_DESCRIPTOR_COPYOUT, out)
    }),
    (19, "place of device 64", |node| {
        let place = DeviceBdfExt {
            nd_index: 64,
            ..DeviceBdfExt::ZEROED
        };
        node.call(row::DEVICE_BDF_EXT, place)
    }),
    (20, "registers before BAR0", |node| {
        registers(node, 0, node.bar() - 4, 1)
    }),
    (20, "two registers of BAR 2", |node| {
        registers(node, 2, node.bar(), 2)
    }),
    (21, "setting an event of a core that there is not", |node| {
        event(node, row::EVENT_SET)
    }),
    (21, "reading an event of a core that there is not", |node| {
        event(node, row::EVENT_GET)
    }),
    (22, "pinning nothing", |node| pin(node, 0, 0)),
    (22, "pinning 65 pages", |node| pin(node, 1, STEP)),
    (24, "buffer", |node| {
        let copy = MemBufCopy64 {
            mem_handle: node.chunk(false, 4096),
            buffer: address_of(&mut [0u8; 64]),
            size: 0x1_0000,
            offset: NEARLY_ALL,
            ..MemBufCopy64::ZEROED
        };
        node.call(row::MEM_BUF_COPY64, copy)
    }),
    (24, "copy", |node| {
        let copy = MemCopy64 {
            src: node.chunk(true, 4096),
            dst: node.chunk(false, 4096),
            size: 0x1_0000,
            src_offset: NEARLY_ALL,
            ..MemCopy64::ZEROED
        };
        node.call(row::MEM_COPY64, copy)
    }),
    (24, "fill", |node| {
        let fill = Memset64 {
            mem_handle: node.chunk(false, 4096),
            offset: NEARLY_ALL,
            size: 0x1_0000,
            ..Memset64::ZEROED
        };
        node.call(row::MEMSET64, fill)
    }),
    (24, "descriptors", |node| {
        let copy = DmaCopyDescriptors64 {
            mem_handle: node.chunk(true, 4096),
            buffer: address_of(&mut [0u64; 2]),
            num_descs: 1 << 12,
            offset: NEARLY_ALL,
            ..DmaCopyDescriptors64::ZEROED
        };
        node.call(row::DMA_COPY_DESCRIPTORS64, copy)
    }),
    (24, "program of an engine", |node| {
        let program = ProgramEngineNc64 {
            dst: NEARLY_ALL,
            buffer: address_of(&mut [0u8; 64]),
            size: 0x1_0000,
            ..ProgramEngineNc64::ZEROED
        };
        node.call(row::PROGRAM_ENGINE_NC64, program)
    }),
    (25, "a scratchpad of the host", |node| {
        allocate(node, CONTIGUOUS_SCRATCHPAD)
    }),
    (25, "a text of nothing", |node| {
        node.call(row::PRINTK, Printk::ZEROED)
    }),
    (25, "very many counters", |node| {
        let count = u32::MAX;
        let counters = ReadHwCounters {
            count,
            ..ReadHwCounters::ZEROED
        };
        node.call(row::READ_HW_COUNTERS, counters)
    }),
];

fn allocate(node: &Node, mem_type: u32) -> Answer {
    let mut handle = 0u64;
    let argument = MemAllocV2MemType64 {
        size: 4096,
        host_memory: 1,
        mem_type,
        mem_handle: address_of(&mut handle),
        ..MemAllocV2MemType64::ZEROED
    };
    node.call(row::MEM_ALLOC_V2MT64, argument)
}

/// A fork has the descriptor, and is not attached.
fn in_a_child(node: &Node) -> Answer {
    // SAFETY: the child makes one call on what it has on its stack, and exits. Under the preloaded library that call allocates, which
    // the C library permits, and locks standard error, which nobody else writes to meanwhile.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            let code = match allocate(node, 0) {
                Errno(number) => number,
                _ => 0,
            };
            // SAFETY: ends the child at once, which has nothing to clean up.
            unsafe { libc::_exit(code) }
        }
        ForkResult::Parent { child } => match waitpid(child, None).unwrap() {
            WaitStatus::Exited(_, number) => Errno(number),
            other => panic!("{other:?}"),
        },
    }
}

fn start(node: &Node, rx_desc_count: u32) -> Answer {
    let argument = DmaQueueCopyStart {
        eng_id: 0,
        qid: QUEUE,
        tx_desc_count: 1,
        rx_desc_count,
    };
    node.call(row::DMA_QUEUE_COPY_START, argument)
}

fn state(node: &Node, eng_id: u32, qid: u32) -> Answer {
    let [mut tx, mut rx] = [DmaQueueState::ZEROED; 2];
    let argument = DmaQueueGetState {
        eng_id,
        qid,
        tx: address_of(&mut tx),
        rx: address_of(&mut rx),
    };
    node.call(row::DMA_QUEUE_GET_STATE, argument)
}

fn registers(node: &Node, bar: u32, address: u64, count: u32) -> Answer {
    let (mut addresses, mut values) = ([address; 2], [0u32; 2]);
    let argument = BarRw {
        bar,
        address: address_of(&mut addresses),
        data: address_of(&mut values),
        count,
        ..BarRw::ZEROED
    };
    node.call(row::BAR_READ, argument)
}

fn event(node: &Node, row: Ioctl) -> Answer {
    let argument = Event {
        nc_id: NO_CORE,
        event_index: 0,
        value: 0,
    };
    node.call(row, argument)
}

/// Copies from a buffer that begins so far into a page.
fn pin(node: &Node, into_page: usize, bytes: usize) -> Answer {
    let mut buffer = vec![0u8; bytes + 2 * PAGE];
    let first = address_of(&mut buffer[0]).next_multiple_of(PAGE as u64);
    let copy = MemBufCopy64 {
        mem_handle: node.chunk(false, 1 << 20),
        buffer: first + into_page as u64,
        size: bytes as u64,
        copy_to_mem_handle: 1,
        ..MemBufCopy64::ZEROED
    };
    node.call(row::MEM_BUF_ZEROCOPY64, copy)
}

#[test]
fn what_would_crash_the_kernel_stops_the_device_and_is_told() {
    let mut wrong = Vec::new();
    for (trap, name, spring) in CASES {
        let emulator = Emulator::start(small()).unwrap();
        let answers = under(&emulator, || {
            let node = Node::open(0);
            let answer = spring(&node);
            (answer, node.free(1))
        });
        let Some(answers) = answers else {
            return;
        };
        let traps: Vec<u8> = emulator.bugs().iter().map(|bug| bug.trap).collect();
        if answers != (Errno(EIO), Errno(EIO)) || traps != [*trap] {
            wrong.push(format!("{name}: {answers:?}, traps {traps:?}, not {trap}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_trap_that_crashes_is_sprung() {
    let mut sprung: Vec<u8> = CASES.iter().map(|(trap, ..)| *trap).collect();
    sprung.dedup();
    // 12 is 11 in a child; 23 copies and warns: `rules::a_copy_of_nothing_moves_64_kib`.
    assert_eq!(sprung, [11, 14, 16, 17, 18, 19, 20, 21, 22, 24, 25]);
}
