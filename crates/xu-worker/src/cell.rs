//! The memory that a request's two ends share: its status, its outcome, and who waits for them.
//!
//! ```text
//!   state:  0 ──── register ───▶ WAITING ─── settle ───▶ WAITING | DONE     settle then wakes
//!           0 ──── settle ─────────────────────────────▶ DONE               here there is nobody to wake
//!           0 ──── drop ───────▶ GONE ────── settle ───▶ GONE | DONE        here nobody to take it: settle drops it
//!
//!           0 ──── begin ──────▶ BEGUN                                      the request runs: too late to skip it
//!           0 ──── skip ───────▶ SKIP ────── begin ────▶ SKIP | BEGUN       it never does
//! ```
//!
//! The lower line is for requests that can be skipped; the cell of any other is `BEGUN` when it is made, and its worker does not
//! ask. `SKIP` is set once or never, and only while neither `BEGUN` nor `DONE` is: so whoever has set it knows, and everybody
//! who looks later sees the same.
//!
//! Used by [`completion`](mod@crate::completion) alone: the worker's end settles the cell once, the caller's end registers,
//! sleeps and takes. One word decides whether they meet, so a worker whose request nobody waits for makes one atomic
//! operation and takes no lock. This is the only `unsafe` code of a request's way back.
//!
//! # The ownership rule
//!
//! `outcome` belongs to the [`Settler`] until it has set `DONE`, and to the [`Taker`] afterwards, unless that had set
//! `GONE` before: then the settler keeps it. A cell has one of each, made together, and neither can be cloned. [`Spare`]
//! touches it when both are gone.
#![allow(
    unsafe_code,
    reason = "the outcome changes hands with one atomic operation"
)]

use crate::completion::Lost;
use crate::fork::Owner;
use crate::mutant::{Mutant, unless};
use crate::sync::{Arc, AtomicI32, AtomicU32, Condvar, Mutex, Ordering, UnsafeCell};
use crate::wake::{drop_foreign, wake};
use core::task::Waker;
use std::time::Instant;
use xu_abi::Status;

/// The outcome is there.
const DONE: u32 = 1;
/// Somebody sleeps or has left a waker.
const WAITING: u32 = 2;
/// The taker went before the outcome came.
const GONE: u32 = 4;
/// The worker has come to the request, or the request cannot be skipped.
const BEGUN: u32 = 8;
/// The taker was there first: the request does not run.
const SKIP: u32 = 16;

/// Stands in the status until the worker writes; no status has this value.
const NO_STATUS: i32 = i32::MIN;

/// What registering found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// The waker will be woken.
    Pending,
    /// The outcome is there, and the waker is not.
    Done,
}

/// The shared memory. What every request touches comes first, in one line with the count of references if the outcome is
/// small.
#[repr(C)]
struct Cell<T> {
    state: AtomicU32,
    /// Written before the completion is visible.
    status: AtomicI32,
    outcome: UnsafeCell<Option<Result<T, Lost>>>,
    /// At most one waker: the newest.
    waker: Mutex<Option<Waker>>,
    done: Condvar,
    /// The process whose units use this cell.
    owner: Owner,
}

// SAFETY: by the ownership rule the outcome is touched by one thread at a time, and may pass to another: that needs
//   `T: Send`. All else is atomic or behind a lock.
unsafe impl<T: Send> Sync for Cell<T> {}

/// The end that says once how the request went.
pub(crate) struct Settler<T>(Arc<Cell<T>>);

/// The end that waits for it and takes it.
pub(crate) struct Taker<T>(Arc<Cell<T>>);

/// A cell that may be used again once both ends are gone.
pub(crate) struct Spare<T>(Arc<Cell<T>>);

/// Both ends of a new cell, and its spare.
pub(crate) type Ends<T> = (Settler<T>, Taker<T>, Spare<T>);

/// Makes a cell, of a request that can be skipped or not.
pub(crate) fn cell<T: Send>(can_skip: bool) -> Ends<T> {
    Spare(Arc::new(Cell::new(can_skip))).split()
}

impl<T> Spare<T> {
    /// Both ends of the cell as if it were new, if the ends before them are gone.
    pub(crate) fn renew(mut self, can_skip: bool) -> Result<Ends<T>, Self> {
        match Arc::get_mut(&mut self.0) {
            Some(cell) => {
                cell.reset(can_skip);
                Ok(self.split())
            }
            None => Err(self),
        }
    }

