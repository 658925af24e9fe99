//! The submit funnel: what happens to a request between the gates and the ring.
//!
//! It is what a unit's submit lock covers, and whoever has it is the ring's single producer. Spec `xu.md` section 4, submit
//! funnel, and the ruling on failures that degrade.

use crate::completion::{Cells, Completion, Notifier};
use crate::engine::{Stage, StageError};
use crate::health::{Cause, Health};
use crate::mutant::Mutant;
use crate::refusal::{Refusal, Refused};
use crate::shared::Shared;
use crate::sync::Ordering;
use crate::waits::Waits;
use crate::wake::discard;
use crate::work_item::{Spares, WorkItem};
use core::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use xu_abi::{Cursor, SeqId, Status};
use xu_ring::queue::Submitter;

/// Most completion cells that a unit keeps for use again.
const MOST_CELLS: usize = 1024;

/// A stage that takes requests `I` and tells outcomes `O`.
type AnyStage<I, O> = Box<dyn Stage<Item = I, Outcome = O>>;

/// The submitting end of a unit's ring, and all that a submission needs.
pub struct Funnel<I, O> {
    stage: AnyStage<I, O>,
    ring: Submitter<WorkItem<I, O>>,
    spares: Spares<I, O>,
    cells: Cells<O>,
    /// Requests that failed after the device may have seen them: kept until the unit goes.
    quarantine: Vec<I>,
    /// Places that are promised to their holders. With the depth never more than the limit, while the unit is healthy.
    reserved: u64,
}

/// Requests that the worker has not seen before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Released {
    /// The last of them.
    pub(crate) last: SeqId,
    /// How many: with somebody else's batch, more than were submitted with it.
    pub(crate) requests: u64,
}

impl<I: Send, O: Send> Funnel<I, O> {
    pub(crate) fn new(
        stage: AnyStage<I, O>,
        ring: Submitter<WorkItem<I, O>>,
        spares: Spares<I, O>,
        can_skip: bool,
    ) -> Self {
        Self {
            stage,
            ring,
            spares,
            cells: Cells::new(MOST_CELLS, can_skip),
            quarantine: Vec::new(),
            reserved: 0,
        }
    }

    /// The two ends of a request's way back.
    #[inline]
    pub(crate) fn completion(&mut self) -> (Notifier<O>, Completion<O>) {
        self.cells.completion()
    }

    /// Takes a request through the whole funnel.
    pub(crate) fn submit(
        &mut self,
        item: I,
        notifier: Option<Notifier<O>>,
        shared: &Shared<I, O>,
    ) -> Result<Released, Refused<I>> {
        let last = self.hold(item, notifier, shared)?;
        let requests = self.release_all(shared);
        Ok(Released { last, requests })
    }

    /// Promises a place to the caller, if there is room.
    pub(crate) fn reserve(&mut self, shared: &Shared<I, O>) -> Result<(), Refusal> {
        match self.why_not(shared) {
            Some(reason) => Err(reason),
            None => {
                self.count_places(self.reserved + 1, shared);
                Ok(())
            }
        }
    }

    /// Takes a place back that was promised. The caller tells those who wait for room.
    pub(crate) fn give_back(&mut self, shared: &Shared<I, O>) {
        self.count_places(self.reserved.saturating_sub(1), shared);
    }

    /// As [`Funnel::submit`], in a place that was promised and is spent now, whatever the answer: with the submit lock held
    /// nobody else gets it.
    pub(crate) fn submit_reserved(
        &mut self,
        item: I,
        notifier: Option<Notifier<O>>,
        shared: &Shared<I, O>,
    ) -> Result<Released, Refused<I>> {
        if Mutant::SpendAfterRequest.is_seeded() {
            self.reserved -= 1;
            let submitted = self.submit(item, notifier, shared);
            self.count_places(self.reserved, shared);
            return submitted;
        }
        // Before the request is visible: whoever sees it must not count its place as well.
        self.give_back(shared);
        self.submit(item, notifier, shared)
    }

    fn count_places(&mut self, reserved: u64, shared: &Shared<I, O>) {
        self.reserved = reserved;
        shared.room.show_reserved(reserved);
    }

    /// The funnel up to the trigger: the device knows the request, the worker does not.
    pub(crate) fn hold(
        &mut self,
        mut item: I,
        notifier: Option<Notifier<O>>,
        shared: &Shared<I, O>,
    ) -> Result<SeqId, Refused<I>> {
        let refuse = |reason, item| {
            let item = Some(item);
            Err(Refused { reason, item })
        };
        if let Some(reason) = self.gate(shared) {
            return refuse(reason, item);
        }
        let stage = &mut self.stage;
        let prepared = guarded(|| {
            stage.prepare(&mut item)?;
            Ok(stage.model(&item))
        });
        let model = match prepared {
            Ok(model) => model,
            Err(StageError { status, text }) => {
                let xu = self.ring.xu();
                return refuse(Refusal::Prepare { xu, status, text }, item);
            }
        };
        // ---- From here on the device may know. ----
        if let Err(error) = guarded(|| stage.commit(&mut item)) {
            return Err(self.failed_half_way(item, error, shared));
        }
        record_model(model, shared);
        self.post(item, notifier, shared)
    }

