//! Places that are reserved: nobody else gets them, nobody waits longer for them than they are held, nothing closes later.
#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

mod steered;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;
use steered::{Bench, CountingWaker, Steered, counting, fatal, request};
use xu_abi::Status;
use xu_worker::{
    Health, Progress, Refusal, Reservation, ReserveFuture, Runner, StageError, Step, Unit,
};

fn is_full<T>(answer: Result<T, Refusal>) -> bool {
    matches!(answer, Err(Refusal::QueueFull { .. }))
}

/// A future of a place, and how often it is woken.
struct Waiting<'a> {
    future: ReserveFuture<&'a Unit<Steered>>,
    woken: Arc<CountingWaker>,
    waker: Waker,
}

impl<'a> Waiting<'a> {
    /// Not polled yet.
    fn new(unit: &'a Unit<Steered>) -> Self {
        let (woken, waker) = counting();
        Self {
            future: unit.reserve(),
            woken,
            waker,
        }
    }

    fn poll(&mut self) -> Poll<Result<Reservation<&'a Unit<Steered>>, Refusal>> {
        Pin::new(&mut self.future).poll(&mut Context::from_waker(&self.waker))
    }

    /// Polled once, and pending.
    fn begun(unit: &'a Unit<Steered>) -> Self {
        let mut waiting = Self::new(unit);
        assert!(waiting.poll().is_pending());
        waiting
    }
}

#[test]
fn f5_a_reserved_place_counts_for_everybody_but_its_holder() {
    let mut bench = Bench::new(2);
    let _running = bench.submit(1).unwrap();
    let place = bench.unit.try_reserve().unwrap();
    assert_eq!((bench.unit.depth(), bench.unit.reserved()), (1, 1));
    let staged = bench.controls.lock().unwrap().log.len();
    for id in 0..1_000 {
        let refused = bench.unit.submit(bench.request(id)).unwrap_err();
        assert!(refused.is_full());
        assert_eq!(refused.item.unwrap().id, id);
        assert!(is_full(bench.unit.try_reserve()));
    }
    assert_eq!(bench.controls.lock().unwrap().log.len(), staged);
    let accepted = place.submit(bench.request(2)).unwrap();
    assert_eq!(accepted.seq.cursor().get(), 2, "the next sequence");
    assert_eq!((bench.unit.depth(), bench.unit.reserved()), (2, 0));
    for id in [1, 2] {
        bench.answer(Progress::Done(Status::SUCCESS));
        assert_eq!(bench.runner.step(), Step::Completed);
        assert_eq!(bench.unit.last_completed().cursor().get(), id);
    }
    assert_eq!(accepted.completion.wait(), Ok(2));
}

#[test]
fn f5_all_places_can_be_reserved_and_each_takes_one_request() {
    let bench = Bench::new(3);
    let places: Vec<_> = (0..3).map(|_| bench.unit.try_reserve().unwrap()).collect();
    assert!(is_full(bench.unit.try_reserve()));
    assert!(is_full(bench.submit(9)));
    for (id, place) in (1..).zip(places) {
        let seq = place.post(bench.request(id)).unwrap();
        assert_eq!(seq.cursor().get(), u64::from(id));
    }
    assert!(is_full(bench.submit(9)));
}

#[test]
fn f5_a_place_that_is_given_back_is_room_again() {
    let bench = Bench::new(1);
    let place = bench.unit.try_reserve().unwrap();
    assert!(is_full(bench.unit.try_reserve()));
    drop(place);
    assert_eq!(bench.unit.reserved(), 0);
    let _running = bench.submit(1).unwrap();
}

#[test]
fn f5_asking_for_a_place_in_a_full_queue_counts_as_no_refused_request() {
    let bench = Bench::new(1);
    let _place = bench.unit.try_reserve().unwrap();
    assert!(is_full(bench.unit.try_reserve()));
    assert_eq!(bench.unit.snapshot().queue_full, 0);
    assert!(is_full(bench.submit(1)));
    let snapshot = bench.unit.snapshot();
    assert_eq!((snapshot.queue_full, snapshot.reserved), (1, 1));
}

#[test]
fn f5_a_place_that_is_given_back_wakes_who_waits_for_one_and_who_waits_for_room() {
    let bench = Bench::new(2);
    let places = [(); 2].map(|()| bench.unit.try_reserve().unwrap());
    let mut reserving = Waiting::begun(&bench.unit);
    let (woken, waker) = counting();
    let mut room = bench.unit.room();
    let mut poll_room = || Pin::new(&mut room).poll(&mut Context::from_waker(&waker));
    assert!(poll_room().is_pending());
    let [first, second] = places;
    drop(first);
    assert_eq!(
        (reserving.woken.count(), woken.count()),
        (1, 0),
        "the oldest"
    );
    let Poll::Ready(Ok(place)) = reserving.poll() else {
        panic!("it was woken for a place");
    };
    assert!(poll_room().is_pending());
    drop(second);
    assert_eq!(woken.count(), 1);
    assert!(poll_room().is_ready());
    drop(place);
}

#[test]
fn f5_a_completion_wakes_who_waits_for_a_place() {
    let mut bench = Bench::new(1);
    let _running = bench.submit(1).unwrap();
    let Bench {
        ref unit,
        ref mut runner,
        ref controls,
        ..
    } = bench;
    let mut waiting = Waiting::begun(unit);
    for _ in 0..1_000 {
        assert!(waiting.poll().is_pending());
    }
    assert_eq!(Arc::strong_count(&waiting.woken), 3, "one stored waker");
    let done = Progress::Done(Status::SUCCESS);
    controls.lock().unwrap().answers.push(done);
    runner.step();
    assert_eq!(waiting.woken.count(), 1);
    assert!(matches!(waiting.poll(), Poll::Ready(Ok(_))));
    assert!(waiting.poll().is_pending(), "it has resolved");
}

