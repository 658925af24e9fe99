//! Every interleaving of small runs of the ring, and the proof that each ordering is needed.
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" cargo test -p xu-ring --profile loom --test loom
//! ```
//!
//! A test of `models` explores the runs of one scenario: all, or those with as many preemptions as it names. A test of
//! `mutants` starts this program again with one fault seeded, and demands that the named scenario notices. Threads try a bounded number of times instead of spinning, which keeps
//! the number of runs small; what is left is finished on one thread, and counted.
#![cfg(loom)]

use std::sync::atomic::AtomicUsize as Count;
use std::sync::atomic::Ordering::Relaxed;

mod header;
mod proof;

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Mutex};
use loom::thread;
use xu_abi::{Cursor, SeqId, XuId};
use xu_ring::queue::{
    BatchError, Ends, InstallError, Observer, PeekError, Popped, SubmitError, Submitter, Waiter,
    Worker,
};

use proof::{MUTANT, explore};

const XU: XuId = XuId::from_raw(0x0301);

/// The one fault that a caller can have: read by [`pop`].
const POP_WITHOUT_LOCK: &str = "pop-without-lock";

fn ring<T: Send>(capacity: u64) -> Ends<T> {
    xu_ring::queue::ring(XU, capacity).expect("a few slots")
}

fn seq(number: u64) -> SeqId {
    SeqId::new(XU, Cursor::new(number).expect("48 bits"))
}

/// Submits and triggers the next request, whose payload is its number. `false`: the ring is full.
fn submit(submitter: &mut Submitter<u64>) -> bool {
    let number = submitter.last_submitted().cursor().get() + 1;
    match submitter.submit(Box::new(number)) {
        Ok(submitted) => {
            assert_eq!(submitted, seq(number));
            assert_eq!(submitter.trigger_next(), Ok(seq(number)));
            true
        }
        Err(SubmitError::Full { item, .. }) => {
            assert_eq!(*item, number);
            false
        }
        Err(error) => panic!("{error}"),
    }
}

/// Takes and pops the current request, under the lock if there is one. `None`: there is no request.
fn pop(worker: &mut Worker<u64>, mark_comp_lock: Option<&Mutex<()>>) -> Option<Popped<u64>> {
    let number = worker.last_completed().cursor().get() + 1;
    match worker.peek() {
        Ok(mut current) => {
            assert_eq!(current.seq(), seq(number));
            assert_eq!(current.item(), Some(&mut number.clone()));
        }
        Err(PeekError::Empty) => return None,
        Err(error) => panic!("{error}"),
    }
    // Every other payload stays in the slot until the pop.
    let taken = if number.is_multiple_of(2) {
        worker.take().expect("it is current")
    } else {
        None
    };
    let lock = mark_comp_lock.filter(|_| std::env::var(MUTANT).as_deref() != Ok(POP_WITHOUT_LOCK));
    let guard = lock.map(|lock| lock.lock().expect("nobody panics"));
    let popped = worker.pop().expect("it is current");
    drop(guard);
    assert_eq!(popped.seq, seq(number));
    let item = taken.or_else(|| popped.item.as_ref().map(|item| Box::new(**item)));
    assert_eq!(item.as_deref(), Some(&number));
    Some(popped)
}

/// After a run: everything submitted comes out, and a fresh lap of the ring ends exactly at its capacity.
fn finish(mut submitter: Submitter<u64>, mut worker: Worker<u64>) {
    while pop(&mut worker, None).is_some() {}
    assert_eq!(worker.last_completed(), submitter.last_submitted());
    assert!(submitter.is_idle());
    for depth in 0..submitter.capacity() {
        assert_eq!(submitter.depth(), depth);
        assert!(submit(&mut submitter));
    }
    assert!(!submit(&mut submitter));
    for _ in 0..submitter.capacity() {
        assert!(pop(&mut worker, None).is_some());
    }
    assert!(pop(&mut worker, None).is_none());
}

/// A submitter and a worker, `attempts` tries each.
fn two(capacity: u64, attempts: u64) {
    let (mut submitter, mut worker, _) = ring(capacity);
    let producer = thread::spawn(move || {
        for _ in 0..attempts {
            submit(&mut submitter);
        }
        submitter
    });
    for _ in 0..attempts {
        pop(&mut worker, None);
    }
    finish(producer.join().expect("no panic"), worker);
}

