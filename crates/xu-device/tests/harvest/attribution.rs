//! Which execution a record belongs to, how much one sweep reads, and the times of a report.

use crate::scripted::{Call, Scripted, together};
use crate::support::{
    Bench, FIRST, LIMIT, SECOND, STAGED, TICK, assert_done, assert_fatal, custom, done, host_ns,
};
use core::time::Duration;
use xu_abi::record::{ErrorKind, RECORD_SIZE, ring_bits};
use xu_abi::{Engine, Status, TpbIndex};
use xu_device::Head;
use xu_device::harvest::{Fault, Harvester, Progress, Report};
use xu_device::nq::{Mode, NqError};

/// Records of an engine's ring that have been read since the last `forget`.
fn read_from(bench: &Bench, tpb: TpbIndex, engine: Engine) -> usize {
    let ring = bench.scripted.ring(tpb, engine.status_nq()).get();
    bench
        .scripted
        .count(|call| matches!(call, Call::Read(at, 16) if (ring..ring + 4096).contains(&at.get())))
}

#[test]
fn an_idle_harvester_reads_nothing() {
    let mut bench = Bench::open(2, &[FIRST]);
    bench.complete(FIRST, TICK);
    for _ in 0..3 {
        assert_eq!(bench.step(LIMIT * 100), Progress::Continue);
    }
    assert_eq!(bench.scripted.log(), []);
}

#[test]
fn d5_records_of_the_next_execution_are_not_read_before_it_begins() {
    let mut bench = Bench::open(2, &[FIRST]);
    for execution in 1..=3 {
        bench.complete(FIRST, execution * TICK);
    }
    for execution in 1..=3 {
        bench.harvester.begin(0, STAGED, Some(LIMIT));
        bench.scripted.forget();
        let report = done(bench.look());
        assert_eq!(report.ended_ns, Some(host_ns(execution * TICK)));
        for engine in Engine::ALL {
            assert_eq!(read_from(&bench, FIRST, engine), 2);
        }
    }
}

#[test]
fn d5_an_engine_that_has_ended_is_not_read_while_others_run() {
    let mut bench = Bench::begun();
    bench.start(FIRST, Engine::Pe, TICK);
    bench.end(FIRST, Engine::Pe, TICK);
    // The next execution's, and wrong for this one.
    bench.start(FIRST, Engine::Pe, TICK * 2);
    for _ in 0..3 {
        assert_eq!(bench.look(), Progress::Continue);
    }
    assert_eq!(read_from(&bench, FIRST, Engine::Pe), 2);
    bench.complete_all_but(FIRST, Engine::Pe);
    assert_done(bench.look(), Status::SUCCESS);
}

#[test]
fn d4_a_sweep_reads_at_most_16_records_of_each_engine() {
    let mut bench = Bench::begun_with(2, &[FIRST, SECOND]);
    for tpb in [FIRST, SECOND] {
        for engine in Engine::ALL {
            bench.start(tpb, engine, TICK);
            for _ in 0..30 {
                bench.post(tpb, engine, custom(6));
            }
            bench.end(tpb, engine, TICK);
        }
    }
    for expected in [16, 16] {
        bench.scripted.forget();
        let progress = bench.look();
        for tpb in [FIRST, SECOND] {
            for engine in Engine::ALL {
                assert_eq!(read_from(&bench, tpb, engine), expected);
            }
        }
        if progress != Progress::Continue {
            assert_done(progress, Status::SUCCESS);
        }
    }
}

#[test]
fn d1_executions_follow_each_other_over_five_laps_of_every_ring() {
    let mut bench = Bench::open(2, &[FIRST, SECOND]);
    // Two to five records per engine and execution, so that laps end at different places.
    let mut records = 0;
    let mut execution = 0;
    while records < 5 * 256 + 100 {
        execution += 1;
        let end = execution * TICK;
        bench.harvester.begin(0, STAGED, Some(LIMIT));
        for tpb in [FIRST, SECOND] {
            for engine in Engine::ALL {
                bench.start(tpb, engine, end - 10);
                let extra = (execution + engine.index() as u64) % 4;
                (0..extra).for_each(|_| bench.post(tpb, engine, custom(6)));
                bench.end(tpb, engine, end);
            }
        }
        records += 2;
        let report = done(bench.run());
        assert_eq!(report.status, Status::SUCCESS);
        assert_eq!(report.started_ns, Some(host_ns(end - 10)));
    }
    assert_eq!(bench.scripted.probes(), 0);
}

