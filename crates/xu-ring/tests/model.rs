//! Any sequence of calls, compared with a queue that is too simple to be wrong.
#![cfg(all(not(loom), not(miri), feature = "test-hooks"))]
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests may panic as tests may"
)]

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicI32;

use proptest::collection::vec;
use proptest::prelude::*;
use xu_abi::{Cursor, SeqId, XuId};
use xu_ring::queue::{
    BatchError, Ends, InstallError, NeverIssued, PeekError, Popped, SubmitError, Waiter,
    ring_starting_at,
};

const XU: XuId = XuId::from_raw(0x0301);
const LAST: u64 = Cursor::LAST.get();

#[derive(Clone, Debug)]
enum Op {
    Submit {
        status: usize,
    },
    /// An iterator of `len` items that panics instead of yielding number `panics_at`, if it gets there.
    SubmitBatch {
        len: usize,
        panics_at: usize,
    },
    PeekTrigger,
    Trigger,
    TriggerAll,
    Peek,
    Take,
    Pop,
    /// A collection that panics instead of taking number `panics_at`, if it gets there.
    PopBatch {
        max: usize,
        panics_at: usize,
    },
    /// Stops after `steps`.
    Drain {
        steps: usize,
    },
    /// Asks for, or waits for, a request near the cursors.
    IsCompleted {
        offset: i64,
    },
    Install {
        offset: i64,
        efd: i32,
        pooled: bool,
    },
    /// Takes back the waiter of such a request, or tries to with one that is not there.
    Remove {
        offset: i64,
        is_there: bool,
    },
}

fn op() -> impl Strategy<Value = Op> {
    // Further than a lap.
    let offset = -10_i64..10;
    let panics_at = prop_oneof![3 => Just(usize::MAX), 1 => 0_usize..4];
    prop_oneof![
        6 => (0_usize..3).prop_map(|status| Op::Submit { status: status * 4 }),
        2 => (0_usize..12, panics_at.clone())
            .prop_map(|(len, panics_at)| Op::SubmitBatch { len, panics_at }),
        1 => Just(Op::PeekTrigger),
        4 => Just(Op::Trigger),
        1 => Just(Op::TriggerAll),
        1 => Just(Op::Peek),
        2 => Just(Op::Take),
        4 => Just(Op::Pop),
        2 => (0_usize..6, panics_at)
            .prop_map(|(max, panics_at)| Op::PopBatch { max, panics_at }),
        1 => (0_usize..12).prop_map(|steps| Op::Drain { steps }),
        2 => offset.clone().prop_map(|offset| Op::IsCompleted { offset }),
        2 => (offset.clone(), 0..=i32::MAX, any::<bool>())
            .prop_map(|(offset, efd, pooled)| Op::Install { offset, efd, pooled }),
        1 => (offset, any::<bool>())
            .prop_map(|(offset, is_there)| Op::Remove { offset, is_there }),
    ]
}

/// Numbers at which something could wrap: the first, 32 bits, and the end of the number space.
fn start() -> impl Strategy<Value = u64> {
    prop_oneof![Just(1), (1_u64 << 32) - 8..(1 << 32) + 2, LAST - 12..=LAST]
}

struct Entry {
    status: *const AtomicI32,
    waiter: Option<Waiter>,
    item: Option<u64>,
}

/// Outstanding requests, oldest first; `triggered` of them are in flight.
struct Model {
    capacity: usize,
    next: u64,
    triggered: usize,
    entries: VecDeque<Entry>,
}

impl Model {
    fn completed(&self) -> u64 {
        self.next - self.entries.len() as u64
    }

    fn next_trigger(&self) -> u64 {
        self.completed() + self.triggered as u64
    }

    fn is_completed(&self, number: u64) -> Result<bool, NeverIssued> {
        if number == 0 || number >= self.next {
            return Err(NeverIssued {
                seq: seq(number),
                xu: XU,
            });
        }
        Ok(number < self.completed())
    }

    /// Where the waiter of a request is.
    fn waiter_of(&mut self, number: u64) -> Result<&mut Option<Waiter>, InstallError> {
        if self.is_completed(number)? {
            return Err(InstallError::Completed { seq: seq(number) });
        }
        let index = usize::try_from(number - self.completed()).unwrap();
        Ok(&mut self.entries[index].waiter)
    }

    fn room(&self) -> usize {
        let numbers = LAST + 1 - self.next;
        (self.capacity - self.entries.len()).min(usize::try_from(numbers).unwrap())
    }

