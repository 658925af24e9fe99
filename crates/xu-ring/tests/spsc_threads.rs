//! The plain queue on real threads; short enough to run under Miri too.
//!
//! ```sh
//! MIRIFLAGS="-Zmiri-strict-provenance -Zmiri-many-seeds=0..8" cargo +nightly miri test -p xu-ring --test spsc_threads
//! ```
#![cfg(all(not(loom), feature = "alloc"))]
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests may panic as tests may"
)]

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Barrier, mpsc};
use std::thread;

use xu_ring::spsc::{self, Consumer, Inline, Producer, Storage};

const VALUES: u64 = if cfg!(miri) { 40 } else { 20_000 };
const ROUNDS: u64 = if cfg!(miri) { 4 } else { 2_000 };
const CAPACITIES: &[usize] = if cfg!(miri) {
    &[1, 3, 64]
} else {
    &[1, 2, 3, 7, 64, 1000]
};

/// Yields, but not for ever: a queue that loses something fails its test, and does not hang it.
struct Patience(u32);

impl Patience {
    fn new() -> Self {
        Self(if cfg!(miri) { 100_000 } else { 20_000_000 })
    }

    fn wait(&mut self) {
        self.0 = self.0.checked_sub(1).expect("the other end is stuck");
        thread::yield_now();
    }
}

/// A value that carries its number, everywhere.
trait Numbered: Send + PartialEq + Debug {
    fn numbered(number: u64) -> Self;
}

impl Numbered for u64 {
    fn numbered(number: u64) -> Self {
        number
    }
}

impl Numbered for Box<u64> {
    fn numbered(number: u64) -> Self {
        Box::new(number)
    }
}

/// Several lines: one that is read too early, or written too early, is torn.
impl Numbered for [u64; 25] {
    fn numbered(number: u64) -> Self {
        [number; 25]
    }
}

/// Pushes as soon as there is room; what is refused comes back unchanged.
fn push<T: Numbered, S: Storage<T>>(producer: &mut Producer<T, S>, number: u64) {
    let mut value = T::numbered(number);
    let mut patience = Patience::new();
    while let Err(full) = producer.push(value) {
        value = full.into_inner();
        assert_eq!(value, T::numbered(number));
        patience.wait();
    }
}

/// Pops as soon as there is a value.
fn pop<T, S: Storage<T>>(consumer: &mut Consumer<T, S>) -> T {
    let mut patience = Patience::new();
    loop {
        if let Some(value) = consumer.pop() {
            return value;
        }
        patience.wait();
    }
}

/// Runs `pushing` beside `popping`, and looks that nothing is left.
fn run<T: Numbered>(
    capacity: usize,
    pushing: impl FnOnce(&mut Producer<T>) + Send,
    popping: impl FnOnce(&mut Consumer<T>),
) {
    let (mut producer, mut consumer) = spsc::channel(capacity).unwrap();
    thread::scope(|scope| {
        let producer = scope.spawn(move || {
            pushing(&mut producer);
            producer
        });
        popping(&mut consumer);
        let producer = producer.join().unwrap();
        assert_eq!((producer.len(), consumer.len()), (0, 0), "{capacity}");
        assert!(!producer.is_abandoned() && !consumer.is_abandoned());
    });
}

fn one_by_one<T: Numbered>() {
    for &capacity in CAPACITIES {
        run::<T>(
            capacity,
            |producer| (0..VALUES).for_each(|number| push(producer, number)),
            |consumer| {
                for number in 0..VALUES {
                    assert_eq!(pop(consumer), T::numbered(number), "{capacity}");
                }
            },
        );
    }
}

#[test]
fn r2_small_values_arrive_in_order() {
    one_by_one::<u64>();
}

#[test]
fn r2_owning_values_arrive_in_order() {
    one_by_one::<Box<u64>>();
}

#[test]
fn r2_large_values_arrive_whole_and_in_order() {
    one_by_one::<[u64; 25]>();
}

