//! Rings that carry values from one thread to another, in order, without a lock and without a copy.
//!
//! # Which one
//!
//! * `queue`: requests of an execution unit. They are boxes with numbers; they can be held back after they were submitted; they
//!   stay in the ring while they run; and any number of observers may ask how far they are, or leave a waiter. Header
//!   and slots have the layout of `xu-abi`.
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
pub mod queue;
pub mod spsc;
mod sync;

#[cfg(loom)]
#[doc(hidden)]
pub use mutant::Mutant;
