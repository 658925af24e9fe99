//! Every interleaving of small runs of the plain queue, and the proof that each ordering is needed.
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" cargo test -p xu-ring --all-features --profile loom --test loom_spsc
//! ```
//!
//! As `tests/loom.rs`: a test of `models` explores the runs of one scenario, up to the number of preemptions that it names; a test of `mutants` starts this program again
//! with one fault seeded, and demands that the named scenarios notice.
#![cfg(loom)]

mod proof;

use std::sync::Mutex as Log;

use loom::thread;
use proof::explore;
use xu_ring::spsc::{self, Consumer, Inline, Producer};

fn channel(capacity: usize) -> (Producer<Box<u64>>, Consumer<Box<u64>>) {
    spsc::channel(capacity).expect("a few slots")
}

/// Ends that count what they moved.
struct Pushing {
    producer: Producer<Box<u64>>,
    pushed: u64,
}

struct Popping {
    consumer: Consumer<Box<u64>>,
    popped: u64,
}

impl Pushing {
    fn push(&mut self) -> bool {
        match self.producer.push(Box::new(self.pushed)) {
            Ok(()) => {
                self.pushed += 1;
                true
            }
            Err(full) => {
                assert_eq!(*full.into_inner(), self.pushed);
                false
            }
        }
    }

    fn push_batch(&mut self, count: u64) {
        let values = (self.pushed..self.pushed + count).map(Box::new);
        let pushed = self.producer.push_iter(values);
        self.pushed += u64::try_from(pushed).expect("a few");
    }
}

impl Popping {
    fn pop(&mut self) -> bool {
        if let Some(value) = self.consumer.peek() {
            assert_eq!(**value, self.popped);
        }
        let Some(value) = self.consumer.pop() else {
            return false;
        };
        assert_eq!(*value, self.popped);
        self.popped += 1;
        true
    }

    fn pop_batch(&mut self, max: usize) {
        for value in self.consumer.pop_iter(max) {
            assert_eq!(*value, self.popped);
            self.popped += 1;
        }
    }
}

fn ends(capacity: usize) -> (Pushing, Popping) {
    let (producer, consumer) = channel(capacity);
    (
        Pushing {
            producer,
            pushed: 0,
        },
        Popping {
            consumer,
            popped: 0,
        },
    )
}

/// After a run: everything pushed comes out, and a fresh lap ends exactly at the capacity.
fn finish(mut pushing: Pushing, mut popping: Popping) {
    while popping.pop() {}
    assert_eq!(popping.popped, pushing.pushed);
    let capacity = pushing.producer.capacity();
    for len in 0..capacity {
        assert_eq!(pushing.producer.len(), len);
        assert_eq!(popping.consumer.len(), len);
        assert!(pushing.push());
    }
    assert!(!pushing.push());
    for _ in 0..capacity {
        assert!(popping.pop());
    }
    assert!(!popping.pop());
}

/// `attempts` pushes beside `attempts` pops.
fn two(capacity: usize, attempts: usize) {
    let (mut pushing, mut popping) = ends(capacity);
    let producer = thread::spawn(move || {
        for _ in 0..attempts {
            pushing.push();
        }
        pushing
    });
    for _ in 0..attempts {
        popping.pop();
    }
    finish(producer.join().expect("no panic"), popping);
}

/// Batches that are longer than the room that they find.
fn batches(capacity: usize, size: usize) {
    let (mut pushing, mut popping) = ends(capacity);
    let producer = thread::spawn(move || {
        for _ in 0..2 {
            pushing.push_batch(u64::try_from(size).expect("small"));
        }
        pushing
    });
    for _ in 0..2 {
        popping.pop_batch(size);
    }
    finish(producer.join().expect("no panic"), popping);
}