/// Iterators on both sides, longer and shorter than what they find.
fn batches<T: Numbered>() {
    for &capacity in CAPACITIES {
        run::<T>(
            capacity,
            |producer| {
                let mut numbers = 0..VALUES;
                let mut patience = Patience::new();
                for size in (1..10).cycle() {
                    if numbers.is_empty() {
                        break;
                    }
                    let values = numbers.by_ref().take(size).map(T::numbered);
                    if producer.push_iter(values) > 0 {
                        patience = Patience::new();
                    } else {
                        patience.wait();
                    }
                }
            },
            |consumer| {
                let mut number = 0;
                let mut patience = Patience::new();
                for max in (1..8).rev().cycle() {
                    if number == VALUES {
                        break;
                    }
                    let before = number;
                    for value in consumer.pop_iter(max) {
                        assert_eq!(value, T::numbered(number), "{capacity}");
                        number += 1;
                    }
                    if before == number {
                        patience.wait();
                    } else {
                        patience = Patience::new();
                    }
                }
            },
        );
    }
}

#[test]
fn r2_batches_arrive_in_order() {
    batches::<u64>();
    batches::<Box<u64>>();
}

#[test]
fn r2_slices_arrive_in_order() {
    for &capacity in CAPACITIES {
        run::<u64>(
            capacity,
            |producer| {
                let numbers: Vec<_> = (0..VALUES).collect();
                let mut rest = numbers.as_slice();
                let mut patience = Patience::new();
                for size in (1..40).step_by(3).cycle() {
                    if rest.is_empty() {
                        break;
                    }
                    let pushed = producer.push_slice(&rest[..size.min(rest.len())]);
                    rest = &rest[pushed..];
                    if pushed > 0 {
                        patience = Patience::new();
                    } else {
                        patience.wait();
                    }
                }
            },
            |consumer| {
                let mut number = 0;
                let mut places = [u64::MAX; 33];
                let mut patience = Patience::new();
                for size in (1..=33).step_by(4).cycle() {
                    if number == VALUES {
                        break;
                    }
                    let popped = consumer.pop_slice(&mut places[..size]);
                    for place in &mut places[..popped] {
                        assert_eq!(*place, number, "{capacity}");
                        *place = u64::MAX;
                        number += 1;
                    }
                    assert_eq!(places, [u64::MAX; 33], "it writes no more than it pops");
                    if popped > 0 {
                        patience = Patience::new();
                    } else {
                        patience.wait();
                    }
                }
            },
        );
    }
}

/// What an end counts for itself holds, whatever the other does: so many pushes find room, so many pops a value.
#[test]
fn r2_counts_are_promises() {
    for &capacity in CAPACITIES {
        run::<Box<u64>>(
            capacity,
            |producer| {
                let mut number = 0;
                let mut patience = Patience::new();
                while number < VALUES {
                    let len = producer.len();
                    assert!(len <= capacity);
                    if len < capacity {
                        assert!(!producer.is_full());
                        patience = Patience::new();
                    } else {
                        patience.wait();
                    }
                    for _ in len..capacity {
                        if number < VALUES {
                            producer.push(Box::new(number)).expect("room");
                            number += 1;
                        }
                    }
                }
            },
            |consumer| {
                let mut number = 0;
                let mut patience = Patience::new();
                while number < VALUES {
                    let len = consumer.len();
                    assert!(len <= capacity);
                    if len > 0 {
                        assert!(!consumer.is_empty());
                        patience = Patience::new();
                    } else {
                        patience.wait();
                    }
                    for _ in 0..len {
                        assert_eq!(consumer.peek(), Some(&Box::new(number)));
                        **consumer.peek_mut().unwrap() += 1;
                        number += 1;
                        assert_eq!(consumer.pop(), Some(Box::new(number)));
                    }
                }
            },
        );
    }
}

/// A producer that goes in the middle: all that it pushed is there, and then nothing more comes.
#[test]
fn r2_last_values_come_before_abandonment() {
    for round in 0..ROUNDS {
        let capacity = 1 + (round % 5) as usize;
        let (mut producer, mut consumer) = spsc::channel::<Box<u64>>(capacity).unwrap();
        let count = round % 11;
        thread::scope(|scope| {
            scope.spawn(move || (0..count).for_each(|number| push(&mut producer, number)));
            let mut next = 0;
            let mut patience = Patience::new();
            loop {
                let is_abandoned = consumer.is_abandoned();
                match consumer.pop() {
                    Some(number) => {
                        assert_eq!(*number, next);
                        next += 1;
                    }
                    None if is_abandoned => break,
                    None => patience.wait(),
                }
            }
            assert_eq!(next, count);
            assert_eq!((consumer.pop(), consumer.len()), (None, 0));
        });
    }
}

