//! What the ring promises, on one thread: publish and capture (R1), capacity (R3), destruction (R5), sequences (R6).
//!
//! The compile-time half of R4 is in the documentation of the ends.
#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests may panic as tests may"
)]

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use xu_abi::{Cursor, SeqId, XuId};
use xu_ring::queue::{
    BatchError, Ends, InstallError, NeverIssued, Observer, PeekError, Popped, RingError,
    SubmitError, Submitter, Waiter, Worker,
};

const XU: XuId = XuId::from_raw(0x0301);
const OTHER: XuId = XuId::from_raw(0x0401);

fn ring<T: Send>(capacity: u64) -> Ends<T> {
    xu_ring::queue::ring(XU, capacity).unwrap()
}

fn seq(number: u64) -> SeqId {
    SeqId::new(XU, Cursor::new(number).unwrap())
}

/// Counts its destructor calls, and can be told to panic in one.
struct Payload {
    drops: Arc<AtomicUsize>,
    panics: bool,
}

impl Payload {
    fn boxed(drops: &Arc<AtomicUsize>) -> Box<Self> {
        Box::new(Self {
            drops: drops.clone(),
            panics: false,
        })
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        self.drops.fetch_add(1, Ordering::Relaxed);
        if self.panics {
            panic!("a destructor's own affair");
        }
    }
}

#[test]
fn r1_untriggered_request_is_invisible_to_the_worker() {
    let (mut submitter, mut worker, observer) = ring(4);
    submitter.submit(Box::new(10)).unwrap();
    submitter.submit(Box::new(20)).unwrap();
    assert_eq!(worker.peek().unwrap_err(), PeekError::Empty);
    assert_eq!(worker.take().unwrap_err(), PeekError::Empty);
    assert_eq!(worker.pop().unwrap_err(), PeekError::Empty);
    assert_eq!(observer.is_completed(seq(1)), Ok(false));

    let pending = submitter.peek_next_trigger().unwrap();
    assert_eq!((pending.seq(), *pending.item()), (seq(1), 10));
    assert_eq!(submitter.trigger_next(), Ok(seq(1)));
    assert_eq!(worker.peek().unwrap().seq(), seq(1));
    assert_eq!(worker.pop().unwrap().seq, seq(1));
    assert_eq!(worker.peek().unwrap_err(), PeekError::Empty);

    assert_eq!(submitter.trigger_all(), Ok(1));
    assert_eq!(submitter.trigger_all(), Ok(0));
    assert_eq!(submitter.trigger_next(), Err(PeekError::Empty));
    assert_eq!(submitter.peek_next_trigger().unwrap_err(), PeekError::Empty);
    assert_eq!(worker.pop().unwrap().seq, seq(2));
}

#[test]
fn r1_pop_returns_what_the_slot_held() {
    let (mut submitter, mut worker, observer) = ring(1);
    let pooled = Waiter::pooled(5).unwrap();
    let one_shot = Waiter::one_shot(6).unwrap();
    let status = ptr::without_provenance(0x40);

    submitter
        .submit_with_status(Box::new("one"), status)
        .unwrap();
    assert_eq!(submitter.peek_next_trigger().unwrap().status(), status);
    assert_eq!(observer.install_waiter(seq(1), pooled), Ok(None));
    assert_eq!(observer.install_waiter(seq(1), one_shot), Ok(Some(pooled)));
    submitter.trigger_next().unwrap();
    assert_eq!(worker.peek().unwrap().status(), status);
    let popped = worker.pop().unwrap();
    assert_eq!(popped.seq, seq(1));
    assert_eq!(popped.status, status);
    assert_eq!(popped.waiter, Some(one_shot));
    assert_eq!(popped.item.as_deref(), Some(&"one"));

    // The next request in the slot inherits nothing.
    submitter.submit(Box::new("two")).unwrap();
    submitter.trigger_next().unwrap();
    let popped = worker.pop().unwrap();
    assert_eq!((popped.waiter, popped.status), (None, ptr::null()));
}

