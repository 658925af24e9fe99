//! The areas of counters.

use crate::program::{Program, WriteOnly, emulator};
use neuron_emu::{Emulator, FileId};
use std::fs::{File, read_to_string};
use std::os::unix::fs::FileExt;
use xu_abi::driver::errno::{Answer, ENOENT, ENOMEM};
use xu_abi::driver::ioctl::{ACQUIRE_NEURON_DS, RELEASE_NEURON_DS};
use xu_abi::driver::{DATASTORE_AREA, NeuronDsInfo};
use xu_abi::metric::CoreCounter;

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
    emulator.duplicated(17, files[0]);
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
    emulator.duplicated(3, file);
    acquire(&Program::new(&emulator, 3), file, 0).unwrap();
    let held = Program::new(&emulator, 4);
    let held_file = held.try_open(0, WriteOnly).unwrap();
    emulator.exited(2);
    emulator.exited(3);
    assert_eq!(emulator.remains().nodes[0].datastores, [3]);
    held.close(held_file);
    assert!(emulator.remains().is_clean());
}

/// Sets a counter as its process does, with a store.
fn count(memory: &File, area: u64, core: u8, counter: CoreCounter, value: u64) {
    let offset = counter.datastore_offset(core).unwrap();
    let place = area + u64::from(offset);
    memory.write_all_at(&value.to_ne_bytes(), place).unwrap();
}

fn counted(emulator: &Emulator, core: u8, path: &str) -> [u64; 2] {
    let root = emulator.sysfs_root().unwrap();
    let stats = root.join(format!(
        "class/neuron_device/neuron0/neuron_core{core}/stats/{path}"
    ));
    ["total", "present"].map(|file| {
        let text = read_to_string(stats.join(file)).unwrap();
        text.trim().parse().unwrap()
    })
}

#[test]
fn counters_reach_sysfs_once_when_their_area_is_released_and_the_area_is_zeroed() {
    let emulator = emulator(|_| ());
    let program = Program::new(&emulator, 1);
    let (file, memory) = program.open_with_memory();
    let area = acquire(&program, file, 0).unwrap();
    count(&memory, area, 1, CoreCounter::INFER_COMPLETED, 5);
    count(&memory, area, 1, CoreCounter::MAC_COUNT, 100);
    count(&memory, area, 0, CoreCounter::HW_ERR_NC_UE, 2);
    emulator.refresh_sysfs().unwrap();
    assert_eq!(counted(&emulator, 1, "status/success"), [0, 0]);
    assert_eq!(release(&program, file, 0), Answer::Done);
    assert_eq!(counted(&emulator, 1, "status/success"), [5, 5]);
    assert_eq!(counted(&emulator, 1, "other_info/flop_count"), [200, 200]);
    assert_eq!(counted(&emulator, 0, "status/hw_nc_ue_error"), [2, 2]);
    assert_eq!(counted(&emulator, 0, "status/success"), [0, 0]);

    let again = acquire(&program, file, 0).unwrap();
    assert_eq!(again, area);
    let mut bytes = vec![1; 67_200];
    memory.read_exact_at(&mut bytes, area).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 0));
    count(&memory, area, 1, CoreCounter::INFER_COMPLETED, 3);
    // A death releases, too.
    emulator.exited(1);
    assert_eq!(counted(&emulator, 1, "status/success"), [8, 3]);
}

#[test]
fn what_the_last_reference_clears_is_lost() {
    let emulator = emulator(|_| ());
    let program = Program::new(&emulator, 1);
    let (file, memory) = program.open_with_memory();
    emulator.duplicated(2, file);
    let area = acquire(&Program::new(&emulator, 2), file, 0).unwrap();
    count(&memory, area, 0, CoreCounter::INFER_COMPLETED, 5);
    emulator.exited(1);
    emulator.exited(2);
    assert_eq!(counted(&emulator, 0, "status/success"), [0, 0]);
    let (file, memory) = Program::new(&emulator, 3).open_with_memory();
    let again = acquire(&Program::new(&emulator, 3), file, 0).unwrap();
    let mut bytes = vec![1; 67_200];
    memory.read_exact_at(&mut bytes, again).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 0));
}
