//! An execution unit as its worker sees it: one step at a time, never blocking.
//!
//! Driven by [`WorkerThread`](crate::WorkerThread). Spec `xu.md` section 4, step:
//!
//! ```text
//!  peek -> begin once, unless it is skipped -> progress -> (Continue: return)
//!       -> finish: free what the request held
//!       -> take one work count, where wakes are counted -> write the status -> pop -> notify
//! ```
//!
//! An engine that panics degrades its unit; its queued requests complete with an error.

use crate::cell::Aftermath;
use crate::completion::{Notifier, SKIPPED};
use crate::completion_pool::Lease;
use crate::engine::{Engine, Progress};
use crate::eventfd::{SignalError, WorkCount};
use crate::health::{Cause, Health};
use crate::here_only::HereOnly;
use crate::mutant::Mutant;
use crate::policy::PollPolicy;
use crate::shared::Shared;
use crate::sync::Ordering;
use crate::trace;
use crate::waits::Waits;
use crate::wake::{discard, drop_foreign};
use crate::work_item::{Returns, WorkItem};
use core::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use xu_abi::{SeqId, Status, XuId};
use xu_ring::queue::{PeekError, Worker};

/// What a step left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing is queued.
    Idle,
    /// The request at the head still runs.
    InFlight,
    /// A request completed; there may be more.
    Completed,
}

/// A unit's worker half, whatever its engine.
pub trait Runner: Send + fmt::Debug {
    /// Looks at the request at the head of the queue, once.
    fn step(&mut self) -> Step;

    /// Gives the unit up: it degrades, and whatever is queued completes with `EXEC_UNIT_UNRECOVERABLE`. For a worker
    /// that cannot go on.
    fn give_up(&mut self, cause: Cause);

    /// Whether a request is queued.
    fn has_work(&mut self) -> bool;

    /// Says that the worker is about to sleep: submitters ring the bell from now on. The worker then passes
    /// [`look_once_more`](crate::rounds::look_once_more) and asks [`Runner::has_work`] before it sleeps.
    fn announce_sleep(&self);

    /// Says that the worker is awake, and will look by itself.
    fn stay_awake(&self);

    /// Readable while the bell has rung; where wakes are counted, while a request is accepted and not complete.
    fn bell(&self) -> &WorkCount;

    /// Takes one ring of the bell, which was heard. Where wakes are counted, [`Runner::step`] does that itself.
    fn answer_bell(&mut self);

    /// How the unit was made.
    fn policy(&self) -> PollPolicy;

    /// Whether this is the process that made the unit. In a forked child nothing here does anything.
    fn is_here(&self) -> bool;
}

/// The worker's half of a unit. Made by [`Unit::new`](crate::Unit::new).
pub struct UnitRunner<E: Engine> {
    parts: HereOnly<Parts<E>>,
}

struct Parts<E: Engine> {
    xu: XuId,
    engine: E,
    ring: Worker<WorkItem<E::Item, E::Outcome>>,
    returns: Returns<E::Item, E::Outcome>,
    shared: Arc<Shared<E::Item, E::Outcome>>,
    /// Whether the request at the head has begun.
    begun: bool,
}

impl<E: Engine> UnitRunner<E> {
    pub(crate) fn new(
        xu: XuId,
        engine: E,
        ring: Worker<WorkItem<E::Item, E::Outcome>>,
        returns: Returns<E::Item, E::Outcome>,
        shared: Arc<Shared<E::Item, E::Outcome>>,
    ) -> Self {
        Self {
            parts: HereOnly::new(Parts {
                xu,
                engine,
                ring,
                returns,
                shared,
                begun: false,
            }),
        }
    }
}

