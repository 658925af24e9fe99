//! An execution unit as submitters see it: gates, locks, and the order of submission.
//!
//! Owned by the facade, shared by any number of submitting threads; its other half, the
//! [`UnitRunner`], moves to the worker thread.
//! Spec `xu.md` section 4, submit funnel:
//!
//! ```text
//!  submit lock { gates: degraded -> 101, full -> 7, closing -> 14
//!                stage: prepare (undoable) | commit (the device may know)
//!                ring: submit, trigger }
//!  write 1 to the work count
//! ```
//!
//! The device is told before the worker is: staged and doorbelled, then the slot is written, then
//! released, then the worker is woken.

use crate::completion::Notifier;
use crate::engine::{Engine, Stage, StageError};
use crate::eventfd::WorkCount;
use crate::health::{Cause, Health, HealthCell};
use crate::room::{Room, Ticket};
use crate::runner::UnitRunner;
use crate::wake::discard;
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll};
use parking_lot::Mutex;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;
use xu_abi::{Cursor, SeqId, Status, XuId};
use xu_ring::queue::{NeverIssued, Observer, RingError, SubmitError, Submitter};

/// What crosses the ring.
#[derive(Debug)]
pub(crate) enum Request<I> {
    /// A caller's request.
    Execute(I),
    /// Bring the device to rest; tells the drain how that went.
    Stop(Notifier<Status>),
}

/// What both halves of a unit share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) work: WorkCount,
    pub(crate) health: HealthCell,
    pub(crate) room: Room,
    /// Set when the worker has given this unit up: what is still queued completes as lost when it is dropped.
    pub(crate) abandoned: AtomicBool,
    /// Covers the whole pop against the installation of a waiter's descriptor.
    pub(crate) mark_comp: Mutex<()>,
}

/// The submitting half of an execution unit.
pub struct Unit<S: Stage> {
    xu: XuId,
    limit: u64,
    producer: Mutex<Producer<S>>,
    observer: Observer<Request<S::Item>>,
    shared: Arc<Shared>,
}

struct Producer<S: Stage> {
    stage: S,
    ring: Submitter<Request<S::Item>>,
    /// Requests that failed after the device may have seen them: kept until the unit goes.
    quarantine: Vec<S::Item>,
}

/// A unit could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnitError {
    /// The ring refused its capacity or had no memory.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// The operating system gave no descriptor.
    #[error("no eventfd for a unit: {0}")]
    EventFd(#[from] io::Error),
}

/// The unit did not take a request.
#[derive(Debug)]
pub struct Refused<I> {
    /// Why.
    pub reason: Refusal,
    /// The request, unless the device may have seen part of it.
    pub item: Option<I>,
}

/// Why a unit did not take a request. Unless it says otherwise, nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Wait for a completion, then submit again.
    #[error("{xu} is full: {limit} requests are outstanding")]
    QueueFull {
        /// The queue.
        xu: XuId,
        /// Most requests that may be outstanding.
        limit: u64,
    },
    /// The runtime is closing or closed.
    #[error("{xu} is closing and takes no more requests")]
    Closing {
        /// The queue.
        xu: XuId,
    },
    /// A fatal error occurred earlier.
    #[error("{xu} is degraded: {cause}")]
    Degraded {
        /// The queue.
        xu: XuId,
        /// The first fatal error.
        cause: Cause,
    },
    /// The request could not be prepared; the unit is unharmed.
    #[error("{xu} cannot prepare the request: {text}")]
    Prepare {
        /// The queue.
        xu: XuId,
        /// The status of the failure.
        status: Status,
        /// What happened.
        text: String,
    },
    /// Staging failed half-way: the unit is degraded now and keeps the request.
    #[error("{xu} failed while the device was being told: {text}")]
    Commit {
        /// The queue.
        xu: XuId,
        /// The status of the failure.
        status: Status,
        /// What happened.
        text: String,
    },
    /// Every sequence number has been issued.
    #[error("{xu} has issued its last sequence number")]
    Exhausted {
        /// The queue.
        xu: XuId,
    },
}

impl Refusal {
    /// The status that the C ABI reports for this refusal.
    #[must_use]
    pub fn status(&self) -> Status {
        match self {
            Self::QueueFull { .. } => Status::QUEUE_FULL,
            Self::Closing { .. } => Status::CLOSED,
            Self::Degraded { .. } => Status::EXEC_UNIT_UNRECOVERABLE,
            Self::Prepare { status, .. } | Self::Commit { status, .. } => *status,
            Self::Exhausted { .. } => Status::FAILURE,
        }
    }
}

