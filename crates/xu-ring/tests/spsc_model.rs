//! Any sequence of calls of the plain queue, compared with a queue that is too simple to be wrong.
#![cfg(all(not(any(loom, miri)), feature = "alloc"))]
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests may panic as tests may"
)]

use std::collections::VecDeque;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use proptest::collection::vec;
use proptest::prelude::*;
use xu_ring::spsc::{self, Consumer, Full, Inline, Producer, Storage};

#[derive(Clone, Debug)]
enum Op {
    Push,
    Pop,
    Peek,
    /// Puts a value of another number in place of the oldest.
    Replace,
    PushSlice {
        len: usize,
    },
    PopSlice {
        len: usize,
    },
    /// An iterator of `len` values that panics instead of yielding number `panics_at`, if it gets there.
    PushIter {
        len: usize,
        panics_at: usize,
    },
    /// Asks for `steps` values at most, of the `max` that there may be.
    PopIter {
        max: usize,
        steps: usize,
    },
    DropProducer,
    DropConsumer,
}

fn op() -> impl Strategy<Value = Op> {
    let len = prop_oneof![4 => 0_usize..6, 2 => 0_usize..80];
    let panics_at = prop_oneof![4 => Just(usize::MAX), 1 => 0_usize..20];
    prop_oneof![
        60 => Just(Op::Push),
        50 => Just(Op::Pop),
        10 => Just(Op::Peek),
        10 => Just(Op::Replace),
        20 => len.clone().prop_map(|len| Op::PushSlice { len }),
        20 => len.clone().prop_map(|len| Op::PopSlice { len }),
        20 => (len.clone(), panics_at).prop_map(|(len, panics_at)| Op::PushIter { len, panics_at }),
        20 => (prop_oneof![len.clone(), Just(usize::MAX)], len)
            .prop_map(|(max, steps)| Op::PopIter { max, steps }),
        1 => Just(Op::DropProducer),
        1 => Just(Op::DropConsumer),
    ]
}

/// One, powers of two and their neighbours, primes, and anything.
fn capacity() -> impl Strategy<Value = usize> {
    prop_oneof![
        Just(1),
        (0_u32..7).prop_map(|exponent| 1 << exponent),
        (1_u32..7).prop_map(|exponent| (1 << exponent) - 1),
        (1_u32..7).prop_map(|exponent| (1 << exponent) + 1),
        prop::sample::select(vec![2, 3, 5, 7, 11, 13, 31, 61, 67]),
        1_usize..=70,
    ]
}

/// A value that can be made again from its number.
trait Numbered: PartialEq + Debug {
    fn numbered(number: u64) -> Self;

    /// The copies of a slice, for values that can be copied; for others there are no such calls.
    fn push_slice<S: Storage<Self>>(_: &mut Producer<Self, S>, _: &[Self]) -> Option<usize>
    where
        Self: Sized,
    {
        None
    }

    fn pop_slice<S: Storage<Self>>(_: &mut Consumer<Self, S>, _: &mut [Self]) -> Option<usize>
    where
        Self: Sized,
    {
        None
    }
}

macro_rules! numbered {
    ($($type:ty: $number:ident => $value:expr;)*) => {
        $(impl Numbered for $type {
            fn numbered($number: u64) -> Self {
                $value
            }

            fn push_slice<S: Storage<Self>>(
                producer: &mut Producer<Self, S>,
                values: &[Self],
            ) -> Option<usize> {
                Some(producer.push_slice(values))
            }

            fn pop_slice<S: Storage<Self>>(
                consumer: &mut Consumer<Self, S>,
                values: &mut [Self],
            ) -> Option<usize> {
                Some(consumer.pop_slice(values))
            }
        })*
    };
}

/// Starts at a multiple of 256.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(align(256))]
struct OverAligned(u64);

numbered! {
    // CAST: the low byte will do to tell neighbours apart.
    u8: number => number as u8;
    u64: number => number;
    [u64; 4]: number => [number, !number, number, !number];
    [u64; 25]: number => [number; 25];
    (): _number => ();
    OverAligned: number => OverAligned(number);
}