/// The counts are bounds, whatever the other end does meanwhile.
fn counts() {
    let (mut pushing, mut popping) = ends(2);
    let producer = thread::spawn(move || {
        for _ in 0..3 {
            pushing.push();
            let len = pushing.producer.len();
            assert!(len <= 2);
        }
        pushing
    });
    for _ in 0..2 {
        let len = popping.consumer.len();
        for _ in 0..len {
            assert!(popping.pop(), "at least so many");
        }
    }
    finish(producer.join().expect("no panic"), popping);
}

/// A value that writes down when it is dropped.
struct Noted {
    number: usize,
    log: std::sync::Arc<Log<Vec<usize>>>,
}

impl Drop for Noted {
    fn drop(&mut self) {
        self.log.lock().expect("no panic").push(self.number);
    }
}

/// Each end goes in the middle of a run; whichever is last drops what is left, each value once, oldest first.
fn ends_go() {
    let log = std::sync::Arc::new(Log::new(Vec::new()));
    let (mut producer, mut consumer) = spsc::channel(2).expect("two slots");
    let pushing = thread::spawn({
        let log = log.clone();
        move || {
            let mut pushed = 0;
            for number in 0..3 {
                let log = log.clone();
                // A value that finds no room is dropped here, and not counted.
                match producer.push(Noted { number, log }) {
                    Ok(()) => pushed += 1,
                    Err(full) => {
                        let mut refused = full.into_inner();
                        refused.number = usize::MAX;
                    }
                }
            }
            pushed
        }
    });
    drop(consumer.pop());
    drop(consumer);
    let pushed = pushing.join().expect("no panic");
    let mut dropped = log.lock().expect("no panic").clone();
    dropped.retain(|number| *number != usize::MAX);
    assert_eq!(dropped.len(), pushed, "each value is dropped once");
    assert!(dropped.is_sorted(), "oldest first: {dropped:?}");
}

/// What was pushed before the producer went is there once the consumer knows that it went.
fn abandoned() {
    let (mut producer, mut consumer) = channel(2);
    let pushing = thread::spawn(move || {
        producer.push(Box::new(1)).expect("room");
        producer.push(Box::new(2)).expect("room");
    });
    if consumer.is_abandoned() {
        assert_eq!(consumer.len(), 2);
        assert_eq!(consumer.pop().as_deref(), Some(&1));
        assert_eq!(consumer.pop().as_deref(), Some(&2));
    }
    pushing.join().expect("no panic");
    assert!(consumer.is_abandoned());
}

/// A pair of ends after another on the same slots, from another thread.
fn split_again() {
    let queue = loom::sync::Arc::new(Inline::<Box<u64>, 2>::new());
    let splitting = thread::spawn({
        let queue = queue.clone();
        move || {
            let Some((mut producer, mut consumer)) = queue.split() else {
                return;
            };
            assert!(queue.split().is_none());
            producer.push(Box::new(1)).expect("room");
            assert_eq!(consumer.pop().as_deref(), Some(&1));
            producer.push(Box::new(2)).expect("room");
        }
    });
    let mut seen = false;
    if let Some((_, mut consumer)) = queue.split()
        && let Some(value) = consumer.pop()
    {
        assert_eq!(*value, 2, "it goes on where the other pair stopped");
        seen = true;
    }
    splitting.join().expect("no panic");
    let (_, mut consumer) = queue.split().expect("nobody has it");
    assert!(!seen || consumer.pop().is_none());
}

/// Values through the smallest queue, with both ends sleeping when they have to.
fn waiting() {
    let (mut sender, mut receiver) = spsc::parking::channel(1).expect("one slot");
    let sending = thread::spawn(move || {
        loom::future::block_on(async {
            for number in 0..2_u64 {
                sender.send(Box::new(number)).await.expect("a receiver");
            }
        });
    });
    loom::future::block_on(async {
        for number in 0..2_u64 {
            assert_eq!(receiver.recv().await.as_deref(), Some(&number));
        }
        assert_eq!(receiver.recv().await, None);
    });
    sending.join().expect("no panic");
}

