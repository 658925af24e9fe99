//! What becomes of values and memory: every value is dropped once, oldest first, and every byte is freed, also when
//! destructors and iterators panic, memory is short, or an end is forgotten.
#![cfg(all(not(loom), feature = "alloc"))]
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests may panic as tests may"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, RefCell};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use xu_ring::spsc::{self, CapacityError, Inline};

thread_local! {
    /// Whether allocations of this thread fail.
    static IS_SHORT: Cell<bool> = const { Cell::new(false) };
    /// Bytes that this thread has allocated and not freed.
    static HELD: Cell<isize> = const { Cell::new(0) };
}

/// More than any test needs: some systems promise memory that they do not have.
const TOO_MUCH: usize = 1 << 36;

/// The system's allocator, which fails when it is told to.
struct Counting;

// SAFETY: every block comes from `System` and goes back to it with the caller's own layout; a null is a failure.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if IS_SHORT.get() || layout.size() > TOO_MUCH {
            return std::ptr::null_mut();
        }
        HELD.set(HELD.get() + layout.size().cast_signed());
        // SAFETY: passed on as received.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if IS_SHORT.get() || layout.size() > TOO_MUCH {
            return std::ptr::null_mut();
        }
        HELD.set(HELD.get() + layout.size().cast_signed());
        // SAFETY: passed on as received.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        HELD.set(HELD.get() - layout.size().cast_signed());
        // SAFETY: passed on as received.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `test`, which must free what it allocates.
fn assert_frees_all(test: impl FnOnce()) {
    let before = HELD.get();
    test();
    assert_eq!(HELD.get(), before, "bytes are left");
}

/// What was dropped, in order.
#[derive(Default)]
struct Log(RefCell<Vec<u32>>);

impl Log {
    fn value(&self, number: u32) -> Noted<'_> {
        Noted {
            number: Box::new(number),
            log: self,
            panics: false,
        }
    }

    fn dropped(&self) -> Vec<u32> {
        self.0.borrow().clone()
    }
}

/// Writes down that it is dropped, and can be told to panic then. The box makes a second drop visible to Miri.
struct Noted<'a> {
    number: Box<u32>,
    log: &'a Log,
    panics: bool,
}

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        self.log.0.borrow_mut().push(*self.number);
        if self.panics {
            // Without the hook, which would print it.
            resume_unwind(Box::new("a destructor's own affair"));
        }
    }
}

/// Every capacity, place, number of values and order of going.
#[test]
fn r5_every_value_is_dropped_once_and_oldest_first() {
    let largest = if cfg!(miri) { 3 } else { 5 };
    for capacity in 1..=largest {
        for start in 0..capacity {
            for pushed in 0..=capacity {
                for popped in 0..=pushed {
                    assert_frees_all(|| drop_counts(capacity, start, pushed, popped, true));
                    assert_frees_all(|| drop_counts(capacity, start, pushed, popped, false));
                }
            }
        }
    }
}

fn drop_counts(capacity: u32, start: u32, pushed: u32, popped: u32, producer_first: bool) {
    let log = Log::default();
    let (mut producer, mut consumer) = spsc::channel(capacity as usize).unwrap();
    for number in 0..start {
        assert!(producer.push(log.value(number)).is_ok());
        drop(consumer.pop());
    }
    log.0.borrow_mut().clear();

    for number in 0..pushed {
        assert!(producer.push(log.value(number)).is_ok());
    }
    if pushed == capacity {
        let refused = producer.push(log.value(99)).unwrap_err();
        assert_eq!(log.dropped(), [], "it comes back alive");
        drop(refused);
        assert_eq!(log.dropped(), [99]);
        log.0.borrow_mut().clear();
    }
    for number in 0..popped {
        let value = consumer.pop().unwrap();
        assert_eq!(log.dropped().len(), number as usize, "popped, not dropped");
        assert_eq!(*value.number, number);
    }
    let all_popped: Vec<_> = (0..popped).collect();
    assert_eq!(log.dropped(), all_popped);
    if producer_first {
        drop(producer);
        assert_eq!(log.dropped(), all_popped, "the consumer may want them");
        drop(consumer);
    } else {
        drop(consumer);
        assert_eq!(log.dropped(), all_popped, "the last end drops the values");
        drop(producer);
    }
    let all: Vec<_> = (0..pushed).collect();
    assert_eq!(
        log.dropped(),
        all,
        "{capacity} {start} {popped} {producer_first}"
    );
}

