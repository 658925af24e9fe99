//! The health of a unit: healthy, closing, degraded; it only ever gets worse, and keeps its first cause.
//!
//! Written by submitters and the worker, read by anyone. Spec `xu.md` sections 2.3 and 4.

use crate::sync::{AtomicU32, Mutex, Ordering};
use core::fmt;
use xu_abi::{SeqId, Status};

/// Whether a unit takes work. The values are those of the ABI's `health_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum Health {
    /// Normal operation.
    Healthy = 0,
    /// The runtime is closing: queued requests finish, new ones are refused.
    Closing = 1,
    /// A fatal error occurred: queued requests complete with an error, new ones are refused.
    Degraded = 2,
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Healthy => "healthy",
            Self::Closing => "closing",
            Self::Degraded => "degraded",
        })
    }
}

/// Why a unit is degraded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The status of the request that hit the error. `SUCCESS` from an engine counts as `FAILURE`.
    pub status: Status,
    /// That request, when one was accepted. The unit fills it in: an engine leaves it `None`.
    pub seq: Option<SeqId>,
    /// What happened, for people.
    pub text: String,
}

impl Cause {
    /// What is fatal is no success, whatever an engine says.
    pub(crate) fn not_success(self) -> Self {
        let status = if self.status.is_success() {
            Status::FAILURE
        } else {
            self.status
        };
        Self { status, ..self }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.seq {
            Some(seq) => write!(f, "{} at {seq}: {}", self.status, self.text),
            None => write!(f, "{}: {}", self.status, self.text),
        }
    }
}

/// A unit's `health_status`, which is in its entry of the table, and the cause, which is beside.
#[derive(Debug)]
pub(crate) struct HealthCell<'a> {
    pub(crate) status: &'a AtomicU32,
    pub(crate) cause: &'a Mutex<Option<Cause>>,
}

impl HealthCell<'_> {
    #[inline]
    pub(crate) fn get(&self) -> Health {
        // PAIRS: with the AcqRel in `worsen`; whoever sees Degraded also finds the cause.
        match self.status.load(Ordering::Acquire) {
            0 => Health::Healthy,
            1 => Health::Closing,
            _ => Health::Degraded,
        }
    }

    pub(crate) fn close(&self) {
        self.worsen(Health::Closing);
    }

    /// Degrades; the first cause stands.
    pub(crate) fn degrade(&self, cause: Cause) {
        self.cause.lock().get_or_insert(cause);
        self.worsen(Health::Degraded);
    }

    pub(crate) fn cause(&self) -> Option<Cause> {
        self.cause.lock().clone()
    }

    fn worsen(&self, to: Health) {
        // PAIRS: with the acquire load in `get`. A maximum, so that no writer can undo another.
        self.status.fetch_max(to as u32, Ordering::AcqRel);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn health_only_gets_worse_and_keeps_its_first_cause() {
        let (status, cause) = (AtomicU32::new(0), Mutex::new(None));
        let health = HealthCell {
            status: &status,
            cause: &cause,
        };
        let cause = |text: &str| Cause {
            status: Status::TIMEOUT,
            seq: None,
            text: text.into(),
        };
        health.degrade(cause("first"));
        health.close();
        health.degrade(cause("second"));
        assert_eq!(health.get(), Health::Degraded);
        assert_eq!(health.cause().unwrap().text, "first");
    }
}