    fn submit(&mut self, status: *const AtomicI32) {
        self.entries.push_back(Entry {
            status,
            waiter: None,
            item: Some(self.next),
        });
        self.next += 1;
    }

    /// The oldest request, which must be triggered, is complete: this is what its slot held.
    fn pop(&mut self, popped: &Popped<Payload>) {
        assert!(self.triggered > 0);
        assert_eq!(popped.seq, seq(self.completed()));
        let entry = self.entries.pop_front().unwrap();
        self.triggered -= 1;
        assert_eq!(popped.status, entry.status);
        assert_eq!(popped.waiter, entry.waiter);
        assert_eq!(popped.item.as_ref().map(|item| item.number), entry.item);
    }

    fn live(&self) -> usize {
        self.entries
            .iter()
            .filter(|entry| entry.item.is_some())
            .count()
    }
}

fn seq(number: u64) -> SeqId {
    SeqId::new(XU, Cursor::new(number).unwrap())
}

/// A number, and a count of how many are alive.
struct Payload {
    number: u64,
    _alive: Arc<()>,
}

fn apply(op: &Op, model: &mut Model, ends: &mut Ends<Payload>, alive: &Arc<()>) {
    let (submitter, worker, observer) = ends;
    match *op {
        Op::Submit { status } => {
            let status = ptr::without_provenance(status);
            let item = Box::new(Payload {
                number: model.next,
                _alive: alive.clone(),
            });
            match submitter.submit_with_status(item, status) {
                Ok(submitted) => {
                    assert!(model.entries.len() < model.capacity && model.next <= LAST);
                    assert_eq!(submitted, seq(model.next));
                    model.submit(status);
                }
                Err(SubmitError::Exhausted { item, xu }) => {
                    assert_eq!((model.next, item.number, xu), (LAST + 1, LAST + 1, XU));
                }
                Err(SubmitError::Full { item, capacity, .. }) => {
                    assert_eq!(model.entries.len() as u64, capacity);
                    assert!(model.next <= LAST && item.number == model.next);
                }
                Err(error) => panic!("{error}"),
            }
        }
        Op::SubmitBatch { len, panics_at } => {
            let (room, next) = (model.room(), model.next);
            let mut yielded = 0;
            let mut items = (0..len).map(|index| {
                assert!(yielded < room, "asked for an item without room for it");
                // Unwinds without the hook, which would print it.
                if index == panics_at {
                    resume_unwind(Box::new("an iterator's own affair"));
                }
                yielded += 1;
                Box::new(Payload {
                    number: next + index as u64,
                    _alive: alive.clone(),
                })
            });
            let batch = catch_unwind(AssertUnwindSafe(|| submitter.submit_batch(items.by_ref())));
            let is_exhausted = next > LAST;
            drop(items);
            match batch {
                Ok(Ok(batch)) => {
                    assert!(room > 0);
                    assert_eq!(yielded, len.min(room));
                    assert_eq!(batch.len(), yielded as u64);
                    assert_eq!(batch.is_empty(), yielded == 0);
                    let last = next + yielded as u64;
                    assert!(batch.iter().eq((next..last).map(seq)));
                    let ends = (yielded > 0).then(|| (seq(next), seq(last - 1)));
                    assert_eq!(batch.first().zip(batch.last()), ends);
                }
                Ok(Err(BatchError::Full { xu: XU, capacity })) => {
                    assert_eq!(capacity, model.entries.len() as u64);
                    assert!(!is_exhausted && yielded == 0);
                }
                Ok(Err(BatchError::Exhausted { xu: XU })) => {
                    assert!(is_exhausted && yielded == 0);
                }
                Ok(Err(error)) => panic!("{error}"),
                Err(_) => assert_eq!(yielded, panics_at),
            }
            for _ in 0..yielded {
                model.submit(ptr::null());
            }
        }
        Op::PeekTrigger => match submitter.peek_next_trigger() {
            Ok(pending) => {
                let entry = &model.entries[model.triggered];
                assert_eq!(pending.seq(), seq(model.next_trigger()));
                assert_eq!(Some(pending.item().number), entry.item);
                assert_eq!(pending.status(), entry.status);
            }
            Err(error) => {
                assert_eq!(error, PeekError::Empty);
                assert_eq!(model.triggered, model.entries.len());
            }
        },
        Op::Trigger => {
            let expected = if model.triggered < model.entries.len() {
                Ok(seq(model.next_trigger()))
            } else {
                Err(PeekError::Empty)
            };
            assert_eq!(submitter.trigger_next(), expected);
            model.triggered += usize::from(expected.is_ok());
        }
        Op::TriggerAll => {
            let held_back = model.entries.len() - model.triggered;
            assert_eq!(submitter.trigger_all(), Ok(held_back as u64));
            model.triggered = model.entries.len();
        }
        Op::Peek => match worker.peek() {
            Ok(mut current) => {
                assert!(model.triggered > 0);
                assert_eq!(current.seq(), seq(model.completed()));
                assert_eq!(current.status(), model.entries[0].status);
                assert_eq!(
                    current.item().map(|item| item.number),
                    model.entries[0].item
                );
            }
            Err(error) => assert_eq!((error, model.triggered), (PeekError::Empty, 0)),
        },
        Op::Take => match worker.take() {
            Ok(item) => {
                assert!(model.triggered > 0);
                assert_eq!(item.map(|item| item.number), model.entries[0].item.take());
            }
            Err(error) => assert_eq!((error, model.triggered), (PeekError::Empty, 0)),
        },
        Op::Pop => match worker.pop() {
            Ok(popped) => model.pop(&popped),
            Err(error) => assert_eq!((error, model.triggered), (PeekError::Empty, 0)),
        },
        Op::PopBatch { max, panics_at } => {
            let mut into = Picky {
                panics_at,
                taken: Vec::new(),
            };
            let triggered = model.triggered;
            let count = catch_unwind(AssertUnwindSafe(|| worker.pop_batch(max, &mut into)));
            let expected = max.min(triggered);
            match count {
                Ok(count) => {
                    assert_eq!(count, Ok(expected));
                    assert_eq!(into.taken.len(), expected);
                }
                // The one that it panicked about was out of the ring.
                Err(_) => assert_eq!(into.taken.len(), panics_at + 1),
            }
            for popped in &into.taken {
                model.pop(popped);
            }
        }
        Op::Drain { steps } => {
            let mut drain = worker.drain();
            for _ in 0..steps {
                match drain.next() {
                    Some(popped) => model.pop(&popped),
                    None => assert_eq!(model.triggered, 0),
                }
            }
        }
        Op::IsCompleted { offset } => {
            let number = near(model, offset);
            let expected = model.is_completed(number);
            assert_eq!(observer.is_completed(seq(number)), expected);
            assert_eq!(submitter.is_completed(seq(number)), expected);
        }
        Op::Install {
            offset,
            efd,
            pooled,
        } => {
            let number = near(model, offset);
            let waiter = if pooled {
                Waiter::pooled(efd)
            } else {
                Waiter::one_shot(efd)
            };
            let expected = model
                .waiter_of(number)
                .map(|place| std::mem::replace(place, waiter));
            assert_eq!(
                observer.install_waiter(seq(number), waiter.unwrap()),
                expected
            );
        }
        Op::Remove { offset, is_there } => {
            let number = near(model, offset);
            let mut place = model.waiter_of(number);
            let present = place.as_deref().ok().copied().flatten();
            // A descriptor of the other kind is another waiter.
            let other = match present {
                Some(waiter) if waiter.is_pooled() => Waiter::one_shot(waiter.efd()),
                Some(waiter) => Waiter::pooled(waiter.efd()),
                None => Waiter::pooled(5),
            };
            let waiter = present.filter(|_| is_there).or(other).unwrap();
            let is_removed = Some(waiter) == present;
            if let (true, Ok(place)) = (is_removed, &mut place) {
                **place = None;
            }
            let expected = place.map(|_| is_removed);
            assert_eq!(observer.remove_waiter(seq(number), waiter), expected);
        }
    }
}

