//! Wait for a free slot in a task.
//!
//! Made by [`Unit::room`]. Failure kind F5.

use super::Unit;
use crate::engine::Stage;
use crate::room::Ticket;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};

/// Waits for room in one unit; stores one waker however often it is polled.
#[must_use = "a future waits when it is polled"]
pub struct RoomFuture<'a, S: Stage> {
    unit: &'a Unit<S>,
    ticket: Ticket,
}

impl<'a, S: Stage> RoomFuture<'a, S> {
    pub(super) fn new(unit: &'a Unit<S>) -> Self {
        Self {
            unit,
            ticket: Ticket::default(),
        }
    }
}

impl<S: Stage> Future for RoomFuture<'_, S> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        this.unit.poll_room(&mut this.ticket, cx)
    }
}

impl<S: Stage> Drop for RoomFuture<'_, S> {
    fn drop(&mut self) {
        self.unit.leave_room(&mut self.ticket);
    }
}

impl<S: Stage> fmt::Debug for RoomFuture<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoomFuture").finish_non_exhaustive()
    }
}
