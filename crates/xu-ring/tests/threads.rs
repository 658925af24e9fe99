//! The ring on real threads; short enough to run under Miri too.
//!
//! ```sh
//! MIRIFLAGS="-Zmiri-strict-provenance -Zmiri-many-seeds=0..4" cargo +nightly miri test -p xu-ring --test threads
//! ```
#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests may panic as tests may"
)]

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use xu_abi::{Cursor, SeqId, XuId};
use xu_ring::queue::{Ends, InstallError, PeekError, SubmitError, Submitter, Waiter};

const XU: XuId = XuId::from_raw(0x0301);
const REQUESTS: u32 = if cfg!(miri) { 40 } else { 20_000 };
const CAPACITIES: [u64; 4] = [1, 2, 3, 64];

fn ring<T: Send>(capacity: u64) -> Ends<T> {
    xu_ring::queue::ring(XU, capacity).unwrap()
}

fn seq(number: u32) -> SeqId {
    SeqId::new(XU, Cursor::new(number.into()).unwrap())
}

/// Submits as soon as there is room.
fn submit<T>(submitter: &mut Submitter<T>, mut item: Box<T>, status: *const AtomicI32) -> SeqId {
    loop {
        match submitter.submit_with_status(item, status) {
            Ok(seq) => return seq,
            Err(SubmitError::Full { item: back, .. }) => item = back,
            Err(error) => panic!("{error}"),
        }
        thread::yield_now();
    }
}

struct Payload {
    number: u32,
    drops: Arc<AtomicUsize>,
}

impl Drop for Payload {
    fn drop(&mut self) {
        self.drops.fetch_add(1, Ordering::Relaxed);
    }
}

/// A producer, a worker that writes statuses, and an observer that reads them.
fn everything_arrives_once(capacity: u64) {
    let (mut submitter, mut worker, observer) = ring::<Payload>(capacity);
    let drops = Arc::new(AtomicUsize::new(0));
    let statuses: Vec<_> = (0..=REQUESTS).map(|_| AtomicI32::new(-1)).collect();
    let statuses = statuses.as_slice();
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1..=REQUESTS {
                let item = Box::new(Payload {
                    number,
                    drops: drops.clone(),
                });
                let status = &raw const statuses[number as usize];
                assert_eq!(submit(&mut submitter, item, status), seq(number));
                // Hold some back, so that the cursors part.
                if !number.is_multiple_of(3) || submitter.depth() == capacity || number == REQUESTS
                {
                    submitter.trigger_all().unwrap();
                }
            }
        });
        scope.spawn(|| {
            let mut last = observer.snapshot();
            let mut completed = 0;
            while completed < REQUESTS {
                let now = observer.snapshot();
                assert!(
                    now.completed <= now.triggered && now.triggered <= now.submitted,
                    "{now:?}"
                );
                assert!(last.completed <= now.completed, "{last:?} {now:?}");
                assert!(last.triggered <= now.triggered, "{last:?} {now:?}");
                assert!(last.submitted <= now.submitted, "{last:?} {now:?}");
                assert!(observer.depth() <= capacity);
                last = now;
                if observer.is_completed(seq(completed + 1)) == Ok(true) {
                    completed += 1;
                    // Relaxed: seeing the completion has ordered it.
                    let status = statuses[completed as usize].load(Ordering::Relaxed);
                    assert_eq!(status, completed.cast_signed());
                } else {
                    thread::yield_now();
                }
            }
        });
        for number in 1..=REQUESTS {
            let status = loop {
                match worker.peek() {
                    Ok(mut current) => {
                        assert_eq!(current.seq(), seq(number));
                        assert_eq!(current.item().unwrap().number, number);
                        break current.status();
                    }
                    Err(PeekError::Empty) => thread::yield_now(),
                    Err(error) => panic!("{error}"),
                }
            };
            // SAFETY: the address of a status in the vector, which outlives the scope.
            unsafe { &*status }.store(number.cast_signed(), Ordering::Relaxed);
            if number.is_multiple_of(2) {
                drop(worker.take().unwrap());
            }
            assert_eq!(
                worker.pop().unwrap().item.is_none(),
                number.is_multiple_of(2)
            );
        }
    });
    assert_eq!(drops.load(Ordering::Relaxed), REQUESTS as usize);
    assert!(submitter.is_idle());
}

#[test]
fn r2_everything_arrives_once_and_in_order() {
    for capacity in CAPACITIES {
        everything_arrives_once(capacity);
    }
}

