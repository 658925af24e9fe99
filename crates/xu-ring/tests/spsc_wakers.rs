//! Wakers are foreign code: what happens to a queue when one of them panics, or outlives its wait.
#![cfg(not(loom))]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};

use xu_ring::spsc::parking::{self, Receiver, Sender};
use xu_ring::spsc::{Inline, Storage};

/// Panics when it is to wake.
struct Bad;

impl Wake for Bad {
    fn wake(self: Arc<Self>) {
        panic!("a bad waker");
    }
}

/// Counts how often it woke.
#[derive(Default)]
struct Counting(AtomicUsize);

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A full queue of one slot whose sender waits with `waker`.
fn wait_for_room<T, S: Storage<T>>(sender: &mut Sender<T, S>, waker: &Waker) {
    let mut context = Context::from_waker(waker);
    assert!(sender.poll_ready(&mut context).is_pending());
}

fn drop_caught<T>(value: T) -> bool {
    catch_unwind(AssertUnwindSafe(|| drop(value))).is_err()
}

#[test]
fn r5_waker_that_panics_when_an_end_goes_leaks_nothing() {
    let value = Arc::new(());
    let (mut sender, receiver) = parking::channel(1).expect("one slot");
    sender.try_send(value.clone()).expect("room");
    wait_for_room(&mut sender, &Waker::from(Arc::new(Bad)));
    assert!(drop_caught(receiver));
    drop(sender);
    assert_eq!(Arc::strong_count(&value), 1, "the value was dropped");
}

#[test]
fn r5_waker_that_panics_leaves_a_queue_in_place_usable() {
    let queue = Inline::<u32, 1>::new();
    let (mut sender, receiver) = parking::split(&queue).expect("nobody has it");
    sender.try_send(7).expect("room");
    wait_for_room(&mut sender, &Waker::from(Arc::new(Bad)));
    assert!(drop_caught(receiver));
    drop(sender);
    let (_, mut receiver) = parking::split(&queue).expect("both ends are gone");
    assert_eq!(receiver.try_recv(), Ok(7));
}

#[test]
fn r5_an_end_that_goes_takes_its_waker_along() {
    let counting = Arc::new(Counting::default());
    let waker = Waker::from(counting.clone());
    let (mut sender, mut receiver): (_, Receiver<u32>) = parking::channel(1).expect("one slot");
    let mut context = Context::from_waker(&waker);
    assert_eq!(receiver.poll_recv(&mut context), Poll::Pending);
    drop(receiver);
    drop(waker);
    assert_eq!(Arc::strong_count(&counting), 1, "nobody keeps it");
    assert!(sender.try_send(1).is_err());
    assert_eq!(counting.0.load(Ordering::Relaxed), 0, "nobody waits");
}

/// A waker that cannot be cloned.
fn unclonable() -> Waker {
    static TABLE: RawWakerVTable =
        RawWakerVTable::new(|_| panic!("no clone"), |_| (), |_| (), |_| ());
    // SAFETY: the functions ignore their argument, so any pointer will do.
    unsafe { Waker::from_raw(RawWaker::new(std::ptr::null(), &TABLE)) }
}

#[test]
fn r5_waker_that_cannot_be_cloned_does_not_deafen_the_end() {
    let (mut sender, mut receiver) = parking::channel(1).expect("one slot");
    let waker = unclonable();
    let polled = catch_unwind(AssertUnwindSafe(|| {
        receiver.poll_recv(&mut Context::from_waker(&waker))
    }));
    assert!(polled.is_err());
    let counting = Arc::new(Counting::default());
    let waker = Waker::from(counting.clone());
    let mut context = Context::from_waker(&waker);
    assert_eq!(receiver.poll_recv(&mut context), Poll::Pending);
    sender.try_send(5).expect("room");
    assert_eq!(counting.0.load(Ordering::Relaxed), 1, "it was woken");
    assert_eq!(receiver.poll_recv(&mut context), Poll::Ready(Some(5)));
}