#[test]
fn d3_what_was_read_is_given_back_before_waiting() {
    let mut bench = Bench::begun();
    for engine in Engine::ALL {
        bench.start(FIRST, engine, TICK);
    }
    let _ = bench.look();
    bench.scripted.forget();
    assert_eq!(bench.look(), Progress::Continue);
    // One call for all of them.
    let heads = Engine::ALL.map(|engine| Head::new(engine.status_nq(), RECORD_SIZE));
    let given_back = Call::Acknowledge(FIRST, together(&heads));
    assert_eq!(bench.scripted.count(|call| *call == given_back), 1);
    let any = |call: &Call| matches!(call, Call::Acknowledge(..));
    assert_eq!(bench.scripted.count(any), 1);
    // There is nothing more to give.
    bench.scripted.forget();
    let _ = bench.look();
    assert_eq!(bench.scripted.count(any), 0);
}

#[test]
fn d3_a_record_with_an_overflow_bit_ends_the_unit_without_a_look_at_the_cause() {
    for bit in [ring_bits::RING_OVERFLOW, ring_bits::BUFFER_OVERFLOW] {
        for engine in Engine::ALL {
            let mut bench = Bench::begun();
            bench.complete_all_but(FIRST, engine);
            bench.start(FIRST, engine, TICK);
            let mut record = crate::support::end(TICK);
            record.ring_and_tag |= bit;
            bench.post(FIRST, engine, record);
            let fault = Fault::Overflow { tpb: FIRST };
            assert_fatal(bench.look(), Status::EXEC_SW_NQ_OVERFLOW, &fault);
            assert_eq!(bench.scripted.probes(), 0);
        }
    }
}

#[test]
fn the_report_has_the_earliest_start_and_the_latest_end_over_both_cores() {
    let mut bench = Bench::begun_with(2, &[FIRST, SECOND]);
    for (tpb, shift) in [(FIRST, 100), (SECOND, 0)] {
        for engine in Engine::ALL {
            let index = engine.index() as u64;
            bench.start(tpb, engine, TICK + shift + 10 * (4 - index));
            bench.end(tpb, engine, TICK * 2 + shift - 10 * index);
        }
    }
    let report = done(bench.look());
    let expected = Report {
        status: Status::SUCCESS,
        started_ns: Some(host_ns(TICK)),
        ended_ns: Some(host_ns(TICK * 2 + 100)),
        ..Report::default()
    };
    assert_eq!(report, expected);
    let ticks = TICK + 100;
    assert_eq!(
        report.device_time(),
        Some(Duration::from_nanos(ticks * 3 / 2))
    );
}

#[test]
fn a_report_has_only_the_times_that_are_known() {
    let mut bench = Bench::begun();
    let _ = bench.look();
    let Progress::Fatal(report, _) = bench.step(LIMIT) else {
        panic!("no timeout");
    };
    assert_eq!((report.started_ns, report.ended_ns), (None, None));
    assert_eq!(report.device_time(), None);

    let mut bench = Bench::begun();
    bench.start(FIRST, Engine::Act, TICK);
    let _ = bench.look();
    let Progress::Fatal(report, _) = bench.step(LIMIT) else {
        panic!("no timeout");
    };
    assert_eq!(report.started_ns, Some(host_ns(TICK)));
    assert_eq!((report.ended_ns, report.device_time()), (None, None));
}

#[test]
fn d4_device_times_out_of_range_or_in_the_wrong_order_are_reported_without_a_panic() {
    for (first, last) in [(0, u64::MAX), (u64::MAX, 0), (0, 0), (u64::MAX, u64::MAX)] {
        let mut bench = Bench::begun();
        for engine in Engine::ALL {
            bench.start(FIRST, engine, first);
            bench.end(FIRST, engine, last);
        }
        let report = done(bench.look());
        assert!(report.device_time().is_some());
        if first > last {
            assert_eq!(report.device_time(), Some(Duration::ZERO));
        }
    }
}