    /// The caller has made sure that no end exists.
    fn split(self) -> Ends<T> {
        let taker = Taker(Arc::clone(&self.0));
        (Settler(Arc::clone(&self.0)), taker, self)
    }
}

impl<T> Settler<T> {
    pub(crate) fn write_status(&self, status: Status) {
        // PAIRS: with the acquire load in `Taker::status`.
        self.0.status.store(status.raw(), Ordering::Release);
    }

    /// Says that the request begins, and whether it does: `false` when it was skipped.
    pub(crate) fn begin(&self) -> bool {
        let state = &self.0.state;
        // Relaxed, here and in `skip`: nothing is handed over. Both change one word, so one of them comes first, and the other
        //   sees it.
        if Mutant::BeginAfterLook.is_seeded() {
            let before = state.load(Ordering::Relaxed);
            state.fetch_or(BEGUN, Ordering::Relaxed);
            return before & SKIP == 0;
        }
        state.fetch_or(BEGUN, Ordering::Relaxed) & SKIP == 0
    }

    /// Gives the outcome to the other end. What comes of that is foreign code, and left to the caller.
    pub(crate) fn settle(self, outcome: Result<T, Lost>) -> Aftermath<T> {
        let cell = &*self.0;
        cell.outcome.with_mut(|outcome_of_cell| {
            // SAFETY: this is the settler and `DONE` is not set, so by the ownership rule the outcome is ours.
            unsafe { *outcome_of_cell = Some(outcome) };
        });
        // PAIRS: with the acquire load in `is_done`, and with the read-modify-write in `announce`: one of the two comes
        //   first, so either it sees `DONE` or we see `WAITING`.
        let before = cell
            .state
            .fetch_or(DONE, unless(Mutant::DoneStore, Ordering::AcqRel));
        Aftermath {
            cell: self.0,
            before,
        }
    }
}

/// What a settler leaves to be done with no lock held: somebody to wake, or an outcome to drop.
#[must_use = "who waits is not woken yet"]
pub(crate) struct Aftermath<T> {
    cell: Arc<Cell<T>>,
    /// The state before the outcome came.
    before: u32,
}

impl<T> Aftermath<T> {
    #[inline]
    pub(crate) fn run(self) {
        let Self { cell, before } = self;
        if before & GONE != 0 {
            // SAFETY: we come from the settler. `GONE` came before `DONE`, so by the ownership rule the outcome is still
            //   ours.
            drop_foreign(
                cell.outcome
                    .with_mut(|outcome| unsafe { (*outcome).take() }),
            );
        }
        if before & WAITING != 0 {
            cell.wake();
        }
    }
}

impl<T> Taker<T> {
    pub(crate) fn status(&self) -> Option<Status> {
        // PAIRS: with the release store in `Settler::write_status`.
        match self.0.status.load(Ordering::Acquire) {
            NO_STATUS => None,
            raw => Some(Status::from_raw(raw)),
        }
    }

    /// Has the request skipped if it has not begun; says whether it is skipped.
    pub(crate) fn skip(&self) -> bool {
        let state = &self.0.state;
        let may_skip = |before: u32| (before & (BEGUN | DONE | SKIP) == 0).then_some(before | SKIP);
        if Mutant::SkipAfterLook.is_seeded() {
            if may_skip(state.load(Ordering::Relaxed)).is_some() {
                state.fetch_or(SKIP, Ordering::Relaxed);
            }
            return self.is_skipped();
        }
        match state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, may_skip) {
            Ok(_) => true,
            Err(before) => before & SKIP != 0,
        }
    }

    /// Whether [`Taker::skip`] has said so.
    pub(crate) fn is_skipped(&self) -> bool {
        // Relaxed: as in `begin`.
        self.0.state.load(Ordering::Relaxed) & SKIP != 0
    }

    /// Whether this is the process that made the cell, and not a child of it.
    pub(crate) fn is_here(&self) -> bool {
        self.0.owner.is_here()
    }

    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.0.is_done()
    }

    /// The outcome, if it is there; this end itself if not.
    #[inline]
    pub(crate) fn take(self) -> Result<Result<T, Lost>, Self> {
        if !self.0.is_done() {
            return Err(self);
        }
        let outcome = self.0.outcome.with_mut(|outcome| {
            // SAFETY: this is the taker and `DONE` was acquired, so by the ownership rule the outcome is ours.
            unsafe { (*outcome).take() }
        });
        Ok(outcome.unwrap_or(Err(Lost::Taken)))
    }

    /// Sleeps until the outcome is there or `deadline` has passed.
    pub(crate) fn sleep_until(&self, deadline: Option<Instant>) {
        self.0.sleep_until(deadline);
    }

    /// Leaves `newest` to be woken, in place of an older waker.
    pub(crate) fn register(&self, newest: &Waker) -> Look {
        self.0.register(newest)
    }
}

