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

mod batch;
mod follow;
mod listen;
mod reserve;
mod room_future;
mod snapshot;

use crate::completion::{Completion, completion};
use crate::completion_pool::CompletionPool;
use crate::engine::{Engine, Stage};
use crate::eventfd::WorkCount;
use crate::funnel::{Funnel, Released};
use crate::health::{Cause, Health};
use crate::here_only::HereOnly;
use crate::limits;
use crate::mutant::Mutant;
use crate::on_worker::is_worker;
use crate::policy::PollPolicy;
use crate::refusal::{Refusal, Refused};
use crate::room::{Ticket, Until};
use crate::runner::UnitRunner;
use crate::shared::{Shared, Table};
use crate::sync::Ordering;
use crate::table::{Claim, TableError};
use crate::trace;
use crate::unstage::{SUB_CORES, Staged, Unstage};
use crate::waits::Waits;
use crate::work_item::{WorkItem, recycling};
use core::fmt;
use core::task::{Context, Poll};
use std::io;
use std::sync::Arc;
use std::time::Instant;
use xu_abi::{Cursor, SeqId, Status, XuId};
use xu_ring::queue::{NeverIssued, Observer, RingError};
use xu_ring::spsc::CapacityError;

pub use batch::Batch;
pub use listen::AskError;
pub use reserve::{Reservation, ReserveFuture, UnitHandle};
pub use room_future::RoomFuture;
pub use snapshot::QueueSnapshot;

/// How a unit is made.
#[derive(Clone, Debug)]
pub struct UnitOptions {
    /// Most requests that may be accepted and not complete, at least 1; default 8.
    pub limit: u64,
    /// How its worker looks at the device, and whether wakes may be skipped. All units of a worker have the same.
    pub policy: PollPolicy,
    /// Where waits for a sequence get their descriptors; the units of a core share one.
    pub pool: Arc<CompletionPool>,
}

impl Default for UnitOptions {
    fn default() -> Self {
        Self {
            limit: 8,
            policy: PollPolicy::default(),
            pool: Arc::default(),
        }
    }
}

/// Where in memory a unit lies: an entry of a table that has the layout of the original's.
#[derive(Debug)]
pub struct Place<'a, S: Stage> {
    /// The table, which the unit keeps alive.
    pub table: &'a Arc<Table<S::Item, S::Outcome>>,
    /// The entry: the number of the virtual core.
    pub index: u8,
    /// The address of the logical core, or whatever number a reader of the table should find.
    pub vcore: u64,
}

/// The submitting half of an execution unit.
///
/// In a child that was forked from the process that made it, every call is refused and dropping it does nothing.
pub struct Unit<S: Stage> {
    parts: HereOnly<Parts<S::Item, S::Outcome>>,
}

struct Parts<I, O> {
    xu: XuId,
    limit: u64,
    /// The entry in the table, with the funnel behind its submit lock.
    claim: Claim<Funnel<I, O>, Waits, Unstage>,
    observer: Observer<WorkItem<I, O>>,
    shared: Arc<Shared<I, O>>,
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
    /// The entry of the table is not to be had.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The operating system gave no descriptor.
    #[error("no eventfd for a unit: {}", limits::no_descriptor(.0))]
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

/// What a unit has accepted and not completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// The queue.
    pub xu: XuId,
    /// How many requests.
    pub depth: u64,
    /// The one that the others wait for.
    pub oldest: SeqId,
}

impl fmt::Display for InFlight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { xu, depth, oldest } = self;
        write!(f, "{xu}: {depth} in flight, the oldest is {oldest}")
    }
}

