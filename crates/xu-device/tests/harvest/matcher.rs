//! The matcher table of spec `xu.md` section 6, row by row.

use crate::support::{
    Bench, FIRST, STAGED, TICK, assert_done, assert_fatal, custom, done, end, host_ns, of_subtype,
    start,
};
use xu_abi::record::Subtype;
use xu_abi::{Engine, Status, StatusRecord};
use xu_device::harvest::{Fault, Progress};
use xu_device::map::{RETAGGED_ENGINE, RETAGGED_NQ_ID};

/// The states of an engine, reached by the records that lead there.
const START_PENDING: &[fn(u64) -> StatusRecord] = &[];
const END_PENDING: &[fn(u64) -> StatusRecord] = &[start];

/// A core on which only `engine` has not ended, in the state that `history` leads to, and `record` after it.
fn bench(
    arch: u8,
    engine: Engine,
    history: &[fn(u64) -> StatusRecord],
    record: StatusRecord,
) -> Bench {
    let bench = Bench::begun_with(arch, &[FIRST]);
    bench.complete_all_but(FIRST, engine);
    for record in history {
        bench.post(FIRST, engine, record(TICK));
    }
    bench.post(FIRST, engine, record);
    bench
}

fn out_of_order(engine: Engine, subtype: Subtype) -> Fault {
    Fault::OutOfOrder {
        tpb: FIRST,
        engine,
        subtype,
    }
}

#[test]
fn start_when_start_is_pending_keeps_the_earliest_start() {
    for engine in Engine::ALL {
        let mut bench = bench(2, engine, START_PENDING, start(TICK - 5));
        assert_eq!(bench.look(), Progress::Continue);
        bench.end(FIRST, engine, TICK + 3);
        let report = done(bench.look());
        assert_eq!(report.started_ns, Some(host_ns(TICK - 5)));
        assert_eq!(report.ended_ns, Some(host_ns(TICK + 10)));
        assert_eq!(bench.scripted.probes(), 0);
    }
}

#[test]
fn d5_start_when_end_is_pending_is_a_failure_at_once() {
    for engine in Engine::ALL {
        let mut bench = bench(2, engine, END_PENDING, start(TICK));
        let fault = out_of_order(engine, Subtype::Start);
        assert_fatal(bench.look(), Status::FAILURE, &fault);
        assert_eq!(bench.scripted.probes(), 1);
    }
}

#[test]
fn d3_start_when_end_is_pending_and_the_overflow_bit_is_set_is_an_overflow() {
    for engine in Engine::ALL {
        let mut bench = bench(2, engine, END_PENDING, start(TICK));
        bench.scripted.latch_overflow(FIRST);
        let fault = Fault::Overflow { tpb: FIRST };
        assert_fatal(bench.look(), Status::EXEC_SW_NQ_OVERFLOW, &fault);
        assert_eq!(bench.scripted.probes(), 1);
    }
}

#[test]
fn end_when_end_is_pending_completes_and_keeps_the_latest_end() {
    for engine in Engine::ALL {
        let mut bench = bench(2, engine, END_PENDING, end(TICK + 50));
        let report = done(bench.look());
        assert_eq!(report.status, Status::SUCCESS);
        assert_eq!(report.ended_ns, Some(host_ns(TICK + 50)));
        assert_eq!(bench.scripted.probes(), 0);
    }
}

#[test]
fn d5_end_when_start_is_pending_is_a_failure_at_once() {
    for engine in Engine::ALL {
        let mut bench = bench(2, engine, START_PENDING, end(TICK));
        let fault = out_of_order(engine, Subtype::End);
        assert_fatal(bench.look(), Status::FAILURE, &fault);
        assert_eq!(bench.scripted.probes(), 1);
    }
}

#[test]
fn d3_end_when_start_is_pending_and_the_overflow_bit_is_set_is_an_overflow() {
    for engine in Engine::ALL {
        let mut bench = bench(2, engine, START_PENDING, end(TICK));
        bench.scripted.latch_overflow(FIRST);
        let fault = Fault::Overflow { tpb: FIRST };
        assert_fatal(bench.look(), Status::EXEC_SW_NQ_OVERFLOW, &fault);
    }
}

#[test]
fn d5_start_or_end_after_the_end_is_left_for_the_next_execution_and_judged_there() {
    for (record, fault) in [
        (start(TICK + 20), None),
        (end(TICK + 20), Some(Subtype::End)),
    ] {
        let mut bench = bench(2, Engine::Pool, END_PENDING, end(TICK));
        bench.post(FIRST, Engine::Pool, record);
        assert_done(bench.look(), Status::SUCCESS);
        bench.harvester.begin(0, STAGED, None);
        let progress = bench.look();
        match fault {
            None => assert_eq!(progress, Progress::Continue),
            Some(subtype) => {
                let fault = out_of_order(Engine::Pool, subtype);
                assert_fatal(progress, Status::FAILURE, &fault);
            }
        }
    }
}

#[test]
fn collectives_records_change_nothing_in_any_state() {
    for subtype in [7, 8] {
        for engine in Engine::ALL {
            for history in [START_PENDING, END_PENDING] {
                let mut bench = bench(2, engine, history, of_subtype(subtype));
                if history.is_empty() {
                    bench.start(FIRST, engine, TICK);
                }
                bench.end(FIRST, engine, TICK);
                assert_done(bench.look(), Status::SUCCESS);
            }
        }
    }
}

