//! Ends that wait, in tasks and in threads: nobody sleeps for ever, and a wait that is given up changes nothing.
//!
//! Short enough to run under Miri too, with `--all-features`.
#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests may panic as tests may"
)]

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use xu_ring::spsc::Inline;
use xu_ring::spsc::parking::{
    self, Closed, Receiver, RecvTimeoutError, Sender, TryRecvError, TrySendError,
};

const VALUES: u64 = if cfg!(miri) { 30 } else { 20_000 };
const ROUNDS: u64 = if cfg!(miri) { 5 } else { 2_000 };
const CAPACITIES: [usize; 4] = [1, 2, 3, 64];

/// Counts how often it is woken.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Bell {
    /// How often since the last question.
    fn rings(&self) -> usize {
        self.0.swap(0, Ordering::Relaxed)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn bell() -> (Arc<Bell>, Waker) {
    let bell = Arc::new(Bell::default());
    (bell.clone(), Waker::from(bell))
}

/// Wakes the thread that runs [`block_on`].
struct Parked(Thread, AtomicBool);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        // PAIRS: with the swap in `block_on`.
        self.1.store(true, Ordering::Release);
        self.0.unpark();
    }
}

/// The smallest executor: polls when it was woken, and only then.
fn block_on<R>(future: impl Future<Output = R>) -> R {
    let mut future = pin!(future);
    let parked = Arc::new(Parked(thread::current(), AtomicBool::new(false)));
    let waker = Waker::from(parked.clone());
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return result;
        }
        // PAIRS: with the store in `wake`.
        while !parked.1.swap(false, Ordering::Acquire) {
            thread::park();
        }
    }
}

fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    parking::channel(capacity).unwrap()
}

/// Lets the other side come first, now and then.
fn dawdle(number: u64) {
    if number.is_multiple_of(5) {
        for _ in 0..number % 4 {
            thread::yield_now();
        }
    }
}

#[test]
fn r2_threads_pass_everything_on() {
    for capacity in CAPACITIES {
        for slow in [0, 1] {
            let (mut sender, mut receiver) = channel(capacity);
            thread::scope(|scope| {
                scope.spawn(move || {
                    for number in 0..VALUES {
                        sender.send_blocking(Box::new(number)).unwrap();
                        dawdle(number * slow);
                    }
                });
                for number in 0..VALUES {
                    assert_eq!(receiver.recv_blocking().as_deref(), Some(&number));
                    dawdle(number * (1 - slow));
                }
                assert_eq!(receiver.recv_blocking(), None);
                assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
            });
        }
    }
}

#[test]
fn r2_tasks_pass_everything_on() {
    for capacity in CAPACITIES {
        let (mut sender, mut receiver) = channel(capacity);
        thread::scope(|scope| {
            scope.spawn(move || {
                block_on(async {
                    for number in 0..VALUES {
                        if number.is_multiple_of(2) {
                            sender.send(Box::new(number)).await.unwrap();
                        } else {
                            sender.ready().await.unwrap();
                            sender.try_send(Box::new(number)).unwrap();
                        }
                    }
                });
            });
            block_on(async {
                for number in 0..VALUES {
                    assert_eq!(receiver.recv().await.as_deref(), Some(&number));
                }
                assert_eq!(receiver.recv().await, None);
            });
        });
    }
}

/// A thread at one end and a task at the other, over slots in place, both ways.
#[test]
fn r2_ping_pong() {
    let there = Inline::<u64, 1>::new();
    let back = Inline::<u64, 1>::new();
    let (mut ping, mut pinged) = parking::split(&there).unwrap();
    let (mut pong, mut ponged) = parking::split(&back).unwrap();
    assert!(parking::split(&there).is_none() && there.split().is_none());
    thread::scope(|scope| {
        scope.spawn(move || {
            block_on(async {
                while let Some(number) = pinged.recv().await {
                    pong.send(number + 1).await.unwrap();
                }
            });
        });
        for number in 0..VALUES {
            ping.send_blocking(number).unwrap();
            assert_eq!(ponged.recv_blocking(), Some(number + 1));
        }
        drop(ping);
        assert_eq!(ponged.recv_blocking(), None);
    });
}

