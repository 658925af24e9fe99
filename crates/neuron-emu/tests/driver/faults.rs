//! What the plan has go wrong in the driver, and devices that are gone.

use crate::program::{ARGUMENT, NOWHERE, Program, ReadWrite, WriteOnly, emulator};
use neuron_emu::config::{DriverFault, DriverRule};
use neuron_emu::{Caller, Emulator, Event, FileId, MapRequest, NotCopied};
use std::time::Duration;
use xu_abi::driver::errno::{Answer, EBUSY, EIO, ENODEV};
use xu_abi::driver::ioctl::{
    ALL, CRWL_NC_RANGE_MARK_EXT0, DEVICE_INIT, NC_RESET, NC_RESET_READY, PRINTK,
};
use xu_abi::driver::{CrwlNcMapExt, DeviceReady, DeviceReset, Printk};
use zerocopy::IntoBytes;

/// What a dead device answers.
pub(crate) const DEAD: i32 = EIO;

fn faults(emulator: &Emulator) -> Vec<DriverFault> {
    let fault = |event| match event {
        Event::Fault(fault) => Some(fault),
        _ => None,
    };
    let trace = emulator.trace().into_iter();
    trace.filter_map(|traced| fault(traced.event)).collect()
}

#[test]
fn an_open_and_a_mark_can_be_refused_and_the_trace_says_so() {
    let emulator = emulator(|c| {
        c.driver_faults = vec![
            DriverRule::once(DriverFault::BusyOpen, 1),
            DriverRule::once(DriverFault::BusyMark, 0),
        ];
    });
    let program = Program::new(&emulator, 1);
    let file = program.open();
    assert_eq!(program.try_open(0, ReadWrite), Err(EBUSY));
    assert_eq!(emulator.remains().nodes[0].attached, [(1, 1)]);
    let mark = || {
        let mut map = CrwlNcMapExt {
            nc_count: 2,
            end_nc_index: 1,
            ..CrwlNcMapExt::ZEROED
        };
        program.call(file, &CRWL_NC_RANGE_MARK_EXT0, &mut map)
    };
    assert_eq!(mark(), Answer::Errno(EBUSY));
    assert_eq!(mark(), Answer::Done);
    assert_eq!(
        faults(&emulator),
        [DriverFault::BusyOpen, DriverFault::BusyMark]
    );
}

#[test]
fn a_signal_can_come_while_a_call_waits() {
    let emulator = emulator(|c| {
        c.driver_faults = vec![DriverRule::once(DriverFault::Interrupted, 0)];
    });
    let program = Program::new(&emulator, 1);
    let file = program.open();
    program.call(file, &NC_RESET, &mut { DeviceReset::ZEROED });
    let ready = || {
        let mut ready = DeviceReady {
            request_id: 1,
            result: 77,
        };
        assert_eq!(
            program.call(file, &NC_RESET_READY, &mut ready),
            Answer::Done
        );
        ready.result
    };
    assert_eq!(ready(), DeviceReady::INTERRUPTED);
    assert_eq!(ready(), 0);
}

#[test]
fn a_rule_can_be_for_one_device_and_can_come_later() {
    let emulator = emulator(|c| c.devices = 2);
    let program = Program::new(&emulator, 1);
    emulator.inject(DriverRule {
        node: Some(1),
        ..DriverRule::always(DriverFault::BusyOpen)
    });
    assert!(program.try_open(0, ReadWrite).is_ok());
    assert_eq!(program.try_open(1, ReadWrite), Err(EBUSY));
    assert!(program.try_open(1, WriteOnly).is_ok());
}

#[test]
fn a_device_that_was_pulled_out_answers_nothing_more() {
    let emulator = emulator(|c| {
        c.driver_faults = vec![DriverRule::once(DriverFault::Removed, 1)];
        c.devices = 2;
    });
    let program = Program::new(&emulator, 1);
    let file = program.open();
    let call = || program.request(file, DEVICE_INIT.request(), 0);
    assert_eq!((call(), call()), (Answer::Done, Answer::Errno(ENODEV)));
    for ioctl in ALL {
        let answer = program.request(file, ioctl.request(), NOWHERE);
        assert_eq!(answer, Answer::Errno(ENODEV), "{ioctl}");
    }
    assert_eq!(program.try_open(0, ReadWrite), Err(ENODEV));
    assert_eq!(program.try_open(0, WriteOnly), Err(ENODEV));
    let request = MapRequest {
        offset: 0,
        bytes: 4096,
        writable: true,
        shared: true,
    };
    assert_eq!(emulator.map(1, file, request), Err(ENODEV));
    // It can be closed, and the other one is well.
    program.close(file);
    assert_eq!(emulator.remains().nodes[0].attached, []);
    assert!(program.try_open(1, ReadWrite).is_ok());
    assert_eq!(emulator.bugs(), []);
}

/// A program that pulls the device out when it is asked whether a signal has come: it waits at that time.
struct Meddler<'e> {
    program: Program<'e>,
    emulator: &'e Emulator,
    file: FileId,
}

impl Caller for Meddler<'_> {
    fn pid(&self) -> u32 {
        self.program.pid()
    }

    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), NotCopied> {
        self.program.read(address, into)
    }

    fn write(&self, address: u64, bytes: &[u8]) -> Result<(), NotCopied> {
        self.program.write(address, bytes)
    }

    fn is_interrupted(&self) -> bool {
        self.emulator
            .inject(DriverRule::always(DriverFault::Removed));
        let other = self.program.request(self.file, DEVICE_INIT.request(), 0);
        assert_eq!(other, Answer::Errno(ENODEV));
        false
    }
}

#[test]
fn a_call_that_waits_ends_when_the_device_is_pulled_out() {
    let emulator = emulator(|c| c.waits.reset = Duration::MAX);
    let program = Program::new(&emulator, 1);
    let file = program.open();
    program.call(file, &NC_RESET, &mut { DeviceReset::ZEROED });
    let ready = DeviceReady {
        request_id: 1,
        result: 0,
    };
    program.put(ARGUMENT, ready.as_bytes());
    let meddler = Meddler {
        program,
        emulator: &emulator,
        file,
    };
    let request = NC_RESET_READY.request();
    let answer = emulator.ioctl(&meddler, file, request, ARGUMENT);
    assert_eq!(answer, Answer::Errno(ENODEV));
}

#[test]
fn a_bug_is_kept_and_the_device_is_dead() {
    let emulator = emulator(|c| c.devices = 2);
    let program = Program::new(&emulator, 1);
    let file = program.open();
    program.call(file, &PRINTK, &mut { Printk::ZEROED });
    let bugs = emulator.bugs();
    assert_eq!(bugs.len(), 1);
    assert!(bugs[0].to_string().starts_with("kernel BUG: trap 25: "));
    let answer = program.request(file, DEVICE_INIT.request(), 0);
    assert_eq!(answer, Answer::Errno(EIO));
    assert_eq!(program.try_open(0, ReadWrite), Err(EIO));
    assert_eq!(emulator.remains().nodes[0].gone, Some(EIO));
    assert!(program.try_open(1, ReadWrite).is_ok());
}