/// What the consumer leaves, the producer cannot push over; what the producer leaves, the consumer can still pop.
#[test]
fn r5_lonely_ends_go_on() {
    assert_frees_all(|| {
        let log = Log::default();
        let (mut producer, mut consumer) = spsc::channel(3).unwrap();
        assert_eq!(
            producer.push_iter((0..3).map(|number| log.value(number))),
            3
        );
        drop(consumer.pop());
        drop(consumer);
        assert!(producer.is_abandoned());
        assert!(producer.push(log.value(3)).is_ok());
        assert!(producer.push(log.value(4)).is_err());
        assert_eq!(log.dropped(), [0, 4]);
        drop(producer);
        assert_eq!(log.dropped(), [0, 4, 1, 2, 3]);

        let log = Log::default();
        let (mut producer, mut consumer) = spsc::channel(3).unwrap();
        producer.push_iter((0..3).map(|number| log.value(number)));
        drop(producer);
        assert!(consumer.is_abandoned());
        assert_eq!(consumer.len(), 3);
        drop(consumer.pop_iter(2).last());
        assert_eq!(log.dropped(), [0, 1]);
        drop(consumer);
        assert_eq!(log.dropped(), [0, 1, 2]);
    });
}

/// The panic reaches whoever drops the last end; the other values and the memory are gone all the same.
#[test]
fn r5_panicking_destructor_runs_once_and_stops_no_other() {
    for bad in 0..4 {
        let log = Log::default();
        let fill = |number| {
            let mut value = log.value(number);
            value.panics = number == bad;
            value
        };
        // What the panic itself allocates goes with its payload.
        assert_frees_all(|| {
            let (mut producer, mut consumer) = spsc::channel(4).unwrap();
            // Wrapped: the oldest value is in the second slot.
            assert!(producer.push(log.value(9)).is_ok());
            drop(consumer.pop());
            log.0.borrow_mut().clear();
            producer.push_iter((0..4).map(fill));
            drop(consumer);
            assert_eq!(log.dropped(), []);
            drop(catch_unwind(AssertUnwindSafe(|| drop(producer))).unwrap_err());
            assert_eq!(log.dropped(), [0, 1, 2, 3]);
            // So that the log holds nothing when bytes are counted.
            log.0.take();
        });

        assert_frees_all(|| {
            let queue = Inline::<Noted<'_>, 4>::new();
            queue.split().unwrap().0.push_iter((0..4).map(fill));
            drop(catch_unwind(AssertUnwindSafe(|| drop(queue))).unwrap_err());
            assert_eq!(log.dropped(), [0, 1, 2, 3]);
            log.0.take();
        });
    }
}

/// A popped value belongs to who popped it: its destructor's panic does not concern the queue.
#[test]
fn r5_panic_of_a_popped_value_is_not_the_queues() {
    let log = Log::default();
    let (mut producer, mut consumer) = spsc::channel(2).unwrap();
    let mut bad = log.value(0);
    bad.panics = true;
    assert!(producer.push(bad).is_ok());
    assert!(producer.push(log.value(1)).is_ok());
    catch_unwind(AssertUnwindSafe(|| consumer.pop_iter(9).for_each(drop))).unwrap_err();
    assert_eq!((log.dropped(), consumer.len()), (vec![0], 1));
    assert_eq!(producer.push_iter([log.value(2), log.value(3)]), 1);
    drop((producer, consumer));
    // The one that found no room went with its array, before.
    assert_eq!(log.dropped(), [0, 3, 1, 2]);
}

/// What an iterator yielded before it panicked is in the queue, once.
#[test]
fn r5_panicking_iterator_loses_nothing() {
    assert_frees_all(|| {
        let log = Log::default();
        let (mut producer, mut consumer) = spsc::channel(4).unwrap();
        let values = (0..4).map(|number| {
            if number == 2 {
                resume_unwind(Box::new("an iterator's own affair"));
            }
            log.value(number)
        });
        drop(catch_unwind(AssertUnwindSafe(|| producer.push_iter(values))).unwrap_err());
        assert_eq!(
            (log.dropped(), producer.len(), consumer.len()),
            (vec![], 2, 2)
        );
        // And the queue goes on.
        assert!(producer.push(log.value(2)).is_ok());
        for number in 0..3 {
            assert_eq!(*consumer.pop().unwrap().number, number);
        }
        assert_eq!(log.dropped(), [0, 1, 2]);
    });
}

/// Room is looked for before a value is asked for.
#[test]
fn r5_iterator_keeps_what_finds_no_room() {
    let log = Log::default();
    let (mut producer, mut consumer) = spsc::channel(2).unwrap();
    let mut asked = 0;
    let mut values = (0..5).map(|number| {
        asked += 1;
        log.value(number)
    });
    assert_eq!(producer.push_iter(values.by_ref()), 2);
    assert_eq!(producer.push_iter(values.by_ref()), 0);
    drop(consumer.pop());
    assert_eq!(producer.push_iter(values.by_ref()), 1);
    drop(values);
    assert_eq!((asked, log.dropped()), (3, vec![0]));
}

