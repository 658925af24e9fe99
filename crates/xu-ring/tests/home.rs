//! Rings whose header lies in somebody else's memory, on one thread and, at the end, on two.
#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests may panic as tests may"
)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use xu_abi::{Cursor, SeqId, XuId};
use xu_ring::queue::{Ends, Header, RingError, ring_in};

const XU: XuId = XuId::from_raw(0x0301);
const OTHER: XuId = XuId::from_raw(0x0401);

/// As an execution unit: the header is somewhere inside.
#[derive(Default)]
#[repr(C)]
struct Unit {
    health: u32,
    work_queue: Header,
    /// How many payloads were dropped.
    drops: Arc<AtomicUsize>,
}

fn ring<T: Send>(unit: &Arc<Unit>) -> Result<Ends<T>, RingError> {
    ring_in(XU, 3, unit.clone(), |unit| &unit.work_queue)
}

fn cursors(header: &Header) -> Option<[u64; 3]> {
    let seen = header.snapshot()?;
    Some([seen.completed, seen.triggered, seen.submitted].map(Cursor::get))
}

struct Payload {
    drops: Arc<AtomicUsize>,
    panics: bool,
}

impl Drop for Payload {
    fn drop(&mut self) {
        self.drops.fetch_add(1, Ordering::Relaxed);
        assert!(!self.panics, "a destructor's own affair");
    }
}

#[test]
fn header_in_a_unit_shows_the_ring() {
    let unit = Arc::new(Unit::default());
    let header = &unit.work_queue;
    assert_eq!(cursors(header), None);
    let (mut submitter, mut worker, observer) = ring(&unit).unwrap();
    assert_eq!((header.xu(), header.capacity()), (Some(XU), Some(3)));
    assert_eq!(cursors(header), Some([1, 1, 1]));
    for number in 0..3 {
        submitter.submit(Box::new(number)).unwrap();
    }
    submitter.trigger_next().unwrap();
    submitter.trigger_next().unwrap();
    assert_eq!(worker.pop().unwrap().item.as_deref(), Some(&0));
    assert_eq!(cursors(header), Some([2, 3, 4]));
    assert_eq!(header.snapshot(), Some(observer.snapshot()));
    let shown = format!("{header:?}");
    assert!(
        shown.starts_with("Header { xu: Some(XuId(0x0301)), capacity: Some(3), snapshot: Some(")
    );
    assert_eq!(unit.health, 0);
}

#[test]
fn second_ring_in_a_header_is_refused_and_harms_nothing() {
    let unit = Arc::new(Unit::default());
    let (mut submitter, mut worker, _) = ring(&unit).unwrap();
    submitter.submit(Box::new(1)).unwrap();
    let refused = ring_in::<u32, _>(OTHER, 8, unit.clone(), |unit| &unit.work_queue).unwrap_err();
    assert_eq!(refused, RingError::HeaderInUse { xu: OTHER });
    assert_eq!(
        refused.to_string(),
        "no place for queue core 4 compute: there is a ring in its header"
    );
    assert_eq!(unit.work_queue.xu(), Some(XU));
    submitter.trigger_next().unwrap();
    assert_eq!(worker.pop().unwrap().item.as_deref(), Some(&1));
    drop((submitter, worker));
    assert_eq!(Arc::strong_count(&unit), 1);
}

#[test]
fn impossible_rings_leave_the_header_empty() {
    let unit = Arc::new(Unit::default());
    for capacity in [0, 1 << 60, u64::MAX] {
        let refused = ring_in::<u32, _>(XU, capacity, unit.clone(), |unit| &unit.work_queue);
        assert!(refused.is_err());
        assert!(!unit.work_queue.is_in_use());
    }
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        ring_in::<u32, _>(XU, 8, unit.clone(), |_| panic!("the caller's own affair"))
    }));
    assert!(panicked.is_err());
    assert_eq!(Arc::strong_count(&unit), 1);
    drop(ring::<u32>(&unit).unwrap());
}

