//! A harvester allocates nothing between the beginning of an execution and its success.
//!
//! Only what this thread allocates is counted, so that the test runner may do as it likes.
#![allow(clippy::unwrap_used, reason = "functions of tests")]

mod counting;
mod scripted;

use core::time::Duration;
use counting::allocations;
use scripted::Scripted;
use std::sync::Arc;
use xu_abi::record::Subtype;
use xu_abi::{Engine, Status, StatusRecord, TpbIndex};
use xu_device::harvest::{Harvester, Progress};
use xu_device::stage::Staged;
use xu_device::{Device, map};
use zerocopy::little_endian::U16;
use zerocopy::transmute;

const TPBS: [TpbIndex; 2] = [TpbIndex::new(0), TpbIndex::new(1)];

fn post(scripted: &Scripted, subtype: Subtype, at: u64) {
    for tpb in TPBS {
        for engine in Engine::ALL {
            let mut record = StatusRecord::new(subtype, 4, at);
            record.custom_sub_id = U16::new(7);
            scripted.post(tpb, engine.status_nq(), transmute!(record));
        }
    }
}

#[test]
fn an_execution_that_succeeds_allocates_nothing() {
    let (scripted, device): (_, Arc<dyn Device>) = Scripted::new(3);
    let mut harvester = Harvester::open(&device, &TPBS).unwrap();
    // The log of calls would be counted.
    scripted.be_quiet();
    let mut now = 0;
    for execution in 1..=300 {
        let barriers = execution as i32 / 2;
        let staged = Staged {
            barriers: [Some(barriers as u32), None],
            ..Staged::default()
        };
        scripted.set_semaphore(TPBS[0], map::COLLECTIVES_BARRIER, barriers - 1);
        // Past the age at which the clocks are read again, every other time.
        now += 60_000_000;
        let before = allocations();
        harvester.begin(now, staged, Some(Duration::from_secs(1)));
        assert_eq!(harvester.step(now, &mut ()), Progress::Continue);
        scripted.set_semaphore(TPBS[0], map::COLLECTIVES_BARRIER, barriers);
        for subtype in [
            Subtype::Start,
            Subtype::CcStart,
            Subtype::Custom,
            Subtype::CcEnd,
        ] {
            post(&scripted, subtype, execution * 100);
            assert_eq!(harvester.step(now, &mut ()), Progress::Continue);
            assert_eq!(harvester.step(now, &mut ()), Progress::Continue);
        }
        post(&scripted, Subtype::End, execution * 100 + 50);
        let Progress::Done(report) = harvester.step(now, &mut ()) else {
            panic!("not done");
        };
        assert_eq!(report.status, Status::SUCCESS);
        let response = report.response(0, TPBS[0]);
        assert_eq!(allocations(), before, "execution {execution}");
        assert!(response.mla_time > 0.0);
    }
}

#[test]
fn the_counter_counts() {
    let before = allocations();
    drop(std::hint::black_box(Box::new(1)));
    assert_eq!(allocations(), before + 1);
}
