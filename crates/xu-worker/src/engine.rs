//! What differs between kinds of units, on either side of the ring.
//!
//! Implemented by `nrta` for compute and tensor-op units. [`Stage`] runs on the submitting thread under the
//! submit lock, [`Engine`] on the worker thread; neither may block, but for [`Engine::quiesce`].
//! Spec `xu.md` section 4 (submit funnel, step).

use crate::completion::SKIPPED;
use crate::health::Cause;
use core::time::Duration;
use xu_abi::Status;

/// What happens to a request between the gates and the ring.
pub trait Stage: Send {
    /// A request.
    type Item: Send;
    /// What its caller learns.
    type Outcome: Send;

    /// Checks and builds. Nothing that the device can see is touched.
    ///
    /// # Errors
    /// The request is handed back, the unit is unharmed.
    fn prepare(&mut self, item: &mut Self::Item) -> Result<(), StageError>;

    /// Writes the request to the device and rings its doorbell.
    ///
    /// # Errors
    /// From the first byte on the device may know: any error degrades the unit, and the request is kept
    /// until the unit is dropped.
    fn commit(&mut self, item: &mut Self::Item) -> Result<(), StageError>;

    /// The id of the model that the request runs, for the unit's `last_posted_model`; 0 is none.
    fn model(&self, item: &Self::Item) -> u32 {
        let _ = item;
        0
    }
}

/// Why a request was not staged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct StageError {
    /// The status for the caller.
    pub status: Status,
    /// What happened, for people.
    pub text: String,
}

impl StageError {
    /// An error with this status; the text is that of `cause`.
    pub fn new(status: Status, cause: impl core::fmt::Display) -> Self {
        Self {
            status,
            text: cause.to_string(),
        }
    }
}

/// What happens to a request at the head of the ring.
pub trait Engine: Send {
    /// A request, as the unit's [`Stage`] has prepared it.
    type Item: Send;
    /// What the caller learns.
    type Outcome: Send;

    /// Whether requests can be skipped by their callers until they begin: where nobody but the unit knows of a request before.
    /// It costs one atomic operation for each request; where it is `false`, none.
    const CAN_SKIP: bool = false;

    /// The request has reached the head of its queue: its clock starts.
    fn begin(&mut self, item: &mut Self::Item);

    /// One look, without blocking.
    fn progress(&mut self, item: &mut Self::Item) -> Progress;

    /// Brings the device to rest, for a stop request of a unit that is not degraded; for one that is, the owner of the device
    /// has to see to that. May wait for as long as the device needs to come to rest.
    ///
    /// # Errors
    /// The device does not come to rest; the unit degrades.
    fn quiesce(&mut self) -> Result<(), Cause>;

    /// Gives up what the request held and says what to tell its caller.
    ///
    /// Called once per request, whether it ran or not ([`Engine::skip`] is for those that were skipped), before its completion becomes visible.
    /// What the device may still touch must be kept, not freed: the unit is degraded then.
    fn finish(&mut self, item: Self::Item, status: Status) -> Self::Outcome;

    /// As [`Engine::finish`] in its place, for a request that was skipped: it has not begun. The unit is healthy.
    fn skip(&mut self, item: Self::Item) -> Self::Outcome {
        self.finish(item, SKIPPED)
    }

    /// The id of the model that the request runs, for the unit's `last_exec_model`; 0 is none.
    fn model(&self, item: &Self::Item) -> u32 {
        let _ = item;
        0
    }

    /// What the log says of the request that was finished last. Asked after its completion, when somebody listens.
    fn describe(&self) -> Description {
        Description::default()
    }
}

/// What is known of a finished request beside its status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// What the caller called for; `None`: what its queue does.
    pub call: Option<&'static str>,
    /// How long the device worked on it, when that is known.
    pub device_time: Option<Duration>,
}

/// What one look found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Still running.
    Continue,
    /// Finished; the unit goes on, whatever the status.
    Done(Status),
    /// Finished, and the unit degrades. The cause's status is that of the request.
    Fatal(Cause),
}