/// Takes until it panics.
struct Picky {
    panics_at: usize,
    taken: Vec<Popped<Payload>>,
}

impl Extend<Popped<Payload>> for Picky {
    fn extend<I: IntoIterator<Item = Popped<Payload>>>(&mut self, popped: I) {
        for (index, popped) in popped.into_iter().enumerate() {
            self.taken.push(popped);
            if index == self.panics_at {
                resume_unwind(Box::new("a collection's own affair"));
            }
        }
    }
}

fn near(model: &Model, offset: i64) -> u64 {
    model
        .completed()
        .saturating_add_signed(offset)
        .min(LAST + 1)
}

fn compare(model: &Model, ends: &Ends<Payload>, alive: &Arc<()>) {
    let (submitter, worker, observer) = ends;
    let snapshot = observer.snapshot();
    assert_eq!(snapshot.completed.get(), model.completed());
    assert_eq!(snapshot.triggered.get(), model.next_trigger());
    assert_eq!(snapshot.submitted.get(), model.next);
    assert_eq!(snapshot.in_flight(), model.triggered as u64);
    let depth = model.entries.len() as u64;
    assert_eq!(
        (submitter.depth(), observer.depth(), snapshot.depth()),
        (depth, depth, depth)
    );
    assert_eq!(submitter.is_idle(), depth == 0);
    // A lap back, and everything that is outstanding.
    let oldest = model.next.saturating_sub(2 * model.capacity as u64);
    for number in oldest..model.next {
        let is_completed = submitter.is_completed(seq(number));
        assert_eq!(is_completed, model.is_completed(number), "{number}");
    }
    let last_submitted = seq(model.next - 1);
    assert_eq!(
        (submitter.last_submitted(), observer.last_submitted()),
        (last_submitted, last_submitted)
    );
    let last_completed = seq(model.completed() - 1);
    assert_eq!(
        (worker.last_completed(), observer.last_completed()),
        (last_completed, last_completed)
    );
    assert_eq!(Arc::strong_count(alive) - 1, model.live());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ring_is_a_queue(
        capacity in 1_usize..9,
        start in start(),
        ops in vec(op(), 0..120),
    ) {
        let cursor = Cursor::new(start).unwrap();
        let alive = Arc::new(());
        let mut ends = ring_starting_at(XU, capacity as u64, cursor).unwrap();
        let mut model = Model { capacity, next: start, triggered: 0, entries: VecDeque::new() };
        compare(&model, &ends, &alive);
        for op in &ops {
            apply(op, &mut model, &mut ends, &alive);
            compare(&model, &ends, &alive);
        }
        drop(ends);
        assert_eq!(Arc::strong_count(&alive), 1);
    }
}

