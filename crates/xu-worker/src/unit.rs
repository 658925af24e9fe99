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
//!  wake the worker, if it sleeps
//! ```
//!
//! The device is told before the worker is: staged and doorbelled, then the slot is written, then
//! released, then the worker is woken.

use crate::completion::{Cells, Completion};
use crate::engine::{Engine, Stage, StageError};
use crate::eventfd::WorkCount;
use crate::health::{Cause, Health, HealthCell};
use crate::here_only::HereOnly;
use crate::need_wake::NeedWake;
use crate::policy::PollPolicy;
use crate::refusal::{Refusal, Refused, RefusedBatch};
use crate::room::{Room, Ticket};
use crate::runner::UnitRunner;
use crate::shutdown::InFlight;
use crate::sync::{AtomicBool, Mutex, Ordering};
use crate::wake::discard;
use crate::work_item::{Request, Spares, WorkItem, recycling};
use core::fmt;
use core::task::{Context, Poll};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;
use xu_abi::{Cursor, SeqId, Status, XuId};
use xu_ring::queue::{NeverIssued, Observer, RingError, Submitter};
use xu_ring::spsc::CapacityError;

/// Most completion cells that a unit keeps for use again.
const MOST_CELLS: usize = 1024;

/// What a unit's ring carries.
pub(crate) type Item<S> = WorkItem<<S as Stage>::Item, <S as Stage>::Outcome>;

/// What both halves of a unit share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) work: WorkCount,
    pub(crate) policy: PollPolicy,
    /// Whether the worker sleeps; used where the policy lets wakes be skipped.
    pub(crate) need_wake: NeedWake,
    pub(crate) health: HealthCell,
    pub(crate) room: Room,
    /// Set when the worker has given this unit up: what is still queued completes as lost when it is dropped.
    pub(crate) abandoned: AtomicBool,
    /// The lock under which requests complete: whoever wants to hear of completions says so under it.
    pub(crate) mark_comp: Mutex<()>,
}

impl Shared {
    /// Runs `announce` under the lock under which requests complete.
    fn under_mark_comp(&self, announce: &dyn Fn()) {
        let lock = self.mark_comp.lock();
        announce();
        drop(lock);
    }
}

/// How a unit is made.
#[derive(Clone, Debug)]
pub struct UnitOptions {
    /// Most requests that may be accepted and not complete, at least 1; default 8.
    pub limit: u64,
    /// How its worker looks at the device, and whether wakes may be skipped. All units of a worker have the same.
    pub policy: PollPolicy,
}

impl Default for UnitOptions {
    fn default() -> Self {
        Self {
            limit: 8,
            policy: PollPolicy::default(),
        }
    }
}

/// The submitting half of an execution unit.
///
/// In a child that was forked from the process that made it, every call is refused and dropping it does nothing.
pub struct Unit<S: Stage> {
    parts: HereOnly<Parts<S>>,
}

struct Parts<S: Stage> {
    xu: XuId,
    limit: u64,
    producer: Mutex<Producer<S>>,
    observer: Observer<Item<S>>,
    shared: Arc<Shared>,
}