/// Both ends make batches of what they find; the submitter watches for its oldest request in between.
#[test]
fn r2_batches_arrive_once_and_in_order() {
    for capacity in CAPACITIES {
        let (mut submitter, mut worker, observer) = ring::<Payload>(capacity);
        let drops = Arc::new(AtomicUsize::new(0));
        let statuses: Vec<_> = (0..=REQUESTS).map(|_| AtomicU32::new(0)).collect();
        thread::scope(|scope| {
            let drops = &drops;
            let statuses = statuses.as_slice();
            scope.spawn(move || {
                let mut items = (1..=REQUESTS).map(|number| {
                    Box::new(Payload {
                        number,
                        drops: drops.clone(),
                    })
                });
                let mut completed = 0;
                while completed < REQUESTS {
                    let batch = submitter.submit_batch(items.by_ref().take(5));
                    submitter.trigger_all().unwrap();
                    let mut moves = batch.is_ok_and(|batch| !batch.is_empty());
                    while submitter.is_completed(seq(completed + 1)) == Ok(true) {
                        completed += 1;
                        moves = true;
                        // Relaxed: seeing the completion has ordered it.
                        let status = statuses[completed as usize].load(Ordering::Relaxed);
                        assert_eq!(status, completed);
                    }
                    if !moves {
                        thread::yield_now();
                    }
                }
            });
            scope.spawn(move || {
                let mut last = observer.snapshot();
                while observer.last_completed() != seq(REQUESTS) {
                    let now = observer.snapshot();
                    assert!(now.completed <= now.triggered, "{now:?}");
                    assert!(now.triggered <= now.submitted, "{now:?}");
                    assert!(last.completed <= now.completed, "{last:?} {now:?}");
                    last = now;
                    thread::yield_now();
                }
            });
            let mut next = 1;
            let mut popped = Vec::new();
            while next <= REQUESTS {
                if let Ok(current) = worker.peek() {
                    let number = current.seq().cursor().get();
                    assert_eq!(number, u64::from(next));
                    let max = if next.is_multiple_of(2) { 1 } else { 3 };
                    for number in next..(next + max).min(REQUESTS + 1) {
                        statuses[number as usize].store(number, Ordering::Relaxed);
                    }
                    worker.pop_batch(max as usize, &mut popped).unwrap();
                } else {
                    thread::yield_now();
                }
                for popped in popped.drain(..) {
                    assert_eq!(popped.seq, seq(next));
                    assert_eq!(popped.item.unwrap().number, next);
                    next += 1;
                }
            }
        });
        assert_eq!(drops.load(Ordering::Relaxed), REQUESTS as usize);
    }
}

/// Two descriptors in turn, and a producer that refills the slot at once: each gets its own signals.
#[test]
fn r1_waiters_get_the_signals_of_their_own_requests() {
    for capacity in CAPACITIES {
        let (mut submitter, mut worker, observer) = ring(capacity);
        let waiter = |number: u32| Waiter::pooled((number % 2).cast_signed()).unwrap();
        let mark_comp_lock = Mutex::new(());
        thread::scope(|scope| {
            scope.spawn(|| {
                for number in 1..=REQUESTS {
                    let seq = submit(&mut submitter, Box::new(number), std::ptr::null());
                    let guard = mark_comp_lock.lock().unwrap();
                    assert_eq!(observer.install_waiter(seq, waiter(number)), Ok(None));
                    drop(guard);
                    submitter.trigger_next().unwrap();
                }
            });
            for number in 1..=REQUESTS {
                while worker.peek().is_err() {
                    thread::yield_now();
                }
                let guard = mark_comp_lock.lock().unwrap();
                let popped = worker.pop().unwrap();
                drop(guard);
                assert_eq!(
                    (popped.seq, popped.waiter),
                    (seq(number), Some(waiter(number)))
                );
            }
        });
    }
}

/// A waiter that races with completion is signalled if, and only if, it was installed.
#[test]
fn r1_installed_waiters_are_signalled_once() {
    for capacity in CAPACITIES {
        let (mut submitter, mut worker, observer) = ring(capacity);
        let mark_comp_lock = Mutex::new(());
        let mut signalled = Vec::new();
        let installed = thread::scope(|scope| {
            scope.spawn(|| {
                for number in 1..=REQUESTS {
                    submit(&mut submitter, Box::new(number), std::ptr::null());
                    submitter.trigger_next().unwrap();
                }
            });
            let waiting = scope.spawn(|| {
                let mut installed = Vec::new();
                let mut number = 1;
                while number <= REQUESTS {
                    let guard = mark_comp_lock.lock().unwrap();
                    let waiter = Waiter::one_shot(number.cast_signed()).unwrap();
                    let outcome = observer.install_waiter(seq(number), waiter);
                    drop(guard);
                    match outcome {
                        Ok(replaced) => {
                            assert_eq!(replaced, None);
                            installed.push(number);
                            number += 1;
                        }
                        Err(InstallError::Completed { .. }) => number += 1,
                        Err(InstallError::NeverIssued(_)) => thread::yield_now(),
                        Err(error) => panic!("{error}"),
                    }
                }
                installed
            });
            for _ in 1..=REQUESTS {
                while worker.peek().is_err() {
                    thread::yield_now();
                }
                let guard = mark_comp_lock.lock().unwrap();
                let popped = worker.pop().unwrap();
                drop(guard);
                if let Some(waiter) = popped.waiter {
                    assert_eq!(seq(waiter.efd().cast_unsigned()), popped.seq);
                    signalled.push(waiter.efd().cast_unsigned());
                }
            }
            waiting.join().unwrap()
        });
        assert_eq!(installed, signalled);
    }
}

/// The ends go on three threads, in whatever order; each payload that is left is dropped once.
#[test]
fn r5_last_end_drops_what_is_left() {
    let rounds = if cfg!(miri) { 4 } else { 500 };
    for round in 0..rounds {
        let (mut submitter, mut worker, observer) = ring(3);
        let drops = Arc::new(AtomicUsize::new(0));
        thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..3 {
                    let item = Payload {
                        number,
                        drops: drops.clone(),
                    };
                    submitter.submit(Box::new(item)).unwrap();
                }
                submitter.trigger_next().unwrap();
                drop(submitter);
            });
            scope.spawn(move || drop(observer.clone()));
            if round % 2 == 0 {
                // Empty, when the producer is late.
                drop(worker.pop());
            }
            drop(worker);
        });
        assert_eq!(drops.load(Ordering::Relaxed), 3);
    }
}