#[test]
fn r1_payload_can_be_changed_and_taken_once() {
    let (mut submitter, mut worker, observer) = ring(2);
    submitter.submit(Box::new(1)).unwrap();
    submitter.trigger_next().unwrap();
    *worker.peek().unwrap().item().unwrap() += 1;
    assert_eq!(worker.take().unwrap().as_deref(), Some(&2));
    assert_eq!(worker.take().unwrap(), None);
    assert_eq!(worker.peek().unwrap().item(), None);
    assert_eq!(observer.is_completed(seq(1)), Ok(false));
    assert_eq!(worker.pop().unwrap().item, None);
    assert_eq!(observer.is_completed(seq(1)), Ok(true));
}

/// Nothing of a batch is visible before all of it is written, and nothing is complete before all of it is read.
#[test]
fn r1_batch_is_published_at_its_end() {
    let (mut submitter, mut worker, observer) = ring(4);
    let waiter = Waiter::one_shot(9).unwrap();
    let items = (1..=3).map(|number| {
        assert_eq!(observer.last_submitted(), seq(0));
        Box::new(number)
    });
    let batch = submitter.submit_batch(items).unwrap();
    assert_eq!(
        (batch.first(), batch.last(), batch.len()),
        (Some(seq(1)), Some(seq(3)), 3)
    );
    assert_eq!(observer.last_submitted(), seq(3));
    assert_eq!(observer.install_waiter(seq(2), waiter), Ok(None));
    let mut nothing = Vec::new();
    assert_eq!(worker.pop_batch(9, &mut nothing), Ok(0));
    assert_eq!(submitter.trigger_all(), Ok(3));

    struct Watching<'a>(&'a Observer<i32>, Vec<Popped<i32>>);
    impl Extend<Popped<i32>> for Watching<'_> {
        fn extend<I: IntoIterator<Item = Popped<i32>>>(&mut self, popped: I) {
            for popped in popped {
                assert_eq!(self.0.last_completed(), seq(0));
                self.1.push(popped);
            }
        }
    }
    let mut into = Watching(&observer, Vec::new());
    assert_eq!(worker.pop_batch(2, &mut into), Ok(2));
    let [first, second] = into.1.as_slice() else {
        panic!("two were asked for");
    };
    assert_eq!((first.seq, first.waiter), (seq(1), None));
    assert_eq!((second.seq, second.waiter), (seq(2), Some(waiter)));
    assert_eq!(observer.last_completed(), seq(2));
    assert_eq!(worker.drain().map(|popped| popped.seq).next(), Some(seq(3)));
    assert_eq!(worker.drain().count(), 0);
}

/// A collection that takes nothing, and one that forgets its iterator: neither keeps the batch open.
#[test]
fn r1_batch_does_not_depend_on_its_collection() {
    struct Refusing;
    impl Extend<Popped<i32>> for Refusing {
        fn extend<I: IntoIterator<Item = Popped<i32>>>(&mut self, _: I) {}
    }
    struct Forgetting(Option<SeqId>);
    impl Extend<Popped<i32>> for Forgetting {
        fn extend<I: IntoIterator<Item = Popped<i32>>>(&mut self, popped: I) {
            let mut popped = popped.into_iter();
            self.0 = popped.next().map(|popped| popped.seq);
            std::mem::forget(popped);
        }
    }
    let (mut submitter, mut worker, observer) = ring(2);
    let _ = submitter.submit_batch([1, 2].map(Box::new)).unwrap();
    submitter.trigger_all().unwrap();
    assert_eq!(worker.pop_batch(0, &mut Vec::new()), Ok(0));
    assert_eq!(worker.pop_batch(2, &mut Refusing), Ok(0));
    assert_eq!(observer.last_completed(), seq(0));
    let mut forgetting = Forgetting(None);
    assert_eq!(worker.pop_batch(2, &mut forgetting), Ok(1));
    assert_eq!(forgetting.0, Some(seq(1)));
    assert_eq!(observer.last_completed(), seq(1));
    assert_eq!(worker.pop().unwrap().seq, seq(2));
}