/// A closure that panics while `pop_iter` is alive, and an iterator that is dropped or forgotten.
#[test]
fn r5_interrupted_iterators_leave_the_rest() {
    assert_frees_all(|| {
        let log = Log::default();
        let (mut producer, mut consumer) = spsc::channel(8).unwrap();
        producer.push_iter((0..8).map(|number| log.value(number)));
        let panics = || {
            for value in consumer.pop_iter(5) {
                if *value.number == 1 {
                    resume_unwind(Box::new("a caller's own affair"));
                }
            }
        };
        drop(catch_unwind(AssertUnwindSafe(panics)).unwrap_err());
        assert_eq!((log.dropped(), consumer.len()), (vec![0, 1], 6));

        drop(consumer.pop_iter(5).next());
        assert_eq!(log.dropped(), [0, 1, 2]);
        let mut forgotten = consumer.pop_iter(5);
        drop(forgotten.next());
        let _never_dropped = mem::ManuallyDrop::new(forgotten);
        assert_eq!((log.dropped(), producer.len()), (vec![0, 1, 2, 3], 4));
        drop((producer, consumer));
        assert_eq!(log.dropped(), [0, 1, 2, 3, 4, 5, 6, 7]);
    });
}

/// A value in place that is replaced is dropped once, and the new one too.
#[test]
fn r5_replacing_in_place() {
    let log = Log::default();
    let (mut producer, mut consumer) = spsc::channel(1).unwrap();
    assert!(consumer.peek_mut().is_none());
    assert!(producer.push(log.value(1)).is_ok());
    *consumer.peek_mut().unwrap() = log.value(2);
    assert_eq!(log.dropped(), [1]);
    assert_eq!(*consumer.peek().unwrap().number, 2);
    drop((consumer, producer));
    assert_eq!(log.dropped(), [1, 2]);
}

/// The values of a queue in place stay in it, and go with it.
#[test]
fn r5_inline_keeps_its_values_between_pairs() {
    fn keeps<const N: usize>() {
        let log = Log::default();
        let queue = Inline::<Noted<'_>, N>::new();
        let mut expected = 0;
        let mut number = 0;
        for round in 0..3 * N {
            let (mut producer, mut consumer) = queue.split().unwrap();
            assert_eq!(producer.len(), consumer.len());
            while producer.push(log.value(number)).is_ok() {
                number += 1;
            }
            log.0.borrow_mut().pop();
            assert_eq!(consumer.len(), N);
            for _ in 0..(round % N) + 1 {
                assert_eq!(*consumer.pop().unwrap().number, expected);
                expected += 1;
            }
            if round.is_multiple_of(2) {
                drop(producer);
                assert!(queue.split().is_none());
            } else {
                drop(consumer);
                assert!(queue.split().is_none());
            }
        }
        drop(queue);
        assert!(log.dropped().into_iter().eq(0..number), "{N}");
    }
    assert_frees_all(keeps::<1>);
    assert_frees_all(keeps::<2>);
    assert_frees_all(keeps::<3>);
    assert_frees_all(keeps::<5>);
}

/// Between two pairs the queue may move, with what is in it.
#[test]
fn r5_inline_moves_between_pairs() {
    assert_frees_all(|| {
        let log = Log::default();
        let queue = Inline::<Noted<'_>, 2>::default();
        queue
            .split()
            .unwrap()
            .0
            .push_iter([log.value(0), log.value(1)]);
        let queue = Box::new(queue);
        drop(queue.split().unwrap().1.pop());
        let queue = [*queue];
        assert!(queue[0].split().unwrap().0.push(log.value(2)).is_ok());
        assert_eq!(log.dropped(), [0]);
        drop(queue);
        assert_eq!(log.dropped(), [0, 1, 2]);
    });
}

/// An end that is forgotten leaks a queue on the heap; in place it keeps the queue from being split again, and no more.
#[test]
fn r5_forgotten_ends_are_harmless() {
    assert_frees_all(|| {
        for forgets_producer in [true, false] {
            let log = Log::default();
            let queue = Inline::<Noted<'_>, 3>::new();
            {
                // The oldest value is in the second slot.
                let (mut producer, mut consumer) = queue.split().unwrap();
                assert!(producer.push(log.value(0)).is_ok());
                drop(consumer.pop());
                assert!(producer.push(log.value(1)).is_ok());
            }
            let (mut producer, mut consumer) = queue.split().unwrap();
            producer.push_iter([log.value(2), log.value(3)]);
            if forgets_producer {
                drop(consumer.pop());
                mem::forget(producer);
                drop(consumer);
            } else {
                mem::forget(consumer);
                assert!(!producer.is_abandoned());
                drop(producer);
            }
            let queue = Box::new(queue);
            assert!(queue.split().is_none());
            drop(queue);
            assert_eq!(log.dropped(), [0, 1, 2, 3]);
        }
    });
}

