//! Requests that are prepared: everything is checked and owned, and nothing is scheduled.
//!
//! Made by [`TensorOpQueue::prepare`](crate::TensorOpQueue::prepare) and
//! [`ComputeQueue::prepare`](crate::ComputeQueue::prepare). What can be wrong with the arguments has been said by then; what is
//! left is whether the queue takes the request, and a queue that is full hands it back as it is: nothing is checked or made
//! a second time. The queues' own calls (`write`, `execute`) are preparing and scheduling in one.
//!
//! ```text
//!  prepare().write(..) ──> Request ──> schedule            now, or refused
//!                                 ├──> schedule_when_room  waits for a place
//!                                 ├──> Place::schedule     in a place that was reserved: never full
//!                                 ├──> Batch::schedule     published with others
//!                                 └──> schedule_all        one lock, published once
//! ```
//!
//! Spec: `c-api.md` section 15.4.

use crate::compute::{Ended, Run};
use crate::error::{Refused, ScheduleError};
use crate::failure::Failure;
use crate::logical_core::Core;
use crate::payload::Payload;
use crate::pending::{Outcome, Pending, Returned};
use crate::tensor_op::Transfer;
use core::fmt;
use core::marker::PhantomData;
use xu_abi::{Status, XuId};
use xu_worker::Accepted;

/// A request that is checked, owns all it needs, and is not scheduled. `T` is what it will give back.
///
/// It takes no room in a queue. Freeing its tensors or unloading its model changes nothing for it any more, as for a request
/// that is accepted. Any queue of its kind and of its core takes it: one that was prepared by one of a core's two tensor-op
/// queues may be scheduled on the other. Dropping it is no loss to anybody.
///
/// ```
/// # use nrta::Runtime;
/// # let runtime = Runtime::builder().open()?;
/// # let core = runtime.core(0)?;
/// let (moves, tensor) = (core.tensor_op(0)?, core.allocate(4)?);
/// let mut request = moves.prepare().write(&tensor, 0, vec![1, 2, 3, 4])?;
/// let pending = loop {
///     match moves.schedule(request) {
///         Ok(pending) => break pending,
///         // A full queue hands the request back; others are errors.
///         Err(refused) => request = refused.into_retry()?,
///     }
///     moves.wait_room();
/// };
/// assert_eq!(pending.wait()?, [1, 2, 3, 4]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "it is not scheduled"]
pub struct Request<T: Returned> {
    home: Home,
    item: Item<T>,
    returned: PhantomData<fn() -> T>,
}

/// What a request is to the unit that performs it.
pub(crate) type Item<T> = <<T as Returned>::Raw as Scheduled>::Item;

/// What engines hand over, and the requests for which they do.
pub(crate) trait Scheduled: Send + Sized + 'static {
    /// The request, as the unit of the queue takes it.
    type Item: Send + fmt::Debug;
}

impl Scheduled for Payload {
    type Item = Transfer;
}

impl Scheduled for Ended {
    type Item = Run;
}

/// Where a request may be scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Home {
    /// [`Inner::number`](crate::runtime::Inner::number).
    runtime: u64,
    core: u32,
}

impl Home {
    pub(crate) fn of(core: &Core) -> Self {
        Self {
            runtime: core.runtime().number(),
            core: core.index(),
        }
    }

    fn check(self, core: &Core) -> Result<(), ScheduleError> {
        let (what, queue) = ("request", Self::of(core));
        if self.runtime != queue.runtime {
            return Err(ScheduleError::WrongRuntime { what });
        }
        if self.core != queue.core {
            return Err(ScheduleError::WrongCore {
                what,
                on: self.core,
                queue: queue.core,
            });
        }
        Ok(())
    }
}

impl<T: Returned> Request<T> {
    pub(crate) fn new(home: Home, item: Item<T>) -> Self {
        Self {
            home,
            item,
            returned: PhantomData,
        }
    }

    /// The logical core for whose queues it was prepared.
    #[must_use]
    pub fn core(&self) -> u32 {
        self.home.core
    }

    /// Whether a queue `xu` of `core` may take it.
    pub(crate) fn check(&self, core: &Core, xu: XuId) -> Result<(), ScheduleError> {
        core.check_state(xu)?;
        self.home.check(core)
    }

    pub(crate) fn into_item(self) -> Item<T> {
        self.item
    }

    /// Schedules it with `submit`, on a queue `xu` of `core`: the one way for every kind of queue, place and batch.
    pub(crate) fn schedule(
        self,
        core: &Core,
        xu: XuId,
        submit: impl FnOnce(Item<T>) -> Result<Accepted<Outcome<T::Raw>>, xu_worker::Refused<Item<T>>>,
    ) -> Result<Pending<T>, Refused<Self>> {
        match self.check(core, xu) {
            Ok(()) => self.hand_over(submit),
            Err(reason) => Err(Refused::new(reason, self)),
        }
    }

    /// As [`Request::schedule`], once it is checked.
    pub(crate) fn hand_over(
        self,
        submit: impl FnOnce(Item<T>) -> Result<Accepted<Outcome<T::Raw>>, xu_worker::Refused<Item<T>>>,
    ) -> Result<Pending<T>, Refused<Self>> {
        let home = self.home;
        submit(self.item)
            .map(Pending::new)
            .map_err(|refused| Refused {
                reason: refused.reason.into(),
                args: refused.item.map(|item| Self::new(home, item)),
            })
    }
}

impl<T: Returned<Raw = Payload>> Request<T> {
    /// Gives it up, and gives back the buffer that it owns.
    #[must_use]
    pub fn into_buffer(self) -> Option<T> {
        T::from_raw(self.item.into_payload())
    }
}

impl<T: Returned> fmt::Debug for Request<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("core", &self.home.core)
            .finish_non_exhaustive()
    }
}

/// Some requests of a batch were accepted, or none; then one was refused.
pub struct RefusedBatch<T: Returned> {
    /// Those that were accepted, in order: they stay accepted.
    pub accepted: Vec<Pending<T>>,
    /// Why the next one was not.
    pub reason: ScheduleError,
    /// That one, unless the device may hold it ([`Refusal::Commit`](crate::Refusal::Commit)), and those behind it.
    pub rest: Vec<Request<T>>,
}

impl<T: Returned> RefusedBatch<T> {
    /// Whether the queue was full: wait for room and schedule the rest.
    #[must_use]
    pub fn is_queue_full(&self) -> bool {
        self.reason.is_queue_full()
    }

    /// What kind of failure it is, and what to do about it.
    #[must_use]
    pub fn failure(&self) -> Failure {
        self.reason.failure()
    }

    /// The status that the C ABI reports for this refusal.
    #[must_use]
    pub fn status(&self) -> Status {
        self.reason.status()
    }
}

impl<T: Returned> fmt::Debug for RefusedBatch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RefusedBatch")
            .field("accepted", &self.accepted.len())
            .field("reason", &self.reason)
            .field("rest", &self.rest.len())
            .finish()
    }
}

impl<T: Returned> fmt::Display for RefusedBatch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let accepted = self.accepted.len();
        write!(f, "{} (after {accepted} requests)", self.reason)
    }
}

impl<T: Returned> std::error::Error for RefusedBatch<T> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.reason)
    }
}