/// What a step goes through is inlined: requests and outcomes would be copied from place to place otherwise, which costs
/// a tenth of a short request's time.
impl<E: Engine> Parts<E> {
    /// The step cycle of the spec.
    fn step(&mut self) -> Step {
        if self.shared.is_abandoned() {
            // Nothing is accepted any more, and what was is complete; or a submitter could not release it.
            self.clear();
            return Step::Idle;
        }
        match self.look() {
            Err(PeekError::Empty) => Step::Idle,
            Err(corrupt) => self.broken(None, corrupt.to_string()),
            Ok(Look::InFlight) => Step::InFlight,
            Ok(Look::Finished(seq, status)) => self.complete(seq, Ending::Status(status)),
            Ok(Look::Skipped(seq)) => self.complete(seq, Ending::Skipped),
            Ok(Look::Fatal(seq, cause)) => {
                let status = cause.status;
                // Degraded before the completion is visible: whoever sees the status also sees the health.
                self.shared.degrade(Cause {
                    seq: Some(seq),
                    ..cause
                });
                let step = self.complete(seq, Ending::Status(status));
                self.tell_of_health();
                step
            }
        }
    }

    /// Steps 1 and 2: what has become of the request at the head.
    #[inline(always)]
    fn look(&mut self) -> Result<Look, PeekError> {
        let mut current = self.ring.peek()?;
        let seq = current.seq();
        let Some(request) = current.item() else {
            return Ok(Look::Finished(seq, Status::FAILURE));
        };
        if self.shared.health() == Health::Degraded {
            return Ok(Look::Finished(seq, Status::EXEC_UNIT_UNRECOVERABLE));
        }
        let begun = core::mem::replace(&mut self.begun, true);
        if E::CAN_SKIP
            && !begun
            && let WorkItem::Execute(_, Some(notifier), _) = request
            && !notifier.begin()
        {
            return Ok(Look::Skipped(seq));
        }
        if !begun && let WorkItem::Execute(_, _, Some(accepted)) = request {
            self.shared.statistics.begin(*accepted);
        }
        let engine = &mut self.engine;
        let progress = catch_unwind(AssertUnwindSafe(|| advance(engine, request, begun)));
        Ok(match progress {
            Ok(Progress::Continue) => {
                self.mark_running(true);
                Look::InFlight
            }
            Ok(Progress::Done(status)) => Look::Finished(seq, status),
            Ok(Progress::Fatal(cause)) => Look::Fatal(seq, cause.not_success()),
            Err(panic) => Look::Fatal(seq, panicked(panic)),
        })
    }

    /// Steps 5 and 6: the consumer frees, then the completion becomes visible, then the caller is told.
    ///
    /// Whatever turns out to be broken on the way, this request completes in good order first.
    fn complete(&mut self, seq: SeqId, ending: Ending) -> Step {
        self.begun = false;
        self.mark_running(false);
        let settled = match self.settle(seq, ending) {
            Ok(Some(settled)) => settled,
            Ok(None) => {
                return self.broken(Some(seq), "the slot at the head holds no request".into());
            }
            Err(error) => return self.broken(Some(seq), error.to_string()),
        };
        if self.shared.staged().is_anything_deferred() {
            // Step 4, the second half.
            self.shared.unstage(seq);
        }
        let counted = self.take_count();
        let popped = self.publish(settled, ending);
        if let Err(error) = counted {
            let text = format!("no work count for a completed request: {error}");
            return self.broken(Some(seq), text);
        }
        match popped {
            Ok(()) => Step::Completed,
            Err(error) => self.broken(Some(seq), error.to_string()),
        }
    }

    /// Takes the request at the head out of the ring, and lets the engine give up what it held. `None`: there was none.
    #[inline(always)]
    fn settle(
        &mut self,
        seq: SeqId,
        ending: Ending,
    ) -> Result<Option<Settled<E::Outcome>>, PeekError> {
        let Some(item) = self.ring.take()? else {
            return Ok(None);
        };
        // It comes while this one is completed.
        self.ring.prefetch_next();
        Ok(Some(match self.returns.unpack(item) {
            WorkItem::Stop(notifier) => Settled::Stop(notifier),
            WorkItem::Execute(item, notifier, accepted) => {
                // How long it took to be skipped says nothing of the unit.
                if let Some(accepted) = accepted
                    && ending != Ending::Skipped
                {
                    self.shared.statistics.end(accepted);
                }
                self.finish(item, notifier, seq, ending)
            }
        }))
    }