impl Numbered for Box<u64> {
    fn numbered(number: u64) -> Self {
        Box::new(number)
    }
}

impl Numbered for String {
    fn numbered(number: u64) -> Self {
        format!("number {number}")
    }
}

/// The queue and its model, which holds numbers.
struct Pair<T, S: Storage<T>> {
    producer: Option<Producer<T, S>>,
    consumer: Option<Consumer<T, S>>,
    capacity: usize,
    next: u64,
    numbers: VecDeque<u64>,
}

impl<T: Numbered, S: Storage<T>> Pair<T, S> {
    fn room(&self) -> usize {
        self.capacity - self.numbers.len()
    }

    /// So many values are in, one after another.
    fn pushed(&mut self, count: usize) {
        for _ in 0..count {
            self.numbers.push_back(self.next);
            self.next += 1;
        }
        assert!(self.numbers.len() <= self.capacity);
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::DropProducer => self.producer = None,
            Op::DropConsumer => self.consumer = None,
            Op::Push | Op::PushSlice { .. } | Op::PushIter { .. } => self.push(op),
            Op::Pop | Op::Peek | Op::Replace | Op::PopSlice { .. } | Op::PopIter { .. } => {
                self.pop(op);
            }
        }
    }

    fn push(&mut self, op: &Op) {
        let (room, next) = (self.room(), self.next);
        let Some(producer) = &mut self.producer else {
            return;
        };
        let value = |index: usize| T::numbered(next + index as u64);
        let pushed = match *op {
            Op::Push => match producer.push(value(0)) {
                Ok(()) => 1,
                Err(Full(back)) => {
                    assert_eq!((back, room), (value(0), 0));
                    0
                }
            },
            Op::PushSlice { len } => {
                let values: Vec<_> = (0..len).map(value).collect();
                match T::push_slice(producer, &values) {
                    Some(pushed) => {
                        assert_eq!(pushed, len.min(room));
                        pushed
                    }
                    None => 0,
                }
            }
            Op::PushIter { len, panics_at } => {
                let mut yielded = 0;
                let values = (0..len).map(|index| {
                    assert!(yielded < room, "asked for a value without room for it");
                    if index == panics_at {
                        // Unwinds without the hook, which would print it.
                        resume_unwind(Box::new(index));
                    }
                    yielded += 1;
                    value(index)
                });
                match catch_unwind(AssertUnwindSafe(|| producer.push_iter(values))) {
                    Ok(pushed) => assert_eq!((pushed, yielded), (len.min(room), pushed)),
                    Err(panic) => assert_eq!(panic.downcast_ref(), Some(&yielded)),
                }
                yielded
            }
            _ => unreachable!("it pops"),
        };
        assert!(pushed <= room);
        self.pushed(pushed);
    }

    fn pop(&mut self, op: &Op) {
        let numbers = &mut self.numbers;
        let Some(consumer) = &mut self.consumer else {
            return;
        };
        let oldest = numbers.front().copied().map(T::numbered);
        match *op {
            Op::Pop => {
                assert_eq!(consumer.pop(), oldest);
                numbers.pop_front();
            }
            Op::Peek => assert_eq!(consumer.peek(), oldest.as_ref()),
            Op::Replace => match consumer.peek_mut() {
                Some(place) => {
                    assert_eq!(Some(&*place), oldest.as_ref());
                    numbers[0] = !self.next;
                    *place = T::numbered(numbers[0]);
                }
                None => assert_eq!(oldest, None),
            },
            Op::PopSlice { len } => {
                let untouched = u64::MAX / 2;
                let mut places: Vec<_> = (0..len).map(|_| T::numbered(untouched)).collect();
                let Some(popped) = T::pop_slice(consumer, &mut places) else {
                    return;
                };
                assert_eq!(popped, len.min(numbers.len()));
                for (index, place) in places.into_iter().enumerate() {
                    let expected = if index < popped {
                        numbers.pop_front().unwrap()
                    } else {
                        untouched
                    };
                    assert_eq!(place, T::numbered(expected));
                }
            }
            Op::PopIter { max, steps } => {
                let mut left = max.min(numbers.len());
                let mut values = consumer.pop_iter(max);
                for _ in 0..steps {
                    let (least, most) = values.size_hint();
                    assert!(least <= left && most.is_none_or(|most| most >= left));
                    match values.next() {
                        Some(value) => {
                            left = left.checked_sub(1).expect("no more than that");
                            assert_eq!(value, T::numbered(numbers.pop_front().unwrap()));
                        }
                        None => assert_eq!(left, 0),
                    }
                }
            }
            _ => unreachable!("it pushes"),
        }
    }

    fn compare(&self) {
        let len = self.numbers.len();
        if let Some(producer) = &self.producer {
            assert_eq!((producer.len(), producer.capacity()), (len, self.capacity));
            assert_eq!(producer.is_full(), len == self.capacity);
            assert_eq!(producer.is_empty(), len == 0);
            assert_eq!(producer.is_abandoned(), self.consumer.is_none());
        }
        if let Some(consumer) = &self.consumer {
            assert_eq!((consumer.len(), consumer.capacity()), (len, self.capacity));
            assert_eq!(consumer.is_empty(), len == 0);
            assert_eq!(consumer.is_abandoned(), self.producer.is_none());
        }
    }
}

