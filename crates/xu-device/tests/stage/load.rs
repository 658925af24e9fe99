//! Placing a program and opening the queues: whole, or not at all with everything returned.

use crate::scripted::{Call, Scripted};
use crate::support::{FIRST, Model, SECOND};
use std::collections::HashSet;
use std::sync::Arc;
use xu_abi::Engine;
use xu_device::program::{Blocks, Program};
use xu_device::stage::{SkipConfig, Stager};
use xu_device::{Device, DeviceError};

/// Fails the call with this number, releases not counted.
fn fail_call(scripted: &Scripted, failing: usize) {
    let mut count = 0;
    scripted.fail(move |call| {
        if matches!(call, Call::Release(_)) {
            return None;
        }
        count += 1;
        (count == failing + 1).then_some(DeviceError::Lost)
    });
}

/// Blocks that were reserved and are not released, and whether one was released twice.
fn kept(scripted: &Scripted, refused_reservations: usize) -> isize {
    let mut released = HashSet::new();
    let mut balance = -(refused_reservations as isize);
    for call in scripted.log() {
        match call {
            Call::Allocate(..) => balance += 1,
            Call::Release(addr) => {
                assert!(released.insert(addr), "{addr} was released twice");
                balance -= 1;
            }
            _ => {}
        }
    }
    balance
}

fn load(device: &Arc<dyn Device>, blocks: Blocks) -> Result<Program, DeviceError> {
    Program::load(device, FIRST, 3, blocks)
}

#[test]
fn a_program_that_cannot_be_placed_returns_everything_whichever_call_fails() {
    for model in [Model::filled(1, 1), Model::collective(7)] {
        let (scripted, device) = Scripted::new(2);
        let blocks = model.blocks(&device, FIRST);
        let arena = scripted.log().len();
        let program = load(&device, blocks).unwrap();
        let calls = scripted.log().len() - arena;
        assert!(calls > 20, "{calls}");
        assert!(kept(&scripted, 0) >= 5);
        drop(program);
        assert_eq!(kept(&scripted, 0), 0);

        for failing in 0..calls {
            let (scripted, device) = Scripted::new(2);
            let blocks = model.blocks(&device, FIRST);
            fail_call(&scripted, failing);
            assert_eq!(load(&device, blocks).err(), Some(DeviceError::Lost));
            let log = scripted.log();
            let mut called = log.iter().filter(|call| !matches!(call, Call::Release(_)));
            let last = called.next_back().unwrap();
            let refused = usize::from(matches!(last, Call::Allocate(..)));
            assert_eq!(kept(&scripted, refused), 0, "call {failing}: {last:?}");
        }
    }
}

#[test]
fn a_stager_that_cannot_open_returns_everything_whichever_call_fails() {
    let open = |device: &_| Stager::open(device, &[FIRST, SECOND], 4, SkipConfig::Never);
    let (scripted, device) = Scripted::new(2);
    drop(open(&device).unwrap());
    let calls = scripted.count(|call| !matches!(call, Call::Release(_)));
    assert_eq!(kept(&scripted, 0), 0);
    for failing in 0..calls {
        let (scripted, device) = Scripted::new(2);
        fail_call(&scripted, failing);
        assert_eq!(open(&device).err(), Some(DeviceError::Lost));
        let log = scripted.log();
        let mut called = log.iter().filter(|call| !matches!(call, Call::Release(_)));
        let refused = usize::from(matches!(called.next_back(), Some(Call::Allocate(..))));
        assert_eq!(kept(&scripted, refused), 0, "call {failing}");
    }
}

#[test]
fn d4_entries_that_do_not_fit_are_refused_without_a_panic() {
    let (scripted, device) = Scripted::new(2);
    for entry_bytes in [u64::MAX, u64::MAX / 5, u64::MAX / 14] {
        let mut blocks = Model::filled(1, 1).blocks(&device, FIRST);
        blocks.entry_bytes = entry_bytes;
        let refused = load(&device, blocks).err();
        let Some(DeviceError::BadArgument { what, value, .. }) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(
            (what, value),
            ("bytes of each slot", entry_bytes.saturating_mul(5))
        );
    }
    assert_eq!(kept(&scripted, 0), 0);
}

#[test]
fn an_entry_block_that_is_longer_than_its_place_is_refused_and_lies_over_no_other() {
    let (scripted, device) = Scripted::new(2);
    let mut blocks = Model::filled(1, 1).blocks(&device, FIRST);
    blocks.entry = |engine, _| vec![0; if engine == Engine::Dve { 65 } else { 64 }];
    let expected = DeviceError::BadArgument {
        what: "length of an entry block",
        value: 65,
        allowed: "at most what the program says",
    };
    assert_eq!(load(&device, blocks).err(), Some(expected));
    assert_eq!(kept(&scripted, 0), 0);
}

#[test]
fn a_program_without_slots_is_refused() {
    let (scripted, device) = Scripted::new(2);
    let blocks = Model::filled(1, 1).blocks(&device, FIRST);
    let refused = Program::load(&device, FIRST, 0, blocks).err();
    let expected = DeviceError::BadArgument {
        what: "outstanding executions of a program",
        value: 0,
        allowed: "at least 1",
    };
    assert_eq!(refused, Some(expected));
    assert_eq!(kept(&scripted, 0), 0);
}
