//! What is told on the side, and that it changes nothing.

use crate::support::{
    Bench, FIRST, LIMIT, News, SECOND, STAGED, TICK, assert_done, custom, of_subtype,
};
use core::time::Duration;
use xu_abi::record::ErrorKind;
use xu_abi::{Engine, ErrorRecord, Status, StatusRecord};
use xu_device::map;
use zerocopy::little_endian::U16;
use zerocopy::transmute;

/// A custom record that carries `number` where an instruction line would be.
fn numbered(sub_id: u16, number: u32) -> StatusRecord {
    StatusRecord {
        isa_line_lo: U16::new(number as u16),
        hint_and_line_hi: (number >> 16) as u8 & 0x0F,
        ..custom(sub_id)
    }
}

#[test]
fn completed_tensors_debug_values_and_debug_reads_are_told_with_their_numbers_in_order() {
    let mut bench = Bench::begun_with(2, &[FIRST, SECOND]);
    bench.complete(FIRST, TICK);
    bench.complete_all_but(SECOND, Engine::Pool);
    bench.post(SECOND, Engine::Pool, numbered(7, 0xF_FFFF));
    bench.start(SECOND, Engine::Pool, TICK);
    bench.post(SECOND, Engine::Pool, numbered(6, 1));
    bench.post(SECOND, Engine::Pool, numbered(8, 0x1_0002));
    bench.post(SECOND, Engine::Pool, numbered(7, 0));
    bench.post(SECOND, Engine::Pool, numbered(7, 0));
    bench.end(SECOND, Engine::Pool, TICK);
    assert_done(bench.look(), Status::SUCCESS);
    let expected = [
        News::TensorDone(SECOND, Engine::Pool, 0xF_FFFF),
        News::DebugValue(SECOND, Engine::Pool, 1),
        News::TensorRead(SECOND, Engine::Pool, 0x1_0002),
        News::TensorDone(SECOND, Engine::Pool, 0),
        News::TensorDone(SECOND, Engine::Pool, 0),
    ];
    assert_eq!(bench.heard.0, expected);
}

#[test]
fn a_tensor_is_told_complete_while_the_execution_runs() {
    let mut bench = Bench::begun();
    bench.start(FIRST, Engine::Dve, TICK);
    bench.post(FIRST, Engine::Dve, numbered(7, 3));
    assert_eq!(bench.look(), xu_device::harvest::Progress::Continue);
    assert_eq!(bench.heard.0, [News::TensorDone(FIRST, Engine::Dve, 3)]);
}

#[test]
fn each_kind_of_device_error_is_told_once_for_each_sweep_with_the_mask_of_the_first() {
    use ErrorKind::{EccCorrectable, Numerical, Transient, Unknown};
    let mut bench = Bench::open(2, &[FIRST, SECOND]);
    for execution in 1..=2 {
        let at = execution * TICK;
        bench.harvester.begin(0, STAGED, Some(LIMIT));
        for (tpb, kind, mask) in [
            (FIRST, EccCorrectable, 1),
            (FIRST, Numerical, 2),
            (FIRST, EccCorrectable, 3),
            (FIRST, Numerical, 4),
            (FIRST, EccCorrectable, 5),
            (SECOND, Numerical, 6),
            (SECOND, Transient, 7),
        ] {
            let record = ErrorRecord::new(kind, mask, at);
            bench
                .scripted
                .post(tpb, xu_abi::device::ERROR_NQ, transmute!(record));
        }
        bench.complete(FIRST, at);
        bench.complete(SECOND, at);
        assert_done(bench.look(), Status::EXEC_COMPLETED_WITH_ERR);
        let expected = [
            News::DeviceError(FIRST, EccCorrectable, 1),
            News::DeviceError(FIRST, Numerical, 2),
            News::DeviceError(SECOND, Numerical, 6),
            News::DeviceError(SECOND, Transient, 7),
        ];
        assert_eq!(core::mem::take(&mut bench.heard.0), expected);
    }
    // Every id is a kind of its own.
    bench.harvester.begin(0, STAGED, Some(LIMIT));
    bench.complete(FIRST, 3 * TICK);
    bench.complete(SECOND, 3 * TICK);
    for id in (5..=255).chain(5..=255) {
        if bench.scripted.has_room(FIRST, xu_abi::device::ERROR_NQ) {
            bench.post_error(FIRST, Unknown(id), 3 * TICK);
        }
    }
    let _ = bench.look();
    let expected = (5..=255).map(|id| News::DeviceError(FIRST, Unknown(id), 0));
    assert_eq!(bench.heard.0, expected.collect::<Vec<_>>());
}

#[test]
fn an_error_of_a_later_execution_is_told_with_that_one() {
    let mut bench = Bench::begun();
    bench.complete(FIRST, TICK);
    bench.post_error(FIRST, ErrorKind::EccCorrectable, TICK + 1);
    assert_done(bench.look(), Status::SUCCESS);
    assert_eq!(bench.heard.0, []);
    bench.harvester.begin(0, STAGED, Some(LIMIT));
    bench.complete(FIRST, 2 * TICK);
    assert_done(bench.look(), Status::SUCCESS);
    let told = News::DeviceError(FIRST, ErrorKind::EccCorrectable, 0);
    assert_eq!(bench.heard.0, [told]);
}

#[test]
fn a_barrier_that_is_overdue_is_told_with_its_core_and_the_time_at_each_threshold() {
    let mut bench = Bench::begun_with(2, &[FIRST, SECOND]);
    bench
        .scripted
        .set_semaphore(SECOND, map::COLLECTIVES_BARRIER, 0);
    for seconds in [119, 120, 121, 239, 241, 300] {
        let _ = bench.step(Duration::from_secs(seconds));
    }
    let expected = [
        News::BarrierOverdue(SECOND, Duration::from_secs(120)),
        News::BarrierOverdue(SECOND, Duration::from_secs(241)),
    ];
    assert_eq!(bench.heard.0, expected);
    assert_eq!(bench.harvester.barrier_warnings(), 2);
}

#[test]
fn nothing_is_told_of_starts_ends_and_collectives() {
    let mut bench = Bench::begun();
    bench.complete_all_but(FIRST, Engine::Pe);
    bench.start(FIRST, Engine::Pe, TICK);
    bench.post(FIRST, Engine::Pe, of_subtype(7));
    bench.post(FIRST, Engine::Pe, of_subtype(8));
    bench.post(FIRST, Engine::Pe, custom(0));
    bench.end(FIRST, Engine::Pe, TICK);
    assert_done(bench.look(), Status::EXEC_OOB);
    assert_eq!(bench.heard.0, []);
}
