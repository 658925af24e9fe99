//! The times of a report: which stamps count, how they become host time, and when the clocks are read.

use crate::scripted::{CLOCK, Scripted};
use crate::support::{
    Bench, FIRST, LIMIT, SECOND, STAGED, TICK, done, end, host_ns, of_subtype, start,
};
use core::time::Duration;
use std::sync::Arc;
use xu_abi::work_item::Timespec;
use xu_abi::{Engine, StatusRecord, TpbIndex};
use xu_device::harvest::{Harvester, Progress, Report};
use xu_device::{Clock, Device, map};
use zerocopy::little_endian::U64;

fn collectives(subtype: u16, at: u64) -> StatusRecord {
    StatusRecord {
        device_ts: U64::new(at),
        ..of_subtype(subtype)
    }
}

fn opened() -> (Arc<Scripted>, Harvester) {
    let (scripted, device): (_, Arc<dyn Device>) = Scripted::new(2);
    let harvester = Harvester::open(&device, &[FIRST]).unwrap();
    scripted.set_semaphore(FIRST, map::COLLECTIVES_BARRIER, 1);
    (scripted, harvester)
}

/// Begins and completes an execution at `now` with stamps at `ticks`.
fn run(scripted: &Scripted, harvester: &mut Harvester, now: u64, ticks: u64) -> Report {
    harvester.begin(now, STAGED, None);
    for engine in Engine::ALL {
        for record in [start(ticks), end(ticks)] {
            scripted.post(FIRST, engine.status_nq(), zerocopy::transmute!(record));
        }
    }
    done(harvester.step(now, &mut ()))
}

#[test]
fn the_earliest_collective_start_and_the_latest_end_over_engines_and_cores_are_kept() {
    let mut bench = Bench::begun_with(2, &[FIRST, SECOND]);
    let collectives_of = |tpb: TpbIndex, engine: Engine| {
        let at = TICK + 100 * u64::from(tpb.get()) + 10 * engine.index() as u64;
        [
            collectives(7, at),
            collectives(8, at + 1_000),
            collectives(7, at + 5),
            collectives(8, at + 900),
        ]
    };
    for tpb in [SECOND, FIRST] {
        for engine in Engine::ALL {
            bench.start(tpb, engine, TICK);
            for record in collectives_of(tpb, engine) {
                bench.post(tpb, engine, record);
            }
            bench.end(tpb, engine, TICK * 2);
        }
    }
    let report = done(bench.look());
    assert_eq!(report.cc_started_ns, Some(host_ns(TICK)));
    assert_eq!(report.cc_ended_ns, Some(host_ns(TICK + 1_140)));
    assert_eq!(report.cc_time(), Some(Duration::from_nanos(1_140 * 3 / 2)));
    assert_eq!(report.started_ns, Some(host_ns(TICK)));
    assert_eq!(report.ended_ns, Some(host_ns(TICK * 2)));
}

#[test]
fn collective_times_are_kept_before_the_start_too_and_not_inherited() {
    let mut bench = Bench::begun();
    bench.complete_all_but(FIRST, Engine::Sp);
    bench.post(FIRST, Engine::Sp, collectives(7, TICK - 50));
    bench.start(FIRST, Engine::Sp, TICK);
    bench.end(FIRST, Engine::Sp, TICK);
    let report = done(bench.look());
    assert_eq!(report.cc_started_ns, Some(host_ns(TICK - 50)));
    assert_eq!((report.cc_ended_ns, report.cc_time()), (None, None));
    bench.harvester.begin(0, STAGED, Some(LIMIT));
    bench.complete(FIRST, TICK * 2);
    assert_eq!(done(bench.look()).cc_started_ns, None);
}

#[test]
fn stamps_before_the_reading_of_the_clocks_are_host_times_before_it() {
    let (scripted, mut harvester) = opened();
    let report = run(&scripted, &mut harvester, 0, CLOCK.ticks - 100);
    assert_eq!(report.started_ns, Some(CLOCK.host_ns - 150));
    assert_eq!(report.device_time(), Some(Duration::ZERO));
}

