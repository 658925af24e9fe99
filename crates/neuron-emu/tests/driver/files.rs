//! Opens, closes, duplicates, forks and deaths.

use crate::program::{Program, ReadOnly, ReadWrite, WriteOnly, emulator};
use neuron_emu::{Emulator, FileId};
use std::collections::BTreeMap;
use xu_abi::driver::DmaQueueInit;
use xu_abi::driver::errno::{Answer, EACCES, EBADF, EBUSY, ENOENT};
use xu_abi::driver::ioctl::{DMA_ENG_INIT, DMA_QUEUE_INIT};

/// Whether the process of a program is attached: a gated call that does nothing says it.
fn is_attached(program: &Program<'_>, file: FileId) -> bool {
    match program.request(file, DMA_ENG_INIT.request(), 0) {
        Answer::Done => true,
        Answer::Errno(EACCES) => false,
        other => panic!("{other:?}"),
    }
}

fn attached(emulator: &Emulator) -> Vec<(u32, u32)> {
    emulator.remains().nodes[0].attached.clone()
}

#[test]
fn a_node_that_is_not_there_is_not_found() {
    let emulator = emulator(|c| c.devices = 2);
    let program = Program::new(&emulator, 100);
    for node in [2, 63, u32::MAX] {
        assert_eq!(program.try_open(node, ReadWrite), Err(ENOENT));
        assert_eq!(program.try_open(node, WriteOnly), Err(ENOENT));
    }
    assert!(program.try_open(1, ReadWrite).is_ok());
}

#[test]
fn every_open_but_that_for_writing_only_attaches_once_more() {
    let emulator = emulator(|_| ());
    let program = Program::new(&emulator, 100);
    program.try_open(0, WriteOnly).unwrap();
    assert_eq!(attached(&emulator), []);
    program.try_open(0, ReadOnly).unwrap();
    program.try_open(0, ReadWrite).unwrap();
    assert_eq!(attached(&emulator), [(100, 2)]);
}

#[test]
fn the_seventeenth_process_is_refused_and_free_access_is_not() {
    let emulator = emulator(|c| c.devices = 2);
    let programs: Vec<_> = (1..=17).map(|pid| Program::new(&emulator, pid)).collect();
    let (last, first) = programs.split_last().unwrap();
    let files: Vec<_> = first.iter().map(Program::open).collect();
    assert_eq!(last.try_open(0, ReadWrite), Err(EBUSY));
    assert_eq!(last.try_open(0, ReadOnly), Err(EBUSY));
    assert!(last.try_open(0, WriteOnly).is_ok());
    // The slots are those of a device, and of a process and not an open.
    assert!(last.try_open(1, ReadWrite).is_ok());
    assert!(first[3].try_open(0, ReadWrite).is_ok());
    first[8].close(files[8]);
    assert!(last.try_open(0, ReadWrite).is_ok());
}

#[test]
fn a_configured_number_of_processes_is_the_limit() {
    let emulator = emulator(|c| c.processes = 1);
    Program::new(&emulator, 1).open();
    let other = Program::new(&emulator, 2);
    assert_eq!(other.try_open(0, ReadWrite), Err(EBUSY));
}

#[test]
fn the_count_goes_down_with_each_close_and_the_last_detaches() {
    let emulator = emulator(|_| ());
    let program = Program::new(&emulator, 100);
    let (one, two) = (program.open(), program.open());
    program.close(one);
    assert_eq!(attached(&emulator), [(100, 1)]);
    assert!(is_attached(&program, two));
    assert_eq!(
        program.request(one, DMA_ENG_INIT.request(), 0),
        Answer::Errno(EBADF)
    );
    program.close(two);
    assert_eq!(attached(&emulator), []);
    assert!(emulator.remains().is_clean());
}

#[test]
fn trap_11_closing_a_duplicate_detaches_and_the_file_still_works() {
    let emulator = emulator(|_| ());
    let program = Program::new(&emulator, 100);
    let file = program.open();
    emulator.duplicated(100, file);
    program.close(file);
    assert!(!is_attached(&program, file));
    assert_eq!(attached(&emulator), []);
    program.close(file);
    assert!(emulator.remains().is_clean());
}

