//! The trace.

use crate::program::{ARGUMENT, BUFFER, Program, WriteOnly, emulator};
use crate::user::User;
use neuron_emu::{Event, MapRequest, Traced};
use xu_abi::driver::errno::{Answer, EACCES, EINVAL};
use xu_abi::driver::ioctl::{BAR_WRITE, CINIT_SET_STATE, DEVICE_INFO, DEVICE_INIT, DMA_ENG_INIT};
use xu_abi::driver::{BarRw, CinitSet, CoreInit, DeviceInfo};
use zerocopy::IntoBytes;

#[test]
fn everything_a_program_does_is_recorded_with_its_answer() {
    let emulator = emulator(|_| ());
    let program = Program::new(&emulator, 7);
    let file = program.open();
    let mut set = CinitSet {
        nc_id: 1,
        state: CoreInit::Completed.raw(),
        new_state: 0,
    };
    let before = set.as_bytes().to_vec();
    program.call(file, &CINIT_SET_STATE, &mut set);
    program.request(file, 0x1234, ARGUMENT);
    emulator.duplicated(7, file);
    let request = MapRequest {
        offset: 1,
        bytes: 2,
        writable: false,
        shared: true,
    };
    let answer = emulator.map(7, file, request);
    program.close(file);
    emulator.exited(7);
    let trace = emulator.trace();
    let sequence: Vec<u64> = trace.iter().map(|traced| traced.sequence).collect();
    assert_eq!(sequence, (0..8).collect::<Vec<_>>());
    assert!(trace.iter().all(|traced| traced.pid == 7));
    let events: Vec<Event> = trace.into_iter().map(|traced| traced.event).collect();
    let expected = [
        Event::Open {
            mode: crate::program::ReadWrite,
            answer: Ok(file),
        },
        Event::Ioctl {
            file,
            request: CINIT_SET_STATE.request(),
            name: Some("CINIT_SET_STATE"),
            argument: before,
            written: set.as_bytes().to_vec(),
            answer: Answer::Done,
        },
        Event::Ioctl {
            file,
            request: 0x1234,
            name: None,
            argument: vec![],
            written: vec![],
            answer: Answer::Errno(EINVAL),
        },
        Event::Duplicated(file),
        Event::Map {
            file,
            request,
            answer,
        },
        Event::Close(file),
        Event::Exited,
        Event::Close(file),
    ];
    assert_eq!(events, expected);
}

#[test]
fn a_register_is_recorded_with_its_place_and_value_before_the_call_that_wrote_it() {
    let emulator = emulator(|_| ());
    let user = User::new(&emulator, 7);
    let mut info = DeviceInfo::ZEROED;
    user.call(&DEVICE_INFO, &mut info);
    let offset = 0x1230_0000;
    user.program
        .put(BUFFER, (info.bar_address[0] + offset).as_bytes());
    user.program.put(BUFFER + 64, 5u32.as_bytes());
    let mut write = BarRw {
        address: BUFFER,
        data: BUFFER + 64,
        count: 1,
        ..BarRw::ZEROED
    };
    emulator.clear_trace();
    assert_eq!(user.call(&BAR_WRITE, &mut write), Answer::Done);
    let events: Vec<Event> = emulator.trace().into_iter().map(|it| it.event).collect();
    assert_eq!(events[0], Event::Register { offset, value: 5 });
    assert!(matches!(events[1], Event::Ioctl { .. }), "{events:?}");
}

#[test]
fn a_refused_call_is_recorded_with_its_name() {
    let emulator = emulator(|_| ());
    let program = Program::new(&emulator, 7);
    let file = program.try_open(0, WriteOnly).unwrap();
    emulator.clear_trace();
    program.request(file, DMA_ENG_INIT.request(), 0);
    let full = Program::new(&emulator, 8).open();
    program.request(full, DMA_ENG_INIT.request(), 0);
    let answers: Vec<_> = emulator
        .trace()
        .into_iter()
        .filter_map(|traced| match traced.event {
            Event::Ioctl { name, answer, .. } => Some((name, answer)),
            _ => None,
        })
        .collect();
    let name = Some("DMA_ENG_INIT");
    assert_eq!(
        answers,
        [(name, Answer::Errno(EINVAL)), (name, Answer::Errno(EACCES))]
    );
}

#[test]
fn the_oldest_go_first_and_the_numbers_tell() {
    let emulator = emulator(|c| c.trace_entries = 3);
    let program = Program::new(&emulator, 7);
    let file = program.open();
    for _ in 0..4 {
        program.request(file, DEVICE_INIT.request(), 0);
    }
    let numbers = |trace: Vec<Traced>| trace.iter().map(|t| t.sequence).collect::<Vec<_>>();
    assert_eq!(numbers(emulator.trace()), [2, 3, 4]);
    emulator.clear_trace();
    program.request(file, DEVICE_INIT.request(), 0);
    assert_eq!(numbers(emulator.trace()), [5]);
}
