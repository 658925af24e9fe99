//! Any bytes taken for calls of a ring, compared with a queue that is too simple to be wrong.

use std::collections::VecDeque;
use std::ptr;
use std::sync::Arc;

use xu_abi::{Cursor, SeqId, XuId};
use xu_ring::queue::{self, InstallError, PeekError, Popped, SubmitError, Waiter};
use xu_ring::spsc::{self, Full};

/// Bytes, one after another; numbers are small, so that calls meet the edges.
struct Calls<'a>(std::slice::Iter<'a, u8>);

impl Calls<'_> {
    fn next(&mut self) -> Option<u8> {
        self.0.next().copied()
    }

    fn number(&mut self) -> usize {
        usize::from(self.next().unwrap_or_default())
    }
}

/// A value that owns memory, so that one that is lost or dropped twice is found.
#[derive(Debug, PartialEq)]
struct Value(Box<u64>, Arc<()>);

/// The first byte chooses the capacity, each later one a call, with a number in the byte behind it where it needs one.
pub fn spsc(bytes: &[u8]) {
    let mut calls = Calls(bytes.iter());
    let capacity = calls.number() % 70 + 1;
    let (producer, consumer) = spsc::channel(capacity).expect("a few slots");
    let (mut producer, mut consumer) = (Some(producer), Some(consumer));
    let alive = Arc::new(());
    let value = |number| Value(Box::new(number), alive.clone());
    let mut model = VecDeque::new();
    let mut next = 0_u64;
    while let Some(call) = calls.next() {
        match (call % 16, &mut producer, &mut consumer) {
            (0..=3, Some(producer), _) => match producer.push(value(next)) {
                Ok(()) => {
                    model.push_back(next);
                    next += 1;
                }
                Err(Full(back)) => assert_eq!((*back.0, model.len()), (next, capacity)),
            },
            (4, Some(producer), _) => {
                let len = calls.number() % 80;
                let mut numbers = next..next + len as u64;
                let pushed = producer.push_iter(numbers.by_ref().map(value));
                assert_eq!(pushed, len.min(capacity - model.len()));
                let end = next + pushed as u64;
                assert_eq!(numbers.start, end, "what found no room stays");
                model.extend(next..end);
                next = end;
            }
            (5..=8, _, Some(consumer)) => {
                let popped = consumer.pop().map(|value| *value.0);
                assert_eq!(popped, model.pop_front());
            }
            (9, _, Some(consumer)) => {
                let (max, steps) = (calls.number() % 80, calls.number() % 80);
                for popped in consumer.pop_iter(max).take(steps) {
                    assert_eq!(Some(*popped.0), model.pop_front());
                }
            }
            (10, _, Some(consumer)) => {
                assert_eq!(
                    consumer.peek().map(|value| *value.0),
                    model.front().copied()
                );
            }
            (11, _, Some(consumer)) => match (consumer.peek_mut(), model.front_mut()) {
                (Some(place), Some(number)) => {
                    *number = !*number;
                    *place = value(*number);
                }
                (place, number) => assert!(place.is_none() && number.is_none()),
            },
            // One call in 256 each.
            (15, ..) if call == 0x7f => producer = None,
            (15, ..) if call == 0xff => consumer = None,
            _ => {}
        }
        let len = model.len();
        if let Some(producer) = &producer {
            assert_eq!((producer.len(), producer.is_full()), (len, len == capacity));
            assert_eq!(producer.is_abandoned(), consumer.is_none());
        }
        if let Some(consumer) = &consumer {
            assert_eq!((consumer.len(), consumer.is_empty()), (len, len == 0));
            assert_eq!(consumer.is_abandoned(), producer.is_none());
        }
        if producer.is_some() || consumer.is_some() {
            assert_eq!(Arc::strong_count(&alive) - 1, len);
        }
    }
    drop((producer, consumer));
    assert_eq!(Arc::strong_count(&alive), 1, "each value is dropped once");
}

const XU: XuId = XuId::from_raw(0x0301);

fn seq(number: u64) -> SeqId {
    SeqId::new(XU, Cursor::new(number).expect("a small number"))
}

/// Requests that are submitted and not completed.
struct Model {
    capacity: usize,
    /// The three cursors: each is the first number that is not yet what its name says.
    submitted: u64,
    triggered: u64,
    completed: u64,
    /// Waiter, and number of the payload that is in its slot.
    entries: VecDeque<(Option<Waiter>, Option<u64>)>,
}

impl Model {
    fn submit(&mut self, count: u64) {
        for number in self.submitted..self.submitted + count {
            self.entries.push_back((None, Some(number)));
        }
        self.submitted += count;
    }

    fn room(&self) -> usize {
        self.capacity - self.entries.len()
    }

    fn pop(&mut self, popped: Popped<Value>) {
        assert!(self.completed < self.triggered);
        assert_eq!(popped.seq, seq(self.completed));
        let (waiter, item) = self.entries.pop_front().expect("it is outstanding");
        assert_eq!(popped.waiter, waiter);
        assert_eq!(popped.item.map(|item| *item.0), item);
        self.completed += 1;
    }

    fn is_completed(&self, number: u64) -> Option<bool> {
        (number > 0 && number < self.submitted).then_some(number < self.completed)
    }
}

