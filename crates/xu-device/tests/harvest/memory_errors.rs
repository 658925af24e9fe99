//! The counters of memory errors: looked at after executions that did not succeed, and what a rise means.

use crate::scripted::{Call, Scripted};
use crate::support::{
    Bench, FIRST, LIMIT, SECOND, STAGED, TICK, assert_done, assert_fatal, custom, end, start,
};
use xu_abi::record::ErrorKind;
use xu_abi::{Engine, Status};
use xu_device::harvest::{Fault, Harvester, Progress, Reason};
use xu_device::{DeviceError, MemoryErrors};

const NONE: MemoryErrors = MemoryErrors {
    sram: 0,
    hbm: 0,
    hbm_repairable: 0,
};

/// One more error of each kind, and the status that it means.
fn rises() -> [(MemoryErrors, Status); 3] {
    [
        (MemoryErrors { hbm: 1, ..NONE }, Status::EXEC_HW_ERR_HBM_UE),
        (MemoryErrors { sram: 1, ..NONE }, Status::EXEC_HW_ERR_NC_UE),
        (
            MemoryErrors {
                hbm_repairable: 1,
                ..NONE
            },
            Status::EXEC_HW_ERR_REPAIRABLE_HBM_UE,
        ),
    ]
}

fn looks(bench: &Bench) -> usize {
    bench
        .scripted
        .count(|call| matches!(call, Call::MemoryErrors(_)))
}

#[test]
fn the_counters_are_not_looked_at_after_an_execution_that_succeeded() {
    let mut bench = Bench::open(2, &[FIRST, SECOND]);
    for execution in 1..50 {
        bench.harvester.begin(0, STAGED, Some(LIMIT));
        let _ = bench.look();
        bench.complete(FIRST, execution * TICK);
        bench.complete(SECOND, execution * TICK);
        bench.post_error(FIRST, ErrorKind::EccCorrectable, execution * TICK);
        assert_done(bench.look(), Status::SUCCESS);
    }
    assert_eq!(looks(&bench), 0);
}

#[test]
fn d4_a_rise_during_an_execution_that_ended_badly_ends_the_unit() {
    for kind in [ErrorKind::Numerical, ErrorKind::Transient] {
        for (errors, status) in rises() {
            for tpb in [FIRST, SECOND] {
                let mut bench = Bench::begun_with(2, &[FIRST, SECOND]);
                bench.scripted.set_memory_errors(tpb, errors);
                bench.complete(FIRST, TICK);
                bench.complete(SECOND, TICK);
                bench.post_error(FIRST, kind, TICK);
                let fault = Fault::Hardware { tpb, status };
                assert_fatal(bench.look(), status, &fault);
            }
        }
    }
}

#[test]
fn d6_a_rise_says_why_an_execution_timed_out_overflowed_or_went_out_of_order() {
    for (errors, status) in rises() {
        let fault = Fault::Hardware { tpb: FIRST, status };
        let mut late = Bench::begun();
        let _ = late.look();
        let mut overflowed = Bench::begun();
        let _ = overflowed.look();
        overflowed.scripted.latch_overflow(FIRST);
        let disordered = Bench::begun();
        disordered.post(FIRST, Engine::Pe, end(TICK));
        for mut bench in [late, overflowed, disordered] {
            bench.scripted.set_memory_errors(FIRST, errors);
            assert_fatal(bench.step(LIMIT), status, &fault);
            assert_eq!(looks(&bench), 1);
            let risen = Reason::Memory {
                tpb: FIRST,
                risen: errors,
            };
            assert_eq!(bench.harvester.reason(), Some(risen));
        }
    }
}