#[test]
fn r3_batch_takes_what_there_is_room_for() {
    for capacity in [1, 2, 3, 5] {
        let (mut submitter, mut worker, observer) = ring(capacity);
        let mut items = (1..=20).map(Box::new);
        let mut expected = 1;
        let mut rest = 20;
        while rest > 0 {
            let empty = submitter.submit_batch(std::iter::empty()).unwrap();
            assert_eq!(
                (empty.is_empty(), empty.first(), empty.last()),
                (true, None, None)
            );
            let batch = submitter.submit_batch(items.by_ref()).unwrap();
            assert_eq!(batch.len(), capacity.min(rest));
            rest -= batch.len();
            if batch.len() == capacity {
                let full = BatchError::Full { xu: XU, capacity };
                assert_eq!(submitter.submit_batch(items.by_ref()), Err(full));
            }
            assert_eq!(observer.depth(), batch.len());
            assert_eq!(submitter.trigger_all(), Ok(batch.len()));
            for popped in worker.drain() {
                assert_eq!(popped.item.as_deref(), Some(&expected));
                expected += 1;
            }
        }
        assert_eq!(expected, 21);
    }
}

#[test]
fn r3_impossible_capacities_are_errors() {
    let refused = |capacity| xu_ring::queue::ring::<u64>(XU, capacity).unwrap_err();
    assert_eq!(refused(0), RingError::ZeroCapacity { xu: XU });
    for capacity in [1 << 58, 1 << 59, 1 << 63, u64::MAX] {
        assert_eq!(refused(capacity), RingError::NoMemory { xu: XU, capacity });
    }
}

#[test]
fn r3_full_is_submitted_minus_completed() {
    // Miri would take an hour for the largest.
    let largest = if cfg!(miri) { 65 } else { 65_536 };
    for capacity in [1, 2, 3, 5, 63, 64, largest] {
        let (mut submitter, mut worker, observer) = ring(capacity);
        // The second lap starts in the middle, so that it passes the end of the slots.
        for lap in [capacity / 2, capacity] {
            for _ in 0..lap {
                submitter.submit(Box::new(())).unwrap();
            }
            submitter.trigger_all().unwrap();
            while worker.pop().is_ok() {}
        }
        for depth in 0..capacity {
            assert_eq!((submitter.depth(), observer.depth()), (depth, depth));
            submitter.submit(Box::new(())).unwrap();
        }
        let before = observer.snapshot();
        let error = submitter.submit(Box::new(())).unwrap_err();
        assert!(matches!(error, SubmitError::Full { xu: XU, capacity: c, .. } if c == capacity));
        assert_eq!(observer.snapshot(), before);
        assert_eq!((before.depth(), before.held_back()), (capacity, capacity));
        // Triggering makes no room, completing does.
        submitter.trigger_all().unwrap();
        assert!(submitter.submit(Box::new(())).is_err());
        let _ = worker.pop().unwrap();
        submitter.submit(Box::new(())).unwrap();
        assert!(submitter.submit(Box::new(())).is_err());
        let after = observer.snapshot();
        assert_eq!((after.in_flight(), after.held_back()), (capacity - 1, 1));
    }
}

#[test]
fn r4_ends_are_send_and_observers_are_shared() {
    fn is_send<T: Send>() {}
    fn is_sync<T: Sync>() {}
    // A payload that threads may pass on but not share is enough.
    is_send::<Submitter<Cell<u64>>>();
    is_send::<Worker<Cell<u64>>>();
    is_send::<Observer<Cell<u64>>>();
    is_sync::<Observer<Cell<u64>>>();
}

