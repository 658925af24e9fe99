//! The collectives barrier: waiting for it, its warnings, and how it is counted.

use crate::scripted::{Call, Scripted};
use crate::support::{
    Bench, FIRST, LIMIT, SECOND, STAGED, TICK, assert_done, end, hold, pass, passed, start,
};
use core::time::Duration;
use xu_abi::{Engine, Status};
use xu_device::harvest::{Harvester, Progress};
use xu_device::map;
use xu_device::stage::Staged;

const NANOSECOND: Duration = Duration::from_nanos(1);

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
fn barriers_are_counted_from_what_the_semaphore_said_at_opening() {
    for base in [0, 1, 41, -1, i32::MAX, i32::MIN] {
        let (scripted, device) = Scripted::new(2);
        scripted.set_semaphore(FIRST, map::COLLECTIVES_BARRIER, base);
        let mut harvester = Harvester::open(&device, &[FIRST]).unwrap();
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
