//! An execution unit as its worker sees it: one step at a time, never blocking.
//!
//! Driven by [`WorkerThread`](crate::WorkerThread). Spec `xu.md` section 4, step:
//!
//! ```text
//!  peek -> begin once -> progress -> (Continue: return)
//!       -> finish: free what the request held
//!       -> take one work count -> write the status -> pop -> notify
//! ```
//!
//! An engine that panics degrades its unit; its queued requests complete with an error.

use crate::completion::Notifier;
use crate::engine::{Engine, Progress};
use crate::health::{Cause, Health};
use crate::unit::{Request, Shared};
use crate::wake::discard;
use core::fmt;
use core::sync::atomic::Ordering;
use std::os::fd::{AsFd, BorrowedFd};
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

    /// Readable while a request is accepted and not complete.
    fn work(&self) -> BorrowedFd<'_>;
}

/// The worker's half of a unit. Made by [`Unit::new`](crate::Unit::new).
pub struct UnitRunner<E: Engine> {
    xu: XuId,
    engine: E,
    ring: Worker<Request<E::Item>>,
    shared: Arc<Shared>,
    /// Whether the request at the head has begun.
    begun: bool,
}

impl<E: Engine> UnitRunner<E> {
    pub(crate) fn new(
        xu: XuId,
        engine: E,
        ring: Worker<Request<E::Item>>,
        shared: Arc<Shared>,
    ) -> Self {
        Self {
            xu,
            engine,
            ring,
            shared,
            begun: false,
        }
    }

    fn look(&mut self) -> Result<Look, PeekError> {
        let degraded = self.shared.health.get() == Health::Degraded;
        let mut current = self.ring.peek()?;
        let seq = current.seq();
        let Some(request) = current.item() else {
            return Ok(Look::Finished(seq, Status::FAILURE));
        };
        if degraded {
            return Ok(Look::Finished(seq, Status::EXEC_UNIT_UNRECOVERABLE));
        }
        let engine = &mut self.engine;
        let begun = core::mem::replace(&mut self.begun, true);
        let progress = catch_unwind(AssertUnwindSafe(|| match request {
            Request::Stop(_) => match engine.quiesce() {
                Ok(()) => Progress::Done(Status::SUCCESS),
                Err(cause) => Progress::Fatal(cause),
            },
            Request::Execute(item) => {
                if !begun {
                    engine.begin(item);
                }
                engine.progress(item)
            }
        }));
        Ok(match progress {
            Ok(Progress::Continue) => Look::InFlight,
            Ok(Progress::Done(status)) => Look::Finished(seq, status),
            Ok(Progress::Fatal(cause)) => Look::Fatal(seq, cause),
            Err(panic) => Look::Fatal(seq, panicked(panic)),
        })
    }

    /// Steps 5 and 6: the consumer frees, then the completion becomes visible, then the caller is told.
    ///
    /// Whatever turns out to be broken on the way, this request completes in good order first.
    fn complete(&mut self, seq: SeqId, status: Status) -> Step {
        self.begun = false;
        let request = match self.ring.take() {
            Ok(Some(request)) => request,
            Ok(None) => return self.broken(seq, "the slot at the head holds no request".into()),
            Err(error) => return self.broken(seq, error.to_string()),
        };
        let settled = self.settle(*request, seq, status);
        let counted = self.shared.work.take();
        settled.write_status(status);
        let popped = self.pop();
        self.shared.room.released();
        settled.notify(status);
        if let Err(error) = counted {
            return self.broken(
                seq,
                format!("no work count for a completed request: {error}"),
            );
        }
        match popped {
            Ok(()) => Step::Completed,
            Err(error) => self.broken(seq, error.to_string()),
        }
    }