/// Ends that wait, try, and give up in turn, through one slot: every value arrives all the same.
#[test]
fn r2_waits_that_are_given_up_lose_nothing() {
    for capacity in [1, 2] {
        let (mut sender, mut receiver) = channel(capacity);
        thread::scope(|scope| {
            scope.spawn(move || {
                let (_, waker) = bell();
                for number in 0..VALUES {
                    let mut context = Context::from_waker(&waker);
                    // Leaves its mark, and somebody else's waker.
                    let _ = sender.poll_ready(&mut context);
                    if number.is_multiple_of(3) {
                        block_on(sender.send(Box::new(number))).unwrap();
                    } else {
                        sender.send_blocking(Box::new(number)).unwrap();
                    }
                }
            });
            let mut number = 0;
            while number < VALUES {
                let received = match number % 3 {
                    0 => receiver.recv_timeout(Duration::ZERO),
                    1 => receiver.recv_timeout(Duration::from_micros(1)),
                    _ => receiver.recv_blocking().ok_or(RecvTimeoutError::Closed),
                };
                match received {
                    Ok(value) => {
                        assert_eq!(*value, number);
                        number += 1;
                    }
                    // Wait properly, so that it comes to an end.
                    Err(RecvTimeoutError::Timeout) => {
                        assert_eq!(receiver.recv_blocking().as_deref(), Some(&number));
                        number += 1;
                    }
                    Err(RecvTimeoutError::Closed) => panic!("the sender is not done"),
                }
            }
            assert_eq!(receiver.recv_blocking(), None);
        });
    }
}

/// A sleeping end is told when the other goes.
#[test]
fn r2_going_wakes_the_other() {
    for round in 0..ROUNDS {
        let (mut sender, mut receiver) = channel(1);
        thread::scope(|scope| {
            scope.spawn(move || {
                if round.is_multiple_of(2) {
                    sender.send_blocking(round).unwrap();
                }
                dawdle(round);
            });
            if round.is_multiple_of(2) {
                assert_eq!(receiver.recv_timeout(Duration::MAX), Ok(round));
            }
            if round.is_multiple_of(3) {
                assert_eq!(receiver.recv_blocking(), None);
            } else {
                let closed = receiver.recv_timeout(Duration::MAX);
                assert_eq!(closed, Err(RecvTimeoutError::Closed));
            }
            assert!(receiver.is_closed());
        });

        let (mut sender, receiver) = channel(1);
        sender.try_send(round).unwrap();
        thread::scope(|scope| {
            scope.spawn(move || {
                dawdle(round);
                drop(receiver);
            });
            if round.is_multiple_of(2) {
                assert_eq!(sender.send_blocking(7), Err(Closed(7)));
            } else {
                assert_eq!(block_on(sender.ready()), Err(Closed(())));
                assert_eq!(block_on(sender.send(7)), Err(Closed(7)));
            }
            assert!(sender.is_closed());
            assert_eq!(sender.try_send(8), Err(TrySendError::Closed(8)));
        });
    }
}

/// Whoever waits last is woken, once, and nobody is woken where nobody waits.
#[test]
fn r2_newest_waker_is_woken() {
    let (mut sender, mut receiver) = channel(1);
    let ((first, first_waker), (second, second_waker)) = (bell(), bell());
    let mut first_context = Context::from_waker(&first_waker);
    let mut second_context = Context::from_waker(&second_waker);

    assert_eq!(receiver.poll_recv(&mut first_context), Poll::Pending);
    assert_eq!(receiver.poll_recv(&mut second_context), Poll::Pending);
    sender.try_send(1).unwrap();
    assert_eq!((first.rings(), second.rings()), (0, 1));
    assert_eq!(receiver.poll_recv(&mut first_context), Poll::Ready(Some(1)));

    // Nobody waits.
    sender.try_send(2).unwrap();
    assert_eq!((first.rings(), second.rings()), (0, 0));

    assert_eq!(sender.poll_ready(&mut second_context), Poll::Pending);
    assert_eq!(sender.poll_ready(&mut first_context), Poll::Pending);
    assert_eq!(receiver.try_recv(), Ok(2));
    assert_eq!((first.rings(), second.rings()), (1, 0));
    assert_eq!(sender.poll_ready(&mut first_context), Poll::Ready(Ok(())));
    sender.try_send(3).unwrap();
    assert_eq!(receiver.try_recv(), Ok(3));
    assert_eq!((first.rings(), second.rings()), (0, 0));

    // An end that goes wakes, too.
    assert_eq!(receiver.poll_recv(&mut first_context), Poll::Pending);
    drop(sender);
    assert_eq!((first.rings(), second.rings()), (1, 0));
    assert_eq!(receiver.poll_recv(&mut first_context), Poll::Ready(None));
}

