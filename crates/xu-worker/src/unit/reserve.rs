//! A place in a queue that nobody else gets: reserved now, used later.
//!
//! For who must know that there is room before the work is begun that makes a request: read from a socket, fill a buffer.
//! A [`Reservation`] counts against the limit for everybody else until it is spent or dropped, and what is submitted through
//! it never finds the unit full. It holds up nobody but who wants room: a unit that closes or degrades refuses what comes
//! through it, and neither drains nor closes later for its sake.
//!
//! ```text
//!  try_reserve ──────────┐
//!  reserve().await ──────┼─> Reservation ── submit ──> in the queue
//!  reserve_until(time) ──┘        └──────── drop ────> one who waits for room is woken, as by a completion
//! ```
//!
//! Places are counted in the funnel, under the submit lock, so that a submission costs what it did. A mirror of the count is for
//! those who wait ([`room`](crate::room)). Whoever waits registers and looks again. Nobody is promised an order: who comes
//! just then may be quicker than who was woken. Failure kinds F5 and W5.

use super::{Accepted, Unit};
use crate::engine::Stage;
use crate::refusal::{Refusal, Refused};
use crate::room::Ticket;
use crate::trace;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::sync::Arc;
use std::time::Instant;
use xu_abi::SeqId;

/// What leads to a unit for as long as a reservation lasts: a reference, an [`Arc`], or a handle of one's own.
pub trait UnitHandle {
    /// What the unit does with a request.
    type Stage: Stage;

    /// The unit, the same each time.
    fn unit(&self) -> &Unit<Self::Stage>;
}

impl<S: Stage> UnitHandle for &Unit<S> {
    type Stage = S;

    fn unit(&self) -> &Unit<S> {
        self
    }
}

impl<S: Stage> UnitHandle for Arc<Unit<S>> {
    type Stage = S;

    fn unit(&self) -> &Unit<S> {
        self
    }
}

/// What a unit that is reached by `H` takes.
type Item<H> = <<H as UnitHandle>::Stage as Stage>::Item;
/// What it tells.
type Outcome<H> = <<H as UnitHandle>::Stage as Stage>::Outcome;

/// A place in a unit's queue. Dropped, it gives the place back.
///
/// In a forked child it is worth nothing, and dropping it does nothing.
#[must_use = "dropping it gives the place back"]
pub struct Reservation<H: UnitHandle> {
    handle: H,
    /// Whether there is still a place to give back.
    is_held: bool,
}

impl<H: UnitHandle> Reservation<H> {
    /// As [`Unit::try_reserve`], through a handle that the reservation keeps.
    ///
    /// # Errors
    /// As [`Unit::try_reserve`]; the handle is dropped.
    pub fn try_new(handle: H) -> Result<Self, Refusal> {
        handle.unit().take_place()?;
        Ok(Self::held(handle))
    }

    /// As [`Unit::reserve_until`], through a handle that the reservation keeps.
    ///
    /// # Errors
    /// As [`Unit::reserve_until`]; the handle is dropped.
    pub fn wait(handle: H, deadline: Option<Instant>) -> Result<Self, Refusal> {
        loop {
            match handle.unit().take_place() {
                Ok(()) => return Ok(Self::held(handle)),
                Err(full @ Refusal::QueueFull { .. }) => {
                    if !handle.unit().wait_room(deadline) {
                        return Err(full);
                    }
                }
                Err(refusal) => return Err(refusal),
            }
        }
    }

    /// As [`Unit::submit`], in this place. The unit is not full.
    ///
    /// # Errors
    /// [`Refused`] for any other reason than that. The place is given back then.
    pub fn submit(self, item: Item<H>) -> Result<Accepted<Outcome<H>>, Refused<Item<H>>> {
        self.spend(item, |unit, item| {
            let (released, completion) = unit.through_funnel(item, |funnel, item, shared| {
                let (notifier, completion) = funnel.completion();
                let released = funnel.submit_reserved(item, Some(notifier), shared)?;
                Ok((released, completion))
            })?;
            unit.wake(released);
            let seq = released.last;
            trace::accepted(seq, 1);
            Ok(Accepted { seq, completion })
        })
    }

    /// As [`Unit::post`], in this place.
    ///
    /// # Errors
    /// As [`Reservation::submit`].
    pub fn post(self, item: Item<H>) -> Result<SeqId, Refused<Item<H>>> {
        self.spend(item, |unit, item| {
            let released = unit.through_funnel(item, |funnel, item, shared| {
                funnel.submit_reserved(item, None, shared)
            })?;
            unit.wake(released);
            trace::accepted(released.last, 1);
            Ok(released.last)
        })
    }