#[test]
fn trap_12_a_forked_child_has_the_file_and_is_not_attached_and_its_close_does_nothing() {
    let emulator = emulator(|_| ());
    let parent = Program::new(&emulator, 100);
    let file = parent.open();
    emulator.duplicated(101, file);
    let child = Program::new(&emulator, 101);
    assert!(!is_attached(&child, file));
    let holders = || emulator.remains().nodes[0].descriptors.clone();
    assert_eq!(holders(), BTreeMap::from([(100, 1), (101, 1)]));
    child.close(file);
    assert_eq!(holders(), BTreeMap::from([(100, 1)]));
    assert!(is_attached(&parent, file));
    assert_eq!(attached(&emulator), [(100, 1)]);
    emulator.exited(101);
    assert!(is_attached(&parent, file));
}

#[test]
fn a_file_lives_on_in_a_forked_child() {
    let emulator = emulator(|_| ());
    let file = Program::new(&emulator, 100).open();
    emulator.duplicated(101, file);
    emulator.exited(100);
    let child = Program::new(&emulator, 101);
    assert!(!is_attached(&child, file));
    emulator.exited(101);
    let answer = child.request(file, DMA_ENG_INIT.request(), 0);
    assert_eq!(answer, Answer::Errno(EBADF));
}

#[test]
fn a_process_that_ends_has_closed_everything() {
    let emulator = emulator(|c| c.devices = 2);
    let program = Program::new(&emulator, 100);
    let other = Program::new(&emulator, 101);
    let kept = other.open();
    let file = program.open();
    program.try_open(0, WriteOnly).unwrap();
    program.try_open(1, ReadWrite).unwrap();
    emulator.duplicated(100, file);
    emulator.exited(100);
    let remains = emulator.remains();
    assert_eq!(remains.nodes[0].attached, [(101, 1)]);
    assert_eq!(remains.nodes[0].descriptors.len(), 1);
    assert!(remains.nodes[1].is_clean(), "{remains}");
    assert!(is_attached(&other, kept));
    emulator.exited(101);
    let remains = emulator.remains();
    assert!(remains.is_clean(), "{remains}");
    assert!(remains.to_string().contains("neuron0: clean"));
}

#[test]
fn a_close_without_a_descriptor_is_ignored() {
    let emulator = emulator(|_| ());
    let program = Program::new(&emulator, 100);
    let file = program.open();
    emulator.close(999, file);
    emulator.close(100, FileId(12345));
    emulator.exited(999);
    assert_eq!(attached(&emulator), [(100, 1)]);
}

#[test]
fn the_last_close_parks_the_queues_of_the_process_but_the_reserved_ones() {
    let emulator = emulator(|_| ());
    let (one, two) = (Program::new(&emulator, 1), Program::new(&emulator, 2));
    let (mine, theirs) = (one.open(), two.open());
    let init = |program: &Program<'_>, file, eng_id, qid| {
        let mut init = DmaQueueInit {
            eng_id,
            qid,
            tx_desc_count: 64,
            rx_desc_count: 64,
            ..DmaQueueInit::ZEROED
        };
        let answer = program.call(file, &DMA_QUEUE_INIT, &mut init);
        assert_eq!(answer, Answer::Done);
    };
    init(&one, mine, 3, 0);
    init(&one, mine, 3, 1);
    init(&one, mine, 3, 14);
    // The last to initialise a queue is its owner.
    init(&two, theirs, 3, 1);
    let queues = || emulator.remains().nodes[0].queues.clone();
    assert_eq!(queues(), BTreeMap::from([(1, 1), (2, 1)]));
    one.close(mine);
    assert_eq!(queues(), BTreeMap::from([(2, 1)]));
    emulator.exited(2);
    assert!(emulator.remains().is_clean());
}