/// As [`two`], and a third thread that waits for request 1 once it sees that it is submitted.
fn three(capacity: u64, attempts: u64) {
    const EFD: i32 = 7;
    let (mut submitter, mut worker, observer) = ring(capacity);
    let mark_comp_lock = Arc::new(Mutex::new(()));
    let producer = thread::spawn(move || {
        for _ in 0..attempts {
            submit(&mut submitter);
        }
        submitter
    });
    let waiting = thread::spawn({
        let mark_comp_lock = mark_comp_lock.clone();
        move || {
            install(
                &observer,
                &mark_comp_lock,
                seq(1),
                Waiter::one_shot(EFD).expect("not negative"),
            )
        }
    });
    let mut signals = 0;
    let mut signal = |popped: Option<Popped<u64>>| {
        if let Some(waiter) = popped.as_ref().and_then(|popped| popped.waiter) {
            assert_eq!(waiter.efd(), EFD);
            assert_eq!(popped.map(|popped| popped.seq), Some(seq(1)));
            signals += 1;
        }
    };
    for _ in 0..attempts {
        signal(pop(&mut worker, Some(&mark_comp_lock)));
    }
    let is_installed = waiting.join().expect("no panic");
    let submitter = producer.join().expect("no panic");
    // Request 1 is popped last of all, if the worker never saw it.
    signal(pop(&mut worker, Some(&mark_comp_lock)));
    assert_eq!(
        signals,
        usize::from(is_installed),
        "a lost or an invented signal"
    );
    finish(submitter, worker);
}

/// Installs a waiter; `false` when the request is complete, or not submitted yet.
fn install(observer: &Observer<u64>, lock: &Mutex<()>, seq: SeqId, waiter: Waiter) -> bool {
    let _guard = lock.lock().expect("nobody panics");
    match observer.install_waiter(seq, waiter) {
        Ok(None) => true,
        Err(InstallError::Completed { .. } | InstallError::NeverIssued(_)) => false,
        Ok(Some(other)) => panic!("{other:?} is not ours"),
        Err(error) => panic!("{error}"),
    }
}

