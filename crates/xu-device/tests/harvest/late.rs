//! What comes after the fault that ended a unit.

use crate::support::{Bench, FIRST, LIMIT, SECOND, TICK, assert_fatal, custom, timeout};
use xu_abi::record::{RECORD_SIZE, ring_bits};
use xu_abi::{Engine, Status};
use xu_device::harvest::Progress;
use xu_device::map;
use zerocopy::IntoBytes;

#[test]
fn d6_what_comes_after_the_verdict_does_not_change_it() {
    let mut bench = Bench::begun();
    let _ = bench.look();
    let fault = timeout(FIRST, &[], &Engine::ALL);
    assert_fatal(bench.step(LIMIT), Status::TIMEOUT, &fault);
    bench.complete(FIRST, TICK);
    for _ in 0..3 {
        assert_eq!(bench.step(LIMIT * 5), Progress::Continue);
    }
}

#[test]
fn d6_records_that_come_after_a_fault_are_counted_and_complete_nothing() {
    let mut bench = Bench::begun_with(2, &[FIRST, SECOND]);
    bench.complete(SECOND, TICK);
    let _ = bench.look();
    assert_eq!(bench.harvester.late_records(), 0);
    assert_fatal(
        bench.step(LIMIT),
        Status::TIMEOUT,
        &timeout(FIRST, &[], &Engine::ALL),
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
    let _ = bench.look();
    let _ = bench.step(LIMIT);
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
