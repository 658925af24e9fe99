//! Watch the health of a queue: be told when it closes, or degrades and why.
//!
//! Made by `watch` of every queue. Spec: `c-api.md` section 5.7.

use crate::blocking::Blocking;
use crate::lane::Lane;
use core::fmt;
use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll};
use futures_core::Stream;
use xu_worker::{Cause, Follower, Health};

/// The health of a queue from some moment on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthChange {
    /// What it is now.
    pub health: Health,
    /// The first fatal error, when it is degraded.
    pub cause: Option<Cause>,
}

/// The changes of one queue's health, as a stream.
///
/// Health only ever gets worse: healthy, closing, degraded. Changes that follow each other before anybody asks are seen as
/// one, the last of them, which is never missed. Degraded is the last item; of a queue that stays well the last item is
/// closing, and the stream ends when the runtime is closed.
///
/// ```
/// use nrta::{Health, Runtime};
///
/// # futures::executor::block_on(async {
/// let runtime = Runtime::builder().open()?;
/// let mut watch = runtime.core(0)?.compute().watch();
/// assert_eq!(watch.seen(), Health::Healthy);
/// runtime.close();
/// assert_eq!(watch.changed().await.map(|change| change.health), Some(Health::Closing));
/// assert_eq!(watch.changed().await, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[must_use = "a watch does nothing until it is asked"]
pub struct HealthWatch {
    lane: Lane,
    /// What was said last.
    seen: Health,
    follower: Follower,
}

impl HealthWatch {
    /// Counts from healthy, so that a queue which is not is told of at once.
    pub(crate) fn new(lane: Lane) -> Self {
        Self {
            lane,
            seen: Health::Healthy,
            follower: Follower::new(),
        }
    }

    /// The health that was said last; at first, healthy.
    #[must_use]
    pub fn seen(&self) -> Health {
        self.seen
    }

    /// The next change: what the health is when it differs from [`HealthWatch::seen`], `None` when it will not change any
    /// more. Nothing is lost when the future is dropped.
    pub async fn changed(&mut self) -> Option<HealthChange> {
        poll_fn(|cx| self.poll_changed(cx)).await
    }

    /// The same for a thread: an iterator that blocks until there is a change, and ends when there will be none any more.
    ///
    /// ```
    /// use nrta::{Health, Runtime};
    ///
    /// let runtime = Runtime::builder().open()?;
    /// let watch = runtime.core(0)?.compute().watch();
    /// let watching = std::thread::spawn(|| watch.blocking().map(|change| change.health).collect::<Vec<_>>());
    /// runtime.close();
    /// assert_eq!(watching.join().unwrap(), [Health::Closing]);
    /// # Ok::<(), nrta::Error>(())
    /// ```
    ///
    /// On a thread of the runtime, where a waker may run, it would wait for itself: there it ends when it would block.
    pub fn blocking(self) -> Blocking<Self> {
        Blocking(self)
    }

    fn poll_changed(&mut self, cx: &Context<'_>) -> Poll<Option<HealthChange>> {
        let unit = self.lane.any_unit();
        let changed = unit.poll_health(self.seen, &mut self.follower, cx);
        if let Poll::Ready(Some(health)) = changed {
            self.seen = health;
        }
        changed.map(|changed| {
            changed.map(|health| HealthChange {
                health,
                cause: unit.cause().filter(|_| health == Health::Degraded),
            })
        })
    }
}

impl Stream for HealthWatch {
    type Item = HealthChange;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<HealthChange>> {
        self.poll_changed(cx)
    }
}

impl Drop for HealthWatch {
    fn drop(&mut self) {
        self.lane.any_unit().unfollow_health(&mut self.follower);
    }
}

impl fmt::Debug for HealthWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HealthWatch")
            .field("xu", &self.lane.any_unit().xu())
            .field("seen", &self.seen)
            .finish_non_exhaustive()
    }
}