/// An outcome that nobody took does not wait for the cell's next use.
impl<T> Drop for Taker<T> {
    fn drop(&mut self) {
        let cell = &*self.0;
        if !self.0.owner.is_here() {
            // A thread that does not exist here may hold the lock, or be in the middle of the outcome.
            return;
        }
        // PAIRS: with the read-modify-write in `Settler::settle`.
        if cell.is_done() || cell.state.fetch_or(GONE, Ordering::AcqRel) & DONE != 0 {
            // SAFETY: `DONE` was acquired and came before `GONE`, so by the ownership rule the outcome is ours.
            drop_foreign(
                cell.outcome
                    .with_mut(|outcome| unsafe { (*outcome).take() }),
            );
        } else {
            let waker = cell.waker.lock().take();
            drop_foreign(waker);
        }
    }
}

/// The state of a cell that nobody has touched.
const fn fresh(can_skip: bool) -> u32 {
    if can_skip { 0 } else { BEGUN }
}

impl<T> Cell<T> {
    fn new(can_skip: bool) -> Self {
        Self {
            owner: Owner::here(),
            state: AtomicU32::new(fresh(can_skip)),
            status: AtomicI32::new(NO_STATUS),
            outcome: UnsafeCell::new(None),
            waker: Mutex::new(None),
            done: Condvar::default(),
        }
    }

    /// Makes a cell that both ends have let go of as good as new.
    fn reset(&mut self, can_skip: bool) {
        // Whoever left a waker has taken it away, or was woken.
        debug_assert!(self.waker.get_mut().is_none());
        // Relaxed: whoever gets an end of this cell learns of it later, with all that was done before.
        self.state.store(fresh(can_skip), Ordering::Relaxed);
        self.status.store(NO_STATUS, Ordering::Relaxed);
    }

    #[inline]
    fn is_done(&self) -> bool {
        // PAIRS: with the release in `Settler::settle`; orders the outcome before its use.
        self.state.load(unless(Mutant::DoneLoad, Ordering::Acquire)) & DONE != 0
    }

    #[cold]
    fn wake(&self) {
        // Whoever set `WAITING` holds this lock until it sleeps.
        let waker = self.waker.lock().take();
        self.done.notify_all();
        // Foreign code runs without our lock.
        if let Some(waker) = waker {
            wake(waker);
        }
    }

    /// Sleeps until the outcome is there or `deadline` has passed.
    fn sleep_until(&self, deadline: Option<Instant>) {
        let mut guard = self.waker.lock();
        if self.announce() == Look::Done {
            return;
        }
        while !self.is_done() {
            guard = match deadline {
                None => self.done.wait(guard),
                Some(deadline) => {
                    let (guard, timed_out) = self.done.wait_until(guard, deadline);
                    if timed_out {
                        return;
                    }
                    guard
                }
            };
        }
    }

    /// Leaves `newest` to be woken, in place of an older waker.
    fn register(&self, newest: &Waker) -> Look {
        let known = self
            .waker
            .lock()
            .as_ref()
            .is_some_and(|stored| stored.will_wake(newest));
        // Cloning and dropping wakers is foreign code: neither happens under the lock.
        let newest = (!known).then(|| newest.clone());
        let mut guard = self.waker.lock();
        let replaced = newest.and_then(|newest| guard.replace(newest));
        let look = self.announce();
        let unused = if look == Look::Done {
            guard.take()
        } else {
            None
        };
        drop(guard);
        drop((replaced, unused));
        look
    }

    /// Says that somebody waits, and looks once more. The caller holds the lock.
    fn announce(&self) -> Look {
        // PAIRS: with the read-modify-write in `Settler::settle`.
        let before = self.state.fetch_or(WAITING, Ordering::AcqRel);
        if before & DONE != 0 && !Mutant::NoSecondLook.is_seeded() {
            Look::Done
        } else {
            Look::Pending
        }
    }
}
