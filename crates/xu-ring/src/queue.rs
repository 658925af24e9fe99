//! The three-cursor ring that carries requests from the thread that submits them to the worker of their unit.
//!
//! `xu-worker` owns one ring per queue of an execution unit: its submit funnel holds the [`Submitter`] behind a lock, its
//! worker thread the [`Worker`], and whoever asks or waits an [`Observer`]. The ring knows no device and no operating
//! system: it moves boxes, numbers and the descriptor numbers of waiters.
//!
//! ```
//! use xu_abi::{XuId, XuType};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let compute = XuId::new(XuType::Compute, 0, 3).ok_or("no such queue")?;
//! let (mut submitter, mut worker, observer) = xu_ring::queue::ring::<&str>(compute, 8)?;
//!
//! let seq = submitter.submit(Box::new("run the model"))?;
//! assert!(worker.peek().is_err(), "it is held back");
//! submitter.trigger_next()?;
//!
//! let item = worker.take()?;
//! assert_eq!(item.as_deref(), Some(&"run the model"));
//! assert_eq!(worker.pop()?.seq, seq);
//! assert_eq!(observer.is_completed(seq), Ok(true));
//! # Ok(())
//! # }
//! ```
//!
//! # Three cursors
//!
//! ```text
//!   reclaimed | in flight: the worker's   | held back: submitted, not triggered | free: the submitter's
//!  -----------+---------------------------+-------------------------------------+----------------------
//!         completed                   triggered                             submitted
//!         exec_head                   scheduled_head                        scheduled_tail
//!         moved by pop                moved by trigger                      moved by submit
//! ```
//!
//! `completed <= triggered <= submitted <= completed + capacity`, always. Cursors are 48-bit counters that start at 1, so
//! number 0 is "nothing yet"; they never wrap, and after the last number a submit fails. The slot of cursor `c` is
//! `c % capacity`, for any capacity from 1. Header and slots have the sizes and offsets of `xu_abi::QueueHeader` and
//! `xu_abi::Slot`, which is asserted when this crate is compiled.
//!
//! # Hand-over through the slot
//!
//! Cursors are for whoever watches, and tell the submitter what is free. The two ends that pass a request on meet in its
//! slot, whose *stage* says how far it is: held back, triggered, done. The worker waits for its next request by looking
//! at one byte in the line that it will read anyway, instead of at a cursor in another line that is written for every
//! request. [`Submitter::is_completed`] looks at the same byte for the answer.
//!
//! So an end that passes a request on writes twice, and the order matters: a trigger moves `triggered` before the stage, a
//! pop moves `completed` after it. Nobody then sees a request complete that is not triggered, and a slot is filled again
//! only when its stage has been written for the last time.
//!
//! # Why the orderings suffice
//!
//! Each cursor has one writer, which stores with release and reads its own copy. A stage has one writer at a time, the end
//! that owns the slot. Everybody else loads with acquire. There is no read-modify-write operation on a cursor or a stage, no
//! fence and no `SeqCst`.
//!
//! | store (release) | load (acquire) | what is ordered |
//! |---|---|---|
//! | stage `TRIGGERED`, by trigger | stage, by the worker | writing of the slot before its use |
//! | stage `TRIGGERED`, by trigger | stage, by the worker | `triggered` before the `completed` that follows from it |
//! | stage `DONE`, by pop | stage, by the submitter | what the worker did for the request before the answer |
//! | `completed`, by pop | `completed`, by the submitter | last look at the slot before it is filled again |
//! | `completed`, by pop | `completed`, by observers | the request's status before the news that it is complete |
//! | `completed`, by pop | `completed`, by observers | an older `triggered` before: a snapshot never shows it smaller |
//! | `triggered`, by trigger | `triggered`, by observers | an older `submitted` before: likewise |
//! | `submitted`, by submit | `submitted`, by observers | number and empty waiter of the slot before a waiter is installed |
//! | descriptor of a waiter, by an observer | the same, by pop | the flag that belongs to it, where the lock is not held |
//! | the count of handles | the same, by the last one to go | every use of the memory before its freeing |
//! | empty header, by the last end of a ring | the same, by the next ring in it | all that was done through the ring before the next |
//!
//! What need not be ordered: stages `HELD` and `FREE` are told to nobody, so they are stored with `Relaxed`; the submitter,
//! who asks, wrote them itself. The worker cannot take the stage of another lap for its own: see the ownership rule in
//! `queue/memory.rs`.
//!
//! The waiter is what a third party writes. Its words are atomic, so nobody can cause a data race; that no waiter is
//! forgotten is the work of the unit's `mark_comp_lock`, which covers [`Observer::install_waiter`],
//! [`Observer::remove_waiter`] and [`Worker::pop`].
//! `tests/loom.rs` weakens each of these orderings in turn and shows a run of the ring that then goes wrong.
//!
//! # Batches
//!
//! [`Submitter::submit_batch`] and [`Worker::pop_batch`] move their cursor once for many requests. A cursor is what others
//! wait on, so the first request of a batch becomes visible no sooner than the last: batches are for throughput where
//! several requests are at hand anyway, and one at a time is for latency. [`Worker::drain`] is a loop of pops.
//!
//! # What makes it fast
//!
//! `docs/bench-ring.md` has the figures: "From submission to the completion seen" and "three stages".
//!
//! * **One line per hand-over.** The worker looks at the slot's stage and finds the request in the same line; the answer goes
//!   back in that line, too.
//! * **Release stores by single writers.** No cursor and no stage is ever changed by a read-modify-write operation.
//! * **The far cursor is cached.** The submitter loads `completed` only when what it saw last says that the ring is full.
//! * **The next payload is on its way.** [`Worker::prefetch_next`] asks for the box behind the current one while that is
//!   completed. Worth a fifth to a quarter of a request's time in `xu-worker`, whose box is a line of its own.
//! * **No division.** Each end keeps the index of its cursor and wraps it by comparison, so any capacity will do.
//! * **Lines apart.** Slots begin on a pair of lines, and so does the header, whose cursors the ABI keeps 64 bytes apart. A
//!   header that [`ring_in`] is given begins on a line. Wherever it is, an end has its address at hand.
//!
//! # Map
//!
//! | module | subject |
//! |---|---|
//! | `submitter`, `worker`, `observer` | the ends: [`Submitter`], [`Worker`], [`Observer`] |
//! | `halves` | the algorithm, as the two halves that own slots |
//! | `header`, `home` | [`Header`], and somebody else's memory that it is in |
//! | `memory` | slots, stages, the ownership rule, and who frees all that |
//! | `waiter`, `error` | [`Waiter`], and the answers of a ring that refuses |
//! | `order` | the ordering of every access that two ends meet at |