/// Counts its destructor calls.
struct Counted<'a>(&'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A consumer that goes in the middle: the producer learns it, and every value is dropped once.
#[test]
fn r5_producer_outlives_the_consumer() {
    for round in 0..ROUNDS {
        let capacity = 1 + (round % 4) as usize;
        let wanted = round % 7;
        let drops = AtomicUsize::new(0);
        let (mut producer, mut consumer) = spsc::channel(capacity).unwrap();
        let made = thread::scope(|scope| {
            let drops = &drops;
            let pushing = scope.spawn(move || {
                let mut made = 0;
                let mut patience = Patience::new();
                while !producer.is_abandoned() {
                    made += 1;
                    drop(producer.push(Counted(drops)));
                    patience.wait();
                }
                // Nobody makes room any more.
                for _ in 0..=capacity {
                    made += 1;
                    drop(producer.push(Counted(drops)));
                }
                assert_eq!((producer.len(), producer.is_full()), (capacity, true));
                assert_eq!(drops.load(Ordering::Relaxed), made - capacity);
                made
            });
            for _ in 0..wanted {
                drop(pop(&mut consumer));
            }
            drop(consumer);
            pushing.join().unwrap()
        });
        assert_eq!(drops.load(Ordering::Relaxed), made);
    }
}

/// Both ends go at the same moment: one of them is the last, drops what is left, and frees the memory.
#[test]
fn r5_last_end_drops_what_is_left() {
    for round in 0..ROUNDS {
        let drops = AtomicUsize::new(0);
        let (mut producer, mut consumer) = spsc::channel(3).unwrap();
        let barrier = Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..3 {
                    assert!(producer.push(Counted(&drops)).is_ok());
                }
                barrier.wait();
                drop(producer);
            });
            barrier.wait();
            if round % 2 == 0 {
                drop(consumer.pop());
            }
            drop(consumer);
        });
        assert_eq!(drops.load(Ordering::Relaxed), 3);
    }
}

/// Each end visits one thread after another, with no more order between the two than the queue gives.
#[test]
fn r4_ends_move_between_threads() {
    let hops = if cfg!(miri) { 4 } else { 100 };
    for &capacity in CAPACITIES {
        let (mut producer, mut consumer) = spsc::channel::<Box<u64>>(capacity).unwrap();
        thread::scope(|scope| {
            scope.spawn(move || {
                for hop in 0..hops {
                    let numbers = 10 * hop..10 * (hop + 1);
                    producer = thread::spawn(move || {
                        numbers.for_each(|number| push(&mut producer, number));
                        producer
                    })
                    .join()
                    .unwrap();
                }
            });
            for hop in 0..hops {
                let numbers = 10 * hop..10 * (hop + 1);
                consumer = thread::spawn(move || {
                    numbers.for_each(|number| assert_eq!(*pop(&mut consumer), number));
                    consumer
                })
                .join()
                .unwrap();
            }
            assert_eq!(consumer.pop(), None);
        });
    }
}

/// A queue's end is a value as any other: it goes through a queue, and works at the other side.
#[test]
fn r4_ends_travel_through_a_queue() {
    let (mut outer, mut ends) = spsc::channel(1).unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            for start in 0..ROUNDS.min(100) {
                let (mut producer, consumer) = spsc::channel(2).unwrap();
                push(&mut producer, start);
                let mut consumer = consumer;
                let mut patience = Patience::new();
                while let Err(full) = outer.push(consumer) {
                    consumer = full.into_inner();
                    patience.wait();
                }
                push(&mut producer, start + 1);
            }
        });
        for start in 0..ROUNDS.min(100) {
            let mut consumer = pop(&mut ends);
            assert_eq!((pop(&mut consumer), pop(&mut consumer)), (start, start + 1));
        }
    });
}