#[test]
fn f5_a_future_that_goes_passes_its_wake_up_on() {
    let bench = Bench::new(2);
    let place = bench.unit.try_reserve().unwrap();
    let _other = bench.unit.try_reserve().unwrap();
    let (first, mut second) = (Waiting::begun(&bench.unit), Waiting::begun(&bench.unit));
    drop(place);
    assert_eq!((first.woken.count(), second.woken.count()), (1, 0));
    // It was woken, and does not want the place any more.
    let woken = Arc::clone(&first.woken);
    drop(first);
    assert_eq!(Arc::strong_count(&woken), 1, "its waker has gone, too");
    assert_eq!(second.woken.count(), 1);
    assert!(matches!(second.poll(), Poll::Ready(Ok(_))));
}

#[test]
fn f5_a_future_that_was_never_woken_leaves_nothing_behind() {
    let bench = Bench::new(1);
    let place = bench.unit.try_reserve().unwrap();
    let waiting = Waiting::begun(&bench.unit);
    let woken = Arc::clone(&waiting.woken);
    drop(waiting);
    assert_eq!(Arc::strong_count(&woken), 1);
    drop(Waiting::new(&bench.unit));
    drop(place);
    assert_eq!(woken.count(), 0);
    assert_eq!(bench.unit.reserved(), 0);
}

#[test]
fn f5_a_deadline_that_has_passed_asks_once() {
    let bench = Bench::new(1);
    let passed = Some(Instant::now());
    let place = bench.unit.reserve_until(passed).unwrap();
    assert!(!bench.unit.wait_room(passed), "a place takes room");
    assert!(is_full(bench.unit.reserve_until(passed)));
    assert_eq!(bench.unit.reserved(), 1);
    drop(place);
    drop(bench.unit.reserve_until(None).unwrap());
}

#[test]
fn f7_closing_refuses_what_has_a_place_and_waits_for_no_holder() {
    let mut bench = Bench::new(1);
    let place = bench.unit.try_reserve().unwrap();
    let mut waiting = Waiting::begun(&bench.unit);
    bench.unit.close();
    assert!(bench.unit.is_drained());
    bench.unit.drain();
    let closing = |refusal: &Refusal| matches!(refusal, Refusal::Closing { .. });
    assert_eq!(waiting.woken.count(), 1);
    assert!(matches!(waiting.poll(), Poll::Ready(Err(refusal)) if closing(&refusal)));
    // What is promised in a closing unit keeps nobody from hearing so, and is in nobody's way.
    assert!(closing(&bench.submit(1).unwrap_err()));
    assert!(closing(&bench.unit.reserve_until(None).unwrap_err()));
    // To who waits for room it says so, too.
    assert!(bench.unit.wait_room(Some(Instant::now())));
    let refused = place.submit(bench.request(2)).unwrap_err();
    assert!(closing(&refused.reason));
    assert_eq!(refused.item.unwrap().id, 2);
    assert_eq!(bench.unit.reserved(), 0, "it was given back");
    let stop = bench.unit.schedule_stop().unwrap();
    assert_eq!(bench.runner.step(), Step::Completed);
    assert_eq!(stop.completion.wait(), Ok(()));
}

#[test]
fn f6_a_degraded_unit_refuses_what_has_a_place_and_lets_everybody_go_who_waits_for_one() {
    let mut bench = Bench::new(2);
    let _running = bench.submit(1).unwrap();
    let Bench {
        ref unit,
        ref mut runner,
        ref controls,
        ..
    } = bench;
    let place = unit.try_reserve().unwrap();
    let mut waiting = Waiting::begun(unit);
    controls
        .lock()
        .unwrap()
        .answers
        .push(fatal(Status::TIMEOUT));
    runner.step();
    assert_eq!(unit.health(), Health::Degraded);
    let degraded = |refusal: &Refusal| matches!(refusal, Refusal::Degraded { .. });
    assert!(waiting.woken.count() >= 1);
    assert!(matches!(waiting.poll(), Poll::Ready(Err(refusal)) if degraded(&refusal)));
    for _ in 0..3 {
        assert!(degraded(&unit.try_reserve().unwrap_err()));
        assert!(degraded(&unit.reserve_until(None).unwrap_err()));
    }
    let refused = place.submit(request(2)).unwrap_err();
    assert!(degraded(&refused.reason) && refused.item.is_some());
    assert_eq!(unit.reserved(), 0);
}

#[test]
fn d8_a_request_that_cannot_be_prepared_gives_its_place_back_and_wakes_who_waits() {
    let bench = Bench::new(1);
    let place = bench.unit.try_reserve().unwrap();
    let mut waiting = Waiting::begun(&bench.unit);
    bench.controls.lock().unwrap().prepare = Some(StageError {
        status: Status::RESOURCE,
        text: "no memory".into(),
    });
    let refused = place.submit(bench.request(1)).unwrap_err();
    assert_eq!(refused.reason.status(), Status::RESOURCE);
    assert_eq!(refused.item.unwrap().id, 1);
    assert_eq!(waiting.woken.count(), 1);
    assert!(matches!(waiting.poll(), Poll::Ready(Ok(_))));
}

#[test]
fn f7_a_place_outlives_what_runs_the_unit() {
    let bench = Bench::new(1);
    let unit = Arc::new(bench.unit);
    let place = Reservation::try_new(Arc::clone(&unit)).unwrap();
    drop(bench.runner);
    drop(unit);
    let refused = place.submit(request(1)).unwrap_err();
    assert!(matches!(refused.reason, Refusal::Degraded { .. }));
}