#[test]
fn r5_drop_counts() {
    let drops = Arc::new(AtomicUsize::new(0));
    let counted = || drops.load(Ordering::Relaxed);
    // Ends go in any order; the last one drops what is left.
    for last in 0..3 {
        drops.store(0, Ordering::Relaxed);
        let (mut submitter, mut worker, observer) = ring(6);
        // One completed, one taken, two in flight, two held back.
        for _ in 0..6 {
            submitter.submit(Payload::boxed(&drops)).unwrap();
        }
        for _ in 0..4 {
            submitter.trigger_next().unwrap();
        }
        drop(worker.pop().unwrap());
        assert_eq!(counted(), 1);
        drop(worker.take().unwrap());
        assert_eq!(counted(), 2);
        // A request that is refused comes back alive.
        submitter.submit(Payload::boxed(&drops)).unwrap();
        let refused = submitter.submit(Payload::boxed(&drops)).unwrap_err();
        assert_eq!(counted(), 2);
        drop(refused.into_item());
        assert_eq!(counted(), 3);

        let mut ends: [Option<Box<dyn std::any::Any>>; 3] = [
            Some(Box::new(submitter)),
            Some(Box::new(worker)),
            Some(Box::new(observer)),
        ];
        let last = ends[last].take();
        drop(ends);
        assert_eq!(counted(), 3);
        drop(last);
        assert_eq!(counted(), 8);
    }
}

#[test]
fn r5_panicking_destructor_runs_once_and_stops_no_other() {
    let drops = Arc::new(AtomicUsize::new(0));
    let (mut submitter, worker, observer) = ring(5);
    for number in 0..5 {
        submitter
            .submit(Box::new(Payload {
                drops: drops.clone(),
                panics: number == 1,
            }))
            .unwrap();
    }
    drop((worker, observer));
    catch_unwind(AssertUnwindSafe(|| drop(submitter))).unwrap_err();
    assert_eq!(drops.load(Ordering::Relaxed), 5);
    assert_eq!(Arc::strong_count(&drops), 1);
}

/// What an iterator yielded before it panicked is in the ring, once.
#[test]
fn r5_panicking_iterator_loses_nothing() {
    let drops = Arc::new(AtomicUsize::new(0));
    let (mut submitter, mut worker, observer) = ring(4);
    let items = (0..4).map(|number| {
        assert!(number < 2, "an iterator's own affair");
        Payload::boxed(&drops)
    });
    catch_unwind(AssertUnwindSafe(|| submitter.submit_batch(items))).unwrap_err();
    assert_eq!(observer.last_submitted(), seq(2));
    assert_eq!(submitter.trigger_all(), Ok(2));
    assert_eq!(worker.drain().count(), 2);
    assert_eq!(drops.load(Ordering::Relaxed), 2);
    // And the ring goes on.
    assert_eq!(submitter.submit(Payload::boxed(&drops)).unwrap(), seq(3));
}

/// A collection whose elements panic when they go loses those that it was given, and no other.
#[test]
fn r5_panic_in_a_batch_completes_what_was_taken() {
    struct Dropping;
    impl Extend<Popped<Payload>> for Dropping {
        fn extend<I: IntoIterator<Item = Popped<Payload>>>(&mut self, popped: I) {
            popped.into_iter().for_each(drop);
        }
    }
    let drops = Arc::new(AtomicUsize::new(0));
    let (mut submitter, mut worker, observer) = ring(4);
    let items = (0..4).map(|number| {
        Box::new(Payload {
            drops: drops.clone(),
            panics: number == 1,
        })
    });
    assert_eq!(submitter.submit_batch(items).unwrap().len(), 4);
    submitter.trigger_all().unwrap();
    catch_unwind(AssertUnwindSafe(|| worker.pop_batch(4, &mut Dropping))).unwrap_err();
    assert_eq!(drops.load(Ordering::Relaxed), 2);
    assert_eq!(observer.last_completed(), seq(2));
    assert_eq!(submitter.is_completed(seq(2)), Ok(true));
    assert_eq!(submitter.is_completed(seq(3)), Ok(false));
    assert_eq!(worker.pop_batch(4, &mut Dropping), Ok(2));
    drop((submitter, worker, observer));
    assert_eq!(drops.load(Ordering::Relaxed), 4);
    assert_eq!(Arc::strong_count(&drops), 1);
}