#[test]
fn what_was_counted_before_opening_or_before_the_last_look_is_not_held_against_an_execution() {
    let (scripted, device) = Scripted::new(2);
    let old = MemoryErrors {
        sram: 3,
        hbm: 4,
        hbm_repairable: 5,
    };
    scripted.set_memory_errors(FIRST, old);
    let mut bench = Bench::around(scripted, Harvester::open(&device, &[FIRST]).unwrap());
    // After a reset the counters begin again.
    for counted in [old, NONE, NONE] {
        bench.scripted.set_memory_errors(FIRST, counted);
        bench.harvester.begin(0, STAGED, Some(LIMIT));
        for engine in Engine::ALL {
            bench.post(FIRST, engine, start(TICK));
            bench.post(FIRST, engine, custom(0));
            bench.post(FIRST, engine, end(TICK));
        }
        assert_done(bench.look(), Status::EXEC_OOB);
    }
}

#[test]
fn a_rise_is_counted_from_the_last_look() {
    let count = |sram| MemoryErrors { sram, ..NONE };
    let (scripted, device) = Scripted::new(2);
    scripted.set_memory_errors(FIRST, count(5));
    let mut bench = Bench::around(scripted, Harvester::open(&device, &[FIRST]).unwrap());
    // The counters are reset, and rise from there.
    for (sram, fatal) in [(5, false), (0, false), (1, true)] {
        bench.scripted.set_memory_errors(FIRST, count(sram));
        bench.harvester.begin(0, STAGED, Some(LIMIT));
        bench.complete(FIRST, TICK);
        bench.post_error(FIRST, ErrorKind::Numerical, TICK);
        if fatal {
            let status = Status::EXEC_HW_ERR_NC_UE;
            let fault = Fault::Hardware { tpb: FIRST, status };
            assert_fatal(bench.look(), status, &fault);
        } else {
            assert_done(bench.look(), Status::EXEC_COMPLETED_WITH_NUM_ERR);
        }
    }
}

#[test]
fn d4_counters_that_cannot_be_read_end_the_unit_and_rename_nothing_stronger() {
    let refuse = |call: &Call| matches!(call, Call::MemoryErrors(_)).then_some(DeviceError::Lost);
    let mut bench = Bench::begun();
    bench.complete(FIRST, TICK);
    bench.post_error(FIRST, ErrorKind::Numerical, TICK);
    bench.scripted.fail(refuse);
    let fault = Fault::Device(DeviceError::Lost);
    assert_fatal(bench.look(), Status::HW_ERROR, &fault);

    let mut bench = Bench::begun();
    let _ = bench.look();
    bench.scripted.fail(refuse);
    let fault = Fault::Timeout {
        tpb: FIRST,
        limit: LIMIT,
        started: Vec::new(),
        not_started: Engine::ALL.to_vec(),
    };
    assert_fatal(bench.step(LIMIT), Status::TIMEOUT, &fault);
}

#[test]
fn the_reason_names_what_has_risen() {
    let mut bench = Bench::begun();
    let errors = MemoryErrors {
        sram: 1,
        hbm: 2,
        hbm_repairable: 3,
    };
    bench.scripted.set_memory_errors(FIRST, errors);
    bench.post(FIRST, Engine::Pe, end(TICK));
    let _ = bench.look();
    assert_eq!(
        bench.harvester.reason().unwrap().to_string(),
        "core 0: uncorrectable memory errors: 2 in HBM, 3 in HBM that a reset repairs, 1 in the core"
    );
}

#[test]
fn d4_a_question_that_fails_for_a_reason_of_its_own_decides_nothing() {
    let busy = |call: &Call| {
        let asks = matches!(call, Call::MemoryErrors(_) | Call::CheckDma(_));
        asks.then_some(DeviceError::Driver {
            call: "READ_HW_COUNTERS",
            errno: 11,
        })
    };
    let mut bench = Bench::begun();
    bench.complete(FIRST, TICK);
    bench.post_error(FIRST, ErrorKind::Transient, TICK);
    bench.scripted.fail(busy);
    assert_done(bench.look(), Status::EXEC_COMPLETED_WITH_ERR);

    let mut bench = Bench::begun();
    let _ = bench.look();
    bench.scripted.fail(busy);
    let Progress::Fatal(report, Fault::Timeout { .. }) = bench.step(LIMIT) else {
        panic!("no timeout");
    };
    assert_eq!(report.status, Status::TIMEOUT);
}
