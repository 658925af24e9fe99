//! A queue of any kind, for what is the same for all of them: events, streams, waits, the health.
//!
//! What an application keeps beside a queue ([`Subscription`](crate::Subscription),
//! [`Completions`](crate::Completions), [`HealthWatch`](crate::HealthWatch)) holds a [`Lane`], so that it has one type for
//! all queues and lives as long as it likes. A lane is a handle like any other: it does not keep the runtime open.

use core::task::{Context, Poll};
use std::sync::Arc;
use xu_abi::{Cursor, SeqId, XuId};
use xu_worker::{
    AppEvent, AskError, Cause, EventId, Follower, Health, Registered, Stage, Unit, Waited,
};

/// A handle to a queue.
pub(crate) type Lane = Arc<dyn Queue>;

/// Something that has a unit. Every queue is one; `queue_methods!` says so.
pub(crate) trait Queue: Send + Sync {
    fn any_unit(&self) -> &dyn AnyUnit;
}

/// Declares the trait, and passes each method on to the unit's own.
macro_rules! any_unit {
    ($(fn $name:ident(&self $(, $argument:ident: $type:ty)*) $(-> $result:ty)?;)*) => {
        /// A unit, whatever it does with a request. The methods are those of [`Unit`].
        pub(crate) trait AnyUnit {
            $(fn $name(&self $(, $argument: $type)*) $(-> $result)?;)*
        }

        impl<S: Stage> AnyUnit for Unit<S> {
            $(fn $name(&self $(, $argument: $type)*) $(-> $result)? {
                Self::$name(self $(, $argument)*)
            })*
        }
    };
}

any_unit! {
    fn xu(&self) -> XuId;
    fn cause(&self) -> Option<Cause>;
    fn newest_request(&self) -> SeqId;
    fn register_event(&self, seq: SeqId, event: AppEvent) -> Result<Registered, AskError>;
    fn register_unit_event(&self, event: AppEvent) -> Result<(), AskError>;
    fn deregister_this_event(&self, seq: SeqId, event: EventId) -> Result<bool, AskError>;
    fn deregister_this_unit_event(&self, event: EventId) -> Result<bool, AskError>;
    fn poll_completed(&self, seq: SeqId, follower: &mut Follower, cx: &Context<'_>) -> Poll<Result<Waited, AskError>>;
    fn poll_newer(&self, after: Cursor, follower: &mut Follower, cx: &Context<'_>) -> Poll<Option<SeqId>>;
    fn poll_health(&self, seen: Health, follower: &mut Follower, cx: &Context<'_>) -> Poll<Option<Health>>;
    fn unfollow(&self, follower: &mut Follower);
    fn unfollow_health(&self, follower: &mut Follower);
}
