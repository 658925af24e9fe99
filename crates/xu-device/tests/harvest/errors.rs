//! The error ring: what its records amount to, which execution they belong to, and reads that fail.

use crate::scripted::Call;
use crate::support::{
    Bench, FIRST, LIMIT, SECOND, STAGED, TICK, assert_done, assert_fatal, custom, done, end,
};
use xu_abi::record::ErrorKind;
use xu_abi::{Engine, Status};
use xu_device::harvest::{Fault, Progress};
use xu_device::{DeviceError, map};

fn hardware(tpb: xu_abi::TpbIndex, status: Status) -> Fault {
    Fault::Hardware { tpb, status }
}

/// A complete execution with error records of `kinds`.
fn with_errors(kinds: &[ErrorKind]) -> Bench {
    let bench = Bench::begun();
    bench.complete(FIRST, TICK);
    for kind in kinds {
        bench.post_error(FIRST, *kind, TICK - 1);
    }
    bench
}

#[test]
fn errors_that_leave_the_unit_usable_have_their_statuses() {
    use ErrorKind::{EccCorrectable, Numerical, SoftwareSequencer, Transient};
    let completed = Status::EXEC_COMPLETED_WITH_ERR;
    let numerical = Status::EXEC_COMPLETED_WITH_NUM_ERR;
    let cases: [(&[ErrorKind], Status); 7] = [
        (&[Transient], completed),
        (&[SoftwareSequencer], completed),
        (&[Numerical], numerical),
        (&[EccCorrectable], Status::SUCCESS),
        (&[Numerical, Transient], completed),
        (&[Transient, Numerical], completed),
        (&[EccCorrectable, Numerical, Numerical], numerical),
    ];
    for (kinds, status) in cases {
        assert_done(with_errors(kinds).look(), status);
    }
}

#[test]
fn d4_an_uncorrectable_error_ends_the_unit_whatever_else_was_reported() {
    use ErrorKind::{EccUncorrectable, Numerical, SoftwareSequencer, Transient};
    let fault = hardware(FIRST, Status::EXEC_HW_ERR_NC_UE);
    let cases: [&[ErrorKind]; 5] = [
        &[EccUncorrectable],
        &[Numerical, EccUncorrectable],
        &[EccUncorrectable, Transient],
        // Of equal rank, and first.
        &[Transient, EccUncorrectable],
        &[SoftwareSequencer, EccUncorrectable],
    ];
    for kinds in cases {
        let progress = with_errors(kinds).look();
        assert_fatal(progress, Status::EXEC_HW_ERR_NC_UE, &fault);
    }
}

#[test]
fn d4_an_uncorrectable_error_ends_the_unit_though_an_access_was_out_of_bounds() {
    let mut bench = Bench::begun();
    bench.complete_all_but(FIRST, Engine::Act);
    bench.start(FIRST, Engine::Act, TICK);
    bench.post(FIRST, Engine::Act, custom(0));
    bench.end(FIRST, Engine::Act, TICK);
    bench.post_error(FIRST, ErrorKind::EccUncorrectable, TICK);
    let fault = hardware(FIRST, Status::EXEC_HW_ERR_NC_UE);
    assert_fatal(bench.look(), Status::EXEC_HW_ERR_NC_UE, &fault);
}

#[test]
fn d4_an_error_id_without_a_name_is_a_hardware_error_whatever_else_was_reported() {
    let fault = hardware(FIRST, Status::HW_ERROR);
    for id in 5..=255 {
        let unknown = ErrorKind::Unknown(id);
        for kinds in [
            [unknown, ErrorKind::EccCorrectable],
            [ErrorKind::Transient, unknown],
            [unknown, ErrorKind::Numerical],
        ] {
            assert_fatal(with_errors(&kinds).look(), Status::HW_ERROR, &fault);
        }
    }
}

#[test]
fn errors_alone_complete_nothing_and_are_read_when_the_execution_is_over() {
    let mut bench = Bench::begun();
    bench.post_error(FIRST, ErrorKind::EccUncorrectable, TICK);
    assert_eq!(bench.look(), Progress::Continue);
    bench.complete(FIRST, TICK + 1);
    let fault = hardware(FIRST, Status::EXEC_HW_ERR_NC_UE);
    assert_fatal(bench.look(), Status::EXEC_HW_ERR_NC_UE, &fault);
}

