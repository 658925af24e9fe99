//! The collectives barrier, the deadline behind it, and when the overflow bit is looked at.

use crate::scripted::Call;
use crate::support::{
    Bench, FIRST, LIMIT, SECOND, STAGED, TICK, assert_done, assert_fatal, custom, end, of_subtype,
    start,
};
use core::time::Duration;
use xu_abi::record::{RECORD_SIZE, ring_bits};
use xu_abi::{Engine, Status, TpbIndex};
use xu_device::harvest::{Fault, Progress};
use xu_device::map;
use xu_device::stage::Staged;
use zerocopy::IntoBytes;

const NANOSECOND: Duration = Duration::from_nanos(1);

fn hold(bench: &Bench, tpb: TpbIndex) {
    passed(bench, tpb, 0);
}

fn pass(bench: &Bench, tpb: TpbIndex) {
    passed(bench, tpb, 1);
}

fn passed(bench: &Bench, tpb: TpbIndex, barriers: i32) {
    bench
        .scripted
        .set_semaphore(tpb, map::COLLECTIVES_BARRIER, barriers);
}

fn timeout(tpb: TpbIndex, pending: usize, first: Engine) -> Fault {
    Fault::Timeout {
        tpb,
        limit: LIMIT,
        pending,
        first,
    }
}

#[test]
fn while_the_barrier_stands_on_any_core_no_record_is_read() {
    for held in [FIRST, SECOND] {
        let mut bench = Bench::begun_with(2, &[FIRST, SECOND]);
        hold(&bench, held);
        bench.complete(FIRST, TICK);
        bench.complete(SECOND, TICK);
        for _ in 0..3 {
            assert_eq!(bench.look(), Progress::Continue);
        }
        let reads = |call: &Call| matches!(call, Call::Load(_) | Call::Read(..));
        assert_eq!(bench.scripted.count(reads), 0);
        pass(&bench, held);
        assert_done(bench.look(), Status::SUCCESS);
    }
}

#[test]
fn the_count_of_barriers_wraps() {
    for (wanted, count, clear) in [
        (u32::MAX, -2, false),
        (u32::MAX, -1, true),
        (u32::MAX, 0, true),
        (0, -1, false),
        (1 << 31, i32::MAX, false),
        (1 << 31, i32::MIN, true),
    ] {
        let mut bench = Bench::open(2, &[FIRST]);
        let staged = Staged {
            barriers: [Some(wanted), None],
            ..STAGED
        };
        bench.harvester.begin(0, staged, Some(LIMIT));
        passed(&bench, FIRST, count);
        bench.complete(FIRST, TICK);
        assert_eq!(
            bench.look() != Progress::Continue,
            clear,
            "{wanted} {count}"
        );
    }
}

#[test]
fn a_barrier_that_stands_warns_at_120_seconds_and_then_at_twice_the_time_and_never_fails() {
    let mut bench = Bench::open(2, &[FIRST]);
    let begun = Duration::from_secs(1_000);
    bench.harvester.begin(
        begun.as_nanos() as u64,
        STAGED,
        Some(Duration::from_secs(1)),
    );
    hold(&bench, FIRST);
    let mut expected = 0;
    for seconds in [120, 240, 480, 960, 1_920, 3_840] {
        let threshold = begun + Duration::from_secs(seconds);
        assert_eq!(bench.step(threshold - NANOSECOND), Progress::Continue);
        assert_eq!(bench.harvester.barrier_warnings(), expected);
        assert_eq!(bench.step(threshold), Progress::Continue);
        expected += 1;
        assert_eq!(bench.harvester.barrier_warnings(), expected);
        assert_eq!(bench.step(threshold + NANOSECOND), Progress::Continue);
        assert_eq!(bench.harvester.barrier_warnings(), expected);
    }
    bench.step(Duration::from_nanos(u64::MAX));
    pass(&bench, FIRST);
    bench.complete(FIRST, TICK);
    assert_done(bench.look(), Status::SUCCESS);
    // The next execution begins with the first threshold again.
    hold(&bench, FIRST);
    let warnings = bench.harvester.barrier_warnings();
    bench.harvester.begin(0, STAGED, None);
    bench.step(Duration::from_secs(120) - NANOSECOND);
    assert_eq!(bench.harvester.barrier_warnings(), warnings);
    bench.step(Duration::from_secs(120));
    assert_eq!(bench.harvester.barrier_warnings(), warnings + 1);
}

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
    let fault = timeout(FIRST, 5, Engine::Pe);
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
        bench.look();
        bench.complete_all_but(FIRST, Engine::Dve);
        bench.start(FIRST, Engine::Dve, TICK);
        assert_eq!(bench.step(LIMIT * 2), Progress::Continue);
        bench.post(FIRST, Engine::Dve, record);
        assert_eq!(bench.step(LIMIT * 3), Progress::Continue);
        assert_eq!(bench.scripted.probes(), 0);
        let fault = timeout(FIRST, 1, Engine::Dve);
        assert_fatal(bench.step(LIMIT * 3), Status::TIMEOUT, &fault);
    }
}