#[test]
fn last_end_empties_the_header_and_lets_the_home_go() {
    let unit = Arc::new(Unit::default());
    for round in 1..=3 {
        let (mut submitter, worker, observer) = ring(&unit).unwrap();
        let drops = unit.drops.clone();
        let payload = Box::new(Payload {
            drops,
            panics: false,
        });
        let first = SeqId::new(XU, Cursor::FIRST);
        assert_eq!(submitter.submit(payload).unwrap(), first);
        drop(worker);
        drop(submitter);
        assert!(unit.work_queue.is_in_use(), "an observer is an end, too");
        assert_eq!(unit.drops.load(Ordering::Relaxed), round - 1);
        drop(observer);
        assert_eq!(unit.drops.load(Ordering::Relaxed), round);
        assert!(!unit.work_queue.is_in_use());
        assert_eq!(cursors(&unit.work_queue), None);
        assert_eq!(Arc::strong_count(&unit), 1);
    }
}

#[test]
fn ring_keeps_its_home() {
    let unit = Arc::new(Unit::default());
    let drops = unit.drops.clone();
    let (mut submitter, mut worker, observer) = ring(&unit).unwrap();
    drop(unit);
    submitter.submit(Box::new(7)).unwrap();
    submitter.trigger_next().unwrap();
    assert_eq!(worker.pop().unwrap().item.as_deref(), Some(&7));
    assert_eq!(observer.snapshot().completed.get(), 2);
    assert_eq!(Arc::strong_count(&drops), 2, "the unit has the other");
    drop((submitter, worker, observer));
    assert_eq!(Arc::strong_count(&drops), 1);
}

#[test]
fn panicking_destructor_frees_the_header_all_the_same() {
    let unit = Arc::new(Unit::default());
    let (mut submitter, worker, observer) = ring(&unit).unwrap();
    for panics in [true, false, false] {
        let drops = unit.drops.clone();
        submitter
            .submit(Box::new(Payload { drops, panics }))
            .unwrap();
    }
    drop((submitter, worker));
    assert!(catch_unwind(AssertUnwindSafe(|| drop(observer))).is_err());
    assert_eq!(unit.drops.load(Ordering::Relaxed), 3);
    assert!(!unit.work_queue.is_in_use());
    assert_eq!(Arc::strong_count(&unit), 1);
}

#[test]
fn header_that_lives_for_ever_can_be_used_too() {
    static HEADER: Header = Header::new();
    for _ in 0..2 {
        let ends = ring_in::<u32, ()>(XU, 1, Arc::new(()), |()| &HEADER).unwrap();
        assert!(HEADER.is_in_use());
        drop(ends);
    }
    assert!(!HEADER.is_in_use());
}

#[test]
fn one_header_of_many_is_claimed_alone() {
    let units = Arc::new([(); 2].map(|()| Unit::default()));
    let ends = [0, 1].map(|index| {
        ring_in::<u32, _>(XU, 1, units.clone(), |units| &units[index].work_queue).unwrap()
    });
    drop(ends);
    assert!(units.iter().all(|unit| !unit.work_queue.is_in_use()));
}

/// The last end goes on another thread, while this one already tries to make the next ring.
#[test]
fn header_goes_from_ring_to_ring_across_threads() {
    let rounds = if cfg!(miri) { 4 } else { 500 };
    let unit = Arc::new(Unit::default());
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..10 * rounds {
                if let Some([completed, triggered, submitted]) = cursors(&unit.work_queue) {
                    assert!(completed <= triggered && triggered <= submitted);
                }
                thread::yield_now();
            }
        });
        for round in 0..rounds {
            let (mut submitter, worker, observer) = loop {
                match ring(&unit) {
                    Ok(ends) => break ends,
                    Err(error) => assert_eq!(error, RingError::HeaderInUse { xu: XU }),
                }
                thread::yield_now();
            };
            assert_eq!(unit.drops.load(Ordering::Relaxed), round);
            let payload = Payload {
                drops: unit.drops.clone(),
                panics: false,
            };
            submitter.submit(Box::new(payload)).unwrap();
            scope.spawn(move || drop((worker, observer)));
            drop(submitter);
        }
    });
    assert_eq!(unit.drops.load(Ordering::Relaxed), rounds);
}
