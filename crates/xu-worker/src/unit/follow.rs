//! Follow a unit in a task: until a sequence is complete, from completion to completion, or from health to health.
//!
//! The facade builds its futures and streams on these. All three store one waker per [`Follower`], look again, and only
//! then say that they are pending. Spec `xu.md` section 8.4; failure kind F3.

use super::{AskError, Unit};
use crate::engine::Stage;
use crate::followers::{Follower, Followers};
use crate::health::Health;
use crate::mutant::Mutant;
use crate::waits::Waited;
use core::task::{Context, Poll};
use xu_abi::{Cursor, SeqId};

impl<S: Stage> Unit<S> {
    /// Whether the request of a sequence is complete, whatever its status, and its outcome handed over; any number of tasks may
    /// ask for one sequence.
    ///
    /// Stores `cx`'s waker while it is not. Never [`Waited::TimedOut`].
    ///
    /// # Errors
    /// [`AskError`]. On a worker's thread too it never blocks, and so never refuses for that.
    pub fn poll_completed(
        &self,
        seq: SeqId,
        follower: &mut Follower,
        cx: &Context<'_>,
    ) -> Poll<Result<Waited, AskError>> {
        if let Err(refused) = self.check_process() {
            return Poll::Ready(Err(refused));
        }
        if let Err(refused) = self.is_completed(seq) {
            return Poll::Ready(Err(refused.into()));
        }
        let shared = &self.parts.shared;
        self.follow(&shared.followers, seq.cursor(), follower, cx, || {
            if self.is_completed(seq) == Ok(true) {
                self.pass_hand_over();
                return Some(Ok(Waited::Completed));
            }
            let is_abandoned = shared.is_abandoned()
                && shared.under_mark_comp(|waits| waits.is_abandoned())
                // It may have been completed between the two looks.
                && self.is_completed(seq) != Ok(true);
            is_abandoned.then_some(Ok(Waited::Abandoned))
        })
    }

    /// The last completed request, whose outcome has been handed over, once it is later than `after`; `None` when the unit has ended and there will be no
    /// later one. Stops are not counted.
    ///
    /// Stores `cx`'s waker while there is neither.
    pub fn poll_newer(
        &self,
        after: Cursor,
        follower: &mut Follower,
        cx: &Context<'_>,
    ) -> Poll<Option<SeqId>> {
        if !self.parts.is_here() {
            return Poll::Ready(None);
        }
        let shared = &self.parts.shared;
        let next = Cursor::new(after.get() + 1).unwrap_or(Cursor::LAST);
        self.follow(&shared.followers, next, follower, cx, || {
            // In this order: what completes before the unit ends is seen when the end is.
            let had_ended = shared.has_ended();
            let newest = self.newest_request();
            let has_ended = had_ended || (Mutant::EndAfterNewest.is_seeded() && shared.has_ended());
            if newest.cursor() > after {
                self.pass_hand_over();
                return Some(Some(newest));
            }
            has_ended.then_some(None)
        })
    }

    /// The unit's health, once it differs from `seen`; `None` when it will not change any more.
    ///
    /// Changes that follow each other closely are seen as one: the last one is never missed.
    /// Stores `cx`'s waker while there is neither.
    pub fn poll_health(
        &self,
        seen: Health,
        follower: &mut Follower,
        cx: &Context<'_>,
    ) -> Poll<Option<Health>> {
        if !self.parts.is_here() {
            return Poll::Ready(None);
        }
        let shared = &self.parts.shared;
        self.follow(&shared.health_followers, Cursor::NONE, follower, cx, || {
            let has_ended = shared.has_ended();
            let health = self.health();
            if health != seen {
                return Some(Some(health));
            }
            (has_ended || health == Health::Degraded).then_some(None)
        })
    }

    /// Forgets a follower of [`Unit::poll_completed`] or [`Unit::poll_newer`].
    pub fn unfollow(&self, follower: &mut Follower) {
        if self.parts.is_here() {
            self.parts.shared.followers.deregister(follower);
        }
    }

    /// Forgets a follower of [`Unit::poll_health`].
    pub fn unfollow_health(&self, follower: &mut Follower) {
        if self.parts.is_here() {
            self.parts.shared.health_followers.deregister(follower);
        }
    }

    /// The last completed request of the application's; stops are none.
    #[must_use]
    pub fn newest_request(&self) -> SeqId {
        let completed = self.last_completed();
        SeqId::new(
            self.xu(),
            self.parts.shared.without_stops(completed.cursor()),
        )
    }

    /// The last accepted request of the application's; stops are none.
    #[must_use]
    pub fn newest_issued(&self) -> SeqId {
        let submitted = self.last_submitted();
        SeqId::new(
            self.xu(),
            self.parts.shared.without_stops(submitted.cursor()),
        )
    }

    /// A completion is visible a little before its outcome is handed over, both under one lock: who has had the lock since
    /// finds the outcome.
    fn pass_hand_over(&self) {
        if !Mutant::FollowBeforeHandOver.is_seeded() {
            self.parts.shared.under_mark_comp(|_| ());
        }
    }

    fn follow<T>(
        &self,
        followers: &Followers,
        until: Cursor,
        follower: &mut Follower,
        cx: &Context<'_>,
        look: impl Fn() -> Option<T>,
    ) -> Poll<T> {
        if let Some(found) = look() {
            followers.deregister(follower);
            return Poll::Ready(found);
        }
        let shared = &self.parts.shared;
        followers.register(follower, until, cx.waker(), |count| {
            shared.under_mark_comp(|_| count());
        });
        if Mutant::FollowNoSecondLook.is_seeded() {
            return Poll::Pending;
        }
        // Look again: what happened between the first look and the registration woke nobody.
        match look() {
            Some(found) => {
                followers.deregister(follower);
                Poll::Ready(found)
            }
            None => Poll::Pending,
        }
    }
}