#[test]
fn d6_a_completion_behind_more_records_than_one_sweep_reads_is_not_a_timeout() {
    let mut bench = Bench::begun();
    bench.look();
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
    bench.look();
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
        Progress::Fatal(report, Fault::Timeout { pending: 1, .. }) => {
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
    bench.look();
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
        bench.look();
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
    bench.look();
    bench.scripted.latch_overflow(FIRST);
    let fault = timeout(SECOND, 5, Engine::Pe);
    assert_fatal(bench.step(LIMIT), Status::TIMEOUT, &fault);
}

#[test]
fn d3_the_overflow_bit_is_not_looked_at_on_the_happy_path() {
    let mut bench = Bench::open(2, &[FIRST, SECOND]);
    bench.scripted.latch_overflow(FIRST);
    bench.scripted.latch_overflow(SECOND);
    for execution in 1..50 {
        bench.harvester.begin(0, STAGED, Some(LIMIT));
        bench.look();
        let end = TICK * execution;
        bench.complete(FIRST, end);
        bench.step(LIMIT - NANOSECOND);
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
    bench.look();
    let fault = timeout(SECOND, 1, Engine::Pool);
    assert_fatal(bench.step(LIMIT), Status::TIMEOUT, &fault);
}

#[test]
fn d6_what_comes_after_the_verdict_does_not_change_it() {
    let mut bench = Bench::begun();
    bench.look();
    let fault = timeout(FIRST, 5, Engine::Pe);
    assert_fatal(bench.step(LIMIT), Status::TIMEOUT, &fault);
    bench.complete(FIRST, TICK);
    for _ in 0..3 {
        assert_eq!(bench.step(LIMIT * 5), Progress::Continue);
    }
}

#[test]
fn d5_two_cores_of_which_one_ends_after_1_ms_and_one_after_500_are_one_completion() {
    let mut bench = Bench::open(2, &[FIRST, SECOND]);
    bench
        .harvester
        .begin(0, STAGED, Some(Duration::from_secs(1)));
    bench.look();
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
fn d6_records_that_come_after_a_fault_are_counted_and_complete_nothing() {
    let mut bench = Bench::begun_with(2, &[FIRST, SECOND]);
    bench.complete(SECOND, TICK);
    bench.look();
    assert_eq!(bench.harvester.late_records(), 0);
    assert_fatal(
        bench.step(LIMIT),
        Status::TIMEOUT,
        &timeout(FIRST, 5, Engine::Pe),
    );
    assert_eq!(bench.harvester.late_records(), 0);
    bench.complete(FIRST, TICK);
    assert_eq!(bench.step(LIMIT), Progress::Continue);
    assert_eq!(bench.harvester.late_records(), 10);
    bench.post(SECOND, Engine::Sp, custom(99));
    assert_eq!(bench.harvester.late_records(), 11);
    assert_eq!(bench.harvester.late_records(), 11);
    assert_eq!(bench.step(LIMIT), Progress::Continue);
}

#[test]
fn d6_late_records_are_given_back_and_a_ring_of_them_is_the_most_that_is_read() {
    let mut bench = Bench::begun();
    bench.look();
    bench.step(LIMIT);
    // Fills the ring ten times over: without credit the scripted device has no room.
    for late in 1..=10 {
        for _ in 0..255 {
            bench.post(FIRST, Engine::Act, custom(6));
        }
        assert_eq!(bench.harvester.late_records(), 255 * late);
    }
    let before = bench.harvester.late_records();
    let nq = Engine::Act.status_nq();
    endless(&bench, nq, before % 256);
    assert_eq!(bench.harvester.late_records(), before + 256);
}

/// Has every record of a ring be fresh whenever it is reached, from a reader at `index` on an even lap on.
fn endless(bench: &Bench, nq: u8, index: u64) {
    let ring = bench.scripted.ring(FIRST, nq);
    let lap = |at: u64| (at < index) as u64 + 9;
    for at in 0..256 {
        let mut record = custom(6);
        record.ring_and_tag = if lap(at).is_multiple_of(2) == map::FIRST_PHASE {
            ring_bits::PHASE
        } else {
            0
        };
        let addr = ring.checked_add(at * RECORD_SIZE).unwrap();
        bench.scripted.poke(addr, record.as_bytes());
    }
    bench.scripted.write_without_end(FIRST, nq);
}

#[test]
fn barriers_are_counted_from_what_the_semaphore_said_at_opening() {
    for base in [0, 1, 41, -1, i32::MAX, i32::MIN] {
        let (scripted, device) = crate::scripted::Scripted::new(2);
        scripted.set_semaphore(FIRST, map::COLLECTIVES_BARRIER, base);
        let mut harvester = xu_device::harvest::Harvester::open(&device, &[FIRST]).unwrap();
        for n in 1..=3 {
            let staged = Staged {
                barriers: [Some(n), None],
                ..STAGED
            };
            harvester.begin(0, staged, None);
            for engine in Engine::ALL {
                for record in [start(TICK), end(TICK)] {
                    scripted.post(FIRST, engine.status_nq(), zerocopy::transmute!(record));
                }
            }
            assert_eq!(harvester.step(0, &mut ()), Progress::Continue, "{base} {n}");
            let count = base.wrapping_add(n as i32);
            scripted.set_semaphore(FIRST, map::COLLECTIVES_BARRIER, count);
            assert_done(harvester.step(0, &mut ()), Status::SUCCESS);
        }
    }
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
    let fault = timeout(FIRST, 1, Engine::Pe);
    assert_fatal(bench.step(LIMIT), Status::TIMEOUT, &fault);
}