/// A wake-up for nothing: the wait goes on.
#[test]
fn r2_spurious_wakes_are_slept_off() {
    let (mut sender, mut receiver) = channel(1);
    let (bell, waker) = bell();
    let mut context = Context::from_waker(&waker);
    let mut receiving = pin!(receiver.recv());
    for _ in 0..3 {
        assert_eq!(receiving.as_mut().poll(&mut context), Poll::Pending);
        waker.wake_by_ref();
    }
    assert_eq!(receiving.as_mut().poll(&mut context), Poll::Pending);
    bell.rings();
    sender.try_send(5).unwrap();
    assert_eq!(bell.rings(), 1);
    assert_eq!(receiving.as_mut().poll(&mut context), Poll::Ready(Some(5)));
}

/// Both ends wait at the one slot in turn; a mark of one is not mistaken for one of the other.
#[test]
fn r2_both_ends_wait_in_turn() {
    let (mut sender, mut receiver) = channel(1);
    let ((sends, send_waker), (receives, receive_waker)) = (bell(), bell());
    let mut sending = Context::from_waker(&send_waker);
    let mut receiving = Context::from_waker(&receive_waker);
    for number in 0..5 {
        assert_eq!(receiver.poll_recv(&mut receiving), Poll::Pending);
        sender.try_send(number).unwrap();
        assert_eq!((sends.rings(), receives.rings()), (0, 1));
        assert_eq!(sender.poll_ready(&mut sending), Poll::Pending);
        let received = receiver.poll_recv(&mut receiving);
        assert_eq!(received, Poll::Ready(Some(number)));
        assert_eq!((sends.rings(), receives.rings()), (1, 0));
        assert_eq!(sender.poll_ready(&mut sending), Poll::Ready(Ok(())));
    }
}

/// Each value is dropped once, a future that is dropped takes its own value with it, and the queue is as it was.
#[test]
fn r5_dropped_futures_leave_the_queue_intact() {
    struct Counted<'a>(u32, &'a Cell<u32>);
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.1.set(self.1.get() + 1);
        }
    }
    let drops = Cell::new(0);
    let (mut sender, mut receiver) = channel(1);
    let (bell, waker) = bell();
    let mut context = Context::from_waker(&waker);

    // Never polled.
    drop(sender.send(Counted(0, &drops)));
    assert_eq!(drops.get(), 1);
    assert!(sender.try_send(Counted(1, &drops)).is_ok());
    {
        let mut sending = pin!(sender.send(Counted(2, &drops)));
        assert!(sending.as_mut().poll(&mut context).is_pending());
        assert!(sending.as_mut().poll(&mut context).is_pending());
        assert_eq!(drops.get(), 1);
    }
    assert_eq!(drops.get(), 2);
    {
        let mut ready = pin!(sender.ready());
        assert!(ready.as_mut().poll(&mut context).is_pending());
    }
    match sender.try_send(Counted(3, &drops)).unwrap_err() {
        TrySendError::Full(value) => assert_eq!(value.0, 3),
        error => panic!("{error}"),
    }
    assert_eq!(drops.get(), 3);
    // The mark of the dropped futures is still there: a wake-up for nobody, and no harm.
    assert_eq!(receiver.try_recv().unwrap().0, 1);
    assert_eq!((bell.rings(), drops.get()), (1, 4));

    {
        let mut receiving = pin!(receiver.recv());
        assert!(receiving.as_mut().poll(&mut context).is_pending());
    }
    assert!(sender.try_send(Counted(5, &drops)).is_ok());
    assert_eq!((bell.rings(), drops.get()), (1, 4));
    assert_eq!(block_on(receiver.recv()).unwrap().0, 5);
    assert!(block_on(sender.send(Counted(6, &drops))).is_ok());
    drop(receiver);
    assert_eq!(
        block_on(sender.send(Counted(7, &drops))).unwrap_err().0.0,
        7
    );
    assert_eq!(drops.get(), 6);
    drop(sender);
    assert_eq!(drops.get(), 7);
}