#[test]
fn r5_oldest_payload_goes_first() {
    struct Logged(u32, Arc<Mutex<Vec<u32>>>);
    impl Drop for Logged {
        fn drop(&mut self) {
            self.1.lock().unwrap().push(self.0);
        }
    }
    let log = Arc::new(Mutex::new(Vec::new()));
    // Request 3 is in the first slot.
    let (mut submitter, worker, observer) = ring(3);
    for number in 1..=3 {
        submitter
            .submit(Box::new(Logged(number, log.clone())))
            .unwrap();
    }
    drop((submitter, worker, observer));
    assert_eq!(*log.lock().unwrap(), [1, 2, 3]);
}

#[test]
fn r5_zero_sized_payloads_live_and_die() {
    let (mut submitter, mut worker, _) = ring(2);
    submitter.submit(Box::new(())).unwrap();
    submitter.submit(Box::new(())).unwrap();
    submitter.trigger_next().unwrap();
    assert_eq!(worker.pop().unwrap().item.as_deref(), Some(&()));
}

#[test]
fn r6_sequence_identity() {
    let (mut submitter, mut worker, observer) = ring(2);
    assert_eq!((submitter.xu(), worker.xu(), observer.xu()), (XU, XU, XU));
    assert_eq!(
        (worker.last_completed(), submitter.last_submitted()),
        (seq(0), seq(0))
    );
    assert_eq!(
        (observer.last_completed(), observer.last_submitted()),
        (seq(0), seq(0))
    );
    assert!(submitter.is_idle());
    let never_issued = |seq| Err(NeverIssued { seq, xu: XU });
    for number in [0, 1, Cursor::LAST.get()] {
        assert_eq!(
            observer.is_completed(seq(number)),
            never_issued(seq(number))
        );
    }

    assert_eq!(submitter.submit(Box::new(())).unwrap(), seq(1));
    assert!(!submitter.is_idle());
    assert_eq!(observer.is_completed(seq(0)), never_issued(seq(0)));
    assert_eq!(observer.is_completed(seq(1)), Ok(false));
    assert_eq!(observer.is_completed(seq(2)), never_issued(seq(2)));
    submitter.trigger_next().unwrap();
    let _ = worker.pop().unwrap();
    assert_eq!(observer.is_completed(seq(1)), Ok(true));
    assert_eq!(
        (observer.last_completed(), observer.last_submitted()),
        (seq(1), seq(1))
    );
    assert!(submitter.is_idle());

    let foreign = SeqId::new(OTHER, Cursor::FIRST);
    assert_eq!(observer.is_completed(foreign), never_issued(foreign));
}

/// Both ends that can be asked give the same answers, for requests of this lap and of the one before.
#[test]
fn r6_submitter_knows_its_own_requests() {
    for capacity in [1, 2, 3, 5] {
        let (mut submitter, mut worker, observer) = ring(capacity);
        let never_issued = |seq| Err(NeverIssued { seq, xu: XU });
        let foreign = SeqId::new(OTHER, Cursor::FIRST);
        assert_eq!(submitter.is_completed(seq(0)), never_issued(seq(0)));
        assert_eq!(submitter.is_completed(seq(1)), never_issued(seq(1)));
        for number in 1..=3 * capacity {
            submitter.submit(Box::new(())).unwrap();
            assert_eq!(submitter.is_completed(seq(number)), Ok(false), "held back");
            submitter.trigger_next().unwrap();
            assert_eq!(submitter.is_completed(seq(number)), Ok(false), "in flight");
            if submitter.depth() == capacity {
                let _ = worker.pop().unwrap();
            }
            for asked in 1..=number {
                let is_completed = observer.is_completed(seq(asked));
                assert_eq!(submitter.is_completed(seq(asked)), is_completed);
            }
            let next = seq(number + 1);
            assert_eq!(submitter.is_completed(next), never_issued(next));
        }
        assert_eq!(submitter.is_completed(foreign), never_issued(foreign));
    }
}