#[test]
fn out_of_bounds_records_are_1006_and_leave_the_unit_usable() {
    for sub_id in [0, 1, 2, 3, 4, 5, 9, 10] {
        for history in [START_PENDING, END_PENDING] {
            let mut bench = bench(2, Engine::Pool, history, custom(sub_id));
            if history.is_empty() {
                bench.start(FIRST, Engine::Pool, TICK);
            }
            assert_eq!(bench.look(), Progress::Continue, "{sub_id}");
            bench.end(FIRST, Engine::Pool, TICK);
            assert_done(bench.look(), Status::EXEC_OOB);
            // The next execution does not inherit it.
            bench.harvester.begin(0, STAGED, None);
            bench.complete(FIRST, TICK + 100);
            assert_done(bench.look(), Status::SUCCESS);
        }
    }
}

#[test]
fn debug_values_completed_tensors_and_debug_reads_change_nothing() {
    for sub_id in [6, 7, 8] {
        for history in [START_PENDING, END_PENDING] {
            let mut bench = bench(2, Engine::Sp, history, custom(sub_id));
            if history.is_empty() {
                bench.start(FIRST, Engine::Sp, TICK);
            }
            bench.end(FIRST, Engine::Sp, TICK);
            assert_done(bench.look(), Status::SUCCESS);
        }
    }
}

#[test]
fn d4_any_other_custom_record_is_a_hardware_error_in_any_state() {
    for sub_id in [11, 12, 255, 256, 0x7FFF, u16::MAX] {
        for history in [START_PENDING, END_PENDING] {
            let mut bench = bench(2, Engine::Act, history, custom(sub_id));
            let fault = Fault::UnknownCustom {
                tpb: FIRST,
                engine: Engine::Act,
                sub_id,
            };
            assert_fatal(bench.look(), Status::HW_ERROR, &fault);
            assert_eq!(bench.scripted.probes(), 0);
        }
    }
}

#[test]
fn d4_a_subtype_that_has_no_row_is_a_fault_in_any_state() {
    for raw in [0, 1, 4, 5, 9, 10, 255, 256, 258, u16::MAX] {
        for engine in Engine::ALL {
            for history in [START_PENDING, END_PENDING] {
                let mut bench = bench(2, engine, history, of_subtype(raw));
                let fault = Fault::Unexpected {
                    tpb: FIRST,
                    engine,
                    subtype: Subtype::Unexpected(raw),
                    sub_id: 0,
                    hint: 0,
                    tag: of_subtype(raw).nq_id_tag(),
                };
                assert_fatal(bench.look(), Status::FAILURE, &fault);
                assert_eq!(bench.scripted.probes(), 0);
            }
        }
    }
}

#[test]
fn d4_a_debug_hint_above_one_is_a_fault_whatever_the_record_says() {
    let records = [start(TICK), end(TICK), custom(0), of_subtype(7)];
    for record in records {
        for hint in 2..=15 {
            let mut record = record;
            // The low nibble belongs to the instruction line.
            record.hint_and_line_hi = hint << 4 | 0x0F;
            let mut bench = bench(2, Engine::Dve, START_PENDING, record);
            let fault = Fault::Unexpected {
                tpb: FIRST,
                engine: Engine::Dve,
                subtype: record.subtype(),
                sub_id: 0,
                hint,
                tag: record.nq_id_tag(),
            };
            assert_fatal(bench.look(), Status::FAILURE, &fault);
        }
    }
}

#[test]
fn custom_records_of_one_engine_are_retagged_from_v3_on() {
    for (arch, engine, tag) in [
        (2, RETAGGED_ENGINE, custom(0).nq_id_tag()),
        (3, RETAGGED_ENGINE, RETAGGED_NQ_ID),
        (4, RETAGGED_ENGINE, RETAGGED_NQ_ID),
        (3, Engine::Act, custom(0).nq_id_tag()),
    ] {
        let mut record = custom(0);
        record.hint_and_line_hi = 0x20;
        let mut bench = bench(arch, engine, START_PENDING, record);
        let fault = Fault::Unexpected {
            tpb: FIRST,
            engine,
            subtype: record.subtype(),
            sub_id: 0,
            hint: 2,
            tag,
        };
        assert_fatal(bench.look(), Status::FAILURE, &fault);
    }
}

#[test]
fn a_debug_hint_of_zero_or_one_is_sound_whatever_the_line() {
    for hint in [0x00, 0x0F, 0x10, 0x1F] {
        let mut record = start(TICK);
        record.hint_and_line_hi = hint;
        record.isa_line_lo = zerocopy::little_endian::U16::new(u16::MAX);
        let mut bench = bench(2, Engine::Dve, START_PENDING, record);
        bench.end(FIRST, Engine::Dve, TICK);
        assert_done(bench.look(), Status::SUCCESS);
    }
}

#[test]
fn the_tag_of_a_record_decides_nothing_on_any_generation() {
    // On generation 3 the custom records of one engine carry another tag than those of the others.
    for arch in [2, 3, 4] {
        for engine in Engine::ALL {
            for tag in [0, 4, 8, 0x0E, 0x1F] {
                let tagged = |mut record: StatusRecord| {
                    record.ring_and_tag = tag;
                    record
                };
                let mut bench = bench(arch, engine, START_PENDING, tagged(start(TICK)));
                bench.post(FIRST, engine, tagged(custom(3)));
                bench.post(FIRST, engine, tagged(custom(6)));
                bench.post(FIRST, engine, tagged(end(TICK)));
                assert_done(bench.look(), Status::EXEC_OOB);
            }
        }
    }
}