    /// Lets the worker see what is held, and says how many requests that were: also those of somebody else's batch. The caller
    /// tells the worker of all of them. What a corrupt ring will not release completes as abandoned when the unit goes.
    #[must_use = "the worker has to be told"]
    pub(crate) fn release_all(&mut self, shared: &Shared<I, O>) -> u64 {
        self.ring.trigger_all().unwrap_or_else(|error| {
            degrade(shared, Status::FAILURE, error.to_string());
            shared.abandon();
            // A descriptor that cannot be signalled leaves its waiters to look for themselves.
            let _ = shared.under_mark_comp(Waits::abandon);
            // The worker has to see that.
            1
        })
    }

    /// Puts a stop behind everything queued, past the closing gate.
    pub(crate) fn stop(
        &mut self,
        notifier: Notifier<()>,
        shared: &Shared<I, O>,
    ) -> Result<Released, Refusal> {
        if shared.is_abandoned() {
            return Err(self.why_given_up(shared));
        }
        shared.note_stop(self.ring.last_submitted().cursor());
        let item = self.spares.fill(WorkItem::Stop(notifier));
        let submitted = self.ring.submit(item);
        let requests = self.release_all(shared);
        match submitted {
            Ok(last) => Ok(Released { last, requests }),
            Err(_) => Err(self.why_no_slot()),
        }
    }

    fn failed_half_way(
        &mut self,
        item: I,
        StageError { status, text }: StageError,
        shared: &Shared<I, O>,
    ) -> Refused<I> {
        self.quarantine.push(item);
        degrade(shared, status, text.clone());
        let xu = self.ring.xu();
        Refused {
            reason: Refusal::Commit { xu, status, text },
            item: None,
        }
    }

    fn post(
        &mut self,
        item: I,
        notifier: Option<Notifier<O>>,
        shared: &Shared<I, O>,
    ) -> Result<SeqId, Refused<I>> {
        let accepted = shared.statistics.stamp();
        let request = WorkItem::Execute(item, notifier, accepted);
        let item = self.spares.fill(request);
        self.ring.submit(item).map_err(|error| {
            // The gates make this unreachable; were it reached, the device knows a request without a slot.
            let reason = self.why_no_slot();
            if let WorkItem::Execute(item, ..) = *error.into_item() {
                self.quarantine.push(item);
            }
            degrade(shared, Status::FAILURE, reason.to_string());
            Refused { reason, item: None }
        })
    }

    fn gate(&mut self, shared: &Shared<I, O>) -> Option<Refusal> {
        let refusal = self.why_not(shared);
        if let Some(Refusal::QueueFull { .. }) = refusal {
            shared.statistics.refuse_full();
        }
        refusal
    }

    fn why_not(&mut self, shared: &Shared<I, O>) -> Option<Refusal> {
        let health = shared.health();
        let has_room = self.has_room(health);
        if health == Health::Healthy && has_room {
            return None;
        }
        let xu = self.ring.xu();
        if let Some(cause) = shared.cause().filter(|_| health == Health::Degraded) {
            return Some(Refusal::Degraded { xu, cause });
        }
        if !has_room {
            return Some(self.why_no_slot());
        }
        (health == Health::Closing).then_some(Refusal::Closing { xu })
    }

    /// Whether there is a slot that is not promised. A unit that takes no work keeps no promises.
    #[inline]
    fn has_room(&mut self, health: Health) -> bool {
        self.ring.has_room()
            && (self.reserved == 0
                || health != Health::Healthy
                || self.ring.depth() + self.reserved < self.ring.capacity())
    }

    /// Why nothing of this unit will complete any more.
    fn why_given_up(&self, shared: &Shared<I, O>) -> Refusal {
        let xu = self.ring.xu();
        match shared.cause() {
            Some(cause) => Refusal::Degraded { xu, cause },
            None => Refusal::Closing { xu },
        }
    }

    /// Why the ring takes no request.
    fn why_no_slot(&self) -> Refusal {
        let xu = self.ring.xu();
        if self.ring.last_submitted().cursor() >= Cursor::LAST {
            Refusal::Exhausted { xu }
        } else {
            Refusal::QueueFull {
                xu,
                limit: self.ring.capacity(),
            }
        }
    }
}

/// A stage that panics has failed.
fn guarded<R>(stage: impl FnOnce() -> Result<R, StageError>) -> Result<R, StageError> {
    catch_unwind(AssertUnwindSafe(stage)).unwrap_or_else(|payload| {
        discard(payload);
        Err(StageError::new(Status::FAILURE, "the stage panicked"))
    })
}

#[inline]
fn record_model<I, O>(model: u32, shared: &Shared<I, O>) {
    let word = &shared.entry.last_posted_model;
    let model = u64::from(model);
    // Relaxed: for those who watch. Written when it changes only: the worker writes to the same line.
    if word.load(Ordering::Relaxed) != model {
        word.store(model, Ordering::Relaxed);
    }
}

fn degrade<I, O>(shared: &Shared<I, O>, status: Status, text: String) {
    shared.degrade(Cause {
        status,
        seq: None,
        text,
    });
}

impl<I, O> fmt::Debug for Funnel<I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Funnel").finish_non_exhaustive()
    }
}