impl<S: Stage> Unit<S> {
    /// Makes a unit that takes up to `limit` outstanding requests, and the half that its worker runs.
    ///
    /// # Errors
    /// [`UnitError`]: an impossible limit, no memory, or no descriptor.
    pub fn new<E>(
        xu: XuId,
        limit: u64,
        stage: S,
        engine: E,
    ) -> Result<(Self, UnitRunner<E>), UnitError>
    where
        E: Engine<Item = S::Item>,
    {
        let (submitter, consumer, observer) = xu_ring::queue::ring(xu, limit)?;
        let shared = Arc::new(Shared {
            work: WorkCount::new()?,
            health: HealthCell::new(),
            room: Room::default(),
            abandoned: AtomicBool::new(false),
            mark_comp: Mutex::new(()),
        });
        let producer = Producer {
            stage,
            ring: submitter,
            quarantine: Vec::new(),
        };
        let runner = UnitRunner::new(xu, engine, consumer, Arc::clone(&shared));
        Ok((
            Self {
                xu,
                limit,
                producer: Mutex::new(producer),
                observer,
                shared,
            },
            runner,
        ))
    }

    /// Which queue this is.
    #[must_use]
    pub fn xu(&self) -> XuId {
        self.xu
    }

    /// Most requests that may be outstanding.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Requests that are accepted and not complete.
    #[must_use]
    pub fn depth(&self) -> u64 {
        self.observer.depth()
    }

    /// Whether this unit takes work.
    #[must_use]
    pub fn health(&self) -> Health {
        self.shared.health.get()
    }

    /// The first fatal error, once the unit is degraded.
    #[must_use]
    pub fn cause(&self) -> Option<Cause> {
        self.shared.health.cause()
    }

    /// The most recently completed request; number 0 when there is none.
    #[must_use]
    pub fn last_completed(&self) -> SeqId {
        self.observer.last_completed()
    }

    /// Whether a request of this unit is complete.
    ///
    /// # Errors
    /// [`NeverIssued`] when `seq` was never issued by this unit.
    pub fn is_completed(&self, seq: SeqId) -> Result<bool, NeverIssued> {
        self.observer.is_completed(seq)
    }

    /// Takes a request, stages it, and wakes the worker. Never waits for the device or for room.
    ///
    /// # Errors
    /// [`Refused`] with the reason and, where that is possible, the request.
    pub fn submit(&self, item: S::Item) -> Result<SeqId, Refused<S::Item>> {
        let submitted = self.producer.lock().submit(item, self);
        match submitted {
            Ok(seq) => {
                self.wake(seq);
                Ok(seq)
            }
            Err(refused) => {
                self.tell_if_degraded();
                Err(refused)
            }
        }
    }

    /// Refuses new requests from now on; what is queued finishes.
    pub fn close(&self) {
        // Under the submit lock: when this returns, no submit that saw an open gate is still on its way.
        let producer = self.producer.lock();
        self.shared.health.close();
        drop(producer);
        self.shared.room.released();
    }

    /// Waits until every accepted request is complete.
    pub fn drain(&self) {
        self.shared.room.wait_until(None, || self.is_drained());
    }

    /// As [`Unit::drain`], but gives up at `deadline` and returns the number still in flight.
    ///
    /// # Errors
    /// The depth when time is up.
    pub fn drain_until(&self, deadline: Instant) -> Result<(), u64> {
        if self
            .shared
            .room
            .wait_until(Some(deadline), || self.is_drained())
        {
            Ok(())
        } else {
            Err(self.depth())
        }
    }

    /// Schedules a stop behind everything queued and returns the cell that learns how it went.
    ///
    /// Passes the closing gate; the caller has drained, so there is room.
    ///
    /// # Errors
    /// [`Refusal`] when the ring takes no more requests.
    pub fn schedule_stop(&self, notifier: Notifier<Status>) -> Result<SeqId, Refusal> {
        let mut producer = self.producer.lock();
        let seq = match producer.ring.submit(Box::new(Request::Stop(notifier))) {
            Ok(seq) => seq,
            Err(error) => return Err(self.ring_refusal(&error)),
        };
        producer.release_all(self);
        drop(producer);
        self.tell_if_degraded();
        self.wake(seq);
        Ok(seq)
    }

