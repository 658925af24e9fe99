//! Rings that carry values from one thread to another, in order and without a lock.
//!
//! # Which one
//!
//! * [`spsc`]: values of any type between one producer and one consumer. Take this one unless you need what the other has.
//!   What is pushed is visible at once; a full or empty queue is an ordinary answer; ends that wait, in a thread or a
//!   task, are in `spsc::parking`; [`spsc::Inline`] needs no allocator.
//! * `queue`: requests of an execution unit. They are boxes with numbers; they can be held back after they were submitted; they
//!   stay in the ring while they run; and any number of observers may ask how far they are, or leave a waiter. Header
//!   and slots have the layout of `xu-abi`.
//!
//! | | `spsc` | `queue` |
//! |---|---|---|
//! | what goes through | any `T` | `Box<T>`, with a sequence number of 48 bits |
//! | ends | producer, consumer | submitter, worker, observers |
//! | visible to the other end | when pushed | when triggered |
//! | its place is free again | when popped | when completed, which may be long after it was seen |
//! | who else may look | nobody | observers: how many, up to which number, is this one complete |
//! | memory | padded slots, on the heap or in place | 256-byte header, 32-byte slots, as `xu-abi` says |
//!
//! Both hand over in the same way, which is what makes them fast: a byte in the slot says whose the slot is, next to what is
//! in it, so that one line of cache moves from core to core and not two. `docs/bench-ring.md` in the repository has the
//! figures, against other crates and against other ways to do it.
//!
//! # Why it can be trusted
//!
//! Every `unsafe` block rests on one named rule, stated once: the ownership rule of `queue`, the hand-over rule of
//! `spsc`. Every memory ordering of the queues is in a table with its reason, and has a mutant: the models under loom run
//! again with that one ordering weakened, and must find a run that goes wrong. (`spsc::parking` names the two that no model
//! can kill.) Small models are exhaustive; the larger ones stop at two to four preemptions, and say so. The tests run
//! under miri and ThreadSanitizer.
//!
//! # Features
//!
//! * `alloc` (default): queues on the heap. Without it there is `spsc::Inline`, which needs no allocator.
//! * `async`: `spsc::parking`, ends that wait in a task.
//! * `std`: the same in a thread. Implies `alloc` and `async`.
//! * `checked`: compare sequence and cursor at every look at a slot in release builds too; debug builds always do.
//! * `test-hooks`: `queue::ring_starting_at`, for tests near the end of the number space.
#![no_std]

#[cfg(feature = "alloc")]
extern crate alloc;

mod mutant;
#[cfg(feature = "alloc")]
mod prefetch;
#[cfg(feature = "alloc")]
pub mod queue;
pub mod spsc;
mod sync;

#[cfg(loom)]
#[doc(hidden)]
pub use mutant::Mutant;
