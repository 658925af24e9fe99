//! Many requests at once: the worker is told once.
//!
//! Scheduling wakes a worker that sleeps, which costs more than all the rest; and a worker that is awake begins with the first
//! request while the others are still being prepared. Where that is not wanted, there are two ways:
//!
//! * `schedule_all` takes requests that give back the same kind of thing. They are scheduled under one lock, so nobody's
//!   requests come between, and their sequences follow one another.
//! * `batch` begins a [`Batch`], which takes requests one by one, whatever they give back, and allocates nothing.
//!
//! A queue that fills half way has accepted what it has accepted; the rest comes back.
//!
//! Requests of a queue complete in order, so waiting for the last sequence is waiting for the whole batch:
//!
//! ```
//! # use nrta::{Request, Runtime};
//! # let runtime = Runtime::builder().open()?;
//! # let core = runtime.core(0)?;
//! let (moves, tensor) = (core.tensor_op(0)?, core.allocate(64)?);
//!
//! // Of one kind.
//! let write = |row: u64| moves.prepare().write(&tensor, row * 16, vec![row as u8; 16]);
//! let rows: Vec<Request<Vec<u8>>> = (0..4).map(write).collect::<Result<_, _>>()?;
//! let pending = moves.schedule_all(rows)?;
//! let last = pending[3].seq();
//! moves.wait(last, None)?; // or moves.wait_for(last).await
//! assert!(pending.iter().all(|row| row.is_done()));
//!
//! // Of several kinds. No move runs before it is published.
//! let mut batch = moves.batch();
//! batch.schedule(moves.prepare().memset(&tensor, 0, 64, 7)?)?.detach();
//! let bytes = batch.schedule(moves.prepare().read(&tensor, 0, vec![0; 64])?)?;
//! if let Some(last) = batch.publish() {
//!     moves.wait(last, None)?;
//! }
//! assert_eq!(bytes.wait()?, [7; 64]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::error::Refused;
use crate::pending::{Outcome, Pending, Returned};
use crate::request::{Home, Item, RefusedBatch, Request};
use crate::reserve::QueueKind;
use core::fmt;
use std::collections::VecDeque;
use xu_abi::SeqId;
use xu_worker::{Refusal, Stage};

/// Requests that are accepted, and that complete when this is published or dropped, at the soonest.
///
/// Do not wait for one of them before that, nor for room when they have filled the queue: publish, then wait. Others may
/// schedule meanwhile, and then what is in the batch before theirs runs sooner; when the runtime closes, all of it does.
///
/// What is held back is the worker. Moves begin when it comes to them. An execution is with the device from the moment when
/// the batch takes it, and may run at once: write its inputs before.
#[must_use = "it is published when it is dropped"]
#[expect(
    private_bounds,
    reason = "what a queue is made of is nobody's business"
)]
pub struct Batch<'q, Q: QueueKind> {
    queue: &'q Q,
    inner: xu_worker::Batch<'q, Q::Stage>,
}

#[expect(private_bounds, reason = "as for the type")]
impl<'q, Q: QueueKind> Batch<'q, Q> {
    pub(crate) fn new(queue: &'q Q) -> Self {
        Self {
            queue,
            inner: queue.kind_unit().batch(),
        }
    }

    /// How many requests it has accepted.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.inner.len()
    }

    /// Whether it has accepted none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }

    /// The last request that it has accepted: when it is complete, so are the others.
    #[must_use]
    pub fn last(&self) -> Option<SeqId> {
        self.inner.last()
    }

    /// Lets the worker see the requests. Returns the last one.
    pub fn publish(self) -> Option<SeqId> {
        self.inner.publish()
    }

    pub(crate) fn add<T>(&mut self, request: Request<T>) -> Result<Pending<T>, Refused<Request<T>>>
    where
        T: Returned,
        Q::Stage: Stage<Item = Item<T>, Outcome = Outcome<T::Raw>>,
    {
        let (home, xu) = (self.queue.home(), self.queue.kind_unit().xu());
        let scheduled = request.schedule(home, xu, |item| self.inner.submit(item));
        counted(self.queue, scheduled)
    }
}

/// Counts a refusal of a full queue.
pub(crate) fn counted<Q: QueueKind, R, A>(
    queue: &Q,
    scheduled: Result<R, Refused<A>>,
) -> Result<R, Refused<A>> {
    if let Err(refused) = &scheduled
        && refused.is_queue_full()
    {
        queue.count_full();
    }
    scheduled
}

/// Schedules requests under one lock.
pub(crate) fn schedule_all<Q, T>(
    queue: &Q,
    requests: Vec<Request<T>>,
) -> Result<Vec<Pending<T>>, RefusedBatch<T>>
where
    Q: QueueKind,
    T: Returned,
    Q::Stage: Stage<Item = Item<T>, Outcome = Outcome<T::Raw>>,
{
    let (core, unit) = (queue.home(), queue.kind_unit());
    let check = |request: &Request<T>| request.check(core, unit.xu()).err();
    if let Some(reason) = requests.iter().find_map(check) {
        // One that does not belong here is a mistake of the caller's: nothing has happened yet.
        return Err(RefusedBatch {
            accepted: Vec::new(),
            reason,
            rest: requests,
        });
    }
    let mut items: VecDeque<Item<T>> = requests.into_iter().map(Request::into_item).collect();
    let mut accepted = Vec::new();
    let submitted = unit.submit_batch(&mut items, &mut accepted);
    let accepted = accepted.into_iter().map(Pending::new).collect();
    let Err(reason) = submitted else {
        return Ok(accepted);
    };
    if matches!(reason, Refusal::QueueFull { .. }) {
        queue.count_full();
    }
    let home = Home::of(core);
    let rest = items.into_iter().map(|item| Request::new(home, item));
    Err(RefusedBatch {
        accepted,
        reason: reason.into(),
        rest: rest.collect(),
    })
}

impl<Q: QueueKind> fmt::Debug for Batch<'_, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