#[test]
fn d5_an_error_later_than_the_last_end_belongs_to_the_next_execution() {
    let mut bench = Bench::begun();
    bench.complete(FIRST, TICK);
    bench.post_error(FIRST, ErrorKind::Numerical, TICK);
    bench.post_error(FIRST, ErrorKind::Transient, TICK + 1);
    bench.post_error(FIRST, ErrorKind::Numerical, TICK + 2);
    assert_done(bench.look(), Status::EXEC_COMPLETED_WITH_NUM_ERR);
    bench.harvester.begin(0, STAGED, Some(LIMIT));
    bench.complete(FIRST, TICK + 100);
    assert_done(bench.look(), Status::EXEC_COMPLETED_WITH_ERR);
    bench.harvester.begin(0, STAGED, Some(LIMIT));
    bench.complete(FIRST, TICK + 200);
    assert_done(bench.look(), Status::SUCCESS);
}

#[test]
fn d5_an_error_is_held_back_over_as_many_executions_as_it_is_ahead() {
    let mut bench = Bench::open(2, &[FIRST]);
    bench.post_error(FIRST, ErrorKind::Transient, 5 * TICK);
    for execution in 1..=6 {
        bench.harvester.begin(0, STAGED, Some(LIMIT));
        bench.complete(FIRST, execution * TICK);
        let expected = match execution {
            5 => Status::EXEC_COMPLETED_WITH_ERR,
            _ => Status::SUCCESS,
        };
        assert_done(bench.look(), expected);
    }
}

#[test]
fn d5_an_error_between_the_ends_of_two_engines_belongs_to_the_execution() {
    let mut bench = Bench::begun();
    bench.complete_all_but(FIRST, Engine::Pe);
    bench.start(FIRST, Engine::Pe, TICK);
    bench.end(FIRST, Engine::Pe, TICK + 1_000);
    bench.post_error(FIRST, ErrorKind::Transient, TICK + 1_000);
    assert_done(bench.look(), Status::EXEC_COMPLETED_WITH_ERR);
}

#[test]
fn d5_the_errors_of_a_core_are_told_apart_by_its_own_last_end() {
    let mut bench = Bench::begun_with(2, &[FIRST, SECOND]);
    bench.complete(FIRST, TICK);
    bench.complete(SECOND, TICK + 100);
    bench.post_error(FIRST, ErrorKind::Transient, TICK + 50);
    assert_done(bench.look(), Status::SUCCESS);
}

/// An execution that times out: everything in the error ring counts.
fn timed_out_with(kind: ErrorKind) -> Progress {
    let mut bench = Bench::begun();
    let _ = bench.look();
    bench.post_error(FIRST, kind, u64::MAX);
    bench.step(LIMIT)
}

#[test]
fn d6_a_timeout_is_renamed_by_a_stronger_status_that_ends_the_unit() {
    let status = Status::EXEC_HW_ERR_NC_UE;
    let fault = hardware(FIRST, status);
    assert_fatal(timed_out_with(ErrorKind::EccUncorrectable), status, &fault);
}

#[test]
fn d6_after_a_timeout_errors_later_than_the_last_end_count_too() {
    let mut bench = Bench::begun();
    bench.complete_all_but(FIRST, Engine::Pe);
    let _ = bench.look();
    bench.post_error(FIRST, ErrorKind::EccUncorrectable, TICK * 9);
    let status = Status::EXEC_HW_ERR_NC_UE;
    assert_fatal(bench.step(LIMIT), status, &hardware(FIRST, status));
}

#[test]
fn d6_a_timeout_is_not_renamed_by_an_equal_status_or_by_one_that_leaves_the_unit_usable() {
    use ErrorKind::{EccCorrectable, Numerical, SoftwareSequencer, Transient, Unknown};
    let fault = Fault::Timeout {
        tpb: FIRST,
        limit: LIMIT,
        started: Vec::new(),
        not_started: Engine::ALL.to_vec(),
    };
    // Transient errors have the highest priority of all, and end no unit.
    for kind in [
        Transient,
        SoftwareSequencer,
        Numerical,
        EccCorrectable,
        Unknown(77),
    ] {
        assert_fatal(timed_out_with(kind), Status::TIMEOUT, &fault);
    }
}

#[test]
fn d5_a_record_out_of_order_is_renamed_by_any_stronger_status_that_ends_the_unit() {
    for (kind, status) in [
        (ErrorKind::EccUncorrectable, Status::EXEC_HW_ERR_NC_UE),
        (ErrorKind::Unknown(5), Status::HW_ERROR),
    ] {
        let mut bench = Bench::begun();
        bench.post(FIRST, Engine::Pe, end(TICK));
        bench.post_error(FIRST, kind, TICK);
        assert_fatal(bench.look(), status, &hardware(FIRST, status));
    }
}

