//! The areas of counters.

use crate::program::{Program, WriteOnly, emulator};
use neuron_emu::FileId;
use xu_abi::driver::errno::{Answer, ENOENT, ENOMEM};
use xu_abi::driver::ioctl::{ACQUIRE_NEURON_DS, RELEASE_NEURON_DS};
use xu_abi::driver::{DATASTORE_AREA, NeuronDsInfo};

fn acquire(program: &Program<'_>, file: FileId, pid: i32) -> Result<u64, Answer> {
    let mut info = NeuronDsInfo {
        pid,
        ..NeuronDsInfo::ZEROED
    };
    match program.call(file, &ACQUIRE_NEURON_DS, &mut info) {
        Answer::Done => {
            assert_eq!(info.size, DATASTORE_AREA);
            Ok(info.mmap_offset)
        }
        refused => Err(refused),
    }
}

fn release(program: &Program<'_>, file: FileId, pid: i32) -> Answer {
    let mut info = NeuronDsInfo {
        pid,
        ..NeuronDsInfo::ZEROED
    };
    program.call(file, &RELEASE_NEURON_DS, &mut info)
}

#[test]
fn a_process_has_one_area_and_others_find_it_by_its_pid() {
    let emulator = emulator(|_| ());
    let (one, two) = (Program::new(&emulator, 1), Program::new(&emulator, 2));
    let (mine, theirs) = (one.open(), two.open());
    assert_eq!(acquire(&two, theirs, 1), Err(Answer::Errno(ENOENT)));
    let area = acquire(&one, mine, 0).unwrap();
    assert_eq!(acquire(&one, mine, 0), Ok(area));
    assert_eq!(acquire(&two, theirs, 1), Ok(area));
    assert_ne!(acquire(&two, theirs, 0).unwrap(), area);
    assert_eq!(acquire(&one, mine, -5), Err(Answer::Errno(ENOENT)));
}

#[test]
fn there_are_sixteen_areas() {
    // Processes that have gone leave none, and free access cannot ask: only a child of a process can be the 17th.
    let emulator = emulator(|_| ());
    let programs: Vec<_> = (1..=16).map(|pid| Program::new(&emulator, pid)).collect();
    let files: Vec<_> = programs.iter().map(Program::open).collect();
    for (program, file) in programs.iter().zip(&files) {
        acquire(program, *file, 0).unwrap();
    }
    emulator.forked(1, 17);
    let child = Program::new(&emulator, 17);
    assert_eq!(acquire(&child, files[0], 0), Err(Answer::Errno(ENOMEM)));
    assert_eq!(release(&programs[4], files[4], 0), Answer::Done);
    assert!(acquire(&child, files[0], 0).is_ok());
}

#[test]
fn only_its_owner_releases_an_area() {
    let emulator = emulator(|_| ());
    let (one, two) = (Program::new(&emulator, 1), Program::new(&emulator, 2));
    let (mine, theirs) = (one.open(), two.open());
    assert_eq!(release(&one, mine, 0), Answer::Errno(ENOENT));
    let area = acquire(&one, mine, 0).unwrap();
    assert_eq!(release(&two, theirs, 1), Answer::Done);
    assert_eq!(acquire(&two, theirs, 1), Ok(area));
    assert_eq!(release(&one, mine, 0), Answer::Done);
    assert_eq!(acquire(&two, theirs, 1), Err(Answer::Errno(ENOENT)));
}

#[test]
fn the_last_close_releases_an_area_and_the_last_reference_clears_all() {
    let emulator = emulator(|_| ());
    let (one, two) = (Program::new(&emulator, 1), Program::new(&emulator, 2));
    let mine = one.open();
    acquire(&one, mine, 0).unwrap();
    let again = one.open();
    one.close(mine);
    assert_eq!(emulator.remains().nodes[0].datastores, [1]);
    one.close(again);
    assert_eq!(emulator.remains().nodes[0].datastores, [0_u32; 0]);
    // A child that is not attached: only the end of the last reference takes its area.
    let file = two.open();
    emulator.forked(2, 3);
    acquire(&Program::new(&emulator, 3), file, 0).unwrap();
    let held = Program::new(&emulator, 4);
    let held_file = held.try_open(0, WriteOnly).unwrap();
    emulator.exited(2);
    emulator.exited(3);
    assert_eq!(emulator.remains().nodes[0].datastores, [3]);
    held.close(held_file);
    assert!(emulator.remains().is_clean());
}