#[test]
fn the_clocks_are_read_again_when_an_execution_begins_100_ms_after_the_last_reading() {
    let drifted = |host_ns, ticks| Clock {
        ticks,
        host_ns,
        ..CLOCK
    };
    let (scripted, mut harvester) = opened();
    let due = CLOCK.host_ns + 100_000_000;
    scripted.set_clock(drifted(due, 2_000));
    // Not yet: 1.5 ns a tick from the first reading.
    let report = run(&scripted, &mut harvester, due - 1, 3_000);
    assert_eq!(report.started_ns, Some(host_ns(3_000)));
    let report = run(&scripted, &mut harvester, due, 3_000);
    assert_eq!(report.started_ns, Some(due + 1_500));
    // The next one is due as long after that.
    scripted.set_clock(drifted(due * 2, 2_000));
    let report = run(&scripted, &mut harvester, due + 99_999_999, 3_000);
    assert_eq!(report.started_ns, Some(due + 1_500));
    let report = run(&scripted, &mut harvester, due + 100_000_000, 3_000);
    assert_eq!(report.started_ns, Some(due * 2 + 1_500));
}

#[test]
fn d4_a_clock_that_makes_no_sense_gives_times_without_a_panic() {
    for (expected_increment, actual_increment) in [
        (0.0, 0.0),
        (1.0, 0.0),
        (f64::NAN, 1.0),
        (f64::INFINITY, 1.0),
        (-1.0, 1.0),
        (1.0, f64::MIN_POSITIVE),
    ] {
        for ticks in [0, u64::MAX / 2, u64::MAX] {
            let (scripted, mut harvester) = opened();
            scripted.set_clock(Clock {
                ticks,
                host_ns: u64::MAX,
                expected_increment,
                actual_increment,
            });
            for stamp in [0, TICK, u64::MAX] {
                let report = run(&scripted, &mut harvester, u64::MAX, stamp);
                assert!(report.started_ns.is_some() && report.ended_ns.is_some());
            }
        }
    }
}

#[test]
fn the_response_area_holds_seconds_both_times_and_where_it_ran() {
    let report = Report {
        started_ns: Some(3_000_000_001),
        ended_ns: Some(4_500_000_001),
        ..Report::default()
    };
    let response = report.response(7, TpbIndex::new(9));
    assert_eq!(response.mla_time, 1.5);
    assert_eq!(response.ts_start, Timespec { sec: 3, nsec: 1 });
    let done_at = Timespec {
        sec: 4,
        nsec: 500_000_001,
    };
    assert_eq!(response.ts_done, done_at);
    assert_eq!((response.start_nd, response.start_nc), (7, 9));
    assert_eq!(response.combined_output_info, [0; 8]);
    assert_eq!(response.pad_6c, [0; 4]);
}

#[test]
fn the_response_area_holds_zero_for_what_is_not_known_and_takes_any_time() {
    let nothing = Report::default().response(u16::MAX, TpbIndex::new(u16::MAX));
    assert_eq!(nothing.mla_time, 0.0);
    assert_eq!(nothing.ts_start, Timespec::default());
    assert_eq!(nothing.ts_done, Timespec::default());
    let extreme = Report {
        started_ns: Some(u64::MAX),
        ended_ns: Some(0),
        ..Report::default()
    };
    let response = extreme.response(0, FIRST);
    assert_eq!(response.mla_time, 0.0);
    assert_eq!(response.ts_start.checked(), Ok(()));
    assert_eq!(response.ts_start.sec as u64, u64::MAX / 1_000_000_000);
}

#[test]
fn a_fatal_execution_reports_the_times_that_it_has() {
    let mut bench = Bench::begun();
    bench.start(FIRST, Engine::Act, TICK);
    bench.post(FIRST, Engine::Act, collectives(7, TICK + 1));
    let _ = bench.look();
    let Progress::Fatal(report, _) = bench.step(LIMIT) else {
        panic!("no timeout");
    };
    assert_eq!(report.started_ns, Some(host_ns(TICK)));
    assert_eq!(report.cc_started_ns, Some(host_ns(TICK + 1)));
    assert_eq!((report.ended_ns, report.cc_ended_ns), (None, None));
}