struct Producer<S: Stage> {
    stage: S,
    ring: Submitter<Item<S>>,
    spares: Spares<S::Item, S::Outcome>,
    cells: Cells<S::Outcome>,
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
    /// There was no memory for the boxes that go round.
    #[error("no room for the work items of a unit: {0}")]
    WorkItems(#[from] CapacityError),
    /// The operating system gave no descriptor.
    #[error("no eventfd for a unit: {0}")]
    EventFd(#[from] io::Error),
}

/// An accepted request.
#[derive(Debug)]
#[must_use = "dropping it detaches from the request: nobody will learn its outcome"]
pub struct Accepted<O> {
    /// Its place in the queue.
    pub seq: SeqId,
    /// Its way back.
    pub completion: Completion<O>,
}

impl<S: Stage> Unit<S> {
    /// Makes a unit, and the half that its worker runs.
    ///
    /// # Errors
    /// [`UnitError`]: an impossible limit, no memory, or no descriptor.
    pub fn new<E>(
        xu: XuId,
        options: &UnitOptions,
        stage: S,
        engine: E,
    ) -> Result<(Self, UnitRunner<E>), UnitError>
    where
        E: Engine<Item = S::Item, Outcome = S::Outcome>,
    {
        let (submitter, consumer, observer) = xu_ring::queue::ring(xu, options.limit)?;
        let (spares, returns) = recycling(options.limit)?;
        let shared = Arc::new(Shared {
            work: WorkCount::new()?,
            policy: options.policy,
            need_wake: NeedWake::new(),
            health: HealthCell::new(),
            room: Room::default(),
            abandoned: AtomicBool::new(false),
            mark_comp: Mutex::new(()),
        });
        let producer = Producer {
            stage,
            ring: submitter,
            spares,
            cells: Cells::new(MOST_CELLS),
            quarantine: Vec::new(),
        };
        let runner = UnitRunner::new(xu, engine, consumer, returns, Arc::clone(&shared));
        let parts = HereOnly::new(Parts {
            xu,
            limit: options.limit,
            producer: Mutex::new(producer),
            observer,
            shared,
        });
        Ok((Self { parts }, runner))
    }

    /// Which queue this is.
    #[must_use]
    pub fn xu(&self) -> XuId {
        self.parts.xu
    }

    /// Most requests that may be outstanding.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.parts.limit
    }

    /// Requests that are accepted and not complete.
    #[must_use]
    pub fn depth(&self) -> u64 {
        self.parts.observer.depth()
    }

    /// Whether this unit takes work.
    #[must_use]
    pub fn health(&self) -> Health {
        self.parts.shared.health.get()
    }

    /// The first fatal error, once the unit is degraded.
    #[must_use]
    pub fn cause(&self) -> Option<Cause> {
        // In a forked child the lock may be held by a thread that does not exist there.
        if self.parts.is_here() {
            self.parts.shared.health.cause()
        } else {
            None
        }
    }

    /// The most recently completed request; number 0 when there is none.
    #[must_use]
    pub fn last_completed(&self) -> SeqId {
        self.parts.observer.last_completed()
    }

    /// The most recently accepted request; number 0 when there is none.
    #[must_use]
    pub fn last_submitted(&self) -> SeqId {
        self.parts.observer.last_submitted()
    }

    /// Whether a request of this unit is complete.
    ///
    /// # Errors
    /// [`NeverIssued`] when `seq` was never issued by this unit.
    pub fn is_completed(&self, seq: SeqId) -> Result<bool, NeverIssued> {
        self.parts.observer.is_completed(seq)
    }

    /// Takes a request, stages it, and wakes the worker if it sleeps. Never waits for the device or for room.
    ///
    /// # Errors
    /// [`Refused`] with the reason and, where that is possible, the request.
    pub fn submit(&self, item: S::Item) -> Result<Accepted<S::Outcome>, Refused<S::Item>> {
        let item = self.check_process(item)?;
        let mut producer = self.parts.producer.lock();
        let (notifier, completion) = producer.cells.completion();
        let submitted = producer.submit(item, |item| Request::Execute(item, Some(notifier)), self);
        drop(producer);
        let seq = self.conclude(submitted)?;
        Ok(Accepted { seq, completion })
    }

    /// As [`Unit::submit`], but nobody is told of the outcome: for who asks by sequence number.
    ///
    /// # Errors
    /// As [`Unit::submit`].
    pub fn post(&self, item: S::Item) -> Result<SeqId, Refused<S::Item>> {
        let item = self.check_process(item)?;
        let mut producer = self.parts.producer.lock();
        let submitted = producer.submit(item, |item| Request::Execute(item, None), self);
        drop(producer);
        self.conclude(submitted)
    }

    /// As [`Unit::post`] for several requests at once: the submit lock is taken once, the worker woken once.
    ///
    /// Returns the sequence of the last request; `None` when there was none.
    ///
    /// # Errors
    /// [`RefusedBatch`] says how many were accepted, why the next one was not, and has the rest.
    pub fn post_batch<I>(&self, items: I) -> Result<Option<SeqId>, RefusedBatch<I::IntoIter>>
    where
        I: IntoIterator<Item = S::Item>,
    {
        let mut rest = items.into_iter();
        let (mut accepted, mut last) = (0, None);
        let mut refused = None;
        if !self.parts.is_here() {
            let reason = Refusal::Forked { xu: self.xu() };
            return Err(RefusedBatch::new(
                None,
                Refused { reason, item: None },
                rest,
            ));
        }
        let mut producer = self.parts.producer.lock();
        for item in rest.by_ref() {
            match producer.hold(item, |item| Request::Execute(item, None), self) {
                Ok(seq) => {
                    accepted += 1;
                    last = Some(seq);
                }
                Err(why) => {
                    refused = Some(why);
                    break;
                }
            }
        }
        producer.release_all(self);
        drop(producer);
        if let Some(last) = last {
            self.wake(last, accepted);
        }
        self.tell_if_degraded();
        match refused {
            None => Ok(last),
            Some(refused) => Err(RefusedBatch::new(last, refused, rest)),
        }
    }

    /// Refuses new requests from now on; what is queued finishes.
    pub fn close(&self) {
        if !self.parts.is_here() {
            return;
        }
        // Under the submit lock: when this returns, no submit that saw an open gate is still on its way.
        let producer = self.parts.producer.lock();
        self.parts.shared.health.close();
        drop(producer);
        self.parts.shared.room.released();
    }

    /// Waits until every accepted request is complete.
    pub fn drain(&self) {
        self.wait_until(None, || self.is_drained());
    }

    /// As [`Unit::drain`], but gives up at `deadline`.
    ///
    /// # Errors
    /// The number of requests still in flight when time is up.
    pub fn drain_until(&self, deadline: Instant) -> Result<(), u64> {
        if self.wait_until(Some(deadline), || self.is_drained()) {
            Ok(())
        } else {
            Err(self.depth())
        }
    }

    /// What is accepted and not complete; `None` when nothing is.
    #[must_use]
    pub fn in_flight(&self) -> Option<InFlight> {
        let depth = self.depth();
        let last = self.last_completed();
        let oldest = Cursor::new(last.cursor().get() + 1).map(|next| SeqId::new(self.xu(), next));
        Some(InFlight {
            xu: self.xu(),
            depth,
            oldest: oldest?,
        })
        .filter(|_| depth > 0)
    }

    /// Whether every accepted request is complete, or given up with its unit.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        // PAIRS: with the release store in `UnitRunner::give_up`.
        self.depth() == 0 || self.parts.shared.abandoned.load(Ordering::Acquire)
    }