#[test]
fn r3_impossible_capacities_are_errors() {
    fn refuses<T>() {
        assert_eq!(spsc::channel::<T>(0).unwrap_err(), CapacityError::Zero);
        // As much as no slot is smaller than.
        let least = (size_of::<T>() + 1).next_multiple_of(align_of::<T>());
        for capacity in [
            usize::MAX,
            usize::MAX - 1,
            isize::MAX.cast_unsigned() + 1,
            isize::MAX.cast_unsigned(),
            isize::MAX.cast_unsigned() - 127,
            isize::MAX.cast_unsigned() / least,
            isize::MAX.cast_unsigned() / least - 128,
            (usize::MAX / least).saturating_add(1),
            1 << 40,
        ] {
            match spsc::channel::<T>(capacity).unwrap_err() {
                CapacityError::NoMemory {
                    capacity: refused,
                    slot_size,
                } => {
                    assert_eq!(refused, capacity);
                    assert_eq!(slot_size % align_of::<T>(), 0);
                    assert!((least..=least + 64).contains(&slot_size), "{slot_size}");
                }
                error => panic!("{error}"),
            }
        }
    }
    assert_frees_all(|| {
        refuses::<()>();
        refuses::<u8>();
        refuses::<u16>();
        refuses::<u64>();
        refuses::<[u8; 63]>();
        refuses::<[u8; 64]>();
        refuses::<[u8; 200]>();
        refuses::<Aligned>();
        refuses::<OverAligned>();
    });
}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Aligned(#[expect(dead_code, reason = "it has a place")] u8);

#[derive(Clone, Copy)]
#[repr(align(256))]
struct OverAligned(#[expect(dead_code, reason = "it has a place")] u8);

#[test]
fn r3_short_memory_is_an_error() {
    assert_frees_all(|| {
        IS_SHORT.set(true);
        let made = spsc::channel::<u64>(8);
        IS_SHORT.set(false);
        let error = made.unwrap_err();
        assert!(matches!(error, CapacityError::NoMemory { capacity: 8, .. }));
    });
}

/// One block: the header, which has a pair of lines to itself, and slots that are equally far apart, in place and size.
#[test]
fn r3_slots_keep_to_their_places() {
    fn check<T: Copy>(value: T, capacity: usize) {
        let before = HELD.get();
        let (mut producer, mut consumer) = spsc::channel(capacity).unwrap();
        let held = (HELD.get() - before).cast_unsigned();
        let mut places = Vec::new();
        for _ in 0..2 * capacity {
            producer.push(value).unwrap_or_else(|_| unreachable!());
            let place: *const T = consumer.peek().unwrap();
            assert_eq!(place.addr() % align_of::<T>(), 0);
            places.push(place.addr());
            let _ = consumer.pop();
        }
        let (first, second) = places.split_at(capacity);
        assert_eq!(first, second, "each lap goes through the same slots");
        // Room for the value and the byte of state.
        let stride = match first {
            [one, two, ..] => two - one,
            _ => (size_of::<T>() + 1).next_multiple_of(align_of::<T>()),
        };
        assert!(stride > size_of::<T>() && stride.is_multiple_of(align_of::<T>()));
        for (index, place) in first.iter().enumerate() {
            assert_eq!(*place, first[0] + index * stride);
        }
        let header = 128_usize.next_multiple_of(align_of::<T>());
        let slots = header + capacity * stride..=header + capacity * (stride + 63);
        assert!(slots.contains(&held), "{capacity} {stride} {held}");
    }
    for capacity in [1, 2, 3, 64, 65] {
        check((), capacity);
        check(1_u8, capacity);
        check([1_u8; 5], capacity);
        check(1_u64, capacity);
        check([1_u64; 4], capacity);
        check([1_u8; 63], capacity);
        check([1_u8; 64], capacity);
        check([1_u64; 25], capacity);
        check(Aligned(1), capacity);
        check(OverAligned(1), capacity);
    }
}

/// An iterator of values that use the queue's other end while it is asked: room that it makes is found.
#[test]
fn r2_iterator_may_pop_meanwhile() {
    let (mut producer, mut consumer) = spsc::channel(2).unwrap();
    let mut popped = Vec::new();
    let values = (0..10_u32).inspect(|_| popped.extend(consumer.pop_iter(1)));
    assert_eq!(producer.push_iter(values), 10);
    popped.extend(consumer.pop_iter(9));
    assert!(popped.into_iter().eq(0..10));
}
