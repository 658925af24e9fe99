//! The deadline behind the barrier, and when the overflow bit is looked at.

use crate::support::{
    Bench, FIRST, LIMIT, SECOND, STAGED, TICK, assert_done, assert_fatal, custom, hold, of_subtype,
    pass, timeout,
};
use core::time::Duration;
use xu_abi::record::{RECORD_SIZE, ring_bits};
use xu_abi::{Engine, Status};
use xu_device::harvest::{Fault, Progress};
use zerocopy::IntoBytes;

const NANOSECOND: Duration = Duration::from_nanos(1);

#[test]
fn d6_the_deadline_runs_from_the_step_that_finds_the_barrier_clear() {
    let mut bench = Bench::begun();
    hold(&bench, FIRST);
    let clear = Duration::from_secs(500);
    assert_eq!(bench.step(clear - NANOSECOND), Progress::Continue);
    pass(&bench, FIRST);
    assert_eq!(bench.step(clear), Progress::Continue);
    // A barrier that comes back is not waited for again.
    hold(&bench, FIRST);
    assert_eq!(bench.step(clear + LIMIT - NANOSECOND), Progress::Continue);
    let fault = timeout(FIRST, &[], &Engine::ALL);
    assert_fatal(bench.step(clear + LIMIT), Status::TIMEOUT, &fault);
}

#[test]
fn d6_a_completion_that_is_already_in_a_ring_is_never_a_timeout() {
    let mut bench = Bench::begun();
    assert_eq!(bench.look(), Progress::Continue);
    bench.complete(FIRST, TICK);
    assert_done(bench.step(LIMIT * 1_000), Status::SUCCESS);
}

#[test]
fn d6_a_sweep_that_found_a_record_judges_no_deadline_and_the_empty_one_after_it_does() {
    for record in [custom(6), of_subtype(7)] {
        let mut bench = Bench::begun();
        let _ = bench.look();
        bench.complete_all_but(FIRST, Engine::Dve);
        bench.start(FIRST, Engine::Dve, TICK);
        assert_eq!(bench.step(LIMIT * 2), Progress::Continue);
        bench.post(FIRST, Engine::Dve, record);
        assert_eq!(bench.step(LIMIT * 3), Progress::Continue);
        assert_eq!(bench.scripted.probes(), 0);
        let fault = timeout(FIRST, &[Engine::Dve], &[]);
        assert_fatal(bench.step(LIMIT * 3), Status::TIMEOUT, &fault);
    }
}

#[test]
fn d6_a_completion_behind_more_records_than_one_sweep_reads_is_not_a_timeout() {
    let mut bench = Bench::begun();
    let _ = bench.look();
    bench.complete_all_but(FIRST, Engine::Act);
    bench.start(FIRST, Engine::Act, TICK);
    for _ in 0..100 {
        bench.post(FIRST, Engine::Act, custom(6));
    }
    bench.end(FIRST, Engine::Act, TICK);
    for _ in 0..6 {
        assert_eq!(bench.step(LIMIT * 9), Progress::Continue);
    }
    assert_done(bench.step(LIMIT * 9), Status::SUCCESS);
}

#[test]
fn an_execution_without_a_limit_waits_for_ever() {
    let mut bench = Bench::open(2, &[FIRST]);
    bench.harvester.begin(0, STAGED, None);
    let _ = bench.look();
    assert_eq!(
        bench.step(Duration::from_nanos(u64::MAX)),
        Progress::Continue
    );
    bench.complete(FIRST, TICK);
    assert_done(bench.look(), Status::SUCCESS);
}