    /// Schedules a stop behind everything queued; its completion learns how that went.
    ///
    /// Passes the closing gate; the caller has drained, so there is room.
    ///
    /// # Errors
    /// [`Refusal`] when the ring takes no more requests.
    pub fn schedule_stop(&self) -> Result<Accepted<()>, Refusal> {
        let xu = self.xu();
        if !self.parts.is_here() {
            return Err(Refusal::Forked { xu });
        }
        let (notifier, completion) = crate::completion::completion();
        let mut producer = self.parts.producer.lock();
        let item = producer.spares.fill(Request::Stop(notifier));
        let submitted = producer.ring.submit(item);
        producer.release_all(self);
        drop(producer);
        self.tell_if_degraded();
        let Ok(seq) = submitted else {
            return Err(self.why_no_slot());
        };
        self.wake(seq, 1);
        Ok(Accepted { seq, completion })
    }

    /// Whether a submit would find a free slot, or be refused for good.
    ///
    /// Stores `cx`'s waker in `ticket` while neither is so.
    pub fn poll_room(&self, ticket: &mut Ticket, cx: &Context<'_>) -> Poll<()> {
        if self.has_room() {
            return Poll::Ready(());
        }
        let shared = &self.parts.shared;
        shared.room.register(ticket, cx.waker(), |announce| {
            shared.under_mark_comp(announce);
        });
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
        self.wait_until(deadline, || self.has_room())
    }

    /// Forgets an asynchronous waiter of [`Unit::poll_room`].
    pub fn leave_room(&self, ticket: &mut Ticket) {
        if self.parts.is_here() {
            self.parts.shared.room.deregister(ticket);
        }
    }

    fn wait_until(&self, deadline: Option<Instant>, mut ready: impl FnMut() -> bool) -> bool {
        if !self.parts.is_here() {
            // The worker that would make it so is in another process.
            return true;
        }
        if ready() {
            return true;
        }
        let shared = &self.parts.shared;
        let under_lock = |announce: &dyn Fn()| shared.under_mark_comp(announce);
        shared.room.wait_until(deadline, under_lock, ready)
    }

    fn has_room(&self) -> bool {
        // A closing queue that is full says so first, so there is no hope in it yet.
        self.health() == Health::Degraded
            || self.depth() < self.parts.limit
            || !self.parts.is_here()
    }