impl<S: Stage> Unit<S>
where
    S: 'static,
    S::Item: 'static,
    S::Outcome: 'static,
{
    /// Makes a unit in a table of its own, and the half that its worker runs.
    ///
    /// `xu` tells its sequences from those of other units, so no two units of a runtime have the same: queues of a core differ
    /// by type and number, cores by their virtual core.
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
        let place = Place {
            table: &Arc::new(Table::new(1)?),
            index: 0,
            vcore: 0,
        };
        Self::new_in(place, xu, options, stage, engine)
    }

    /// Makes a unit in an entry of a table, where lookups find it until it is dropped, and the half that its worker runs.
    ///
    /// # Errors
    /// [`UnitError`]: an impossible limit, no memory, no descriptor, or an entry that is not free. Nothing remains.
    pub fn new_in<E>(
        place: Place<'_, S>,
        xu: XuId,
        options: &UnitOptions,
        stage: S,
        engine: E,
    ) -> Result<(Self, UnitRunner<E>), UnitError>
    where
        E: Engine<Item = S::Item, Outcome = S::Outcome>,
    {
        let claim = place.table.claim(place.index, xu, place.vcore)?;
        let (submitter, consumer, observer) = claim.ring(options.limit)?;
        let (spares, returns) = recycling(options.limit)?;
        let work = WorkCount::new()?;
        // Relaxed: published below.
        claim.has_work_efd.store(work.number(), Ordering::Relaxed);
        let funnel = Funnel::new(Box::new(stage), submitter, spares, E::CAN_SKIP);
        *claim.submit_work_lock.lock() = Some(Box::new(funnel));
        *claim.mark_comp_lock.lock() = Some(Box::new(Waits::new()));
        *claim.unstage_lock.lock() = Some(Box::default());
        let pool = Arc::clone(&options.pool);
        let shared = Arc::new(Shared::new(options.policy, claim.entry(), work, pool));
        let runner = UnitRunner::new(xu, engine, consumer, returns, Arc::clone(&shared));
        claim.publish();
        let parts = HereOnly::new(Parts {
            xu,
            limit: options.limit,
            claim,
            observer,
            shared,
        });
        Ok((Self { parts }, runner))
    }
}

impl<S: Stage> Unit<S> {
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

    /// Places that are [reserved](Unit::try_reserve): so many requests less find room. A unit that closes or is degraded
    /// keeps no promises, but counts them until their holders go.
    #[must_use]
    pub fn reserved(&self) -> u64 {
        self.parts.shared.room.reserved()
    }

    /// Whether this unit takes work.
    #[must_use]
    pub fn health(&self) -> Health {
        self.parts.shared.health()
    }