/// The wakers that a queue holds go with it.
#[test]
fn r5_wakers_are_dropped_with_the_queue() {
    let (bell, waker) = bell();
    let (mut sender, mut receiver) = channel(1);
    let mut context = Context::from_waker(&waker);
    assert_eq!(receiver.poll_recv(&mut context), Poll::Pending);
    sender.try_send(1).unwrap();
    assert_eq!(sender.poll_ready(&mut context), Poll::Pending);
    drop(waker);
    std::mem::drop((sender, receiver));
    assert_eq!(Arc::strong_count(&bell), 1);
}

/// A waker that runs its task at once, inside of the call that wakes it: the other end may go meanwhile.
#[test]
fn r5_other_end_may_go_while_an_end_goes() {
    struct Dropping<T: Send>(std::sync::Mutex<Option<T>>);
    impl<T: Send + 'static> Wake for Dropping<T> {
        fn wake(self: Arc<Self>) {
            let end = self.0.lock().unwrap().take();
            drop(end);
        }
    }
    let drops = Arc::new(());
    let (mut sender, receiver) = channel(2);
    sender.try_send(drops.clone()).unwrap();
    let task = Arc::new(Dropping(std::sync::Mutex::new(None)));
    let waker = Waker::from(task.clone());
    let mut receiver = receiver;
    assert!(receiver.try_recv().is_ok());
    let mut context = Context::from_waker(&waker);
    assert_eq!(receiver.poll_recv(&mut context), Poll::Pending);
    *task.0.lock().unwrap() = Some(receiver);
    drop(sender);
    assert!(task.0.lock().unwrap().is_none());
    assert_eq!(Arc::strong_count(&drops), 1);

    let (mut sender, receiver) = channel(1);
    sender.try_send(drops.clone()).unwrap();
    let task = Arc::new(Dropping(std::sync::Mutex::new(None)));
    let waker = Waker::from(task.clone());
    let mut context = Context::from_waker(&waker);
    assert_eq!(sender.poll_ready(&mut context), Poll::Pending);
    *task.0.lock().unwrap() = Some(sender);
    drop(receiver);
    assert!(task.0.lock().unwrap().is_none());
    assert_eq!(Arc::strong_count(&drops), 1, "the value is dropped");
}

#[test]
fn r2_timeouts() {
    let (mut sender, mut receiver) = channel(1);
    for timeout in [
        Duration::ZERO,
        Duration::from_nanos(1),
        Duration::from_millis(2),
    ] {
        let nothing = receiver.recv_timeout(timeout);
        assert_eq!(nothing, Err(RecvTimeoutError::Timeout));
        sender.try_send(1).unwrap();
        assert_eq!(receiver.recv_timeout(timeout), Ok(1));
    }
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    sender.try_send(2).unwrap();
    drop(sender);
    // What is left comes before the news that nothing will.
    assert_eq!(receiver.recv_timeout(Duration::ZERO), Ok(2));
    let closed = Err(RecvTimeoutError::Closed);
    assert_eq!(receiver.recv_timeout(Duration::ZERO), closed);
    assert_eq!(receiver.recv_timeout(Duration::MAX), closed);
}

