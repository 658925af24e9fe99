//! A queue of any kind, had by its id: for monitoring, event loops and the C ABI, which know queues by numbers.
//!
//! Made by [`Runtime::queue`] and [`Runtime::queues`]. It can be asked and waited
//! for as the queues of a [`Core`] can; what schedules is their own. Spec: `c-api.md` sections 6.4 and 6.5.

use crate::collectives::CollectivesQueue;
use crate::completions::Completions;
use crate::compute::ComputeQueue;
use crate::error::Error;
use crate::events::{EventError, Subscription};
use crate::logical_core::Core;
use crate::runtime::Runtime;
use crate::tensor_op::TensorOpQueue;
use crate::wait::{WaitError, WaitFor};
use crate::watch::HealthWatch;
use std::os::fd::AsFd;
use std::time::Instant;
use xu_abi::{SeqId, XuId, XuType};
use xu_ring::queue::NeverIssued;
use xu_worker::{Cause, Health, QueueSnapshot, Registered};

/// A queue of any kind.
///
/// ```
/// use nrta::{Runtime, XuType};
///
/// let runtime = Runtime::builder().open()?;
/// let core = runtime.core(0)?;
/// let tensor = core.allocate(4)?;
/// core.tensor_op(1)?.write(&tensor, 0, vec![0; 4])?.wait()?;
///
/// // A program that has nothing but numbers.
/// let last = runtime.last_completed(0, XuType::TensorOp, 1)?;
/// assert_eq!(last.cursor().get(), 1);
/// assert!(runtime.queue(last.xu())?.is_completed(last)?);
/// for queue in runtime.queues() {
///     println!("{}: {} in flight", queue.xu(), queue.depth());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AnyQueue {
    /// A core's queue of executions.
    Compute(ComputeQueue),
    /// One of a core's queues that move tensors.
    TensorOp(TensorOpQueue),
    /// A core's queue of collectives.
    Collectives(CollectivesQueue),
}

