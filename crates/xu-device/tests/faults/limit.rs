//! What ends an execution that does not end by itself: the time limit and full rings, rows D3 and D6 of the failure
//! kinds.

use crate::lane::Lane;
use crate::plan::Scenario;
use crate::run;
use crate::table::{
    LIMIT, LIMIT_NS, SP, assert_status, assert_statuses, drop_of, overflow, scenario,
};
use crate::verdict::{OVERFLOW, SUCCESS, TIMEOUT, UNRECOVERABLE};
use core::time::Duration;
use xu_abi::Status;
use xu_device::Device;
use xu_device::harvest::Progress;
use xu_device::simulated::{Costs, Fault, FaultPlan, Mark, Rule, When};

#[test]
fn an_engine_that_does_not_end_is_a_timeout() {
    assert_status(&[Fault::HangEngine { engine: SP }], TIMEOUT);
    assert_status(&[drop_of(Mark::End)], TIMEOUT);
}

#[test]
fn a_doorbell_that_nobody_hears_is_a_timeout() {
    assert_status(&[Fault::DoorbellLost], TIMEOUT);
}

#[test]
fn records_lost_to_a_full_ring_are_an_overflow_when_the_cause_is_latched() {
    assert_status(&[overflow(true)], OVERFLOW);
    assert_status(&[overflow(false)], TIMEOUT);
}

/// More records of one execution than a ring has room for.
const CHATTER: usize = 400;

/// What a chatty execution ends with, when the harvester looks after every so many steps of the machine.
fn status_of_chatter(steps_between_looks: usize) -> Status {
    let debug_value = Fault::Custom {
        engine: SP,
        sub_id: 6,
    };
    let chatty = Scenario {
        costs: Costs::FREE,
        ..scenario(1, &vec![debug_value; CHATTER])
    };
    let mut lane = Lane::open(&chatty).unwrap();
    let staged = lane.stage().unwrap();
    let now = lane.machine.now_ns();
    lane.parts.harvester.begin(now, staged, Some(LIMIT));
    for _ in 0..2 * CHATTER {
        match lane.look() {
            Progress::Continue => {}
            Progress::Done(report) | Progress::Fatal(report, _) => return report.status,
        }
        let steps = (0..steps_between_looks).take_while(|_| lane.machine.step());
        if steps.count() == 0 {
            lane.machine.advance(LIMIT);
        }
    }
    panic!("the execution does not end");
}

#[test]
fn d3_space_goes_back_in_time_so_that_nothing_is_lost() {
    for steps_between_looks in [1, 5, 16] {
        let status = status_of_chatter(steps_between_looks);
        assert_eq!(status, Status::SUCCESS, "{steps_between_looks}");
    }
}

#[test]
fn d3_records_that_find_no_room_are_an_overflow() {
    assert_eq!(status_of_chatter(usize::MAX), Status::EXEC_SW_NQ_OVERFLOW);
}

#[test]
fn a_slow_engine_that_keeps_the_limit_succeeds() {
    let by_ns = LIMIT_NS / 2;
    assert_status(&[Fault::SlowEngine { engine: SP, by_ns }], SUCCESS);
    assert_status(&[Fault::LateEnd { engine: SP, by_ns }], SUCCESS);
}

#[test]
fn a_slow_engine_that_does_not_keep_the_limit_is_a_timeout_at_the_limit() {
    let by_ns = 4 * LIMIT_NS;
    for fault in [
        Fault::SlowEngine { engine: SP, by_ns },
        Fault::LateEnd { engine: SP, by_ns },
    ] {
        let mut lane = Lane::open(&scenario(1, &[fault])).unwrap();
        let staged = lane.stage().unwrap();
        let begun = lane.machine.now_ns();
        lane.parts.harvester.begin(begun, staged, Some(LIMIT));
        let passed = |lane: &Lane| lane.machine.now_ns() - begun;
        while passed(&lane) < LIMIT_NS {
            assert_eq!(lane.look(), Progress::Continue);
            if !lane.machine.step() {
                let due = lane.machine.next_due().map(|due| due - begun);
                let until = due.unwrap_or(LIMIT_NS).min(LIMIT_NS);
                // One nanosecond short, then there.
                let short = (until - passed(&lane)).saturating_sub(1).max(1);
                lane.machine.advance(Duration::from_nanos(short));
            }
        }
        let looks = (0..20).map(|_| lane.look());
        let ends: Vec<_> = looks.filter(|said| *said != Progress::Continue).collect();
        assert!(
            matches!(&ends[..], [Progress::Fatal(report, _)] if report.status == Status::TIMEOUT),
            "{ends:?}"
        );
    }
}

#[test]
fn d6_what_lies_in_the_rings_at_the_limit_is_read_before_the_verdict() {
    let debug_value = Fault::Custom {
        engine: SP,
        sub_id: 6,
    };
    let mut lane = Lane::open(&scenario(1, &vec![debug_value; 100])).unwrap();
    let staged = lane.stage().unwrap();
    let begun = lane.machine.now_ns();
    lane.parts.harvester.begin(begun, staged, Some(LIMIT));
    assert_eq!(lane.look(), Progress::Continue);
    lane.machine.run_until_idle();
    lane.machine.advance(LIMIT);
    let looks = (0..20).map(|_| lane.look());
    let ends: Vec<_> = looks.filter(|said| *said != Progress::Continue).collect();
    assert!(
        matches!(&ends[..], [Progress::Done(report)] if report.status == Status::SUCCESS),
        "{ends:?}"
    );
}

#[test]
fn d6_executions_behind_a_slow_one_do_not_time_out() {
    let slow = Fault::SlowEngine {
        engine: SP,
        by_ns: LIMIT_NS * 8 / 10,
    };
    let every = Rule {
        when: When::default(),
        fault: slow,
    };
    let plan = FaultPlan { rules: vec![every] };
    assert_statuses(
        &Scenario {
            plan,
            ..scenario(5, &[])
        },
        &[SUCCESS; 5],
    );
}

#[test]
fn d6_executions_behind_a_stuck_one_complete_as_unrecoverable() {
    let expected = [TIMEOUT, UNRECOVERABLE, UNRECOVERABLE];
    let scenario = Scenario {
        depth: 1,
        ..scenario(1, &[Fault::HangEngine { engine: SP }])
    };
    assert_statuses(&scenario, &expected[..1]);
    // Staged ahead at the will of the turns: how many are behind it differs.
    for turns in 0..12 {
        let scenario = Scenario {
            depth: 8,
            executions: 8,
            turns,
            ..scenario.clone()
        };
        let statuses = run::run(&scenario).unwrap().statuses;
        assert_eq!(statuses[0], TIMEOUT);
        assert!(
            statuses[1..].iter().all(|status| *status == UNRECOVERABLE),
            "{statuses:?}"
        );
    }
}
