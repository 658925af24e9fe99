//! Places in a queue that are reserved now and used later: back-pressure before the work, not after it.
//!
//! A service that reads a request from a socket before it knows whether the device has room must keep it somewhere. With a
//! [`Place`] it asks first: `reserve().await`, then read, prepare, and schedule, which cannot find the queue full.
//!
//! A place takes the room of a request for everybody else, until it is used or dropped. A place that is given back wakes one who
//! waits for room, as a completion does. It holds up neither closing nor draining; a queue that closes or degrades refuses
//! what has a place, too. Who waits is served in no particular order. In a forked child a place is worth nothing.
//! Failure kind F5.
//!
//! ```
//! # use nrta::{Runtime, ScheduleError};
//! # use futures::executor::block_on;
//! # let runtime = Runtime::builder().open()?;
//! # let core = runtime.core(0)?;
//! let (moves, tensor) = (core.tensor_op(0)?, core.allocate(4)?);
//! block_on(async {
//!     let place = moves.reserve().await?; // waits while the queue is full
//!     let bytes = vec![1, 2, 3, 4]; // from a socket, say
//!     let write = moves.prepare().write(&tensor, 0, bytes)?;
//!     place.schedule(write)?.await?; // never "full"
//!     Ok::<(), Box<dyn std::error::Error>>(())
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::collectives::{CollectivesQueue, CollectivesStage};
use crate::compute::{ComputeQueue, ComputeStage};
use crate::error::ScheduleError;
use crate::logical_core::Core;
use crate::tensor_op::{TensorOpQueue, TransferStage};
use core::fmt;
use std::time::Instant;
use xu_abi::XuId;
use xu_worker::{Refusal, Reservation, ReserveFuture, Stage, Unit, UnitHandle};

/// What kind of queue it is: what its unit does with a request.
pub(crate) trait QueueKind: Clone + 'static {
    type Stage: Stage;

    fn kind_unit(&self) -> &Unit<Self::Stage>;

    fn home(&self) -> &Core;

    /// A request was refused because the queue is full.
    fn count_full(&self) {}
}

impl QueueKind for TensorOpQueue {
    type Stage = TransferStage;

    fn kind_unit(&self) -> &Unit<TransferStage> {
        self.unit()
    }

    fn home(&self) -> &Core {
        &self.core
    }
}

impl QueueKind for ComputeQueue {
    type Stage = ComputeStage;

    fn kind_unit(&self) -> &Unit<ComputeStage> {
        self.unit()
    }

    fn home(&self) -> &Core {
        &self.core
    }

    fn count_full(&self) {
        self.core.runtime().count_queue_full(self.core.index());
    }
}

impl QueueKind for CollectivesQueue {
    type Stage = CollectivesStage;

    fn kind_unit(&self) -> &Unit<CollectivesStage> {
        self.unit()
    }

    fn home(&self) -> &Core {
        &self.core
    }
}

/// A queue, as a reservation of its unit keeps it.
pub(crate) struct Handle<Q>(Q);

impl<Q: QueueKind> UnitHandle for Handle<Q> {
    type Stage = Q::Stage;

    fn unit(&self) -> &Unit<Q::Stage> {
        self.0.kind_unit()
    }
}

/// A place in a queue that nobody else gets. Dropping it gives it back.
///
/// Made by `reserve`, `reserve_until` and `try_reserve` of every queue `Q`. It is a handle like any other: it can go to another
/// task or thread, and does not keep the runtime open.
#[must_use = "dropping it gives the place back"]
#[expect(
    private_bounds,
    reason = "what a queue is made of is nobody's business"
)]
pub struct Place<Q: QueueKind> {
    reservation: Reservation<Handle<Q>>,
}

#[expect(private_bounds, reason = "as for the type")]
impl<Q: QueueKind> Place<Q> {
    /// The queue that it is in.
    #[must_use]
    pub fn queue(&self) -> &Q {
        &self.reservation.handle().0
    }

    /// The id of that queue.
    #[must_use]
    pub fn xu(&self) -> XuId {
        self.queue().kind_unit().xu()
    }

    pub(crate) fn now(queue: &Q) -> Result<Self, ScheduleError> {
        Self::of(Reservation::try_new(Handle(queue.clone())))
    }

    pub(crate) fn until(queue: &Q, deadline: Option<Instant>) -> Result<Self, ScheduleError> {
        Self::of(Reservation::wait(Handle(queue.clone()), deadline))
    }

    pub(crate) fn when_room(
        queue: &Q,
    ) -> impl Future<Output = Result<Self, ScheduleError>> + use<Q> {
        let reserving = ReserveFuture::new(Handle(queue.clone()));
        async move { Self::of(reserving.await) }
    }

    pub(crate) fn into_reservation(self) -> Reservation<Handle<Q>> {
        self.reservation
    }

    fn of(reserved: Result<Reservation<Handle<Q>>, Refusal>) -> Result<Self, ScheduleError> {
        Ok(Self {
            reservation: reserved?,
        })
    }
}

impl<Q: QueueKind> fmt::Debug for Place<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place")
            .field("xu", &self.xu())
            .finish_non_exhaustive()
    }
}