    /// Whether a submit would find a free slot, or be refused for good.
    ///
    /// Stores `cx`'s waker in `ticket` while neither is so.
    pub fn poll_room(&self, ticket: &mut Ticket, cx: &Context<'_>) -> Poll<()> {
        if self.has_room() {
            return Poll::Ready(());
        }
        self.shared.room.register(ticket, cx.waker());
        // Look again: a release between the first look and the registration woke nobody.
        if self.has_room() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    /// Blocks until a submit would find a free slot or be refused for good; `false` at the deadline.
    #[must_use]
    pub fn wait_room(&self, deadline: Option<Instant>) -> bool {
        self.shared.room.wait_until(deadline, || self.has_room())
    }

    /// Forgets an asynchronous waiter of [`Unit::poll_room`].
    pub fn leave_room(&self, ticket: &mut Ticket) {
        self.shared.room.deregister(ticket);
    }

    fn is_drained(&self) -> bool {
        // PAIRS: with the release store in `UnitRunner::give_up`.
        self.depth() == 0 || self.shared.abandoned.load(Ordering::Acquire)
    }

    fn has_room(&self) -> bool {
        // A closing queue that is full says so first, so there is no hope in it yet.
        self.health() == Health::Degraded || self.depth() < self.limit
    }

    fn wake(&self, seq: SeqId) {
        // The request is accepted whatever happens here; a count that cannot be added breaks the pairing.
        if let Err(error) = self.shared.work.add() {
            self.degrade(
                Status::FAILURE,
                Some(seq),
                format!("cannot wake the worker: {error}"),
            );
            self.tell_if_degraded();
        }
    }

    /// Wakes whoever waits for room in vain. Called without the submit lock: wakers are foreign code.
    fn tell_if_degraded(&self) {
        if self.health() == Health::Degraded {
            self.shared.room.released();
        }
    }

    fn degrade(&self, status: Status, seq: Option<SeqId>, text: String) {
        self.shared.health.degrade(Cause { status, seq, text });
    }

    fn ring_refusal<T>(&self, error: &SubmitError<T>) -> Refusal {
        match error {
            SubmitError::Full { .. } => Refusal::QueueFull {
                xu: self.xu,
                limit: self.limit,
            },
            _ => Refusal::Exhausted { xu: self.xu },
        }
    }
}

impl<S: Stage> Producer<S> {
    /// The funnel. The caller holds the submit lock, which is what makes it the single producer.
    fn submit(&mut self, mut item: S::Item, unit: &Unit<S>) -> Result<SeqId, Refused<S::Item>> {
        if let Some(reason) = self.gate(unit) {
            return Err(Refused {
                reason,
                item: Some(item),
            });
        }
        if let Err(error) = self.stage.prepare(&mut item) {
            let reason = Refusal::Prepare {
                xu: unit.xu,
                status: error.status,
                text: error.text,
            };
            return Err(Refused {
                reason,
                item: Some(item),
            });
        }
        // ---- From here on the device may know. ----
        if let Err(error) = self.commit(&mut item) {
            self.quarantine.push(item);
            unit.degrade(error.status, None, error.text.clone());
            let reason = Refusal::Commit {
                xu: unit.xu,
                status: error.status,
                text: error.text,
            };
            return Err(Refused { reason, item: None });
        }
        match self.ring.submit(Box::new(Request::Execute(item))) {
            Ok(seq) => {
                self.release_all(unit);
                Ok(seq)
            }
            Err(error) => {
                // The gates make this unreachable; were it reached, the device knows a request without a slot.
                let reason = unit.ring_refusal(&error);
                if let Request::Execute(item) = *error.into_item() {
                    self.quarantine.push(item);
                }
                unit.degrade(Status::FAILURE, None, reason.to_string());
                Err(Refused { reason, item: None })
            }
        }
    }

    /// A stage that panics half-way has failed half-way.
    fn commit(&mut self, item: &mut S::Item) -> Result<(), StageError> {
        let stage = &mut self.stage;
        catch_unwind(AssertUnwindSafe(|| stage.commit(item))).unwrap_or_else(|payload| {
            discard(payload);
            Err(StageError::new(Status::FAILURE, "the stage panicked"))
        })
    }

    fn gate(&mut self, unit: &Unit<S>) -> Option<Refusal> {
        let xu = unit.xu;
        let health = unit.health();
        if let Some(cause) = unit.cause().filter(|_| health == Health::Degraded) {
            return Some(Refusal::Degraded { xu, cause });
        }
        if self.ring.depth() >= unit.limit {
            return Some(Refusal::QueueFull {
                xu,
                limit: unit.limit,
            });
        }
        if health == Health::Closing {
            return Some(Refusal::Closing { xu });
        }
        if self.ring.last_submitted().cursor() >= Cursor::LAST {
            return Some(Refusal::Exhausted { xu });
        }
        None
    }

    fn release_all(&mut self, unit: &Unit<S>) {
        if let Err(error) = self.ring.trigger_all() {
            unit.degrade(Status::FAILURE, None, error.to_string());
        }
    }
}

impl<S: Stage> fmt::Debug for Unit<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unit")
            .field("xu", &self.xu)
            .field("health", &self.health())
            .field("depth", &self.depth())
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}