    fn check_process(&self, item: S::Item) -> Result<S::Item, Refused<S::Item>> {
        if self.parts.is_here() {
            return Ok(item);
        }
        Err(Refused {
            reason: Refusal::Forked { xu: self.xu() },
            item: Some(item),
        })
    }

    /// What comes after the submit lock.
    fn conclude(
        &self,
        submitted: Result<SeqId, Refused<S::Item>>,
    ) -> Result<SeqId, Refused<S::Item>> {
        match submitted {
            Ok(seq) => self.wake(seq, 1),
            Err(_) => self.tell_if_degraded(),
        }
        submitted
    }

    /// Tells the worker of `requests` that end with `last`.
    #[inline]
    fn wake(&self, last: SeqId, requests: u64) {
        let shared = &self.parts.shared;
        let rings = if shared.policy.pairs_wakes() {
            requests
        } else {
            u64::from(shared.need_wake.must_ring())
        };
        for _ in 0..rings {
            self.ring_bell(last);
        }
    }

    /// The request is accepted whatever happens here; a worker that cannot be woken is as good as dead.
    fn ring_bell(&self, seq: SeqId) {
        if let Err(error) = self.parts.shared.work.add() {
            let text = format!("cannot wake the worker: {error}");
            self.degrade(Status::FAILURE, Some(seq), text);
            self.tell_if_degraded();
        }
    }

    /// Wakes whoever waits for room in vain. Called without the submit lock: wakers are foreign code.
    fn tell_if_degraded(&self) {
        if self.health() == Health::Degraded {
            self.parts.shared.room.released();
        }
    }

    fn degrade(&self, status: Status, seq: Option<SeqId>, text: String) {
        self.parts
            .shared
            .health
            .degrade(Cause { status, seq, text });
    }

    /// Why the ring did not take a request.
    fn why_no_slot(&self) -> Refusal {
        let xu = self.xu();
        if self.last_submitted().cursor() >= Cursor::LAST {
            Refusal::Exhausted { xu }
        } else {
            Refusal::QueueFull {
                xu,
                limit: self.limit(),
            }
        }
    }
}

impl<S: Stage> Producer<S> {
    /// The funnel. The caller holds the submit lock, which is what makes it the single producer.
    fn submit(
        &mut self,
        item: S::Item,
        request: impl FnOnce(S::Item) -> Request<S::Item, S::Outcome>,
        unit: &Unit<S>,
    ) -> Result<SeqId, Refused<S::Item>> {
        let seq = self.hold(item, request, unit)?;
        self.release_all(unit);
        Ok(seq)
    }

    /// The funnel up to the trigger: the device knows the request, the worker does not.
    fn hold(
        &mut self,
        mut item: S::Item,
        request: impl FnOnce(S::Item) -> Request<S::Item, S::Outcome>,
        unit: &Unit<S>,
    ) -> Result<SeqId, Refused<S::Item>> {
        if let Some(reason) = self.gate(unit) {
            return Err(Refused {
                reason,
                item: Some(item),
            });
        }
        if let Err(error) = self.stage.prepare(&mut item) {
            let reason = Refusal::Prepare {
                xu: unit.xu(),
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
                xu: unit.xu(),
                status: error.status,
                text: error.text,
            };
            return Err(Refused { reason, item: None });
        }
        let item = self.spares.fill(request(item));
        self.ring.submit(item).map_err(|error| {
            // The gates make this unreachable; were it reached, the device knows a request without a slot.
            let reason = unit.why_no_slot();
            if let Some(Request::Execute(item, _)) = error.into_item().take() {
                self.quarantine.push(item);
            }
            unit.degrade(Status::FAILURE, None, reason.to_string());
            Refused { reason, item: None }
        })
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
        let xu = unit.xu();
        let health = unit.health();
        if health == Health::Healthy
            && self.ring.has_room()
            && self.ring.last_submitted().cursor() < Cursor::LAST
        {
            return None;
        }
        if let Some(cause) = unit.cause().filter(|_| health == Health::Degraded) {
            return Some(Refusal::Degraded { xu, cause });
        }
        if self.ring.depth() >= unit.limit() {
            return Some(unit.why_no_slot());
        }
        if health == Health::Closing {
            return Some(Refusal::Closing { xu });
        }
        Some(Refusal::Exhausted { xu })
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
            .field("xu", &self.xu())
            .field("health", &self.health())
            .field("depth", &self.depth())
            .field("limit", &self.limit())
            .finish_non_exhaustive()
    }
}
