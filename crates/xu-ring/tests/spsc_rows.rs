//! What the plain queue promises, on one thread: publication (R1), capacity (R3), owners (R4), destruction (R5), pairs (R6).
//!
//! The compile-time half of R4 that names types is here; what a program must not write is in the documentation of the ends.
#![cfg(all(not(loom), feature = "alloc"))]
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests may panic as tests may"
)]

use std::cell::Cell;
use std::error::Error;
use std::rc::Rc;

use xu_ring::spsc::{
    self, CapacityError, Consumer, Full, Inline, InlineConsumer, InlineProducer, PopIter, Producer,
};

/// What is pushed is visible at once, and what is popped makes room at once, within a batch too.
#[test]
fn r1_each_value_is_published_by_itself() {
    let (mut producer, mut consumer) = spsc::channel(4).unwrap();
    let mut seen = Vec::new();
    let values = (0..4).inspect(|_| seen.push((consumer.len(), consumer.peek().copied())));
    assert_eq!(producer.push_iter(values), 4);
    assert_eq!(seen, [(0, None), (1, Some(0)), (2, Some(0)), (3, Some(0))]);
    let mut popped = consumer.pop_iter(3);
    for left in (1..4).rev() {
        assert!(popped.next().is_some());
        assert_eq!((producer.len(), producer.is_full()), (left, false));
    }
    assert_eq!(popped.next(), None, "no more than was asked for");
    assert_eq!(consumer.len(), 1);
}

#[test]
fn r1_value_can_be_changed_in_place() {
    let (mut producer, mut consumer) = spsc::channel(2).unwrap();
    producer.push(String::from("on")).unwrap();
    consumer.peek_mut().unwrap().push('e');
    assert_eq!(consumer.peek().map(String::as_str), Some("one"));
    assert_eq!(producer.len(), 1, "looking pops nothing");
    assert_eq!(consumer.pop().as_deref(), Some("one"));
    assert_eq!(consumer.peek_mut(), None);
}

#[test]
fn r3_any_capacity_holds_as_many() {
    // Miri would take an hour for the largest.
    let largest = if cfg!(miri) { 65 } else { 65_536 };
    for capacity in [1, 2, 3, 5, 63, 64, 65, largest] {
        let (mut producer, mut consumer) = spsc::channel(capacity).unwrap();
        let mut next = 0..;
        let mut expected = 0..;
        // The later laps start elsewhere, so that they pass the end of the slots.
        for lap in [capacity, capacity / 2 + 1, capacity / 2 + 1, capacity] {
            assert!(consumer.is_empty() && producer.is_empty());
            let pushed = producer.push_iter(next.by_ref().take(lap));
            assert_eq!((pushed, producer.len(), consumer.len()), (lap, lap, lap));
            assert_eq!(producer.is_full(), lap == capacity);
            if lap == capacity {
                assert_eq!(producer.push(7), Err(Full(7)));
                assert_eq!(producer.push_slice(&[7, 8]), 0);
                assert_eq!(producer.push_iter([7]), 0);
            }
            let popped = consumer.pop_iter(usize::MAX);
            assert!(popped.eq(expected.by_ref().take(lap)));
            assert_eq!(consumer.pop_slice(&mut [0; 2]), 0);
        }
        assert_eq!(
            (producer.capacity(), consumer.capacity()),
            (capacity, capacity)
        );
    }
}

#[test]
fn r3_batches_of_no_length_do_nothing() {
    let (mut producer, mut consumer) = spsc::channel(1).unwrap();
    assert_eq!(producer.push_slice(&[]), 0);
    assert_eq!(producer.push_iter([]), 0);
    producer.push(1).unwrap();
    assert_eq!(consumer.pop_slice(&mut []), 0);
    assert_eq!(consumer.pop_iter(0).next(), None);
    assert_eq!(consumer.pop(), Some(1));
}

/// An iterator that has ended stays ended, whatever comes later.
#[test]
fn r3_pop_iter_is_fused() {
    let queue = Inline::<u32, 4>::new();
    let (mut producer, mut consumer) = queue.split().unwrap();
    let mut values = consumer.pop_iter(4);
    assert_eq!((values.next(), values.size_hint()), (None, (0, Some(0))));
    producer.push(1).unwrap();
    assert_eq!(values.next(), None);
    assert_eq!(consumer.pop_iter(4).next(), Some(1));
}

/// Fails to compile when the type has the trait.
macro_rules! assert_lacks {
    ($type:ty: $trait:path) => {
        const _: fn() = || {
            trait Ambiguous<Which> {
                fn choose() {}
            }
            struct HasIt;
            impl<T: ?Sized> Ambiguous<()> for T {}
            impl<T: ?Sized + $trait> Ambiguous<HasIt> for T {}
            let _ = <$type as Ambiguous<_>>::choose;
        };
    };
}