/// Passes each method on to the queue's own.
macro_rules! pass_on {
    ($($(#[$doc:meta])* fn $name:ident(&self $(, $argument:ident: $type:ty)*) $(-> $result:ty)?;)*) => {
        impl AnyQueue {
            $(
                $(#[$doc])*
                pub fn $name(&self $(, $argument: $type)*) $(-> $result)? {
                    match self {
                        Self::Compute(queue) => queue.$name($($argument),*),
                        Self::TensorOp(queue) => queue.$name($($argument),*),
                        Self::Collectives(queue) => queue.$name($($argument),*),
                    }
                }
            )*
        }
    };
}

pass_on! {
    /// The queue's id.
    #[must_use]
    fn xu(&self) -> XuId;
    /// Requests that are accepted and not complete.
    #[must_use]
    fn depth(&self) -> u64;
    /// Most requests that may be accepted and not complete.
    #[must_use]
    fn limit(&self) -> u64;
    /// Whether it takes work.
    #[must_use]
    fn health(&self) -> Health;
    /// The first fatal error, once it is degraded.
    #[must_use]
    fn cause(&self) -> Option<Cause>;
    /// The most recently accepted request; number 0 when there is none.
    #[must_use]
    fn last_issued(&self) -> SeqId;
    /// The most recently completed request; number 0 when there is none.
    #[must_use]
    fn last_completed(&self) -> SeqId;
    /// Whether a request of this queue is complete.
    ///
    /// # Errors
    /// [`NeverIssued`].
    fn is_completed(&self, seq: SeqId) -> Result<bool, NeverIssued>;
    /// As [`ComputeQueue::wait`].
    ///
    /// # Errors
    /// [`WaitError`].
    fn wait(&self, seq: SeqId, deadline: Option<Instant>) -> Result<(), WaitError>;
    /// As [`ComputeQueue::wait_for`].
    fn wait_for(&self, seq: SeqId) -> WaitFor;
    /// As [`ComputeQueue::completions`].
    fn completions(&self) -> Completions;
    /// As [`ComputeQueue::watch`].
    fn watch(&self) -> HealthWatch;
    /// As [`ComputeQueue::notify`].
    ///
    /// # Errors
    /// [`EventError`].
    fn notify(&self, seq: SeqId, fd: impl AsFd) -> Result<Registered, EventError>;
    /// As [`ComputeQueue::stop_notify`].
    ///
    /// # Errors
    /// [`EventError`].
    fn stop_notify(&self, seq: SeqId) -> Result<bool, EventError>;
    /// As [`ComputeQueue::notify_each`].
    ///
    /// # Errors
    /// [`EventError`].
    fn notify_each(&self, fd: impl AsFd) -> Result<(), EventError>;
    /// As [`ComputeQueue::stop_notify_each`].
    ///
    /// # Errors
    /// [`EventError`].
    fn stop_notify_each(&self) -> Result<bool, EventError>;
    /// As [`ComputeQueue::subscribe`].
    ///
    /// # Errors
    /// [`EventError`].
    fn subscribe(&self, seq: SeqId, fd: impl AsFd) -> Result<Subscription, EventError>;
    /// As [`ComputeQueue::subscribe_each`].
    ///
    /// # Errors
    /// [`EventError`].
    fn subscribe_each(&self, fd: impl AsFd) -> Result<Subscription, EventError>;
    /// As [`ComputeQueue::lost_notifications`].
    #[must_use]
    fn lost_notifications(&self) -> u64;
    /// As [`ComputeQueue::snapshot`].
    #[must_use]
    fn snapshot(&self) -> QueueSnapshot;
    /// As [`ComputeQueue::measure`].
    fn measure(&self, on: bool);
}

impl Runtime {
    /// The queue of this id, such as [`SeqId::xu`] names it.
    ///
    /// # Errors
    /// [`Error::NoSuchXu`] for an id that no queue of any runtime has, [`Error::NoSuchCore`].
    pub fn queue(&self, xu: XuId) -> Result<AnyQueue, Error> {
        let xu = XuId::checked(xu.raw())?;
        let core = self.core(xu.vnc().into())?;
        // An id that has been checked has a type.
        let kind = xu.xu_type().unwrap_or(XuType::Compute);
        of_kind(&core, kind, xu.queue())
    }

    /// All queues of all cores.
    pub fn queues(&self) -> impl Iterator<Item = AnyQueue> + '_ {
        let of_core = |core: Core| {
            XuType::ALL.into_iter().flat_map(move |kind| {
                let core = core.clone();
                (0..kind.queues()).filter_map(move |queue| of_kind(&core, kind, queue).ok())
            })
        };
        (0..self.cores())
            .filter_map(|core| self.core(core).ok())
            .flat_map(of_core)
    }

    /// The most recently completed request of a queue; number 0 when there is none.
    ///
    /// # Errors
    /// As [`Runtime::queue`].
    pub fn last_completed(&self, core: u32, kind: XuType, queue: u8) -> Result<SeqId, Error> {
        Ok(of_kind(&self.core(core)?, kind, queue)?.last_completed())
    }

    /// Whether the request of a sequence is complete, whichever queue it is of.
    ///
    /// # Errors
    /// As [`Runtime::queue`]; [`Error::NeverIssued`].
    pub fn is_completed(&self, seq: SeqId) -> Result<bool, Error> {
        Ok(self.queue(seq.xu())?.is_completed(seq)?)
    }
}

fn of_kind(core: &Core, kind: XuType, queue: u8) -> Result<AnyQueue, Error> {
    let queues = kind.queues();
    if queue >= queues {
        return Err(Error::NoSuchQueue {
            kind,
            queue,
            queues,
        });
    }
    Ok(match kind {
        XuType::Compute => AnyQueue::Compute(core.compute()),
        XuType::TensorOp => AnyQueue::TensorOp(core.tensor_op(queue)?),
        XuType::Collectives => AnyQueue::Collectives(core.collectives()),
    })
}