#[test]
fn d1_every_queue_of_every_core_is_opened_once() {
    let (scripted, device) = Scripted::new(2);
    let tpbs = [FIRST, SECOND];
    Harvester::open(&device, &tpbs).unwrap();
    let mut opened = Vec::new();
    for tpb in tpbs {
        // The error ring is read at the end of an execution only, so it holds more.
        opened.push(Call::OpenNq(tpb, 2, 512 * RECORD_SIZE));
        for nq in [4, 5, 6, 7, 8] {
            opened.push(Call::OpenNq(tpb, nq, 256 * RECORD_SIZE));
        }
    }
    let mut log = scripted.log();
    log.retain(|call| matches!(call, Call::OpenNq(..)));
    assert_eq!(log, opened);
}

#[test]
fn d4_only_one_or_two_cores_are_harvested_together() {
    let (scripted, device) = Scripted::new(2);
    for cores in [0, 3, 4] {
        let tpbs = vec![FIRST; cores];
        let refused = Harvester::open(&device, &tpbs).err();
        let expected = xu_device::DeviceError::BadArgument {
            what: "physical cores of a logical core",
            value: cores as u64,
            allowed: "1 or 2",
        };
        assert_eq!(refused, Some(expected));
    }
    assert_eq!(scripted.log(), []);
}

#[test]
fn d3_requests_that_produce_many_extra_records_lose_none() {
    // The scripted device takes a record without room for a mistake of the reader.
    let mut bench = Bench::open(2, &[FIRST]);
    for execution in 1..=5 {
        bench.harvester.begin(0, STAGED, Some(LIMIT));
        for engine in Engine::ALL {
            bench.start(FIRST, engine, execution * TICK);
        }
        let mut posted = 0;
        while posted < 1_000 {
            for engine in Engine::ALL {
                // As fast as sweeps read.
                (0..16).for_each(|_| bench.post(FIRST, engine, custom(7)));
            }
            posted += 16;
            assert_eq!(bench.look(), Progress::Continue);
        }
        for engine in Engine::ALL {
            bench.end(FIRST, engine, execution * TICK);
        }
        assert_done(bench.run(), Status::SUCCESS);
    }
    assert_eq!(bench.heard.0.len(), 5 * 5 * 1_008);
}

#[test]
fn d4_a_tail_that_cannot_be_true_ends_the_unit() {
    let (scripted, device) = Scripted::new(2);
    let harvester = Harvester::open_in(Mode::Tail, &device, &[FIRST]).unwrap();
    let mut bench = Bench::around(scripted, harvester);
    bench.harvester.begin(0, STAGED, Some(LIMIT));
    bench.start(FIRST, Engine::Pe, TICK);
    assert_eq!(bench.look(), Progress::Continue);
    let nq = Engine::Dve.status_nq();
    bench.scripted.set_tail(FIRST, nq, 1_000 * RECORD_SIZE);
    let fault = Fault::Protocol(NqError::TailOutsideRing {
        tpb: FIRST,
        nq,
        tail: 16_000,
        bytes: 4_096,
    });
    assert_fatal(bench.look(), Status::HW_ERROR, &fault);
}

#[test]
fn d1_executions_are_harvested_by_the_tail_register_as_they_are_by_phase() {
    let (scripted, device) = Scripted::new(2);
    let harvester = Harvester::open_in(Mode::Tail, &device, &[FIRST, SECOND]).unwrap();
    let mut bench = Bench::around(scripted, harvester);
    for execution in 1..=400 {
        bench.harvester.begin(0, STAGED, Some(LIMIT));
        bench.complete(FIRST, execution * TICK);
        assert_eq!(bench.look(), Progress::Continue);
        bench.complete(SECOND, execution * TICK);
        bench.post_error(SECOND, ErrorKind::Numerical, execution * TICK);
        assert_done(bench.look(), Status::EXEC_COMPLETED_WITH_NUM_ERR);
    }
}