/// As [`spsc`], for the ring of an execution unit: the model has three cursors.
pub fn queue(bytes: &[u8]) {
    let mut calls = Calls(bytes.iter());
    let capacity = calls.number() % 12 + 1;
    let (mut submitter, mut worker, observer) =
        queue::ring(XU, capacity as u64).expect("a few slots");
    let alive = Arc::new(());
    let item = |number| Box::new(Value(Box::new(number), alive.clone()));
    let mut model = Model {
        capacity,
        submitted: 1,
        triggered: 1,
        completed: 1,
        entries: VecDeque::new(),
    };
    while let Some(call) = calls.next() {
        match call % 16 {
            0..=2 => match submitter.submit_with_status(item(model.submitted), ptr::null()) {
                Ok(submitted) => {
                    assert!(model.room() > 0);
                    assert_eq!(submitted, seq(model.submitted));
                    model.submit(1);
                }
                Err(SubmitError::Full { item, .. }) => {
                    assert_eq!((*item.0, model.room()), (model.submitted, 0));
                }
                Err(error) => panic!("{error}"),
            },
            3 => {
                let len = calls.number() % 16;
                let items = (model.submitted..).take(len).map(item);
                match submitter.submit_batch(items) {
                    Ok(batch) => {
                        assert!(model.room() > 0);
                        assert_eq!(batch.len(), len.min(model.room()) as u64);
                        assert_eq!(batch.first(), (len > 0).then(|| seq(model.submitted)));
                        model.submit(batch.len());
                    }
                    Err(_) => assert_eq!(model.room(), 0),
                }
            }
            4 | 5 => match submitter.trigger_next() {
                Ok(triggered) => {
                    assert_eq!(triggered, seq(model.triggered));
                    model.triggered += 1;
                }
                Err(error) => {
                    assert_eq!(error, PeekError::Empty);
                    assert_eq!(model.triggered, model.submitted);
                }
            },
            6 => {
                let held_back = model.submitted - model.triggered;
                assert_eq!(submitter.trigger_all(), Ok(held_back));
                model.triggered = model.submitted;
            }
            7 => match worker.peek() {
                Ok(mut current) => {
                    assert_eq!(current.seq(), seq(model.completed));
                    assert_eq!(current.item().map(|item| *item.0), model.entries[0].1);
                }
                Err(_) => assert_eq!(model.completed, model.triggered),
            },
            8 => match worker.take() {
                Ok(item) => {
                    assert_eq!(item.map(|item| *item.0), model.entries[0].1.take());
                }
                Err(_) => assert_eq!(model.completed, model.triggered),
            },
            9 | 10 => match worker.pop() {
                Ok(popped) => model.pop(popped),
                Err(_) => assert_eq!(model.completed, model.triggered),
            },
            11 => {
                let max = calls.number() % 16;
                let expected = (model.triggered - model.completed).min(max as u64);
                let mut popped = Vec::new();
                let count = worker.pop_batch(max, &mut popped);
                assert_eq!(count.map(|count| count as u64), Ok(expected));
                popped.into_iter().for_each(|popped| model.pop(popped));
            }
            12 => match submitter.peek_next_trigger() {
                Ok(pending) => {
                    assert_eq!(pending.seq(), seq(model.triggered));
                    assert_eq!(*pending.item().0, model.triggered);
                }
                Err(_) => assert_eq!(model.triggered, model.submitted),
            },
            13 | 14 => {
                // From a lap back to a number yet to come.
                let from = model.completed.saturating_sub(8);
                let number = from + (calls.number() % 24) as u64;
                let efd = i32::from(call);
                let waiter = if call < 128 {
                    Waiter::pooled(efd)
                } else {
                    Waiter::one_shot(efd)
                }
                .expect("not negative");
                let installed = observer.install_waiter(seq(number), waiter);
                match model.is_completed(number) {
                    None => assert!(matches!(installed, Err(InstallError::NeverIssued(_)))),
                    Some(true) => {
                        assert!(matches!(installed, Err(InstallError::Completed { .. })));
                    }
                    Some(false) => {
                        // CAST: less than the capacity.
                        let entry = &mut model.entries[(number - model.completed) as usize];
                        assert_eq!(installed, Ok(entry.0.replace(waiter)));
                    }
                }
            }
            _ => {
                let number = model.completed.saturating_sub(8) + (calls.number() % 24) as u64;
                let expected = model.is_completed(number);
                assert_eq!(observer.is_completed(seq(number)).ok(), expected);
                assert_eq!(submitter.is_completed(seq(number)).ok(), expected);
            }
        }
        let snapshot = observer.snapshot();
        assert_eq!(snapshot.submitted.get(), model.submitted);
        assert_eq!(snapshot.triggered.get(), model.triggered);
        assert_eq!(snapshot.completed.get(), model.completed);
        assert_eq!(submitter.depth(), model.entries.len() as u64);
        let live = model.entries.iter().filter(|entry| entry.1.is_some());
        assert_eq!(Arc::strong_count(&alive) - 1, live.count());
    }
    drop((submitter, worker, observer));
    assert_eq!(Arc::strong_count(&alive), 1, "each payload is dropped once");
}
