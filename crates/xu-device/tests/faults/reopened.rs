//! Rows D7 and D8 of the failure kinds, with a whole lane on a machine: what one life of a unit leaves to the next, and
//! an execution of which only a part has reached the device.

use crate::lane::Lane;
use crate::pairs;
use crate::plan::Scenario;
use crate::table::{LIMIT, on, scenario};
use crate::verdict::{self, SUCCESS};
use xu_abi::TpbIndex;
use xu_device::harvest::Progress;
use xu_device::simulated::{Fault, FaultPlan};
use xu_device::{Device, DeviceError};

/// Looks that find everything that lies in the rings.
const LOOKS: u32 = 64;

/// Harvests one execution whose records are all there.
fn harvest(lane: &mut Lane, staged: xu_device::stage::Staged) -> i32 {
    let now = lane.machine.now_ns();
    lane.parts.harvester.begin(now, staged, Some(LIMIT));
    for passed in [false, true] {
        if passed {
            lane.machine.advance(LIMIT);
        }
        for _ in 0..LOOKS {
            match lane.look() {
                Progress::Continue => {}
                Progress::Done(report) | Progress::Fatal(report, _) => {
                    return verdict::number(report.status);
                }
            }
        }
    }
    panic!("the execution does not end");
}

/// Two cores; a fault hits the second of three executions of one of them, and the third is behind it.
fn with(fault: Fault, core: u16) -> Scenario {
    Scenario {
        tpbs: 2,
        plan: FaultPlan {
            rules: vec![on(core, 1, fault)],
        },
        ..scenario(3, &[])
    }
}

#[test]
fn d7_a_unit_opened_again_after_a_fault_sees_nothing_of_the_life_before() {
    let mut reopened = 0;
    for fault in pairs::each_fault() {
        for core in [0, 1] {
            // Whatever the old life has read of its records when it ends: none, or all.
            for harvested in [0, 2] {
                let scenario = with(fault.clone(), core);
                let mut lane = Lane::open(&scenario).unwrap();
                let staged: Vec<_> = (0..3).map(|_| lane.stage().unwrap()).collect();
                lane.machine.run_until_idle();
                for staged in staged.into_iter().take(harvested) {
                    harvest(&mut lane, staged);
                }
                if !lane.reopen(&scenario).unwrap() {
                    continue;
                }
                reopened += 1;
                assert_eq!(lane.look(), Progress::Continue, "{fault:?}");
                for _ in 0..3 {
                    let staged = lane.stage().unwrap();
                    lane.machine.run_until_idle();
                    assert_eq!(harvest(&mut lane, staged), SUCCESS, "{fault:?}");
                }
            }
        }
    }
    assert!(reopened > 60, "{reopened}");
}

#[test]
fn d7_a_core_that_hangs_does_not_come_to_rest_and_is_not_opened_again() {
    for core in [0, 1] {
        let fault = Fault::HangEngine {
            engine: xu_abi::Engine::Dve,
        };
        let scenario = with(fault, core);
        let mut lane = Lane::open(&scenario).unwrap();
        for _ in 0..3 {
            lane.stage().unwrap();
        }
        assert_eq!(lane.reopen(&scenario), Ok(false));
        let tpb = TpbIndex::new(core);
        assert_eq!(
            lane.machine
                .quiesce(tpb, core::time::Duration::from_secs(2)),
            Err(DeviceError::Busy { tpb })
        );
    }
}

#[test]
fn d8_when_the_second_doorbell_fails_staging_is_an_error_and_nothing_completes() {
    let errno = 5;
    for core in [0, 1] {
        let scenario = with(Fault::DoorbellFails { errno }, core);
        let mut lane = Lane::open(&scenario).unwrap();
        let first = lane.stage().unwrap();
        assert!(
            matches!(lane.stage(), Err(DeviceError::Driver { errno: said, .. }) if said == errno)
        );
        lane.machine.run_until_idle();
        // What was staged before it is not harmed; the one that was half armed never completes.
        assert_eq!(harvest(&mut lane, first), SUCCESS);
        for _ in 0..LOOKS {
            assert_eq!(lane.look(), Progress::Continue);
        }
    }
}