assert_lacks!(Producer<u8>: Clone);
assert_lacks!(Consumer<u8>: Clone);
assert_lacks!(Producer<u8>: Sync);
assert_lacks!(Consumer<u8>: Sync);
assert_lacks!(Producer<Rc<u8>>: Send);
assert_lacks!(Consumer<Rc<u8>>: Send);
assert_lacks!(PopIter<'static, Rc<u8>>: Send);
assert_lacks!(PopIter<'static, u8>: Sync);
assert_lacks!(InlineProducer<'static, u8, 1>: Sync);
assert_lacks!(InlineConsumer<'static, u8, 1>: Sync);
assert_lacks!(InlineProducer<'static, u8, 1>: Clone);
assert_lacks!(InlineConsumer<'static, u8, 1>: Clone);
assert_lacks!(InlineProducer<'static, Rc<u8>, 1>: Send);
assert_lacks!(InlineConsumer<'static, Rc<u8>, 1>: Send);
assert_lacks!(Inline<Rc<u8>, 1>: Sync);
assert_lacks!(Inline<Rc<u8>, 1>: Send);
// A guard is shared, and not sent: the ends of a queue of such would send it.
assert_lacks!(Producer<std::sync::MutexGuard<'static, u8>>: Send);
assert_lacks!(Inline<std::sync::MutexGuard<'static, u8>, 1>: Sync);

/// A value that threads may pass on but not share is enough.
#[test]
fn r4_ends_are_send() {
    fn is_send<T: Send>() {}
    fn is_sync<T: Sync>() {}
    is_send::<Producer<Cell<u64>>>();
    is_send::<Consumer<Cell<u64>>>();
    is_send::<PopIter<'static, Cell<u64>>>();
    is_send::<InlineProducer<'static, Cell<u64>, 2>>();
    is_send::<InlineConsumer<'static, Cell<u64>, 2>>();
    is_send::<Inline<Cell<u64>, 2>>();
    is_sync::<Inline<Cell<u64>, 2>>();
}

/// In a `static`, on the stack and in a box; there is one pair at a time.
#[test]
fn r4_inline_gives_one_pair_at_a_time() {
    static QUEUE: Inline<u64, 3> = Inline::new();
    let on_the_stack = Inline::new();
    let in_a_box = Box::new(Inline::default());
    for queue in [&QUEUE, &on_the_stack, &in_a_box] {
        for round in 0..5 {
            let (mut producer, mut consumer) = queue.split().unwrap();
            assert!(queue.split().is_none());
            assert_eq!(producer.push_slice(&[round, round + 10]), 2);
            assert_eq!(consumer.pop(), Some(round));
            assert_eq!(consumer.pop(), Some(round + 10));
            if round % 2 == 0 {
                drop(consumer);
                assert!(producer.is_abandoned() && queue.split().is_none());
            } else {
                drop(producer);
                assert!(consumer.is_abandoned() && queue.split().is_none());
            }
        }
        assert!(queue.split().is_some());
    }
}

/// The memory of an empty slot is never taken for a value.
#[test]
fn r5_empty_slots_hold_no_value() {
    // No bits are a value of this type.
    enum Never {}
    let (producer, mut consumer) = spsc::channel::<Never>(3).unwrap();
    assert!(consumer.pop().is_none() && consumer.peek().is_none());
    assert!(consumer.peek_mut().is_none() && consumer.pop_iter(9).next().is_none());
    assert_eq!((producer.len(), consumer.len()), (0, 0));
    drop((producer, consumer));
    // Null is no reference.
    let queue = Inline::<&u8, 3>::new();
    assert!(queue.split().unwrap().1.pop().is_none());
}

#[test]
fn r5_zero_sized_values_live_and_die() {
    thread_local! {
        static ALIVE: Cell<i32> = const { Cell::new(0) };
    }
    struct Nothing;
    impl Nothing {
        fn new() -> Self {
            ALIVE.set(ALIVE.get() + 1);
            Self
        }
    }
    impl Drop for Nothing {
        fn drop(&mut self) {
            ALIVE.set(ALIVE.get() - 1);
        }
    }
    let (mut producer, mut consumer) = spsc::channel(3).unwrap();
    assert_eq!(producer.push_iter(std::iter::repeat_with(Nothing::new)), 3);
    assert!(producer.push(Nothing::new()).is_err());
    assert_eq!(ALIVE.get(), 3);
    drop(consumer.pop());
    assert_eq!(ALIVE.get(), 2);
    drop((consumer, producer));
    assert_eq!(ALIVE.get(), 0);
}

/// A pair of ends continues the order of the one before.
#[test]
fn r6_next_pair_goes_on_where_the_last_one_stopped() {
    let queue = Inline::<u32, 3>::new();
    for number in 0..20 {
        let (mut producer, mut consumer) = queue.split().unwrap();
        if number > 0 {
            assert_eq!((producer.len(), consumer.len()), (1, 1));
            assert_eq!(consumer.peek(), Some(&(number - 1)));
        }
        producer.push(number).unwrap();
        if number > 0 {
            assert_eq!(consumer.pop(), Some(number - 1));
        }
    }
}

#[test]
fn errors_need_nothing_of_the_value() {
    struct Opaque;
    let (mut producer, _consumer) = spsc::channel(1).unwrap();
    assert!(producer.push(Opaque).is_ok());
    let full = producer.push(Opaque).unwrap_err();
    let error: &dyn Error = &full;
    assert_eq!(error.to_string(), "the queue is full");
    assert_eq!(format!("{error:?}"), "Full(..)");
    let Opaque = full.into_inner();

    assert_eq!(
        CapacityError::Zero.to_string(),
        "a queue needs a capacity of at least 1"
    );
    let no_memory = CapacityError::NoMemory {
        capacity: 3,
        slot_size: 8,
    };
    let error: &dyn Error = &no_memory;
    assert_eq!(
        error.to_string(),
        "no memory for a queue with 3 slots of 8 bytes"
    );
}

#[test]
fn ends_print_themselves_without_their_values() {
    struct Opaque;
    let queue = Inline::<Opaque, 2>::new();
    assert_eq!(format!("{queue:?}"), "Inline { capacity: 2, .. }");
    let (mut producer, consumer) = queue.split().unwrap();
    let empty = "Consumer { capacity: 2, is_empty: true, .. }";
    assert_eq!(format!("{consumer:?}"), empty);
    assert!(producer.push(Opaque).is_ok());
    let half_full = "Producer { capacity: 2, is_full: false, .. }";
    assert_eq!(format!("{producer:?}"), half_full);
}