mod error;
mod halves;
mod header;
mod home;
mod memory;
mod observer;
mod order;
mod submitter;
mod waiter;
mod worker;

use alloc::sync::Arc;

use xu_abi::{Cursor, XuId};

pub use error::{BatchError, InstallError, NeverIssued, PeekError, RingError, SubmitError};
use home::Home;

pub use header::Header;
pub use observer::{Observer, Snapshot};
pub use submitter::{Batch, Pending, Submitter};
pub use waiter::Waiter;
pub use worker::{Current, Drain, Popped, Worker};

/// The three ends of a ring.
pub type Ends<T> = (Submitter<T>, Worker<T>, Observer<T>);

/// Makes the ring of queue `xu` with `capacity` slots, and returns its ends.
///
/// The memory lives until the last end is dropped, which also drops every payload that is left.
///
/// # Errors
/// [`RingError::ZeroCapacity`], and [`RingError::NoMemory`] for a capacity that cannot be allocated.
pub fn ring<T: Send>(xu: XuId, capacity: u64) -> Result<Ends<T>, RingError> {
    ends(xu, capacity, Cursor::FIRST, None)
}

/// As [`ring`], with the ring's header in memory of the caller's: the one that `header` finds in `home`.
///
/// The ring keeps `home` until its last end is gone. Then the header is empty again, and ready for another ring: all that was
/// done through the ends, and the dropping of the payloads that were left, happens before that one is made. The slots and
/// all else are the ring's own.
///
/// The header cannot be one that goes earlier, because it is borrowed from `home` or from nothing:
///
/// ```compile_fail,E0597
/// let local = xu_ring::queue::Header::new();
/// let (xu, home) = (xu_abi::XuId::from_raw(1), std::sync::Arc::new(()));
/// let ends = xu_ring::queue::ring_in::<u32, ()>(xu, 8, home, |_| &local);
/// ```
///
/// A payload that owns an end of its own ring, or a `home` that does, keeps itself alive: somebody has to take the end out.
///
/// # Errors
/// As [`ring`], and [`RingError::HeaderInUse`] when there is a ring in the header: one of its ends is left. The ring that is
/// there notices nothing, and `home` is dropped.
pub fn ring_in<T: Send, H: Send + Sync + 'static>(
    xu: XuId,
    capacity: u64,
    home: Arc<H>,
    header: impl FnOnce(&H) -> &Header,
) -> Result<Ends<T>, RingError> {
    ends(xu, capacity, Cursor::FIRST, Some(Home::new(home, header)))
}

/// As [`ring`], with `start` as the number of the first request; [`Cursor::NONE`] counts as [`Cursor::FIRST`].
///
/// The ring behaves as if every earlier request had been submitted and completed.
///
/// # Errors
/// As [`ring`].
#[cfg(feature = "test-hooks")]
pub fn ring_starting_at<T: Send>(
    xu: XuId,
    capacity: u64,
    start: Cursor,
) -> Result<Ends<T>, RingError> {
    ends(xu, capacity, start, None)
}

fn ends<T: Send>(
    xu: XuId,
    capacity: u64,
    start: Cursor,
    home: Option<Home>,
) -> Result<Ends<T>, RingError> {
    let (submit, work, memory) = halves::split(xu, capacity, start, home)?;
    Ok((
        Submitter::new(submit),
        Worker::new(work),
        Observer::new(memory),
    ))
}