/// Applies `ops`, beginning at a place of the ring that `numbers` and earlier pairs have left; returns what is left.
fn check<T: Numbered, S: Storage<T>>(
    ends: (Producer<T, S>, Consumer<T, S>),
    capacity: usize,
    numbers: VecDeque<u64>,
    ops: &[Op],
) -> VecDeque<u64> {
    let mut pair = Pair {
        producer: Some(ends.0),
        consumer: Some(ends.1),
        capacity,
        next: 1_000,
        numbers,
    };
    pair.compare();
    for op in ops {
        pair.apply(op);
        pair.compare();
    }
    pair.numbers
}

fn check_heap<T: Numbered>(capacity: usize, ops: &[Op]) {
    let ends = spsc::channel::<T>(capacity).unwrap();
    check(ends, capacity, VecDeque::new(), ops);
}

/// Each part of `ops` is for another pair of ends of the same queue.
fn check_inline<T: Numbered, const N: usize>(parts: &[Vec<Op>]) {
    let queue = Inline::<T, N>::new();
    let mut numbers = VecDeque::new();
    for ops in parts {
        numbers = check(queue.split().unwrap(), N, numbers, ops);
    }
    // Into another place, with what is in it.
    let queue = Box::new(queue);
    let left: Vec<_> = queue.split().unwrap().1.pop_iter(usize::MAX).collect();
    let numbers: Vec<_> = numbers.into_iter().map(T::numbered).collect();
    assert_eq!(left, numbers);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn heap_is_a_queue(capacity in capacity(), ops in vec(op(), 0..150)) {
        check_heap::<u8>(capacity, &ops);
        check_heap::<u64>(capacity, &ops);
        check_heap::<[u64; 4]>(capacity, &ops);
        check_heap::<()>(capacity, &ops);
        check_heap::<[u64; 25]>(capacity, &ops);
        check_heap::<OverAligned>(capacity, &ops);
        check_heap::<Box<u64>>(capacity, &ops);
        check_heap::<String>(capacity, &ops);
    }

    #[test]
    fn inline_is_a_queue(parts in vec(vec(op(), 0..40), 0..5)) {
        check_inline::<u64, 1>(&parts);
        check_inline::<Box<u64>, 2>(&parts);
        check_inline::<(), 3>(&parts);
        check_inline::<OverAligned, 4>(&parts);
        check_inline::<[u64; 25], 7>(&parts);
        check_inline::<u8, 16>(&parts);
        check_inline::<String, 17>(&parts);
        check_inline::<[u64; 4], 67>(&parts);
    }
}