/// A sender that waits for room learns that the receiver goes.
fn receiver_goes() {
    let (mut sender, receiver) = spsc::parking::channel::<u64>(1).expect("one slot");
    sender.try_send(0).expect("room");
    let receiving = thread::spawn(move || drop(receiver));
    loom::future::block_on(async {
        assert!(sender.ready().await.is_err());
        assert!(sender.send(1).await.is_err());
    });
    receiving.join().expect("no panic");
}

/// A receiver that waits learns that the sender goes, after its last value.
fn sender_goes() {
    let (mut sender, mut receiver) = spsc::parking::channel::<u64>(2).expect("two slots");
    let sending = thread::spawn(move || {
        sender.try_send(7).expect("room");
    });
    loom::future::block_on(async {
        assert_eq!(receiver.recv().await, Some(7));
        assert_eq!(receiver.recv().await, None);
    });
    sending.join().expect("no panic");
}

mod models {
    use super::*;

    #[test]
    fn two_cap1_n3() {
        explore("spsc two(1,3)", Some(3), 900, || two(1, 3));
    }

    #[test]
    fn two_cap2_n3() {
        explore("spsc two(2,3)", Some(3), 2_000, || two(2, 3));
    }

    #[test]
    fn two_cap3_n5() {
        explore("spsc two(3,5)", Some(3), 75_000, || two(3, 5));
    }

    #[test]
    fn batches_cap2_n3() {
        explore("spsc batches(2,3)", Some(3), 600, || batches(2, 3));
    }

    #[test]
    fn batches_cap3_n2() {
        explore("spsc batches(3,2)", Some(3), 650, || batches(3, 2));
    }

    #[test]
    fn counts_are_bounds() {
        explore("spsc counts", Some(3), 1_600, counts);
    }

    #[test]
    fn either_end_goes_last() {
        explore("spsc ends go", Some(3), 100, ends_go);
    }

    #[test]
    fn last_values_before_abandonment() {
        explore("spsc abandoned", Some(3), 30, abandoned);
    }

    #[test]
    fn inline_is_split_again() {
        explore("spsc split again", Some(3), 120, split_again);
    }

    #[test]
    fn both_ends_sleep() {
        explore("spsc waiting", Some(2), 60_000, waiting);
    }

    #[test]
    fn sleeping_sender_is_told() {
        explore("spsc receiver goes", Some(3), 1_000, receiver_goes);
    }

    #[test]
    fn sleeping_receiver_is_told() {
        explore("spsc sender goes", Some(3), 8_000, sender_goes);
    }
}

mod mutants {
    use super::proof::killed;
    use xu_ring::Mutant;

    killed! {
        publish_store: SpscPublishStore by two_cap1_n3, two_cap2_n3;
        value_load: SpscValueLoad by two_cap1_n3, two_cap2_n3;
        free_store: SpscFreeStore by two_cap1_n3, two_cap2_n3;
        room_load: SpscRoomLoad by two_cap1_n3, two_cap2_n3;
        publish_before_body: SpscPublishBeforeBody by two_cap1_n3, batches_cap2_n3;
        free_before_read: SpscFreeBeforeRead by two_cap1_n3, batches_cap2_n3;
        open_load: SpscOpenLoad by last_values_before_abandonment;
        close_store: SpscCloseStore by last_values_before_abandonment;
        leave_release: SpscLeaveRelease by either_end_goes_last;
        leave_acquire: SpscLeaveAcquire by either_end_goes_last;
        claim: SpscClaim by inline_is_split_again;
        swap: SpscSwap by both_ends_sleep, sleeping_receiver_is_told;
        store_instead_of_swap: SpscStoreInsteadOfSwap by both_ends_sleep;
        no_second_look: SpscNoSecondLook by both_ends_sleep;
        silent_leave: SpscSilentLeave by sleeping_sender_is_told, sleeping_receiver_is_told;
    }

    #[test]
    fn every_mutant_is_listed() {
        let of_the_queue: Vec<_> = Mutant::ALL
            .iter()
            .copied()
            .filter(|mutant| mutant.name().starts_with("spsc"))
            .collect();
        assert_eq!(LISTED, of_the_queue);
    }
}