    /// Step 5 of an execution.
    #[inline(always)]
    fn finish(
        &mut self,
        item: E::Item,
        notifier: Option<Notifier<E::Outcome>>,
        seq: SeqId,
        ending: Ending,
    ) -> Settled<E::Outcome> {
        let (engine, shared) = (&mut self.engine, &self.shared);
        let finish = || match ending {
            Ending::Status(status) => {
                shared.staged().record(engine.model(&item));
                engine.finish(item, status)
            }
            Ending::Skipped => engine.skip(item),
        };
        match catch_unwind(AssertUnwindSafe(finish)) {
            Ok(outcome) => Settled::Execute(notifier, outcome),
            Err(panic) => {
                self.shared.degrade(Cause {
                    seq: Some(seq),
                    ..panicked(panic)
                });
                if !ending.is_failure() {
                    // What is counted later goes by this ending.
                    self.shared.statistics.fail();
                }
                self.tell_of_health();
                Settled::Lost(notifier)
            }
        }
    }

    /// The unit was healthy until now. Not where a waker has forked, in the child.
    #[cold]
    fn tell_of_health(&self) {
        if self.shared.owner.is_here() {
            self.shared.tell_of_health(self.xu);
        }
    }

    /// Says in the entry whether the request at the head has been begun and not finished.
    fn mark_running(&self, running: bool) {
        let word = &self.shared.entry.current_exec_initialized;
        // Relaxed: for those who watch. Written when it changes only: submitters look at the same line.
        if word.load(Ordering::Relaxed) != u8::from(running) {
            word.store(u8::from(running), Ordering::Relaxed);
        }
    }

    /// Where wakes are counted, each completed request takes the count that its submission has left.
    fn take_count(&self) -> io::Result<()> {
        if self.shared.policy.pairs_wakes() {
            self.shared.work.take()
        } else {
            Ok(())
        }
    }

    /// Writes the status, makes the completion visible, hands the outcome over, and tells those who wait: in this order.
    ///
    /// The lock keeps a waiter from saying so half-way between: it either sees the completion, or is seen here. What is
    /// foreign code comes after it.
    #[inline(always)]
    fn publish(&mut self, settled: Settled<E::Outcome>, ending: Ending) -> Result<(), Broken> {
        let (ring, shared) = (&mut self.ring, &self.shared);
        settled.write_status(ending.status());
        let is_stop = matches!(settled, Settled::Stop(_));
        if !is_stop && ending.is_failure() {
            shared.statistics.fail();
        }
        if ending == Ending::Skipped && matches!(settled, Settled::Execute(..)) {
            shared.statistics.skip();
        }
        let mut settled = Some(settled);
        let told = shared.under_mark_comp(|waits| {
            let seq = ring.pop()?.seq;
            Ok::<_, PeekError>(Told {
                seq,
                handed_over: settled.take().map(Settled::hand_over),
                // Nearly always nobody waits here.
                signalled: if waits.is_empty() {
                    Ok(None)
                } else {
                    waits.completed(seq)
                },
                is_armed: shared.events.is_armed(),
                is_awaited: shared.room.is_awaited(),
                is_followed: shared.followers.is_followed(),
                is_deferred: shared.staged().is_anything_deferred(),
            })
        })?;
        if let Some(handed_over) = told.handed_over {
            handed_over.wake();
        }
        if !shared.owner.is_here() {
            // A waker has forked, and this is the child: the rest is the parent's.
            return Ok(());
        }
        if told.is_armed && is_stop {
            shared.events.stopped(told.seq);
        } else if told.is_armed {
            shared.events.completed(told.seq);
        }
        if told.is_followed {
            shared.followers.reached(told.seq.cursor());
        }
        if told.is_awaited {
            shared.tell_of_room();
        }
        if told.is_deferred {
            // It was left between step 4 and now.
            shared.unstage(told.seq);
        }
        if !is_stop && ending != Ending::Skipped {
            let is_degraded = || shared.health() == Health::Degraded;
            trace::completed(told.seq, ending.status(), is_degraded, || {
                self.engine.describe()
            });
        }
        told.signalled?;
        Ok(())
    }