#[test]
fn a_limit_of_zero_is_judged_by_the_first_empty_sweep() {
    let mut bench = Bench::open(2, &[FIRST]);
    bench.harvester.begin(0, STAGED, Some(Duration::ZERO));
    bench.complete_all_but(FIRST, Engine::Sp);
    assert_eq!(bench.look(), Progress::Continue);
    match bench.look() {
        Progress::Fatal(report, Fault::Timeout { not_started, .. }) => {
            assert_eq!(not_started, [Engine::Sp]);
            assert_eq!(report.status, Status::TIMEOUT);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn time_that_goes_backwards_is_no_time() {
    let mut bench = Bench::open(2, &[FIRST]);
    let late = Duration::from_secs(1_000);
    bench
        .harvester
        .begin(late.as_nanos() as u64, STAGED, Some(LIMIT));
    assert_eq!(bench.step(late), Progress::Continue);
    assert_eq!(bench.look(), Progress::Continue);
    assert_eq!(bench.step(late + LIMIT - NANOSECOND), Progress::Continue);
}

#[test]
fn d3_a_timeout_with_the_overflow_bit_set_is_an_overflow() {
    let mut bench = Bench::begun();
    let _ = bench.look();
    bench.scripted.latch_overflow(FIRST);
    let fault = Fault::Overflow { tpb: FIRST };
    let progress = bench.step(LIMIT);
    assert_fatal(progress, Status::EXEC_SW_NQ_OVERFLOW, &fault);
    assert_eq!(bench.scripted.probes(), 1);
}

#[test]
fn d3_the_overflow_of_any_core_that_has_not_ended_explains_a_timeout() {
    for overflowed in [FIRST, SECOND] {
        let mut bench = Bench::begun_with(2, &[FIRST, SECOND]);
        let _ = bench.look();
        bench.scripted.latch_overflow(overflowed);
        let fault = Fault::Overflow { tpb: overflowed };
        let progress = bench.step(LIMIT);
        assert_fatal(progress, Status::EXEC_SW_NQ_OVERFLOW, &fault);
    }
}

#[test]
fn d3_the_overflow_of_a_core_that_has_ended_explains_no_timeout() {
    let mut bench = Bench::begun_with(2, &[FIRST, SECOND]);
    bench.complete(FIRST, TICK);
    let _ = bench.look();
    bench.scripted.latch_overflow(FIRST);
    let fault = timeout(SECOND, &[], &Engine::ALL);
    assert_fatal(bench.step(LIMIT), Status::TIMEOUT, &fault);
}

#[test]
fn d3_the_overflow_bit_is_not_looked_at_on_the_happy_path() {
    let mut bench = Bench::open(2, &[FIRST, SECOND]);
    bench.scripted.latch_overflow(FIRST);
    bench.scripted.latch_overflow(SECOND);
    for execution in 1..50 {
        bench.harvester.begin(0, STAGED, Some(LIMIT));
        let _ = bench.look();
        let end = TICK * execution;
        bench.complete(FIRST, end);
        let _ = bench.step(LIMIT - NANOSECOND);
        bench.complete(SECOND, end);
        assert_done(bench.step(LIMIT * 2), Status::SUCCESS);
    }
    assert_eq!(bench.scripted.probes(), 0);
}

#[test]
fn the_timeout_names_the_core_that_has_not_ended_and_its_engines() {
    let mut bench = Bench::begun_with(2, &[FIRST, SECOND]);
    bench.complete(FIRST, TICK);
    bench.complete_all_but(SECOND, Engine::Pool);
    bench.start(SECOND, Engine::Pool, TICK);
    let _ = bench.look();
    let fault = timeout(SECOND, &[Engine::Pool], &[]);
    assert_fatal(bench.step(LIMIT), Status::TIMEOUT, &fault);
}

#[test]
fn d5_two_cores_of_which_one_ends_after_1_ms_and_one_after_500_are_one_completion() {
    let mut bench = Bench::open(2, &[FIRST, SECOND]);
    bench
        .harvester
        .begin(0, STAGED, Some(Duration::from_secs(1)));
    let _ = bench.look();
    bench.complete(FIRST, TICK);
    let millisecond = Duration::from_millis(1);
    assert_eq!(bench.step(millisecond), Progress::Continue);
    assert_eq!(bench.step(millisecond * 499), Progress::Continue);
    bench.complete(SECOND, TICK * 500);
    assert_done(bench.step(millisecond * 500), Status::SUCCESS);
    assert_eq!(bench.step(millisecond * 501), Progress::Continue);
}

#[test]
fn d6_five_queued_requests_of_four_fifths_of_the_period_do_not_time_out() {
    let mut bench = Bench::open(2, &[FIRST]);
    let (period, takes) = (Duration::from_secs(1), Duration::from_millis(800));
    // All were staged at time 0; each begins when the one before it is done.
    let mut now = Duration::ZERO;
    for execution in 1..=5 {
        bench
            .harvester
            .begin(now.as_nanos() as u64, STAGED, Some(period));
        assert_eq!(bench.step(now), Progress::Continue);
        now += takes;
        assert_eq!(bench.step(now - NANOSECOND), Progress::Continue);
        bench.complete(FIRST, execution * TICK);
        assert_done(bench.step(now), Status::SUCCESS);
    }
    assert_eq!(now, takes * 5);
}

#[test]
fn d6_a_device_that_posts_without_end_puts_its_deadline_off_by_one_ring_of_records() {
    let mut bench = Bench::begun();
    bench.complete_all_but(FIRST, Engine::Pe);
    bench.start(FIRST, Engine::Pe, TICK);
    assert_eq!(bench.look(), Progress::Continue);
    // Every record of the ring is fresh whenever it is reached; the one that was read is so on the next lap.
    let nq = Engine::Pe.status_nq();
    let ring = bench.scripted.ring(FIRST, nq);
    for index in 0..256 {
        let mut record = custom(6);
        record.ring_and_tag = if index == 0 { 0 } else { ring_bits::PHASE };
        let at = ring.checked_add(index * RECORD_SIZE).unwrap();
        bench.scripted.poke(at, record.as_bytes());
    }
    bench.scripted.write_without_end(FIRST, nq);
    for _ in 0..16 {
        assert_eq!(bench.step(LIMIT), Progress::Continue);
    }
    let fault = timeout(FIRST, &[Engine::Pe], &[]);
    assert_fatal(bench.step(LIMIT), Status::TIMEOUT, &fault);
}