/// Submits and triggers what there is room for; `false`: the ring is full.
fn submit_batch(submitter: &mut Submitter<u64>, items: &mut impl Iterator<Item = u64>) -> bool {
    let next = submitter.last_submitted().cursor().get() + 1;
    match submitter.submit_batch(items.by_ref().map(Box::new)) {
        Ok(batch) => {
            assert!(batch.iter().eq((next..next + batch.len()).map(seq)));
            assert_eq!(submitter.trigger_all(), Ok(batch.len()));
            true
        }
        Err(BatchError::Full { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

/// Pops up to `max` requests, whose payloads must be their numbers.
fn pop_batch(worker: &mut Worker<u64>, max: usize) -> Vec<Popped<u64>> {
    let next = worker.last_completed().cursor().get() + 1;
    let mut popped = Vec::new();
    let count = worker.pop_batch(max, &mut popped).expect("it is sound");
    assert_eq!(popped.len(), count);
    for (popped, number) in popped.iter().zip(next..) {
        assert_eq!(popped.seq, seq(number));
        assert_eq!(popped.item.as_deref(), Some(&number));
    }
    popped
}

/// A submitter and a worker, who make batches of what they find, after `before` requests went through one by one.
///
/// The worker takes up to `max` at once.
fn batches(capacity: u64, before: u64, requests: u64, max: usize) {
    let (mut submitter, mut worker, _) = ring(capacity);
    for _ in 0..before {
        assert!(submit(&mut submitter));
        assert!(pop(&mut worker, None).is_some());
    }
    let producer = thread::spawn(move || {
        let mut items = before + 1..before + 1 + requests;
        for _ in 0..2 {
            submit_batch(&mut submitter, &mut items);
        }
        submitter
    });
    for _ in 0..2 {
        pop_batch(&mut worker, max);
    }
    finish(producer.join().expect("no panic"), worker);
}

mod models {
    use super::*;

    #[test]
    fn two_cap1_n2() {
        explore("two(1,2)", None, 1_000, || two(1, 2));
    }

    #[test]
    fn two_cap2_n3() {
        explore("two(2,3)", None, 120_000, || two(2, 3));
    }

    #[test]
    fn two_cap3_n4() {
        explore("two(3,4)", Some(4), 40_000, || two(3, 4));
    }

    #[test]
    fn batches_cap1() {
        explore("batches(1)", None, 1_000, || batches(1, 0, 2, 2));
    }

    /// The second batch of the submitter begins in the last slot.
    #[test]
    fn batches_cap2() {
        explore("batches(2)", None, 25_000, || batches(2, 1, 3, 3));
    }

    /// The first batch of the submitter passes the end of the slots, and the worker's batches are smaller.
    #[test]
    fn batches_cap3() {
        explore("batches(3)", None, 50_000, || batches(3, 2, 4, 2));
    }

    #[test]
    fn three_cap1_n2() {
        explore("three(1,2)", None, 60_000, || three(1, 2));
    }

    #[test]
    fn three_cap2_n3() {
        explore("three(2,3)", Some(3), 25_000, || three(2, 3));
    }

    /// Two looks at the cursors of a running ring: in order, never backwards.
    #[test]
    fn snapshot() {
        explore("snapshot", Some(3), 70_000, || {
            let (mut submitter, mut worker, observer) = ring(2);
            let producer = thread::spawn(move || {
                for _ in 0..2 {
                    submit(&mut submitter);
                }
                submitter
            });
            let watcher = thread::spawn(move || {
                let first = observer.snapshot();
                let second = observer.snapshot();
                for view in [first, second] {
                    assert!(view.completed <= view.triggered, "{view:?}");
                    assert!(view.triggered <= view.submitted, "{view:?}");
                }
                assert!(first.completed <= second.completed);
                assert!(first.triggered <= second.triggered);
                assert!(first.submitted <= second.submitted);
            });
            for _ in 0..2 {
                pop(&mut worker, None);
            }
            watcher.join().expect("no panic");
            finish(producer.join().expect("no panic"), worker);
        });
    }

    /// The ring runs on between two loads, and still nobody is told of more requests than there are slots.
    #[test]
    fn depth() {
        explore("depth", Some(4), 20_000, || {
            let (mut submitter, mut worker, observer) = ring(1);
            let producer = thread::spawn(move || {
                for _ in 0..2 {
                    submit(&mut submitter);
                }
                submitter
            });
            let watcher = thread::spawn(move || assert!(observer.depth() <= 1));
            for _ in 0..2 {
                pop(&mut worker, None);
            }
            watcher.join().expect("no panic");
            finish(producer.join().expect("no panic"), worker);
        });
    }

    /// Who sees the completion sees the status that was written before it.
    #[test]
    fn status_before_completion() {
        explore("status", None, 10, || {
            let (mut submitter, mut worker, observer) = ring(1);
            let status = Arc::new(UnsafeCell::new(-1));
            assert!(submit(&mut submitter));
            let watcher = thread::spawn({
                let status = status.clone();
                move || {
                    let by_sequence = observer.is_completed(seq(1)).expect("it was issued");
                    if by_sequence || observer.last_completed() == seq(1) {
                        // SAFETY: the worker is done with it, which is what this model shows.
                        assert_eq!(status.with(|status| unsafe { *status }), 0);
                    }
                }
            });
            // SAFETY: nobody reads it before request 1 is complete.
            status.with_mut(|status| unsafe { *status = 0 });
            assert!(pop(&mut worker, None).is_some());
            watcher.join().expect("no panic");
        });
    }

    /// The submitter asks about its own requests, and sees what the worker did for those that are complete.
    /// Both wait for each other here, so that every run comes to the second lap.
    #[test]
    fn poll() {
        explore("poll", Some(3), 18_000, || {
            const REQUESTS: u64 = 2;
            let (mut submitter, mut worker, _) = ring(1);
            let answers = Arc::new([(); 3].map(|()| UnsafeCell::new(0)));
            let producer = thread::spawn({
                let answers = answers.clone();
                move || {
                    let assert_visible = |number: u64| {
                        // SAFETY: the worker is done with it, which is what this model shows.
                        let answer = answers[number as usize].with(|answer| unsafe { *answer });
                        assert_eq!(answer, number);
                    };
                    for number in 1..=REQUESTS {
                        while submitter.submit(Box::new(number)).is_err() {
                            thread::yield_now();
                        }
                        assert!(submitter.is_completed(seq(number + 1)).is_err());
                        assert_eq!(submitter.is_completed(seq(number)), Ok(false), "held back");
                        submitter.trigger_next().expect("it is held back");
                        for earlier in 1..number {
                            assert_eq!(submitter.is_completed(seq(earlier)), Ok(true));
                            assert_visible(earlier);
                        }
                        while submitter.is_completed(seq(number)) == Ok(false) {
                            thread::yield_now();
                        }
                        assert_visible(number);
                    }
                    submitter
                }
            });
            for number in 1..=REQUESTS {
                while worker.peek().is_err() {
                    thread::yield_now();
                }
                // SAFETY: nobody reads it before the request is complete.
                answers[number as usize].with_mut(|answer| unsafe { *answer = number });
                assert!(pop(&mut worker, None).is_some());
            }
            finish(producer.join().expect("no panic"), worker);
        });
    }

    /// As `three`, with batches, and a waiter for the second request of one.
    #[test]
    fn batch_and_waiter() {
        const EFD: i32 = 7;
        explore("batch_and_waiter", Some(4), 30_000, || {
            let (mut submitter, mut worker, observer) = ring(2);
            let mark_comp_lock = Arc::new(Mutex::new(()));
            let producer = thread::spawn(move || {
                assert!(submit_batch(&mut submitter, &mut (1..3)));
                submitter
            });
            let waiting = thread::spawn({
                let lock = mark_comp_lock.clone();
                move || {
                    let waiter = Waiter::one_shot(EFD).expect("not negative");
                    install(&observer, &lock, seq(2), waiter)
                }
            });
            let mut popped = Vec::new();
            let mut pop = |popped: &mut Vec<_>| {
                let _guard = mark_comp_lock.lock().expect("nobody panics");
                popped.extend(pop_batch(&mut worker, 2));
            };
            for _ in 0..2 {
                pop(&mut popped);
            }
            let is_installed = waiting.join().expect("no panic");
            let submitter = producer.join().expect("no panic");
            pop(&mut popped);
            let signals: Vec<_> = popped
                .iter()
                .filter_map(|popped| Some((popped.seq, popped.waiter?.efd())))
                .collect();
            let expected = is_installed.then_some((seq(2), EFD));
            assert!(signals.into_iter().eq(expected));
            finish(submitter, worker);
        });
    }

    /// Without the lock a waiter may be forgotten, but a descriptor is never found with a flag that is not its own.
    #[test]
    fn waiter_without_lock() {
        explore("waiter_without_lock", None, 12, || {
            let (mut submitter, mut worker, observer) = ring(1);
            let waiter = Waiter::pooled(7).expect("not negative");
            assert!(submit(&mut submitter));
            let installing = thread::spawn(move || observer.install_waiter(seq(1), waiter));
            let popped = worker.pop().expect("it is triggered");
            assert!(popped.waiter.is_none_or(|found| found == waiter));
            match installing.join().expect("no panic") {
                Ok(replaced) => assert_eq!(replaced, None),
                Err(error) => assert_eq!(error, InstallError::Completed { seq: seq(1) }),
            }
        });
    }

    /// A waiter is either taken back or signalled.
    #[test]
    fn remove_or_pop() {
        explore("remove_or_pop", None, 5, || {
            let (mut submitter, mut worker, observer) = ring(1);
            let waiter = Waiter::pooled(7).expect("not negative");
            let mark_comp_lock = Arc::new(Mutex::new(()));
            assert!(submit(&mut submitter));
            assert!(install(&observer, &mark_comp_lock, seq(1), waiter));
            let giving_up = thread::spawn({
                let lock = mark_comp_lock.clone();
                move || {
                    let _guard = lock.lock().expect("nobody panics");
                    observer.remove_waiter(seq(1), waiter)
                }
            });
            let popped = pop(&mut worker, Some(&mark_comp_lock)).expect("it is triggered");
            match giving_up.join().expect("no panic") {
                Ok(is_removed) => {
                    assert!(is_removed, "no other waiter is there");
                    assert_eq!(popped.waiter, None, "a signal for nobody");
                }
                Err(error) => {
                    assert_eq!(error, InstallError::Completed { seq: seq(1) });
                    assert_eq!(popped.waiter, Some(waiter), "a lost signal");
                }
            }
            finish(submitter, worker);
        });
    }

    /// Without the lock the worker may signal a waiter that was removed, but the waiter that came after it stays.
    #[test]
    fn remove_without_lock() {
        explore("remove_without_lock", None, 100, || {
            let (mut submitter, mut worker, observer) = ring(1);
            let [first, second] = [7, 8].map(|efd| Waiter::pooled(efd).expect("not negative"));
            assert!(submit(&mut submitter));
            observer.install_waiter(seq(1), first).expect("outstanding");
            let installing = thread::spawn({
                let observer = observer.clone();
                move || observer.install_waiter(seq(1), second)
            });
            let is_removed = observer.remove_waiter(seq(1), first);
            let replaced = installing.join().expect("no panic").expect("outstanding");
            assert_eq!(is_removed, Ok(replaced.is_none()));
            let popped = pop(&mut worker, None).expect("it is triggered");
            assert_eq!(popped.waiter, Some(second));
        });
    }

    #[test]
    fn header_reused() {
        explore("header_reused", None, 10, header::reused);
    }

    #[test]
    fn header_watched() {
        explore("header_watched", None, 10, header::watched);
    }

    /// Two requests triggered at once, and one more as soon as there is room.
    #[test]
    fn trigger_all() {
        explore("trigger_all", None, 1_500, || {
            let (mut submitter, mut worker, _) = ring(2);
            let producer = thread::spawn(move || {
                for number in 1..=2 {
                    assert_eq!(submitter.submit(Box::new(number)).ok(), Some(seq(number)));
                }
                assert_eq!(submitter.peek_next_trigger().expect("held back").item(), &1);
                assert_eq!(submitter.trigger_all(), Ok(2));
                submit(&mut submitter);
                submitter
            });
            for _ in 0..2 {
                pop(&mut worker, None);
            }
            finish(producer.join().expect("no panic"), worker);
        });
    }

    /// Whichever end goes last drops what is left, once.
    #[test]
    fn any_end_goes_last() {
        explore("any_end_goes_last", None, 4_000, || {
            let drops = std::sync::Arc::new(Count::new(0));
            let (mut submitter, mut worker, observer) = ring(3);
            let producer = thread::spawn({
                let drops = drops.clone();
                move || {
                    for _ in 0..2 {
                        submitter
                            .submit(Box::new(Payload(drops.clone())))
                            .expect("room for three");
                    }
                    submitter.trigger_next().expect("two are held back");
                }
            });
            let consumer = thread::spawn(move || {
                if let Ok(popped) = worker.pop() {
                    drop(popped.item);
                }
            });
            drop(observer);
            producer.join().expect("no panic");
            consumer.join().expect("no panic");
            assert_eq!(drops.load(Relaxed), 2);
        });
    }

    /// The same in the middle of batches.
    #[test]
    fn any_end_goes_last_with_batches() {
        explore("any_end_goes_last_with_batches", None, 4_000, || {
            let drops = std::sync::Arc::new(Count::new(0));
            let (mut submitter, mut worker, observer) = ring(2);
            let producer = thread::spawn({
                let drops = drops.clone();
                move || {
                    let items = (0..3).map(|_| Box::new(Payload(drops.clone())));
                    submitter.submit_batch(items).expect("there is room");
                    submitter.trigger_all().expect("it is sound");
                }
            });
            let consumer = thread::spawn(move || {
                let mut popped = Vec::new();
                worker.pop_batch(1, &mut popped).expect("it is sound");
            });
            drop(observer);
            producer.join().expect("no panic");
            consumer.join().expect("no panic");
            assert_eq!(drops.load(Relaxed), 2);
        });
    }

    struct Payload(std::sync::Arc<Count>);

    impl Drop for Payload {
        fn drop(&mut self) {
            self.0.fetch_add(1, Relaxed);
        }
    }
}

/// Each fault must be noticed by each model that is named for it.
mod mutants {
    use super::POP_WITHOUT_LOCK;
    use super::proof::{assert_killed, killed};
    use xu_ring::Mutant;

    killed! {
        submitted_store: SubmittedStore by three_cap1_n2, three_cap2_n3, batch_and_waiter;
        submitted_load: SubmittedLoad by three_cap1_n2, three_cap2_n3, batch_and_waiter;
        triggered_store: TriggeredStore by snapshot;
        triggered_load: TriggeredLoad by snapshot;
        completed_store: CompletedStore by two_cap1_n2, two_cap2_n3, two_cap3_n4, batches_cap1, status_before_completion, header_watched;
        completed_load_by_submitter: CompletedLoadBySubmitter by two_cap1_n2, two_cap2_n3, two_cap3_n4, batches_cap1, trigger_all;
        completed_load_by_observer: CompletedLoadByObserver by snapshot, status_before_completion, header_watched;
        stage_store_by_trigger: StageStoreByTrigger by two_cap1_n2, two_cap2_n3, two_cap3_n4, batches_cap2, trigger_all;
        stage_load_by_worker: StageLoadByWorker by two_cap1_n2, two_cap2_n3, two_cap3_n4, batches_cap2, trigger_all;
        stage_store_by_pop: StageStoreByPop by poll;
        stage_load_by_submitter: StageLoadBySubmitter by poll;
        waiter_store: WaiterStore by waiter_without_lock;
        waiter_load: WaiterLoad by waiter_without_lock;
        share_release: ShareRelease by any_end_goes_last, any_end_goes_last_with_batches;
        share_acquire: ShareAcquire by any_end_goes_last, any_end_goes_last_with_batches;
        header_claim: HeaderClaim by header_reused;
        header_clear: HeaderClear by header_reused;
        publish_before_body: PublishBeforeBody by three_cap1_n2, three_cap2_n3;
        batch_before_body: BatchBeforeBody by batch_and_waiter;
        stage_not_reset: StageNotReset by poll;
        waiter_not_reset: WaiterNotReset by three_cap1_n2;
        full_off_by_one: FullOffByOne by two_cap1_n2, two_cap2_n3, two_cap3_n4, three_cap1_n2, batches_cap1, batches_cap2, trigger_all;
        stage_before_triggered: StageBeforeTriggered by snapshot;
        capture_after_pop: CaptureAfterPop by three_cap1_n2, three_cap2_n3;
        done_after_completed: DoneAfterCompleted by two_cap1_n2, two_cap2_n3, two_cap3_n4;
        never_done: NeverDone by two_cap1_n2, two_cap2_n3, two_cap3_n4, batches_cap1, batches_cap2, batches_cap3;
        batch_before_capture: BatchBeforeCapture by batches_cap1, batches_cap2, batches_cap3;
        lap_off_by_one: LapOffByOne by poll;
        waiter_flag_last: WaiterFlagLast by waiter_without_lock;
        waiter_not_removed: WaiterNotRemoved by remove_or_pop;
        snapshot_backwards: SnapshotBackwards by snapshot;
    }

    #[test]
    fn every_mutant_is_listed() {
        let of_the_queue: Vec<_> = Mutant::ALL
            .iter()
            .copied()
            .filter(|mutant| !mutant.name().starts_with("spsc"))
            .collect();
        assert_eq!(LISTED, of_the_queue);
    }

    /// The one fault that is the caller's: without `mark_comp_lock` a waiter can be forgotten, or signalled after it
    /// was taken back.
    #[test]
    fn pop_without_lock() {
        assert_killed(POP_WITHOUT_LOCK, "models::three_cap1_n2");
        assert_killed(POP_WITHOUT_LOCK, "models::remove_or_pop");
    }

    /// No fault, no failure: otherwise a kill would prove nothing.
    #[test]
    #[should_panic(expected = "survives")]
    fn no_mutant() {
        assert_killed("none", "models::two_cap1_n2");
    }
}