    /// Accounting is broken and nothing here can be trusted to pair again.
    fn broken(&mut self, seq: Option<SeqId>, text: String) -> Step {
        self.give_up(Cause {
            status: Status::FAILURE,
            seq,
            text,
        });
        Step::Idle
    }

    fn give_up(&mut self, cause: Cause) {
        self.shared.degrade(cause);
        self.abandon();
    }

    /// The unit is degraded, or closing: nothing is accepted any more.
    fn abandon(&mut self) {
        self.shared.abandon();
        if !Mutant::AbandonWithoutBarrier.is_seeded() {
            // Whoever has passed the gates has the submit lock: its request is in the ring when we get it, and is completed
            // below. Whoever comes later is refused.
            if let Some(funnel) = self.shared.entry.submit_work_lock.lock().as_deref_mut() {
                // A batch may be under way, with requests that the device knows. They are completed below.
                let _ = funnel.release_all(&self.shared);
            }
        }
        self.clear();
        // What a submitter could not release will never complete. For a failed signal, see `clear`.
        let _ = self.shared.under_mark_comp(Waits::abandon);
        self.shared.followers.wake_all();
    }

    /// Completes what is queued, so that nobody waits for it, whatever the ring says of it; and takes every work count, so
    /// that the descriptor goes quiet.
    fn clear(&mut self) {
        self.begun = false;
        self.mark_running(false);
        let ending = Ending::Status(Status::EXEC_UNIT_UNRECOVERABLE);
        while let Ok(seq) = self.ring.repair() {
            let settled = self.settle(seq, ending).ok().flatten();
            // A descriptor that cannot be signalled leaves its waiters to look for themselves: there is nothing left here
            // that could be broken.
            let _ = self.publish(settled.unwrap_or(Settled::Lost(None)), ending);
        }
        // What cannot be read was not written.
        let _ = self.shared.work.take_all();
        self.shared.tell_of_health(self.xu);
    }
}

/// A worker that goes completes what is queued, so that nobody waits for it, and leaves a unit that takes no requests.
impl<E: Engine> Drop for Parts<E> {
    fn drop(&mut self) {
        if self.shared.health() == Health::Healthy {
            self.shared.degrade(Cause {
                status: Status::FAILURE,
                seq: None,
                text: "the worker is gone".into(),
            });
        }
        self.abandon();
    }
}

/// One look at a request, which begins at its first.
fn advance<E: Engine>(
    engine: &mut E,
    request: &mut WorkItem<E::Item, E::Outcome>,
    begun: bool,
) -> Progress {
    match request {
        WorkItem::Stop(_) => match engine.quiesce() {
            Ok(()) => Progress::Done(Status::SUCCESS),
            Err(cause) => Progress::Fatal(cause),
        },
        WorkItem::Execute(item, ..) => {
            if !begun {
                engine.begin(item);
            }
            engine.progress(item)
        }
    }
}

/// What a pop has found under the lock.
struct Told<O> {
    seq: SeqId,
    handed_over: Option<HandedOver<O>>,
    /// The descriptor that was signalled, which may go back to its pool now.
    signalled: Result<Option<Arc<Lease>>, SignalError>,
    is_armed: bool,
    is_awaited: bool,
    is_followed: bool,
    is_deferred: bool,
}

/// The accounting of the unit is broken.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error(transparent)]
    Ring(#[from] PeekError),
    #[error("no signal for who waits for a request: {0}")]
    Signal(#[from] SignalError),
}

enum Look {
    InFlight,
    Finished(SeqId, Status),
    /// Its caller does not want it to run, and it has not begun.
    Skipped(SeqId),
    Fatal(SeqId, Cause),
}

/// How a request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Status(Status),
    /// It has not begun.
    Skipped,
}

