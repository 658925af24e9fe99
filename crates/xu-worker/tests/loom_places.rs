//! Every interleaving of small runs in which places are reserved, given back and used, and the proof that each rule is needed.
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" cargo test -p xu-worker --profile loom --test loom_places -- --show-output
//! ```
//!
//! The code is that of the product. No request completes where a model does not say so: whoever is not woken by a place that
//! is given back waits for ever, which loom reports as a deadlock.
#![cfg(loom)]

mod proof;

use loom::future::block_on;
use loom::thread;
use proof::explore;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use xu_abi::{Status, XuId, XuType};
use xu_worker::mutant::Mutant;
use xu_worker::{
    Cause, Engine, PollPolicy, Progress, Refusal, Reservation, ReserveFuture, Runner, Stage,
    StageError, Step, Unit, UnitOptions, UnitRunner,
};

/// An engine that is done at once.
struct AtOnce;

impl Stage for AtOnce {
    type Item = u32;
    type Outcome = u32;

    fn prepare(&mut self, _: &mut u32) -> Result<(), StageError> {
        Ok(())
    }

    fn commit(&mut self, _: &mut u32) -> Result<(), StageError> {
        Ok(())
    }
}

impl Engine for AtOnce {
    type Item = u32;
    type Outcome = u32;

    fn begin(&mut self, _: &mut u32) {}

    fn progress(&mut self, _: &mut u32) -> Progress {
        Progress::Done(Status::SUCCESS)
    }

    fn quiesce(&mut self) -> Result<(), Cause> {
        Ok(())
    }

    fn finish(&mut self, item: u32, _: Status) -> u32 {
        item
    }
}

type Shared = Arc<Unit<AtOnce>>;

fn unit(limit: u64) -> (Shared, UnitRunner<AtOnce>) {
    let xu = XuId::new(XuType::Compute, 0, 0).expect("exists");
    let options = UnitOptions {
        limit,
        policy: PollPolicy::Adaptive,
        ..UnitOptions::default()
    };
    let (unit, runner) = Unit::new(xu, &options, AtOnce, AtOnce).expect("in memory");
    (Arc::new(unit), runner)
}

fn reserve(unit: &Shared) -> Reservation<Shared> {
    Reservation::try_new(Arc::clone(unit)).expect("there is room")
}

/// A place is given back while a thread waits for room.
fn give_back_against_wait() {
    let (unit, _runner) = unit(1);
    let place = reserve(&unit);
    let giver = thread::spawn(move || drop(place));
    assert!(unit.wait_room(None));
    unit.post(1).expect("there is room");
    giver.join().expect("no panic");
}

/// A place is given back while a task waits for one.
fn give_back_against_reserve() {
    let (unit, _runner) = unit(1);
    let place = reserve(&unit);
    let giver = thread::spawn(move || drop(place));
    let place = block_on(ReserveFuture::new(Arc::clone(&unit))).expect("healthy");
    assert!(matches!(
        unit.post(1).expect_err("full").reason,
        Refusal::QueueFull { .. }
    ));
    place.post(1).expect("it is ours");
    giver.join().expect("no panic");
}

/// Counts wakes.
#[derive(Default)]
struct Counting(AtomicUsize);

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A place is given back while a task asks for room: it is woken, or it sees the room.
fn give_back_against_poll() {
    let (unit, _runner) = unit(1);
    let place = reserve(&unit);
    let giver = thread::spawn(move || drop(place));
    let counting = Arc::new(Counting::default());
    let waker = Waker::from(Arc::clone(&counting));
    let mut room = unit.room();
    let first = Pin::new(&mut room).poll(&mut Context::from_waker(&waker));
    giver.join().expect("no panic");
    if first.is_pending() {
        assert_eq!(counting.0.load(Ordering::SeqCst), 1, "it must be woken");
    }
}

/// One of two places is used while a thread waits for room, of which there is some all the time.
fn use_against_wait() {
    let (unit, _runner) = unit(2);
    let place = reserve(&unit);
    let user = thread::spawn(move || place.post(1).expect("it is ours"));
    assert!(unit.wait_room(None));
    unit.post(2).expect("there is room");
    user.join().expect("no panic");
}

/// The worker completes and a place is given back while a thread waits for both slots, one after the other.
fn give_back_against_completion() {
    let (unit, mut runner) = unit(2);
    unit.post(1).expect("there is room");
    let place = reserve(&unit);
    let giver = thread::spawn(move || drop(place));
    let worker = thread::spawn(move || {
        assert_eq!(runner.step(), Step::Completed);
        runner
    });
    for number in [2, 3] {
        let place = Reservation::wait(Arc::clone(&unit), None).expect("healthy");
        place.post(number).expect("it is ours");
    }
    giver.join().expect("no panic");
    drop(worker.join().expect("no panic"));
}

/// A task that waits goes, perhaps with the wake-up that was for somebody: the thread that waits, too, gets the place.
fn cancel_against_give_back() {
    let (unit, _runner) = unit(1);
    let place = reserve(&unit);
    let waiting = {
        let unit = Arc::clone(&unit);
        thread::spawn(move || {
            let mut waiting = ReserveFuture::new(unit);
            let mut cx = Context::from_waker(Waker::noop());
            match Pin::new(&mut waiting).poll(&mut cx) {
                Poll::Ready(place) => drop(place.expect("healthy")),
                Poll::Pending => drop(waiting),
            }
        })
    };
    let giver = thread::spawn(move || drop(place));
    let place = block_on(ReserveFuture::new(Arc::clone(&unit))).expect("healthy");
    place.post(1).expect("it is ours");
    giver.join().expect("no panic");
    waiting.join().expect("no panic");
}

/// The unit closes while a thread waits for a place that nobody gives back.
fn close_against_reserve() {
    let (unit, _runner) = unit(1);
    let place = reserve(&unit);
    let closer = {
        let unit = Arc::clone(&unit);
        thread::spawn(move || unit.close())
    };
    let refusal = Reservation::wait(Arc::clone(&unit), None).expect_err("closing");
    assert!(matches!(refusal, Refusal::Closing { .. }));
    closer.join().expect("no panic");
    assert!(unit.is_drained());
    let refused = place.post(1).expect_err("closing");
    assert!(matches!(refused.reason, Refusal::Closing { .. }));
}

mod models {
    use super::*;

    macro_rules! models {
        ($($name:ident: $preemptions:expr, $at_least:literal;)*) => {
            $(#[test]
            fn $name() {
                explore(stringify!($name), $preemptions, $at_least, super::$name);
            })*
        };
    }

    models! {
        give_back_against_wait: None, 1_000;
        give_back_against_reserve: None, 500;
        give_back_against_poll: None, 40;
        use_against_wait: None, 300;
        give_back_against_completion: Some(2), 20_000;
        cancel_against_give_back: Some(2), 10_000;
        close_against_reserve: None, 50;
    }
}

mod mutants {
    use super::*;
    use proof::killed;

    killed! {
        give_back_without_lock: GiveBackWithoutLock by give_back_against_wait, give_back_against_poll;
        spend_after_request: SpendAfterRequest by use_against_wait;
        give_back_silently: GiveBackSilently by give_back_against_wait, give_back_against_reserve, cancel_against_give_back;
        room_no_second_look: RoomNoSecondLook by give_back_against_reserve;
    }

    #[test]
    fn every_mutant_is_listed() {
        assert_eq!(LISTED, Mutant::PLACES);
    }
}
