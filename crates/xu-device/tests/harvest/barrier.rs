//! The collectives barrier: waiting for it, its warnings, and how it is counted.

use crate::scripted::{Call, Scripted};
use crate::support::{
    Bench, FIRST, LIMIT, SECOND, STAGED, TICK, assert_done, assert_fatal, end, hold, pass, passed,
    start,
};
use core::time::Duration;
use xu_abi::record::{ErrorKind, Subtype};
use xu_abi::{Engine, Status, StatusRecord};
use xu_device::DeviceError;
use xu_device::harvest::{Fault, Harvester, Progress};
use xu_device::map;
use xu_device::stage::Staged;

const NANOSECOND: Duration = Duration::from_nanos(1);

#[test]
fn while_the_barrier_stands_on_any_core_nothing_is_taken_from_a_ring() {
    for (held, free) in [(FIRST, SECOND), (SECOND, FIRST)] {
        let mut bench = Bench::begun_with(2, &[FIRST, SECOND]);
        hold(&bench, held);
        bench.complete(free, TICK);
        // Collectives may report while engines are held back.
        bench.post(held, Engine::Sp, cc_start(TICK));
        for _ in 0..3 {
            assert_eq!(bench.look(), Progress::Continue);
        }
        let reads = |call: &Call| matches!(call, Call::Acknowledge(..));
        assert_eq!(bench.scripted.count(reads), 0);
        bench.complete(held, TICK);
        pass(&bench, held);
        assert_done(bench.look(), Status::SUCCESS);
    }
}

#[test]
fn an_engine_that_has_begun_is_held_back_by_no_barrier() {
    // A core that gives a request up says START and END for it, and passes no barrier.
    let mut bench = Bench::begun();
    hold(&bench, FIRST);
    assert_eq!(bench.look(), Progress::Continue);
    bench.post_error(FIRST, ErrorKind::SoftwareSequencer, TICK - 20);
    bench.complete(FIRST, TICK);
    assert_done(bench.look(), Status::EXEC_COMPLETED_WITH_ERR);
}

#[test]
fn a_request_queue_that_has_stopped_ends_the_wait_for_a_barrier_within_a_second() {
    let mut bench = Bench::begun();
    hold(&bench, FIRST);
    let aborted = DeviceError::DmaAborted {
        tpb: FIRST,
        index: map::MODEL_EXEC_QUEUE,
    };
    let answer = aborted.clone();
    let asked = move |call: &Call| matches!(call, Call::CheckDma(_)).then(|| answer.clone());
    bench.scripted.fail(asked);
    let second = Duration::from_secs(1);
    assert_eq!(bench.step(second - NANOSECOND), Progress::Continue);
    let asks = |call: &Call| matches!(call, Call::CheckDma(_));
    assert_eq!(bench.scripted.count(asks), 0);
    assert_fatal(
        bench.step(second),
        Status::EXEC_HW_ERR_DMA_ABORT,
        &Fault::Device(aborted),
    );
}

#[test]
fn a_request_queue_that_cannot_be_asked_ends_no_wait_and_is_asked_every_second() {
    let mut bench = Bench::begun();
    hold(&bench, FIRST);
    let busy = |call: &Call| {
        let asked = matches!(call, Call::CheckDma(_));
        asked.then_some(DeviceError::Driver {
            call: "DMA_QUEUE_GET_STATE",
            errno: 11,
        })
    };
    bench.scripted.fail(busy);
    bench.scripted.forget();
    for tenth in 0..100 {
        let now = Duration::from_millis(100 * tenth);
        assert_eq!(bench.step(now), Progress::Continue);
    }
    let asks = |call: &Call| matches!(call, Call::CheckDma(_));
    assert_eq!(bench.scripted.count(asks), 9);
    pass(&bench, FIRST);
    bench.complete(FIRST, TICK);
    assert_done(bench.look(), Status::SUCCESS);
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
        // Whoever is past the barrier asks no more for it.
        let _ = bench.look();
        bench.scripted.forget();
        let _ = bench.look();
        let asks = |call: &Call| matches!(call, Call::ReadSemaphore(..));
        assert_eq!(bench.scripted.count(asks) == 0, clear, "{wanted} {count}");
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
    let _ = bench.step(Duration::from_nanos(u64::MAX));
    pass(&bench, FIRST);
    bench.complete(FIRST, TICK);
    assert_done(bench.look(), Status::SUCCESS);
    // The next execution begins with the first threshold again.
    hold(&bench, FIRST);
    let warnings = bench.harvester.barrier_warnings();
    bench.harvester.begin(0, STAGED, None);
    let _ = bench.step(Duration::from_secs(120) - NANOSECOND);
    assert_eq!(bench.harvester.barrier_warnings(), warnings);
    let _ = bench.step(Duration::from_secs(120));
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
            assert_eq!(harvester.step(0, &mut ()), Progress::Continue);
            scripted.forget();
            // Who is held back looks at the semaphore each time.
            assert_eq!(harvester.step(0, &mut ()), Progress::Continue);
            let asks = |call: &Call| matches!(call, Call::ReadSemaphore(..));
            assert_eq!(scripted.count(asks), 1, "{base} {n}");
            let count = base.wrapping_add(n as i32);
            scripted.set_semaphore(FIRST, map::COLLECTIVES_BARRIER, count);
            for engine in Engine::ALL {
                for record in [start(TICK), end(TICK)] {
                    scripted.post(FIRST, engine.status_nq(), zerocopy::transmute!(record));
                }
            }
            assert_done(harvester.step(0, &mut ()), Status::SUCCESS);
        }
    }
}

fn cc_start(at: u64) -> StatusRecord {
    StatusRecord::new(Subtype::CcStart, 4, at)
}