impl Ending {
    #[inline(always)]
    fn status(self) -> Status {
        match self {
            Self::Status(status) => status,
            Self::Skipped => SKIPPED,
        }
    }

    /// Whether it is counted as a failure: what its caller did not want is none.
    #[inline(always)]
    fn is_failure(self) -> bool {
        matches!(self, Self::Status(status) if !status.is_success())
    }
}

/// A finished request, its resources given up, its caller not told yet.
enum Settled<O> {
    Execute(Option<Notifier<O>>, O),
    Stop(Notifier<()>),
    /// The engine failed to say how it went.
    Lost(Option<Notifier<O>>),
}

impl<O> Settled<O> {
    #[inline(always)]
    fn write_status(&self, status: Status) {
        match self {
            Self::Execute(Some(notifier), _) => notifier.write_status(status),
            Self::Lost(Some(notifier)) => notifier.write_status(if status.is_success() {
                Status::FAILURE
            } else {
                status
            }),
            Self::Stop(notifier) => notifier.write_status(status),
            Self::Execute(None, _) | Self::Lost(None) => {}
        }
    }

    /// The outcome is the caller's; nobody is woken yet. Runs no foreign code.
    #[inline(always)]
    fn hand_over(self) -> HandedOver<O> {
        match self {
            Self::Execute(Some(notifier), outcome) => HandedOver::Outcome(notifier.settle(outcome)),
            Self::Execute(None, outcome) => HandedOver::Unwanted(outcome),
            Self::Stop(notifier) => HandedOver::Stop(notifier.settle(())),
            Self::Lost(notifier) => HandedOver::Lost(notifier),
        }
    }
}

/// A request whose completion is visible: what is left to do for it is foreign code.
enum HandedOver<O> {
    Outcome(Option<Aftermath<O>>),
    /// Nobody wants it.
    Unwanted(O),
    Stop(Option<Aftermath<()>>),
    Lost(Option<Notifier<O>>),
}

impl<O> HandedOver<O> {
    #[inline(always)]
    fn wake(self) {
        match self {
            Self::Outcome(Some(aftermath)) => aftermath.run(),
            Self::Stop(Some(aftermath)) => aftermath.run(),
            Self::Unwanted(outcome) => drop_foreign(outcome),
            Self::Lost(notifier) => drop(notifier),
            Self::Outcome(None) | Self::Stop(None) => {}
        }
    }
}

impl<E: Engine> Runner for UnitRunner<E> {
    fn step(&mut self) -> Step {
        if self.parts.is_here() {
            self.parts.step()
        } else {
            Step::Idle
        }
    }

    fn give_up(&mut self, cause: Cause) {
        if self.parts.is_here() {
            self.parts.give_up(cause);
        }
    }

    fn has_work(&mut self) -> bool {
        // A corrupt ring has something to say, too, but only once.
        self.parts.is_here()
            && !self.parts.shared.is_abandoned()
            && !matches!(self.parts.ring.peek(), Err(PeekError::Empty))
    }

    fn announce_sleep(&self) {
        self.parts.shared.need_wake.announce_sleep();
    }

    fn stay_awake(&self) {
        self.parts.shared.need_wake.stay_awake();
    }

    fn bell(&self) -> &WorkCount {
        &self.parts.shared.work
    }

    fn answer_bell(&mut self) {
        if self.parts.is_here() {
            // Without a ring there is nothing to answer: another look took it.
            let _ = self.parts.shared.work.take();
        }
    }

    fn is_here(&self) -> bool {
        self.parts.is_here()
    }

    fn policy(&self) -> PollPolicy {
        self.parts.shared.policy
    }
}

impl<E: Engine> fmt::Debug for UnitRunner<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnitRunner")
            .field("xu", &self.parts.xu)
            .finish_non_exhaustive()
    }
}

fn panicked(payload: Box<dyn core::any::Any + Send>) -> Cause {
    let text = payload
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without a message".into());
    discard(payload);
    Cause {
        status: Status::FAILURE,
        seq: None,
        text: format!("the engine panicked: {text}"),
    }
}