    /// Lets the engine give up what the request held.
    fn settle(
        &mut self,
        request: Request<E::Item>,
        seq: SeqId,
        status: Status,
    ) -> Settled<E::Outcome> {
        let item = match request {
            Request::Stop(notifier) => return Settled::Stop(notifier),
            Request::Execute(item) => item,
        };
        let engine = &mut self.engine;
        match catch_unwind(AssertUnwindSafe(|| engine.finish(item, status))) {
            Ok((notifier, outcome)) => Settled::Execute(notifier, outcome),
            Err(panic) => {
                self.shared.health.degrade(Cause {
                    seq: Some(seq),
                    ..panicked(panic)
                });
                Settled::Nothing
            }
        }
    }

    /// Makes the completion visible. The lock keeps a waiter's descriptor from being installed half-way;
    /// units install none yet, so there is nothing to signal.
    fn pop(&mut self) -> Result<(), PeekError> {
        let _mark_comp = self.shared.mark_comp.lock();
        self.ring.pop().map(drop)
    }

    /// Accounting is broken and nothing here can be trusted to pair again.
    fn broken(&mut self, seq: SeqId, text: String) -> Step {
        self.give_up(Cause {
            status: Status::FAILURE,
            seq: Some(seq),
            text,
        });
        Step::Idle
    }

    /// Completes what is queued, so that nobody waits for it, and takes every work count, so that the
    /// descriptor goes quiet. A ring that is corrupt keeps the rest until it is dropped.
    fn clear(&mut self) {
        self.begun = false;
        let status = Status::EXEC_UNIT_UNRECOVERABLE;
        while let Ok(current) = self.ring.peek() {
            let seq = current.seq();
            let settled = match self.ring.take() {
                Ok(Some(request)) => self.settle(*request, seq, status),
                Ok(None) | Err(_) => Settled::Nothing,
            };
            settled.write_status(status);
            let popped = self.pop();
            settled.notify(status);
            if popped.is_err() {
                break;
            }
        }
        while self.shared.work.take().is_ok() {}
        self.shared.room.released();
    }
}

enum Look {
    InFlight,
    Finished(SeqId, Status),
    Fatal(SeqId, Cause),
}

/// A finished request, its resources given up, its caller not told yet.
enum Settled<O> {
    Execute(Notifier<O>, O),
    Stop(Notifier<Status>),
    Nothing,
}

impl<O> Settled<O> {
    fn write_status(&self, status: Status) {
        match self {
            Self::Execute(notifier, _) => notifier.write_status(status),
            Self::Stop(notifier) => notifier.write_status(status),
            Self::Nothing => {}
        }
    }

    fn notify(self, status: Status) {
        match self {
            Self::Execute(notifier, outcome) => notifier.notify(outcome),
            Self::Stop(notifier) => notifier.notify(status),
            Self::Nothing => {}
        }
    }
}

impl<E: Engine> Runner for UnitRunner<E> {
    fn step(&mut self) -> Step {
        // Relaxed: set by this thread.
        if self.shared.abandoned.load(Ordering::Relaxed) {
            // A submit that passed the gates just before the unit was given up.
            self.clear();
            return Step::Idle;
        }
        match self.look() {
            Err(PeekError::Empty) => Step::Idle,
            Err(corrupt) => {
                let text = corrupt.to_string();
                self.give_up(Cause {
                    status: Status::FAILURE,
                    seq: None,
                    text,
                });
                Step::Idle
            }
            Ok(Look::InFlight) => Step::InFlight,
            Ok(Look::Finished(seq, status)) => self.complete(seq, status),
            Ok(Look::Fatal(seq, cause)) => {
                let status = cause.status;
                // Degraded before the completion is visible: whoever sees the status also sees the health.
                self.shared.health.degrade(Cause {
                    seq: Some(seq),
                    ..cause
                });
                self.complete(seq, status)
            }
        }
    }

    fn give_up(&mut self, cause: Cause) {
        self.shared.health.degrade(cause);
        // PAIRS: with the acquire load in `Unit::is_drained`.
        self.shared.abandoned.store(true, Ordering::Release);
        self.clear();
    }

    fn work(&self) -> BorrowedFd<'_> {
        self.shared.work.as_fd()
    }
}

impl<E: Engine> fmt::Debug for UnitRunner<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnitRunner")
            .field("xu", &self.xu)
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