#[test]
fn r6_waiters_are_refused_where_no_signal_will_come() {
    let (mut submitter, mut worker, observer) = ring(1);
    let waiter = Waiter::pooled(3).unwrap();
    let install = |seq| observer.install_waiter(seq, waiter);
    let never_issued = |seq| Err(InstallError::NeverIssued(NeverIssued { seq, xu: XU }));
    assert_eq!(install(seq(0)), never_issued(seq(0)));
    assert_eq!(install(seq(1)), never_issued(seq(1)));
    submitter.submit(Box::new(())).unwrap();
    submitter.trigger_next().unwrap();
    // Taking the payload completes nothing.
    drop(worker.take().unwrap());
    assert_eq!(install(seq(1)), Ok(None));
    assert_eq!(worker.pop().unwrap().waiter, Some(waiter));
    assert_eq!(
        install(seq(1)),
        Err(InstallError::Completed { seq: seq(1) })
    );
    let foreign = SeqId::new(OTHER, Cursor::FIRST);
    assert_eq!(install(foreign), never_issued(foreign));
    // The slot's next request has no waiter from these attempts.
    submitter.submit(Box::new(())).unwrap();
    submitter.trigger_next().unwrap();
    assert_eq!(worker.pop().unwrap().waiter, None);
}

#[test]
fn r6_waiter_is_taken_back_if_it_is_still_there() {
    let (mut submitter, mut worker, observer) = ring(1);
    let waiter = Waiter::pooled(3).unwrap();
    let others = [Waiter::one_shot(3).unwrap(), Waiter::pooled(4).unwrap()];
    let remove = |seq| observer.remove_waiter(seq, waiter);
    let never_issued = |seq| Err(InstallError::NeverIssued(NeverIssued { seq, xu: XU }));
    assert_eq!(remove(seq(0)), never_issued(seq(0)));
    assert_eq!(remove(seq(1)), never_issued(seq(1)));
    submitter.submit(Box::new(())).unwrap();
    submitter.trigger_next().unwrap();
    assert_eq!(remove(seq(1)), Ok(false), "nobody waits");
    observer.install_waiter(seq(1), waiter).unwrap();
    for other in others {
        assert_eq!(observer.remove_waiter(seq(1), other), Ok(false));
    }
    assert_eq!(remove(seq(1)), Ok(true));
    assert_eq!(remove(seq(1)), Ok(false), "nobody waits any more");
    // Its place is as if it had never been there.
    assert_eq!(observer.install_waiter(seq(1), others[0]), Ok(None));
    assert_eq!(remove(seq(1)), Ok(false), "another waits");
    assert_eq!(worker.pop().unwrap().waiter, Some(others[0]));
    let completed = Err(InstallError::Completed { seq: seq(1) });
    assert_eq!(observer.remove_waiter(seq(1), others[0]), completed);
    let foreign = SeqId::new(OTHER, Cursor::FIRST);
    assert_eq!(remove(foreign), never_issued(foreign));
}

#[test]
fn ends_print_themselves_without_their_payloads() {
    let (mut submitter, mut worker, observer) = ring(2);
    submitter.submit(Payload::boxed(&Arc::default())).unwrap();
    assert_eq!(
        format!("{submitter:?}"),
        "Submitter { capacity: 2, last_submitted: SeqId(0x0301:1), .. }"
    );
    submitter.trigger_next().unwrap();
    assert_eq!(
        format!("{:?}", worker.peek().unwrap()),
        "Current { seq: SeqId(0x0301:1), status: 0x0, is_taken: false, .. }"
    );
    assert_eq!(
        format!("{:?}", worker.drain()),
        "Drain { worker: Worker { capacity: 2, last_completed: SeqId(0x0301:0), .. } }"
    );
    assert_eq!(
        format!("{worker:?}"),
        "Worker { capacity: 2, last_completed: SeqId(0x0301:0), .. }"
    );
    assert!(format!("{observer:?}").contains("submitted: Cursor(2)"));
}
