//! A bounded queue between one producer and one consumer, for values of any type.
//!
//! The hand-over of [`queue`](crate::queue) without sequences and triggers: what is pushed is visible at once.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (mut producer, mut consumer) = xu_ring::spsc::channel::<u64>(1000)?;
//!
//! let pushing = std::thread::spawn(move || {
//!     for value in 0..10_000 {
//!         while producer.push(value).is_err() {
//!             std::thread::yield_now(); // Full: the consumer is behind.
//!         }
//!     }
//! });
//! let mut sum = 0;
//! loop {
//!     // Ask in this order: what was pushed before the producer went is visible once `is_abandoned` says that it went.
//!     let is_abandoned = consumer.is_abandoned();
//!     match consumer.pop() {
//!         Some(value) => sum += value,
//!         None if is_abandoned => break,
//!         None => std::thread::yield_now(),
//!     }
//! }
//! assert_eq!(sum, 49_995_000);
//! # pushing.join().map_err(|_| "the producer panicked")?;
//! # Ok(())
//! # }
//! ```
//!
//! # How it works
//!
//! ```text
//!              consumer's place            producer's place
//!                    ▼                           ▼
//!   │ empty │ empty │ FULL │ FULL │ FULL │ FULL │ empty │ empty │
//!                     └── the consumer's ────┘    └─ the producer's, round to the consumer's place
//! ```
//!
//! There are no shared cursors. Each slot has a byte that says whether it is full, next to its value; each end keeps its own
//! place to itself. An empty slot is the producer's, a full slot is the consumer's, and changing the byte hands the slot
//! over, with everything in it. So the only memory that moves between the two cores is the line with the value.
//!
//! | store (release) | load (acquire) | what is ordered |
//! |---|---|---|
//! | *full*, by push | the byte, by pop and peek | writing of the value before its reading |
//! | *empty*, by pop | the byte, by push | reading of a value before the next one is written in its place |
//! | an end goes | [`is_abandoned`](Consumer::is_abandoned) at the other | all that it did before the news that it went |
//! | an end goes | the same, by the last to go | every use of the memory before its freeing |
//! | an end goes | [`Inline::split`] | all that one pair of ends did before what the next one does |
//!
//! There is no other ordering in these ends, no read-modify-write operation in a push or pop, no fence and no `SeqCst`.
//! `tests/loom_spsc.rs` weakens each of these in turn and shows a run that then goes wrong.
//!
//! What makes it fast; `docs/bench-ring.md` measures each choice against its opposite:
//!
//! * **State beside the value.** With shared cursors a transfer moves two lines, the value's and the cursor's; here it is one.
//!   The price: nobody knows how many values there are without looking at slots.
//! * **Both ends write the state.** A line that each end reads *and* writes moves to and fro as a whole; one that an end only
//!   reads has to be taken from it again each time, which is why a sequence number that only the producer writes is slower.
//! * **No slot of a short queue lies across two lines**; in a long one slots stand close together. In a short queue the ends
//!   are always near each other; in a long one what counts is how many lines there are to move.
//! * **No division.** A place is a distance in bytes that is compared with the end, so any capacity will do. On a processor
//!   that divides fast this wins nothing; it is not slower either.
//! * **No prefetching by hand.** Where it was measured, a consumer that asks for lines ahead of time won in a long queue and
//!   lost in short ones, since it takes lines from the producer that is about to use them. It is not worth assembly.
//!
//! # Coming from another crate
//!
//! | here | rtrb | ringbuf | crossbeam `ArrayQueue` |
//! |---|---|---|---|
//! | [`channel`] | `RingBuffer::new` | `HeapRb::new`, `split` | `new`, `Arc` |
//! | [`Inline`] | | `StaticRb` | |
//! | [`push`](Producer::push), [`Full`] | `push`, `PushError::Full` | `try_push` | `push` |
//! | [`pop`](Consumer::pop) | `pop` | `try_pop` | `pop` |
//! | [`peek`](Consumer::peek) | `peek` | `try_peek` | |
//! | [`push_slice`](Producer::push_slice), [`push_iter`](Producer::push_iter) | `write_chunk` | `push_slice`, `push_iter` | |
//! | [`pop_slice`](Consumer::pop_slice), [`pop_iter`](Consumer::pop_iter) | `read_chunk` | `pop_slice`, `pop_iter` | |
//! | [`Consumer::len`] | `Consumer::slots` | `occupied_len` | `len` |
//! | [`Producer::vacant_len`] | `Producer::slots` | `vacant_len` | |
//! | [`is_abandoned`](Consumer::is_abandoned) | `is_abandoned` | `read_is_held`, `write_is_held` | |
//! | [`parking`] | | `async-ringbuf`, `ringbuf-blocking` | `crossbeam_channel::bounded` |
//!
//! What is *not* here: slices of the queue's own memory (`as_slices`, chunks). Values are not next to each other, so a batch
//! is copied in and out; and `len` is a search, not a load.
#![cfg_attr(
    not(feature = "std"),
    allow(
        rustdoc::broken_intra_doc_links,
        reason = "`parking` or `channel` is not there"
    )
)]

mod consumer;
mod control;
mod error;
#[cfg_attr(not(feature = "alloc"), path = "no_heap.rs")]
mod heap;
mod inline;
mod order;
#[cfg(feature = "async")]
pub mod parking;
mod producer;
mod slot;
mod storage;

pub use consumer::{Consumer, PopIter};
pub use error::{CapacityError, Full};
pub use heap::Heap;
pub use inline::Inline;
pub use producer::Producer;
pub use storage::Storage;

/// The producer of an [`Inline`] queue.
pub type InlineProducer<'a, T, const N: usize> = Producer<T, &'a Inline<T, N>>;

/// The consumer of an [`Inline`] queue.
pub type InlineConsumer<'a, T, const N: usize> = Consumer<T, &'a Inline<T, N>>;

/// Makes a queue of `capacity` slots on the heap, and returns its ends.
///
/// The memory lives until both ends are dropped, which also drops every value that is left.
///
/// # Errors
/// [`CapacityError::Zero`], and [`CapacityError::NoMemory`] for a capacity that cannot be allocated.
#[cfg(feature = "alloc")]
pub fn channel<T>(capacity: usize) -> Result<(Producer<T>, Consumer<T>), CapacityError> {
    let (one, other) = Heap::pair(capacity)?;
    Ok((
        // SAFETY: the one producer of a new queue.
        Producer::new(unsafe { storage::Track::new(one, 0) }),
        // SAFETY: the one consumer of a new queue.
        Consumer::new(unsafe { storage::Track::new(other, 0) }),
    ))
}