#[test]
fn r3_end_of_the_number_space() {
    let (mut submitter, mut worker, observer) = ring_starting_at(XU, 3, Cursor::LAST).unwrap();
    assert_eq!(submitter.submit(Box::new(1)).unwrap(), seq(LAST));
    let before = observer.snapshot();
    // There is room, and no number.
    let error = submitter.submit(Box::new(2)).unwrap_err();
    assert!(matches!(error, SubmitError::Exhausted { xu: XU, .. }));
    assert_eq!(*error.into_item(), 2);
    assert_eq!(observer.snapshot(), before);
    submitter.trigger_next().unwrap();
    assert_eq!(worker.pop().unwrap().seq, seq(LAST));
    assert!(matches!(
        submitter.submit(Box::new(3)),
        Err(SubmitError::Exhausted { .. })
    ));
    assert_eq!(observer.is_completed(seq(LAST)), Ok(true));
    assert!(observer.is_completed(seq(LAST + 1)).is_err());
    assert_eq!(observer.last_submitted(), seq(LAST));
}

/// A batch takes what there are numbers for, and leaves the rest in its iterator.
#[test]
fn r3_batch_ends_with_the_number_space() {
    let (mut submitter, mut worker, observer) =
        ring_starting_at(XU, 8, Cursor::new(LAST - 1).unwrap()).unwrap();
    let mut items = (1..=5).map(Box::new);
    let batch = submitter.submit_batch(items.by_ref()).unwrap();
    assert!(batch.iter().eq([seq(LAST - 1), seq(LAST)]));
    let exhausted = BatchError::Exhausted { xu: XU };
    assert_eq!(submitter.submit_batch(items.by_ref()), Err(exhausted));
    assert!(items.eq([3, 4, 5].map(Box::new)));
    assert_eq!(submitter.trigger_all(), Ok(2));
    let mut popped = Vec::new();
    assert_eq!(worker.pop_batch(usize::MAX, &mut popped), Ok(2));
    assert_eq!(observer.last_completed(), seq(LAST));
    assert_eq!(submitter.is_completed(seq(LAST)), Ok(true));
    assert!(submitter.is_completed(seq(LAST + 1)).is_err());
    assert_eq!(
        submitter.submit_batch([6].map(Box::new)),
        Err(BatchError::Exhausted { xu: XU })
    );
}

/// When both are true, the answer is the one that waiting does not change.
#[test]
fn r3_exhausted_comes_before_full() {
    let (mut submitter, _worker, _observer) = ring_starting_at(XU, 1, Cursor::LAST).unwrap();
    submitter.submit(Box::new(1)).unwrap();
    assert!(matches!(
        submitter.submit(Box::new(2)),
        Err(SubmitError::Exhausted { .. })
    ));
}

#[test]
fn r6_number_zero_is_never_issued() {
    let (mut submitter, _worker, _observer) = ring_starting_at(XU, 1, Cursor::NONE).unwrap();
    assert_eq!(submitter.submit(Box::new(1)).unwrap(), seq(1));
}