/// Tokens of somebody else's `unpark`: one that is there already, and many that come during the sleep.
#[test]
fn r2_foreign_tokens_wake_nobody() {
    /// Ends the other thread, also when an assertion fails.
    struct Done<'a>(&'a AtomicBool);
    impl Drop for Done<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let (mut sender, mut receiver) = channel(1);
    let sleeper = thread::current();
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                sleeper.unpark();
                thread::yield_now();
            }
        });
        scope.spawn(move || {
            for number in 0..VALUES {
                dawdle(number);
                sender.send_blocking(number).unwrap();
            }
        });
        let _done = Done(&is_done);
        for number in 0..VALUES {
            thread::current().unpark();
            if number.is_multiple_of(2) {
                assert_eq!(receiver.recv_blocking(), Some(number));
            } else {
                // A token does not end the time.
                let received = receiver.recv_timeout(Duration::from_secs(3600));
                assert_eq!(received, Ok(number));
            }
        }
        assert_eq!(receiver.recv_blocking(), None);
    });
}

/// Slots that were waited for once are ordinary slots for the next pair, of either kind.
#[test]
fn r4_pairs_of_either_kind_follow_one_another() {
    let queue = Inline::<Box<u32>, 1>::new();
    let (bell, waker) = bell();
    let mut context = Context::from_waker(&waker);
    {
        let (mut sender, mut receiver) = parking::split(&queue).unwrap();
        assert_eq!(receiver.poll_recv(&mut context), Poll::Pending);
        sender.try_send(Box::new(1)).unwrap();
        assert_eq!(sender.poll_ready(&mut context), Poll::Pending);
    }
    bell.rings();
    {
        // The slot is full, with a mark.
        let (mut producer, mut consumer) = queue.split().unwrap();
        assert!(producer.push(Box::new(2)).is_err());
        assert_eq!((producer.len(), consumer.len()), (1, 1));
        assert_eq!(consumer.pop(), Some(Box::new(1)));
        assert!(!producer.is_full() && consumer.is_empty());
    }
    {
        let (mut sender, mut receiver) = parking::split(&queue).unwrap();
        assert_eq!(receiver.poll_recv(&mut context), Poll::Pending);
        drop(receiver);
        bell.rings();
        // The slot is empty, with a mark.
        assert!(sender.try_send(Box::new(3)).is_err());
    }
    bell.rings();
    let (mut producer, mut consumer) = queue.split().unwrap();
    producer.push(Box::new(4)).unwrap();
    assert_eq!((producer.len(), consumer.len()), (1, 1));
    assert_eq!(consumer.pop(), Some(Box::new(4)));
    assert_eq!(bell.rings(), 0, "plain ends ring for nobody");
    producer.push(Box::new(5)).unwrap();
}

#[test]
fn r4_futures_are_send() {
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    let (mut sender, mut receiver) = channel::<Cell<u8>>(1);
    drop(is_send(sender.ready()));
    drop(is_send(sender.send(Cell::new(1))));
    drop(is_send(receiver.recv()));
    let _ = is_send((sender, receiver));
}

#[test]
fn errors_say_what_happened_and_need_nothing_of_the_value() {
    struct Opaque;
    fn text<E: std::error::Error>(error: &E) -> (String, String) {
        (error.to_string(), format!("{error:?}"))
    }
    let gone = "the receiver is gone".to_owned();
    assert_eq!(
        text(&Closed(Opaque)),
        (gone.clone(), "Closed(..)".to_owned())
    );
    let closed = TrySendError::Closed(Opaque);
    assert_eq!(text(&closed), (gone, "Closed(..)".to_owned()));
    let full = ("the queue is full".to_owned(), "Full(..)".to_owned());
    assert_eq!(text(&TrySendError::Full(Opaque)), full);
    for (error, expected) in [
        (TryRecvError::Empty.to_string(), "the queue is empty"),
        (
            TryRecvError::Closed.to_string(),
            "the queue is empty and the sender is gone",
        ),
        (
            RecvTimeoutError::Timeout.to_string(),
            "no value came in time",
        ),
        (
            RecvTimeoutError::Closed.to_string(),
            "the queue is empty and the sender is gone",
        ),
    ] {
        assert_eq!(error, expected);
    }
}
