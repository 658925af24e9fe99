//! Calls that say something, and calls that do nothing.

use crate::program::{ARGUMENT, BUFFER, NOWHERE, Program, emulator};
use neuron_emu::{Emulator, Event, FileId};
use xu_abi::driver::errno::{Answer, E2BIG, EBADMSG, EFAULT, EINVAL, ENOTTY};
use xu_abi::driver::ioctl::{
    DEVICE_INIT, DEVICE_RELEASE, DMA_ENG_INIT, DMA_QUEUE_RELEASE, DMA_QUIESCE_QUEUES,
    HBM_SCRUB_START, HBM_SCRUB_WAIT, NC_PID_STATE_DUMP, NOTIFICATIONS_DESTROY_V1, POD_CTRL,
    POD_CTRL_V2, POD_INFO, POD_STATUS, POD_STATUS_V2, POST_METRIC, PRINTK,
};
use xu_abi::driver::{PodInfo, PodStatus, PodStatusV2, PostMetric, Printk};

fn printed(emulator: &Emulator) -> Vec<String> {
    let text = |event| match event {
        Event::Printed(text) => Some(text),
        _ => None,
    };
    let trace = emulator.trace().into_iter();
    trace.filter_map(|traced| text(traced.event)).collect()
}

fn print(program: &Program<'_>, file: FileId, buffer: u64, size: u32) -> Answer {
    let mut printk = Printk {
        buffer,
        size,
        action: 0,
    };
    program.call(file, &PRINTK, &mut printk)
}

#[test]
fn what_is_accepted_without_effect_does_not_look_at_its_argument() {
    let emulator = emulator(|_| ());
    let program = Program::new(&emulator, 1);
    let file = program.open();
    for ioctl in [
        DEVICE_INIT,
        DEVICE_RELEASE,
        DMA_ENG_INIT,
        DMA_QUEUE_RELEASE,
        NOTIFICATIONS_DESTROY_V1,
    ] {
        let answer = program.request(file, ioctl.request(), NOWHERE);
        assert_eq!(answer, Answer::Done, "{ioctl}");
    }
    let answer = program.request(file, DMA_QUIESCE_QUEUES.request(), NOWHERE);
    assert_eq!(answer, Answer::Errno(ENOTTY));
    for ioctl in [HBM_SCRUB_START, HBM_SCRUB_WAIT] {
        let answer = program.request(file, ioctl.request(), NOWHERE);
        assert_eq!(answer, Answer::Errno(EINVAL), "{ioctl}");
    }
}

#[test]
fn a_text_goes_to_the_log() {
    let emulator = emulator(|_| ());
    let program = Program::new(&emulator, 1);
    let file = program.open();
    program.put(BUFFER, b"hello\0");
    assert_eq!(print(&program, file, BUFFER, 6), Answer::Done);
    assert_eq!(printed(&emulator), ["hello"]);
    assert_eq!(print(&program, file, BUFFER, 5), Answer::Errno(EBADMSG));
    assert_eq!(print(&program, file, NOWHERE, 6), Answer::Positive(6));
    program.put(BUFFER, &[0; 600]);
    assert_eq!(print(&program, file, BUFFER, 512), Answer::Done);
    assert_eq!(print(&program, file, BUFFER, 513), Answer::Errno(EFAULT));
    assert_eq!(emulator.bugs(), []);
}

#[test]
fn trap_25_a_text_of_no_bytes_stops_the_device() {
    let emulator = emulator(|_| ());
    let program = Program::new(&emulator, 1);
    let file = program.open();
    let answer = print(&program, file, BUFFER, 0);
    assert_eq!(answer, Answer::Errno(super::faults::DEAD));
    assert_eq!(emulator.bugs()[0].trap, 25);
}

#[test]
fn a_metric_has_at_most_128_bytes() {
    let emulator = emulator(|_| ());
    let program = Program::new(&emulator, 1);
    let file = program.open();
    program.put(BUFFER, &[0; 256]);
    let post = |data, data_size| {
        let mut metric = PostMetric {
            data,
            data_size,
            ..PostMetric::ZEROED
        };
        program.call(file, &POST_METRIC, &mut metric)
    };
    assert_eq!(post(BUFFER, 0), Answer::Done);
    assert_eq!(post(BUFFER, 128), Answer::Done);
    assert_eq!(post(BUFFER, 129), Answer::Errno(E2BIG));
    assert_eq!(post(NOWHERE, 128), Answer::Positive(128));
}

#[test]
fn the_state_of_claims_goes_to_the_log() {
    let emulator = emulator(|_| ());
    let program = Program::new(&emulator, 1);
    let file = program.open();
    let answer = program.request(file, NC_PID_STATE_DUMP.request(), NOWHERE);
    assert_eq!(answer, Answer::Positive(16));
    program.put(ARGUMENT, &[0; 16]);
    let answer = program.request(file, NC_PID_STATE_DUMP.request(), ARGUMENT);
    assert_eq!(answer, Answer::Done);
    assert_eq!(printed(&emulator).len(), 1);
}

#[test]
fn there_is_no_pod() {
    let emulator = emulator(|_| ());
    let program = Program::new(&emulator, 1);
    let file = program.open();
    let mut info = PodInfo::ZEROED;
    let answer = program.call(file, &POD_INFO, &mut info);
    assert_eq!(answer, Answer::Errno(EINVAL), "its size is not named");
    info.sz = 260;
    assert_eq!(program.call(file, &POD_INFO, &mut info), Answer::Done);
    assert_eq!(info.pod_type, 0);
    let mut status = PodStatus {
        sz: 268,
        ..PodStatus::ZEROED
    };
    let answer = program.call(file, &POD_STATUS, &mut status);
    assert_eq!((answer, status.node_id), (Answer::Done, -1));
    let mut status = PodStatusV2 {
        sz: 276,
        ..PodStatusV2::ZEROED
    };
    let answer = program.call(file, &POD_STATUS_V2, &mut status);
    assert_eq!((answer, status.node_id), (Answer::Done, -1));
    program.put(ARGUMENT, &[0; 20]);
    for ioctl in [POD_CTRL, POD_CTRL_V2] {
        let answer = program.request(file, ioctl.request(), ARGUMENT);
        assert_eq!(answer, Answer::Errno(EINVAL), "{ioctl}");
    }
}
