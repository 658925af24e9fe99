//! Copies between chunks: no bytes, nearly 4 GiB, and what was started and not waited for.
//!
//! Spec `driver.md` section 3, traps 23 and 31. Sizes in between: [`super::rules`].

use crate::node::Node;
use crate::{small, under, with_node};
use neuron_emu::config::{DriverFault, DriverRule};
use neuron_emu::{Config, Emulator, Event};
use xu_abi::driver::errno::Answer::{self, Done, Errno};
use xu_abi::driver::errno::{EINVAL, EPERM};
use xu_abi::driver::ioctl as row;
use xu_abi::driver::{
    CHAIN_START, MAX_ASYNC_COPY, MemCopy64, MemCopyAsync64, MemCopyAsyncWait, Memset64,
};

const PAGE: u64 = 4096;
const GIB: u64 = 1 << 30;

#[test]
fn a_copy_of_nothing_moves_64_kib() {
    let emulator = Emulator::start(small()).unwrap();
    let ran = under(&emulator, || {
        let node = Node::open(0);
        let (src, dst) = (node.chunk(true, 1 << 17), node.chunk(true, 1 << 17));
        assert_eq!(node.copy(src, 0, &mut [7; 65_537], true), Done);
        let copy = MemCopy64 {
            src,
            dst,
            ..MemCopy64::ZEROED
        };
        assert_eq!(node.call(row::MEM_COPY64, copy), Done);
        let mut moved = [0; 65_537];
        assert_eq!(node.copy(dst, 0, &mut moved, false), Done);
        assert_eq!(
            (moved[..65_536] == [7; 65_536], moved[65_536]),
            (true, 0),
            "and no more"
        );
    });
    if ran.is_some() {
        let is_told =
            |event: &Event| matches!(event, Event::Warning(text) if text.starts_with("trap 23"));
        assert!(emulator.trace().iter().any(|traced| is_told(&traced.event)));
    }
}

#[test]
fn one_byte_less_than_4_gib_is_filled() {
    let config = Config {
        hbm_bytes: 8 * GIB,
        ..small()
    };
    with_node(config, |node| {
        let mem_handle = node.chunk(false, 4 * GIB + PAGE);
        let last = 4 * GIB - 1;
        assert_eq!(node.copy(mem_handle, last - 1, &mut [8, 9, 10], true), Done);
        let fill = Memset64 {
            mem_handle,
            offset: 0,
            size: last,
            ..Memset64::ZEROED
        };
        assert_eq!(node.call(row::MEMSET64, fill), Done);
        let mut ends = [[1u8; 3]; 2];
        assert_eq!(node.copy(mem_handle, 0, &mut ends[0], false), Done);
        assert_eq!(node.copy(mem_handle, last - 1, &mut ends[1], false), Done);
        assert_eq!(ends, [[0; 3], [0, 9, 10]]);
    });
}

/// Starts a copy inside a chunk, from its first byte to its tenth.
fn begin(node: &Node, chunk: u64, size: u64) -> Answer {
    let copy = MemCopyAsync64 {
        src: chunk,
        dst: chunk,
        size,
        dst_offset: 10,
        pwait_handle: CHAIN_START,
        ..MemCopyAsync64::ZEROED
    };
    node.call(row::MEM_COPY_ASYNC64, copy)
}

fn wait(node: &Node, chunk: u64) -> Answer {
    let wait = MemCopyAsyncWait {
        src: chunk,
        dst: chunk,
        pwait_handle: 1,
        ..MemCopyAsyncWait::ZEROED
    };
    node.call(row::MEM_COPY_ASYNC_WAIT, wait)
}

#[test]
fn one_byte_more_than_2032_descriptors_move_is_refused_after_it_was_started() {
    let config = Config {
        hbm_bytes: 256 << 20,
        // Nothing has to be copied.
        driver_faults: vec![DriverRule::always(DriverFault::CopyTimeout)],
        ..small()
    };
    with_node(config, |node| {
        let chunk = node.chunk(false, MAX_ASYNC_COPY + PAGE);
        assert_eq!(begin(node, chunk, MAX_ASYNC_COPY), Done);
        assert_eq!(
            wait(node, chunk),
            Errno(EPERM),
            "in time or not, it was started"
        );
        assert_eq!(begin(node, chunk, MAX_ASYNC_COPY + 1), Errno(EINVAL));
        assert_eq!(wait(node, chunk), Errno(EPERM), "it was started, too");
        assert_eq!(wait(node, chunk), Errno(EINVAL), "nothing is");
    });
}

#[test]
fn a_reset_loses_the_copies_that_nobody_has_waited_for() {
    let emulator = Emulator::start(small()).unwrap();
    let ran = under(&emulator, || {
        let node = Node::open(0);
        let chunk = node.chunk(false, PAGE);
        assert_eq!(node.copy(chunk, 0, &mut [7], true), Done);
        assert_eq!(begin(&node, chunk, 1), Done);
        node.reset_core();
        assert_eq!(wait(&node, chunk), Errno(EINVAL));
        let mut target = [0];
        assert_eq!(node.copy(chunk, 10, &mut target, false), Done);
        assert_eq!(target, [0xA5], "as it was");
        // The queue works again.
        assert_eq!(begin(&node, chunk, 1), Done);
        assert_eq!(wait(&node, chunk), Done);
        assert_eq!(node.copy(chunk, 10, &mut target, false), Done);
        assert_eq!(target, [7]);
    });
    if ran.is_some() {
        let is_told = |event: &Event| matches!(event, Event::Warning(text) if text.contains("before 1 copies"));
        assert!(emulator.trace().iter().any(|traced| is_told(&traced.event)));
    }
}