#[test]
fn a_fault_on_one_core_is_renamed_by_what_the_other_reports() {
    let mut bench = Bench::begun_with(2, &[FIRST, SECOND]);
    let _ = bench.look();
    bench.complete(SECOND, TICK);
    bench.post_error(SECOND, ErrorKind::EccUncorrectable, TICK);
    let _ = bench.step(LIMIT);
    let status = Status::EXEC_HW_ERR_NC_UE;
    assert_fatal(bench.step(LIMIT), status, &hardware(SECOND, status));
}

#[test]
fn two_cores_that_disagree_are_resolved_by_priority_in_either_order() {
    use ErrorKind::{EccCorrectable, EccUncorrectable, Numerical, Transient, Unknown};
    let completed = Status::EXEC_COMPLETED_WITH_ERR;
    let numerical = Status::EXEC_COMPLETED_WITH_NUM_ERR;
    let uncorrectable = Status::EXEC_HW_ERR_NC_UE;
    let cases = [
        (EccCorrectable, Numerical, numerical, false),
        (Numerical, Transient, completed, false),
        (EccCorrectable, Transient, completed, false),
        (EccCorrectable, EccUncorrectable, uncorrectable, true),
        (Numerical, EccUncorrectable, uncorrectable, true),
        (Transient, EccUncorrectable, uncorrectable, true),
        (Unknown(99), EccUncorrectable, uncorrectable, true),
        (Numerical, Unknown(99), Status::HW_ERROR, true),
    ];
    for (weaker, stronger, status, fatal) in cases {
        for (first, second) in [(weaker, stronger), (stronger, weaker)] {
            let mut bench = Bench::begun_with(2, &[FIRST, SECOND]);
            bench.complete(FIRST, TICK);
            bench.complete(SECOND, TICK);
            bench.post_error(FIRST, first, TICK);
            bench.post_error(SECOND, second, TICK);
            let progress = bench.look();
            if fatal {
                let tpb = if first == stronger { FIRST } else { SECOND };
                assert_fatal(progress, status, &hardware(tpb, status));
            } else {
                assert_done(progress, status);
            }
        }
    }
}

#[test]
fn out_of_bounds_on_one_core_and_a_numerical_error_on_the_other_is_out_of_bounds() {
    for (first, second) in [(FIRST, SECOND), (SECOND, FIRST)] {
        let mut bench = Bench::begun_with(2, &[FIRST, SECOND]);
        bench.complete(second, TICK);
        bench.post_error(second, ErrorKind::Numerical, TICK);
        bench.complete_all_but(first, Engine::Sp);
        bench.start(first, Engine::Sp, TICK);
        bench.post(first, Engine::Sp, custom(9));
        bench.end(first, Engine::Sp, TICK);
        assert_done(bench.look(), Status::EXEC_OOB);
    }
}

#[test]
fn d4_an_error_ring_that_never_ends_does_not_hold_the_step() {
    let mut bench = with_errors(&[ErrorKind::Transient]);
    bench
        .scripted
        .write_without_end(FIRST, xu_abi::device::ERROR_NQ);
    for offset in 1..512 {
        // Without a writer behind them these are not fresh; the endless queue makes them so.
        let ring = bench.scripted.ring(FIRST, xu_abi::device::ERROR_NQ);
        let at = ring.checked_add(offset * 16).unwrap();
        bench.scripted.poke(at, &[0, 0, 0, 0x80]);
    }
    bench.scripted.forget();
    assert_done(bench.look(), Status::EXEC_COMPLETED_WITH_ERR);
    let reads = bench.scripted.count(|call| matches!(call, Call::Read(..)));
    assert!(reads <= 10 + 512, "{reads} records read");
}

#[test]
fn d4_a_call_that_the_device_refuses_is_fatal_and_a_hardware_error() {
    let device = Fault::Device(DeviceError::Lost);
    let refused: [fn(&Call) -> bool; 6] = [
        |call| matches!(call, Call::ReadSemaphore(_, map::COLLECTIVES_BARRIER)),
        |call| matches!(call, Call::Load(_)),
        |call| matches!(call, Call::Read(..)),
        |call| matches!(call, Call::ProbeOverflow(_)),
        |call| matches!(call, Call::Acknowledge(..)),
        // Any call at all.
        |_| true,
    ];
    for fails in refused {
        let mut bench = Bench::begun();
        bench.complete_all_but(FIRST, Engine::Pe);
        bench
            .scripted
            .fail(move |call| fails(call).then_some(DeviceError::Lost));
        let mut progress = bench.look();
        if progress == Progress::Continue {
            progress = bench.step(LIMIT);
        }
        assert_fatal(progress, Status::HW_ERROR, &device);
    }
}