/// Through slots in place, with both ends in threads that borrow them.
#[test]
fn r2_inline_values_arrive_in_order() {
    fn through<const N: usize>() {
        let queue = Inline::<Box<u64>, N>::new();
        // The second pair starts in the middle.
        for count in [VALUES / 2 + 1, VALUES] {
            let (mut producer, mut consumer) = queue.split().unwrap();
            thread::scope(|scope| {
                scope.spawn(move || (0..count).for_each(|number| push(&mut producer, number)));
                for number in 0..count {
                    assert_eq!(*pop(&mut consumer), number, "{N}");
                }
                assert_eq!(consumer.pop(), None);
            });
        }
    }
    through::<1>();
    through::<2>();
    through::<3>();
    through::<64>();
}

/// Threads that fight for the two ends of one queue: a pair at a time, each goes on where the last one stopped.
#[test]
fn r4_one_pair_at_a_time() {
    static QUEUE: Inline<Box<u64>, 3> = Inline::new();
    // Not atomic in effect, on purpose: only who has the ends may touch it.
    static NEXT: AtomicU64 = AtomicU64::new(0);

    let turns: u64 = if cfg!(miri) { 5 } else { 1_000 };
    let barrier = Barrier::new(2);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                barrier.wait();
                let mut patience = Patience::new();
                let mut left = turns;
                while left > 0 {
                    let Some((mut producer, mut consumer)) = QUEUE.split() else {
                        patience.wait();
                        continue;
                    };
                    let next = NEXT.load(Ordering::Relaxed);
                    NEXT.store(next + 2, Ordering::Relaxed);
                    if next > 0 {
                        // What the pair before left.
                        assert_eq!(consumer.pop(), Some(Box::new(next - 1)));
                    }
                    assert!(QUEUE.split().is_none());
                    push(&mut producer, next);
                    push(&mut producer, next + 1);
                    if left.is_multiple_of(2) {
                        drop(producer);
                        assert!(QUEUE.split().is_none(), "the consumer is left");
                        assert_eq!(consumer.pop(), Some(Box::new(next)));
                    } else {
                        assert_eq!(consumer.pop(), Some(Box::new(next)));
                        drop(consumer);
                        assert!(QUEUE.split().is_none(), "the producer is left");
                    }
                    left -= 1;
                }
            });
        }
    });
    // What is in a `static` is never dropped.
    let (_, mut consumer) = QUEUE.split().unwrap();
    assert_eq!(consumer.pop(), Some(Box::new(4 * turns - 1)));
    assert_eq!(consumer.pop(), None);
}

/// The two ends of a pair go in different threads; a third waits for the next pair.
#[test]
fn r4_next_pair_waits_for_both_ends() {
    let queue = Inline::<Box<u64>, 2>::new();
    for round in 0..ROUNDS.min(200) {
        let (mut producer, mut consumer) = queue.split().unwrap();
        let (ready, is_ready) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(move || {
                push(&mut producer, round);
                ready.send(()).unwrap();
            });
            scope.spawn(move || assert_eq!(*pop(&mut consumer), round));
            is_ready.recv().unwrap();
            let mut patience = Patience::new();
            let (mut producer, mut consumer) = loop {
                match queue.split() {
                    Some(ends) => break ends,
                    None => patience.wait(),
                }
            };
            assert_eq!(consumer.pop(), None);
            push(&mut producer, round);
            assert_eq!(*pop(&mut consumer), round);
        });
    }
}

/// Many empty queues, whose ends go at about the same moment: nothing but the going is to be seen.
///
/// An end must not hold a reference to the memory when the other frees it, not even one that it does not use any more:
/// Miri tells, if it switches between the threads at the right moment. With `-Zmiri-preemption-rate=0.003` half of all
/// seeds do.
#[test]
fn r5_ends_go_at_once() {
    let queues = if cfg!(miri) { 200 } else { 20_000 };
    let (producers, consumers): (Vec<_>, Vec<_>) =
        (0..queues).map(|_| spsc::channel::<u8>(1).unwrap()).unzip();
    let arrived = AtomicUsize::new(0);
    // Both threads are at the same queue.
    let meet = |turn: usize| {
        arrived.fetch_add(1, Ordering::Relaxed);
        let mut patience = Patience::new();
        while arrived.load(Ordering::Relaxed) < 2 * (turn + 1) {
            patience.wait();
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            for (turn, producer) in producers.into_iter().enumerate() {
                meet(turn);
                drop(producer);
            }
        });
        for (turn, consumer) in consumers.into_iter().enumerate() {
            meet(turn);
            drop(consumer);
        }
    });
}