    /// What leads to the unit.
    #[must_use]
    pub fn handle(&self) -> &H {
        &self.handle
    }

    /// The caller has taken a place.
    fn held(handle: H) -> Self {
        Self {
            handle,
            is_held: true,
        }
    }

    fn spend<R>(
        mut self,
        item: Item<H>,
        submit: impl FnOnce(&Unit<H::Stage>, Item<H>) -> Result<R, Refused<Item<H>>>,
    ) -> Result<R, Refused<Item<H>>> {
        self.is_held = false;
        let unit = self.handle.unit();
        let submitted = submit(unit, item);
        if submitted.is_err() {
            // The funnel has taken the place back.
            unit.tell_of_place();
        }
        submitted
    }
}

impl<H: UnitHandle> Drop for Reservation<H> {
    fn drop(&mut self) {
        if self.is_held {
            self.handle.unit().give_place_back();
        }
    }
}

impl<S: Stage> Unit<S> {
    /// A place in the queue, if there is room now. Never blocks.
    ///
    /// # Errors
    /// [`Refusal`]: the unit is full, which counts as no refused request; or it takes no work any more.
    pub fn try_reserve(&self) -> Result<Reservation<&Self>, Refusal> {
        Reservation::try_new(self)
    }

    /// A future of a place in the queue. It resolves when there is one, or when the unit takes no work any more.
    pub fn reserve(&self) -> ReserveFuture<&Self> {
        ReserveFuture::new(self)
    }

    /// Blocks until there is a place in the queue, or `deadline` has passed, which asks once; `None` waits for ever.
    ///
    /// # Errors
    /// [`Refusal`]: [`Refusal::QueueFull`] at the deadline, and on a worker's thread, which would wait for itself; or the unit
    /// takes no work any more.
    pub fn reserve_until(&self, deadline: Option<Instant>) -> Result<Reservation<&Self>, Refusal> {
        Reservation::wait(self, deadline)
    }

    /// Counts one more place, if there is room.
    fn take_place(&self) -> Result<(), Refusal> {
        self.with_funnel(|funnel, shared| funnel.reserve(shared))?
    }

    fn give_place_back(&self) {
        // In a forked child, and when the unit has gone, there is nobody to give it to.
        if self
            .with_funnel(|funnel, shared| funnel.give_back(shared))
            .is_ok()
        {
            self.tell_of_place();
        }
    }

    fn tell_of_place(&self) {
        if self.parts.is_here() {
            self.parts.shared.tell_of_place();
        }
    }
}

/// Waits for a place in one unit; stores one waker however often it is polled.
#[must_use = "a future waits when it is polled"]
pub struct ReserveFuture<H: UnitHandle> {
    /// Gone once it has resolved.
    handle: Option<H>,
    ticket: Ticket,
}

impl<H: UnitHandle> ReserveFuture<H> {
    /// As [`Unit::reserve`], through a handle that the reservation will keep.
    pub fn new(handle: H) -> Self {
        Self {
            handle: Some(handle),
            ticket: Ticket::default(),
        }
    }

    fn leave(&mut self) {
        if let Some(handle) = &self.handle {
            handle.unit().leave_room(&mut self.ticket);
        }
    }
}

impl<H: UnitHandle> Future for ReserveFuture<H> {
    type Output = Result<Reservation<H>, Refusal>;

    /// Once it has resolved it is pending for ever.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            let Some(handle) = &this.handle else {
                return Poll::Pending;
            };
            match handle.unit().take_place() {
                Ok(()) => break,
                Err(Refusal::QueueFull { .. }) => {
                    if handle.unit().poll_room(&mut this.ticket, cx).is_pending() {
                        return Poll::Pending;
                    }
                }
                Err(refusal) => {
                    this.leave();
                    this.handle = None;
                    return Poll::Ready(Err(refusal));
                }
            }
        }
        this.leave();
        let reservation = this.handle.take().map(Reservation::held);
        reservation.map_or(Poll::Pending, |reservation| Poll::Ready(Ok(reservation)))
    }
}

/// The handle is never pinned.
impl<H: UnitHandle> Unpin for ReserveFuture<H> {}

impl<H: UnitHandle> Drop for ReserveFuture<H> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl<H: UnitHandle> fmt::Debug for Reservation<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation")
            .field("xu", &self.handle.unit().xu())
            .finish_non_exhaustive()
    }
}

impl<H: UnitHandle> fmt::Debug for ReserveFuture<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReserveFuture").finish_non_exhaustive()
    }
}