    /// The first fatal error, once the unit is degraded.
    #[must_use]
    pub fn cause(&self) -> Option<Cause> {
        // In a forked child the lock may be held by a thread that does not exist there.
        if self.parts.is_here() {
            self.parts.shared.cause()
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
        let (released, completion) = self.through_funnel(item, |funnel, item, shared| {
            let (notifier, completion) = funnel.completion();
            let released = funnel.submit(item, Some(notifier), shared)?;
            Ok((released, completion))
        })?;
        self.wake(released);
        let seq = released.last;
        trace::accepted(seq, 1);
        Ok(Accepted { seq, completion })
    }

    /// As [`Unit::submit`], but nobody is told of the outcome: for who asks by sequence number.
    ///
    /// # Errors
    /// As [`Unit::submit`].
    pub fn post(&self, item: S::Item) -> Result<SeqId, Refused<S::Item>> {
        let released = self.through_funnel(item, |funnel, item, shared| {
            funnel.submit(item, None, shared)
        })?;
        self.wake(released);
        trace::accepted(released.last, 1);
        Ok(released.last)
    }

    /// Refuses new requests from now on; what is queued finishes. What batches hold is published: nothing will come behind it,
    /// and who closes waits for it, perhaps on the very thread that has the batch.
    pub fn close(&self) {
        // Under the submit lock: when this returns, no submit that saw an open gate is still on its way.
        let released = self.with_funnel(|funnel, shared| {
            shared.close();
            funnel.release_all(shared)
        });
        if let Ok(requests) = released {
            let last = self.last_submitted();
            self.wake(Released { last, requests });
            self.parts.shared.tell_of_health(self.xu());
        }
    }

    /// Says that its worker has gone for good and that nothing will complete any more: registrations are dropped, and whoever
    /// follows the unit sees its end. For who has joined the worker, with no lock held.
    pub fn finish(&self) {
        if self.parts.is_here() {
            self.parts.shared.end();
        }
    }

    /// Waits until every accepted request is complete, or given up with its unit. In a forked child, and on a worker's
    /// thread, which would wait for itself, it returns at once.
    pub fn drain(&self) {
        self.wait_until(Until::Empty, None, || self.is_drained());
    }

    /// As [`Unit::drain`], but gives up at `deadline`.
    ///
    /// # Errors
    /// The number of requests still in flight when time is up.
    pub fn drain_until(&self, deadline: Instant) -> Result<(), u64> {
        if self.parts.is_here()
            && self.wait_until(Until::Empty, Some(deadline), || self.is_drained())
        {
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
        self.depth() == 0 || self.parts.shared.is_abandoned()
    }

    /// Schedules a stop behind everything queued; its completion learns how that went.
    ///
    /// Passes the closing gate; the caller has drained, so there is room.
    ///
    /// # Errors
    /// [`Refusal`] when the ring takes no more requests.
    pub fn schedule_stop(&self) -> Result<Accepted<()>, Refusal> {
        let (notifier, completion) = completion();
        let released = self.with_funnel(|funnel, shared| funnel.stop(notifier, shared))?;
        self.tell_if_degraded();
        let released = released?;
        self.wake(released);
        let seq = released.last;
        Ok(Accepted { seq, completion })
    }

    /// Lets a model go when the requests that this unit has accepted until now are complete, on the worker's thread: they may
    /// still use it. At once when they are complete; not before the unit goes when it is degraded.
    ///
    /// `sub_core` is the physical core of the logical one, 0 or 1; others count as 0.
    pub fn defer_unstage(&self, sub_core: usize, staged: Staged) {
        let shared = &self.parts.shared;
        if !self.parts.is_here() {
            core::mem::forget(staged);
            return;
        }
        let sub_core = if sub_core < SUB_CORES { sub_core } else { 0 };
        // Nothing that is submitted from now on uses it.
        let after = self.last_submitted().cursor();
        match shared.entry.unstage_lock.lock().as_deref_mut() {
            Some(unstage) => unstage.defer(sub_core, after, staged, &shared.staged()),
            // The unit is there as long as `self` is.
            None => core::mem::forget(staged),
        }
        // The worker pops and looks for it under the same lock: either it sees what was left, or we see what is complete.
        let completed = shared.under_mark_comp(|_| self.last_completed());
        if completed.cursor() >= after {
            shared.unstage(completed);
        }
    }

    /// Whether a submit would find a free slot, or be refused for good.
    ///
    /// Stores `cx`'s waker in `ticket` while neither is so.
    pub fn poll_room(&self, ticket: &mut Ticket, cx: &Context<'_>) -> Poll<()> {
        if self.has_room() {
            return Poll::Ready(());
        }
        let shared = &self.parts.shared;
        shared
            .room
            .register(ticket, cx.waker(), |announce| shared.announce(announce));
        // Look again: a release between the first look and the registration woke nobody.
        if self.has_room() && !Mutant::RoomNoSecondLook.is_seeded() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    /// Blocks until a submit would find a free slot or be refused for good; `false` at the deadline, and on a worker's
    /// thread, which would wait for itself.
    #[must_use]
    pub fn wait_room(&self, deadline: Option<Instant>) -> bool {
        self.wait_until(Until::Room, deadline, || self.has_room())
    }

    /// A future that is ready when a submit would find a free slot, or be refused for good. Others may take the slot first:
    /// submit, and wait again when the unit is full.
    pub fn room(&self) -> RoomFuture<'_, S> {
        RoomFuture::new(self)
    }

    /// Forgets an asynchronous waiter of [`Unit::poll_room`].
    pub fn leave_room(&self, ticket: &mut Ticket) {
        if self.parts.is_here() {
            let room = &self.parts.shared.room;
            room.deregister(ticket);
            if self.has_room() {
                // Whoever goes may have been woken for this slot.
                room.wake_one();
            }
        }
    }

    fn wait_until(
        &self,
        until: Until,
        deadline: Option<Instant>,
        mut ready: impl FnMut() -> bool,
    ) -> bool {
        if !self.parts.is_here() {
            // The worker that would make it so is in another process.
            return true;
        }
        if ready() {
            return true;
        }
        if is_worker() {
            // It would wait for itself.
            return false;
        }
        let shared = &self.parts.shared;
        let under_lock = |announce: &dyn Fn()| shared.announce(announce);
        shared.room.wait_until(until, deadline, under_lock, ready)
    }

    fn has_room(&self) -> bool {
        let health = self.health();
        if health == Health::Degraded || !self.parts.is_here() {
            return true;
        }
        // A closing queue that is full says so first, so there is no hope in it yet; but it keeps no promises. The depth
        // first: see `Room::reserved`.
        let depth = self.depth();
        let reserved = if health == Health::Healthy {
            self.reserved()
        } else {
            0
        };
        depth.saturating_add(reserved) < self.parts.limit
    }

    /// Runs `submit` under the submit lock.
    #[inline]
    fn through_funnel<R>(
        &self,
        item: S::Item,
        submit: impl FnOnce(
            &mut Funnel<S::Item, S::Outcome>,
            S::Item,
            &Shared<S::Item, S::Outcome>,
        ) -> Result<R, Refused<S::Item>>,
    ) -> Result<R, Refused<S::Item>> {
        let mut item = Some(item);
        let submitted = self.with_funnel(|funnel, shared| {
            let item = item.take()?;
            Some(submit(funnel, item, shared))
        });
        let refused = match submitted {
            Ok(Some(Ok(submitted))) => return Ok(submitted),
            Ok(Some(Err(refused))) => refused,
            // It was taken by nobody.
            Ok(None) => Refused {
                reason: Refusal::Closing { xu: self.xu() },
                item,
            },
            Err(reason) => Refused { reason, item },
        };
        self.tell_if_degraded();
        trace::refused(&refused.reason);
        Err(refused)
    }

    /// # Errors
    /// This process was forked from the one that made the unit.
    #[inline]
    fn with_funnel<R>(
        &self,
        run: impl FnOnce(&mut Funnel<S::Item, S::Outcome>, &Shared<S::Item, S::Outcome>) -> R,
    ) -> Result<R, Refusal> {
        let xu = self.xu();
        if !self.parts.is_here() {
            return Err(Refusal::Forked { xu });
        }
        // It is there as long as the claim is.
        match self.parts.claim.submit_work_lock.lock().as_deref_mut() {
            Some(funnel) => Ok(run(funnel, &self.parts.shared)),
            None => Err(Refusal::Closing { xu }),
        }
    }

    /// Tells the worker of requests that it has not seen before.
    #[inline]
    fn wake(&self, Released { last, requests }: Released) {
        let shared = &self.parts.shared;
        let rings = if shared.policy.pairs_wakes() {
            requests
        } else {
            // Without any, somebody else has released them, and rings.
            u64::from(requests > 0 && shared.need_wake.must_ring())
        };
        for _ in 0..rings {
            self.ring_bell(last);
        }
    }

    /// The request is accepted whatever happens here; a worker that cannot be woken is as good as dead. What it has not
    /// completed, it completes as unrecoverable when it next wakes up for another unit, or is stopped.
    fn ring_bell(&self, seq: SeqId) {
        if let Err(error) = self.parts.shared.work.add() {
            let text = format!("cannot wake the worker: {error}");
            self.degrade(Status::FAILURE, Some(seq), text);
            self.parts.shared.abandon();
            self.tell_if_degraded();
        }
    }

    /// Wakes whoever waits for room in vain, or follows the health. Called without the submit lock: wakers are foreign code.
    fn tell_if_degraded(&self) {
        if self.health() == Health::Degraded {
            self.parts.shared.tell_of_health(self.xu());
        }
    }

    fn degrade(&self, status: Status, seq: Option<SeqId>, text: String) {
        self.parts.shared.degrade(Cause { status, seq, text });
    }
}

/// Nobody is told any more.
impl<I, O> Drop for Parts<I, O> {
    fn drop(&mut self) {
        self.shared.events.clear();
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