#[test]
fn d4_a_refused_read_of_the_error_ring_is_fatal_though_every_engine_has_ended() {
    let mut bench = Bench::begun();
    bench.complete(FIRST, TICK);
    let ring = bench.scripted.ring(FIRST, xu_abi::device::ERROR_NQ);
    bench
        .scripted
        .fail(move |call| (*call == Call::Load(ring)).then_some(DeviceError::Lost));
    match bench.look() {
        Progress::Fatal(report, Fault::Device(DeviceError::Lost)) => {
            assert_eq!(report.status, Status::HW_ERROR);
            assert!(report.ended_ns.is_some());
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_report_of_an_execution_with_errors_has_its_times() {
    let report = done(with_errors(&[ErrorKind::Numerical]).look());
    assert!(report.started_ns.is_some() && report.ended_ns.is_some());
}

#[test]
fn d6_nothing_runs_after_a_fault_and_leftovers_complete_nothing() {
    let mut bench = with_errors(&[ErrorKind::EccUncorrectable]);
    let fault = hardware(FIRST, Status::EXEC_HW_ERR_NC_UE);
    assert_fatal(bench.look(), Status::EXEC_HW_ERR_NC_UE, &fault);
    bench.complete(FIRST, TICK + 100);
    for _ in 0..2 {
        bench.harvester.begin(0, STAGED, Some(LIMIT));
        let progress = bench.look();
        assert_fatal(progress, Status::EXEC_UNIT_UNRECOVERABLE, &Fault::UnitEnded);
        assert_eq!(bench.look(), Progress::Continue);
    }
}

#[test]
fn d3_an_overflow_bit_on_the_error_ring_ends_the_unit() {
    let mut bench = Bench::begun();
    bench.complete(FIRST, TICK);
    let mut record = xu_abi::ErrorRecord::new(ErrorKind::EccCorrectable, 0, TICK);
    record.ring_and_tag = xu_abi::record::ring_bits::RING_OVERFLOW;
    let bytes = zerocopy::transmute!(record);
    bench.scripted.post(FIRST, xu_abi::device::ERROR_NQ, bytes);
    let fault = Fault::Overflow { tpb: FIRST };
    assert_fatal(bench.look(), Status::EXEC_SW_NQ_OVERFLOW, &fault);
}

#[test]
fn d4_a_failed_execution_whose_request_queue_has_stopped_ends_the_unit() {
    let stopped = DeviceError::DmaAborted {
        tpb: FIRST,
        index: map::MODEL_EXEC_QUEUE,
    };
    for (kind, fatal) in [
        (ErrorKind::SoftwareSequencer, true),
        (ErrorKind::EccCorrectable, false),
    ] {
        let mut bench = with_errors(&[kind]);
        let error = stopped.clone();
        bench.scripted.fail(move |call| match call {
            Call::CheckDma(queue) if *queue == map::model_exec_queue(FIRST) => Some(error.clone()),
            _ => None,
        });
        match bench.look() {
            Progress::Fatal(_, fault) => {
                assert!(fatal);
                assert_eq!(fault, Fault::Device(stopped.clone()));
            }
            other => {
                assert!(!fatal, "{other:?}");
                assert_done(other, Status::SUCCESS);
            }
        }
    }
}

#[test]
fn d4_an_error_record_from_the_future_hides_neither_itself_nor_what_comes_behind_it() {
    for (first, status) in [
        (ErrorKind::EccCorrectable, Status::SUCCESS),
        (ErrorKind::Transient, Status::EXEC_COMPLETED_WITH_ERR),
    ] {
        let mut bench = Bench::begun();
        bench.post_error(FIRST, first, u64::MAX);
        bench.complete(FIRST, TICK);
        assert_done(bench.run(), status);
        bench.harvester.begin(0, STAGED, Some(LIMIT));
        bench.post_error(FIRST, ErrorKind::EccUncorrectable, 2 * TICK - 5);
        bench.complete(FIRST, 2 * TICK);
        let fault = hardware(FIRST, Status::EXEC_HW_ERR_NC_UE);
        assert_fatal(bench.run(), Status::EXEC_HW_ERR_NC_UE, &fault);
    }
}
